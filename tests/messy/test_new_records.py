"""New records for a trained model: columns that are not what it has learned from are refused or said."""

from pathlib import Path

import numpy as np
import pytest

from fedct_flwr.datasets.inspection import Severity
from fedct_flwr.datasets.unlabeled import Unlabeled, read_unlabeled
from fedct_flwr.types import ConfigError, DataError
from tests.messy.cases import REFUSED, SAID
from tests.messy.patients import NUMBERS, PUBLIC, WORDS, load, patients

NEW = "essen"
_OF_COLUMNS = ("number-as-text", "unknown-values", "other-scale", "value-spellings")
AT_NEW = [
    what
    for what, case in (REFUSED | SAID).items()
    if case.silo in (NEW, "koeln") and case.code in _OF_COLUMNS and case.column in (*NUMBERS, *WORDS)
]


def read(folder: Path, what: str, *, with_public: bool = True, accept: tuple[str, ...] = ()) -> Unlabeled:
    """The table of the silo that the case is about, as new records of a model of healthy patients."""
    model = load(patients().write(folder / "healthy"))
    case, spoiled = (REFUSED | SAID)[what], patients(1)
    case.spoil(spoiled)
    path = spoiled.write(folder / "new") / f"{case.silo}.csv"
    public = model.public.X if with_public else None
    return read_unlabeled(model.schema, None, "color", path, public=public, accept=accept)


@pytest.mark.parametrize("what", AT_NEW)
def test_records_that_no_model_has_learned_from_are_found(tmp_path: Path, what: str) -> None:
    case = (REFUSED | SAID)[what]
    if what in REFUSED:
        with pytest.raises(DataError, match=f"{case.code}:{case.column}"):
            read(tmp_path, what)
    else:
        found = read(tmp_path, what).findings
        assert (case.code, case.column, Severity.SAID) in {(each.code, each.column, each.severity) for each in found}


@pytest.mark.parametrize("what", ["other words at a silo", "upper case at a silo"])
def test_the_schema_alone_tells_of_unknown_values(tmp_path: Path, what: str) -> None:
    case = REFUSED[what]
    with pytest.raises(DataError, match=case.code):
        read(tmp_path, what, with_public=False)
    accepted = read(tmp_path, what, with_public=False, accept=(f"{case.code}:{case.column}",))
    assert accepted.unknown == {case.column: 400}


def test_units_need_the_public_set(tmp_path: Path) -> None:
    assert not read(tmp_path, "another unit at a silo", with_public=False).findings


def test_nothing_is_said_of_healthy_records(tmp_path: Path) -> None:
    model = load(patients().write(tmp_path / "healthy"))
    for seed in range(5):
        path = patients(seed).write(tmp_path / str(seed)) / f"{NEW}.csv"
        assert not read_unlabeled(model.schema, None, "color", path, public=model.public.X).findings
        assert not read_unlabeled(model.schema, None, "color", path).findings


def test_one_record_is_judged_as_it_is(tmp_path: Path) -> None:
    model = load(patients().write(tmp_path / "healthy"))
    one = patients(3, records=1).some(NEW, "ward", [0], "paediatrics").write(tmp_path / "one")
    assert read_unlabeled(model.schema, None, "color", one / f"{NEW}.csv", public=model.public.X).unknown == {"ward": 1}
    assert np.isfinite(model.public.X).all()


ALONE = {
    "months": ("age", lambda cell: str(12 * int(cell))),
    "metres": ("height", lambda cell: str(float(cell) / 100)),
    "another unit": ("glucose", lambda cell: str(18 * float(cell))),
    "a sentinel": ("crp", lambda cell: "-999"),
    "a lost sign": ("height", lambda cell: f"-{cell}"),
}


@pytest.mark.parametrize("records", [1, 5])
@pytest.mark.parametrize("what", ALONE)
def test_a_number_far_from_all_known_ones_is_said_of_a_few_records(tmp_path: Path, what: str, records: int) -> None:
    model = load(patients().write(tmp_path / "healthy"))
    column, change = ALONE[what]
    path = patients(4, records=records).change(NEW, column, change).write(tmp_path / "new") / f"{NEW}.csv"
    found = read_unlabeled(model.schema, None, "color", path, public=model.public.X).findings
    assert column in {each.column for each in found}


def test_nothing_is_said_of_a_few_healthy_records(tmp_path: Path) -> None:
    model = load(patients().write(tmp_path / "healthy"))
    for seed in range(100):
        path = patients(seed, records=1 + seed % 19, public=1).write(tmp_path / str(seed)) / f"{NEW}.csv"
        assert not read_unlabeled(model.schema, None, "color", path, public=model.public.X).findings


@pytest.mark.parametrize("column", ["crp", "ward"])
def test_an_empty_cell_of_one_record_is_nothing_and_an_empty_column_is_said(tmp_path: Path, column: str) -> None:
    model = load(patients().write(tmp_path / "healthy"))
    found = []
    for records in (1, 30):
        empty = patients(4, records=records).change(NEW, column, lambda cell: "")
        path = empty.write(tmp_path / str(records)) / f"{NEW}.csv"
        found.append(read_unlabeled(model.schema, None, "color", path, public=model.public.X).findings)
    assert not found[0]
    assert [(each.code, each.column) for each in found[1]] == [("missing-values", column)]


def test_a_name_that_no_finding_has_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="unknown-values"):
        read(tmp_path, "some new words", accept=("unknown-value",))


def test_a_public_table_is_no_new_one_but_may_be_judged(tmp_path: Path) -> None:
    model = load(patients().write(tmp_path / "healthy"))
    path = tmp_path / "healthy" / f"{PUBLIC}.csv"
    assert not read_unlabeled(model.schema, None, "color", path, public=model.public.X).findings
