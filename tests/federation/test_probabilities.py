"""Whole runs in which silos share probabilities."""

from typing import Any

import numpy as np
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.types import ConfigError
from tests.federation.conftest import Federation

SOFT: dict[str, Any] = {"algorithm": "prediction-consensus", "trust": "dynamic"}
NETWORK: dict[str, Any] = {
    "learner": "tests.federation.learners.network",
    "learner_params": "{}",
    "local_steps": 5,
    "learning_rate": 0.02,
}


def test_a_silo_that_leaves_for_a_round_takes_its_trust_with_it_and_brings_it_back(federation: Federation) -> None:
    federation.behave[1] = federation.away(2)
    settings: dict[str, Any] = {"algorithm": "prediction-consensus", "trust": "static", "stop_at_fixed_point": False}
    folder = federation.run(**settings, min_silos=3)
    with_all, without, again = folder.trust()
    assert len(without["silos"]) == 3
    assert set(with_all["silos"]) - set(without["silos"]) == {"budapest"}
    assert again == {**with_all, "round": 3}
    rows = [with_all["silos"].index(silo) for silo in without["silos"]]
    kept = np.array(with_all["matrix"])[np.ix_(rows, rows)]
    np.testing.assert_allclose(without["matrix"], kept / kept.sum(axis=1, keepdims=True), atol=1e-3)


@pytest.mark.parametrize(
    "settings",
    [
        {"algorithm": "fedmd", "trust": "static"},
        {"algorithm": "fedmd", "trust": "static", "consensus_weight": 2.0},
        {"learner": "svm"},
        {"protection": "dp-linear"},
        {"pseudo_weight": 2.0},
        {"algorithm": "dd"},
        {"algorithm": "fedct", "trust": "static", "warm_up_rounds": 2},
    ],
)
def test_what_does_not_go_together_is_refused_before_anything_runs(
    settings: dict[str, Any], federation: Federation, wording: SnapshotAssertion
) -> None:
    with pytest.raises(ConfigError) as caught:
        federation.run(**{**SOFT, "learner_params": "{}", **settings})
    assert str(caught.value) == wording
    assert not federation.sent
