"""The page: all that it says, and nothing that a silo's name could make of it."""

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import plotly.graph_objects as go
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.report.figure import COLORS, MUTED, numbers
from fedct_flwr.report.over_rounds import MOST_POINTS, spread
from fedct_flwr.report.page import Content, as_script, content, document, fragment, plotly_script
from fedct_flwr.report.summary import read_runs
from fedct_flwr.runs.run_folder import RunFolder
from tests.report.folders import (
    SILOS,
    add_round,
    add_scores,
    add_weights_round,
    begin,
    finished,
    of_a_quantity,
    safetensors,
)

NASTY = "<img src=x onerror=\"document.title='owned'\"></script><b>&amp;"
CSS = (Path(__file__).parents[2] / "fedct_flwr" / "report" / "page.css").read_text()


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


def shown(*paths: Path) -> Content:
    return content(read_runs(paths))


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


def test_it_reads_well_aloud(one: Content):
    page = document(one).replace(plotly_script().read_text("utf-8"), "")
    outline = Outline(page)
    assert outline.all("html") == [{"lang": "en"}]
    for landmark in ("header", "nav", "main", "footer"):
        assert len(outline.all(landmark)) == 1
    assert outline.headings.count(1) == 1
    assert all(later - earlier <= 1 for earlier, later in zip(outline.headings, outline.headings[1:], strict=False))
    assert ("a", {"class": "skip", "href": "#main"}) in outline.tags
    plots = [attributes for attributes in outline.all("div") if "data-plot" in attributes]
    assert len(plots) == len(one.plots) == page.count("<figcaption>") == len(outline.all("figcaption")) > 4
    for plot in plots:
        assert plot["role"] == "img"
        assert re.search(r"\. .*\w.*\.$", plot["aria-label"] or "", re.DOTALL), plot
    ids = [attributes["id"] for _, attributes in outline.tags if "id" in attributes]
    assert len(ids) == len(set(ids))


def test_every_figure_is_one_that_plotly_knows(one: Content, tmp_path: Path):
    other = finished(tmp_path / "other", silos=[f"silo-{n}" for n in range(20)])
    both = shown(tmp_path / "run", other.path)
    for found in (one, both, shown(other.path)):
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


def test_it_says_what_ran_and_how_it_went(one: Content, wording: SnapshotAssertion):
    assert one.glance.title == "hearts: FedCT"
    assert "3 silos trained together for 3 rounds; from round 3 on no label changed" in one.glance.sentence
    assert one.glance.sentence == wording
    tiles = {tile.name: tile.value for tile in one.glance.tiles}
    assert tiles["Agreement"] == "80.0%"
    assert tiles == wording
    assert [section.id for section in one.sections] == [
        "accuracy", "consensus", "traffic", "privacy", "silos", "settings",
    ]  # fmt: skip


def test_scores_that_nobody_has_take_no_room(tmp_path: Path):
    folder = finished(tmp_path / "run")
    text = (folder.path / "scores.json").read_text()
    (folder.path / "scores.json").write_text(text.replace("0.6", "null").replace("0.8", "null"))
    found = shown(folder.path)
    assert found.glance.table is not None
    assert list(found.glance.table.columns)[:3] == ["Silo", "FedCT", "agreement"]
    assert re.search(r"Mean over silos on [^<:]*: FedCT 0\.700\.", document(found))


def test_fedavg_is_told_of_where_silos_have_a_network(tmp_path: Path, one: Content, wording: SnapshotAssertion):
    traffic = next(section for section in one.sections if section.id == "traffic")
    assert traffic.notes[0] == wording
    folder = finished(tmp_path / "networks")
    for silo in SILOS:
        safetensors(folder.silo_model(silo, ".safetensors"), {"network.a": 10_000})
    found = shown(folder.path)
    (traffic,) = (section for section in found.sections if section.id == "traffic")
    assert traffic.notes[0] == wording
    assert found.plots["bytes"]["layout"]["yaxis"]["type"] == "log"
    assert found.plots["bytes"]["data"][-1]["y"] == [10_128.0] * 2


def test_failures_are_told_by_silo_and_reason(tmp_path: Path):
    folder = begin(tmp_path / "run")
    add_round(folder, 1, SILOS[:2], absent={"cairo": "no reply"})
    add_round(folder, 2, SILOS[:2], absent={"cairo": "no reply"})
    silos = next(section for section in shown(folder.path).sections if section.id == "silos")
    assert [list(row) for row in silos.tables[0][1].rows] == [["cairo", "no reply", "1–2", "2"]]


def test_abstentions_are_drawn_only_where_there_are_some(tmp_path: Path, one: Content):
    assert "abstentions" not in one.plots
    folder = begin(tmp_path / "other")
    add_round(folder, 1, abstained=7)
    assert "abstentions" in shown(folder.path).plots


def test_runs_that_share_weights(tmp_path: Path, wording: SnapshotAssertion):
    folder = begin(tmp_path / "run", algorithm="fedavg")
    add_weights_round(folder, 1, accuracy=0.7)
    add_weights_round(folder, 2, accuracy=0.75)
    folder.finish("completed")
    found = shown(folder.path)
    assert "agreement" not in found.plots
    assert found.plots["accuracy-pooled"]["data"][0]["y"] == [0.7, 0.75]
    assert found.glance.sentence == wording
    assert found.glance.table
    assert list(found.glance.table.columns) == ["Silo", "bytes sent", "median delay", "rounds missed"]
    assert {len(row) for row in (*found.glance.table.rows, *found.glance.table.foot)} == {4}
    add_scores(folder)
    assert shown(folder.path).glance.sentence == wording


def test_where_silos_share_probabilities_a_fixed_point_is_one_of_all_of_them(
    tmp_path: Path, wording: SnapshotAssertion
):
    said = shown(finished(tmp_path / "run", algorithm="prediction-consensus").path).glance.sentence
    assert said == wording


def test_global_models_are_told_of(tmp_path: Path, wording: SnapshotAssertion):
    folder = begin(tmp_path / "run", algorithm="fedkt")
    add_round(folder, 1)
    scores = {"student": {"balanced_accuracy": 0.65}, "ensemble": {"balanced_accuracy": 0.675}}
    folder.finish("completed", global_model={"scores": scores})
    said = shown(folder.path).glance.sentence
    assert said == wording


def test_of_one_round_many_silos_are_marks_and_no_band(tmp_path: Path):
    silos = [f"silo-{n}" for n in range(20)]
    traces = shown(finished(tmp_path / "run", 1, silos).path).plots["agreement"]["data"]
    assert [(trace["name"], trace["mode"]) for trace in traces] == [
        ("mean of silos", "lines+markers"), ("lowest silo", "markers"), ("highest silo", "markers"),
    ]  # fmt: skip
    traffic = next(s for s in shown(tmp_path / "run").sections if s.id == "traffic")
    assert traffic.figures[0].message == "A silo sent 110 bytes, and was sent 80 bytes."


def test_fedavg_is_drawn_beside_several_runs_if_it_is_one_network(tmp_path: Path):
    paths = [finished(tmp_path / name).path for name in ("a", "b", "c")]

    def lines() -> list[str]:
        return [trace["name"] for trace in shown(*paths).plots["bytes"]["data"] if "FedAvg" in trace.get("name", "")]

    assert lines() == []
    for place, size in {1: 400, 2: 400}.items():
        safetensors(RunFolder(paths[place]).silo_model("oslo", ".safetensors"), {"network.a": size})
    assert lines() == ["FedAvg, the same network"]
    safetensors(RunFolder(paths[2]).silo_model("oslo", ".safetensors"), {"network.a": 800})
    assert lines() == []


def test_more_classes_than_colors_differ_by_hatching(tmp_path: Path):
    classes = [f"class-{n}" for n in range(12)]
    folder = begin(tmp_path / "run")
    facts = json.loads((folder.path / "config.json").read_text())
    (folder.path / "config.json").write_text(json.dumps(facts | {"classes": classes}))
    add_round(folder, 1, class_counts=dict.fromkeys(classes, 1))
    looks = [trace["marker"] for trace in shown(folder.path).plots["classes"]["data"]]
    assert len({(look["color"], look["pattern"]["shape"]) for look in looks}) == 12


def test_several_runs_overlay_with_a_color_each(tmp_path: Path):
    paths = [finished(tmp_path / name).path for name in ("a", "b")]
    lines = [t for t in shown(*paths).plots["agreement"]["data"] if t.get("name") in {"a", "b"}]
    assert [line["line"]["color"] for line in lines] == list(COLORS[:2])


def test_a_run_without_a_finished_round_has_a_page_that_says_so(tmp_path: Path, wording: SnapshotAssertion):
    found = shown(begin(tmp_path / "run").path)
    page = document(found)
    (problem,) = found.glance.problems
    assert problem == wording
    assert problem in page
    assert "hearts" in page


def test_a_failed_run_says_why(tmp_path: Path):
    folder = begin(tmp_path / "run")
    add_round(folder, 1)
    folder.finish("failed", reason="silos were <lost>")
    assert "the run failed: silos were &lt;lost&gt;" in fragment(shown(folder.path))


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


def test_many_silos_are_a_band(tmp_path: Path):
    folder = finished(tmp_path / "run", silos=[f"silo-{n:03}" for n in range(50)])
    names = [trace.get("name") for trace in shown(folder.path).plots["agreement"]["data"]]
    assert names == [None, "8 of 10 silos", "mean of silos", "lowest silo", "highest silo"]


def test_many_rounds_are_thinned_out(tmp_path: Path):
    folder = finished(tmp_path / "run", rounds=701)
    figure = next(f for s in shown(folder.path).sections for f in s.figures if f.id == "bytes")
    numbers = [int(row[0]) for row in figure.table.rows]
    assert (numbers[0], numbers[-1], len(numbers)) == (1, 701, MOST_POINTS)
    assert f"{MOST_POINTS} are shown" in figure.note


def test_the_spread_over_silos_leaves_out_who_is_absent():
    values = np.array([[0.0, 0.5, 1.0, np.nan], [np.nan] * 4])
    np.testing.assert_allclose(spread(values), [[0.5, 0.0, 0.1, 0.9, 1.0], [np.nan] * 5])


def test_few_numbers_are_a_list_and_many_are_typed():
    assert numbers([1.0, np.nan]) == [1.0, None]
    typed = numbers(np.arange(30, dtype=np.float64).reshape(3, 10))
    assert (typed["dtype"], typed["shape"]) == ("f4", "3, 10")


def test_scripts_hold_no_markup():
    text = as_script({"a": "</script><!--\u2028"})
    assert not {"<", ">", "\u2028"} & set(text)
    assert json.loads(text) == {"a": r"</script><!--\u2028"}


def luminance(color: str) -> float:
    parts = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def themes() -> list[dict[str, str]]:
    return [dict(re.findall(r"--(\w+): (#\w{6})", block)) for block in re.findall(r"\{([^{}]*--paper: [^{}]*)\}", CSS)]


@pytest.mark.parametrize("color", [*COLORS, MUTED])
def test_lines_are_seen_on_light_and_on_dark(color: str):
    assert len(themes()) == 3
    for theme in themes():
        assert contrast(color, theme["paper"]) >= 3, theme


@pytest.mark.parametrize("name", ["ink", "soft", "accent", "good", "bad", "busy"])
def test_text_is_read_on_light_and_on_dark(name: str):
    for theme in themes():
        assert min(contrast(theme[name], theme[paper]) for paper in ("paper", "panel")) >= 4.5


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("kept", [("bytes_sent",), ()])
def test_a_folder_with_little_in_its_log_is_shown_without_a_warning(tmp_path: Path, kept: tuple[str, ...]):
    log = finished(tmp_path / "run").path / "rounds.jsonl"
    rounds = [json.loads(line) for line in log.read_text().splitlines()]
    little = [
        {
            "round": entry["round"],
            "silos": {silo: {name: sent[name] for name in kept} for silo, sent in entry["silos"].items()},
        }
        for entry in rounds
    ]
    log.write_text("".join(json.dumps(entry) + "\n" for entry in little))
    for paths in ([log.parent], [log.parent, finished(tmp_path / "other").path]):
        text = fragment(shown(*paths))
        assert ("303" if kept else "At a glance") in text
        assert "nan" not in text
        assert "was sent –" not in text


def test_a_one_shot_run_is_compared_by_its_student(tmp_path: Path):
    paths = [finished(tmp_path / "many").path, begin(tmp_path / "one", algorithm="fedkt").path]
    folder = RunFolder(paths[1])
    add_round(folder, 1)
    folder.finish("completed", global_model={"scores": {"student": {"balanced_accuracy": 0.876}}})
    table = shown(*paths).glance.table
    assert table
    assert [row[table.columns.index("co-trained")] for row in table.rows] == ["0.700", "0.876"]
    assert "is 0.876, in one. Of a run that leaves no models" in shown(*paths).glance.sentence


@pytest.mark.parametrize(
    ("learner", "words"),
    [("own_network.make", "own_network.make"), ("sklearn.tree.DecisionTreeClassifier", "DecisionTreeClassifier")],
)
def test_a_learner_is_called_by_a_name_that_says_something(tmp_path: Path, learner: str, words: str):
    assert f"· {words} ·" in shown(finished(tmp_path / "run", learner=learner).path).glance.subtitle


def test_a_run_that_failed_in_its_first_round_waits_for_none(tmp_path: Path, wording: SnapshotAssertion):
    folder = begin(tmp_path / "run")
    folder.finish("failed", reason="silos were lost")
    assert shown(folder.path).glance.problems == wording


def test_where_a_number_is_predicted_nothing_is_said_of_classes(tmp_path: Path, wording: SnapshotAssertion):
    found = shown(of_a_quantity(tmp_path / "run").path)
    titles = {section.title for section in found.sections}
    assert "R²" in titles
    assert "Accuracy" not in titles
    text = re.sub(r"<[^>]+>", " ", fragment(found))
    for word in ("ccuracy", "greement", "label", "churn", "Abstentions", "lass balance"):
        assert word not in text, word
    assert found.glance.sentence == wording
    assert ("Off the consensus", "6", "7 in round 1") in [(t.name, t.value, t.beside) for t in found.glance.tiles]
    table = found.glance.table
    assert table is not None
    assert [row[table.columns.index("off the consensus")] for row in table.rows] == ["5", "6", "7"]
    assert {"distance", "moved"} <= found.plots.keys()


def test_the_fit_of_each_round_is_drawn_where_silos_report_it(tmp_path: Path):
    found = shown(of_a_quantity(tmp_path / "run", scores={"pooled_r_squared": 0.25}).path)
    (figure,) = [figure for section in found.sections for figure in section.figures if figure.id == "accuracy-pooled"]
    assert figure.layout["yaxis"]["title"]["text"] == "R²"
    assert [trace["y"] for trace in figure.traces[:3]] == [[0.25, 0.25]] * 3


def test_runs_with_and_without_classes_are_told_apart(tmp_path: Path):
    found = shown(of_a_quantity(tmp_path / "numbers").path, finished(tmp_path / "classes").path)
    page = fragment(found)
    assert "R² or balanced accuracy, pooled test set" in page
    assert "The best mean" not in found.glance.sentence
    assert {"Accuracy", "Consensus"} <= {section.title for section in found.sections}
    assert {"agreement", "distance", "moved"} <= found.plots.keys()
