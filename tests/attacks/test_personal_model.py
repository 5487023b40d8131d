"""A silo's personal model, attacked by forged targets that are never counted.

Before this was mended, a coordinator that stopped its run after training got "nobody waits", which cost nothing, while
the model on the silo's disk had learned the forged targets: .896 to .539 on own patients, with two rounds allowed.
"""

import numpy as np
import pytest

from fedct_flwr.hospital import agent
from fedct_flwr.hospital.log_entry import Event
from fedct_flwr.learners import Saveable
from fedct_flwr.scoring import balanced_accuracy
from fedct_flwr.silo.own import model_before, model_of, real_site
from fedct_flwr.types import Refusal
from tests.hospital.agents import Make, Silo
from tests.hospital.runtime_api import RuntimeApi
from tests.patience import eventually

NETWORK = {
    "name": "tests.federation.learners.network", "packages": ["tests"], "local-steps": 20, "batch-size": 16,
    "warm-up-rounds": 1,
}  # fmt: skip


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent, "_MAX_REFUSAL_SECONDS", 0.01)
    monkeypatch.setattr("fedct_flwr.flower.runtime_client._BEAT_SECONDS", 0.05)


def stop_the_run_after_training(silo: Silo, number: int, label: int) -> None:
    """Ask, and be gone when the answer is there."""
    silo.hold()
    silo.ask(number, label=label)
    silo.training()
    silo.api.close()
    silo.api = RuntimeApi(silo.api.port)
    silo.go()
    eventually(lambda: len(silo.of(Event.REFUSED)) == number)


def test_training_on_forged_targets_counts_and_leaves_the_model_on_disk_as_it_was(make: Make) -> None:
    silo = make(policy={"max-rounds": 2})
    site = real_site(silo.config, silo.study)
    model = model_of(silo.config, site)
    assert model is not None
    model.write_bytes(b"as it was")
    silo.start()
    for number in (1, 2):
        stop_the_run_after_training(silo, number, label=1)
        assert silo.of(Event.REFUSED)[-1].reason == "NOT_AWAITED"
    assert model.read_bytes() == b"as it was"
    assert [(entry.round, entry.queries) for entry in silo.of(Event.ADMITTED)] == [(1, 228), (2, 228)]
    assert sum(entry.bytes for entry in silo.entries()) == 0
    silo.ask(3)
    assert silo.outcome(3) is Refusal.LIMIT
    # Asked again, the silo gives what it has; only now its model keeps what the question taught it.
    silo.ask(2, label=1)
    assert isinstance(silo.outcome(2), np.ndarray)
    eventually(lambda: model.read_bytes() != b"as it was")
    assert len(silo.of(Event.ADMITTED)) == 2


@pytest.mark.parametrize("learner", [{"name": "logistic-regression"}, NETWORK], ids=["refitted", "network"])
def test_the_model_of_before_the_study_is_kept_whatever_targets_do_to_the_later_one(
    make: Make, learner: dict[str, object]
) -> None:
    silo = make(learner={**learner, "pseudo-weight": 100.0} if learner is not NETWORK else learner)
    silo.start()
    for number in (1, 2, 3):
        silo.ask(number, label=1)
        assert isinstance(silo.outcome(number), np.ndarray)
    site = real_site(silo.config, silo.study)
    before, after = model_before(silo.config, site), model_of(silo.config, site)
    assert before is not None
    assert after is not None
    eventually(after.exists)
    eventually(before.exists)
    silo.end()
    assert isinstance(site.learner, Saveable)
    scores = [balanced_accuracy(site.learner.load(path), site.own_test) for path in (before, after)]  # type: ignore[arg-type]
    assert scores[0] > 0.7
    assert scores[1] < scores[0]
