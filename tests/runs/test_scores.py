"""What ``scores.json`` holds comes back, and what misleads is said."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import load
from fedct_flwr.evaluation.references import centralized, local_only
from fedct_flwr.evaluation.scoreboard import reported, score
from fedct_flwr.learners.build import build_learner
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.runs.scores import (
    METHODS,
    OnTest,
    SiloScores,
    comparable,
    means,
    means_words,
    read,
    save,
    worst_first,
)  # fmt: skip
from fedct_flwr.scoring import balanced_accuracy
from fedct_flwr.scoring.assessment import Labels, Predicted, assess
from fedct_flwr.types import LABEL_DTYPE, Examples, RunError

CLASSES = ("healthy", "ill")


def on_test(y: list[int], probabilities: list[float], threshold: float = 0.5) -> OnTest:
    """Three models that all say the same of these records."""
    labels, positive = np.array(y, dtype=LABEL_DTYPE), np.array(probabilities)
    said = Predicted((positive > threshold).astype(LABEL_DTYPE), np.stack([1 - positive, positive], axis=1))
    model = assess(Examples(np.zeros((len(y), 1)), labels), said, Labels(2, 1))
    counts = dict(zip(CLASSES, np.bincount(labels, minlength=2).tolist(), strict=True))
    return OnTest(len(y), counts, "ill", dict.fromkeys(METHODS, model))


def row(silo: str, own: OnTest, pooled: OnTest) -> SiloScores:
    tests = {"own": own, "pooled": pooled}
    numbers = [
        {method: test.models[method].value("balanced_accuracy") for method in METHODS} for test in tests.values()
    ]
    return SiloScores(silo, *numbers, 10, tests)


GOOD = on_test([0, 0, 0, 1, 1, 1], [0.1, 0.2, 0.6, 0.4, 0.8, 0.9])
ONE_CLASS = on_test([1, 1, 1], [0.4, 0.8, 0.9])
EMPTY = on_test([], [])
RARE = on_test([0] * 190 + [1] * 10, [*np.linspace(0.0, 0.3, 190), *np.linspace(0.15, 0.35, 10)])


@pytest.mark.parametrize("tests", [(GOOD, GOOD), (ONE_CLASS, GOOD), (EMPTY, RARE)])
def test_what_is_saved_comes_back(tmp_path: Path, tests: tuple[OnTest, OnTest]) -> None:
    rows = [row("a", *tests)]
    save(rows, tmp_path / "scores.json")
    (found,) = read(tmp_path / "scores.json")
    # NaN is no equal of itself; as text it is.
    assert repr(found) == repr(rows[0])


@given(
    damage=st.recursive(
        st.none() | st.integers() | st.text(max_size=3),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(["own", "m"]), inner, max_size=2),
        max_leaves=4,
    )
)
def test_a_damaged_file_is_one_sentence(tmp_path_factory: pytest.TempPathFactory, damage: object) -> None:
    path = tmp_path_factory.mktemp("damaged") / "scores.json"
    path.write_text(json.dumps([{"silo": "a", "own": {}, "pooled": {}, "bytes_sent": 1, "tests": {"own": damage}}]))
    with pytest.raises(RunError, match="damaged"):
        read(path)


def test_silos_without_a_score_are_left_out_of_the_mean_of_that_test_set_alone(wording: SnapshotAssertion) -> None:
    rows = [row("a", GOOD, GOOD), row("b", ONE_CLASS, RARE)]
    assert [found.silo for found in comparable(rows, "own")] == ["a"]
    assert [found.silo for found in comparable(rows, "pooled")] == ["a", "b"]
    assert means(rows, "own")["local"] == rows[0].own["local"]
    assert means(rows, "pooled")["local"] == (rows[0].pooled["local"] + rows[1].pooled["local"]) / 2
    assert means_words(rows) == wording


def test_the_silo_whose_stated_chances_are_furthest_off_comes_first() -> None:
    high = on_test([0] * 8 + [1] * 2, [0.7] * 5 + [0.8] * 5)
    rows = [row("unknown", ONE_CLASS, GOOD), row("good", GOOD, GOOD), row("high", high, GOOD)]
    assert [each.silo for each in worst_first(rows, "own")] == ["high", "good", "unknown"]
    assert [each.silo for each in worst_first(rows, "pooled")] == ["unknown", "good", "high"]


# --- the table at the end: every number whole, and a dash where there is none


def test_baselines_and_models_are_scored_on_own_and_pooled_test_sets(tmp_path: Path) -> None:
    """The last silo never answered, and the first missed a round; each silo kept its own labels."""
    learner = {"learner": "decision-tree", "learner-params": '{"max_depth": 3}'}
    config = RunConfig.from_flower({"study": "s", "data": "heart-disease", **learner})
    dataset = load(config)
    folder = RunFolder.create(tmp_path / "run", config.to_flower(), {})
    folder.models.mkdir()
    for position, silo in enumerate(dataset.silos[:-1]):
        model: Any = build_learner(config, dataset, position, silo.private.X).fit(*silo.private)
        model.save(folder.models / f"{silo.name}.skops")
    present = [silo.name for silo in dataset.silos[:-1]]
    for number, silos in enumerate([present, present[1:], present], start=1):
        folder.append_round({"round": number, "silos": {silo: {"bytes_sent": 10 * number} for silo in silos}})
    rows = score(config, dataset, folder)
    assert [entry.silo for entry in rows] == [silo.name for silo in dataset.silos]
    assert [entry.bytes_sent for entry in rows] == [40, 60, 60, 0]
    for position, entry in enumerate(rows[:-1]):
        for found, test in ((entry.own, dataset.silos[position].test), (entry.pooled, dataset.test)):
            assert found["local"] == balanced_accuracy(local_only(config, dataset, position), test)
            assert found["centralized"] == balanced_accuracy(centralized(config, dataset, position), test)
            # These models saw nothing but private records, so they are the local ones.
            assert found["federated"] == found["local"]


def test_reported_scores_are_those_of_the_last_reply(tmp_path: Path) -> None:
    folder = RunFolder.create(tmp_path / "real", {}, {})
    pooled = {"pooled_accuracy": 0.83, "pooled_balanced_accuracy": 0.84}
    every = {"own_accuracy": 0.81, "own_balanced_accuracy": 0.82, **pooled}
    # The last one had no part in the end.
    told = {"cleveland": every, "budapest": pooled, "zurich": None, "long-beach": every}
    for number, silos in ((1, [*told]), (2, [*told][:-1])):
        sent = {silo: {"bytes_sent": number, "scores": told[silo]} for silo in silos}
        folder.append_round({"round": number, "silos": sent})
    rows = reported(folder, [*told])
    found = [(row.own["federated"], row.pooled["federated"], row.bytes_sent) for row in rows]
    unknown = float("nan")
    expected = [(0.82, 0.84, 3), (unknown, 0.84, 3), (unknown, unknown, 3), (unknown, unknown, 1)]
    np.testing.assert_array_equal(found, expected)
