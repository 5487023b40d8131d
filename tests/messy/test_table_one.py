"""Table 1 by site: its numbers, its marks, and faults at small hospitals that it shows."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.inspection.cells import Cells, Column
from fedct_flwr.datasets.inspection.finding import Redaction
from fedct_flwr.datasets.inspection.inspect import inspect_tables
from fedct_flwr.datasets.inspection.table_one import cells_of, largest, row_of
from fedct_flwr.datasets.inspections import inspect_folder

SEEDS = range(2)


def column(**tables: Any) -> Column:
    cells = {name: Cells.of(pa.chunked_array([pa.array(values)])) for name, values in tables.items()}
    return Column("x", cells.pop("public"), cells)


def test_the_smd_is_the_difference_of_means_by_the_pooled_deviation() -> None:
    a, b = np.arange(40.0), np.arange(40.0) * 2 + 30
    row = row_of(column(public=a, essen=b))
    expected = (b.mean() - a.mean()) / np.sqrt((a.var() + b.var()) / 2)
    (public, essen) = row.sites
    assert essen.smd == pytest.approx(expected)
    assert public.smd == pytest.approx(-expected)
    assert essen.numbers == tuple(np.quantile(b, (0.25, 0.5, 0.75)))
    assert (essen.what, essen.here, essen.there, essen.marked) == ("median", np.median(b), (19.5, 19.5), True)


def test_of_words_and_missing_cells_the_largest_smd_counts() -> None:
    public, essen = ["m"] * 20 + ["f"] * 20, ["m"] * 8 + ["f"] * 2 + [None] * 30
    (_, site) = row_of(column(public=public, essen=essen)).sites
    assert (site.what, site.here, site.missing) == ("missing", 0.75, 30)
    assert site.smd == pytest.approx(0.75 / np.sqrt(0.75 * 0.25 / 2))
    (_, site) = row_of(column(public=public, essen=["m"] * 32 + ["f"] * 8)).sites
    assert (site.what, site.here, site.there) == ("m", 0.8, (0.5, 0.5))
    assert site.smd == pytest.approx(0.3 / np.sqrt((0.16 + 0.25) / 2))
    assert site.shown == "m 80%, f 20%"


def test_tables_of_few_cells_are_shown_and_not_compared() -> None:
    row = row_of(column(public=np.arange(40.0), essen=[1000.0] * 19))
    assert [site.smd for site in row.sites] == [None, None]
    assert cells_of(row, ["", "essen"])[:2] == ["19.5 [9.75, 29.25]", "1000 [1000, 1000]"]
    for values in (["m", "f"] * 20, [0.0, 1.0] * 20, np.arange(40.0)):
        assert cells_of(row_of(column(public=values, essen=[None] * 30)), ["essen"])[0] == "! 100% missing"


def clinic(rng: np.random.Generator, records: int) -> pd.DataFrame:
    age, chol = rng.normal(62, 13, records).clip(20, 95).round(), rng.normal(5.4, 1.1, records).clip(2.5).round(1)
    smoker = rng.choice(["never", "former", "current"], records, p=[0.5, 0.3, 0.2])
    risk = (age - 62) / 13 + 0.6 * (chol - 5.4) + 0.9 * (smoker == "current") - 1.8
    died = np.where(rng.random(records) < 1 / (1 + np.exp(-risk)), "yes", "no")
    columns = {"age": age.astype(int), "chol": chol, "hb": rng.normal(13.8, 1.5, records).round(1), "smoker": smoker}
    return pd.DataFrame({**columns, "died": died})


FAULTS = {
    "inverted labels": ("died", "", lambda table: table.died.map({"yes": "no", "no": "yes"})),
    "ages in months": ("age", "other-scale", lambda table: table.age * 12),
    "mg/dl": ("chol", "other-scale", lambda table: (table.chol * 38.67).round()),
    "mostly missing": ("hb", "", lambda table: table.hb.where(np.arange(len(table)) % 3 == 0)),
    "blanks": ("smoker", "", lambda table: table.smoker.where(np.arange(len(table)) % 2 == 0, "  ")),
}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("what", FAULTS)
def test_faults_at_a_hospital_of_thirty_records_are_the_largest_difference(
    tmp_path: Path, what: str, seed: int
) -> None:
    name, code, change = FAULTS[what]
    rng = np.random.default_rng(seed)
    tables = {"public": clinic(rng, 120).drop(columns="died")} | {silo: clinic(rng, 30) for silo in "abcde"}
    tables["c"][name] = change(tables["c"])
    for silo, table in tables.items():
        table.to_csv(tmp_path / f"{silo}.csv", index=False)
    config = {"study": "s", "data": "files", "data-dir": str(tmp_path), "label-column": "died"}
    found = inspect_folder(RunConfig.from_flower(config)).inspection
    said = largest(found.table, Redaction())
    assert said.startswith(f"largest differences; check unit, coding and join: '{name}' at silo c: ")
    assert not code or [(each.code, each.column, each.silo) for each in found.findings] == [(code, name, "c")]


def test_a_real_silo_sees_no_value_and_nothing_of_few_records() -> None:
    rng = np.random.default_rng(0)
    public, own = pa.Table.from_pandas(clinic(rng, 100).drop(columns="died")), clinic(rng, 40)
    own["age"] *= 12
    say = Redaction(private=True)
    for records in (40, 19):
        found = inspect_tables(public, {"a": pa.Table.from_pandas(own[:records])}, "died", words=say)
        sentences = [largest(found.table, say), *(each.sentence for each in found.findings)]
        assert any("'age': median (SMD " in sentence for sentence in sentences) == (records == 40)
        assert not [word for word in ("never", "former", "7", "yes") if any(f" {word}" in each for each in sentences)]
