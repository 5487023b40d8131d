"""A folder of tables as a federation. Whatever is wrong: one sentence, the file's name, and nobody's record."""

import gzip
from collections.abc import Callable
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest
import tomli_w
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.run import RunConfig
from fedct_flwr.config.silo import DataSettings
from fedct_flwr.config.tables import FolderTables, TableSettings
from fedct_flwr.datasets import FederatedDataset, files
from fedct_flwr.datasets.federated import PublicSet
from fedct_flwr.datasets.schema import Column
from fedct_flwr.datasets.silo_records import read_grouped
from fedct_flwr.datasets.study_folder import StudyFolder, read_study
from fedct_flwr.datasets.table_files import ENDINGS, TableFolder, read_folder
from fedct_flwr.types import ConfigError, DataError
from tests.messy.patients import load as load_patients
from tests.sentences import sentence

MARKER = "Erika-4711"
"""Stands for a value that only a patient's record has."""
MARKER_NUMBER = 4711471147114711471

PUBLIC = "age,ward\n63,east\n41,west\n,east\n"
NORTH = "age,ward,ill\n70,east,yes\n35,west,no\n52,,yes\n44,north,no\n"
SOUTH = "ill,ward,age\nno,west,28\nyes,east,81\n"


Folder = Callable[..., Path]


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Writes ``name=content``: text or bytes as CSV, a table as Parquet, None for no such file.

    Without anything else there are a public set and two silos.
    """

    def write(**contents: str | bytes | pa.Table | None) -> Path:
        for name, content in {"public": PUBLIC, "north": NORTH, "south": SOUTH, **contents}.items():
            if isinstance(content, pa.Table):
                pyarrow.parquet.write_table(content, tmp_path / f"{name}.parquet")
            elif content is not None:
                (tmp_path / f"{name}.csv").write_bytes(content.encode() if isinstance(content, str) else content)
        return tmp_path

    return write


def load(path: Path, **settings: Any) -> FederatedDataset:
    """The federation in a folder; nothing is held out unless a share is given."""
    raw = {"study": "s", "data": "files", "data-dir": str(path), "label-column": "ill", "test-fraction": 0.0}
    return files.load(RunConfig.from_flower(raw | {key.replace("_", "-"): value for key, value in settings.items()}))


def error(path: Path, **settings: Any) -> str:
    """What is said of a folder that cannot be loaded: one line."""
    return sentence(DataError, load, path, **settings)


def records(dataset: FederatedDataset, silo: str) -> set[tuple[float | None, ...]]:
    """A silo's private records with their labels, NaN as None."""
    private = dataset.silos[dataset.position(silo)].private
    return {
        (*(None if np.isnan(value) else float(value) for value in row), int(label))
        for row, label in zip(*private, strict=True)
    }


# --- a number as the outcome


@pytest.mark.parametrize(
    "values",
    [("1", "high"), ("1", ""), ("inf", "1"), ("1e300000", "nan")],
    ids=["text", "nothing", "infinite", "far too large"],
)
def test_what_is_no_number_is_named_and_not_quoted(
    values: tuple[str, str], folder: Folder, wording: SnapshotAssertion
) -> None:
    path = folder(north="age,ward,ill\n" + "".join(f"1,a,{value}\n" for value in values))
    text = error(path, outcome="number")
    assert text == wording
    assert "high" not in text


# --- a folder as it should be


def test_records_in_the_public_sets_columns(folder: Folder) -> None:
    dataset = load(folder())
    # Classes no, yes; wards east, west; a ward that the public set does not have is 2, none is None.
    assert records(dataset, "north") == {(70, 0, 1), (35, 1, 0), (52, None, 1), (44, 2, 0)}
    assert records(dataset, "south") == {(28, 1, 0), (81, 0, 1)}


def test_a_label_column_in_the_public_set_is_dropped_unread(folder: Folder) -> None:
    without = load(folder())
    labeled = load(folder(public="age,ill,ward\n63,2024-01-01,east\n41,?,west\n,yes,east\n"))
    assert labeled.schema == without.schema
    assert labeled.public.fingerprint == without.public.fingerprint


# --- faults: one sentence that names the file


@pytest.mark.parametrize("name", ["public", "north"])
def test_csv_and_parquet_of_the_same_name(folder: Folder, name: str) -> None:
    path = folder()
    pyarrow.parquet.write_table(pa.table({"age": [1]}), path / f"{name}.parquet")
    said = error(path)
    assert str(path) in said
    assert f"two tables for {name!r}" in said


# --- nobody's record in any message


LEAKS: dict[str, dict[str, Any]] = {
    "a field too many": {"north": f"age,ward,ill\n1,east,yes\n2,{MARKER},no,what\n"},
    "a field too few": {"north": f"age,ward,ill\n1,east,yes\n{MARKER},no\n"},
    "an open quote": {"north": f'age,ward,ill\n1,"{MARKER},yes\n2,west,no\n'},
    "text for numbers": {"north": f"age,ward,ill\n{MARKER},east,yes\n"},
    "text for numbers far down": {"north": "age,ward,ill\n" + "12,east,yes\n" * 150_000 + f"{MARKER},east,yes\n"},
    "numbers for text": {"west": pa.table({"age": [1], "ward": [MARKER_NUMBER], "ill": ["yes"]})},
    "another encoding": {"north": f"age,ward,ill\n1,Süd {MARKER},yes\n".encode("latin-1")},
    "an infinite value": {"north": f"age,ward,ill\ninf,{MARKER},yes\n"},
    "a record without a label": {"north": f"age,ward,ill\n1,{MARKER},\n"},
    "an unknown column": {"north": f"age,ward,ill,name\n1,east,yes,{MARKER}\n"},
    "patients' names for labels": {
        "north": "age,ward,ill\n" + "".join(f"1,east,{MARKER}-{i}\n" for i in range(33_000)),
    },
    "a label that is a list": {"west": pa.table({"age": [1], "ward": ["east"], "ill": [[MARKER]]})},
}


@pytest.mark.parametrize("fault", list(LEAKS))
def test_no_message_quotes_a_record(folder: Folder, fault: str) -> None:
    said = error(folder(**LEAKS[fault]))
    assert MARKER not in said
    assert str(MARKER_NUMBER) not in said


# --- as data.toml tells


def told(path: Path, text: str) -> None:
    (path / "data.toml").write_text(text, "utf-8")


def test_files_of_every_kind_are_silos(folder: Folder) -> None:
    path = folder()
    for silo in ("dortmund.xlsx", "essen.csv.gz", "koeln.tsv", "bonn.tsv.gz"):
        text = SOUTH.replace(",", "\t") if ".tsv" in silo else SOUTH
        if silo.endswith(".xlsx"):
            book = openpyxl.Workbook()
            for line in SOUTH.splitlines():
                book.active.append(line.split(","))
            book.save(path / silo)
        else:
            (path / silo).write_bytes(gzip.compress(text.encode()) if silo.endswith(".gz") else text.encode())
    found = load(path)
    assert [silo.name for silo in found.silos] == ["bonn", "dortmund", "essen", "koeln", "north", "south"]
    for silo in ("bonn", "dortmund", "essen", "koeln"):
        assert records(found, silo) == records(found, "south")


def test_columns_left_out_codes_and_dates(folder: Folder) -> None:
    path = folder(
        public="id,ward,seen\n1,7,02.01.1970\n2,8,03.01.1970\n",
        north="id,ward,seen,ill\n3,7,04.01.1970,yes\n4,7,05.01.1970,no\n",
        south=pa.table({"id": [5], "ward": [8.0], "seen": [date(1970, 1, 6)], "ill": ["no"]}),
    )
    (path / "south.csv").unlink(missing_ok=True)
    told(path, 'leave-out = ["id"]\ncategories = ["ward"]\ndates = "%d.%m.%Y"')
    found = load(path)
    assert found.schema.columns == (Column("ward", ("7", "8")), Column("seen"))
    assert records(found, "north") == {(0, 3, 1), (0, 4, 0)}
    assert records(found, "south") == {(1, 5, 0)}


def test_advice_on_one_file_of_several_names_it_and_can_be_followed(folder: Folder) -> None:
    """Written for all files, it refused those of the opposite form."""
    rows = [(f"{row}.5", f"1970-01-{row + 1:02}", "no" if row % 2 else "yes") for row in range(25)]
    usual = "crp,seen,ill\n" + "".join(f"{crp},{seen},{ill}\n" for crp, seen, ill in rows)
    other = "crp;seen;ill;köln\n" + "".join(f"{row},5;{row + 1:02}.01.1970;{rows[row][2]};\n" for row in range(25))
    path = folder(public=usual, north=other.encode("cp1252"), south=usual)
    given = 'dates = "%Y-%m-%d"\n[files.\'north.csv\']\nleave-out = ["köln"]\n'
    for advised in ("separator = ';'", "encoding = 'cp1252'", 'decimal = ","', 'dates = "%d.%m.%Y"'):
        told(path, given)
        assert f'{advised} in data.toml under [files."north.csv"]' in sentence(DataError, load, path)
        given += f"{advised}\n"
    told(path, given)
    assert records(load(path), "north") == records(load(path), "south")


def test_labels_that_a_list_empties_are_refused_with_the_cause(folder: Folder) -> None:
    path = folder(north="age,ward,ill\n70,east,1\n0,west,0\n", south="ill,ward,age\n0,west,28\n1,east,81\n")
    told(path, 'missing = ["0"]')
    assert "or write missing = {NAME = [...]} in data.toml" in sentence(DataError, load, path)
    told(path, 'missing = {age = ["0"]}')
    north = load(path).silos[0]
    cells = np.concatenate([north.private.X, north.test.X])[:, 0]
    np.testing.assert_array_equal(np.sort(cells), [70, np.nan])


@pytest.mark.parametrize(
    "text",
    [
        'leave-out = ["agee"]',
        'categories = ["wards"]',
        'group = "patient"',
        '[files."north.csv"]\nleave-out = ["sex"]',
        'missing = {agee = ["0"]}',
        '[files."north.csv"]\nmissing = {sex = ["0"]}',
        '[files."nord.csv"]\ndecimal = ","',
        "decimel = 3",
    ],
)
def test_a_name_in_data_toml_that_nothing_has(folder: Folder, text: str, wording: SnapshotAssertion) -> None:
    path = folder()
    told(path, text)
    assert sentence(ConfigError, load, path) == wording


# --- which file of a folder is what


def made(folder: Path, *names: str) -> TableFolder:
    """A folder with a public set and two silos, and these files; names that end in / are folders."""
    for name in ("public.csv", "north.csv", "south.csv", *names):
        if name.endswith("/"):
            (folder / name).mkdir()
        else:
            (folder / name).touch()
    return read_folder(folder)


def folder_error(folder: Path, *names: str) -> str:
    text = sentence(DataError, made, folder, *names)
    assert str(folder) in text
    return text


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_silo_is_named_after_its_file_without_the_whole_ending(tmp_path: Path, ending: str) -> None:
    found = made(tmp_path, f"essen{ending}", f"St. Anna{ending.upper()}")
    assert found.silos["essen"] == tmp_path / f"essen{ending}"
    assert set(found.silos) == {"north", "south", "essen", "St. Anna"}


def test_a_silos_own_test_file_is_no_silo(tmp_path: Path) -> None:
    found = made(tmp_path, "north.test.csv.gz", "south.TEST.parquet")
    assert found.tests == {"north": tmp_path / "north.test.csv.gz", "south": tmp_path / "south.TEST.parquet"}
    assert set(found.silos) == {"north", "south"}


def test_every_file_is_used_or_named(tmp_path: Path) -> None:
    hidden = (".~lock.north.csv#", "._north.csv", ".DS_Store", "~$north.csv", "data.toml")
    found = made(tmp_path, "README.md", "letter.docx", "old/", "old.csv/", "north.test.csv", *hidden)
    assert found.unused == ("README.md", "letter.docx", "old", "old.csv")
    used = {found.public.name, *(path.name for path in [*found.silos.values(), *found.tests.values()])}
    assert used | {*found.unused, *hidden} == {path.name for path in tmp_path.iterdir()}


@pytest.mark.parametrize("name", ["north_test", "north-test", "north test", "north_Test", "north_holdout"])
def test_a_silos_test_set_by_another_name_is_no_silo(tmp_path: Path, name: str) -> None:
    assert "rename it to 'north.test.csv'" in folder_error(tmp_path, f"{name}.csv")


def test_a_test_file_of_no_silo_names_the_nearest(tmp_path: Path) -> None:
    assert "did you mean 'north'?" in folder_error(tmp_path, "norht.test.csv")


def test_tables_in_folders_are_to_be_moved(tmp_path: Path) -> None:
    for name in ("public", "north", "south"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.csv").write_text("age,ill\n1,yes\n")
    with pytest.raises(DataError, match=r"if 'public' is the public set, save it as public\.csv"):
        load_patients(tmp_path)


def folder_tables(folder: Path, text: str) -> FolderTables:
    (folder / "data.toml").write_text(text, "utf-8")
    return TableSettings.of_folder(folder)


def test_a_file_may_be_said_to_be_a_silos(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "test.csv").touch()
    (tmp_path / "2024 export.csv").touch()
    settings = folder_tables(tmp_path, '[files."test.csv"]\nsilo = "test"\n[files."2024 export.csv"]\nsilo = "essen"')
    found = read_folder(tmp_path, settings)
    assert set(found.silos) == {"north", "south", "test", "essen"}
    assert found.silos["essen"].name == "2024 export.csv"


def test_two_files_cannot_be_said_to_be_the_same_silos(tmp_path: Path) -> None:
    made(tmp_path, "other.csv")
    with pytest.raises(DataError, match=r"'north\.csv' and 'other\.csv'"):
        read_folder(tmp_path, folder_tables(tmp_path, '[files."other.csv"]\nsilo = "north"'))


# --- columns of text


NOTES = "age,note,code\n63,Chest pain,7\n41,,8\n,no pain,9\n"
NORTHERN = "age,note,code,ill\n70,pain,7,yes\n35,fine,8,no\n52,,9,yes\n44,ok,7,no\n"
SOUTHERN = "ill,note,age,code\nno,007,28,1\nyes,pain today,81,2\n"
COLUMNS = (Column("age"), Column("note", text=True), Column("code", text=True))


def write(folder: Path, public: str = NOTES, north: str = NORTHERN, south: str = SOUTHERN, told: str = "") -> Path:
    for name, content in {"public": public, "north": north, "south": south}.items():
        (folder / f"{name}.csv").write_text(content, "utf-8")
    if told:
        (folder / "data.toml").write_text(told, "utf-8")
    return folder


@pytest.mark.parametrize(
    ("told", "settings"),
    [
        ("text = ['note', 'code']", {}),
        ("text = ['note']", {"text_columns": "code"}),
        ("", {"text_columns": "note,code"}),
    ],
)
def test_named_columns_stay_text_whatever_they_look_like(tmp_path: Path, told: str, settings: Any) -> None:
    dataset = load(write(tmp_path, told=told), **settings)
    assert dataset.schema.columns == COLUMNS
    assert (dataset.schema.texts, dataset.schema.without_texts, dataset.schema.categorical) == ((1, 2), (0,), ())
    assert dataset.public.X.dtype == np.object_
    assert dataset.public.X[:, 1:].tolist() == [["Chest pain", "7"], ["", "8"], ["no pain", "9"]]
    assert dataset.public.X[:2, 0].tolist() == [63.0, 41.0]
    assert np.isnan(dataset.public.X[2, 0])
    south = dataset.silos[1].private
    assert sorted(south.X[:, 1]) == ["007", "pain today"]


def features(*rows: tuple[Any, ...]) -> Any:
    return np.array(rows, dtype=object)


BASE = features((1.0, "a", "b"), (float("nan"), "", "c"))


@pytest.mark.parametrize(
    "other",
    [
        features((1.0, "A", "b"), (float("nan"), "", "c")),
        features((1.5, "a", "b"), (float("nan"), "", "c")),
        features((1.0, "b", "a"), (float("nan"), "c", "")),
        features((float("nan"), "", "c"), (1.0, "a", "b")),
        features((1.0, "a", "b")),
    ],
)
def test_the_fingerprint_differs_for_other_texts_and_numbers(other: Any) -> None:
    assert PublicSet(other).fingerprint != PublicSet(BASE).fingerprint


def study(folder: Path, **tables: Any) -> StudyFolder:
    folder.mkdir(exist_ok=True)
    (folder / "public.csv").write_text(NOTES, "utf-8")
    said = {"study": "ward", "classes": ["no", "yes"], **({"tables": tables} if tables else {})}
    (folder / "study.toml").write_text(tomli_w.dumps(said), "utf-8")
    return read_study(folder)


def test_a_study_says_which_columns_are_text(tmp_path: Path) -> None:
    found = study(tmp_path / "a", text=["note", "code"])
    assert found.schema.columns == COLUMNS
    (tmp_path / "north.csv").write_text(NORTHERN)
    records = read_grouped(DataSettings(file=tmp_path / "north.csv", label="ill"), found)[0]
    assert records.X[:, 1].tolist() == ["pain", "fine", "", "ok"]
    assert records.X[:, 2].tolist() == ["7", "8", "9", "7"]


def test_what_is_text_is_part_of_the_digest(tmp_path: Path) -> None:
    digests = [
        study(tmp_path / "a", **tables).digest for tables in ({}, {"text": ["note"]}, {"text": ["note", "code"]})
    ]
    assert len(set(digests)) == 3
