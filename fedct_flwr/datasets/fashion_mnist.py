"""FashionMNIST: 70,000 images of clothes, 28 x 28, ten classes (Xiao, Rasul, Vollgraf, arXiv:1708.07747, MIT).

Abourayya et al., arXiv:2310.05696, Table 11: 10,000 private images over 5 silos, 50,000 public, 10,000 test.
"""

import gzip
from pathlib import Path
from typing import Final

import numpy as np

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import cache
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.images import scaled
from fedct_flwr.datasets.pooled import split_over_silos
from fedct_flwr.schema import Schema
from fedct_flwr.types import LABEL_DTYPE, Examples

CLASSES: Final = (
    "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
_FILES: Final = tuple(
    f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
)
_DEBIAN: Final = Path("/usr/share/datasets/fashion-mnist")
_HOW: Final = "install Debian's dataset-fashion-mnist, or take them from github.com/zalandoresearch/fashion-mnist"


def load(config: RunConfig) -> FederatedDataset:
    """Rows of 784 pixels in 0..1. Raises DataError if the files are not there."""
    paths = cache.find("fashion-mnist", _FILES, [_DEBIAN], _HOW)
    train, test = (Examples(_images(paths[i]), _labels(paths[i + 1])) for i in (0, 2))
    names = tuple(f"pixel-{i}" for i in range(28 * 28))
    return split_over_silos(
        "fashion-mnist",
        Schema.numeric(CLASSES, names),
        train,
        private=10_000,
        public=50_000,
        silos=5,
        config=config,
        test=test,
    )


def _images(path: Path) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    pixels = np.frombuffer(gzip.decompress(path.read_bytes()), dtype=np.uint8, offset=16)
    return scaled(pixels.reshape(-1, 28 * 28))


def _labels(path: Path) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    return np.frombuffer(gzip.decompress(path.read_bytes()), dtype=np.uint8, offset=8).astype(LABEL_DTYPE)
