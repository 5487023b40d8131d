"""A public set made of a hospital's own patients, with what a coordinator can do to hide them."""

import csv
import math
from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.hospital.duplicates import DuplicateReport, find_duplicates
from fedct_flwr.hospital.log_entry import read_entries
from fedct_flwr.types import ConfigError
from tests.cli.conftest import fedct, here, kit
from tests.cli.silos import Fedct, Kit

__all__ = ["fedct", "here", "kit"]

PATIENTS = 10


Table = NDArray[np.float64]
DISGUISES: dict[str, Callable[[Table, Table], list[Table]]] = {
    "an outlier": lambda public, copies: [public, copies, 1e4 * np.nanstd(public, axis=0)[None]],
    "the largest number": lambda public, copies: [public, copies, np.full((1, public.shape[1]), 1.7e308)],
    "others inflated": lambda public, copies: [1e6 * public, copies],
}
"""From an honest public set and copies of patients: the parts of the public set that the coordinator hands out."""


def reports(disguise: str, silo: str) -> list[DuplicateReport]:
    """What a hospital finds in five splits. None of its records is in the honest part of the public set."""
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        data = datasets.load(RunConfig.from_flower({"study": "test", "data": "heart-disease", "seed": seed}))
        records, public = data.silos[data.position(silo)].private.X, data.public.X
        own = {row.tobytes() for row in records}
        public = public[[row.tobytes() not in own for row in public]]
        copies = records[rng.choice(len(records), PATIENTS, replace=False)]
        found.append(find_duplicates(records, np.concatenate(DISGUISES[disguise](public, copies)), data.schema))
    return found


@pytest.mark.parametrize("silo", ["cleveland", "zurich"])
@pytest.mark.parametrize("disguise", DISGUISES)
def test_exact_copies_are_always_found_whatever_stands_beside_them(disguise: str, silo: str) -> None:
    for report in reports(disguise, silo):
        assert report.exact >= PATIENTS
        assert report.alarm


def test_categories_that_are_renamed_hide_no_copy() -> None:
    rng = np.random.default_rng(0)
    schema = Schema(("no", "yes"), (*(Column(f"c{i}") for i in range(6)), Column("sex", ("Female ", "Male "))))
    # The silo writes "Female" and "Male", which the public set does not have.
    records = np.column_stack([rng.normal(size=(100, 6)), np.full(100, 2.0)])
    public = np.column_stack([rng.normal(size=(100, 6)), rng.integers(0, 2, size=100)])
    public[:1, :6] = records[:1, :6]
    assert find_duplicates(records, public, schema).exact == 1


def test_columns_that_the_silo_lacks_hide_no_copy() -> None:
    rng = np.random.default_rng(0)
    records = np.column_stack([rng.normal(size=(100, 6)), np.full((100, 50), math.nan)])
    public = rng.normal(size=(100, 56))
    public[:1, :6] = records[:1, :6]
    schema = Schema.numeric(("no", "yes"), tuple(f"c{i}" for i in range(56)))
    assert find_duplicates(records, public, schema).exact == 1


def test_one_outlier_does_not_get_a_public_set_of_patients_approved(fedct: Fedct, kit: Kit) -> None:
    with (kit.source / "data.csv").open(newline="", encoding="utf-8") as file:
        records = [row[:-1] for row in csv.reader(file)][1:]
    path = kit.folder / "study" / "public.csv"
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.reader(file))
    outlier = [str(1e4 * (1 + position)) for position in range(len(rows[0]))]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([*rows, *records[:PATIENTS], outlier])
    refused = fedct("silo", "approve", kit.folder, "--yes", "--reason", "test")
    assert refused.code == ConfigError.exit_code
    assert "add --despite-duplicates" in refused.sentence
    assert list(read_entries(kit.state)) == []
    assert fedct("silo", "approve", kit.folder, "--yes", "--reason", "test", "--despite-duplicates").code == 0
    (entry,) = read_entries(kit.state)
    told = entry.details["duplicates"]
    assert isinstance(told, dict)
    assert (told["exact"], told["own-exact"], told["alarm"]) == (PATIENTS, 0, True)
