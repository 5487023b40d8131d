"""Breast cancer, split with the paper's sizes."""

from typing import Any

import pytest

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import FederatedDataset, from_sklearn
from fedct_flwr.types import DataError


def load(**settings: Any) -> FederatedDataset:
    raw = {"study": "s", "data": "breast-cancer"} | {key.replace("_", "-"): value for key, value in settings.items()}
    return from_sklearn.breast_cancer(RunConfig.from_flower(raw))


def test_the_papers_sizes() -> None:
    dataset = load()
    assert [silo.private.size for silo in dataset.silos] == [17] * 5
    assert (len(dataset.public), dataset.test.size) == (370, 114)


@pytest.mark.parametrize("seed", range(3))
def test_a_dirichlet_split_leaves_every_silo_five_records_and_loses_none(seed: int) -> None:
    dataset = load(partition="dirichlet", dirichlet_concentration=0.3, seed=seed)
    sizes = [silo.private.size for silo in dataset.silos]
    assert sum(sizes) == 85
    assert min(sizes) >= 5


def test_the_public_set_of_seed_0_is_the_one_it_has_always_been() -> None:
    assert load().public.fingerprint.hex() == "ebd4ec7a58a2b5fecf9d84728bdc1ebea0a72627b90ef5ccb84b62187e8ecef5"


@pytest.mark.parametrize(
    "settings",
    [{"num_silos": 1}, {"num_silos": 86}, {"num_silos": 40, "partition": "dirichlet", "dirichlet_concentration": 0.01}],
)
def test_a_split_that_cannot_be_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="silo"):
        load(**settings)
