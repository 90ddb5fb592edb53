"""What the pages name is there: links, files, settings."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGES = sorted(
    page
    for page in [*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md"), *ROOT.glob("*/**/README.md")]
    if not {"build", ".venv", "node_modules"} & set(page.relative_to(ROOT).parts)
)
FOLDERS = "ir|lowering|jit|lazy|backend|tests|tools|docs|benchmarks|demo|cmake"
CODE = re.compile(r"`([^`\n]+)`")
NAMED = re.compile(rf"(?:{FOLDERS})/[\w./*-]+")
SETTING = re.compile(r"LAZULI_[A-Z_]+")


def prose(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", prose(page), re.M)
    return {re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_links_lead_somewhere(page):
    for target in re.findall(r"\]\(([^)]+)\)", prose(page)):
        if re.match(r"https?:", target):
            continue
        path, _, anchor = target.partition("#")
        to = (page.parent / path).resolve() if path else page
        assert to.exists(), target
        assert not anchor or anchor in anchors(to), target


@pytest.mark.parametrize("page", PAGES, ids=lambda p: str(p.relative_to(ROOT)))
def test_files_that_are_named_exist(page):
    for code in CODE.findall(prose(page)):
        if match := NAMED.fullmatch(code.split()[0]):
            assert list(ROOT.glob(match[0].rstrip("/"))), code


def test_settings_that_are_named_exist():
    sources = [p for p in (ROOT / "tools").iterdir() if p.is_file()]
    for folder in ("ir", "lowering", "jit", "lazy", "backend", "tests", "cmake"):
        sources += [p for p in (ROOT / folder).rglob("*") if p.suffix in {".py", ".cpp", ".cmake"}]
    text = "\n".join(p.read_text() for p in sources if p != Path(__file__))
    known = set(SETTING.findall(text))
    for page in PAGES:
        unknown = set(SETTING.findall(page.read_text())) - known
        assert not unknown, page
