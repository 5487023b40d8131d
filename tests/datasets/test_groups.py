"""One patient's records stay on one side of every split, and what test sets share with training is said."""

from decimal import Decimal
from pathlib import Path
from uuid import UUID

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import FederatedDataset, load
from fedct_flwr.datasets.federated import column_of_groups, numbered, split_off
from fedct_flwr.datasets.inspection.data_set import inspect_dataset
from fedct_flwr.types import LABEL_DTYPE, ConfigError, DataError, Examples
from tests.sentences import sentence


def records(n: int, seed: int = 0) -> Examples:
    rng = np.random.default_rng(seed)
    return Examples(rng.normal(size=(n, 3)), rng.integers(0, 2, n).astype(LABEL_DTYPE))


def patients(num: int, rows: int, seed: int, first: int = 0) -> pd.DataFrame:
    """``rows`` records of each of ``num`` patients, numbered from ``first``, in a mixed order."""
    rng = np.random.default_rng(seed)
    ids = np.repeat(np.arange(first, first + num), rows)
    frame = pd.DataFrame({"patient": ids, "x": rng.normal(size=len(ids)), "z": rng.normal(size=len(ids))})
    frame["ill"] = rng.integers(0, 2, num)[ids - first]
    return frame.sample(frac=1, random_state=seed)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for number, name in enumerate(("a", "b", "c")):
        patients(30, 5, number, first=100 * number).to_csv(tmp_path / f"{name}.csv", index=False)
    patients(20, 5, 9, first=300).drop(columns="ill").to_csv(tmp_path / "public.csv", index=False)
    return tmp_path


def read(folder: Path, **settings: object) -> FederatedDataset:
    keys = {name.replace("_", "-"): value for name, value in settings.items()}
    return load(
        RunConfig.from_flower({"study": "s", "data": "files", "data-dir": str(folder), "label-column": "ill", **keys})
    )


# --- splits


@given(
    groups=st.lists(st.integers(0, 6), min_size=1, max_size=40),
    share=st.sampled_from([0.0, 0.1, 0.3, 0.5, 0.9]),
    seed=st.integers(0, 5),
)
def test_no_group_is_on_both_sides_and_no_record_is_lost(groups: list[int], share: float, seed: int) -> None:
    known = np.array(groups, dtype=np.int64)
    test, private = split_off(records(len(groups)), share, np.random.default_rng(seed), known)
    assert sorted([*test, *private]) == list(range(len(groups)))
    assert not set(known[test]) & set(known[private])
    held_out, all_groups = len(set(known[test])), len(set(groups))
    assert held_out == (max(1, int(share * all_groups + 1e-9)) if share and all_groups > 1 else 0)


def test_files_are_split_by_patients_who_are_no_feature(folder: Path) -> None:
    dataset = read(folder, group_column="patient")
    assert [column.name for column in dataset.schema.columns] == ["x", "z"]
    for silo in dataset.silos:
        assert silo.groups is not None
        assert silo.test_groups is not None
        assert (silo.private.size, silo.test.size) == (120, 30)
        assert (len(silo.groups), len(silo.test_groups)) == (120, 30)
        assert not set(silo.groups) & set(silo.test_groups)
    # One row of many: told apart by its features.
    raw = pd.read_csv(folder / "a.csv").set_index("x")["patient"]
    parts = {"private": dataset.silos[0].private, "test": dataset.silos[0].test}
    of = {side: {raw[x] for x in part.X[:, 0]} for side, part in parts.items()}
    assert (len(of["private"]), len(of["test"])) == (24, 6)
    assert not of["private"] & of["test"]


@pytest.mark.parametrize(
    ("changes", "error"), [({"group_column": "ward"}, DataError), ({"group_column": "ill"}, ConfigError)]
)
def test_a_group_that_is_not_there_or_is_the_label_is_refused(
    folder: Path, changes: dict[str, str], error: type[Exception]
) -> None:
    with pytest.raises(error, match=changes["group_column"]):
        read(folder, **changes)


@pytest.mark.parametrize(
    "values",
    [
        pa.array([7, 8, None, 7]),
        pa.array([7.0, 8.0, None, 7.0]),
        pa.array([7.0, 8.0, float("nan"), 7.0], from_pandas=False),
        pa.array(["7", " 8", "", "7 "]),
        pa.array(["7", "08", "", "000007"]),
        pa.array(["7", "8", None, "7"]).dictionary_encode(),
        pa.array([7.0, 8.0, None, 7.0], pa.float32()),
        pa.array([Decimal("7.00"), Decimal(8), None, Decimal("7.00")]),
        pa.array(["7.0", "8,", None, "7"]),
        pa.array(["7.0 ", "08.0", None, "\u200b7\ufeff"]),
        pa.array(["\uff17", "8\u00a0", None, "7"]),
    ],
)
def test_a_number_is_the_same_patient_however_a_table_holds_it(values: pa.Array) -> None:
    column = column_of_groups(pa.table({"patient": values}), "patient", "t")
    other = column_of_groups(pa.table({"patient": ["8", "9"]}), "patient", "t")
    found, of_other = numbered([column, other])
    assert found[0] == found[3]
    assert found[1] == of_other[0]
    # A record without a group is nobody else's.
    assert len({*found, *of_other}) == 4


LONG = [276_000_000_000_000_000 + number for number in range(4)]
IDS = [UUID(int=number << number) for number in range(20)]


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (pa.array(LONG), LONG),
        (pa.array(LONG, pa.uint64()), LONG),
        (pa.array(map(Decimal, LONG), pa.decimal128(38, 0)), LONG),
        (pa.array([f"{number}.0" for number in LONG], pa.large_string()), LONG),
        (pa.array(map(Decimal, LONG), pa.decimal128(38, 3)), LONG),
        (pa.array(IDS), IDS),
        (pa.array([each.bytes for each in IDS], pa.large_binary()), IDS),
        (pa.array(map(str, IDS)), IDS),
        (pa.array([each.hex for each in IDS]), IDS),
        (pa.array([f"{{{each}}}".upper() for each in IDS]), IDS),
    ],
    ids=range(10),
)
def test_long_numbers_and_uuids_stay_apart(values: pa.Array, wanted: list[object]) -> None:
    assert column_of_groups(pa.table({"patient": values}), "patient", "t").to_pylist() == [*map(str, wanted)]


def test_text_with_zeros_is_not_the_number_without_them() -> None:
    """1.000 on a list, a thousand in German, was patient 1."""
    texts = ["1.000", "1,000", "1.00", "12.500", "1"]
    assert column_of_groups(pa.table({"patient": texts}), "patient", "t").to_pylist() == texts


def test_dashes_and_blanks_of_every_kind_spell_one_patient() -> None:
    texts = [f"kh{dash}07" for dash in "-\u2010\u2011\u2012\u2013\u2014\u2015\u2212\uff0d"]
    texts += [f"k{sign}h-07" for sign in "\u200b\u200c\u200d\u2060\ufeff\u00ad"] + ["\u00a0KH-07\u202f"]
    assert {*column_of_groups(pa.table({"patient": texts}), "patient", "t").to_pylist()} == {"kh-07"}


@pytest.mark.parametrize(
    ("values", "why"),
    [
        (pa.array([2.0**53, 1.0]), "were rounded"),
        (pa.array([2.0**24, None], pa.float32()), "were rounded"),
        (pa.array(np.array([1, 2**11], np.float16)), "were rounded"),
        (pa.array(["2,76E+17", "1"]), "were rounded"),
        (pa.array([b"short"]), "must hold numbers or text"),
        (pa.array([[1], [2]]), "must hold numbers or text"),
        (pa.array([{"binary": 1}]), "must hold numbers or text"),
        (pa.array([None, None, "a"]), "is empty in most records"),
        (pa.array([" ", "", "a"]), "is empty in most records"),
        (pa.array(["NA", "unknown", "a"]), "is empty in most records"),
        (pa.array([float("nan"), None, 1.0], from_pandas=False), "is empty in most records"),
        (pa.nulls(3), "is empty in most records"),
    ],
)
def test_what_keeps_no_patient_together_is_refused(values: pa.Array, why: str) -> None:
    said = sentence(DataError, column_of_groups, pa.table({"patient": values}), "patient", "the table of silo 'a'")
    assert said.startswith("group column 'patient' of the table of silo 'a' ")
    assert why in said


# --- own test files


def test_a_silo_with_a_test_file_holds_nothing_out(folder: Path) -> None:
    own = patients(4, 5, 77, first=900)
    own.to_csv(folder / "a.test.csv", index=False)
    dataset = read(folder, group_column="patient")
    a, b, _ = dataset.silos
    assert [silo.name for silo in dataset.silos] == ["a", "b", "c"]
    assert (a.private.size, a.test.size, b.test.size) == (150, 20, 30)
    np.testing.assert_array_equal(a.test.X, own[["x", "z"]])
    assert dataset.test.size == 80
    assert not said(dataset)


def test_classes_that_only_a_test_file_has_are_refused_without_a_quotation(
    folder: Path, wording: SnapshotAssertion
) -> None:
    patients(4, 5, 77).replace({"ill": {1: "Mrs Miller"}}).to_csv(folder / "a.test.csv", index=False)
    text = sentence(DataError, read, folder)
    assert text == wording
    assert "Miller" not in text


# --- what is said


def said(dataset: FederatedDataset) -> list[str]:
    return [each.message for each in inspect_dataset(dataset).findings]


def test_patients_of_several_silos_are_said(folder: Path) -> None:
    patients(30, 5, 1, first=15).to_csv(folder / "b.csv", index=False)
    assert said(read(folder, group_column="patient")) == ["15 of 75 groups have records at several silos"]


def test_patients_of_the_public_set_and_a_silo_are_said(folder: Path) -> None:
    public = patients(20, 5, 9, first=285).drop(columns="ill")
    patients(30, 5, 1, first=300).assign(patient=lambda table: " " + table["patient"].astype(str)).to_csv(
        folder / "b.csv", index=False
    )
    public.to_csv(folder / "public.csv", index=False)
    assert said(read(folder, group_column="patient")) == ["5 of 30 groups of silo b are in the public set as well"]
    public.assign(patient=np.nan).to_csv(folder / "public.csv", index=False)
    assert not said(read(folder, group_column="patient", seed=1))


def test_a_silo_without_a_test_is_said_where_all_of_its_records_are_of_one_group(folder: Path) -> None:
    patients(1, 30, 1, first=90).to_csv(folder / "b.csv", index=False)
    assert said(read(folder, group_column="patient")) == [
        "all records of silo b are of one group, so none is held out for a test"
    ]


def test_a_group_of_most_records_is_said(folder: Path) -> None:
    table = patients(30, 5, 1, first=90)
    table["patient"] = np.where(np.arange(len(table)) % 10, 9999, table["patient"])
    table.to_csv(folder / "b.csv", index=False)
    assert "most records of silo b are of one group" in said(read(folder, group_column="patient"))
