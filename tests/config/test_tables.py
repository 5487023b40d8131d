"""What data.toml, study.toml and silo.toml may say of tables, and what they may not."""

from pathlib import Path
from typing import Any

import pytest

from fedct_flwr.config.study import StudyConfig
from fedct_flwr.config.tables import DATA_FILE, FolderTables, SiloTables, StudyTables, TableSettings
from fedct_flwr.types import ConfigError
from tests.sentences import sentence


def told(folder: Path, text: str) -> FolderTables:
    (folder / DATA_FILE).write_text(text, "utf-8")
    return TableSettings.of_folder(folder)


def error(folder: Path, text: str, name: str = "essen.csv") -> str:
    said = sentence(ConfigError, lambda: told(folder, text).of(name))
    assert DATA_FILE in said
    return said


def test_what_is_said_of_one_file_replaces_what_is_said_of_all(tmp_path: Path) -> None:
    found = told(
        tmp_path,
        'decimal = ","\nmissing = ["-9"]\ncategories = ["ward"]\n'
        '[files."essen.csv"]\ndecimal = "."\nencoding = "cp1252"',
    )
    essen, koeln = found.of("essen.csv"), found.of("koeln.csv")
    assert (essen.decimal, essen.encoding, essen.missing, essen.categories) == (".", "cp1252", ("-9",), ("ward",))
    assert (koeln.decimal, koeln.encoding, koeln.missing, koeln.categories) == (",", "utf-8", ("-9",), ("ward",))


def test_a_file_is_the_same_however_its_accents_are_written(tmp_path: Path) -> None:
    found = told(tmp_path, '[files."ko\u0308ln.csv"]\ndecimal = ","')
    assert found.of("k\u00f6ln.csv").decimal == ","


def test_numbers_may_mean_a_missing_value(tmp_path: Path) -> None:
    assert told(tmp_path, 'missing = [-9, 99.5, "unknown"]').missing == ("-9", "99.5", "unknown")


def test_a_code_may_mean_a_missing_value_in_one_column_alone(tmp_path: Path) -> None:
    found = told(tmp_path, 'categories = ["chol"]\nmissing = {chol = [0], "*" = ["-9"]}').of("essen.csv")
    assert (found.missing_in("chol"), found.missing_in("sex")) == (("-9", "0"), ("-9",))


def test_dates_may_have_a_time_zone(tmp_path: Path) -> None:
    form = "%Y-%m-%dT%H:%M:%S%z"
    assert told(tmp_path, f"dates = '{form}'").dates == form


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("seperator = ';'", "did you mean 'separator'?"),
        ("separator = ';;'", "separator"),
        ("separator = '\"'", "cannot stand between fields"),
        ("decimal = ','\nseparator = ','", "both a comma"),
        ("encoding = 'utf8000'", "try utf-8, cp1252 or latin-1"),
        ("dates = '%d.%m.'", "a year, a month and a day"),
        ("dates = '%d.%m.%Y %d'", "a year, a month and a day"),
        ("categories = ['ward']\nleave-out = ['ward']", "both name 'ward'"),
        ("[files.'essen.csv']\ndecimel = ','", "did you mean 'decimal'?"),
        ("[files.'essen.csv']\ncategories = ['a']", "unknown key 'categories' in [files.\"essen.csv\"]"),
        ("[files.'essen.csv']\nsilo = 'a b'", "files.essen.csv.silo"),
        ("decimal = ','\n[files.'essen.csv']\nseparator = ','", "both a comma"),
        ("[files]\n'essen.csv' = 3", "files.essen.csv"),
        ("missing = -9", 'write a list, such as ["-9"]'),
        ("missing = {chol = 0}", 'one for each column, such as {chol = ["0"]}'),
        ("missing = [['0']]", "write a list"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_the_key(tmp_path: Path, text: str, said: str) -> None:
    assert said in error(tmp_path, text)


@pytest.mark.parametrize("key", ["categories", "text"])
def test_a_silo_leaves_what_columns_are_to_the_study(key: str) -> None:
    with pytest.raises(ConfigError, match=f"leave {key} out"):
        SiloTables.read({key: ["ward"]}, "silo.toml")


def test_silos_approve_what_columns_mean_and_not_how_a_file_is_written() -> None:
    written = {"separator": ";", "decimal": ",", "encoding": "cp1252", "sheet": "A"}
    assert StudyTables.read(written, "study.toml").decides == {}
    meant = {"dates": "%d.%m.%Y", "missing": ["-9"], "leave-out": ["a"], "categories": ["b"], "group": "c"}
    assert StudyTables.read(written | meant, "study.toml").decides == meant


REQUIRED: dict[str, Any] = {"study": "heart", "classes": ["healthy", "diseased"]}


def read(**settings: Any) -> StudyConfig:
    """Settings (underscores for hyphens) beside the required ones."""
    return StudyConfig.read({**REQUIRED, **{key.replace("_", "-"): value for key, value in settings.items()}}, "it")


def message(**settings: Any) -> str:
    return sentence(ConfigError, read, **settings)


@pytest.mark.parametrize(
    ("key", "value"),
    [("study", "../elsewhere"), ("classes", "healthy,diseased"), ("image-size", "large"), ("image-mode", "sepia")],
)
def test_a_value_out_of_range_is_one_sentence_with_key_and_value(key: str, value: object) -> None:
    assert message(**{key: value}).startswith(f"{key} = {value!r} in it: ")


@pytest.mark.parametrize("size", [[0, 28], [28, -1], [28, 100_000]])
def test_images_have_a_size_that_fits_into_memory(size: list[int]) -> None:
    assert "image-size" in message(image_size=size)
