"""Real studies whose tables have a form of their own: the study's public set, a silo's records, what both approve."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.silo import DataSettings
from fedct_flwr.datasets.schema import Column
from fedct_flwr.datasets.study_folder import StudyFolder, read_each, read_records, read_study
from fedct_flwr.types import DataError, FedctError
from tests.datasets.test_study_folder import write
from tests.sentences import sentence

SECRET = "Erika-4711"
RECORDS = "ill,ward,age\nno,west,28\nyes,east,81\nyes,,33\nno,north,44\n"
ELSEWHERE = "age;ward\n63;east\n41;west\n;east\n"
ELSEWHERE_TEST = "age;ward;ill\n50;east;yes\n;south;no\n"


def study_of(folder: Path, **settings: Any) -> StudyFolder:
    return read_study(write(folder, **settings))


def records(study: StudyFolder, path: Path, content: str | bytes, **settings: Any) -> list[list[float]]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    data = {"file": str(path), "label": "ill", **settings}
    return read_records(DataSettings.read(data, "silo.toml"), study).X.tolist()


def said(study: StudyFolder, path: Path, content: str | bytes, **settings: Any) -> str:
    text = sentence(FedctError, records, study, path, content, **settings)
    assert SECRET not in text
    return text


def test_the_form_of_the_public_set_is_no_part_of_what_is_approved(tmp_path: Path) -> None:
    plain = study_of(tmp_path / "plain")
    other = study_of(
        tmp_path / "other", public=ELSEWHERE, test=ELSEWHERE_TEST, tables={"separator": ";", "decimal": ","}
    )
    assert other.digest == plain.digest


@pytest.mark.parametrize(
    "tables", [{"missing": ["-9"]}, {"leave-out": ["sex"]}, {"accept": ["x"]}, {"dates": "%d.%m.%Y"}]
)
def test_what_is_said_of_the_columns_is_approved(tmp_path: Path, tables: dict[str, Any]) -> None:
    public = "age,ward,sex\n63,east,1\n41,west,1\n,east,1\n"
    test = "age,ward,ill,sex\n50,east,yes,1\n,south,no,1\n"
    plain = study_of(tmp_path / "plain", public=public, test=test)
    assert study_of(tmp_path / "other", public=public, test=test, tables=tables).digest != plain.digest


def test_codes_are_names_at_every_silo(tmp_path: Path) -> None:
    tables = {"categories": ["ward"]}
    study = study_of(tmp_path / "s", public="ward\n7\n8\n", test="ward,ill\n7,yes\n", tables=tables)
    assert study.schema.columns == (Column("ward", ("7", "8")),)
    assert study.test.X.tolist() == [[0]]
    assert records(study, tmp_path / "a.csv", "ward,ill\n8.0,yes\n7,no\n") == [[1], [0]]
    pyarrow.parquet.write_table(pa.table({"ward": [7, 8], "ill": ["no", "yes"]}), tmp_path / "a.parquet")
    read = read_records(DataSettings.read({"file": str(tmp_path / "a.parquet"), "label": "ill"}, "silo.toml"), study)
    assert read.X.tolist() == [[0], [1]]


def test_a_silos_file_has_a_form_of_its_own(tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", public="age,seen\n63.5,1970-01-02\n", test=None, test_file=None, test_label=None,
                     tables={"dates": "%Y-%m-%d"})  # fmt: skip
    content = "age;seen;ill;größe\n-9;03.01.1970;yes;1\n40,5;04.01.1970;no;2\n".encode("cp1252")
    tables = {"separator": ";", "decimal": ",", "encoding": "cp1252", "dates": "%d.%m.%Y", "missing": [-9]}
    found = records(study, tmp_path / "a.csv", content, tables=tables | {"leave-out": ["größe"]})
    np.testing.assert_array_equal(found, [[np.nan, 2], [40.5, 3]])


def test_what_is_to_be_written_is_said_with_the_silos_own_file(tmp_path: Path, wording: SnapshotAssertion) -> None:
    study = study_of(tmp_path / "s")
    text = said(study, tmp_path / "a.csv", RECORDS.replace(",", ";"))
    assert "write separator = ';' in silo.toml under [data.tables]" in text
    text = said(study, tmp_path / "a.csv", f"age,ward,ill\n1,{SECRET}ü,no\n".encode("cp1252"))
    assert text == wording
    text = said(study, tmp_path / "a.csv", RECORDS, tables={"leave-out": ["warden"]})
    assert "leave-out in silo.toml under [data.tables] names 'warden', which a.csv does not have" in text


def test_a_date_of_a_protected_silo_is_read_by_itself(tmp_path: Path) -> None:
    public = "age,ward,seen\n63,east,20200101\n41,west,20200103\n"
    test = "age,ward,seen,ill\n50,east,20200102,yes\n"
    study = study_of(tmp_path, public=public, test=test, tables={"dates": "%Y%m%d"})
    path, found = tmp_path / "own.parquet", []
    data = {"file": str(path), "label": "ill", "tables": {"dates": "%Y%m%d", "missing": ["19700101"]}}
    # No day of any year, a year that no column has alone, and what means a missing value.
    for last in (20200104, 20201399, 10000101, None, 19700101):
        columns = {"age": [28, 33], "ward": ["west", "east"], "seen": [20200102, last], "ill": ["no", "yes"]}
        pyarrow.parquet.write_table(pa.table(columns), path)
        own, _ = read_each(DataSettings.read(data, "silo.toml"), study)
        found.append(own.X[:, 2].tolist())
    assert found[:3] == [[18263, 18265], [18263], [18263]]
    np.testing.assert_array_equal(found[3:], [[18263, np.nan]] * 2)
    pyarrow.parquet.write_table(pa.table({**columns, "age": [[28], [33]]}), path)
    assert "a column of neither numbers nor text" in sentence(DataError, read_each, DataSettings.read(data, ""), study)
