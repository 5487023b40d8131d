"""Tables with nothing wrong in them, of kinds in which chance looks like an error: nothing is said."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from numpy.random import Generator

from fedct_flwr.datasets.inspection.finding import Redaction
from fedct_flwr.datasets.inspection.inspect import inspect_tables
from fedct_flwr.datasets.inspection.shared_records import shared_records
from fedct_flwr.datasets.tables import columns_of, encode
from tests.messy.patients import LABEL

SEEDS = range(2)
SIZES = {"berlin": 1200, "essen": 500, "koeln": 250, "mainz": 120, "ulm": 60}

Columns = dict[str, Any]


def with_scales(rng: Generator, count: int) -> Columns:
    """Two questionnaires with their totals, and columns that have nothing to do with them: more columns than tell."""
    mood, fear = rng.normal(size=(2, count))
    items = {f"mood-{at}": 0.9 * mood + 0.7 * rng.normal(size=count) for at in range(9)}
    items |= {f"fear-{at}": 0.6 * mood + 0.7 * fear + 0.7 * rng.normal(size=count) for at in range(7)}
    answers: Columns = {name: np.clip(np.floor(1 + value), 0, 3).astype(int) for name, value in items.items()}
    answers["total"] = np.sum([*answers.values()], axis=0)
    answers |= {"age": rng.integers(18, 80, count), "satisfied": rng.choice(["no", "rather", "yes"], count)}
    return {**answers, LABEL: np.where(mood + 0.5 * rng.normal(size=count) > 0.4, "ill", "healthy")}


def with_signs_of_one_word(rng: Generator, count: int) -> Columns:
    """Wards, blood groups and diagnoses as a zero or one for each word: records agree more often than columns tell."""
    found: Columns = {}
    latent = rng.normal(size=count)
    for name, shares in (("ward", (4, 3, 1, 1, 1)), ("blood", (43, 41, 11, 5)), ("group", (30, 20, 15, *(5,) * 7))):
        which = rng.choice(len(shares), count, p=np.array(shares) / sum(shares))
        found |= {f"{name}-{at}": (which == at).astype(int) for at in range(len(shares))}
        latent = latent + 0.3 * (which == 0)
    found |= {"age": np.round(58 + 11 * latent + 8 * rng.normal(size=count)).clip(18, 99).astype(int)}
    found["days"] = 1 + rng.poisson(np.exp(1.2 + 0.2 * latent))
    return {**found, LABEL: np.where(latent + 0.5 * rng.normal(size=count) > 1, "ill", "healthy")}


def with_costs(rng: Generator, count: int) -> Columns:
    """Costs, most of which are zero, and the others amounts with a long tail; and what is asked of few patients."""
    latent = rng.normal(size=count)
    shares = {"surgery": 0.7, "icu": 0.85, "imaging": 0.5, "drugs": 0.3}
    found: Columns = {
        name: np.where(rng.random(count) < share, 0, np.round(np.exp(5 + latent + rng.normal(size=count)), 2))
        for name, share in shares.items()
    }
    # No other patient is asked when it began.
    found["begun"] = np.where(rng.random(count) < 0.8, np.nan, np.round(rng.gamma(2, 8, count)))
    found |= {
        "total": np.sum([found[name] for name in shares], axis=0).round(2),
        "days": 1 + rng.geometric(0.25, count),
    }
    return {**found, LABEL: np.where(latent + 0.5 * rng.normal(size=count) > 0.5, "ill", "healthy")}


KINDS: dict[str, Callable[[Generator, int], Columns]] = {
    "scales": with_scales,
    "signs of one word": with_signs_of_one_word,
    "costs": with_costs,
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_is_said_of_sound_tables(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    public = pa.table(KINDS[kind](rng, 600)).drop_columns([LABEL])
    tables = {silo: pa.table(KINDS[kind](rng, size)) for silo, size in SIZES.items()}
    assert not inspect_tables(public, tables, LABEL).findings
    arrays = {name: encode(table.drop_columns([LABEL]), columns_of(public, ""), "") for name, table in tables.items()}
    arrays[""] = encode(public, columns_of(public, ""), "")
    assert not list(shared_records(arrays, {}, Redaction()))


@pytest.mark.parametrize("classes", [("False", "True"), ("0.0", "1.0")])
def test_a_real_silo_may_write_classes_as_its_study_does(classes: tuple[str, str]) -> None:
    """Though they are read alike however they are written: the study's own way is not to be another one."""
    rng = np.random.default_rng(0)
    public = pa.table(with_costs(rng, 300)).drop_columns([LABEL])
    table = with_costs(rng, 300)
    table[LABEL] = np.where(table[LABEL] == "ill", classes[1], classes[0])
    say = Redaction(private=True, settings="silo.toml")
    found = inspect_tables(public, {"essen": pa.table(table)}, LABEL, agreed=classes, words=say).findings
    assert not [each.message for each in found if each.silo]
