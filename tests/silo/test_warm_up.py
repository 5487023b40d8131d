"""Networks learn their own records before they first answer: as long as set, or until held-out records stop gaining."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from fedct_flwr.config.run import RunConfig
from fedct_flwr.silo.simulated import simulated_site
from fedct_flwr.silo.site import Site
from fedct_flwr.silo.warm_up import warm_up_alone
from tests.golden.runs import COMMON, NETWORK

SETTINGS = {**COMMON, **{name.replace("_", "-"): value for name, value in NETWORK.items()}}


def site(position: int = 0, **settings: Any) -> Site:
    """A hospital with a fresh network."""
    config = RunConfig.from_flower({**SETTINGS, **settings})
    made = simulated_site.__wrapped__(config, position)
    made.learner.reset()
    return made


class Scripted:
    """A network whose losses on held-out records are known: one number for each look."""

    def __init__(self, scores: list[float]) -> None:
        self.scores, self.trained, self.weight = scores, [], 0.0

    def advance(self, private: Any, public: Any, targets: Any, pseudo_weight: float) -> None:
        self.trained.append(private)
        self.weight += 1

    def probabilities(self, X: Any, num_classes: int) -> Any:
        self.asked = len(X)
        return np.tile([self.scores[len(self.trained) - 1], 0.0], (len(X), 1))

    def weights(self) -> dict[str, Any]:
        return {"w": np.array(self.weight)}

    def set_weights(self, weights: Any) -> None:
        self.weight = float(weights["w"])

    def reset(self) -> None:
        self.weight = 0.0

    def label(self, public: Any, positions: Any) -> Any:
        raise NotImplementedError

    dump = restore = fit = predict = label


@pytest.mark.parametrize(
    ("scores", "best", "rounds"),
    [
        ([0.5, 0.4, 0.2, 0.3, 0.2, 0.3, 0.1], 3, 6),
        ([0.3, 0.4, 0.4, 0.4], 1, 4),
        ([0.9, 0.95, 0.9, 0.9, 0.9, 0.3, 0.4, 0.4, 0.4], 6, 9),
        ([0.5 - number / 100 for number in range(20)], 20, 20),
        ([0.9] * 20, 1, 20),
    ],
    ids=["falls and rises", "never better", "not worth asking at first", "in bounded time", "never worth asking"],
)
def test_training_ends_where_held_out_records_stop_gaining(
    scores: list[float], best: int, rounds: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Class 0 has about half of the records, which is the loss of a constant answer then.
    monkeypatch.setattr("fedct_flwr.silo.warm_up.losses", lambda predicted, y: predicted[:, 0])
    learner = Scripted(scores)
    own = replace(site(**{"local-steps": 20}), learner=learner)
    warm_up_alone(own, promised=False)
    assert (learner.weight, len(learner.trained)) == (best, rounds)
    assert learner.asked + learner.trained[0].size == own.private.size
    assert learner.asked == pytest.approx(own.private.size / 5, abs=1)


def test_a_slow_network_is_asked_before_the_round_is_over(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, clock = Scripted([0.0] * 20), iter(range(0, 2000, 120))
    own = replace(site(**{"local-steps": 20}), learner=learner)
    monkeypatch.setattr("fedct_flwr.silo.warm_up.time.monotonic", lambda: next(clock))
    warm_up_alone(own, promised=False)
    assert len(learner.trained) == 3


@pytest.mark.parametrize(
    ("rounds", "promised", "few", "trained"),
    [
        (1, False, False, 0),
        (4, False, False, 3),
        ("auto", True, False, 9),
        ("auto", False, True, 9),
        (4, True, False, 3),
    ],
)
def test_rounds_that_are_set_or_promised_do_not_depend_on_records(
    rounds: Any, promised: bool, few: bool, trained: int
) -> None:
    learner = Scripted([0.0] * 30)
    own = replace(site(**{"warm-up-rounds": rounds}), learner=learner)
    if few:
        own = replace(own, private=type(own.private)(own.private.X[:20], own.private.y[:20]))
    warm_up_alone(own, promised=promised)
    assert len(learner.trained) == trained
    known = own.safeguard.training if rounds == "auto" else own.private
    assert all(np.array_equal(records.X, known.X, equal_nan=True) for records in learner.trained)


def test_records_of_one_patient_are_on_one_side() -> None:
    learner = Scripted([0.5] * 80)
    own = site()
    groups = np.arange(own.private.size) // 3
    own = replace(own, learner=learner, groups=groups)
    numbered = type(own.private)(np.arange(own.private.size)[:, None].astype(float), own.private.y)
    warm_up_alone(replace(own, private=numbered), promised=False)
    inside = set(groups[learner.trained[0].X[:, 0].astype(int)])
    assert len(inside) * 3 == pytest.approx(learner.trained[0].size, abs=2)
