"""Whole runs in which silos send labels and learn the shares of the votes."""

from typing import Any

import numpy as np
import pytest

from tests.federation.conftest import Federation

SHARES: dict[str, Any] = {"algorithm": "fedct-shares"}
NETWORK: dict[str, Any] = {
    "learner": "tests.federation.learners.network",
    "learner_params": "{}",
    "local_steps": 5,
    "learning_rate": 0.02,
}
EVERY = pytest.mark.parametrize("settings", [SHARES, {**SHARES, **NETWORK}], ids=["tree", "network"])


@EVERY
def test_silos_send_what_they_send_of_labels_and_the_labels_are_the_pluralitys(
    settings: dict[str, Any], federation: Federation
) -> None:
    folder = federation.run(**settings)
    plain = federation.run(**{**settings, "algorithm": "fedct"}, run_dir=str(federation.path / "labels"))
    first, other = folder.rounds()[0]["silos"], plain.rounds()[0]["silos"]
    assert {name: silo["bytes_sent"] for name, silo in first.items()} == {
        name: silo["bytes_sent"] for name, silo in other.items()
    }
    checkpoint = folder.load_checkpoint()
    shares = checkpoint.state["shares"]
    np.testing.assert_allclose(shares.sum(axis=1), 1, atol=1e-6)
    clear = np.ptp(shares, axis=1) > 0
    assert (shares.argmax(axis=1) == checkpoint.targets)[clear].all()
    assert not any(entry["absent"] for entry in folder.rounds())
