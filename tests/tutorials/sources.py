"""Fetches and unpacks source distributions, from the index that pip uses."""

import contextlib
import hashlib
import json
import os
import tarfile
import tempfile
import urllib.request
import zipfile
from pathlib import Path

_JSON = "application/vnd.pypi.simple.v1+json"
_ENDS = (".tar.gz", ".zip")


class NoSource(Exception):
    """The index has no source distribution of a version, or not the file that it promised."""


def fetch(package: str, version: str, cache: Path) -> Path:
    """The folder of the unpacked distribution; it is fetched if it is not in the cache.

    Raises NoSource if there is none, or if its checksum is not the index's.
    """
    folder = cache / f"{package}-{version}"
    if not folder.exists():
        entry = _entry(package, version)
        with urllib.request.urlopen(entry["url"], timeout=180) as answer:
            content = answer.read()
        if hashlib.sha256(content).hexdigest() != entry["hashes"]["sha256"]:
            raise NoSource(f"{entry['filename']} is not what the index says")
        cache.mkdir(parents=True, exist_ok=True)
        # Whole or not at all, whoever else fetches it.
        with tempfile.TemporaryDirectory(dir=cache) as temporary:
            archive = Path(temporary) / entry["filename"]
            archive.write_bytes(content)
            _unpack(archive, Path(temporary) / "unpacked")
            with contextlib.suppress(OSError):  # another process was first
                (Path(temporary) / "unpacked").rename(folder)
    (inside,) = folder.iterdir()
    return inside


def _entry(package: str, version: str) -> dict:
    index = os.environ.get("PIP_INDEX_URL", "https://pypi.org/simple").rstrip("/")
    request = urllib.request.Request(f"{index}/{package.lower()}/", headers={"Accept": _JSON})
    with urllib.request.urlopen(request, timeout=180) as answer:
        files = json.load(answer)["files"]
    for entry in files:
        if is_source_of(entry["filename"], package, version):
            return entry
    raise NoSource(f"{package} {version} has no source distribution")


def is_source_of(filename: str, package: str, version: str) -> bool:
    """Whether a file of the index is the source distribution of that version."""
    for end in _ENDS:
        if filename.endswith(f"-{version}{end}"):
            stem = filename.removesuffix(f"-{version}{end}")
            return _plain(stem) == _plain(package)
    return False


def _plain(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")


def _unpack(archive: Path, part: Path) -> None:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as opened:
            opened.extractall(part)
    else:
        with tarfile.open(archive) as opened:
            opened.extractall(part, filter="data")
