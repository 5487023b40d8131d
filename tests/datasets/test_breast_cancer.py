"""Breast cancer, split with the paper's sizes."""

from collections import Counter
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import FederatedDataset, breast_cancer
from fedct_flwr.types import LABEL_DTYPE, DataError, Examples


def load(**settings: Any) -> FederatedDataset:
    raw = {"study": "s", "data": "breast-cancer"} | {key.replace("_", "-"): value for key, value in settings.items()}
    return breast_cancer.load(RunConfig.from_flower(raw))


def records(part: Examples) -> Counter[tuple[bytes, int]]:
    return Counter((row.tobytes(), int(label)) for row, label in zip(part.X, part.y, strict=True))


def test_the_papers_sizes() -> None:
    dataset = load()
    assert [silo.private.size for silo in dataset.silos] == [17] * 5
    assert (len(dataset.public), dataset.test.size) == (370, 114)


def test_every_record_is_in_exactly_one_part() -> None:
    raw, dataset = load_breast_cancer(), load()
    parts = sum((records(silo.private) for silo in dataset.silos), records(dataset.test))
    everything = records(Examples(raw.data, raw.target))
    assert parts <= everything
    assert Counter(row.tobytes() for row in dataset.public.X) == Counter(
        row for row, _ in (everything - parts).elements()
    )


def test_columns_and_classes_are_scikit_learns() -> None:
    raw, schema = load_breast_cancer(), load().schema
    assert schema.classes == ("malignant", "benign")
    assert [column.name for column in schema.columns] == raw.feature_names.tolist()
    assert schema.categorical == ()


def test_there_is_one_test_set_for_all_as_in_the_paper() -> None:
    for silo in load().silos:
        assert silo.test.size == 0
        assert silo.test.X.shape == (0, 30)
        assert silo.test.y.dtype == LABEL_DTYPE


@pytest.mark.parametrize(("num_silos", "sizes"), [(2, [43, 42]), (4, [22, 21, 21, 21]), (85, [1] * 85)])
def test_another_number_of_silos_shares_the_same_records_evenly(num_silos: int, sizes: list[int]) -> None:
    dataset = load(num_silos=num_silos)
    assert [silo.private.size for silo in dataset.silos] == sizes
    assert [silo.name for silo in dataset.silos] == [f"silo-{i}" for i in range(1, num_silos + 1)]


def test_the_number_of_silos_changes_neither_public_nor_test_set() -> None:
    two, five = load(num_silos=2), load()
    assert two.public.fingerprint == five.public.fingerprint
    np.testing.assert_array_equal(two.test.X, five.test.X)


@pytest.mark.parametrize("seed", range(3))
def test_a_dirichlet_split_leaves_every_silo_five_records_and_loses_none(seed: int) -> None:
    dataset = load(partition="dirichlet", dirichlet_concentration=0.3, seed=seed)
    sizes = [silo.private.size for silo in dataset.silos]
    assert sum(sizes) == 85
    assert min(sizes) >= 5


def test_the_smaller_the_concentration_the_more_the_silos_differ() -> None:
    def spread(concentration: float) -> float:
        shares = [
            silo.private.y.mean()
            for seed in range(5)
            for silo in load(partition="dirichlet", dirichlet_concentration=concentration, seed=seed).silos
        ]
        return float(np.std(shares))

    assert spread(0.2) > 2 * spread(100.0)


def test_a_dirichlet_split_shares_the_same_records_as_an_even_one() -> None:
    even, uneven = load(), load(partition="dirichlet")
    assert even.public.fingerprint == uneven.public.fingerprint
    together = [sum((records(silo.private) for silo in data.silos), Counter()) for data in (even, uneven)]
    assert together[0] == together[1]


@pytest.mark.parametrize("partition", ["iid", "dirichlet", "dirichlet-by-silo"])
def test_the_same_seed_gives_the_same_silos_and_another_seed_others(partition: str) -> None:
    first, again, other = (load(partition=partition, seed=seed) for seed in (1, 1, 2))
    assert first.public.fingerprint == again.public.fingerprint != other.public.fingerprint
    for one, same in zip(first.silos, again.silos, strict=True):
        np.testing.assert_array_equal(one.private.X, same.private.X)


def test_the_public_set_of_seed_0_is_the_one_it_has_always_been() -> None:
    assert load().public.fingerprint.hex() == "ebd4ec7a58a2b5fecf9d84728bdc1ebea0a72627b90ef5ccb84b62187e8ecef5"


@pytest.mark.parametrize(
    "settings",
    [{"num_silos": 1}, {"num_silos": 86}, {"num_silos": 40, "partition": "dirichlet", "dirichlet_concentration": 0.01}],
)
def test_a_split_that_cannot_be_is_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(DataError, match="silo"):
        load(**settings)


def test_more_public_examples_than_there_are_records_are_refused() -> None:
    with pytest.raises(DataError, match=r"569 records .* need 586"):
        load(public_size=500)
