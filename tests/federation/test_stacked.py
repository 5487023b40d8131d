"""All silos' networks in one process train as one, with the labels of one after the other."""

from collections.abc import Sequence
from typing import Any

import pytest

from fedct_flwr.learners.stacked import Stacks
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.silo.simulated import simulated_site
from tests.federation.conftest import DEADLINE, Federation

pytest.importorskip("torch")

NETWORK = {
    "learner": "mlp", "learner_params": '{"width": 8}', "local_steps": 20, "batch_size": 16, "learning_rate": 0.02,
    "device": "cpu", "num_server_rounds": 3,
}  # fmt: skip


class Counting:
    """Trains networks, and remembers of how many silos each time."""

    def __init__(self, at_once: int = 0) -> None:
        self.silos: list[int] = []
        self._train = Stacks(at_once).train

    def __call__(self, courses: Sequence[Any]) -> Sequence[Exception | None]:
        self.silos.append(len(courses))
        return self._train(courses)


def told(folder: RunFolder) -> list[Any]:
    """What the rounds' log says, but for times."""
    return [
        {**entry, "seconds": 0, "silos": {s: {**of, "seconds": 0} for s, of in entry["silos"].items()}}
        for entry in folder.rounds()
    ]


WAYS: dict[str, dict[str, Any]] = {
    "labels": {},
    "shares": {"algorithm": "fedct-shares"},
    "soft targets": {"algorithm": "prediction-consensus", "query_size": 60, "warm_up_rounds": 2},
    "weights": {"algorithm": "fedprox", "proximal_mu": 0.5},
    "control variates": {"algorithm": "scaffold", "optimizer": "sgd"},
    "students": {"algorithm": "fedkt", "num_server_rounds": 1},
}


@pytest.mark.parametrize("way", WAYS)
def test_the_labels_are_those_of_one_after_the_other(way: str, federation: Federation) -> None:
    logs = []
    for train in (None, Counting()):
        federation.path = federation.path / "next"
        simulated_site.cache_clear()
        logs.append(told(federation.run(workers=1, train=train, **{**NETWORK, **WAYS[way]})))
    assert logs[0] == logs[1]
    assert train is not None
    # Before their first answer some may need longer than others.
    assert set(train.silos[-2:]) == {4}


def test_a_silo_that_hangs_holds_no_other_up_beyond_the_deadline(federation: Federation) -> None:
    federation.behave[1] = federation.hang
    train = Counting()
    folder = federation.run(train=train, round_deadline=DEADLINE, warm_up_rounds=1, **NETWORK)
    absent = [entry["absent"] for entry in folder.rounds()]
    assert [set(names) for names in absent] == [{"budapest"}] * 3
    assert train.silos == [3, 3, 3]
