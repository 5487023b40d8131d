"""The documentation as a site: it builds without a warning, loads nothing from elsewhere, can be searched offline."""

import os
import re
import subprocess
import sys
from pathlib import Path

import click
import pytest
import typer

from fedct_flwr.cli.main import app
from tests.patience import PATIENCE
from tests.readme import ROOT

pytestmark = pytest.mark.slow


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
