"""The page: all that it says, and nothing that a silo's name could make of it."""

import json
import re
from html import unescape
from html.parser import HTMLParser
from pathlib import Path

import plotly.graph_objects as go
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.report.page import Content, content, document, fragment, plotly_script
from fedct_flwr.report.sections import table_of_silos
from fedct_flwr.report.summary import read_run
from tests.report.folders import (
    SILOS,
    add_scores,
    add_weights_round,
    begin,
    finished,
)

NASTY = "<img src=x onerror=\"document.title='owned'\"></script><b>&amp;"


class Outline(HTMLParser):
    """Elements by tag, and headings."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.headings: list[int] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attributes)))
        if re.fullmatch(r"h\d", tag):
            self.headings.append(int(tag[1]))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]


def shown(path: Path) -> Content:
    return content(read_run(path))


@pytest.fixture
def one(tmp_path: Path) -> Content:
    return shown(finished(tmp_path / "run").path)


def test_it_is_one_file_that_loads_nothing(one: Content):
    page = document(one)
    assert page.count(plotly_script().read_text("utf-8")) == 1
    assert len(page.encode()) < 6_000_000
    outline = Outline(page.replace(plotly_script().read_text("utf-8"), ""))
    assert not outline.all("link")
    assert not any("src" in attributes for _, attributes in outline.tags)
    assert "default-src 'none'" in page
    assert "connect-src 'none'" in page
    assert "connect-src 'self'" in document(one, live=True)


def test_every_figure_is_one_that_plotly_knows(one: Content, tmp_path: Path):
    other = finished(tmp_path / "other", silos=[f"silo-{n}" for n in range(20)])
    for found in (one, shown(other.path)):
        for plot in found.plots.values():
            # Raises ValueError for a property that there is not.
            go.Figure(plot)


def test_every_figure_has_its_numbers_in_a_table(one: Content):
    agreement = next(f for s in one.sections for f in s.figures if f.id == "agreement")
    assert list(agreement.table.columns) == ["Round", *SILOS]
    assert list(agreement.table.rows[0]) == ["1", "60.0%", "59.0%", "58.0%"]
    for section in one.sections:
        for figure in section.figures:
            assert figure.table.rows
            assert {len(row) for row in figure.table.rows} == {len(figure.table.columns)}


def part(page: Content, tag: str, kind: str) -> list[str]:
    """The texts of all elements of this tag and class at a glance."""
    opened = f'{tag} class="{kind}"' if kind else tag
    found = re.findall(rf"<{opened}>(.*?)</{tag}>", fragment(page).partition("</section>")[0], re.S)
    return [" ".join(unescape(text).split()) for text in found]


def test_it_says_what_ran_and_how_it_went(one: Content, wording: SnapshotAssertion):
    assert one.title == "hearts: FedCT"
    (lead,) = part(one, "p", "lead")
    assert "3 silos trained together for 3 rounds; from round 3 on no label changed" in lead
    assert lead == wording
    tiles = dict(zip(part(one, "dt", ""), part(one, "dd", ""), strict=True))
    assert tiles["Agreement"] == "80.0%"
    assert tiles == wording
    assert [section.id for section in one.sections] == [
        "accuracy", "consensus", "traffic", "privacy", "silos", "settings",
    ]  # fmt: skip


def test_runs_that_share_weights(tmp_path: Path, wording: SnapshotAssertion):
    folder = begin(tmp_path / "run", algorithm="fedavg")
    add_weights_round(folder, 1, accuracy=0.7)
    add_weights_round(folder, 2, accuracy=0.75)
    folder.finish("completed")
    found = shown(folder.path)
    assert "agreement" not in found.plots
    assert found.plots["accuracy-pooled"]["data"][0]["y"] == [0.7, 0.75]
    assert part(found, "p", "lead")[0] == wording
    table = table_of_silos(read_run(folder.path))
    assert list(table.columns) == ["Silo", "bytes sent", "median delay", "rounds missed"]
    assert {len(row) for row in (*table.rows, *table.foot)} == {4}
    add_scores(folder)
    assert part(shown(folder.path), "p", "lead")[0] == wording


def test_a_name_with_html_is_text_everywhere(tmp_path: Path):
    folder = finished(tmp_path / "run", silos=["oslo", NASTY, "rome"], study=NASTY)
    found = shown(folder.path)
    page = document(found).replace(plotly_script().read_text("utf-8"), "")
    outline = Outline(page)
    assert not outline.all("img")
    assert not outline.all("b")
    assert len(outline.all("script")) == page.count("</script>") == 3
    (plots,) = re.findall(r'<script type="application/json" id="plots">(.*?)</script>', page, re.DOTALL)
    assert "<" not in plots
    assert json.loads(plots) == found.plots
    # Plotly reads some HTML in what it draws.
    drawn = json.dumps(found.plots)
    assert "<img" not in drawn
    assert "&lt;img" in drawn
