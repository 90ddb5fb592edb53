"""The page in a browser: Chromium, without a window and without a network, driven by playwright."""

import contextlib
import shutil

import models
import pytest
import torch

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
pytestmark = pytest.mark.skipif(not CHROMIUM, reason="Chromium is not installed (apt: chromium)")
STEPS = 8
TABS = ["lines", "timeline", "kernels", "graph", "traces", "events", "memory"]


@pytest.fixture(scope="module")
def browser():
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (pip install playwright)"
    )
    with playwright.sync_playwright() as p:
        browser = p.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


@pytest.fixture(scope="module", params=["images", "bert"])
def file(request, tmp_path_factory):
    """The report of a small training."""
    path = tmp_path_factory.mktemp("report") / f"{request.param}.html"
    train = {"images": models.train_images, "bert": models.train_bert}[request.param]
    with torch.lazuli.config.patch(tiers="plans"), torch.lazuli.report(path):
        train(STEPS)
    return path


@contextlib.contextmanager
def opened(browser, file, color="light"):
    """The page, opened. An error in its code, or a request to a network, fails the test."""
    context = browser.new_context(
        color_scheme=color, viewport={"width": 1280, "height": 800}, offline=True
    )
    page = context.new_page()
    errors = []
    page.on("pageerror", lambda error: errors.append(str(error)))
    page.on("requestfailed", lambda asked: errors.append(asked.url))
    page.goto(file.as_uri())
    page.wait_for_selector("html[data-ready]")
    yield page
    context.close()
    assert errors == []


@pytest.fixture(params=["light", "dark"])
def page(browser, file, request):
    with opened(browser, file, request.param) as page:
        yield page


def colors(page) -> tuple[int, int]:
    """How bright paper and ink are."""
    script = "s => getComputedStyle(document.body)[s].match(/\\d+/g).slice(0, 3).map(Number)"
    return tuple(sum(page.evaluate(script, name)) for name in ("backgroundColor", "color"))


def test_light_and_dark(page, request):
    paper, ink = colors(page)
    is_dark = page.evaluate("matchMedia('(prefers-color-scheme: dark)').matches")
    assert (paper < ink) == is_dark


def test_from_the_graph_to_assembly_and_line(page):
    page.click("[data-tab=graph]")
    page.select_option("[aria-label='Fold by']", "kernel")
    page.fill("[data-search]", "mul")
    assert page.locator(".node.found").count() > 0
    # A box of a kernel of ours: others are library calls, which have no code to show.
    for i in range(page.locator(".node.found").count()):
        page.locator(".node.found").nth(i).dispatch_event("click")
        if page.locator("[data-form=s], [data-form=ptx]").count():
            break
    page.click("[data-form=nest]")
    assert "load" in page.inner_text("#code")
    page.click("[data-form=ll]")
    assert "define" in page.inner_text("#code")
    page.click("[data-form=s], [data-form=ptx]")
    assert "ret" in page.inner_text("#code")
    assert "read and written" in page.inner_text("#detail")
    link = page.locator("#detail a").first
    where = link.inner_text()
    link.click()
    chosen = page.locator("tr.chosen")
    assert page.get_attribute("#view", "data-view") == "lines"
    assert chosen.locator("td.number").inner_text() == where.rpartition(":")[2]
    assert page.inner_text("#detail h2") == where


def test_folding(page):
    page.click("[data-tab=graph]")
    few = page.locator(".node").count()
    page.locator(".node.group").first.dispatch_event("dblclick")
    more = page.locator(".node").count()
    assert more > few
    page.select_option("[aria-label='Fold by']", "line")
    assert page.locator(".node.group").count() > 0
    page.select_option("[aria-label='Fold by']", "module")
    assert page.locator(".node").count() == few


def test_kernels_and_why_traces_are_new(page):
    page.click("[data-tab=kernels]")
    page.locator("#view tbody tr").first.click()
    assert "Time" in page.inner_text("#detail")
    page.click("[data-tab=traces]")
    page.locator("#view tbody tr").first.click()
    assert "Why it was new" in page.inner_text("#detail")
    page.click("text=Show its graph")
    assert page.locator(".node").count() > 0


def rows_of_kernels(page) -> list[dict[str, str]]:
    page.click("[data-tab=kernels]")
    page.select_option("[aria-label='Kind']", "kernel")
    titles = page.locator("#view th").all_inner_texts()
    rows = [row.locator("td").all_inner_texts() for row in page.locator("#view tbody tr").all()]
    return [dict(zip(titles, row, strict=True)) for row in rows]


def test_kernels_have_bytes_and_a_share_of_the_bandwidth(page):
    rows = rows_of_kernels(page)
    assert rows
    assert "on the GPU" not in rows[0]
    for row in rows:
        assert row["bytes"].endswith("B")
        assert row["bandwidth"].endswith("/s")
        assert row["of copying"].endswith("%")
    page.locator("#view tbody tr").first.click()
    assert "of what copying reaches" in page.inner_text("#detail")
    page.click("[data-tab=graph]")
    page.select_option("[aria-label='Fold by']", "kernel")
    assert "of what copying reaches" in " ".join(page.locator(".node title").all_text_contents())


def test_with_a_gpu_the_share_is_that_of_the_time_there(browser, tmp_path):
    """The data are the CPU's, with times as a GPU gives them: half of what copying reaches."""
    with torch.lazuli.config.patch(tiers="plans"), torch.lazuli.report() as report:
        models.train_images(STEPS)
    data = report.data
    data["device"] = "cuda:0"
    unmeasured = 0
    for executable in data["executables"]:
        moved = executable["steps"]["bytes"]
        executable["device_count"] = [3 * (i != unmeasured) for i in range(len(moved))]
        executable["device_total"] = [
            3 * 2 * size / data["bandwidth"] * 1e6 * (i != unmeasured)
            for i, size in enumerate(moved)
        ]
    report.save(tmp_path / "gpu.html")
    with opened(browser, tmp_path / "gpu.html") as page:
        shares = [row["of copying"] for row in rows_of_kernels(page)]
        assert set(shares) <= {"50 %", ""}
        assert "50 %" in shares
        page.locator("#view tbody tr", has_text="50 %").first.click()
        detail = page.inner_text("#detail")
        assert "mean of 3 launches that were measured" in detail
        assert "50 % of what copying reaches" in detail


def test_the_timeline_goes_down_to_kernels(page):
    page.click("[data-tab=timeline]")
    page.click("text=Last run")
    page.focus("canvas")
    page.keyboard.press("+")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("n")
    page.keyboard.press("Enter")
    assert "Python lines" in page.inner_text("#detail")


def test_keys(page):
    for key, tab in enumerate(TABS, 1):
        page.keyboard.press(str(key))
        assert page.get_attribute("[role=tab][aria-selected=true]", "data-tab") == tab
    page.focus("[role=tab][aria-selected=true]")
    page.keyboard.press("ArrowLeft")
    assert page.get_attribute("[role=tab][aria-selected=true]", "data-tab") == TABS[-2]
    page.keyboard.press("4")
    page.keyboard.press("/")
    assert page.evaluate("document.activeElement.type") == "search"
    page.keyboard.press("Escape")
    page.locator(".node").first.focus()
    page.keyboard.press("Enter")
    assert page.is_visible("#detail")
    page.keyboard.press("Escape")
    assert not page.is_visible("#detail")
