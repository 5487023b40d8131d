"""Table 1 by site: its numbers, its marks, and faults at small hospitals that it shows."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets import load
from fedct_flwr.datasets.inspection import Redaction
from fedct_flwr.datasets.inspection.cells import Cells, Inspected
from fedct_flwr.datasets.inspection.data_set import inspect_dataset, shared_records
from fedct_flwr.datasets.inspection.inspect import inspect_tables
from fedct_flwr.datasets.inspection.table_one import cells_of, largest, row_of
from fedct_flwr.datasets.inspections import inspect_folder
from fedct_flwr.simulation.silos import data_of

SEEDS = range(2)


def column(**tables: Any) -> Inspected:
    cells = {name: Cells.of(pa.chunked_array([pa.array(values)])) for name, values in tables.items()}
    return Inspected("x", cells.pop("public"), cells)


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
    row = row_of(column(public=np.arange(40.0), essen=[241234.0] * 19))
    assert [site.smd for site in row.sites] == [None, None]
    assert cells_of(row, ["", "essen"])[:2] == ["19.5 [9.75, 29.25]", "241,234 [241,234, 241,234]"]
    for values in (["m", "f"] * 20, [0.0, 1.0] * 20, np.arange(40.0)):
        assert cells_of(row_of(column(public=values, essen=[None] * 30)), ["essen"])[0] == "! 100% missing"


@pytest.mark.parametrize("factor", [0.001, 0.01, 100, 1000])
@pytest.mark.parametrize("records", [60, 200])
def test_another_unit_of_a_skewed_column_is_marked_and_sound_tables_are_not(records: int, factor: float) -> None:
    rng = np.random.default_rng(0)
    sound = {name: rng.lognormal(3, 1.4, records) for name in ("public", "essen", "ulm")}
    assert not any(site.marked for site in row_of(column(**sound)).sites)
    for silo, own in sound.items():
        # Missing cells have a larger SMD than the numbers.
        for spoiled in (own * factor, np.where(np.arange(records) % 2, own * factor, None)):
            row = row_of(column(**{**sound, silo: spoiled}))
            marked = [(site.silo or "public", site.what) for site in row.sites if site.marked]
            assert marked == [(silo, "median")]


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


def test_a_test_table_in_another_unit_is_said_but_not_one_like_its_own_silo(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    tables = {name: clinic(rng, 40).assign(icu=(rng.random(40) < 0.2) * 1) for name in ("public", *"abcd")}
    tables |= {f"{silo}.test": clinic(rng, 30).assign(icu=(rng.random(30) < 0.2) * 1) for silo in "abcd"}
    tables["d.test"] = tables["d.test"][:19]
    for name in ("a.test", "c.test", "d.test"):
        tables[name] = tables[name].assign(age=tables[name].age * 12)
    # Most patients of silo b were in intensive care, and all that it is tested with.
    tables["b"]["icu"], tables["b.test"]["icu"] = (np.arange(40) > 3) * 1, 1
    tables["public"] = tables["public"].drop(columns="died")
    for name, table in tables.items():
        table.to_csv(tmp_path / f"{name}.csv", index=False)
    config = {"study": "s", "data": "files", "data-dir": str(tmp_path), "label-column": "died"}
    found = inspect_folder(RunConfig.from_flower(config)).inspection
    said = {(each.column, each.silo) for each in found.findings if each.code == "other-scale"}
    assert said == {("icu", "b"), ("age", "a.test"), ("age", "c.test")}
    assert found.table.silos == ["", *"abcd"]


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


# --- whole records that stand twice


Tables = dict[str, pd.DataFrame]


def tables(seed: int) -> Tables:
    rng = np.random.default_rng(seed)
    return {silo: clinic(rng, int(rng.integers(30, 100))) for silo in "abcd"} | {
        "public": clinic(rng, 150).drop(columns="died")
    }


def shuffled(table: pd.DataFrame) -> pd.DataFrame:
    return table.sample(frac=1, random_state=0).reset_index(drop=True)


def numbered(table: pd.DataFrame, first: int) -> pd.DataFrame:
    return table.assign(pid=np.arange(first, first + len(table)))


def copied(given: Tables) -> None:
    given["b"] = shuffled(given["a"])


def half_copied(given: Tables) -> None:
    given["b"] = shuffled(pd.concat([given["b"][:20], given["a"][:15]]))


def renamed(given: Tables) -> None:
    copied(given)
    for number, name in enumerate(given):
        # In no order: it would be refused.
        given[name] = shuffled(numbered(given[name], 1000 * number))


def in_public(given: Tables) -> None:
    given["public"] = shuffled(pd.concat([given["public"], given["b"].drop(columns="died")]))


def twice(given: Tables) -> None:
    given["b"], given["c"] = shuffled(given["a"]), shuffled(given["a"])


COPIES: dict[str, tuple[Callable[[Tables], None], set[str]]] = {
    "a silo, shuffled": (copied, {"b"}),
    "half of a silo": (half_copied, {"b"}),
    "a silo with other identifiers": (renamed, {"b"}),
    "a silo in public": (in_public, {"b"}),
    "a silo at two others": (twice, {"b", "c"}),
}


def found(given: Tables, **settings: object) -> list[tuple[str, str]]:
    silos = {name: table for name, table in given.items() if name != "public"}
    data = data_of(silos, given["public"], "died")
    return [(each.code, each.silo) for each in inspect_dataset(load(RunConfig.from_flower(data.settings))).findings]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("what", COPIES)
def test_a_copy_is_said(what: str, seed: int) -> None:
    copy, silos = COPIES[what]
    given = tables(seed)
    copy(given)
    assert {silo for code, silo in found(given) if code == "shared-records"} == silos


@pytest.mark.parametrize("seed", range(2))
def test_nothing_is_said_of_other_patients(seed: int) -> None:
    assert "shared-records" not in {code for code, _ in found(tables(seed))}


def test_a_test_part_that_is_trained_on_is_said() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 200, 4))
    said = [each.message for each in shared_records({"": a[:9], "a": a[50:], "b": b}, {"a": a[40:80]}, Redaction())]
    assert said == ["30 records of the test part of silo a equal records that it trains on, so its scores are too good"]


@pytest.mark.parametrize("factor", [0.001, 0.01, 0.1, 1000])
def test_another_unit_makes_no_copies_of_other_patients_and_hides_none(factor: float) -> None:
    rng = np.random.default_rng(0)
    ages, grades, amounts = rng.integers(30, 90, 480), rng.integers(4, size=480), rng.lognormal(3, 1.4, 480).round(1)
    silos = dict(zip("abc", np.stack([ages, grades, amounts], axis=1).reshape(3, 160, 3), strict=True))
    silos["c"] = (silos["c"] * (1, 1, factor)).round(4)
    tests = {name: X[:40] for name, X in silos.items()}
    kept = {name: X[40:] for name, X in silos.items()}
    assert not [*shared_records(kept, tests, Redaction())]
    copied = {**kept, "c": np.concatenate([kept["c"], tests["c"] * (1, 1, 1.00001)])}
    assert [each.silo for each in shared_records(copied, tests, Redaction())] == ["c"]


def test_repeated_records_are_said_where_others_do_not_repeat() -> None:
    rng = np.random.default_rng(0)
    a, b = rng.normal(size=(2, 100, 3))
    (only,) = shared_records({"": b[50:], "a": np.concatenate([a, a[:7]]), "b": b[:50]}, {}, Redaction())
    assert (only.code, only.silo) == ("repeated-records", "a")
    assert only.message.startswith("7 records")


@pytest.mark.parametrize("seed", range(2))
def test_few_values_repeat_by_chance_and_are_no_copies(seed: int) -> None:
    rng = np.random.default_rng(seed)
    silos = {name: rng.integers(0, 2, size=(int(rng.integers(30, 300)), 5)).astype(float) for name in ["", *"abc"]}
    tests = {name: rng.integers(0, 2, size=(40, 5)).astype(float) for name in "abc"}
    assert not list(shared_records(silos, tests, Redaction(), tuple(range(5))))
