"""One table split over simulated silos, and data sets by name. Real silos come with their own data.

- Heart disease at four real hospitals: did angiography find a diseased vessel (A. Janosi, W. Steinbrunn, M. Pfisterer,
  R. Detrano, UCI, 1989, https://doi.org/10.24432/C52P4X, CC BY 4.0; 920 patients x 13). Measurements differ widely
  between the hospitals: Budapest lacks ``ca`` for nearly everybody, Zurich all cholesterol values.
- Breast cancer (Wisconsin diagnostic, 569 x 30), of scikit-learn; sizes of Abourayya et al., arXiv:2310.05696, §5 and
  App. E.3.
- Diabetes progression after a year, a number (442 x 10; B. Efron, T. Hastie, I. Johnstone, R. Tibshirani, "Least angle
  regression", Annals of Statistics 2004), of scikit-learn; sizes are ours.
"""

import json
from dataclasses import dataclass
from importlib import resources
from typing import Final

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, PublicSet, SiloData, hold_out, pool, shuffled
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.types import LABEL_DTYPE, DataError, Examples, HardLabels, generator

_ATTEMPTS: Final = 1000


@dataclass(frozen=True)
class IID:
    """One table at random over ``silos`` whose sizes differ by one at most."""

    silos: int

    def parts(self, y: HardLabels, rng: Generator) -> list[NDArray[np.intp]]:
        """Positions of each silo's records ``(n,)``. Raises DataError."""
        return iid(len(y), self.silos, rng)


@dataclass(frozen=True)
class Dirichlet:
    """One table over ``silos`` that differ in their classes, the more the smaller the ``concentration``."""

    concentration: float = 0.5
    silos: int = 10
    by_silo: bool = False
    """Whether silos have one size, and each draws its classes; else each class is divided over silos of any size."""

    def parts(self, y: HardLabels, rng: Generator) -> list[NDArray[np.intp]]:
        """Positions of each silo's records ``(n,)``. Raises DataError."""
        split = dirichlet_by_silo if self.by_silo else dirichlet
        return split(y, self.silos, self.concentration, rng)


def iid(num_examples: int, num_silos: int, rng: Generator) -> list[NDArray[np.intp]]:
    """Positions of each silo's examples: a random split into parts whose sizes differ by at most one.

    Raises DataError if there are fewer examples than silos.
    """
    if not 1 <= num_silos <= num_examples:
        raise DataError(f"cannot split {num_examples} examples over {num_silos} silos: use fewer silos")
    return [np.sort(part) for part in np.array_split(rng.permutation(num_examples), num_silos)]


def dirichlet(
    y: HardLabels, num_silos: int, concentration: float, rng: Generator, min_examples: int = 10
) -> list[NDArray[np.intp]]:
    """Positions of each silo's examples, every class divided by its own draw from Dirichlet(``concentration``).

    The smaller the concentration, the more the silos differ. Draws are repeated until every silo has
    ``min_examples`` (Li, He, Song, "Practical One-Shot Federated Learning for Cross-Silo Setting", IJCAI 2021, §5).

    Raises DataError if no such split is found.
    """
    if concentration <= 0:
        raise DataError(f"the Dirichlet concentration must be positive, not {concentration}")
    by_class = [np.flatnonzero(y == c) for c in np.unique(y)]
    if num_silos >= 1 and num_silos * min_examples <= len(y):
        for _ in range(_ATTEMPTS):
            parts: list[list[NDArray[np.intp]]] = [[] for _ in range(num_silos)]
            for members in by_class:
                shares = rng.dirichlet(np.full(num_silos, concentration))
                cuts = np.rint(np.cumsum(shares)[:-1] * len(members)).astype(np.intp)
                for part, piece in zip(parts, np.split(rng.permutation(members), cuts), strict=True):
                    part.append(piece)
            if min(sum(map(len, part)) for part in parts) >= min_examples:
                return [np.sort(np.concatenate(part)) for part in parts]
    raise DataError(
        f"found no Dirichlet({concentration}) split of {len(y)} examples that leaves each of {num_silos} silos "
        f"{min_examples}: use fewer silos or a larger concentration"
    )


def dirichlet_by_silo(y: HardLabels, num_silos: int, concentration: float, rng: Generator) -> list[NDArray[np.intp]]:
    """Positions of each silo's examples: all have as many, and each draws its shares of the classes by itself.

    Sizes differ by at most one. A silo's shares are drawn from Dirichlet(``concentration``); where a class is used up,
    the silo's other classes make up for it, and at last whatever is left. With a small concentration each silo has a
    class or two, where ``dirichlet`` leaves a few silos with most examples (Hsu, Qi, Brown, "Measuring the effects of
    non-identical data distribution for federated visual classification", arXiv:1909.06335, §2).

    Raises DataError if there are fewer examples than silos.
    """
    if concentration <= 0:
        raise DataError(f"the Dirichlet concentration must be positive, not {concentration}")
    sizes = [len(part) for part in iid(len(y), num_silos, rng)]
    left = [rng.permutation(np.flatnonzero(y == c)) for c in np.unique(y)]
    parts = []
    for size in sizes:
        shares, mine, missing = rng.dirichlet(np.full(len(left), concentration)), [], size
        while missing:
            there = np.array([len(members) for members in left])
            open_to = np.where(there > 0, shares, 0.0)
            wanted = open_to if open_to.sum() > 0 else there.astype(np.float64)
            taken = np.minimum(rng.multinomial(missing, wanted / wanted.sum()), there)
            mine += [members[:count] for members, count in zip(left, taken, strict=True)]
            left = [members[count:] for members, count in zip(left, taken, strict=True)]
            missing -= int(taken.sum())
        parts.append(np.sort(np.concatenate(mine)))
    return parts


def split_over_silos(
    name: str,
    schema: Schema,
    records: Examples,
    *,
    private: int,
    public: int,
    silos: int,
    config: RunConfig,
    test: Examples | None = None,
) -> FederatedDataset:
    """``private`` records go to the silos, ``public`` ones lose their labels, the rest is for testing unless given.

    The sizes and the number of ``silos`` are the paper's; ``private-size``, ``public-size`` and ``num-silos`` of the
    run config take precedence. Silos are split IID or by Dirichlet; all share one test set, as in the paper.
    Raises DataError if there are not enough records, ConfigError for a split that a ``schema`` without classes does
    not allow.
    """
    schema.outcome.check_settings(config, "partition")
    private, public = config.private_size or private, config.public_size or public
    wanted = private + public + (test is None)
    if wanted > records.size:
        raise DataError(
            f"{name!r} has {records.size} records to split but private-size {private} and public-size {public} "
            f"need {wanted}: lower one of them"
        )
    order = generator(config.seed, "split").permutation(records.size)
    own, unlabeled, rest = np.split(order, [private, private + public])
    rng, num_silos = generator(config.seed, "partition"), config.num_silos or silos
    if config.partition == "iid":
        parts = iid(private, num_silos, rng)
    elif config.partition == "dirichlet-by-silo":
        parts = dirichlet_by_silo(records.y[own], num_silos, config.dirichlet_concentration, rng)
    else:
        enough = min(10, private // num_silos // 3)
        parts = dirichlet(records.y[own], num_silos, config.dirichlet_concentration, rng, enough)
    X, y = records
    nothing = Examples(X[:0], y[:0])
    return FederatedDataset(
        name=name,
        schema=schema,
        public=PublicSet(X[unlabeled]),
        silos=tuple(
            SiloData(f"silo-{number}", Examples(X[own[part]], y[own[part]]), nothing)
            for number, part in enumerate(parts, start=1)
        ),
        test=test or Examples(X[rest], y[rest]),
        truth=y[unlabeled],
    )


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
