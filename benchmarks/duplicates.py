"""How often a silo notices its own patients in a public set, by what a coordinator does to hide them."""

import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Final, NamedTuple

import numpy as np
from joblib import Parallel, delayed
from numpy.random import Generator
from numpy.typing import NDArray
from sklearn.datasets import load_breast_cancer, load_diabetes, load_digits

from benchmarks import report
from benchmarks.federation import Runs
from fedct_flwr import datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.hospital.duplicates import find_duplicates
from fedct_flwr.types import Features

SEEDS: Final = range(200, 300)
PATIENTS: Final = 10

_CLASSES: Final = ("no", "yes")
_WORDS: Final = 8
_AT_A_TIME: Final = 6
_Table = NDArray[np.float64]


class Split(NamedTuple):
    """One silo's records, an honest public set, and one of other people than the silo's."""

    records: Features
    public: Features
    shifted: Features
    schema: Schema


class Silo(NamedTuple):
    """What an attacker works with who has a hospital's records, as tables; the public set has none of them."""

    records: _Table
    public: _Table
    categorical: NDArray[np.bool_]


def run(seeds: int | None, fast: bool) -> None:
    """Detection rates of own patients in a public set, and false alarms, on six data sets."""
    start = time.perf_counter()
    runs: dict[str, Runs] = {}
    chosen = SEEDS[: 2 if fast else seeds]
    for name in DATA:
        jobs = (delayed(_seed)(name, seed) for seed in chosen)
        for measured in Parallel(n_jobs=_AT_A_TIME, return_as="generator")(jobs):
            for attack, alarm in measured:
                runs.setdefault(f"{name}: {attack}", Runs()).add(alarm=float(alarm))
    settings = {"first seed": chosen[0], "last seed": chosen[-1], "patients": PATIENTS}
    report.write("duplicates", _text(runs), runs, settings, time.perf_counter() - start)


def _seed(name: str, seed: int) -> list[tuple[str, bool]]:
    """Of all splits that a data set has for this seed: what was done, and whether there was an alarm."""
    return [
        alarm
        for number, split in enumerate(DATA[name](seed))
        for alarm in alarms(split, np.random.default_rng([seed, number]))
    ]


def _text(runs: dict[str, Runs]) -> str:
    rows = list(dict.fromkeys(key.partition(": ")[2] for key in runs))
    table = [[row, *(f"{runs[f'{name}: {row}'].mean('alarm'):.0%}" for name in DATA)] for row in rows]
    counts = ["comparisons", *(str(len(runs[f"{name}: {rows[0]}"].values["alarm"])) for name in DATA)]
    return (
        "# Own patients in the public set: how often the alarm is raised\n\n"
        f"{PATIENTS} public examples are a silo's own records, changed as the row says. The first four rows have no "
        "planted ones: their alarms are false, or true where the data have a record twice. Other people: the public "
        "set of the other hospitals, of other workplaces than private ones (Adult), of wines with little sulfur "
        "dioxide, of malignant tumors for benign, of other digits, of old patients for young.\n\n"
        + report.table(["", *DATA], [*table, counts])
        + "\nThe rule was chosen on seeds 0 to 9 of the same data, but for diabetes, which was looked at only here.\n"
    )


def alarms(split: Split, rng: Generator) -> Iterator[tuple[str, bool]]:
    """Of each honest public set, and of each that an attacker makes: its name, and whether there is an alarm."""
    records, public, shifted, schema = split
    for name, honest in (("the same people", public), ("other people", shifted)):
        found = find_duplicates(records, honest, schema)
        yield f"honest, {name}: exact", found.exact > 0
        yield f"honest, {name}: near ones alone", found.alarm and not found.exact
    table, others = (part.reshape(len(part), -1).astype(np.float64) for part in (records, public))
    own = {row.tobytes() for row in table}
    others = others[[row.tobytes() not in own for row in others]]
    silo = Silo(table, others, np.isin(np.arange(table.shape[1]), schema.categorical))
    for name, attack in ATTACKS.items():
        forged = attack(silo, rng)
        yield name, find_duplicates(records, forged.reshape(len(forged), *records.shape[1:]), schema).alarm


# --- what a coordinator may do


def _planted(silo: Silo, copies: _Table, rng: Generator) -> _Table:
    """The public set with these rows in the place of some."""
    forged = silo.public.copy()
    forged[rng.choice(len(forged), len(copies), replace=False)] = copies
    return forged


def _spread(silo: Silo) -> _Table:
    """Standard deviations of the records, 0 for a column without values."""
    there = ~np.isnan(silo.records)
    number = np.maximum(there.sum(axis=0), 1)
    center = np.where(there, silo.records, 0).sum(axis=0) / number
    spread: _Table = np.sqrt((np.where(there, silo.records - center, 0) ** 2).sum(axis=0) / number)
    return spread


def _patients(silo: Silo, rng: Generator, number: int = PATIENTS) -> _Table:
    return silo.records[rng.choice(len(silo.records), number, replace=False)]


def _noisy(silo: Silo, copies: _Table, noise: float, rng: Generator) -> _Table:
    """With noise in standard deviations; that share of the categories is drawn anew."""
    numbers = copies + noise * _spread(silo) * rng.normal(size=copies.shape)
    drawn = silo.records[rng.integers(len(silo.records), size=copies.shape), np.arange(copies.shape[1])]
    codes = np.where(rng.random(copies.shape) < noise, drawn, copies)
    return np.where(silo.categorical, codes, numbers)


def _near_copies(silo: Silo, rng: Generator, noise: float, patients: int = PATIENTS, words: int = 1) -> _Table:
    copies = np.repeat(_patients(silo, rng, patients), words, axis=0)
    return _planted(silo, _noisy(silo, copies, noise, rng), rng)


def _with_outlier(silo: Silo, rng: Generator, noise: float) -> _Table:
    """And one row of 10,000 standard deviations."""
    return np.concatenate([_near_copies(silo, rng, noise), 1e4 * _spread(silo)[None]])


def _inflated(silo: Silo, rng: Generator, noise: float) -> _Table:
    """All other rows have a million times as much in every number."""
    forged = np.where(silo.categorical, silo.public, 1e6 * silo.public)
    return _planted(silo._replace(public=forged), _noisy(silo, _patients(silo, rng), noise, rng), rng)


def _inflated_too(silo: Silo, rng: Generator) -> _Table:
    """Three columns of all rows, also the copies', are far from what they were."""
    forged = _planted(silo, _patients(silo, rng), rng)
    columns = rng.choice(forged.shape[1], 3, replace=False)
    forged[:, columns] = np.where(silo.categorical[columns], -1, 1e4 * (1 + np.abs(forged[:, columns])))
    return forged


def _rounded(silo: Silo, rng: Generator) -> _Table:
    """Numbers have two significant digits."""
    copies = _patients(silo, rng)
    digits = 1 - np.floor(np.log10(np.abs(copies), where=copies != 0, out=np.zeros_like(copies)))
    return _planted(silo, np.where(silo.categorical, copies, np.rint(copies * 10**digits) / 10**digits), rng)


def _deciles(silo: Silo, rng: Generator) -> _Table:
    """Each number is the middle of its tenth."""
    copies = _patients(silo, rng)
    # A column without values has no middles, and needs none.
    filled = np.where(np.isnan(silo.records).all(axis=0), 0, silo.records)
    middles = np.nanquantile(filled, np.arange(0.05, 1, 0.1), axis=0)
    nearest = np.abs(middles[:, None, :] - np.nan_to_num(copies)).argmin(axis=0)
    coarse = np.where(np.isnan(copies), np.nan, middles[nearest, np.arange(copies.shape[1])])
    return _planted(silo, np.where(silo.categorical, copies, coarse), rng)


def _emptied(silo: Silo, rng: Generator, share: float | None) -> _Table:
    """Each copy lacks three columns, or a share of all."""
    copies = _patients(silo, rng)
    number = 3 if share is None else int(share * copies.shape[1])
    for copy in copies:
        copy[rng.choice(len(copy), number, replace=False)] = np.nan
    return _planted(silo, copies, rng)


def _filled(silo: Silo, rng: Generator) -> _Table:
    """Where a patient lacks a value, that of another one; and one more is another's."""
    copies = _patients(silo, rng)
    drawn = silo.records[rng.integers(len(silo.records), size=copies.shape), np.arange(copies.shape[1])]
    copies = np.where(np.isnan(copies), drawn, copies)
    changed = rng.integers(copies.shape[1], size=len(copies))
    copies[np.arange(len(copies)), changed] = drawn[np.arange(len(copies)), changed]
    return _planted(silo, copies, rng)


def _diluted(silo: Silo, rng: Generator, noise: float) -> _Table:
    """Among ten times as many rows, made of values of different people."""
    size = (10 * len(silo.public), silo.public.shape[1])
    made_up = silo.public[rng.integers(len(silo.public), size=size), np.arange(size[1])]
    return np.concatenate([_near_copies(silo, rng, noise), made_up])


ATTACKS: Final[dict[str, Callable[[Silo, Generator], _Table]]] = {
    "exact copies": partial(_near_copies, noise=0),
    "exact, and an outlier of 10,000 sd": partial(_with_outlier, noise=0),
    "exact, all others inflated": partial(_inflated, noise=0),
    "noise .001 sd": partial(_near_copies, noise=1e-3),
    "noise .1 sd": partial(_near_copies, noise=0.1),
    "noise .1 sd, and an outlier": partial(_with_outlier, noise=0.1),
    "noise .1 sd, all others inflated": partial(_inflated, noise=0.1),
    "noise .1 sd, each in 8 versions": partial(_near_copies, noise=0.1, words=_WORDS),
    "noise .1 sd, among 10 times as many": partial(_diluted, noise=0.1),
    "noise .3 sd": partial(_near_copies, noise=0.3),
    "rounded to 2 digits": _rounded,
    "rounded to the decile": _deciles,
    "3 columns inflated everywhere": _inflated_too,
    "3 columns empty": partial(_emptied, share=None),
    "half of the columns empty": partial(_emptied, share=0.5),
    "gaps filled, one value another's": _filled,
    "one patient, exact": partial(_near_copies, noise=0, patients=1),
    "one patient, noise .001 sd": partial(_near_copies, noise=1e-3, patients=1),
    "one patient, noise .1 sd": partial(_near_copies, noise=0.1, patients=1),
}


# --- silos


def hospitals(seed: int) -> Iterator[Split]:
    """Each of four; the public set of the others is the shifted one."""
    data = datasets.load(RunConfig.from_flower({"study": "duplicates", "data": "heart-disease", "seed": seed}))
    for silo in data.silos:
        others = np.concatenate([other.test.X for other in data.silos if other.name != silo.name])
        yield Split(silo.private.X, data.public.X, others, data.schema)


@cache
def _pooled(name: str) -> tuple[Features, Schema]:
    data = datasets.load(RunConfig.from_flower({"study": "duplicates", "data": name}))
    return np.concatenate([data.public.X, *(silo.private.X for silo in data.silos)]), data.schema


def _split(
    seed: int, X: Features, schema: Schema, group: NDArray[np.bool_], records: int, public: int
) -> Iterator[Split]:
    """Records and public examples of the group at random, and public examples of all others."""
    rng = np.random.default_rng(seed)
    inside, outside = (rng.permutation(np.flatnonzero(rows)) for rows in (group, ~group))
    yield Split(X[inside[:records]], X[inside[records : records + public]], X[outside[:public]], schema)


def _adult(seed: int) -> Iterator[Split]:
    X, schema = _pooled("adult")
    column = next(i for i, column in enumerate(schema.columns) if column.name == "workclass")
    codes = X[:, column]
    return _split(seed, X, schema, codes == np.bincount(codes[~np.isnan(codes)].astype(int)).argmax(), 500, 500)


def _wine(seed: int) -> Iterator[Split]:
    X, schema = _pooled("wine-quality")
    # Mostly white ones.
    names = [column.name for column in schema.columns]
    return _split(seed, X, schema, X[:, names.index("total sulfur dioxide")] > 90, 400, 400)


def _breast_cancer(seed: int) -> Iterator[Split]:
    data = load_breast_cancer()
    schema = Schema.numeric(_CLASSES, tuple(map(str, data.feature_names)))
    return _split(seed, data.data, schema, data.target == 1, 150, 200)


def _digits(seed: int) -> Iterator[Split]:
    data = load_digits()
    return _split(seed, data.images, Schema(_CLASSES), data.target < 7, 400, 400)


def _diabetes(seed: int) -> Iterator[Split]:
    data = load_diabetes(scaled=False)
    schema = Schema.numeric(_CLASSES, tuple(map(str, data.feature_names)))
    return _split(seed, data.data, schema, data.data[:, 0] < 55, 130, 130)


DATA: Final[dict[str, Callable[[int], Iterator[Split]]]] = {
    "heart disease": hospitals,
    "breast cancer": _breast_cancer,
    "wine": _wine,
    "adult": _adult,
    "digits": _digits,
    "diabetes": _diabetes,
}
