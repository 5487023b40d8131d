"""Folders of images: the pixels that are in the files, in the same order everywhere, and no file name in a message."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.datasets.image_folder import read_images, usual_form
from fedct_flwr.types import DataError
from tests.patience import PATIENCE

SECRET = "Erika-4711"


def write(path: Path, pixels: Any) -> Path:
    """An image with these pixels: (height, width) or (height, width, 3)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.asarray(pixels)).save(path)
    return path


def random(*shape: int, seed: int = 0) -> np.ndarray[Any, np.dtype[np.uint8]]:
    return np.random.default_rng(seed).integers(0, 256, shape, dtype=np.uint8)


# --- pixels


@pytest.mark.parametrize("suffix", ["png", "tif"])
def test_sixteen_bits_keep_the_upper_eight(tmp_path: Path, suffix: str) -> None:
    # As X-rays come; Pillow would clip everything above 255 to white.
    pixels = np.array([[0, 255, 256], [4096, 32768, 65535]], dtype=np.uint16)
    X = read_images([write(tmp_path / f"a.{suffix}", pixels)], (2, 3), "gray")
    np.testing.assert_array_equal(X[0, 0], [[0, 0, 1], [16, 128, 255]])
    assert read_images([tmp_path / f"a.{suffix}"], (2, 3), "color").shape == (1, 3, 2, 3)


# --- damaged files


def damaged(path: Path, how: str) -> Path:
    whole = write(path, random(40, 40, 3)).read_bytes()
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
    good = write(tmp_path / "a.png", random(4, 4))
    bad = damaged(tmp_path / f"{SECRET}.{suffix}", how)
    with pytest.raises(DataError) as caught:
        read_images([good, bad], (4, 4), "gray")
    assert str(caught.value) == wording
    assert SECRET not in str(caught.value)


# --- the form that images have


def test_without_pillow_the_extra_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; sys.modules['PIL'] = None\n"
        "from pathlib import Path; from fedct_flwr.datasets.image_folder import read_images\n"
        "from fedct_flwr.types import ConfigError\n"
        "try: read_images([Path('a.png')], (1, 1), 'gray')\n"
        "except ConfigError as error: print(error)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=PATIENCE)
    assert "the extra 'images': pip install" in ended.stdout


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
