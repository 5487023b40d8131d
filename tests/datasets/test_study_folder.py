"""A study's folder and a silo's records: what is agreed upon makes the digest, and no message quotes a record."""

import itertools
import shutil
from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet
import pytest
import tomli_w
from PIL import Image
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.silo import DataSettings
from fedct_flwr.datasets.dates import days
from fedct_flwr.datasets.inspections import inspect_records
from fedct_flwr.datasets.schema import Column
from fedct_flwr.datasets.silo_records import read_each, read_grouped
from fedct_flwr.datasets.study_folder import StudyFolder, read_study
from fedct_flwr.types import DataError, FedctError
from tests.hospitals import dataset, write_silo_folder
from tests.sentences import sentence

STUDY: dict[str, Any] = {
    "study": "ward",
    "classes": ["no", "yes"],
    "public": "public.csv",
    "test-file": "test.csv",
    "test-label": "ill",
}
PUBLIC = "age,ward\n63,east\n41,west\n,east\n"
TEST = "age,ward,ill\n50,east,yes\n,south,no\n"


def write(folder: Path, *, public: str = PUBLIC, test: str | None = TEST, **settings: Any) -> Path:
    """A study of two columns with these changes (underscores for hyphens; None takes a setting out)."""
    folder.mkdir(exist_ok=True)
    (folder / "public.csv").write_text(public, "utf-8")
    if test is not None:
        (folder / "test.csv").write_text(test, "utf-8")
    changed = {**STUDY, **{key.replace("_", "-"): value for key, value in settings.items()}}
    content = tomli_w.dumps({key: value for key, value in changed.items() if value is not None})
    (folder / "study.toml").write_text(content, "utf-8")
    return folder


@pytest.fixture
def study(tmp_path: Path) -> StudyFolder:
    return read_study(write(tmp_path / "study"))


def said(read: Callable[[], object]) -> str:
    return sentence(FedctError, read)


# --- a study


def test_settings_that_fit_nothing_are_refused(tmp_path: Path) -> None:
    for shares, why in (
        ({"ill": [0.1, 0.4]}, "class-shares names 'ill', which is no class"),
        ({"yes": [10, 60]}, "less than or equal to 1"),
    ):
        assert why in said(lambda shares=shares: read_study(write(tmp_path, tables={"class-shares": shares})))
    misspelled = {"agee": {"kind": "integer", "range": [0, 120]}}
    assert "names 'agee': did you mean 'age'" in said(lambda: read_study(write(tmp_path, columns=misspelled)))


def test_a_folder_is_read_as_its_files_say(study: StudyFolder) -> None:
    assert study.name == "ward"
    assert study.schema.classes == ("no", "yes")
    assert study.schema.columns == (Column("age"), Column("ward", ("east", "west")))
    np.testing.assert_array_equal(study.public.X, [[63, 0], [41, 1], [np.nan, 0]])
    np.testing.assert_array_equal(study.test.X, [[50, 0], [np.nan, 2]])
    assert study.test.y.tolist() == [1, 0]


@pytest.mark.parametrize("key", ["public", "test-file"])
@pytest.mark.parametrize("way", ["absolute", "upward", "link", "linked folder"])
def test_a_study_reads_no_file_outside_its_folder(
    tmp_path: Path, key: str, way: str, wording: SnapshotAssertion
) -> None:
    folder = write(tmp_path / "study")
    (tmp_path / "own").mkdir()
    for name in ("public.csv", "test.csv"):
        shutil.copy(folder / name, tmp_path / "own" / name)
    name = "public.csv" if key == "public" else "test.csv"
    (folder / "link.csv").symlink_to(tmp_path / "own" / name)
    (folder / "linked").symlink_to(tmp_path / "own")
    (folder / "inner.csv").symlink_to(name)
    places = {"absolute": str(tmp_path / "own" / name), "upward": f"../own/{name}", "link": "link.csv"}

    def point_to(place: str) -> None:
        (folder / "study.toml").write_text(tomli_w.dumps({**STUDY, key: place}), "utf-8")

    point_to(places.get(way, f"linked/{name}"))
    assert said(lambda: read_study(folder)) == wording
    # Within it a link is a file like others, and so is the folder itself.
    point_to("inner.csv")
    (tmp_path / "here").symlink_to(folder)
    assert read_study(tmp_path / "here").name == "ward"


# --- the digest


def agreed(folder: Path) -> Iterator[Path]:
    """Studies that differ from the first in one thing that is agreed upon."""
    yield write(folder / "name", study="another")
    yield write(folder / "classes", classes=["no", "yes", "perhaps"])
    yield write(folder / "class-order", classes=["yes", "no"])
    yield write(folder / "column-name", public=PUBLIC.replace("ward", "room"), test=TEST.replace("ward", "room"))
    # The values are the same, as the ward is the second of two again.
    yield write(folder / "category-name", public=PUBLIC.replace("west", "wing"))
    yield write(folder / "public-value", public=PUBLIC.replace("63", "64"))
    yield write(folder / "public-missing", public=PUBLIC.replace("41", ""))
    yield write(folder / "public-order", public="age,ward\n41,west\n63,east\n,east\n")
    yield write(folder / "test-value", test=TEST.replace("50", "51"))
    yield write(folder / "test-label", test=TEST.replace("yes", "no"))
    yield write(folder / "no-test", test_file=None, test_label=None)


def test_the_digest_changes_with_each_thing_that_is_agreed_upon(tmp_path: Path, study: StudyFolder) -> None:
    digests = {folder.name: read_study(folder).digest for folder in agreed(tmp_path)}
    digests["as it is"] = study.digest
    assert len(set(digests.values())) == len(digests)
    assert {len(digest) for digest in digests.values()} == {32}


def not_agreed(folder: Path) -> Iterator[Path]:
    """Studies that differ from the first in what has no meaning."""
    yield write(folder / "moved")
    yield write(folder / "number-form", public=PUBLIC.replace("63", "63.0"))
    yield write(folder / "line-ends", public=PUBLIC.replace("\n", "\r\n"))
    yield write(folder / "unknown-ward", test=TEST.replace("south", "north"))
    renamed = write(folder / "renamed")
    (renamed / "public.csv").rename(renamed / "other.csv")
    text = (renamed / "study.toml").read_text("utf-8")
    (renamed / "study.toml").write_text("# a note\n" + text.replace("public.csv", "other.csv"), "utf-8")
    yield renamed
    further = write(folder / "further-file")
    (further / "README.txt").write_text("hello")
    yield further


def test_the_digest_changes_with_nothing_else(tmp_path: Path, study: StudyFolder) -> None:
    differing = [folder.name for folder in not_agreed(tmp_path) if read_study(folder).digest != study.digest]
    assert differing == []


def test_the_digest_does_not_change_from_version_to_version(study: StudyFolder) -> None:
    # Silos approve it. Whoever changes what goes into it also changes the text that it begins with.
    assert study.digest.hex() == "44e5d1525defd303ed73869533e3feb9bdc425861f6bcf1ce8bae9d9bdfe3c3f"


# --- faults of a study's folder


def test_a_test_file_is_checked_as_a_silos_records_are(tmp_path: Path, wording: SnapshotAssertion) -> None:
    folder = write(tmp_path / "study", test="age,ward,ill\n50,east,perhaps\n")
    text = said(lambda: read_study(folder))
    assert text == wording
    assert "perhaps" not in text


# --- a silo's records


def test_the_hospitals_records_are_the_simulations_to_the_last_bit(tmp_path: Path) -> None:
    whole = dataset()
    for silo in whole.silos:
        write_silo_folder(tmp_path / silo.name, silo.name)
        study = read_study(tmp_path / silo.name / "study")
        for name, expected in {"data.csv": silo.private, "test.csv": silo.test}.items():
            settings = DataSettings.read({"file": str(tmp_path / silo.name / name), "label": "class"}, "silo.toml")
            found = read_grouped(settings, study)[0]
            assert found.X.dtype == expected.X.dtype
            np.testing.assert_array_equal(found.X, expected.X)
            np.testing.assert_array_equal(found.y, expected.y)


# --- images


def write_image(path: Path, seed: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (10, 12, 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """A study of images with two classes, and a silo's images beside it."""
    for number in range(3):
        write_image(tmp_path / "study" / "public" / f"{number}.png", number)
        write_image(tmp_path / "own" / ("sick" if number else "well") / f"{number}.png", 10 + number)
    return write_image_study(tmp_path / "study")


def write_image_study(folder: Path, **settings: Any) -> Path:
    content = {"study": "scans", "classes": ["well", "sick"], "public": "public", "image-size": [8, 6], **settings}
    (folder / "study.toml").write_text(tomli_w.dumps(content), "utf-8")
    return folder


def test_small_images_that_stand_for_much_memory_are_refused_unread(
    images: Path, monkeypatch: pytest.MonkeyPatch, wording: SnapshotAssertion
) -> None:
    for number in range(20):
        write_image(images / "public" / f"more-{number}.png", number)
    stored = sum(path.stat().st_size for path in (images / "public").iterdir())
    monkeypatch.setattr("fedct_flwr.datasets.read_images", lambda *_: pytest.fail("they were read"))
    text = said(lambda: read_study(write_image_study(images, **{"image-size": [4096, 4096]})))
    assert text.replace(str(images), "STUDY").replace(f"{stored:,}", "so many") == wording


def test_files_that_a_silo_of_images_does_not_use_are_counted(images: Path, tmp_path: Path) -> None:
    data, study = (
        DataSettings.model_validate({"file": tmp_path / "own", "test-file": tmp_path / "own"}),
        read_study(images),
    )
    assert inspect_records(data, study, "a").findings == ()
    for number in range(13):
        write_image(tmp_path / "own" / "sick" / "p1" / f"{number}.png", number)
        (tmp_path / "own" / "well" / f"{number}.dcm").write_bytes(b"")
    found, tested = inspect_records(data, study, "a").findings
    assert (found.code, tested.code) == ("unreadable", "unreadable")
    assert found.message.startswith("about 30 files among the images of silo a are not used")
    assert "test images" in tested.message


@pytest.mark.parametrize("outside", ["folder", "image"])
def test_a_study_of_images_takes_none_from_outside_its_folder(images: Path, tmp_path: Path, outside: str) -> None:
    if outside == "folder":
        write_image_study(images, public="../own/sick")
    else:
        (images / "public" / "9.png").symlink_to(tmp_path / "own" / "sick" / "1.png")
    assert "leads out of the study's folder" in said(lambda: read_study(images))


def test_the_digest_of_a_study_of_images_changes_with_each_thing_that_is_agreed_upon(images: Path) -> None:
    changes: list[dict[str, Any]] = [{"image-size": [6, 8]}, {"image-mode": "gray"}, {"study": "x"}]
    changes += [{"classes": ["sick", "well"]}, {}]
    digests = [read_study(write_image_study(images, **change)).digest for change in changes]
    write_image(images / "public" / "1.png", 99)
    digests.append(read_study(images).digest)
    (images / "public" / "1.png").rename(images / "public" / "7.png")
    digests.append(read_study(images).digest)
    assert len(set(digests)) == len(digests)


# --- tables of a form of their own


SECRET = "Erika-4711"
RECORDS = "ill,ward,age\nno,west,28\nyes,east,81\nyes,,33\nno,north,44\n"
ELSEWHERE = "age;ward\n63;east\n41;west\n;east\n"
ELSEWHERE_TEST = "age;ward;ill\n50;east;yes\n;south;no\n"


def study_of(folder: Path, **settings: Any) -> StudyFolder:
    return read_study(write(folder, **settings))


def records(study: StudyFolder, path: Path, content: str | bytes, **settings: Any) -> list[list[float]]:
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    data = {"file": str(path), "label": "ill", **settings}
    return read_grouped(DataSettings.read(data, "silo.toml"), study)[0].X.tolist()


def said_of(study: StudyFolder, path: Path, content: str | bytes, **settings: Any) -> str:
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
    read = read_grouped(DataSettings.read({"file": str(tmp_path / "a.parquet"), "label": "ill"}, "silo.toml"), study)[0]
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
    text = said_of(study, tmp_path / "a.csv", RECORDS.replace(",", ";"))
    assert "write separator = ';' in silo.toml under [data.tables]" in text
    text = said_of(study, tmp_path / "a.csv", f"age,ward,ill\n1,{SECRET}ü,no\n".encode("cp1252"))
    assert text == wording
    text = said_of(study, tmp_path / "a.csv", RECORDS, tables={"leave-out": ["warden"]})
    assert "leave-out in silo.toml under [data.tables] names 'warden', which a.csv does not have" in text


@pytest.mark.parametrize("time", ["", " 08:15:00", " 00:00", "T00:00:00", "T00:00:00Z", " 00:00:00.123456789"])
@pytest.mark.parametrize("form", ["%Y-%m-%d", "%d.%m.%Y"])
def test_a_protected_silo_reads_the_dates_that_a_whole_file_has(time: str, form: str, tmp_path: Path) -> None:
    study = study_of(tmp_path / "s", public="age,seen\n63,2020-01-01\n", test=None, test_file=None, test_label=None,
                     tables={"dates": "%Y-%m-%d"})  # fmt: skip
    path = tmp_path / "own.csv"
    path.write_text(f"age,seen,ill\n28,2020-01-02{time},no\n33,,yes\n35,2020-01-04{time},yes\n")
    data = DataSettings.read({"file": str(path), "label": "ill", "tables": {"dates": form}}, "silo.toml")
    whole, each = read_grouped(data, study)[0].X, read_each(data, study)[0].X
    np.testing.assert_array_equal(each, whole)
    assert np.isfinite(whole[:, 1]).tolist() == [True, False, True]


@pytest.mark.parametrize(("code", "decimal"), [("-99.0", "."), ("-99,00", ","), (" -99", "."), ("999.9", ".")])
def test_codes_of_missing_values_are_missing_to_a_protected_silo(tmp_path: Path, code: str, decimal: str) -> None:
    study, path = study_of(tmp_path), tmp_path / "own.csv"
    path.write_text(f"age;ward;ill\n28{decimal}5;west;no\n{code};east;yes\n33;east;no\n")
    codes, form = ["-99", "999.9"], {"separator": ";", "decimal": decimal}
    for read, missing in itertools.product((read_grouped, read_each), (codes, {"age": codes})):
        tables = {"missing": missing, **form}
        data = DataSettings.read({"file": str(path), "label": "ill", "tables": tables}, "silo.toml")
        np.testing.assert_array_equal(read(data, study)[0].X[:, 0], [28.5, np.nan, 33])


def test_a_protected_silo_without_its_label_column_says_so(tmp_path: Path) -> None:
    study, path = study_of(tmp_path), tmp_path / "own.csv"
    path.write_text("age,ward,Ill\n28,west,no\n")
    data = DataSettings.read({"file": str(path), "label": "ill"}, "silo.toml")
    for read in (read_grouped, read_each):
        assert "has no column 'ill'" in sentence(DataError, read, data, study)


def test_a_day_with_a_time_zone_is_that_of_its_own_calendar() -> None:
    days_of = [date(1930, 7, 1), date(1970, 1, 1), date(2003, 1, 2)]
    there = pd.Series(pd.to_datetime(days_of)).dt.tz_localize("Europe/Berlin")
    found = days(pa.chunked_array([pa.array(there)]), "%d.%m.%Y", "here", ["1970-01-01"])
    assert found is not None
    assert found.to_pylist() == [(days_of[0] - date(1970, 1, 1)).days, None, (days_of[2] - date(1970, 1, 1)).days]


def test_a_date_of_a_protected_silo_is_read_by_itself(tmp_path: Path) -> None:
    public = "age,ward,seen\n63,east,20200101\n41,west,20200103\n"
    test = "age,ward,seen,ill\n50,east,20200102,yes\n"
    study = study_of(tmp_path, public=public, test=test, tables={"dates": "%Y%m%d"})
    path, found, lost = tmp_path / "own.parquet", [], list[str]()
    data = {"file": str(path), "label": "ill", "tables": {"dates": "%Y%m%d", "missing": ["19700101"]}}
    # No day of any year, a year that no column has alone, and what means a missing value.
    for last in (20200104, 20201399, 10000101, None, 19700101):
        columns = {"age": [28, 33], "ward": ["west", "east"], "seen": [20200102, last], "ill": ["no", "yes"]}
        pyarrow.parquet.write_table(pa.table(columns), path)
        own, _ = read_each(DataSettings.read(data, "silo.toml"), study, lost=lost)
        found.append(own.X[:, 2].tolist())
    assert found[:3] == [[18263, 18265], [18263], [18263]]
    assert lost == ["column 'seen' has dates of another form"] * 2
    np.testing.assert_array_equal(found[3:], [[18263, np.nan]] * 2)
    # Years of two digits that would be in the future.
    short = data | {"file": str(tmp_path / "own.csv"), "tables": {"dates": "%d.%m.%y"}}
    Path(short["file"]).write_text("age,ward,seen,ill\n28,west,02.01.20,no\n33,east,02.01.68,yes\n")
    assert read_each(DataSettings.read(short, "silo.toml"), study)[0].X[:, 2].tolist() == [18263]
    pyarrow.parquet.write_table(pa.table({**columns, "age": [[28], [33]]}), path)
    assert "column 'age' has a value that is no number" in sentence(
        DataError, read_each, DataSettings.read(data, ""), study
    )
