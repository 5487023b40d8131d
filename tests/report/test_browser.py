"""The page in a real browser."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from fedct_flwr.report.page import write_report
from fedct_flwr.report.summary import RunSummary
from tests.patience import PATIENCE
from tests.report.folders import add_round, begin, finished
from tests.report.test_page import NASTY

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")


expect.set_options(timeout=1000 * PATIENCE)

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(CHROMIUM is None, reason="there is no Chromium: install chromium-headless-shell"),
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, timeout=1000 * PATIENCE)
        yield browser
        browser.close()


@contextmanager
def opened(browser: Browser, address: str, **options: Any) -> Iterator[tuple[Page, list[str]]]:
    """A page, and what it complains of."""
    context = browser.new_context(**options)
    page, complaints = context.new_page(), []
    page.set_default_timeout(1000 * PATIENCE)
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("console", lambda message: message.type in {"error", "warning"} and complaints.append(message.text))
    page.on("dialog", lambda dialog: complaints.append(f"dialog: {dialog.message}"))
    page.goto(address)
    page.wait_for_selector("body[data-drawn]")
    yield page, complaints
    context.close()


def written(path: Path, run: Path) -> str:
    write_report(RunSummary(run), path)
    return path.as_uri()


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report, as a file."""
    folder = tmp_path_factory.mktemp("report")
    run = finished(folder / "run")
    matrix = {"round": 3, "silos": ["oslo", "rome"], "matrix": [[0.7, 0.3], [0.4, 0.6]]}
    (run.path / "trust.jsonl").write_text(json.dumps(matrix) + "\n")
    return written(folder / "report.html", run.path)


def test_all_figures_are_drawn_without_a_complaint(browser: Browser, address: str) -> None:
    with opened(browser, address) as (page, complaints):
        assert page.locator("[data-plot]").count() == page.locator("[data-plot] svg.main-svg >> nth=0").count() * (
            page.locator("[data-plot]:has(svg.main-svg)").count()
        )
        names = page.locator("[data-plot='agreement'] .legendtext").all_text_contents()
        assert names == ["oslo", "rome", "cairo"]
        assert complaints == []


def test_nothing_overflows_on_a_telephone(browser: Browser, address: str) -> None:
    with opened(browser, address, viewport={"width": 390, "height": 800}) as (page, _):
        assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_an_open_page_reloads_itself_until_the_run_ends(browser: Browser, tmp_path: Path) -> None:
    folder, page_file = begin(tmp_path / "run", silos=("oslo", NASTY)), tmp_path / "report.html"
    add_round(folder, 1, ("oslo", NASTY))
    write_report(RunSummary(folder.path), page_file, reloads=True)
    with opened(browser, page_file.as_uri()) as (page, complaints):
        status = page.get_by_role("status")
        expect(status).to_have_text("round 1 has ended")
        assert page.locator("main img, main b").count() == 0
        folder.finish("completed")
        write_report(RunSummary(folder.path), page_file)
        expect(status).to_have_text("completed")
        assert page.locator("meta[http-equiv=refresh]").count() == 0
        assert complaints == []
