"""What a silo says by a vote of teachers, and what it costs."""

import numpy as np
import pytest
from dp_accounting import DpEvent
from scipy.stats import chi2

from fedct_flwr.labelers.labeler import Asked
from fedct_flwr.labelers.teachers import TeachersLabeler
from fedct_flwr.privacy.accounting import epsilon
from fedct_flwr.privacy.randomness import SecureNoise, SimulatedNoise, uniform_below
from fedct_flwr.types import Examples
from tests.labelers.sensitive import learner

PUBLIC = np.arange(40.0).reshape(-1, 1)


def labeler(**settings: object) -> TeachersLabeler:
    given = {"num_units": 100, "num_teachers": 20, "num_queries": 40, "epsilon": 1.0, "delta": 1e-5, "seed": 0}
    return TeachersLabeler(learner, 40, 5, **(given | settings))  # type: ignore[arg-type]


def asked(positions: list[int], private: Examples | None = None) -> Asked:
    private = private or Examples(np.arange(100.0).reshape(-1, 1), np.zeros(100, np.int16))
    return Asked(private, PUBLIC, np.full(40, -1), np.zeros(len(positions), np.int16), np.array(positions))


def test_records_draw_their_teachers_uniformly_from_the_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    drawn = []

    def spy(noise: SecureNoise, bound: int, size: int) -> np.ndarray:
        parts = uniform_below(noise, bound, size)
        drawn.append((bound, parts))
        return parts

    monkeypatch.setattr("fedct_flwr.labelers.transfer.uniform_below", spy)
    private = Examples(np.zeros((4000, 1)), np.zeros(4000, np.int16))
    labeler().answer(asked([0], private), SecureNoise())
    bound, parts = drawn[0]
    assert (bound, len(parts)) == (20, 4000)
    seen = np.bincount(parts, minlength=20)
    assert chi2.sf(((seen - 200) ** 2 / 200).sum(), 19) > 1e-6
    assert len(set(seen.tolist())) > 1  # equal parts would not be independent draws


@pytest.mark.parametrize("kind", ["gumbel", "gaussian"])
def test_only_new_examples_are_paid_for(kind: str) -> None:
    found = labeler(noise_kind=kind)
    first = found.answer(asked([3, 5]), SecureNoise())

    def cost(event: DpEvent) -> float:
        return epsilon(event, 1e-5).upper

    assert cost(found.event(asked([3, 5]))) == 0
    assert cost(found.event(asked([5, 9, 3]))) == cost(found.event(asked([9]))) > 0
    assert found.answer(asked([5, 9, 3]), SecureNoise())[[2, 0]].tolist() == first.tolist()


def test_a_tie_after_the_noise_goes_to_any_class() -> None:
    found = labeler(num_queries=1, epsilon=1e3, noise_kind="gaussian")
    nobody = Examples(np.empty((0, 1)), np.empty(0, np.int16))
    labels = found.answer(asked(list(range(40)), nobody), SimulatedNoise(np.random.default_rng(0)))
    assert len(set(labels.tolist())) == 5


def test_its_dump_holds_the_answers_alone() -> None:
    one, other = labeler(epsilon=1e-3), labeler(epsilon=1e-3)
    different = Examples(np.full((100, 1), 5.0), np.ones(100, np.int16))
    one.answer(asked([1, 2]), SecureNoise())
    other.answer(asked([1, 2], different), SecureNoise())
    assert len(one.dump()) == len(other.dump()) == 16 + 2 * 40
    given = np.frombuffer(one.dump()[16:], "<i2")
    assert np.flatnonzero(given >= 0).tolist() == [1, 2]
