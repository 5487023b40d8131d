"""What is added to gradients, and what a silo keeps, by the papers' formulas on three numbers."""

from typing import Any

import numpy as np
import pytest

from fedct_flwr.learners.base import Correction
from fedct_flwr.silo.weights import Drift, control_variates, drift_of, dynamic, proximal
from fedct_flwr.types import TrainingError

BEGUN = {"w": np.array([1.0, 2.0, 3.0])}
REACHED = {"w": np.array([0.0, 2.0, 4.0])}
OWN = {"w": np.array([0.5, 0.0, -0.5])}
CONTROL = {"w": np.array([0.1, 0.2, 0.3])}


def as_lists(correction: Correction) -> tuple[float, list[float]]:
    return correction.pull, correction.shift["w"].tolist() if correction.shift else []


def test_fedprox_pulls_and_keeps_nothing() -> None:
    drift = proximal(0.3)
    assert as_lists(drift.correction(OWN)) == (0.3, [])
    assert drift.change(BEGUN, REACHED) == {}
    assert not drift.sends_change


def test_scaffold_exchanges_the_silos_gradient_and_keeps_the_mean_of_the_rounds() -> None:
    drift = control_variates(CONTROL, reach=2.0)
    assert as_lists(drift.correction(OWN)) == (0.0, pytest.approx([-0.4, 0.2, 0.8]))
    # Option II: c_i - c + (x - y) / (K eta), less c_i.
    assert drift.change(BEGUN, REACHED)["w"].tolist() == pytest.approx([0.4, -0.2, -0.8])
    assert drift.sends_change


def test_feddyn_pulls_and_keeps_the_gradient_where_it_ended() -> None:
    drift = dynamic(0.5)
    assert as_lists(drift.correction(OWN)) == (0.5, [-0.5, 0.0, 0.5])
    assert drift.change(BEGUN, REACHED)["w"].tolist() == [0.5, 0.0, -0.5]
    assert not drift.sends_change


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
