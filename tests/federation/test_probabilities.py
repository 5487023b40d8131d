"""Whole runs in which silos share probabilities."""

from typing import Any

import numpy as np

from tests.federation.conftest import Federation


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
