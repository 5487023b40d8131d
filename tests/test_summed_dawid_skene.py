"""The benchmark of Dawid-Skene in sums: it is the plain rule, and it reads votes without a mistake."""

import numpy as np
import pytest
from numpy.typing import NDArray

from benchmarks import summed_dawid_skene as benchmark
from benchmarks.federation import Runs


def crowd(silos: int, num_classes: int, seed: int = 0) -> NDArray[np.uint8]:
    """Votes of silos of different quality on examples from easy to hard."""
    rng = np.random.default_rng(seed)
    truth = rng.integers(0, num_classes, 400)
    error = rng.uniform(0.05, 0.4, (silos, 1)) * rng.random(400)
    wrong = rng.random((silos, 400)) < error
    return ((truth + wrong * rng.integers(1, num_classes, (silos, 400))) % num_classes).astype(np.uint8)


@pytest.mark.parametrize(("silos", "num_classes"), [(4, 2), (8, 3), (30, 2)])
def test_the_posterior_is_that_of_the_plain_rule_and_votes_are_read_without_a_mistake(
    silos: int, num_classes: int
) -> None:
    found = benchmark.measured(crowd(silos, num_classes), num_classes)
    assert found["off"] < 1e-5
    assert found["wrong"] == 0
    assert found["read"] > 0.1
    assert found["marked"] > silos / 3


def test_sums_of_votes_without_weights_tell_no_silo_from_another() -> None:
    votes = crowd(8, 2)
    counts = np.stack([(votes == label).sum(axis=0) for label in (0, 1)], axis=1)
    marks = {dissent.mark for _, dissents in benchmark.readings(counts, counts * 7) for dissent in dissents}
    # One for each of the two votes, whoever casts it.
    assert len(marks) == 2


def test_the_table_has_a_row_for_each_setting() -> None:
    runs = Runs()
    for seed in range(2):
        runs.add(**benchmark.measured(crowd(4, 2, seed), 2))
    assert "| 4 silos |" in benchmark.text({"4 silos": runs})
