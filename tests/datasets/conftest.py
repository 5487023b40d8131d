"""A data folder with a few records of each data set that is no part of the package, in the formats they come in."""

import gzip
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest
import scipy.io

# 40 records each, of which none repeats.
TABLES = {
    "adult.csv.gz": (
        "age,workclass,income,split",
        [f"{20 + i},{('Private', '', 'State-gov')[i % 3]},{('<=50K', '>50K')[i % 2]},train" for i in range(40)],
    ),
    "mushroom.csv.gz": (
        "class,odor,stalk-root",
        [f"{('poisonous', 'edible')[i % 2]},{('pungent', 'none')[i % 2]},{('', 'club')[i // 20]}" for i in range(40)],
    ),
    "wine_quality.csv.gz": (
        "alcohol,pH,quality,type",
        [f"{9 + i / 10},3.{i},{3 + i % 7},{('red', 'white')[i % 2]}" for i in range(40)],
    ),
}


@pytest.fixture
def data_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder that FEDCT_DATA names during the test."""
    folder = tmp_path / "data"
    for part in ("cifar10", "svhn", "covertype", "fashion-mnist"):
        (folder / part).mkdir(parents=True)
    monkeypatch.setenv("FEDCT_DATA", str(folder))
    for name, (header, lines) in TABLES.items():
        (folder / name).write_bytes(gzip.compress("\n".join([header, *lines, ""]).encode()))
    rng = np.random.default_rng(0)
    for name in [f"data_batch_{number}.bin" for number in range(1, 6)] + ["test_batch.bin"]:
        (folder / "cifar10" / name).write_bytes(cifar10_records(rng).tobytes())
    for name in ("train_32x32.mat", "test_32x32.mat"):
        scipy.io.savemat(folder / "svhn" / name, svhn_images(rng))
    for part, count in {"train": 300, "t10k": 40}.items():
        pixels, y = rng.integers(0, 256, count * 28 * 28, dtype=np.uint8), np.arange(count, dtype=np.uint8) % 10
        for kind, header, content in (("images-idx3", 16, pixels), ("labels-idx1", 8, y)):
            path = folder / "fashion-mnist" / f"{part}-{kind}-ubyte.gz"
            path.write_bytes(gzip.compress(bytes(header) + content.tobytes()))
    joblib.dump(rng.integers(0, 2**12, (40, 54)).astype(np.float64), folder / "covertype" / "samples_py3")
    joblib.dump(np.arange(40, dtype=np.int32) % 7 + 1, folder / "covertype" / "targets_py3")
    return folder


def cifar10_records(rng: np.random.Generator) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Ten records: the class, then the pixels."""
    pixels = rng.integers(0, 256, (10, 3072), dtype=np.uint8)
    return np.column_stack([np.arange(10, dtype=np.uint8), pixels])


def svhn_images(rng: np.random.Generator) -> dict[str, np.ndarray[Any, np.dtype[np.uint8]]]:
    """Forty images, of the digits 1 to 9 and 10 for 0."""
    y = (np.arange(40, dtype=np.uint8) % 10 + 1).reshape(-1, 1)
    return {"X": rng.integers(0, 256, (32, 32, 3, 40), dtype=np.uint8), "y": y}
