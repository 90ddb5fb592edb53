"""Small data in the files that programs look for, made of what scikit-learn ships.

A program that downloads MNIST finds it downloaded already.
"""

import gzip
import struct
from pathlib import Path

import numpy as np

SIDE = 28


def put(name: str, folder: Path) -> None:
    """Writes the set of that name into a folder.

    Raises KeyError if there is no such set.
    """
    SETS[name](folder)


def _digits(count: int) -> tuple[np.ndarray, np.ndarray]:
    """Images of 28 x 28 bytes and their labels: scikit-learn's digits, three times as large."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    small = np.kron(digits.images, np.ones((3, 3))) * 15.9
    images = np.pad(small, ((0, 0), (2, 2), (2, 2))).astype(np.uint8)
    chosen = np.random.RandomState(0).permutation(len(images))
    chosen = np.resize(chosen, count)
    return images[chosen], digits.target[chosen].astype(np.uint8)


def _mnist(train: int, test: int, name: str = "MNIST"):
    def write(folder: Path) -> None:
        raw = folder / name / "raw"
        raw.mkdir(parents=True)
        images, labels = _digits(train + test)
        for part, chosen in (("train", slice(train)), ("t10k", slice(train, None))):
            _write_idx(raw / f"{part}-images-idx3-ubyte", images[chosen])
            _write_idx(raw / f"{part}-labels-idx1-ubyte", labels[chosen])

    return write


def _write_idx(path: Path, array: np.ndarray) -> None:
    """The format of the MNIST files, as it is and compressed."""
    unsigned_bytes = 8
    head = struct.pack(">HBB", 0, unsigned_bytes, array.ndim)
    head += struct.pack(f">{array.ndim}I", *array.shape)
    path.write_bytes(head + array.tobytes())
    with gzip.open(f"{path}.gz", "wb", compresslevel=1) as packed:
        packed.write(head + array.tobytes())


def _emnist(folder: Path) -> None:
    """The split of balanced classes, of which these are the first ten."""
    raw = folder / "EMNIST" / "raw"
    raw.mkdir(parents=True)
    images, labels = _digits(1600)
    for part, chosen in (("train", slice(1280)), ("test", slice(1280, None))):
        _write_idx(raw / f"emnist-balanced-{part}-images-idx3-ubyte", images[chosen])
        _write_idx(raw / f"emnist-balanced-{part}-labels-idx1-ubyte", labels[chosen])


SETS = {
    "emnist": _emnist,
    "mnist": _mnist(1280, 320),
    "mnist, large": _mnist(60000, 10000),
    "fashion": _mnist(1280, 320, "FashionMNIST"),
    "fashion, large": _mnist(60000, 10000, "FashionMNIST"),
}
