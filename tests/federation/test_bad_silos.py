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


@pytest.mark.parametrize("algorithm", [*SHARE_WEIGHTS, "fedkt", "fedmd"])
def test_who_sends_no_labels_of_its_own_cannot_collude(algorithm: str) -> None:
    with pytest.raises(
        ConfigError, match=r"^[^\n]*colluders [^\n]*: choose another corruption, such as 'label-shift'$"
    ):
        check(**bad("collusion", algorithm=algorithm, **NETWORK))
