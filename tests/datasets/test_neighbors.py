"""Under a promise, one record more changes nothing of how the others are read: noise is made for that one."""

import sqlite3
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tomli_w

from fedct_flwr.config.silo import DataSettings
from fedct_flwr.datasets.silo_records import read_each
from fedct_flwr.datasets.study_folder import StudyFolder, read_study

NAMES = ("pid", "age", "ward", "ill")


@pytest.fixture
def study(tmp_path: Path) -> StudyFolder:
    (tmp_path / "public.csv").write_text("age,ward\n63,1\n41.5,2\n,1\n", "utf-8")
    settings = {"study": "ward", "classes": ["no", "yes"], "public": "public.csv", "tables": {"categories": ["ward"]}}
    (tmp_path / "study.toml").write_text(tomli_w.dumps(settings), "utf-8")
    return read_study(tmp_path)


def read(folder: Path, study: StudyFolder, rows: list[tuple[Any, ...]], kind: str) -> list[list[Any]]:
    settings: dict[str, Any] = {"label": "ill", "tables": {"group": "pid", "missing": ["-99"]}}
    if kind == "csv":
        lines = [",".join(map(str, row)) for row in (NAMES, *rows)]
        (folder / "own.csv").write_text("\n".join([*lines, ""]), "utf-8")
        settings["file"] = "own.csv"
    else:
        (folder / "a.db").unlink(missing_ok=True)
        with sqlite3.connect(folder / "a.db") as database:
            database.execute(f"CREATE TABLE records ({', '.join(NAMES)})")
            database.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", rows)
        (folder / "own.sql").write_text(f"SELECT {', '.join(NAMES)} FROM records", "utf-8")
        settings |= {"query": "own.sql", "database": str(folder / "a.db")}
    (X, y), groups = read_each(DataSettings.read(settings, "silo.toml", folder), study)
    assert groups is not None
    return [*map(list, zip(X.tolist(), y.tolist(), groups.tolist(), strict=True))]


@pytest.mark.parametrize("kind", ["csv", "sqlite"])
@pytest.mark.parametrize("more", [("x", "x", 1.0, "no"), ("z", 50.5, "x", "yes"), (1e300, 1, 2, "maybe")])
def test_a_record_more_leaves_all_others_as_they_are(
    tmp_path: Path, study: StudyFolder, kind: str, more: tuple[Any, ...]
) -> None:
    # Ids that are words for a missing value, floats that are whole numbers, and one code of a missing one.
    rows = [(f"#{at}", age, ward, "no") for at, (age, ward) in enumerate([(9, 1.0), (10.0, 2.0), (-99.0, 1.0)] * 4)]
    rows += [(at, 30.5, 2.0, "yes") for at in (7, 7, 10, 9)]
    before, after = (read(tmp_path, study, [*rows, *added], kind) for added in ([], [more]))
    ages = [[cells for cells, *_ in found if cells[0] != 50.5 and cells[0] != 1] for found in (before, after)]
    assert len(before) == len(rows)
    np.testing.assert_array_equal(ages[0], ages[1])
