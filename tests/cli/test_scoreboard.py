"""The table at the end: every number whole, and a dash where there is none."""

import io
import json
import math
import re
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.algorithms.table import ALGORITHMS
from fedct_flwr.baselines.references import centralized, local_only
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import FederatedDataset, load
from fedct_flwr.learners.build import build_learner
from fedct_flwr.learners.sklearn import SklearnLearner
from fedct_flwr.runs.records import RoundRecord, SiloRecord
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.runs.scores import METHODS, SiloScores, save
from fedct_flwr.scoring import balanced_accuracy
from fedct_flwr.simulation.score_table import auc_table, table
from fedct_flwr.simulation.scoreboard import of_global_models, reported, score, with_baselines
from fedct_flwr.types import Answers, ConfigError, Features

NAN = float("nan")
FEDCT = ALGORITHMS["fedct"]()


def scores(local: float, fedct: float, central: float) -> dict[str, float]:
    return {"local": local, "federated": fedct, "centralized": central}


def row(silo: str, own: dict[str, float], pooled: dict[str, float], bytes_sent: int = 100) -> SiloScores:
    return SiloScores(silo, own, pooled, bytes_sent)


ROWS = [
    row("cleveland", scores(0.811, 0.822, 0.833), scores(0.711, 0.722, 0.733), 1234),
    row("budapest", scores(0.841, 0.852, 0.863), scores(0.741, 0.752, 0.763), 1000),
]
NO_OWN_TEST = [replace(entry, own=scores(NAN, NAN, NAN)) for entry in ROWS]


def render(rows: list[SiloScores], width: int = 80) -> str:
    """The table as it is seen on a terminal of this width."""
    output = io.StringIO()
    Console(file=output, width=width, force_terminal=False).print(table(rows, "FedCT"))
    return output.getvalue()


def test_no_title_of_an_algorithm_cuts_a_number() -> None:
    wide = [replace(entry, bytes_sent=123456) for entry in ROWS]
    for title in {algorithm.title for algorithm in ALGORITHMS.values()}:
        output = io.StringIO()
        Console(file=output, width=80, force_terminal=False).print(table(wide, title))
        assert "123,456" in output.getvalue(), title
        assert "…" not in output.getvalue(), title


def line(text: str, name: str) -> list[str]:
    """The cells of the line that begins with this name."""
    (found,) = [cells for cells in (part.split() for part in text.splitlines()) if cells and cells[0] == name]
    return found


# --- scoring a run


@pytest.fixture(scope="module")
def config() -> RunConfig:
    return RunConfig.from_flower(
        {"study": "s", "data": "heart-disease", "learner": "decision-tree", "learner-params": '{"max_depth": 3}'}
    )


FACTS: dict[str, Any] = {"changed": 0, "abstained": 0, "agreement": 0.9, "class_counts": {}}


@pytest.fixture(scope="module")
def dataset(config: RunConfig) -> FederatedDataset:
    return load(config)


@pytest.fixture
def folder(tmp_path: Path, config: RunConfig, dataset: FederatedDataset) -> RunFolder:
    """A run in which the last silo never answered, and the first missed a round; each silo kept its own labels."""
    folder = RunFolder.create(tmp_path / "run", config.to_flower(), {})
    folder.models.mkdir()
    present = [silo.name for silo in dataset.silos[:-1]]
    for position, silo in enumerate(dataset.silos[:-1]):
        learner: Any = build_learner(config, dataset, position, silo.private.X).fit(*silo.private)
        learner.save(folder.models / f"{silo.name}.skops")
    for number, silos in enumerate([present, present[1:], present], start=1):
        sent = {silo: SiloRecord(bytes_sent=10 * number, seconds=0.1, facts={"agreement": 0.9}) for silo in silos}
        folder.append_round(RoundRecord(number, 1.0, 228, FACTS, 64, 0, sent))
    return folder


def last_round(number: int, silos: list[str]) -> RoundRecord:
    sent = {silo: SiloRecord(bytes_sent=10, seconds=0.1, facts={"agreement": 0.9}) for silo in silos}
    return RoundRecord(number, 1.0, 228, FACTS, 64, 0, sent)


def test_there_is_a_row_for_every_silo_in_the_data_sets_order(
    config: RunConfig, dataset: FederatedDataset, folder: RunFolder
) -> None:
    assert [entry.silo for entry in score(config, FEDCT, dataset, folder)] == [silo.name for silo in dataset.silos]


def test_baselines_and_models_are_scored_on_own_and_pooled_test_sets(
    config: RunConfig, dataset: FederatedDataset, folder: RunFolder
) -> None:
    for position, entry in enumerate(score(config, FEDCT, dataset, folder)[:-1]):
        for found, test in ((entry.own, dataset.silos[position].test), (entry.pooled, dataset.test)):
            assert found["local"] == balanced_accuracy(local_only(config, dataset, position), test)
            assert found["centralized"] == balanced_accuracy(centralized(config, dataset, position), test)
            # These models saw nothing but private records, so they are the local ones.
            assert found["federated"] == found["local"]


def test_bytes_are_summed_over_the_rounds_that_a_silo_answered(
    config: RunConfig, dataset: FederatedDataset, folder: RunFolder
) -> None:
    assert [entry.bytes_sent for entry in score(config, FEDCT, dataset, folder)] == [40, 60, 60, 0]


def test_a_silo_without_a_part_in_the_last_round_has_no_scores(
    config: RunConfig, dataset: FederatedDataset, folder: RunFolder
) -> None:
    silo = dataset.silos[0]
    # The model it left is that of an earlier round.
    folder.append_round(last_round(4, [silo.name for silo in dataset.silos[1:-1]]))
    assert (folder.models / f"{silo.name}.skops").exists()
    first, *_, last = score(config, FEDCT, dataset, folder)
    for entry in (first, last):
        assert all(math.isnan(value) for value in [*entry.own.values(), *entry.pooled.values()])


def test_a_silo_whose_model_was_not_kept_has_baselines_only(
    config: RunConfig, dataset: FederatedDataset, folder: RunFolder
) -> None:
    (folder.models / f"{dataset.silos[1].name}.skops").unlink()
    entry = score(config, FEDCT, dataset, folder)[1]
    for found in (entry.own, entry.pooled):
        assert math.isnan(found["federated"])
        assert not math.isnan(found["local"] + found["centralized"])


def test_a_learner_that_cannot_be_trained_costs_its_own_scores_only(tmp_path: Path) -> None:
    learners = ["decision-tree", "tests.federation.learners.Raising", "decision-tree", "decision-tree"]
    config = RunConfig.from_flower({"study": "s", "data": "heart-disease", "learner": ",".join(learners)})
    dataset = load(config)
    folder = RunFolder.create(tmp_path / "run", config.to_flower(), {})
    folder.append_round(last_round(1, [silo.name for silo in dataset.silos]))
    found = [entry.pooled["local"] for entry in score(config, FEDCT, dataset, folder)]
    assert [math.isnan(value) for value in found] == [False, True, False, False]


def test_a_data_set_without_own_test_sets_has_pooled_scores_only(tmp_path: Path) -> None:
    config = RunConfig.from_flower({"study": "s", "data": "breast-cancer", "learner": "naive-bayes"})
    folder = RunFolder.create(tmp_path / "run", config.to_flower(), {})
    folder.append_round(last_round(1, [silo.name for silo in load(config).silos]))
    for entry in score(config, FEDCT, load(config), folder):
        assert all(math.isnan(value) for value in entry.own.values())
        assert entry.pooled["local"] > 0.5


# --- scores that real silos report


SILO_SCORES = {
    "own_accuracy": 0.81,
    "own_balanced_accuracy": 0.82,
    "pooled_accuracy": 0.83,
    "pooled_balanced_accuracy": 0.84,
}


@pytest.fixture
def real(tmp_path: Path) -> RunFolder:
    """A run with real silos: one reports scores, one but its pooled ones, one none, and one had no part in the end."""
    folder = RunFolder.create(tmp_path / "real", {}, {})
    pooled = {name: value for name, value in SILO_SCORES.items() if name.startswith("pooled")}
    told = {"cleveland": SILO_SCORES, "budapest": pooled, "zurich": None, "long-beach": SILO_SCORES}
    for number in (1, 2):
        sent = {
            silo: SiloRecord(bytes_sent=number, seconds=0.1, facts={"agreement": 0.9}, scores=scores)
            for silo, scores in told.items()
            if number == 1 or silo != "long-beach"
        }
        folder.append_round(RoundRecord(number, 1.0, 228, FACTS, 64, 0, sent))
    return folder


ROSTER = ("budapest", "cleveland", "long-beach", "zurich")


def test_reported_scores_are_those_of_the_last_reply(real: RunFolder) -> None:
    rows = {entry.silo: entry for entry in reported(real, ROSTER)}
    assert tuple(rows) == ROSTER
    assert (rows["cleveland"].own["federated"], rows["cleveland"].pooled["federated"]) == (0.82, 0.84)
    assert math.isnan(rows["budapest"].own["federated"])
    assert rows["budapest"].pooled["federated"] == 0.84
    for silo in ("zurich", "long-beach"):
        assert math.isnan(rows[silo].own["federated"])
        assert math.isnan(rows[silo].pooled["federated"])
    assert {silo: entry.bytes_sent for silo, entry in rows.items()} == {
        "budapest": 3, "cleveland": 3, "long-beach": 1, "zurich": 3,
    }  # fmt: skip


def test_without_baselines_the_table_has_the_reported_method_alone(real: RunFolder, wording: SnapshotAssertion) -> None:
    output = io.StringIO()
    rows = reported(real, ROSTER)
    Console(file=output, width=80, force_terminal=False).print(table(rows, "FedCT", ("federated",)))
    text = output.getvalue()
    assert "alone" not in text
    assert line(text, "cleveland") == ["cleveland", "0.820", "0.840", "3"]
    assert line(text, "budapest") == ["budapest", "-", "0.840", "3"]
    assert line(text, "mean") == ["mean", "0.820", "0.840", "2"]
    said = " ".join(text.split())
    assert said == wording


def test_baselines_are_added_in_the_data_sets_order_where_a_silo_had_a_part(
    config: RunConfig, dataset: FederatedDataset, real: RunFolder
) -> None:
    rows = with_baselines(reported(real, ROSTER), config, dataset, real)
    assert [entry.silo for entry in rows] == ["cleveland", "budapest", "zurich", "long-beach"]
    assert rows[0].pooled["federated"] == 0.84
    for position, entry in enumerate(rows[:3]):
        for found, test in ((entry.own, dataset.silos[position].test), (entry.pooled, dataset.test)):
            assert found["local"] == balanced_accuracy(local_only(config, dataset, position), test)
            assert found["centralized"] == balanced_accuracy(centralized(config, dataset, position), test)
    assert all(math.isnan(value) for value in [*rows[3].own.values(), *rows[3].pooled.values()])


# --- saving


def test_scores_are_saved_as_they_are(tmp_path: Path) -> None:
    save(ROWS, tmp_path / "scores.json")
    first = json.loads((tmp_path / "scores.json").read_text())[0]
    of_old = {"silo": "cleveland", "own": ROWS[0].own, "pooled": ROWS[0].pooled, "bytes_sent": 1234}
    assert first == {**of_old, "tests": {}, "verdict": None}


def test_no_score_is_saved_as_null_because_json_knows_no_nan(tmp_path: Path) -> None:
    save(NO_OWN_TEST, tmp_path / "scores.json")

    def refuse(constant: str) -> None:
        raise AssertionError(f"{constant} is no JSON")

    found = json.loads((tmp_path / "scores.json").read_text(), parse_constant=refuse)
    assert [entry["own"] for entry in found] == [dict.fromkeys(METHODS)] * 2


# --- the table


def test_every_number_is_there_with_three_digits() -> None:
    text = render(ROWS)
    assert line(text, "cleveland") == ["cleveland", "0.811", "0.822", "0.833", "0.711", "0.722", "0.733", "1,234"]
    assert line(text, "budapest") == ["budapest", "0.841", "0.852", "0.863", "0.741", "0.752", "0.763", "1,000"]


def test_the_last_line_is_the_mean() -> None:
    expected = [f"{fmean(getattr(r, part)[m] for r in ROWS):.3f}" for part in ("own", "pooled") for m in METHODS]
    assert line(render(ROWS), "mean") == ["mean", *expected, "1,117"]


def test_without_own_test_sets_there_are_no_columns_for_them() -> None:
    text = render(NO_OWN_TEST)
    assert "own" not in text
    assert line(text, "cleveland") == ["cleveland", "0.711", "0.722", "0.733", "1,234"]


@pytest.mark.parametrize("without", [0, 1])
def test_one_silo_without_an_own_test_set_does_not_hide_the_others(without: int) -> None:
    rows = list(ROWS)
    rows[without] = NO_OWN_TEST[without]
    text = render(rows)
    assert line(text, rows[without].silo)[1:4] == ["-"] * 3
    assert line(text, rows[1 - without].silo)[1:4] == [f"{value:.3f}" for value in rows[1 - without].own.values()]


def test_a_silo_that_left_no_model_has_a_dash() -> None:
    rows = [ROWS[0], replace(ROWS[1], own=scores(0.841, NAN, 0.863), pooled=scores(0.741, NAN, 0.763))]
    text = render(rows)
    assert line(text, "budapest")[1:7] == ["0.841", "-", "0.863", "0.741", "-", "0.763"]
    # A mean over fewer silos than its neighbors' would mislead.
    assert line(text, "mean") == ["mean", "of", "1", "0.811", "0.822", "0.833", "0.711", "0.722", "0.733", "1,117"]
    assert "nan" not in text.lower()


@pytest.mark.parametrize("name", ["a", "switzerland", "charite-mitt", "x" * 12])
@pytest.mark.parametrize("sent", [0, 999, 1_234_567, 9_999_999])
def test_eighty_columns_hold_every_number_and_names_of_twelve_letters(name: str, sent: int) -> None:
    rows = [row(name, scores(1.0, 1.0, 1.0), scores(1.0, 1.0, 1.0), sent), *ROWS]
    text = render(rows)
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    assert line(text, name) == [name, *["1.000"] * 6, f"{sent:,}"]


def test_eighty_columns_hold_every_heading() -> None:
    words = re.findall(r"\w+", render([row("x" * 12, ROWS[0].own, ROWS[0].pooled, 9_999_999)]))
    assert [words.count(word) for word in ("own", "pooled", "alone", "FedCT", "central")] == [3, 3, 2, 2, 2]


def test_a_name_in_square_brackets_is_shown_as_it_is() -> None:
    assert line(render([replace(ROWS[0], silo="ward[b]"), ROWS[1]]), "ward[b]")[0] == "ward[b]"


def test_one_silo_named_like_the_last_line_keeps_its_own() -> None:
    assert sum(part.split()[:1] == ["mean"] for part in render([replace(ROWS[0], silo="mean")]).splitlines()) == 2


def test_what_cotraining_gains_stands_out_and_what_it_loses_does_not() -> None:
    rows = [row("gains", scores(0.5, 0.6, 0.7), scores(0.5, 0.5, 0.5)), row("loses", *[scores(0.9, 0.8, 0.9)] * 2)]
    output = io.StringIO()
    Console(file=output, width=80, force_terminal=True, color_system="standard").print(table(rows, "FedCT"))
    green = re.findall(r"\x1b\[32m([\d.]+)", output.getvalue())
    assert green == ["0.600"]


def test_numpy_scores_are_as_good_as_pythons(tmp_path: Path) -> None:
    as_numpy = {name: np.float64(value) for name, value in ROWS[0].own.items()}
    save([replace(ROWS[0], own=as_numpy)], tmp_path / "scores.json")  # type: ignore[arg-type]
    assert json.loads((tmp_path / "scores.json").read_text())[0]["own"] == ROWS[0].own


def test_global_models_have_one_score_under_the_federated_one() -> None:
    output = io.StringIO()
    found = table(ROWS, "FedCT", global_models={"student": 0.791, "ensemble": 0.801})
    Console(file=output, width=80, force_terminal=False).print(found)
    text = output.getvalue()
    assert line(text, "student") == ["student", "0.791"]
    assert line(text, "ensemble") == ["ensemble", "0.801"]
    column = next(part for part in text.splitlines() if "cleveland" in part).index("0.722")
    assert next(part for part in text.splitlines() if "student" in part).index("0.791") == column


def test_global_models_are_told_by_the_runs_result(tmp_path: Path, config: RunConfig) -> None:
    folder = RunFolder.create(tmp_path / "run", config.to_flower(), {})
    folder.finish("completed")
    assert of_global_models(folder) == {}
    scored = {"student": {"accuracy": 0.8, "balanced_accuracy": 0.7}}
    folder.finish("completed", global_model={"file": "f", "labels": 3, "scores": scored})
    assert of_global_models(folder) == {"student": 0.7}


# --- all that is said of a model


def test_each_model_is_asked_once_for_each_test_set(
    config: RunConfig, dataset: FederatedDataset, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[int] = []
    before = SklearnLearner.predict

    def told(learner: SklearnLearner, X: Features) -> Answers:
        asked.append(len(X))
        return before(learner, X)

    monkeypatch.setattr(SklearnLearner, "predict", told)
    rows = score(config, FEDCT, dataset, folder)
    tested = [part for silo in dataset.silos[:-1] for part in [silo.test.size] * 3 + [dataset.test.size] * 3]
    assert sorted(asked) == sorted(tested)
    assert [row.silo for row in rows] == [silo.name for silo in dataset.silos]
    assert rows[-1].tests["own"].models == rows[-1].tests["pooled"].models == {}
    for row, silo in zip(rows[:-1], dataset.silos, strict=False):
        for name, test in (("own", silo.test), ("pooled", dataset.test)):
            assert list(row.tests[name].models) == ["local", "centralized", "federated"]
            assert row.tests[name].n == test.size


def test_all_numbers_are_those_of_the_same_predictions(
    config: RunConfig, dataset: FederatedDataset, folder: RunFolder
) -> None:
    rows = score(config, FEDCT, dataset, folder)
    for entry, silo in zip(rows[:-1], dataset.silos, strict=False):
        for name, test in (("own", silo.test), ("pooled", dataset.test)):
            found = entry.tests[name]
            assert (found.n, sum(found.classes.values()), found.positive) == (test.size, test.size, "diseased")
            for method, model in found.models.items():
                assert model.value("balanced_accuracy") == getattr(entry, name)[method]
                assert np.array(model.confusion).sum() == test.size
                assert sum(part.n for part in model.calibration) == test.size
    assert rows[-1].tests["own"].models == {}


def test_the_positive_class_can_be_named(dataset: FederatedDataset, config: RunConfig, folder: RunFolder) -> None:
    other = RunConfig.from_flower({**config.to_flower(), "positive-class": "healthy"})
    first, last = (score(c, FEDCT, dataset, folder)[0].tests["pooled"] for c in (other, config))
    assert (first.positive, last.positive) == ("healthy", "diseased")
    assert first.models["local"].value("sensitivity") == last.models["local"].value("specificity")


@pytest.mark.parametrize("name", ["ill", "0"])
def test_a_positive_class_that_is_none_is_refused(dataset: FederatedDataset, name: str) -> None:
    with pytest.raises(ConfigError, match=r"positive-class = .*healthy"):
        dataset.schema.positive(name)


def test_the_area_under_the_curve_has_a_table_with_n_in_eighty_columns(
    config: RunConfig, dataset: FederatedDataset, folder: RunFolder
) -> None:
    rows = score(config, FEDCT, dataset, folder)
    rows[0] = replace(rows[0], silo="x" * 12)
    found = auc_table(rows, "FedCT")
    assert found is not None
    output = io.StringIO()
    Console(file=output, width=80, force_terminal=False).print(found)
    text = output.getvalue()
    assert "…" not in text
    own = rows[0].tests["own"]
    auc = own.models["federated"].metrics["auc"]
    cells = line(text, "x" * 12)
    assert cells[1:3] == [str(own.n), str(own.classes["diseased"])]
    assert cells[4:6] == [f"{auc.value:.3f}", f"{auc.low:.2f}-{auc.high:.2f}"]
    assert line(text, rows[-1].silo)[3:] == ["-"] * 4


def test_without_probabilities_there_is_no_such_table() -> None:
    assert auc_table(ROWS, "FedCT") is None
