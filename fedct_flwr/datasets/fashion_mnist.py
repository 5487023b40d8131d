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
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import LABEL_DTYPE, Examples

CLASSES: Final = (
    "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
_FILES: Final = tuple(
    f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
)
_DEBIAN: Final = Path("/usr/share/datasets/fashion-mnist")
_NAMES: Final = tuple(f"pixel-{i}" for i in range(28 * 28))
_HOW: Final = "install Debian's dataset-fashion-mnist, or take them from github.com/zalandoresearch/fashion-mnist"


SUPERCLASSES: Final = ("top", "trouser", "dress", "shoe", "bag")
_SUPERCLASS_OF: Final = np.array([0, 1, 0, 2, 0, 3, 0, 3, 4, 3], dtype=LABEL_DTYPE)
"""Of each class: four are tops, three are shoes."""


def load(config: RunConfig) -> FederatedDataset:
    """Rows of 784 pixels in 0..1. Raises DataError if the files are not there."""
    train, test = _read()
    return split_over_silos(
        "fashion-mnist",
        Schema.numeric(CLASSES, _NAMES),
        train,
        private=10_000,
        public=50_000,
        silos=5,
        config=config,
        test=test,
    )


def load_superclasses(config: RunConfig) -> FederatedDataset:
    """Kinds of clothes, where each silo has seen one kind of tops and one of shoes, and is tested on all of them.

    After Li, Wang, "FedMD: Heterogenous federated learning via model distillation", arXiv:1910.03581, §4, who have
    CIFAR-100's superclasses, 10 silos and 5,000 public examples. Raises as ``load``, and ConfigError.
    """
    train, test = _read()
    return split_over_silos(
        "fashion-superclasses",
        Schema.numeric(SUPERCLASSES, _NAMES),
        Examples(train.X, _SUPERCLASS_OF[train.y]),
        private=3000,
        public=5000,
        silos=10,
        config=config,
        test=Examples(test.X, _SUPERCLASS_OF[test.y]),
        subclasses=train.y,
    )


def _read() -> tuple[Examples, Examples]:
    """For training and for testing. Raises DataError if the files are not there."""
    paths = cache.find("fashion-mnist", _FILES, [_DEBIAN], _HOW)
    return Examples(_images(paths[0]), _labels(paths[1])), Examples(_images(paths[2]), _labels(paths[3]))


def _images(path: Path) -> np.ndarray[tuple[int, int], np.dtype[np.float32]]:
    pixels = np.frombuffer(gzip.decompress(path.read_bytes()), dtype=np.uint8, offset=16)
    return scaled(pixels.reshape(-1, 28 * 28))


def _labels(path: Path) -> np.ndarray[tuple[int], np.dtype[np.int16]]:
    return np.frombuffer(gzip.decompress(path.read_bytes()), dtype=np.uint8, offset=8).astype(LABEL_DTYPE)
