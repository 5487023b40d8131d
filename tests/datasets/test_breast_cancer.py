"""Breast cancer, split with the paper's sizes."""

from typing import Any

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import FederatedDataset, named


def load(**settings: Any) -> FederatedDataset:
    raw = {"study": "s", "data": "breast-cancer"} | {key.replace("_", "-"): value for key, value in settings.items()}
    return named.breast_cancer(RunConfig.from_flower(raw))


def test_the_papers_sizes() -> None:
    dataset = load()
    assert [silo.private.size for silo in dataset.silos] == [17] * 5
    assert (len(dataset.public), dataset.test.size) == (370, 114)


def test_the_public_set_of_seed_0_is_the_one_it_has_always_been() -> None:
    assert load().public.fingerprint.hex() == "ebd4ec7a58a2b5fecf9d84728bdc1ebea0a72627b90ef5ccb84b62187e8ecef5"
