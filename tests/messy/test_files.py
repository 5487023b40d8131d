"""Files that are no tables, are far too large once unpacked, or are called like something else."""

import gzip
import os
import zipfile
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import delimited
from fedct_flwr.datasets.inspections import inspect_folder
from fedct_flwr.datasets.table_files import as_written, column_names, read_table
from fedct_flwr.types import DataError
from tests.messy.patients import LABEL, patients


def refused(folder: Path) -> str:
    """All that ``fedct inspect`` refuses, as one text."""
    config = {"study": "messy", "data": "files", "data-dir": str(folder), "label-column": LABEL}
    return " ".join(each.sentence for each in inspect_folder(RunConfig.from_flower(config)).inspection.refused)


KINDS = {
    "PK\x03\x04": ".xlsx",
    "\x1f\x8b\x08": ".csv.gz",
    "\xd0\xcf\x11\xe0": "(.xls)",
    "%PDF-1.7\n1 0 obj": "PDF",
    "<html><table><tr><td>1</td></tr></table>": "HTML",
    "\n <?xml version='1.0'?>": "HTML",
    "$FL2@(#) SPSS DATA FILE": "SPSS",
    '[{"age":61,"crp":2.5},': "JSON",
    '{"age":61,"crp":2.5}\n': "JSON",
    "age,crp\n1,2\x00\x00\n": "bytes that are not text, so export it again",
}


@pytest.mark.parametrize("start", KINDS)
def test_a_file_of_another_kind_is_called_what_it_is(tmp_path: Path, start: str) -> None:
    folder = patients().write(tmp_path)
    (folder / "essen.csv").write_bytes(start.encode("latin-1") + bytes(range(200, 256)))
    assert KINDS[start] in refused(folder)


NO_FILES: dict[str, tuple[Callable[[Path], object], str]] = {
    "a pipe": (os.mkfifo, "it is a pipe or a device"),
    "a device without an end": (lambda path: path.symlink_to("/dev/zero"), "it is a pipe or a device"),
    "a folder": (Path.mkdir, "it is a folder, so name the table in it"),
    "a link to itself": (lambda path: path.symlink_to(path.name), "symbolic links"),
    "a link to nothing": (lambda path: path.symlink_to("nowhere"), "there is no such file"),
    "an empty file": (Path.touch, "it is empty, so export the table again"),
}


@pytest.mark.parametrize("ending", [".csv", ".xlsx"])
@pytest.mark.parametrize("what", NO_FILES)
def test_a_path_that_leads_to_no_file_with_contents_is_called_what_it_is(
    tmp_path: Path, what: str, ending: str
) -> None:
    make, said = NO_FILES[what]
    path = tmp_path / f"essen{ending}"
    make(path)
    for read in (read_table, column_names, as_written):
        with pytest.raises(DataError, match=said) as caught:
            read(path)
        assert str(path) in str(caught.value)


@pytest.mark.parametrize("separator", [",", ";"])
def test_a_line_of_a_million_fields_is_refused_before_it_is_read(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "essen.csv"
    path.write_text(separator.join(f"c{number}" for number in range(1_000_000)), "utf-8")
    with pytest.raises(DataError, match="its first line has more than 131,072 fields"):
        read_table(path)


def test_a_parquet_file_with_a_key_and_half_of_one_are_called_so(tmp_path: Path) -> None:
    path = tmp_path / "essen.parquet"
    pyarrow.parquet.write_table(pa.table({"age": [*range(99)]}), path)
    content = path.read_bytes()
    for changed, said in ((content[:-50], "damaged"), (content[:-4] + b"PARE", "it is encrypted")):
        path.write_bytes(changed)
        with pytest.raises(DataError, match=said):
            read_table(path)


@pytest.mark.parametrize("extra", ["Export of 2024-02-01\n", ""])
def test_a_line_that_is_no_record_is_refused_with_what_to_do(tmp_path: Path, extra: str) -> None:
    folder = patients().write(tmp_path)
    text = (folder / "essen.csv").read_text("utf-8")
    (folder / "essen.csv").write_text(extra + text if extra else f"{text}(400 rows affected)\n")
    assert "notes below the table" in refused(folder)


@pytest.mark.parametrize("content", [b"age,crp\n" + b"1,2\n" * 2_000_000, b"age,crp\n1," + b"7" * 9_000_000])
def test_a_packed_file_is_not_unpacked_without_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes
) -> None:
    monkeypatch.setattr(delimited, "_MOST_UNPACKED", 4_000_000)
    path = tmp_path / "bomb.csv.gz"
    path.write_bytes(gzip.compress(content))
    with pytest.raises(DataError, match="far larger"):
        read_table(path)
    monkeypatch.undo()
    assert path.stat().st_size * 64 < len(content)


def test_a_workbook_is_not_unpacked_without_end(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "_MOST_UNPACKED", 4_000_000)
    path = tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as parts:
        parts.writestr("xl/worksheets/sheet1.xml", b" " * 8_000_000)
    with pytest.raises(DataError, match="far larger"):
        read_table(path)
