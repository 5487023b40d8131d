"""A data folder with a few records of each data set that is no part of the package, in the formats they come in."""

import gzip
from pathlib import Path

import numpy as np
import pytest

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
    (folder / "fashion-mnist").mkdir(parents=True)
    monkeypatch.setenv("FEDCT_DATA", str(folder))
    for name, (header, lines) in TABLES.items():
        (folder / name).write_bytes(gzip.compress("\n".join([header, *lines, ""]).encode()))
    rng = np.random.default_rng(0)
    for part, count in {"train": 300, "t10k": 40}.items():
        pixels, y = rng.integers(0, 256, count * 28 * 28, dtype=np.uint8), np.arange(count, dtype=np.uint8) % 10
        for kind, header, content in (("images-idx3", 16, pixels), ("labels-idx1", 8, y)):
            path = folder / "fashion-mnist" / f"{part}-{kind}-ubyte.gz"
            path.write_bytes(gzip.compress(bytes(header) + content.tobytes()))
    return folder
