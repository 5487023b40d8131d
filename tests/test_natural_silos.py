"""The data sets that come in silos of their own, on a small table of each kind."""

import gzip
from pathlib import Path

import numpy as np
import pytest

from benchmarks import natural_silos
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import FederatedDataset


def load(name: str, folder: Path, file: str, text: list[str], monkeypatch: pytest.MonkeyPatch) -> FederatedDataset:
    (folder / file).write_bytes(gzip.compress("\n".join([*text, ""]).encode()))
    monkeypatch.setenv("FEDCT_DATA", str(folder))
    return natural_silos.load(name, RunConfig.from_flower({"study": "s", "data": name}))


def test_a_silo_for_each_value_and_one_for_records_without(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"{20 + n},{('State', 'Private', '')[n % 3]},{n},{('<=50K', '>50K')[n % 2]},train" for n in range(60)]
    header = "age,workclass,fnlwgt,income,split"
    dataset = load("adult-by-workclass", tmp_path, "adult.csv.gz", [header, *rows], monkeypatch)
    assert [silo.name for silo in dataset.silos] == ["workclass-Private", "workclass-State", "workclass-unknown"]
    assert [column.name for column in dataset.schema.columns] == ["age"]
    # A quarter public, a fifth test, of 20 each.
    assert [(silo.private.size, silo.test.size) for silo in dataset.silos] == [(11, 4)] * 3
    assert (len(dataset.public), dataset.test.size) == (15, 12)
    ages = np.concatenate([dataset.public.X, dataset.test.X, *(silo.private.X for silo in dataset.silos)])
    assert sorted(ages[:, 0]) == list(range(20, 80))


def test_a_number_from_which_on_the_label_is_positive(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"1,{1 + n // 10},{n},{n % 11},M,{n % 12},{n % 8}" for n in range(40)]
    text = ["lea,school,student,score,gender,age,gcsescore", *rows]
    dataset = load("schools", tmp_path, "chem97.csv.gz", text, monkeypatch)
    assert len(dataset.silos) == 4
    assert [column.name for column in dataset.schema.columns] == ["gender", "age", "gcsescore"]
    positive = sum(int(silo.private.y.sum() + silo.test.y.sum()) for silo in dataset.silos)
    assert dataset.truth is not None
    assert positive + int(dataset.truth.sum()) == sum(n % 11 >= 8 for n in range(40))


def test_a_large_silo_gives_a_part_of_its_records(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"{n},{3 + n % 6},{'red' if n < 1600 else 'white'}" for n in range(1700)]
    dataset = load("wine-by-type", tmp_path, "wine_quality.csv.gz", ["pH,quality,type", *rows, rows[0]], monkeypatch)
    sizes = [silo.private.size + silo.test.size for silo in dataset.silos]
    assert sizes == [natural_silos.MOST * 3 // 4, 75]
