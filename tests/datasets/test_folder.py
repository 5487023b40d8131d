"""Which file of a folder is what: silos, their test files, and what nobody reads."""

from pathlib import Path

import pytest

from fedct_flwr.config.tables import FolderTables, TableSettings
from fedct_flwr.datasets.folder import TableFolder, read_folder
from fedct_flwr.datasets.table_files import ENDINGS
from fedct_flwr.types import DataError
from tests.messy.patients import load
from tests.sentences import sentence


def made(folder: Path, *names: str) -> TableFolder:
    """A folder with a public set and two silos, and these files; names that end in / are folders."""
    for name in ("public.csv", "north.csv", "south.csv", *names):
        if name.endswith("/"):
            (folder / name).mkdir()
        else:
            (folder / name).touch()
    return read_folder(folder)


def error(folder: Path, *names: str) -> str:
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
    assert "rename it to 'north.test.csv'" in error(tmp_path, f"{name}.csv")


def test_a_test_file_of_no_silo_names_the_nearest(tmp_path: Path) -> None:
    assert "did you mean 'north'?" in error(tmp_path, "norht.test.csv")


def test_tables_in_folders_are_to_be_moved(tmp_path: Path) -> None:
    for name in ("public", "north", "south"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "data.csv").write_text("age,ill\n1,yes\n")
    with pytest.raises(DataError, match=r"if 'public' is the public set, save it as public\.csv"):
        load(tmp_path)


def told(folder: Path, text: str) -> FolderTables:
    (folder / "data.toml").write_text(text, "utf-8")
    return TableSettings.of_folder(folder)


def test_a_file_may_be_said_to_be_a_silos(tmp_path: Path) -> None:
    made(tmp_path)
    (tmp_path / "test.csv").touch()
    (tmp_path / "2024 export.csv").touch()
    settings = told(tmp_path, '[files."test.csv"]\nsilo = "test"\n[files."2024 export.csv"]\nsilo = "essen"')
    found = read_folder(tmp_path, settings)
    assert set(found.silos) == {"north", "south", "test", "essen"}
    assert found.silos["essen"].name == "2024 export.csv"


def test_two_files_cannot_be_said_to_be_the_same_silos(tmp_path: Path) -> None:
    made(tmp_path, "other.csv")
    with pytest.raises(DataError, match=r"'north\.csv' and 'other\.csv'"):
        read_folder(tmp_path, told(tmp_path, '[files."other.csv"]\nsilo = "north"'))
