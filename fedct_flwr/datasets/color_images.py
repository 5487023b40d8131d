"""Color images, 32 x 32, in the data folder, with the sizes of Abourayya et al., arXiv:2310.05696, Table 11.

CIFAR10: 60,000 images, ten classes (A. Krizhevsky, "Learning multiple layers of features", 2009). SVHN: 99,289 images
of house numbers, ten digits (Netzer et al., NIPS workshop, 2011). Neither was ever run here on the real data.
"""

from pathlib import Path
from typing import Final

import numpy as np
from scipy.io import loadmat

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import cache
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.images import scaled
from fedct_flwr.datasets.pooled import split_over_silos
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import LABEL_DTYPE, DataError, Examples

CLASSES: Final = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
_CIFAR: Final = (*(f"data_batch_{number}.bin" for number in range(1, 6)), "test_batch.bin")
_CIFAR_FROM: Final = "unpack https://www.cs.toronto.edu/~kriz/cifar-10-binary.tar.gz there; FEDCT_DATA names the folder"
_SHAPE: Final = (3, 32, 32)
# Of red, green and blue over the 50,000 training images, as it is commonly given.
_MEAN: Final = np.array([0.4914, 0.4822, 0.4465], dtype=np.float32).reshape(3, 1, 1)
_DEVIATION: Final = np.array([0.2470, 0.2435, 0.2616], dtype=np.float32).reshape(3, 1, 1)
_SVHN: Final = ("train_32x32.mat", "test_32x32.mat")
_SVHN_FROM: Final = "take them from http://ufldl.stanford.edu/housenumbers; FEDCT_DATA names the folder"


def cifar10(config: RunConfig) -> FederatedDataset:
    """Images ``(n, 3, 32, 32)``, each color of mean 0 and variance 1, as in the paper. Raises DataError.

    Reads the binary version; the one for Python is pickles, which run code.
    """
    folder = cache.data_folder() / "cifar-10-batches-bin"
    *batches, last = cache.find("cifar10", _CIFAR, [folder], _CIFAR_FROM)
    train, test = _batches(batches), _batches([last])
    return split_over_silos(
        "cifar10", Schema(CLASSES), train, private=40_000, public=10_000, silos=5, config=config, test=test
    )


def _batches(paths: list[Path]) -> Examples:
    """Records of 3,073 bytes: the class, then 1,024 pixels each of red, green and blue."""
    length = 1 + int(np.prod(_SHAPE))
    for path in paths:
        if path.stat().st_size % length:
            raise DataError(f"{path} is damaged: its size is no multiple of {length} bytes; unpack the archive again")
    records = np.concatenate([np.fromfile(path, dtype=np.uint8).reshape(-1, length) for path in paths])
    X = scaled(records[:, 1:].reshape(-1, *_SHAPE))
    X -= _MEAN
    X /= _DEVIATION
    return Examples(X, records[:, 0].astype(LABEL_DTYPE))


def svhn(config: RunConfig) -> FederatedDataset:
    """Images ``(n, 3, 32, 32)`` with values in 0..1. Raises DataError if the files are not there or damaged."""
    train, test = map(_matlab, cache.find("svhn", _SVHN, [], _SVHN_FROM))
    digits = Schema(tuple(map(str, range(10))))
    return split_over_silos("svhn", digits, train, private=38_257, public=35_000, silos=5, config=config, test=test)


def _matlab(path: Path) -> Examples:
    """``X`` is ``(height, width, colors, n)``; in ``y``, ``(n, 1)``, the digit 0 is written as 10."""
    try:
        raw = loadmat(path, variable_names=["X", "y"])
        return Examples(scaled(raw["X"].transpose(3, 2, 0, 1)), (raw["y"].ravel() % 10).astype(LABEL_DTYPE))
    except Exception as error:  # scipy raises many types on damaged files
        raise DataError(f"{path} is damaged: download it again") from error
