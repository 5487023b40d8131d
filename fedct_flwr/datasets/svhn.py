"""SVHN: 99,289 color images of house numbers, 32 x 32, ten digits (Netzer et al., NIPS workshop, 2011).

Abourayya et al., arXiv:2310.05696, Table 11: 38,257 private images over 5 silos, 35,000 public, 26,032 test.
Never run here on the real data.
"""

from pathlib import Path
from typing import Final

from scipy.io import loadmat

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import cache
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.datasets.images import scaled
from fedct_flwr.datasets.pooled import split_over_silos
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.types import LABEL_DTYPE, DataError, Examples

_FILES: Final = ("train_32x32.mat", "test_32x32.mat")
_HOW: Final = "take them from http://ufldl.stanford.edu/housenumbers; FEDCT_DATA names the folder"


def load(config: RunConfig) -> FederatedDataset:
    """Images ``(n, 3, 32, 32)`` with values in 0..1. Raises DataError if the files are not there or damaged."""
    train, test = map(_read, cache.find("svhn", _FILES, [], _HOW))
    digits = Schema(tuple(map(str, range(10))))
    return split_over_silos("svhn", digits, train, private=38_257, public=35_000, silos=5, config=config, test=test)


def _read(path: Path) -> Examples:
    """``X`` is ``(height, width, colors, n)``; in ``y``, ``(n, 1)``, the digit 0 is written as 10."""
    try:
        raw = loadmat(path, variable_names=["X", "y"])
        return Examples(scaled(raw["X"].transpose(3, 2, 0, 1)), (raw["y"].ravel() % 10).astype(LABEL_DTYPE))
    except Exception as error:  # scipy raises many types on damaged files
        raise DataError(f"{path} is damaged: download it again") from error
