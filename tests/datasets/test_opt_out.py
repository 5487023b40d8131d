"""Records of patients who have opted out are left out, however the list is written; a wrong list is refused."""

import sqlite3
from contextlib import closing
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from fedct_flwr.config.silo import DataSettings, SiloConfig
from fedct_flwr.datasets import said_of_opt_out
from fedct_flwr.datasets.image_folder import LabeledImages
from fedct_flwr.datasets.inspection import Redaction
from fedct_flwr.datasets.inspections import inspect_records
from fedct_flwr.datasets.opt_out import images_left
from fedct_flwr.datasets.query import result_of
from fedct_flwr.datasets.silo_records import read_each, read_grouped, table_of
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.types import ConfigError, DataError
from tests.hospitals import write_silo_folder


class Clinic:
    """A silo whose records have a column of patients, three records each: 001, 002, 003."""

    def __init__(self, folder: Path) -> None:
        records = {"opt-out": "ids.csv"}
        self.file = write_silo_folder(folder, data={"tables": {"group": "patient"}}, records=records)
        self.list = folder / "ids.csv"
        self.study = read_study(folder / "study")
        for name in ("data.csv", "test.csv"):
            self.tell(folder / name, lambda at: f"{at // 3 + 1:03}")
        self.size, self.test_size = (len(pd.read_csv(folder / name)) for name in ("data.csv", "test.csv"))

    def tell(self, path: Path, patient: object) -> None:
        table = pd.read_csv(path)
        table.assign(patient=[patient(at) for at in range(len(table))]).to_csv(path, index=False)  # type: ignore[operator]

    @property
    def data(self) -> DataSettings:
        return SiloConfig.read_toml(self.file).data

    def left(self) -> int:
        """Records left, the same for all readers."""
        data = self.data
        each, (plain, groups) = read_each(data, self.study)[0], read_grouped(data, self.study)
        assert each.size == plain.size == len(groups if groups is not None else ())
        return plain.size


@pytest.fixture
def clinic(tmp_path: Path) -> Clinic:
    return Clinic(tmp_path)


@pytest.mark.parametrize(
    "text",
    [
        "patient\n2\n7\n",
        "patient\n002\n007\n",
        "patient\n2.0\n7.0\n",
        "patient;name\n2;a\n7;b\n",
        "\ufeffPatient ;since\r\n 2 ;\r\n;\r\n7;\r\n",
        "name\tpatient\na\t2\nb\t7\n",
        'patient\n"2"\n\n\n2\n7\n7\n\n',
        "patient\n2\n7\nunknown\nNA\n999999\n",
        "patient,since,why\n2,2026-01-01,\n7,,\n,,\n,,\n,,\n",
        "patient\n2.0 \n\u200b7\n",
    ],
)
def test_a_list_is_understood_however_it_is_written(clinic: Clinic, text: str) -> None:
    clinic.list.write_text(text, "utf-8")
    assert clinic.left() == clinic.size - 6
    assert read_grouped(clinic.data, clinic.study, clinic.data.test_file)[0].size == clinic.test_size - 6
    table = table_of(clinic.data, clinic.study)
    assert table is not None
    assert not {"002", "007"} & set(table.column("patient").to_pylist())


@pytest.mark.parametrize("form", ["xlsx", "parquet", "utf-16", "cp1252"])
def test_a_list_is_understood_in_other_files(clinic: Clinic, form: str, tmp_path: Path) -> None:
    table, text = pd.DataFrame({"patient": [2, 7, None]}), "patient;Größe\n2;\n7;\n"
    path = tmp_path / f"ids.{'csv' if '-' in form or form == 'cp1252' else form}"
    if form == "xlsx":
        table.to_excel(path, index=False)
    elif form == "parquet":
        table.to_parquet(path, index=False)
    else:
        path.write_text(text, form)
    more = '\n[data.tables]\ngroup = "patient"\n' + ('encoding = "cp1252"\n' if form == "cp1252" else "")
    text = clinic.file.read_text("utf-8").replace("ids.csv", path.name)
    clinic.file.write_text(text.replace('\n[data.tables]\ngroup = "patient"\n', more), "utf-8")
    assert clinic.left() == clinic.size - 6
    if form == "xlsx":
        with pd.ExcelWriter(path) as book:
            for year in ("2025", "2026", "2027"):
                table.to_excel(book, sheet_name=year, index=False)
        with pytest.raises(DataError, match="has 3 sheets with contents, and only the first would be read"):
            clinic.left()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (None, "there is no opt-out list"),
        ("", "no table with a column 'patient'"),
        ("2\n7\n", "no table with a column 'patient'"),
        ("id\n2\n7\n", "no table with a column 'patient'"),
        ("patient,patient\n2,7\n", "no table with a column 'patient'"),
        ("patient\n2\n7,8,9\n", "no table with a column 'patient'"),
        ("patient\nKH-2\nKH-7\n", "no id of the opt-out list"),
        ("patient\n2.1E+10\n", "numbers that were rounded"),
        ("patient\n2\n1.000\n", "thousands or decimals"),
        ("patient\n2\n7.00\n", "thousands or decimals"),
        ("patient\n2\n12.500\n", "thousands or decimals"),
        ("patient\n2\n1,000\n", "no table with a column 'patient'"),
        ('patient\n2\n"1,000"\n', "no table with a column 'patient'"),
        ("patient\n" + "\n".join(map(str, range(1, 200))), "all patients of the file are on the opt-out list"),
    ],
)
def test_a_list_in_another_form_is_refused_without_an_id(clinic: Clinic, text: str | None, why: str) -> None:
    if text is not None:
        clinic.list.write_text(text, "utf-8")
    with pytest.raises(DataError, match=why) as error:
        read_grouped(clinic.data, clinic.study)
    assert "KH" not in str(error.value)


@pytest.mark.parametrize(("records", "ids"), [("1.{:03}", "1002"), ("1.{:03}", "1002\n1.003"), ("1{:03}", "1.002")])
def test_thousands_with_a_point_on_one_side_are_refused(clinic: Clinic, records: str, ids: str) -> None:
    clinic.tell(clinic.file.parent / "data.csv", lambda at: records.format(at // 3 + 1))
    clinic.list.write_text(f"patient\n{ids}\n", "utf-8")
    with pytest.raises(DataError, match="thousands or decimals"):
        read_grouped(clinic.data, clinic.study)


def test_ids_that_all_have_a_point_are_found(clinic: Clinic) -> None:
    for name in ("data.csv", "test.csv"):
        clinic.tell(clinic.file.parent / name, lambda at: f"101.{at // 3 + 1:03}")
    clinic.list.write_text("patient\n101.002\n", "utf-8")
    assert clinic.left() == clinic.size - 3


def test_ids_of_nobody_here_are_said_and_not_refused(clinic: Clinic) -> None:
    for text, found in (("patient\n888\n", "no id"), ("patient\n", "no id"), ("patient\n2\n", "fewer than 5 records")):
        clinic.list.write_text(text, "utf-8")
        codes = {each.code: each.message for each in inspect_records(clinic.data, clinic.study, "a").findings}
        assert codes["opted-out"].startswith(found)


@pytest.mark.parametrize(("records", "text", "strange"), [
    ("1{:03}", "1001\n1-002", True),
    ("1{:03}", "1001\nKH-1002", True),
    ("1{:03}", "1001\n888\nunknown", False),
    ("KH-{}", "kh-1\nKH-2\nkh-3000", False),
    ("KH-{}", "kh-1\n2", True),
])  # fmt: skip
def test_ids_in_a_form_that_no_record_has_are_said(clinic: Clinic, records: str, text: str, strange: bool) -> None:
    clinic.tell(clinic.file.parent / "data.csv", lambda at: records.format(at // 3 + 1))
    clinic.list.write_text(f"patient\n{text}\n", "utf-8")
    said = [each for each in inspect_records(clinic.data, clinic.study, "a").findings if each.code == "opted-out"]
    assert [("a form that no record's id has" in each.message) for each in said] == [strange]
    assert "1002" not in said[0].sentence


def test_what_is_said_hides_the_number(clinic: Clinic) -> None:
    said = set()
    for patients in (4, 5):
        clinic.list.write_text("patient\n" + "".join(f"{at + 1}\n" for at in range(patients)), "utf-8")
        table = table_of(clinic.data, clinic.study)
        assert table is not None
        said |= {found.message for found in said_of_opt_out(table, "a", Redaction(private=True))}
    assert len(said) == 2
    assert all("about" in each for each in said)


def test_ids_need_a_column(clinic: Clinic) -> None:
    clinic.list.write_text("patient\n2\n", "utf-8")
    text = clinic.file.read_text("utf-8")
    clinic.file.write_text(text.replace('group = "patient"', 'leave-out = ["patient"]'), "utf-8")
    for read in (read_grouped, read_each):
        with pytest.raises(ConfigError, match="needs the patients' ids"):
            read(clinic.data, clinic.study)


def test_the_log_of_a_query_does_not_tell_how_many_opted_out(clinic: Clinic) -> None:
    folder = clinic.file.parent
    with closing(sqlite3.connect(folder / "records.sqlite")) as database:
        pd.read_csv(folder / "data.csv").to_sql("records", database, index=False)
    (folder / "cohort.sql").write_text("SELECT * FROM records", "utf-8")
    query = 'query = "cohort.sql"\ndatabase = "records.sqlite"'
    clinic.file.write_text(clinic.file.read_text("utf-8").replace('file = "data.csv"', query), "utf-8")
    told = set()
    for text in ("patient\n", "patient\n2\n7\n"):
        clinic.list.write_text(text, "utf-8")
        table = table_of(clinic.data, clinic.study)
        assert table is not None
        told.add((table.num_rows, result_of(clinic.data, table)["records"]))
    assert told == {(clinic.size, clinic.size), (clinic.size - 6, clinic.size)}


def test_images_are_left_out_by_their_names(tmp_path: Path) -> None:
    for name in ("p01_a.png", "p01_b.png", "p02_a.png", "p03_a.png"):
        (tmp_path / "images" / "ill").mkdir(parents=True, exist_ok=True)
        Image.fromarray(np.zeros((2, 2), np.uint8)).save(tmp_path / "images" / "ill" / name)
    (tmp_path / "ids.csv").write_text("id\n1\n", "utf-8")
    (tmp_path / "silo.toml").write_text(
        'silo = "a"\n[data]\nfile = "images"\n[data.images]\ngroup-pattern = "^p([0-9]+)_"\n[records]\nopt-out = '
        '"ids.csv"\n[learner]\nname = "cnn"\n[connection]\nsuperlink = "a:1"\n',
        "utf-8",
    )
    data = SiloConfig.read_toml(tmp_path / "silo.toml").data
    images = LabeledImages.of(data.source)
    assert images_left(images.group_names("^p([0-9]+)_"), data, data.source).tolist() == [2, 3]
