"""What is added to gradients, and what a silo keeps, by the papers' formulas on three numbers."""

from typing import Any

import numpy as np
import pytest

from fedct_flwr.learners import Correction
from fedct_flwr.silo.weights import Drift, control_variates, drift_of, dynamic, proximal
from fedct_flwr.types import TrainingError

BEGUN = {"w": np.array([1.0, 2.0, 3.0])}
REACHED = {"w": np.array([0.0, 2.0, 4.0])}
OWN = {"w": np.array([0.5, 0.0, -0.5])}
CONTROL = {"w": np.array([0.1, 0.2, 0.3])}


def as_lists(correction: Correction) -> tuple[float, list[float]]:
    return correction.pull, correction.shift["w"].tolist() if correction.shift else []


@pytest.mark.parametrize(
    ("drift", "pull", "shift", "kept", "sends"),
    [
        (proximal(0.3), 0.3, [], [], False),
        # Option II: c_i - c + (x - y) / (K eta), less c_i. The gradient is exchanged, and the mean of the rounds kept.
        (control_variates(CONTROL, reach=2.0), 0.0, [-0.4, 0.2, 0.8], [0.4, -0.2, -0.8], True),
        # The gradient where it ended.
        (dynamic(0.5), 0.5, [-0.5, 0.0, 0.5], [0.5, 0.0, -0.5], False),
    ],
    ids=["fedprox", "scaffold", "feddyn"],
)
def test_what_pulls_what_shifts_and_what_is_kept(
    drift: Drift, pull: float, shift: list[float], kept: list[float], sends: bool
) -> None:
    assert as_lists(drift.correction(OWN)) == (pull, pytest.approx(shift))
    assert [*drift.change(BEGUN, REACHED).get("w", [])] == pytest.approx(kept)
    assert drift.sends_change is sends


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({"server-round": 1}, proximal(0.0)),
        ({"server-round": 1, "proximal-mu": 0.2}, proximal(0.2)),
        ({"feddyn-alpha": 0.2}, dynamic(0.2)),
        ({"control-variates": True}, control_variates(CONTROL, 2.0)),
    ],
)
def test_what_the_coordinator_sends_decides(settings: dict[str, Any], expected: Drift) -> None:
    found = drift_of(settings, CONTROL, 2.0)
    assert found.sends_change == expected.sends_change
    assert as_lists(found.correction(OWN)) == as_lists(expected.correction(OWN))
    assert str(found.change(BEGUN, REACHED)) == str(expected.change(BEGUN, REACHED))


def test_control_variates_need_plain_gradient_steps() -> None:
    with pytest.raises(TrainingError, match="set optimizer = 'sgd'"):
        drift_of({"control-variates": True}, CONTROL, None)
