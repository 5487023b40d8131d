"""The front door: data in memory, an algorithm and a learner in, a run out."""

import gc
import pickle
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.metrics import roc_auc_score
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.tree import DecisionTreeClassifier
from syrupy.assertion import SnapshotAssertion

from fedct_flwr import (
    ConfigError,
    DataError,
    DataWarning,
    FedCT,
    LearnerError,
    PrivacyWarning,
    Qualified,
    Run,
    RunError,
    read_run,
    simulate,
)
from tests.sentences import sentence

SILOS = ("essen", "ghent", "turin")


def records(seed: int, size: int = 60) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    crp, age = rng.normal(size=size), rng.normal(60, 10, size)
    sex = np.where(rng.random(size) < 0.5, "f", "m")
    return pd.DataFrame({"crp": crp, "age": age, "sex": sex, "ill": np.where(crp > 0, "yes", "no")})


def frames() -> dict[str, pd.DataFrame]:
    return {silo: records(seed) for seed, silo in enumerate(SILOS)}


def public() -> pd.DataFrame:
    return records(99, 80).drop(columns="ill")


def run_frames(**changed: Any) -> Run:
    given: dict[str, Any] = {
        "label": "ill", "learner": DecisionTreeClassifier(max_depth=3), "rounds": 2, "progress": False,
    }  # fmt: skip
    return simulate(changed.pop("silos", frames()), changed.pop("public", public()), **(given | changed))


@pytest.fixture(scope="module")
def run() -> Run:
    return run_frames(algorithm=FedCT(Qualified(0.9)))


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where temporary folders go meanwhile."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


# --- what a run is


def test_a_run_of_frames_has_its_settings_rounds_scores_and_consensus(run: Run) -> None:
    assert (run.status, run.silos) == ("completed", SILOS)
    assert (run.config.method, run.config.rounds) == (Qualified(0.9), 2)
    assert list(run.rounds.index) == [1, 2]
    assert (run.rounds["queried"] == 80).all()
    assert [record["round"] for record in run.records] == [1, 2]
    assert list(run.scores.index) == list(SILOS)
    assert run.scores["pooled_federated"].between(0.8, 1).all()
    assert (run.scores["bytes_sent"] > 0).all()
    assert run.consensus.shape == (80,)
    assert set(run.consensus) <= {"yes", "no", None}


def test_a_model_reads_frames_and_answers_in_the_labels_own_words(run: Run) -> None:
    new = records(5)
    assert set(run.models) == set(SILOS)
    for model in run.models.values():
        # The label column may still be there: it is not looked at.
        assert (model.predict(new) == model.predict(new.drop(columns="ill"))).all()
        with pytest.warns(DataWarning, match="no names, and are read as 'crp', 'age', 'sex'"):
            assert (model.predict(new) == model.predict(new.drop(columns="ill").to_numpy())).all()
        assert (model.predict(new.assign(ward=1)) == model.predict(new)).all(), "columns that it does not have"
        assert len(model.predict(new[:0])) == 0
        assert (model.predict(new) == new["ill"]).mean() > 0.9
        np.testing.assert_allclose(model.predict_proba(new).sum(axis=1), 1)
    with pytest.raises(DataError, match="missing 'crp'"):
        run.models["essen"].predict(new.drop(columns="crp"))


@pytest.mark.filterwarnings("ignore::fedct_flwr.DataWarning")
def test_a_model_refuses_numbers_for_categories(run: Run) -> None:
    with pytest.raises(DataError, match="'sex' must hold text"):
        run.models["essen"].predict(np.ones((2, 3)))


@pytest.mark.filterwarnings("ignore:Found unknown categories")
@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"crp": -999.0}, "column 'crp' in the new records lies apart"),
        ({"age": 7.0}, "column 'age' in the new records lies apart"),
        ({"sex": "F"}, "column 'sex' in the new records has values that the public set does not have"),
        ({name: [None, *column[1:]] for name, column in records(5).items()}, "1 of 60 records have no value at all"),
        ({"sex": ["F", *records(5)["sex"][1:]]}, "1 of 60 records have a value of 'sex' that the study does not know"),
    ],
)
def test_a_model_says_what_is_unlike_the_records_that_it_has_learned_from(
    run: Run, change: dict[str, Any], said: str
) -> None:
    with pytest.warns(DataWarning, match=said):
        run.models["essen"].predict(records(5).assign(**change))


def test_a_model_takes_codes_as_numbers_where_its_categories_are_such_codes() -> None:
    codes = {"f": "1", "m": "2"}
    silos = {name: table.assign(sex=table["sex"].map(codes)) for name, table in frames().items()}
    model = run_frames(silos=silos, public=public().assign(sex=public()["sex"].map(codes))).models["essen"]
    new = silos["ghent"]
    assert (model.predict(new.assign(sex=new["sex"].astype(int))) == model.predict(new)).all()


@pytest.mark.parametrize(
    "spelled", [{"yes": "yes ", "no": "no "}, {"yes": "1", "no": "0"}, {"yes": "2.5", "no": "1.5"}]
)
def test_a_score_reads_labels_as_training_does(spelled: dict[str, str]) -> None:
    silos = {name: table.assign(ill=table["ill"].map(spelled)) for name, table in frames().items()}
    model, test = run_frames(silos=silos).models["essen"], records(5)
    assert model.score(test, test["ill"].map(spelled)) > 0.9
    with pytest.raises(DataError, match="not a class of the study"):
        model.score(test, ["another"] * len(test))


def test_a_run_in_a_folder_of_its_own_can_be_copied_and_says_what_the_command_says(tmp_path: Path) -> None:
    found = pickle.loads(pickle.dumps(run_frames(rounds=1, run_dir=tmp_path / "run")))
    assert found.notes[0].startswith("the run had one round")
    assert set(found.models) == set(SILOS)
    with pytest.raises(ConfigError, match="give run_dir"):
        pickle.dumps(run_frames())


def test_a_silo_outside_the_roster_is_named_as_its_records_still_count_in_baselines() -> None:
    with pytest.warns(DataWarning, match="roster leaves out 'turin', but"):
        run_frames(rounds=1, roster=[*SILOS][:2], min_silos=2)


def test_metrics_are_those_of_the_models_that_the_run_kept() -> None:
    test = records(50)
    test["ill"] = test["ill"].where(test.index % 10 > 0, "no")
    found = run_frames(tests={"essen": test}, learner=GaussianNB())
    metrics = found.metrics
    auc = metrics[(metrics.test == "own") & (metrics.metric == "auc") & (metrics.method == "federated")].loc["essen"]
    assert auc["value"] == pytest.approx(roc_auc_score(test["ill"], found.models["essen"].predict_proba(test)[:, 1]))
    assert (auc["n"], auc["low"] < auc["value"] < auc["high"]) == (60, True)
    assert found.scores.loc["essen", "own_federated_auc"] == auc["value"]


# --- data


def test_chances_of_a_runs_models_are_recalibrated_and_scored_by_group(run: Run) -> None:
    model, test = run.models["essen"], run.dataset.test
    how, ranks = model.recalibration, model.learner.probabilities(test.X, 2)
    assert how is not None
    new = records(5)
    X = new.assign(sex=(new.sex == "m").astype(float)).drop(columns="ill").to_numpy()
    np.testing.assert_allclose(model.predict_proba(new), how.apply(model.learner.probabilities(X, 2)))
    found = run.rows[0].metric("pooled", "federated", "brier")
    assert found.value == pytest.approx(np.mean((how.apply(ranks)[:, 1] - test.y) ** 2))
    groups = run.by_group("sex").loc["essen"]
    brier = groups[groups.metric == "brier"].set_index("group")
    assert (list(brier.index), brier.n[""]) == (["", "m", "others"], test.size)
    assert brier.value[""] == pytest.approx(found.value)
    assert brier.gap_value["m"] == pytest.approx(brier.value["m"] - brier.value["others"])
    with pytest.raises(DataError, match="no feature is called 'ward'"):
        run.by_group("ward")


def test_no_record_is_written_anywhere(tmp_path: Path, temporary: Path) -> None:
    silos = frames()
    silos["essen"].loc[0, "crp"] = 2.345678901
    done = run_frames(silos=silos, run_dir=tmp_path / "run", save_models=False)
    assert done.status == "completed"
    for path in tmp_path.rglob("*"):
        assert not path.is_file() or b"2.34567" not in path.read_bytes(), path
    assert not [*temporary.iterdir()]


# --- learners and algorithms


def test_an_object_is_an_import_path_where_that_is_the_same(run: Run) -> None:
    assert run.config.learner == ("sklearn.tree.DecisionTreeClassifier",)
    assert run.config.learner_params == '{"max_depth": 3}'


def test_each_silo_has_a_learner_of_its_own() -> None:
    done = run_frames(learner={"turin": "naive-bayes", "essen": GaussianNB(), "ghent": DecisionTreeClassifier()})
    assert done.config.learner == (
        "sklearn.naive_bayes.GaussianNB", "sklearn.tree.DecisionTreeClassifier", "naive-bayes",
    )  # fmt: skip
    assert "DecisionTree" in repr(done.models["ghent"])


def test_a_protection_is_a_setting_and_its_weakness_a_warning() -> None:
    with pytest.warns(PrivacyWarning, match="delta is 0.5"):
        done = run_frames(protection="randomized-response", epsilon=50.0, delta=0.5)
    assert (done.path / "privacy" / "essen").is_dir()


# --- what goes wrong


class Network:
    def __init__(self, num_features: int, num_classes: int, width: int = 8, **others: Any) -> None:
        raise AssertionError("secret: only a study knows the sizes")


def network(num_features: int) -> Network:
    return Network(num_features, 2)


WRONG: Mapping[str, tuple[dict[str, Any], type[Exception], str]] = {
    "one given twice": ({"quorum": 0.5, "algorithm": FedCT(Qualified())}, ConfigError, "quorum is set twice"),
    "an engine": ({"engine": "floower"}, ConfigError, "did you mean 'flower'"),
    "no label": ({"label": ""}, ConfigError, "label is missing"),
    "a silo's name": ({"silos": {"../a": records(1), "b": records(2)}}, ConfigError, "'../a' is no silo's name"),
    "another label": ({"label": "illl"}, DataError, "the table of silo 'essen' has no column 'illl'"),
    "one class": ({"silos": {s: records(1).assign(ill="no") for s in SILOS}}, DataError, "all records in the silos'"),
    "no table": ({"silos": {"a": 3, "b": 4}}, DataError, "the table of silo 'a' is of type int"),
    "a learner's class": ({"learner": GaussianNB}, LearnerError, "give an object of it, GaussianNB()"),
    "a network's class": (
        {"learner": Network}, LearnerError,
        "the class Network: give an object of it, Network(num_features=..., num_classes=...), or its import path as "
        "text, such as 'my_module.Network', which gets num_features and num_classes",
    ),
    "a function": ({"learner": network}, LearnerError, "function network: give what it returns, network(num_features="),
    "no learner": ({"learner": 3}, LearnerError, "of type int"),
    "a silo without": ({"learner": {"essen": "svm"}}, LearnerError, "none for silo 'ghent'"),
    "a learner for no silo": ({"learner": {"esen": "svm"}}, LearnerError, "did you mean 'essen'"),
    "a learner in memory elsewhere": (
        {"learner": make_pipeline(GaussianNB()), "engine": "flower"}, LearnerError, "only this process has",
    ),
    "a student in memory": ({"student": make_pipeline(GaussianNB())}, LearnerError, "no file can name"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_bad_input_is_one_sentence_of_its_kind_and_leaves_nothing(case: str, tmp_path: Path, temporary: Path) -> None:
    changed, kind, words = WRONG[case]
    for run_dir in (None, tmp_path / "run"):
        with pytest.raises(kind) as raised:
            run_frames(**changed, run_dir=run_dir)
        assert type(raised.value) is kind
        assert words in str(raised.value)
        assert "secret" not in str(raised.value)
    assert not (tmp_path / "run").exists()
    assert not [*temporary.iterdir()]


def test_a_run_that_fails_says_why_and_leaves_nothing_that_nobody_named(
    temporary: Path, wording: SnapshotAssertion
) -> None:
    said = sentence(RunError, run_frames, learner="tests.federation.learners.Raising")
    assert said == wording
    assert "log:" not in said
    assert not [*temporary.iterdir()]


# --- folders


def test_a_temporary_folder_lives_as_long_as_its_run(temporary: Path) -> None:
    done = run_frames(rounds=1)
    path = done.path
    assert path.is_relative_to(temporary)
    assert path.is_dir()
    del done
    gc.collect()
    assert not path.exists()


def test_a_run_is_read_from_its_folder(tmp_path: Path, wording: SnapshotAssertion) -> None:
    done = run_frames(run_dir=tmp_path / "run")
    read = read_run(tmp_path / "run")
    assert repr(read) == repr(done)
    assert (read.consensus == done.consensus).all()
    assert set(read.models) == set(SILOS), "as long as its tables are in memory"
    assert sentence(RunError, read_run, tmp_path / "none") == wording
    with pytest.raises(RunError, match="no complete run folder"):
        read_run(tmp_path)


def test_a_run_goes_on_by_its_path(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"stop_at_fixed_point": False, "learner": make_pipeline(GaussianNB())}
    run_frames(**settings, run_dir=tmp_path / "run", rounds=1)
    told: list[int] = []
    resumed = run_frames(
        **settings, resume=tmp_path / "run", rounds=3, progress=lambda record: told.append(record["round"])
    )
    whole = run_frames(**settings, rounds=3)
    assert told == [2, 3]
    assert [record["round"] for record in resumed.records] == [1, 2, 3]
    assert (resumed.consensus == whole.consensus).all()


@pytest.mark.slow
@pytest.mark.engine
def test_flowers_engine_gives_the_same(run: Run) -> None:
    done = run_frames(algorithm=FedCT(Qualified(0.9)), engine="flower")
    assert (done.consensus == run.consensus).all()
    pd.testing.assert_frame_equal(done.scores, run.scores)
