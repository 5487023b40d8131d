"""Whole runs in which the labels that leave are a labeler's."""

from typing import Any

import pytest

from fedct_flwr.privacy.ledger import Ledger
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.silo.release import DATA_SET
from fedct_flwr.types import RunError
from fedct_flwr.wire.refusal import Refusal
from tests.federation.conftest import Federation
from tests.silo.labelers import drawing


def spent(folder: RunFolder, silo: str, study: str = "test") -> Any:
    with Ledger(folder.silo_privacy(silo)) as ledger:
        return ledger.spent(study, DATA_SET)


def test_silos_that_have_spent_all_say_so_and_the_run_ends_with_that(
    federation: Federation, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Two answers of epsilon 0.4 are all that 1 covers."""
    monkeypatch.setattr("fedct_flwr.silo.site.labeler_for", drawing)
    with pytest.raises(RunError, match=Refusal.PRIVACY_BUDGET.sentence):
        federation.run(protection="dp-linear", epsilon=1.0, num_server_rounds=5)
    folder = RunFolder(federation.path / "run")
    assert [line["round"] for line in folder.rounds()] == [1, 2]
    assert spent(folder, "zurich").charges == 2
