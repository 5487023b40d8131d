import inspect
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.cli.budget import budget
from fedct_flwr.labelers.rehearsal import NUM_FEATURES
from fedct_flwr.privacy.noise_shares import least_multiplier
from fedct_flwr.privacy.planner import DECAY
from tests.cli.runner import Outcome, plain
from tests.wording import sentences_with

Run = Callable[..., Outcome]
HOSPITALS = ("budget", "--silos", "3", "--records", "300", "--public", "50", "--accuracy", "0.8", "--rounds", "1")


def rows(outcome: Outcome) -> dict[str, list[str]]:
    """The table's cells, by mechanism."""
    cells = [line.split("  ") for line in outcome.out.splitlines()]
    found = [[cell.strip() for cell in line if cell.strip()] for line in cells]
    return {line[0]: line[1:] for line in found if len(line) > 1}


def test_a_table_by_mechanism_says_what_it_is(fedct: Run) -> None:
    outcome = fedct(*HOSPITALS, "--epsilon", "3")
    assert (outcome.code, outcome.err) == (0, "")
    found = rows(outcome)
    assert {"dp-linear", "no protection", "teachers, gumbel", "randomized-response", "xor"} <= set(found)
    assert 0.6 < float(found["dp-linear"][-2]) < 0.95
    assert found["no protection"][-1] == "useful"
    text = " ".join(outcome.out.split())
    assert "epsilon 3 at delta 1e-05, in total, per record: 3 silos with 300 records, each asked for 50 labels" in text
    assert "An estimate on stand-in data, not a promise" in text


def test_noise_that_silos_add_together_has_rows_where_silos_can_add_up(fedct: Run, wording: SnapshotAssertion) -> None:
    outcome = fedct(*HOSPITALS, "--epsilon", "3")
    assert outcome.code == 0, outcome.err
    found = rows(outcome)
    assert found["fedct-joint"][:2] == [f"multiplier {least_multiplier(3.0, 1e-5):.3g}", "–"], outcome.out
    assert found["dp-pate, whole silos"][1] == "–"
    assert 0.6 < float(found["fedct-joint"][-2]) < 0.95
    assert sentences_with(outcome.out, "1 may collude") == wording


def test_who_gets_noise_is_warned(fedct: Run) -> None:
    outcome = fedct(*HOSPITALS, "--epsilon", "0.05", "--public", "5000")
    found = rows(outcome)
    assert found["xor"][-1] == found["randomized-response"][-1] == "noise"
    warning = next(line for line in outcome.out.splitlines() if "what leaves is noise" in line)
    assert "randomized-response" in warning
    assert "xor" in warning
    assert "no protection" not in warning


def test_who_would_learn_from_worse_labels_is_warned(fedct: Run) -> None:
    outcome = fedct(*HOSPITALS, "--epsilon", "30", "--accuracy", "0.95", "--silos", "1")
    assert rows(outcome)["randomized-response"][-1] == "costs accuracy"
    assert any("worse than a silo's own model with" in line for line in outcome.out.splitlines())


def test_a_weak_delta_is_warned_of_and_planned_all_the_same(fedct: Run, wording: SnapshotAssertion) -> None:
    outcome = fedct(*HOSPITALS, "--delta", "0.01")
    assert outcome.code == 0
    assert [line for line in outcome.out.splitlines() if line.startswith("Warning:")] == wording


def test_the_same_seed_gives_the_same_text_and_picture(fedct: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedct_flwr.cli.budget.PLOTTED", (0.3,))
    texts, pictures = [], []
    for name in ("one.svg", "two.svg"):
        texts.append(fedct(*HOSPITALS, "--seed", "5", "--plot", name).out.replace(name, "FILE"))
        pictures.append((here / name).read_bytes())
    assert texts[0] == texts[1]
    assert pictures[0] == pictures[1]
    assert b"<svg" in pictures[0]
    assert fedct(*HOSPITALS, "--seed", "6").out not in texts[0]


def test_a_png_is_one(fedct: Run, here: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fedct_flwr.cli.budget.PLOTTED", ())
    fedct(*HOSPITALS, "--plot", "quality.png")
    assert (here / "quality.png").read_bytes().startswith(b"\x89PNG")


def test_a_plot_overwrites_nothing(fedct: Run, here: Path, wording: SnapshotAssertion) -> None:
    (here / "quality.png").write_text("mine")
    outcome = fedct(*HOSPITALS, "--plot", "quality.png")
    assert outcome.code == 2
    assert outcome.sentence == wording
    assert (here / "quality.png").read_text() == "mine"


def test_more_epsilon_is_not_worse_for_the_labeler_that_is_trained(fedct: Run) -> None:
    reached = [float(rows(fedct(*HOSPITALS, "--epsilon", e))["dp-linear"][-2]) for e in ("0.05", "1", "30")]
    assert reached[0] < reached[2] - 0.1
    assert reached[0] - 0.02 <= reached[1] <= reached[2] + 0.02


@pytest.mark.parametrize(
    "wrong",
    [
        ["--epsilon", "0"],
        ["--epsilon", "nan"],
        ["--epsilon", "-3"],
        ["--delta", "1"],
        ["--classes", "1"],
        ["--accuracy", "0.5"],
        ["--accuracy", "82"],
        ["--queries", "51"],
        ["--silos", "0"],
        ["--teachers", "301"],
        ["--features", "0"],
        ["--seed", "-1"],
        ["--may-collude", "-1"],
        ["--plot", "quality.docx"],
        ["--plot", "nowhere/quality.svg"],
    ],
)
def test_bad_input_is_one_sentence_at_once(
    fedct: Run, here: Path, wrong: list[str], wording: SnapshotAssertion
) -> None:
    outcome = fedct(*HOSPITALS, *wrong)
    assert outcome.code == 2
    assert outcome.sentence == wording
    assert outcome.out == ""
    assert list(here.iterdir()) == []


def test_without_matplotlib_the_sentence_names_the_extra(fedct: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    outcome = fedct(*HOSPITALS, "--plot", "quality.svg")
    assert outcome.code == 2
    assert "pip install 'fedct-flwr[plot]'" in outcome.sentence


def test_without_the_privacy_extra_the_sentence_names_it(fedct: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fedct_flwr.privacy.planner", None)
    assert "pip install 'fedct-flwr[privacy]'" in fedct(*HOSPITALS).sentence


def test_its_defaults_are_the_planners() -> None:
    defaults = {name: parameter.default for name, parameter in inspect.signature(budget).parameters.items()}
    assert (defaults["decay"], defaults["features"]) == (DECAY, NUM_FEATURES)


def test_its_help_names_what_must_be_said(fedct: Run) -> None:
    text = " ".join(plain(fedct("budget", "--help").out).split())
    for option in ("--records", "--public", "--silos", "--accuracy", "--epsilon", "--plot"):
        assert option in text
