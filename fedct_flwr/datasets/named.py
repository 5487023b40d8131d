"""Data sets by name: records of four hospitals, and known tables and images, split over silos.

Sizes are those of Abourayya et al., arXiv:2310.05696, §5 and App. E.3, but for diabetes progression, whose are ours.
Covertype, CIFAR10 and SVHN were never run here on the real data.

- Heart disease at four real hospitals: did angiography find a diseased vessel (A. Janosi, W. Steinbrunn, M. Pfisterer,
  R. Detrano, UCI, 1989, https://doi.org/10.24432/C52P4X, CC BY 4.0; 920 patients x 13). Measurements differ widely
  between the hospitals: Budapest lacks ``ca`` for nearly everybody, Zurich all cholesterol values.
- Breast cancer (Wisconsin diagnostic, 569 x 30), of scikit-learn.
- Diabetes progression after a year, a number (442 x 10; B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, "Least angle
  regression", Annals of Statistics 2004), of scikit-learn.
- Covertype: which of seven kinds of forest covers a patch of 30 x 30 m in Colorado (J. Blackard, UCI, 1998,
  https://doi.org/10.24432/C50K5N, CC BY 4.0; 581,012 x 54), which scikit-learn fetches.
- Adult: does a person earn more than 50,000 dollars a year (B. Becker, R. Kohavi, UCI, 1996,
  https://doi.org/10.24432/C5XW20, CC BY 4.0; 48,842 x 14). All records are split at random and not as at UCI, as the
  paper's sizes tell.
- Mushroom: is a mushroom of the families Agaricus and Lepiota poisonous (UCI, 1981, https://doi.org/10.24432/C5959T, CC
  BY 4.0; 8,124 x 22 categories). The stalk's root is often missing; it stays missing.
- WineQuality: is a Portuguese vinho verde red or white (P. Cortez et al., UCI, 2009,
  https://doi.org/10.24432/C56S3T, CC BY 4.0; 5,320 x 11 after removing duplicates, as in the paper). The paper says
  that the label is the quality, but its accuracies (.92 to .98, Table 3) are the type's: with 136 records a tree
  predicts the type of .94 of the wines, the quality of .41. So the type is predicted, and the quality, no measurement,
  is left out. The test set has 1,084 records: the paper's copy of the table had 25 fewer.
- FashionMNIST: 70,000 images of clothes, 28 x 28, ten classes (Xiao, Rasul, Vollgraf, arXiv:1708.07747, MIT).
- CIFAR10: 60,000 color images, 32 x 32, ten classes (A. Krizhevsky, "Learning multiple layers of features", 2009).
- SVHN: 99,289 color images of house numbers, 32 x 32, ten digits (Netzer et al., NIPS workshop, 2011).
"""

import gzip
import json
from collections.abc import Collection, Sequence
from importlib import resources
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from scipy.io import loadmat

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, PublicSet, SiloData, hold_out, pool, scaled, shuffled
from fedct_flwr.datasets.partition import split_over_silos
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.datasets.tables import columns_of, encode
from fedct_flwr.files import data_folder
from fedct_flwr.seeding import generator
from fedct_flwr.text.printable import count
from fedct_flwr.types import LABEL_DTYPE, DataError, Examples

_HEALTH: Final = ("healthy", "diseased")
# A cholesterol or blood pressure of zero is impossible; the files write it where it was not measured.
_ZERO_IS_MISSING: Final = ("chol", "trestbps")


def heart_disease(config: RunConfig) -> FederatedDataset:
    """Each hospital gives ``public-fraction`` of its records, labels stripped, and holds ``test-fraction`` out."""
    raw = json.loads(resources.files("fedct_flwr.datasets").joinpath("heart_disease.json").read_text("utf-8"))
    names: list[str] = raw["columns"][:-1]
    unlabeled, silos = [], []
    for hospital, rows in raw["hospitals"].items():
        table = np.array(rows, dtype=np.float64)
        X, y = table[:, :-1], (table[:, -1] > 0).astype(LABEL_DTYPE)
        for name in _ZERO_IS_MISSING:
            column = X[:, names.index(name)]
            column[column == 0] = np.nan
        shares = (config.public_fraction, config.test_fraction)
        public, test, private = hold_out(Examples(X, y), shares, generator(config.seed, "split", hospital))
        unlabeled.append(public)
        silos.append(SiloData(hospital, private, test))
    public = shuffled(pool(unlabeled), generator(config.seed, "public order"))
    return FederatedDataset(
        name="heart-disease",
        # Chest pain, slope and the like are left as the ordinal codes of the files: one-hot columns did no better.
        schema=Schema.numeric(_HEALTH, tuple(names)),
        public=PublicSet(public.X),
        silos=tuple(silos),
        test=pool([silo.test for silo in silos]),
        truth=public.y,
    )


_FORESTS: Final = (
    "spruce or fir", "lodgepole pine", "ponderosa pine", "cottonwood or willow", "aspen", "Douglas fir", "krummholz",
)  # fmt: skip


# scikit-learn's data sets take seconds to import, and most who import ours do not want these.
def breast_cancer(config: RunConfig) -> FederatedDataset:
    """``num-silos`` silos (default 5), IID or by Dirichlet."""
    from sklearn.datasets import load_breast_cancer

    raw = load_breast_cancer()
    schema = Schema.numeric(tuple(map(str, raw.target_names)), tuple(map(str, raw.feature_names)))
    records = Examples(raw.data, raw.target.astype(LABEL_DTYPE))
    return split_over_silos("breast-cancer", schema, records, private=85, public=370, silos=5, config=config)


def diabetes(config: RunConfig) -> FederatedDataset:
    """``num-silos`` silos (default 5), IID."""
    from sklearn.datasets import load_diabetes

    raw = load_diabetes(scaled=False)
    schema = Schema((), tuple(Column(str(name)) for name in raw.feature_names), quantity="progression")
    records = Examples(raw.data, raw.target.astype(np.float64))
    return split_over_silos("diabetes", schema, records, private=150, public=180, silos=5, config=config)


def covertype(config: RunConfig) -> FederatedDataset:
    """Ten measurements and 44 indicators. Raises DataError if scikit-learn has not fetched it into the data folder.

    It is not fetched here: silos that are simulated at the same time would all do so. scikit-learn keeps what it has
    fetched and checked as pickles, so let only yourself write to the data folder.
    """
    from sklearn.datasets import fetch_covtype

    folder = data_folder()
    try:
        raw = fetch_covtype(data_home=folder, download_if_missing=False)
    except Exception as error:  # joblib raises many types on damaged files
        raise DataError(
            f"data set 'covertype' is not in {folder / 'covertype'}, or damaged: fetch it with "
            f"python -c \"from sklearn.datasets import fetch_covtype; fetch_covtype(data_home='{folder}')\""
        ) from error
    # All values are whole numbers below 2**24: half the memory holds them exactly.
    records = Examples(raw.data.astype(np.float32), (raw.target - 1).astype(LABEL_DTYPE))
    schema = Schema.numeric(_FORESTS, tuple(raw.feature_names))
    return split_over_silos("covertype", schema, records, private=414_810, public=50_000, silos=5, config=config)


_UCI: Final = "https://archive.ics.uci.edu/dataset"


def adult(config: RunConfig) -> FederatedDataset:
    """31,073 private records over 5 silos, 10,000 public, 7,769 test."""
    found = _read("adult", "adult.csv.gz", "2/adult", "income", ("<=50K", ">50K"), unused=["split"])
    return split_over_silos("adult", *found, private=31_073, public=10_000, silos=5, config=config)


def mushroom(config: RunConfig) -> FederatedDataset:
    """2,499 private records over 5 silos, 4,000 public, 1,625 test."""
    found = _read("mushroom", "mushroom.csv.gz", "73/mushroom", "class", ("edible", "poisonous"))
    return split_over_silos("mushroom", *found, private=2_499, public=4_000, silos=5, config=config)


def wine_quality(config: RunConfig) -> FederatedDataset:
    """136 private records over 5 silos, 4,100 public, 1,084 test."""
    file, uci, types = "wine_quality.csv.gz", "186/wine+quality", ("red", "white")
    found = _read("wine-quality", file, uci, "type", types, unused=["quality"], distinct=True)
    return split_over_silos("wine-quality", *found, private=136, public=4_100, silos=5, config=config)


def _read(
    name: str,
    file: str,
    uci: str,
    label: str,
    classes: tuple[str, ...],
    *,
    unused: Collection[str] = (),
    distinct: bool = False,
) -> tuple[Schema, Examples]:
    """The table ``file`` in the data folder or in ``NAME`` under it; ``distinct`` drops rows that repeat.

    Every column is a feature but ``label`` and the ``unused`` ones; text is categorical, empty fields are missing.
    ``uci`` is the data set's place in the UCI repository, for those who lack it. Raises DataError if the file is not
    there, damaged, or labels something else than ``classes``.
    """
    how = (
        f"write {_UCI}/{uci} there as a table with a header, labels {' and '.join(classes)} in column {label!r}, "
        "and empty fields for what is missing; FEDCT_DATA names the folder"
    )
    (path,) = find(name, [file], [data_folder()], how)
    table = read_table(path, text=[label])
    if label not in table.column_names:
        raise DataError(f"{path} has no column {label!r}: it has {', '.join(table.column_names)}")
    if distinct:
        # One thread keeps the order of the rows, on which the split depends.
        table = table.group_by(table.column_names, use_threads=False).aggregate([])
    y = pc.index_in(table.column(label), value_set=pa.array(classes, pa.string()))
    if y.null_count:
        raise DataError(f"{path} has {count(y.null_count, 'record')} with {label!r} not one of {', '.join(classes)}")
    features = table.drop_columns([name for name in table.column_names if name == label or name in unused])
    columns = columns_of(features, path)
    return Schema(classes, columns), Examples(encode(features, columns, path), np.asarray(y).astype(LABEL_DTYPE))


_CLOTHES: Final = (
    "T-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
_FASHION: Final = tuple(
    f"{part}-{kind}-ubyte.gz" for part in ("train", "t10k") for kind in ("images-idx3", "labels-idx1")
)
_DEBIAN: Final = Path("/usr/share/datasets/fashion-mnist")
_PIXELS: Final = tuple(f"pixel-{i}" for i in range(28 * 28))
_FASHION_AT: Final = (
    "install Debian's dataset-fashion-mnist, or take them from github.com/zalandoresearch/fashion-mnist"
)
_SUPERCLASSES: Final = ("top", "trouser", "dress", "shoe", "bag")
_SUPERCLASS_OF: Final = np.array([0, 1, 0, 2, 0, 3, 0, 3, 4, 3], dtype=LABEL_DTYPE)
"""Superclass of each class: four are tops, three are shoes."""


def fashion_mnist(config: RunConfig) -> FederatedDataset:
    """Rows of 784 pixels in 0..1. Raises DataError if the files are not there."""
    (train, test), schema = _clothes(), Schema.numeric(_CLOTHES, _PIXELS)
    return split_over_silos(
        "fashion-mnist", schema, train, private=10_000, public=50_000, silos=5, config=config, test=test
    )


def fashion_superclasses(config: RunConfig) -> FederatedDataset:
    """Kinds of clothes, where each silo has seen one kind of tops and one of shoes, and is tested on all of them.

    After Li, Wang, "FedMD: Heterogenous federated learning via model distillation", arXiv:1910.03581, §4, who have
    CIFAR-100's superclasses, 10 silos and 5,000 public examples. Raises like ``fashion_mnist``, and ConfigError.
    """
    known, schema = _clothes(), Schema.numeric(_SUPERCLASSES, _PIXELS)
    train, test = (Examples(part.X, _SUPERCLASS_OF[part.y]) for part in known)
    how = {"private": 3000, "public": 5000, "silos": 10}
    return split_over_silos(
        "fashion-superclasses", schema, train, **how, config=config, test=test, subclasses=known[0].y
    )


def _clothes() -> tuple[Examples, Examples]:
    """For training and for testing. Raises DataError if the files are not there."""
    paths = find("fashion-mnist", _FASHION, [_DEBIAN], _FASHION_AT)
    return Examples(_images(paths[0]), _labels(paths[1])), Examples(_images(paths[2]), _labels(paths[3]))


def _images(path: Path) -> NDArray[np.float32]:
    pixels = np.frombuffer(gzip.decompress(path.read_bytes()), dtype=np.uint8, offset=16)
    return scaled(pixels.reshape(-1, 28 * 28))


def _labels(path: Path) -> NDArray[np.int16]:
    return np.frombuffer(gzip.decompress(path.read_bytes()), dtype=np.uint8, offset=8).astype(LABEL_DTYPE)


_THINGS: Final = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
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
    folder = data_folder() / "cifar-10-batches-bin"
    *batches, last = find("cifar10", _CIFAR, [folder], _CIFAR_FROM)
    train, test = _batches(batches), _batches([last])
    return split_over_silos(
        "cifar10", Schema(_THINGS), train, private=40_000, public=10_000, silos=5, config=config, test=test
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
    train, test = map(_matlab, find("svhn", _SVHN, [], _SVHN_FROM))
    digits = Schema(tuple(map(str, range(10))))
    return split_over_silos("svhn", digits, train, private=38_257, public=35_000, silos=5, config=config, test=test)


def _matlab(path: Path) -> Examples:
    """``X`` is ``(height, width, colors, n)``; in ``y``, ``(n, 1)``, the digit 0 is written as 10."""
    try:
        raw = loadmat(path, variable_names=["X", "y"])
        return Examples(scaled(raw["X"].transpose(3, 2, 0, 1)), (raw["y"].ravel() % 10).astype(LABEL_DTYPE))
    except Exception as error:  # scipy raises many types on damaged files
        raise DataError(f"{path} is damaged: download it again") from error


def find(name: str, files: Sequence[str], elsewhere: Sequence[Path], how: str) -> list[Path]:
    """The files of a data set in ``NAME`` under the data folder or in a folder ``elsewhere``.

    Raises DataError that says where they are looked for and ``how`` to get them.
    """
    folders = [data_folder() / name, *elsewhere]
    for folder in folders:
        if all((folder / file).is_file() for file in files):
            return [folder / file for file in files]
    raise DataError(
        f"data set {name!r} is not on this machine: {', '.join(files)} in {' or '.join(map(str, folders))}; {how}"
    )
