"""The page in a real browser."""

import json
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright

from fedct_flwr.report.live import live
from fedct_flwr.report.page import content, document
from fedct_flwr.report.summary import Run
from fedct_flwr.runs.run_folder import RunFolder
from tests.patience import PATIENCE
from tests.report.folders import add_round, add_scores, begin, finished
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
    path.write_text(document(content(Run(run))), encoding="utf-8")
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


def test_it_updates_while_a_run_goes_on_and_survives_its_end(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "run"
    with live(path) as server, opened(browser, server.url) as (page, complaints):
        status = page.get_by_role("status")
        expect(status).to_have_text("has not begun")
        folder = begin(path, silos=("oslo", NASTY))
        add_round(folder, 1, ("oslo", NASTY))
        expect(status).to_have_text("round 1 has ended")
        points = page.locator("[data-plot='agreement'] .point")
        expect(points).to_have_count(2)
        page.locator("#data-agreement summary").click()
        for number in (2, 3):
            add_round(folder, number, ("oslo", NASTY))
        expect(status).to_have_text("round 3 has ended")
        expect(points).to_have_count(6)
        expect(page.locator("#data-agreement tbody tr")).to_have_count(3)
        assert page.locator("main img, main b").count() == 0
        assert_focus_stays(page, folder)
        folder.finish("completed")
        expect(status).to_have_text("completed")
        add_scores(folder, ("oslo", NASTY))
        expect(page.locator("[data-plot='accuracy-pooled-end'] .point")).not_to_have_count(0)
        assert complaints == []
        server.shutdown()
        server.server_close()
        expect(status).to_have_text("completed; this page is no longer updated")
        expect(points).to_have_count(10)
        assert all("Failed to load resource" in complaint for complaint in complaints)


def assert_focus_stays(page: Page, folder: RunFolder) -> None:
    """The keyboard's focus stays where it is, while two more rounds end."""
    places = [page.get_by_role("link", name="Consensus"), page.locator("#glance .scroll")]
    for number, place in enumerate(places, start=4):
        place.focus()
        add_round(folder, number, ("oslo", NASTY))
        expect(page.get_by_role("status")).to_have_text(f"round {number} has ended")
        expect(place).to_be_focused()
