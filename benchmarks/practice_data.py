"""Ten small general practices that look for kidney disease: patients by a generator.

The recipe is that of FLIP-IT's baseline study (German general practices, synthetic patients): ten practices of 161 to
532 patients, 3,276 in all, five kinds of practice, kidney disease in 8% to 46% of their patients, one logistic risk of
age, six diagnoses and the years since three of them. **The generator is our own**, with these sizes and this shift, and
a column for the sex, which that study announces: its figures are of other patients.
"""

from typing import Final, NamedTuple

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from benchmarks.data import federated
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, SiloData, hold_out, pool
from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.types import LABEL_DTYPE, Examples, generator

NAME: Final = "practices"
SIZES: Final = (161, 334, 232, 411, 301, 198, 372, 268, 532, 467)
"""Patients of each practice; its kind is the next of ``KINDS``."""
TESTED: Final = 0.25
PUBLIC: Final = 400
DIAGNOSES: Final = ("hypertension", "diabetes", "heart-disease", "obesity", "heart-failure", "gout")
DATED: Final = DIAGNOSES[:3]
COLUMNS: Final = ("age", "woman", *DIAGNOSES, *(f"years-of-{name}" for name in DATED))


class Kind(NamedTuple):
    """A kind of practice: mean age of its patients, and log odds that it adds to each diagnosis."""

    age: float
    more: tuple[float, ...]


KINDS: Final = (
    Kind(38, (-0.4, -0.5, -0.5, 0.0, -0.5, 0.0)),  # young, in a city
    Kind(48, (0.0, 0.0, 0.0, 0.3, 0.0, 0.0)),  # families
    Kind(58, (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)),  # mixed
    Kind(60, (0.4, 1.4, 0.3, 0.8, 0.2, 0.6)),  # diabetes
    Kind(69, (0.5, 0.2, 0.8, 0.0, 0.8, 0.2)),  # old, in the country
)
_ODDS: Final = np.array([-0.7, -1.8, -2.0, -1.2, -2.8, -2.6])
_OLDER: Final = np.array([0.9, 0.5, 0.9, 0.1, 1.0, 0.5])
_MEN: Final = np.array([0.1, 0.3, 0.7, 0.0, 0.2, 0.9])
_RISKS: Final = np.array([0.9 / 15, 0.25, 0.5, 0.5, 0.3, 0.2, 0.9, 0.6, 0.03, 0.06, 0.02])
"""Log odds of kidney disease by column: the same everywhere."""
_RISK: Final = -5.9


def risk(X: NDArray[np.float64]) -> NDArray[np.float64]:
    """The probability of kidney disease ``(n,)``, which no model can beat."""
    return 1 / (1 + np.exp(-(_RISK + X @ _RISKS)))


def patients(place: int, number: int, rng: Generator) -> Examples:
    """Patients of the practice at this place: ``X`` ``(number, 11)`` as ``COLUMNS`` say, ``y`` 1 for kidney disease."""
    kind = KINDS[place % len(KINDS)]
    age = np.clip(rng.normal(kind.age, 15, number), 18, 95)
    woman = rng.random(number) < 0.53
    odds = _ODDS + kind.more + np.outer((age - 55) / 15, _OLDER) + np.outer(~woman, _MEN)
    diagnoses = rng.random(odds.shape) < 1 / (1 + np.exp(-odds))
    years = diagnoses[:, : len(DATED)] * np.minimum(rng.exponential(8, (number, len(DATED))), age[:, None] - 18)
    X = np.column_stack([age, woman, diagnoses, years])
    return Examples(X, (rng.random(number) < risk(X)).astype(LABEL_DTYPE))


def load(config: RunConfig) -> FederatedDataset:
    """The practices of a seed: a quarter of each one's patients are its test; 400 others, of all kinds, are public."""
    rng = generator(config.seed, NAME)
    silos = []
    for place, size in enumerate(SIZES):
        test, private = hold_out(patients(place, size, rng), (TESTED,), rng)
        silos.append(SiloData(f"practice-{place + 1}", private, test))
    public = pool([patients(place, PUBLIC // len(SIZES), rng) for place in range(len(SIZES))])
    schema = Schema(("healthy", "ill"), tuple(map(Column, COLUMNS)))
    return federated(NAME, schema, silos, rng.permutation(public.X))
