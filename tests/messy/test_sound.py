"""Tables with nothing wrong in them, of kinds in which chance looks like an error: nothing is said."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.random import Generator

from fedct_flwr.datasets.inspection import inspect_tables
from tests.messy.patients import LABEL

SEEDS = range(9)
SIZES = {"berlin": 1200, "essen": 500, "koeln": 250, "mainz": 120, "ulm": 60}

Columns = dict[str, Any]


def with_rare_flags(rng: Generator, count: int) -> Columns:
    """A clinic's letter: laboratory values that go together, and flags that hardly anybody has."""
    latent = rng.normal(size=count)
    values = {f"value-{at}": np.round(100 + 20 * latent + 20 * rng.normal(size=count)) for at in range(4)}
    shares = np.geomspace(0.004, 0.15, 12)
    flags = {f"flag-{at}": np.where(rng.random(count) < share, "t", "f") for at, share in enumerate(shares)}
    return {**values, **flags, LABEL: np.where(latent + rng.normal(size=count) > 0.5, "ill", "healthy")}


def with_visits(rng: Generator, count: int) -> Columns:
    """Visits of the same patients in a row, some of them once and some of them often."""
    patient = np.sort(rng.integers(0, count // 4, count))
    own = rng.normal(size=(patient[-1] + 1, 6))[patient]
    values = own + 0.5 * rng.normal(size=own.shape)
    columns: Columns = {f"value-{at}": np.round(50 + 8 * values[:, at], 1) for at in range(6)}
    columns["visit"] = [int((patient[:row] == which).sum()) + 1 for row, which in enumerate(patient)]
    columns |= {"sex": np.where(own[:, 0] > 0, "m", "w"), "age": np.round(60 + 8 * own[:, 1])}
    return {**columns, LABEL: np.where(own[:, 2] + values[:, 3] > 0.5, "ill", "healthy")}


def with_diagnoses(rng: Generator, count: int) -> Columns:
    """Diagnoses of which most patients have none: some patients have all cells in common, whatever their labels."""
    latent = rng.normal(size=count)
    shares = np.geomspace(0.002, 0.2, 20)
    flags = {f"diagnosis-{at}": (rng.random(count) < share).astype(int) for at, share in enumerate(shares)}
    columns = {**flags, "age": np.round(rng.normal(55, 12, count)).clip(18), "days": rng.geometric(0.2, count)}
    return {**columns, LABEL: np.where(latent + rng.normal(size=count) > 0.5, "ill", "healthy")}


KINDS: dict[str, Callable[[Generator, int], Columns]] = {
    "rare flags": with_rare_flags,
    "visits": with_visits,
    "diagnoses": with_diagnoses,
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_said_of_sound_tables(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    public = pa.table(KINDS[kind](rng, 600)).drop_columns([LABEL])
    tables = {silo: pa.table(KINDS[kind](rng, size)) for silo, size in SIZES.items()}
    assert not inspect_tables(public, tables, LABEL).findings
