"""The table of models: a line for each, what stays external, and what each kind of model passes."""

import collections
from pathlib import Path

from report import store

HEADER = (
    "model",
    "outcome",
    "difference",
    "recorded",
    "external",
    "syncs",
    "eager s",
    "lazuli s",
    "compiling s",
    "external s",
)


def external_of(facts: dict) -> int:
    return sum(facts["external"].values())


def native_share(found: list[dict]) -> float:
    """Which part of what was recorded has kernels of ours."""
    recorded = sum(facts["recorded"] for facts in found)
    return 1 - sum(map(external_of, found)) / max(recorded, 1)


def excuse(explained: dict) -> str:
    """How far eager's own tensors move, and both numbers of the one with the weakest excuse."""
    mine, own, most = (f"{explained[k]:.2g}" for k in ("difference", "eager", "eager_most"))
    shown = f"eager itself {most}; {explained['tensor']} {mine}, eager itself {own}"
    if "elsewhere" in explained:
        shown += f", with most other weights {explained['elsewhere']:.2g}"
    return shown + (f"; float64 {explained['float64']:.0e}" if "float64" in explained else "")


def line(name: str, result: dict) -> str:
    facts = result.get("facts")
    if not facts:
        return f"| {name} | {result['outcome']} |" + " |" * (len(HEADER) - 2)
    difference = f"{facts['difference']:.1g}"
    if facts["explained"]:
        difference += f" ({excuse(facts['explained'])})"
    cells = [
        name,
        result["outcome"],
        difference,
        str(facts["recorded"]),
        str(external_of(facts)),
        ", ".join(f"{reason} {count}" for reason, count in facts["syncs"].items()),
        f"{facts['eager_seconds']:.2f}",
        f"{facts['seconds']:.2f}",
        f"{facts['compile_seconds']:.2f}",
        f"{facts['external_seconds']:.2f}",
    ]
    return "| " + " | ".join(cells) + " |"


def externals(found: list[dict]) -> list[str]:
    """What has no kernel of ours: how often, and in how many models."""
    calls, models = collections.Counter(), collections.Counter()
    for facts in found:
        calls.update(facts["external"])
        models.update(facts["external"].keys())
    lines = ["| external call | calls | models |", "|---|---|---|"]
    return lines + [f"| {op} | {n} | {models[op]} |" for op, n in calls.most_common()]


def markdown(title: str, about: str, outcomes: dict) -> str:
    found = [result["facts"] for result in outcomes.values() if result.get("facts")]
    passed = sum(result["outcome"] == "passed" for result in outcomes.values())
    lines = [f"# {title}", "", about, ""]
    lines.append(f"{passed} of {len(outcomes)} models pass. Of what they record")
    lines += [f"{100 * native_share(found):.2f} % has kernels of ours.", ""]
    lines += ["| " + " | ".join(HEADER) + " |", "|---" * len(HEADER) + "|"]
    lines += [line(name, result) for name, result in outcomes.items()]
    lines += ["", *externals(found)]
    failed = {name: r["message"] for name, r in outcomes.items() if r["outcome"] != "passed"}
    lines += ["", *(f"- {name}: {text.splitlines()[0]}" for name, text in failed.items())]
    return "\n".join(lines).rstrip() + "\n"


def brief(result: dict) -> str:
    return f"{result['facts']['difference']:.1g}" if "facts" in result else result["outcome"]


def settings_markdown(about: str, outcomes: dict) -> str:
    """Models and tests under settings: the difference from eager, or the outcome."""
    models = list(dict.fromkeys(name for found in outcomes.values() for name in found))
    lines = ["# under settings", "", about, ""]
    lines += [
        "Of a model, the largest difference from eager. Each column of tests, and the models of"
    ]
    lines += ["each row, ran in a process of their own, whose kernel caches were empty.", ""]
    lines += ["| setting | " + " | ".join(models) + " |", "|---" * (len(models) + 1) + "|"]
    for setting, found in outcomes.items():
        results = [found.get(name, {"outcome": "not run"}) for name in models]
        lines.append("| " + " | ".join([setting, *map(brief, results)]) + " |")
    return "\n".join(lines) + "\n"


def group_markdown(title: str, about: str, outcomes: dict) -> str:
    """Models under several settings: the difference from eager, or the outcome."""
    models = list(dict.fromkeys(name for found in outcomes.values() for name in found))
    lines = [f"# {title}", "", about, ""]
    for setting, found in outcomes.items():
        passed = sum(result["outcome"] == "passed" for result in found.values())
        lines.append(f"- {setting}: {passed} of {len(found)} models pass")
    lines += ["", "The largest difference from eager:", ""]
    lines += ["| model | " + " | ".join(outcomes) + " |", "|---" * (len(outcomes) + 1) + "|"]
    for name in models:
        results = [found.get(name, {"outcome": "not run"}) for found in outcomes.values()]
        lines.append("| " + " | ".join([name, *map(brief, results)]) + " |")
    return "\n".join(lines) + "\n"


def file_of(title: str) -> str:
    return title.replace(", ", "-").replace(" ", "-")


def write_group(setting: str, about: str, outcomes: dict, folder: Path) -> None:
    title = f"models, {setting}"
    failed = {
        s: {name: r for name, r in found.items() if r["outcome"] != "passed"}
        for s, found in outcomes.items()
    }
    report = {"about": about, "failed": failed}
    store(file_of(title), group_markdown(title, about, outcomes), report, folder)


def write(setting: str, about: str, outcomes: dict, folder: Path) -> None:
    title = "models" if setting == "plain" else f"models, {setting}"
    report = {"about": about, "models": outcomes}
    store(file_of(title), markdown(title, about, outcomes), report, folder)


def write_settings(about: str, outcomes: dict, folder: Path) -> None:
    report = {"about": about, "settings": outcomes}
    store("model-settings", settings_markdown(about, outcomes), report, folder)
