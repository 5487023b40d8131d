"""Why the DP linear labeler has the defaults that it has: chosen on data that it is not measured on.

Five silos learn digits, digits out of focus, tumors (breast cancer) and incomes (Adult); what counts is the accuracy of
their consensus. Silos of these data sets are small, so noise is set by records for each unit of it (records divided by
the noise multiplier), which is what decides how much noise matters: 500 of them are 2,000 records at epsilon 1.
"""

import itertools
import time
from collections.abc import Iterator
from statistics import fmean
from typing import Any, Final, NamedTuple

import numpy as np
from dp_accounting import get_epsilon_gaussian
from numpy.typing import NDArray
from scipy.ndimage import gaussian_filter, zoom
from sklearn.datasets import load_breast_cancer, load_digits

from benchmarks import report
from benchmarks.federation import Runs
from fedct_flwr import datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.consensus.counting import plurality, tally
from fedct_flwr.datasets.federated import pool
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.labelers.dp_linear import DpLinearLabeler
from fedct_flwr.labelers.labeler import Asked
from fedct_flwr.labelers.public_features import Kind, PublicFeatures
from fedct_flwr.privacy.randomness import simulated
from fedct_flwr.seeding import generator
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Examples

DELTA: Final = 1e-5
SILOS: Final = 5
KINDS: Final[tuple[Kind, ...]] = ("linear", "kernel")
STEPS: Final = (20, 40, 80)
RATES: Final = (4.0, 8.0, 16.0, 32.0)
RECORDS_PER_NOISE: Final = (250, 500, 1333, 3077)
"""2,000 records at epsilon .5, 1, 3 and 8, about."""
_SHOWN: Final = 10


class Data(NamedTuple):
    """Labeled examples, and how many of them each silo gets; the others are public."""

    examples: Examples
    schema: Schema
    records: int


def run(seeds: int | None, fast: bool) -> None:
    """Settings of the DP linear labeler, compared on other data than it is measured on; about 4 minutes.

    3 seeds; ``fast``: 2 seeds, without Adult.
    """
    start = time.perf_counter()
    found: dict[str, Runs] = {}
    for name, data in _data(fast):
        for seed in range(seeds or 3):
            for setting, level, reached in measure(data, seed):
                found.setdefault(setting, Runs()).add(**{f"{name}, {level}": reached})
    report.write(
        "dp-linear-settings", _text(found), found, {"silos": SILOS, "delta": DELTA}, time.perf_counter() - start
    )


def measure(data: Data, seed: int) -> Iterator[tuple[str, int, float]]:
    """Each setting with the records for a unit of noise and the accuracy of the consensus."""
    X, y = data.examples
    order = generator(seed, "linear settings").permutation(len(y))
    own, public = np.split(order, [SILOS * data.records])
    silos = [Examples(X[part], y[part]) for part in np.split(own, SILOS)]
    U, truth = X[public], y[public]
    nothing = np.full(len(U), ABSTAIN, dtype=LABEL_DTYPE)
    for kind in KINDS:
        features = PublicFeatures(U, data.schema, kind=kind, seed=seed)
        for level, steps, rate in itertools.product(RECORDS_PER_NOISE, STEPS, RATES):
            labeler = DpLinearLabeler(
                features,
                len(data.schema.classes),
                num_records=data.records,
                epsilon=get_epsilon_gaussian(data.records / level, DELTA),
                delta=DELTA,
                steps=steps,
                learning_rate=rate,
            )
            votes = []
            for number, private in enumerate(silos):
                labeler.reset()
                asked = Asked(private, U, nothing, nothing, np.arange(len(U)))
                votes.append(labeler.answer(asked, simulated(generator(seed, "noise", number))))
            counts = tally(votes, len(U), len(data.schema.classes))
            consensus = plurality(counts, nothing, generator(seed, "lots"))
            yield f"{kind}, {steps} steps, rate {rate:g}", level, float((consensus == truth).mean())


def _data(fast: bool) -> Iterator[tuple[str, Data]]:
    digits = load_digits()
    classes = tuple(map(str, digits.target_names))
    yield "digits", _examples(digits.data / 16, digits.target, Schema(classes), 200)
    blurred = np.stack([gaussian_filter(zoom(image, 3.5, order=1), 2.0) for image in digits.images / 16])
    yield "digits out of focus", _examples(blurred, digits.target, Schema(classes), 200)
    tumors = load_breast_cancer()
    columns = tuple(f"column {number}" for number in range(tumors.data.shape[1]))
    yield "tumors", _examples(tumors.data, tumors.target, Schema.numeric(("malignant", "benign"), columns), 60)
    if not fast:
        dataset = datasets.load(RunConfig.from_flower({"study": "benchmark", "data": "adult"}))
        X, y = pool([silo.private for silo in dataset.silos])
        some = generator(0, "linear settings").permutation(len(y))[:6000]
        yield "incomes", Data(Examples(X[some], y[some]), dataset.schema, 600)


def _examples(X: NDArray[Any], y: NDArray[Any], schema: Schema, records: int) -> Data:
    return Data(Examples(X.astype(np.float32), y.astype(LABEL_DTYPE)), schema, records)


def _text(found: dict[str, Runs]) -> str:
    means = {name: {key: fmean(values) for key, values in runs.values.items()} for name, runs in found.items()}
    keys = list(next(iter(means.values())))
    ranked = sorted(means, key=lambda name: -fmean(means[name].values()))
    rows = [
        [name, f"{fmean(means[name].values()):.4f}", *(f"{means[name][key]:.3f}" for key in keys)]
        for name in ranked[:_SHOWN]
    ]
    return (
        "# Settings of the DP linear labeler, on other data than it is measured on\n\n"
        + report.table(["Setting", "mean", *keys], rows)
        + f"\nAccuracy of the consensus of {SILOS} silos, by data set and records for each unit of the noise "
        f"multiplier; the best {_SHOWN} of {len(means)} settings.\n"
    )
