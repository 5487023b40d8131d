"""Silos that are bad on purpose, in every algorithm: each takes them, or says in a sentence why not."""

from typing import Any

import pytest

from fedct_flwr import datasets
from fedct_flwr.algorithms.table import ALGORITHMS, find_algorithm
from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.label_sharing import LabelSharing
from fedct_flwr.datasets.corruption import OF_LABELS
from fedct_flwr.types import ConfigError
from tests.federation.conftest import Federation

KINDS = [*OF_LABELS, "collusion"]
SHARE_LABELS = [name for name, algorithm in ALGORITHMS.items() if issubclass(algorithm, LabelSharing)]
SHARE_WEIGHTS = [name for name in ALGORITHMS if name not in SHARE_LABELS]
NETWORK = {"learner": "tests.federation.learners.linear", "optimizer": "sgd"}


def bad(corruption: str, **settings: Any) -> dict[str, Any]:
    return {"bad_silos": "cleveland", "corruption": corruption, **settings}


def check(**settings: Any) -> None:
    """What is checked before a run."""
    given = {"study": "t", "data": "heart-disease", **{key.replace("_", "-"): value for key, value in settings.items()}}
    config = RunConfig.from_flower(given)
    find_algorithm(config).check(config, datasets.load(config))


@pytest.mark.parametrize("corruption", KINDS)
@pytest.mark.parametrize("algorithm", sorted(set(SHARE_LABELS) - {"fedkt", "fedmd"}))
def test_what_shares_labels_hears_all_silos(algorithm: str, corruption: str, federation: Federation) -> None:
    entry = federation.run(**bad(corruption, algorithm=algorithm, num_server_rounds=1)).rounds()[0]
    assert len(entry["silos"]) == 4
    assert entry["absent"] == {}


@pytest.mark.parametrize("corruption", OF_LABELS)
def test_bad_labels_are_learned_by_fedkts_students_too(corruption: str, federation: Federation) -> None:
    folder = federation.run(**bad(corruption, algorithm="fedkt", num_server_rounds=1, teachers=2))
    assert len(folder.rounds()[0]["silos"]) == 4


@pytest.mark.parametrize("algorithm", sorted(set(SHARE_WEIGHTS) - {"dp-fedavg"}))
def test_what_shares_weights_averages_what_was_learned_from_bad_labels(algorithm: str) -> None:
    # One of them matches hidden neurons, which a linear network has not.
    hidden = NETWORK | {"learner": "tests.federation.learners.network"}
    for corruption in OF_LABELS:
        check(**bad(corruption, algorithm=algorithm, **hidden))


@pytest.mark.parametrize("corruption", OF_LABELS)
def test_fedmds_networks_learn_bad_labels_too(corruption: str) -> None:
    check(**bad(corruption, algorithm="fedmd", **NETWORK))


@pytest.mark.parametrize("algorithm", [*SHARE_WEIGHTS, "fedkt", "fedmd"])
def test_who_sends_no_labels_of_its_own_cannot_collude(algorithm: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^[^\n]*colluders [^\n]*: choose another corruption, such as 'label-shift'$"
    ):
        check(**bad("collusion", algorithm=algorithm, **NETWORK))


def test_a_learner_that_does_not_exist_is_found_although_the_first_silo_colludes() -> None:
    with pytest.raises(ConfigError, match="did you mean 'random-forest'"):
        check(**bad("collusion", learner="random-forst"))


def test_networks_train_on_although_the_first_silo_colludes(federation: Federation) -> None:
    """No label changes from the second round on, and who trains on may yet change one."""
    settings = {**NETWORK, "learner_params": "{}", "local_steps": 1, "learning_rate": 1e-9, "num_server_rounds": 4}
    assert len(federation.run(**bad("collusion", **settings)).rounds()) == 4
