"""The benchmark of FedMD's scenario: its splits, its networks, and what it reads out of a very short run."""

from itertools import chain
from pathlib import Path

import numpy as np
import pytest

from benchmarks import fedmd
from benchmarks.prediction_consensus import ALONE, Length
from benchmarks.variants import VARIANTS
from fedct_flwr import datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.types import DataError


@pytest.fixture
def splits(monkeypatch: pytest.MonkeyPatch) -> dict[str, datasets.FederatedDataset]:
    """The data sets of the benchmark, small."""
    for name in fedmd.SPLITS.values():
        monkeypatch.setitem(datasets.LOADERS, name, VARIANTS[name])
    for name, size in {"private-size": 300, "public-size": 40}.items():
        monkeypatch.setitem(fedmd.SCENARIO, name, size)
    try:
        return {
            split: datasets.load(RunConfig.from_flower({**fedmd.SCENARIO, "data": data}))
            for split, data in fedmd.SPLITS.items()
        }
    except DataError as error:
        if Path("/usr/share/datasets/fashion-mnist").exists():
            raise
        pytest.skip(str(error))


def test_both_splits_have_the_same_records_at_other_silos(splits: dict[str, datasets.FederatedDataset]) -> None:
    apart, alike = ([_records(silo) for silo in dataset.silos] for dataset in splits.values())
    assert sorted(chain(*apart)) == sorted(chain(*alike))
    assert all(set(one) != set(other) for one, other in zip(apart, alike, strict=True))
    assert {len(silo) for silo in alike} == {30}


def _records(silo: datasets.SiloData) -> list[bytes]:
    return [row.tobytes() for row in np.column_stack(silo.private)]


def test_every_method_is_a_run_and_every_kind_of_network_is_at_two_silos() -> None:
    for method in fedmd.METHODS.values():
        length = fedmd.LENGTH.settings(method["algorithm"])
        own = {key: value for key, value in method.items() if value != ALONE}
        config = RunConfig.from_flower({**fedmd.SCENARIO, "data": "fashion-mnist", **own, **length})
        # All methods train for the same rounds: warm-up comes before a silo's first answer.
        assert config.rounds + getattr(config.method, "warm_up_rounds", 1) - 1 == fedmd.LENGTH.rounds
    kinds = [(config.learner[silo], str(config.learner_settings(silo, 10).params)) for silo in range(10)]
    assert kinds[:5] == kinds[5:]
    assert len(set(kinds)) == 5


def test_a_very_short_run_measures_every_method_by_network_and_its_bytes(
    splits: dict[str, datasets.FederatedDataset],
) -> None:
    found = fedmd.compare("fashion-superclasses", Length(rounds=2, warm_up=1, steps=2), seeds=1)
    for name in (*fedmd.METHODS, fedmd.CENTRALIZED):
        of_networks = [found.values[f"{name}, {network}"][0] for network in fedmd.ARCHITECTURES]
        assert found.values[name] == pytest.approx([np.mean(of_networks)])
        assert len(set(of_networks)) > 1
    # A byte for each class but the last; labels are less, and nothing leaves a silo that is alone.
    sent = {name: found.mean(f"{name}: bytes") for name in fedmd.METHODS}
    assert 40 * 4 < sent["FedMD"] == sent["DD"] < 40 * 4 + 150
    assert sent["local only"] == 0 < sent["FedCT"] < 40 * 4
