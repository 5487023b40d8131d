"""Made records with censored times, whose risk is known."""

from collections.abc import Mapping

import numpy as np
import pandas as pd
from numpy.random import Generator
from numpy.typing import NDArray

from fedct_flwr.survival.measures import Times

WEIGHTS = np.array([1.0, -0.7, 0.4, 0.0])


def records(rng: Generator, size: int, *, censored: bool = True) -> tuple[NDArray[np.float64], Times]:
    """Columns ``(size, 4)`` and follow-up by an exponential hazard of their weighted sum, for half a year to two."""
    X = rng.normal(size=(size, len(WEIGHTS)))
    until = rng.exponential(np.exp(-X @ WEIGHTS))
    end = rng.uniform(0.5, 2.0, size) if censored else np.full(size, np.inf)
    return X, Times(np.minimum(until, end), until <= end)


def frame(rng: Generator, size: int) -> pd.DataFrame:
    """The same as a table with the columns ``days`` and ``died``."""
    X, times = records(rng, size)
    return pd.DataFrame(X, columns=list("abcd")).assign(days=times.time * 100, died=times.event.astype(int))


def federation(seed: int = 0, size: int = 60, silos: int = 4) -> tuple[Mapping[str, pd.DataFrame], pd.DataFrame]:
    """Tables of ``size`` records for each silo, and 300 public examples."""
    rng = np.random.default_rng(seed)
    tables = {f"silo-{number}": frame(rng, size) for number in range(silos)}
    return tables, frame(rng, 300).drop(columns=["days", "died"])
