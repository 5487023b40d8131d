"""The documentation as a site: it builds without a warning, loads nothing from elsewhere, can be searched offline."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest
import typer

from fedct_flwr.cli.main import app
from tests.patience import PATIENCE
from tests.readme import ROOT

CHROMIUM = shutil.which("chromium-headless-shell") or shutil.which("chromium")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", folder],
        cwd=ROOT, env={**os.environ, "NO_MKDOCS_2_WARNING": "1"}, capture_output=True, text=True, timeout=PATIENCE,
    )  # fmt: skip
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    return folder


def test_it_builds_without_a_warning(site: Path) -> None:
    assert (site / "index.html").is_file()
    assert not list(site.rglob("*.py"))


def test_no_page_loads_anything_from_elsewhere(site: Path) -> None:
    for page in site.rglob("*.html"):
        text = page.read_text("utf-8")
        assert not re.findall(r"<(?:script|img|iframe)[^>]+src=\"?(?:https?:)?//[^\s\">]+", text), page
        assert not re.findall(r"<link[^>]+rel=\"?(?:stylesheet|preconnect)[^>]+href=\"?(?:https?:)?//", text), page


def test_every_command_is_explained(site: Path) -> None:
    page = (site / "reference" / "commands.html").read_text("utf-8")

    def check(command: click.Command, words: list[str]) -> None:
        assert f'id="{"-".join(words)}"' in page or len(words) == 1, words
        if isinstance(command, click.Group):
            for name, found in command.commands.items():
                check(found, [*words, name])

    check(typer.main.get_command(app), ["fedct"])


@pytest.mark.parametrize("name", ["fedct_flwr.consensus.counting.plurality", "fedct_flwr.privacy.ledger.Ledger.charge"])
def test_the_library_is_explained(name: str, site: Path) -> None:
    assert any(f'id="{name}"' in page.read_text("utf-8") for page in (site / "reference" / "api").glob("*.html"))


def test_a_doctest_is_code_and_no_quotation(site: Path) -> None:
    page = (site / "reference" / "api" / "core.html").read_text("utf-8")
    assert "language-pycon" in page
    assert "<blockquote>" not in page


@pytest.mark.skipif(CHROMIUM is None, reason="needs chromium-headless-shell")
def test_pages_from_a_disk_can_be_searched(site: Path) -> None:
    from playwright.sync_api import sync_playwright

    wrong: list[str] = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"], timeout=1000 * PATIENCE)
        page = browser.new_page()
        page.set_default_timeout(1000 * PATIENCE)
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: request.url.startswith("file:") or wrong.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.keyboard.press("/")
        page.keyboard.type("plurality")
        page.wait_for_selector(".md-search-result__item")
        browser.close()
    assert wrong == []


def test_the_makefile_tells_how_to_write_it() -> None:
    done = subprocess.run(["make", "help"], cwd=ROOT, capture_output=True, text=True, check=True)
    assert re.search(r"^docs +Write the documentation", done.stdout, re.MULTILINE)
