"""Folders of images as a federation: what is read, what is said of the rest, one sentence for what cannot be used."""

import sys
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import FederatedDataset, files
from fedct_flwr.datasets.image_folder import read_images, usual_form
from fedct_flwr.datasets.schema import ImageForm
from fedct_flwr.types import DataError, FedctError
from tests.sentences import sentence

Folder = Callable[..., Path]
_DEFAULT = {
    "public": {"": 4},
    "north": {"sick": 3, "well": 3},
    "south": {"sick": 2, "well": 4},
}


def write(path: Path, shape: tuple[int, ...] = (8, 6), pixels: Any = None) -> Path:
    """An image with these pixels, ``(height, width)`` or ``(height, width, 3)``, or with some that its name decides."""
    path.parent.mkdir(parents=True, exist_ok=True)
    rng = np.random.default_rng(len(str(path)) + sum(map(ord, str(path.name))))
    some = rng.integers(0, 256, shape, dtype=np.uint8)
    Image.fromarray(some if pixels is None else np.asarray(pixels)).save(path)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Folder:
    """Writes so many images into each folder, by silo and class; None for no such folder."""

    def make(shape: tuple[int, ...] = (8, 6), **contents: dict[str, int] | None) -> Path:
        for name, classes in {**_DEFAULT, **contents}.items():
            for inner, number in (classes or {}).items():
                (tmp_path / name / inner).mkdir(parents=True, exist_ok=True)
                for image in range(number):
                    write(tmp_path / name / inner / f"{image:03}.png", shape)
        return tmp_path

    return make


def load(path: Path, **settings: Any) -> FederatedDataset:
    raw = {"study": "s", "data": "files", "data-dir": str(path), "test-fraction": 0.0}
    return files.load(RunConfig.from_flower(raw | {key.replace("_", "-"): value for key, value in settings.items()}))


def error(path: Path, kind: type[FedctError] = DataError, **settings: Any) -> str:
    return sentence(kind, load, path, **settings)


# --- what is read


def test_a_silo_is_a_folder_with_a_folder_for_each_class(folder: Folder) -> None:
    path = folder()
    dataset = load(path)
    assert [silo.name for silo in dataset.silos] == ["north", "south"]
    assert dataset.schema.classes == ("sick", "well")
    assert dataset.schema.images == ImageForm((8, 6), "gray")
    assert [np.bincount(silo.private.y).tolist() for silo in dataset.silos] == [[3, 3], [2, 4]]
    assert (len(dataset.public), dataset.public.X.shape) == (4, (4, 1, 8, 6))
    for part in (dataset.public.X, *(silo.private.X for silo in dataset.silos)):
        assert part.dtype == np.uint8
    north = dataset.silos[0].private
    first = np.asarray(Image.open(path / "north" / "well" / "000.png"))
    assert any((image[0] == first).all() for image in north.X[north.y == 1])


def test_data_toml_says_the_form(folder: Folder) -> None:
    path = folder()
    (path / "data.toml").write_text("[images]\nsize = [5, 4]\nmode = 'color'\n")
    dataset = load(path)
    assert dataset.schema.images == ImageForm((5, 4), "color")
    assert dataset.public.X.shape[1:] == (3, 5, 4)
    assert dataset.notes == ()


def test_own_test_folders_are_held_out_and_others_hold_out_a_share(folder: Folder) -> None:
    path = folder(**{"north.test": {"well": 2}, "south": {"sick": 5, "well": 5}})
    dataset = load(path, test_fraction=0.2)
    north, south = dataset.silos
    assert (north.private.size, north.test.y.tolist()) == (6, [1, 1])
    assert (south.private.size, south.test.size) == (8, 2)
    assert dataset.test.size == 4


def test_all_that_is_not_used_is_named(folder: Folder) -> None:
    path = folder()
    for name in ("notes.txt", "north/loose.png", "north/sick/x.dcm", "public/old/a.png", "__MACOSX/a/b.png"):
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_bytes(b"")
    (path / ".DS_Store").write_bytes(b"")
    (said,) = (note for note in load(path).notes if note.startswith("not used"))
    for name in ("notes.txt", "north/loose.png", "north/sick/x.dcm", "public/old", "__MACOSX"):
        assert f"'{name}'" in said or "more" in said
    assert ".DS_Store" not in said
    assert "data.toml" not in said


# --- what cannot be used


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda path: (path / "west").mkdir(), ("west", "no images")),
        (lambda path: write(path / "west" / "sick" / "scans" / "a.png"), ("west", "no images")),
        (lambda path: (path / "public.csv").write_text("a\n1\n"), ("public.csv", "as images or as a table")),
        (lambda path: write(path / "west.test" / "sick" / "a.png"), ("west.test", "no silo")),
        (lambda path: write(path / "north.test" / "new" / "a.png"), ("north.test", "'new'", "no silo is trained")),
        (lambda path: write(path / "west" / "Sick " / "a.png"), ("'sick'", "'Sick'", "case")),
    ],
)
def test_one_sentence_says_what_is_wrong(folder: Folder, change: Callable[[Path], object], words: Any) -> None:
    path = folder()
    change(path)
    said = error(path)
    assert all(word in said for word in words), said


# --- memory


def test_an_image_takes_a_byte_for_each_value_and_one_is_large_at_a_time(tmp_path: Path) -> None:
    paths = []
    for number in range(40):
        write(tmp_path / f"{number:02}.png", (600, 500, 3))
        paths.append(tmp_path / f"{number:02}.png")
    read_images(paths[:1], (32, 32), "color")
    tracemalloc.start()
    X = read_images(paths, (32, 32), "color")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert X.nbytes == 40 * 3 * 32 * 32
    assert peak < X.nbytes + 2 * 600 * 500 * 3


# --- images that belong together


def patients(path: Path, silo: str, numbers: range, of_each: int = 3) -> None:
    """Images of patients, each of one brightness: 10 times the patient's number."""
    for number in numbers:
        for image in range(of_each):
            folder = path / silo / ("sick" if number % 2 else "well")
            write(folder / f"p{number}_{image}.png", pixels=np.full((8, 6), 10 * number, dtype=np.uint8))


@pytest.fixture
def of_patients(folder: Folder) -> Path:
    path = folder(north=None, south=None)
    patients(path, "north", range(1, 11))
    patients(path, "south", range(1, 11))
    (path / "data.toml").write_text("[images]\ngroup-pattern = '^(p[0-9]+)_'\n")
    return path


def brightness(X: np.ndarray) -> set[int]:
    return {*X[:, 0, 0, 0].tolist()}


@pytest.mark.parametrize("seed", range(3))
def test_images_of_one_patient_stay_on_one_side(of_patients: Path, seed: int) -> None:
    for silo in load(of_patients, test_fraction=0.3, seed=seed).silos:
        assert (silo.private.size, silo.test.size) == (21, 9)
        assert not brightness(silo.private.X) & brightness(silo.test.X)
        assert silo.groups is not None
        assert silo.test_groups is not None
        assert len({*zip(silo.groups.tolist(), silo.private.X[:, 0, 0, 0].tolist(), strict=True)}) == 7
        assert not {*silo.groups.tolist()} & {*silo.test_groups.tolist()}


def test_a_patient_in_a_folder_and_in_its_test_folder_is_refused(of_patients: Path) -> None:
    patients(of_patients, "north.test", range(20, 22))
    north = load(of_patients).silos[0]
    assert (north.private.size, north.test.size) == (30, 6)
    patients(of_patients, "north.test", range(9, 12), of_each=1)
    said = error(of_patients)
    assert "north.test" in said
    assert "2 groups" in said


SECRET = "Erika-4711"


# --- pixels


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_keep_the_upper_eight(tmp_path: Path, suffix: str) -> None:
    # As X-rays come; Pillow would clip everything above 255 to white.
    pixels = np.array([[0, 255, 256], [4096, 32768, 65535]], dtype=np.uint16)
    X = read_images([write(tmp_path / f"a.{suffix}", pixels=pixels)], (2, 3), "gray")
    np.testing.assert_array_equal(X[0, 0], [[0, 0, 1], [16, 128, 255]])
    assert read_images([tmp_path / f"a.{suffix}"], (2, 3), "color").shape == (1, 3, 2, 3)


def test_a_photo_is_read_upright(tmp_path: Path) -> None:
    # A camera that is held upright stores the picture on its left side, and says so.
    exif = Image.Exif()
    exif[0x0112] = 6
    Image.fromarray(np.repeat(np.array([[0, 255]], dtype=np.uint8), 16, axis=1).repeat(8, axis=0)).save(
        tmp_path / "a.jpg", exif=exif
    )
    assert usual_form([tmp_path / "a.jpg"]) == ImageForm((32, 8), "gray")
    X = read_images([tmp_path / "a.jpg"], (32, 8), "gray")
    assert (X[0, 0, :16].max() < 9, X[0, 0, 16:].min() > 246) == (True, True)


@pytest.mark.parametrize(("mode", "form"), [("LA", "gray"), ("RGBA", "color"), ("P", "color"), ("L", "gray")])
def test_black_ink_on_a_transparent_ground_is_read_as_on_white(tmp_path: Path, mode: str, form: str) -> None:
    ink = Image.new("RGBA" if mode == "P" else mode, (2, 1))
    ink.putpixel((0, 0), {"LA": (0, 255), "L": 9}.get(mode, (0, 0, 0, 255)))
    ink.convert(mode).save(tmp_path / "a.png", **({"transparency": 0} if mode == "L" else {}))
    read = read_images([tmp_path / "a.png"], (1, 2), "gray")
    assert read.ravel().tolist() == [9 if mode == "L" else 0, 255]
    assert usual_form([tmp_path / "a.png"]).mode == form


# --- damaged files


def damaged(path: Path, how: str) -> Path:
    whole = write(path, (40, 40, 3)).read_bytes()
    contents = {
        "empty": b"",
        "text": b"no image at all",
        "cut off": whole[: len(whole) // 2],
        "bits turned": whole[:60] + bytes(byte ^ 255 for byte in whole[60:200]) + whole[200:],
        "header alone": whole[:33],
    }
    path.write_bytes(contents[how])
    return path


@pytest.mark.parametrize(
    ("suffix", "how"),
    [
        *((suffix, how) for suffix in ("png", "jpg") for how in ("empty", "text", "cut off", "header alone")),
        ("png", "bits turned"),  # JPEG has no checksum: such a file is another image
    ],
)
def test_a_damaged_file_is_numbered_and_its_name_not_quoted(
    tmp_path: Path, how: str, suffix: str, wording: SnapshotAssertion
) -> None:
    good = write(tmp_path / "a.png", (4, 4))
    bad = damaged(tmp_path / f"{SECRET}.{suffix}", how)
    said = sentence(DataError, read_images, [good, bad], (4, 4), "gray")
    assert said == wording
    assert SECRET not in said


# --- the form that images have


@pytest.mark.skipif(sys.platform == "win32", reason="the program that must not run is a shell script")
@pytest.mark.parametrize("suffix", [".png", ".jpg", ".tif"])
def test_a_public_set_starts_no_other_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, suffix: str) -> None:
    """Pillow goes by what a file holds, and has Ghostscript run PostScript: a program on the coordinator's text."""
    programs, ran = tmp_path / "bin", tmp_path / "ran"
    programs.mkdir()
    ghostscript = programs / "gs"
    ghostscript.write_text(f'#!/bin/sh\necho "$@" >> "{ran}"\n', encoding="utf-8")
    ghostscript.chmod(0o755)
    monkeypatch.setenv("PATH", f"{programs}:/usr/bin:/bin")
    monkeypatch.setattr("PIL.EpsImagePlugin.gs_binary", None)
    path = tmp_path / f"image{suffix}"
    path.write_bytes(b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 8 8\n%%EndComments\nshowpage\n%%EOF\n")
    for read in (lambda: read_images([path], (8, 8), "color"), lambda: usual_form([path])):
        with pytest.raises(DataError, match="damaged or of another kind"):
            read()
    assert not ran.exists()
