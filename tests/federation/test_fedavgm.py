"""FedAvgM: the global weights against the paper's recursion, computed from what silos sent."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from fedct_flwr.types import ConfigError
from tests.federation.conftest import Federation
from tests.federation.test_dp_fedavg import flat, watched
from tests.federation.test_fedavg import FEDAVG, global_weights

FEDAVGM: dict[str, Any] = {**FEDAVG, "algorithm": "fedavgm", "save_models": True}
SILOS, ROUNDS = 4, FEDAVG["num_server_rounds"]

Vector = NDArray[np.float64]


def ends(federation: Federation, **settings: Any) -> Vector:
    end: Vector = flat(global_weights(federation.run(**settings)))
    return end


@pytest.mark.parametrize(("momentum", "rate"), [(0.9, 1.0), (0.5, 0.7), (0.0, 0.5)])
def test_each_round_steps_as_the_paper_says(federation: Federation, momentum: float, rate: float) -> None:
    seen = watched(federation)
    end = ends(federation, **FEDAVGM, server_momentum=momentum, server_learning_rate=rate)
    assert len(seen) == SILOS * ROUNDS
    at, velocity = flat(seen[0][0]), np.zeros(1)
    for number in range(ROUNDS):
        answers = seen[number * SILOS : (number + 1) * SILOS]
        for sent, _, _ in answers:
            np.testing.assert_allclose(flat(sent), at, rtol=1e-4, atol=1e-6)
        records = [count for _, _, count in answers]
        mean = np.average([flat(reply) for _, reply, _ in answers], axis=0, weights=records)
        velocity = momentum * velocity + at - mean
        at = at - rate * velocity
    np.testing.assert_allclose(end, at, rtol=1e-4, atol=1e-6)


def test_without_momentum_and_with_whole_steps_it_is_fedavg(federation: Federation) -> None:
    plain = ends(federation, **FEDAVG, save_models=True, run_dir=str(federation.path / "plain"))
    still = {**FEDAVGM, "server_momentum": 0.0, "server_learning_rate": 1.0}
    assert (ends(federation, **still, run_dir=str(federation.path / "still")) == plain).all()
    assert (ends(federation, **FEDAVGM, run_dir=str(federation.path / "moving")) != plain).any()


def test_weights_that_count_are_refused(federation: Federation) -> None:
    with pytest.raises(ConfigError, match="batch normalization"):
        federation.run(**{**FEDAVGM, "learner": "tests.federation.test_dp_fedavg.normalized"})
