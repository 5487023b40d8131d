"""How often the inspection finds something in tables with nothing wrong, and which planted faults it finds.

Eight public data sets are split at random into four silos of 30, 100 or 400 records, where a finding is a false alarm
but for the faults that these data sets do have. Split by hospital, clinic or another site, a finding names a
difference that is there, and is only counted. Faults that leave most columns as they are get planted in one silo,
split by site, or in the public set. A fault is found if a new finding names that table. Files are
those in ``FEDCT_DATA``.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import cache, partial
from typing import Final, NamedTuple

import numpy as np
import pandas as pd

from benchmarks.data import find
from benchmarks.harness import Column, Grid, Row, Settings, Table
from benchmarks.report import Runs
from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.from_tables import Tables
from fedct_flwr.datasets.inspection import CODES
from fedct_flwr.datasets.inspection.data_set import inspect_dataset
from fedct_flwr.datasets.inspection.inspect import inspect_tables
from fedct_flwr.simulation.silos import table_of

SIZES: Final = (30, 100, 400)
_SILOS: Final = 4
_MOST: Final = 12_000
_MOST_SITES: Final = 12
_FEWEST: Final = 30
_LABEL: Final = "label"


class Source(NamedTuple):
    """Files, the column that is predicted (from a number, if ``least`` is one), the sites' column, unused columns.

    ``site`` is empty where each file is a site. ``real`` are findings that are true of these tables.
    """

    files: tuple[str, ...]
    label: str
    site: str
    least: int = 0
    unused: tuple[str, ...] = ()
    real: tuple[str, ...] = ()


_HOSPITALS: Final = tuple(f"heart_disease/{name}.csv" for name in ("cleveland", "hungarian", "switzerland", "va"))
SOURCES: Final = {
    # A cholesterol and a blood pressure of 0.
    "heart": Source(_HOSPITALS, "num", "", 1, real=("missing-as-number", "far-number")),
    # A gain of 99999.
    "adult": Source(("adult.csv.gz",), "income", "workclass", unused=("split",), real=("missing-as-number",)),
    "mushroom": Source(("mushroom.csv.gz",), "class", "habitat"),
    # A fifth of the wines are there twice.
    "wine": Source(("wine_quality.csv.gz",), "quality", "type", 6, real=("shared-records", "repeated-records")),
    "chem97": Source(("chem97.csv.gz",), "score", "lea", 6, unused=("student", "school")),
    "covid": Source(("sites/covid_clinics.csv.gz",), "result", "site"),
    "glow": Source(("sites/glow500.csv.gz",), "fracture", "site"),
    "burn": Source(("sites/burn1000.csv.gz",), "death", "site"),
}


def _sound(by_site: bool, settings: Settings) -> dict[str, float]:
    """The share of the splits of all data sets in which there is each finding."""
    found, splits = Counter[str](), 0
    for source in SOURCES.values():
        frame, seed = _frame(source), settings["seed"]
        drawn = [_tables(*_by_site(frame, seed))] if by_site else _at_random(frame, seed, settings["sizes"])
        for tables in drawn:
            codes = {code for code, _ in _found(tables)}
            found.update(codes if by_site else codes - {*source.real})
            splits += 1
    return {code: found[code] / splits for code in CODES}


def _shifted(table: pd.DataFrame, column: str) -> pd.DataFrame:
    return table.assign(**{column: np.roll(table[column].to_numpy(), 1)})


def _sorted(table: pd.DataFrame, column: str) -> pd.DataFrame:
    return table.assign(**{column: table[column].sort_values().to_numpy()})


def _reversed(table: pd.DataFrame, column: str) -> pd.DataFrame:
    words = sorted(table[column].unique())
    return table.assign(**{column: table[column].map(dict(zip(words, reversed(words), strict=True)))})


def _exchanged(table: pd.DataFrame, column: str) -> pd.DataFrame:
    """The column with the next one of numbers."""
    numbers = _numbers(table)
    other = numbers[(numbers.index(column) + 1) % len(numbers)]
    return table.assign(**{column: table[other], other: table[column]})


def _in_another_unit(table: pd.DataFrame, column: str, factor: float = 10) -> pd.DataFrame:
    return table.assign(**{column: table[column] * factor})


def _numbers(table: pd.DataFrame) -> list[str]:
    return [name for name in table.select_dtypes("number") if name != _LABEL and table[name].nunique() > 5]


FAULTS: Final[dict[str, tuple[Callable[[pd.DataFrame, str], pd.DataFrame], str]]] = {
    "labels shifted by a row": (_shifted, "labels"),
    "labels sorted by themselves": (_sorted, "labels"),
    "labels reversed": (_reversed, "labels"),
    "a column shifted by a row": (_shifted, "a silo"),
    "a column sorted by itself": (_sorted, "a silo"),
    "two columns exchanged": (_exchanged, "a silo"),
    "a column ten times as large": (_in_another_unit, "a silo"),
    "a column a hundredth as large": (partial(_in_another_unit, factor=0.01), "a silo"),
    "a column of the public set ten times as large": (_in_another_unit, ""),
    "a column of the public set a hundredth as large": (partial(_in_another_unit, factor=0.01), ""),
}
"""What is done to a column: the labels, or a random one of numbers, in one silo or in the public set."""


def _planted(name: str, settings: Settings) -> dict[str, float]:
    """1 if the fault is found in a split by site, 0 if not; nothing where no column can have it."""
    spoil, where = FAULTS[settings["fault"]]
    rng = np.random.default_rng(settings["seed"])
    public, silos = _by_site(_frame(SOURCES[name]), settings["seed"])
    silo = str(rng.choice([*silos])) if where else ""
    table = silos[silo] if where else public
    columns = [_LABEL] if where == "labels" else _numbers(table)
    if not columns or (spoil is _exchanged and len(columns) < 2):
        return {}
    spoiled = spoil(table, str(rng.choice(columns)))
    after = _tables(public, {**silos, silo: spoiled}) if where else _tables(spoiled, silos)
    more = _found(after) - _found(_tables(public, silos))
    return {"found": any(each_silo == silo for _, each_silo in more)}


@cache
def _frame(source: Source) -> pd.DataFrame:
    """All records, with the columns ``label`` and ``site``."""
    paths = find("false-alarms", source.files)
    frame = pd.concat([pd.read_csv(path, na_values="?").assign(file=path.stem) for path in paths])
    label = frame[source.label]
    label = pd.Series(np.where(label >= source.least, "yes", "no"), frame.index) if source.least else label
    site = frame[source.site or "file"]
    unused = {source.label, source.site, "file", *source.unused} - {""}
    return frame.drop(columns=[*unused]).assign(**{_LABEL: label, "site": site})


def _at_random(frame: pd.DataFrame, seed: int, sizes: Sequence[int]) -> Iterator[Tables]:
    """A public set of a fifth or more, and four silos of each size as far as records suffice."""
    for size in sizes:
        rows = min(len(frame), _SILOS * size + max(100, size))
        public = max(60, rows - _SILOS * size) if rows > _SILOS * size else rows // 5
        sample = frame.drop(columns="site").sample(rows, random_state=seed)
        parts = np.array_split(np.arange(public, rows), _SILOS)
        yield _tables(sample[:public], {f"s{number}": sample.iloc[part] for number, part in enumerate(parts)})


def _by_site(frame: pd.DataFrame, seed: int) -> tuple[pd.DataFrame, dict[str, pd.DataFrame]]:
    """The twelve largest sites, and a fifth of their records without labels as the public set."""
    sample = frame.sample(min(len(frame), _MOST), random_state=seed)
    sizes = sample["site"].value_counts()
    sample = sample[sample["site"].isin(sizes.index[sizes >= _FEWEST][:_MOST_SITES])]
    public = max(60, len(sample) // 5)
    silos = {f"s-{site}".replace(" ", ""): own.drop(columns="site") for site, own in sample[public:].groupby("site")}
    return sample[:public].drop(columns="site"), {silo: own for silo, own in silos.items() if len(own) >= 20}


def _tables(public: pd.DataFrame, silos: dict[str, pd.DataFrame]) -> Tables:
    unlabeled = public.drop(columns=_LABEL).reset_index(drop=True)
    own = {silo: table_of(records.reset_index(drop=True), "a silo") for silo, records in silos.items()}
    return Tables(table_of(unlabeled, "the public set"), own)


def _found(tables: Tables) -> set[tuple[str, str]]:
    """The findings in these tables, each with its silo."""
    inspected = inspect_tables(tables.public, tables.silos, _LABEL)
    found = [*inspected.findings]
    if not inspected.refused:
        settings = {"study": "s", "data": "memory", "data-dir": tables.digest, "label-column": _LABEL}
        found += inspect_dataset(datasets.load(RunConfig.from_flower(settings))).findings
    return {(each.code, each.silo) for each in found}


def _of(names: Sequence[str]) -> Callable[[Runs], str]:
    def cell(runs: Runs) -> str:
        found = [value for name in names for value in runs.values.get(f"{name}: found", [])]
        return f"{sum(found):.0f} of {len(found)}" if found else "–"

    return cell


_RANDOM, _BY_SITE = "split at random", "split by site"
TABLES: Final = {
    "false-alarms": Table(
        "Findings in sound tables, and planted faults that are found",
        f"{' '.join((__doc__ or '').split())} Shares are of all splits.",
        [
            Row(_RANDOM, methods=[_RANDOM], seeds=12),
            Row(_BY_SITE, methods=[_BY_SITE], seeds=3),
            *(Row(fault, {"fault": fault}, [*SOURCES], seeds=6) for fault in FAULTS),
        ],
        {
            _RANDOM: partial(_sound, False),
            _BY_SITE: partial(_sound, True),
            **{name: partial(_planted, name) for name in SOURCES},
        },
        [
            *(Grid("finding", [Column(way, f"{way}: {{}}", ".1%")], [*CODES]) for way in (_RANDOM, _BY_SITE)),
            Grid(
                "planted fault",
                [
                    *(Column(name, f"{name}: found", _of([name])) for name in SOURCES),
                    Column("all", "burn: found", _of([*SOURCES])),
                ],
            ),
        ],
        12,
        settings={"sizes": SIZES},
        smoke={"sizes": SIZES[:1]},
        smoke_rows=[_BY_SITE, "labels reversed"],
    )
}
