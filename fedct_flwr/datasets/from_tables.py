"""Tables as a federation, wherever they come from: one of the public set, and one of each silo with a label column.

Tables in memory, for ``simulate()``: no copy of a record is written for a run in this process. The run config has no
place for tables: it holds their digest, by which they are found here. Other processes of this machine find them in
files, in a folder that the environment names.
"""

import contextlib
import hashlib
import io
import os
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Final, NamedTuple
from weakref import WeakValueDictionary

import numpy as np
import pyarrow as pa
import pyarrow.parquet

from fedct_flwr import datasets, survival
from fedct_flwr.config.learner import READS_TEXT
from fedct_flwr.config.run import MEMORY, RunConfig
from fedct_flwr.config.tables import PLAIN, TableSettings
from fedct_flwr.datasets.federated import (
    FederatedDataset,
    PublicSet,
    SiloData,
    column_of_groups,
    numbered,
    pool,
    split_silo,
)
from fedct_flwr.datasets.inspection import Redaction, refuse
from fedct_flwr.datasets.inspection.cells import TESTED, Cells
from fedct_flwr.datasets.inspection.inspect import inspect_tables
from fedct_flwr.datasets.inspection.table_one import Inspection
from fedct_flwr.datasets.schema import Column, FollowUp, Schema, as_labels
from fedct_flwr.datasets.tables import (
    all_classes,
    class_names,
    columns_of,
    encode,
    encode_labels,
    held_alike,
    no_column,
    numbers,
    text_columns,
    with_signed_times,
)
from fedct_flwr.text.printable import count, fault, formula_fault, listed, quoted
from fedct_flwr.types import Answers, ConfigError, DataError, Examples, Groups, SiloName, generator


class Source(NamedTuple):
    """One table. ``where`` is how errors name it; ``read`` gets the columns that are text whatever they look like.

    ``tables`` are the settings that ``read`` goes by.
    """

    where: object
    read: Callable[[Collection[str]], pa.Table]
    tables: TableSettings = PLAIN


def stand_in(silos: Mapping[SiloName, Source], config: RunConfig) -> Source:
    """A table with the columns' kinds, until a public set is drawn: from the dictionary, or the silos' tables.

    Each column of the silos' tables is shuffled on its own: no record is in it. Raises ConfigError.
    """
    if config.draw_dictionary:
        dictionary = datasets.Dictionary.of_setting(config.draw_dictionary)
        return Source("the data dictionary", lambda text: dictionary.example())

    def read(text: Collection[str]) -> pa.Table:
        tables = [source.read([*text, config.label_column]) for source in silos.values()]
        whole = pa.concat_tables(tables, promote_options="permissive")
        rng = generator(0, "stand-in")
        names = [name for name in whole.column_names if name != config.label_column]
        return pa.table({name: whole.column(name).take(rng.permutation(whole.num_rows)) for name in names})

    return Source("the silos' tables together", read, next(iter(silos.values())).tables)


_NO_TESTS: Final[Mapping[SiloName, Source]] = MappingProxyType({})


@dataclass(frozen=True)
class _Labeled:
    """A table with labels, read: of a silo's own records, or of those that it is ``tested`` with."""

    silo: SiloName
    source: Source
    table: pa.Table
    tested: bool

    @property
    def name(self) -> str:
        return f"{self.silo}{TESTED}" if self.tested else self.silo


def federation(
    name: str,
    where: object,
    public: Source | None,
    silos: Mapping[SiloName, Source],
    config: RunConfig,
    *,
    leave_out: str,
    tests: Mapping[SiloName, Source] = _NO_TESTS,
    notes: tuple[str, ...] = (),
) -> FederatedDataset:
    """The data set ``name`` of these tables, whose columns are what the public table says.

    ``label-column`` holds classes, or numbers or times where ``outcome`` says so; in the public table it is not used,
    no more than ``event-column``. Each silo holds ``test-fraction`` of its records out, unless ``tests`` has a table of
    its own for it. ``group-column``, or the group that the public table's settings name, says which records belong
    together; it is no feature. Columns in ``text-columns``, or in these settings' ``text``, stay text.
    ``where`` all tables are and how to ``leave_out`` one are for errors, ``notes`` are the data set's.

    Raises ConfigError for a label that is the group or text, or a name in ``accept`` that no finding has; DataError
    that names the table and the columns concerned, also for what the inspection refuses and ``accept`` does not name.
    """
    given, public = public is not None, public or stand_in(silos, config)
    label, group = config.label_column, config.group_column or public.tables.group
    if group and group == label:
        raise ConfigError(f"column {label!r} cannot be both the label and the group: name another column as group")
    texts = tuple(dict.fromkeys([*config.text_columns, *public.tables.text]))
    if label in texts:
        raise ConfigError(f"column {label!r} cannot be both the label and text: name other columns as text")
    table = public.read(texts)
    event = config.event_column
    no_features = {label, group, event} - {""}
    unlabeled = table.drop_columns([column for column in table.column_names if column in no_features])
    texts = texts or _taken_as_text(unlabeled, config)
    if unlabeled.num_rows == 0 or not unlabeled.column_names:
        raise DataError(f"{public.where} is empty: it needs at least one record and one feature")
    spelled = filter(None, (label if config.outcome == "class" else "", group))
    text = [*text_columns(unlabeled), *texts, *spelled]
    parts = [
        _Labeled(silo, source, source.read(text), tested)
        for of, tested in ((silos, False), (tests, True))
        for silo, source in of.items()
    ]
    for part in parts:
        if label not in part.table.column_names:
            raise no_column(part.source.where, label, part.table.column_names)
        if part.table.num_rows == 0:
            remedy = "take it away" if part.tested else leave_out
            raise DataError(f"{part.source.where} has no records: add records or {remedy}")
    moved = _moved(parts, unlabeled.column_names, (label, event))
    of_public = []
    if given and group in table.column_names:
        # A blank column is no fault here: only silos need groups.
        with contextlib.suppress(DataError):
            of_public.append(column_of_groups(table, group, public.where))
    groups, public_groups = _groups(parts, group, of_public)
    if event:
        signed = (with_signed_times(part.table, label, event, part.source.where, part.source.tables) for part in parts)
        parts = [replace(part, table=table) for part, table in zip(parts, signed, strict=True)]
        for part in parts:
            if not part.tested:
                survival.check_can_rank(survival.times_of(np.asarray(part.table.column(label))), part.source.where)
    parts = [
        replace(part, table=part.table.drop_columns([group])) if group and group in part.table.column_names else part
        for part in parts
    ]
    settings = public.tables.model_copy(update={"text": texts, "group": group})
    inspected = _inspected(public, table, unlabeled.column_names, parts, settings, config)
    del table
    columns = held_alike(columns_of(unlabeled, public.where, texts), [part.table for part in parts])
    schema, labels = _labels(parts, columns, config, where)
    examples = PublicSet(encode(unlabeled, columns, public.where))
    del unlabeled
    found: dict[SiloName, SiloData] = {}
    # A table goes when its records are numbers: a million of them are there once, not twice.
    for y, of in zip(labels, groups, strict=True):
        part = parts.pop(0)
        silo = part.silo
        records = Examples(encode(part.table.drop_columns([label]), columns, part.source.where), y)
        rng = generator(config.seed, "split", silo)
        if part.tested:
            found[silo] = replace(found[silo], test=records, test_groups=of)
        elif silo in tests:
            found[silo] = SiloData(silo, records, records, of, of)
        else:
            found[silo] = split_silo(silo, records, of, config.test_fraction, rng)
    del part, records
    return FederatedDataset(
        name=name,
        schema=schema,
        public=examples,
        silos=tuple(found.values()),
        test=pool([each.test for each in found.values()]),
        notes=notes,
        findings=tuple(inspected.suspicious),
        public_groups=public_groups,
        table_one=inspected.table,
        moved=moved,
    )


def _moved(parts: Sequence[_Labeled], features: Sequence[str], outcome: Collection[str]) -> str:
    """The first position at which a silo's own table has another column than the public table; empty for none.

    A group is no feature, and moves all columns after it.
    """
    for part in parts:
        own = [name for name in part.table.column_names if name not in outcome]
        for position, (name, other) in enumerate(zip(features, own, strict=False)):
            if name != other and not part.tested:
                return f"position {position} there is {quoted(name)}, but {quoted(other)} in {part.source.where}"
    return ""


def _taken_as_text(table: pa.Table, config: RunConfig) -> tuple[str, ...]:
    """The one column of sentences, where all learners read texts."""
    found = [name for name in text_columns(table) if Cells.of(table.column(name)).sentences]
    return tuple(found) if len(found) == 1 and {*config.learner} <= READS_TEXT else ()


_INSPECTED: Final[dict[tuple[object, ...], Inspection]] = {}
_KEPT: Final = 8
"""Inspections of tables in memory that are kept: some kilobytes for each column."""


def _inspected(
    public: Source,
    table: pa.Table,
    features: Sequence[str],
    parts: Sequence[_Labeled],
    settings: TableSettings,
    config: RunConfig,
) -> Inspection:
    """Inspect all tables. Raises DataError for a refused finding, also in the silos' test tables."""
    if not config.inspect:
        return Inspection()
    label = config.label_column
    theirs = {label, *features}
    if apart := next((part for part in parts if {*part.table.column_names} != theirs), None):
        # Cells are compared only once the columns are the same.
        columns = columns_of(table.select(features), public.where, settings.text)
        encode(apart.table.drop_columns([label]), columns, apart.source.where)
    # Tables in memory go by their digest: who trains on the same ones again does not wait for the same findings.
    key = (config.data_dir, label, config.event_column, config.outcome, settings.model_dump_json(), config.accept)
    found = _INSPECTED.get(key) if config.data == MEMORY else None
    if found is None:
        found = inspect_tables(
            table,
            {part.name: part.table for part in parts},
            label,
            number=config.outcome != "class",
            event=config.event_column,
            settings=settings,
            accept=config.accept,
            words=Redaction(
                settings=public.tables.place,
                files={"": public.tables.places} | {part.name: part.source.tables.places for part in parts},
            ),
        )
    if config.data == MEMORY:
        _INSPECTED[key] = found
        while len(_INSPECTED) > _KEPT:
            del _INSPECTED[next(iter(_INSPECTED))]
    refuse(found.findings, {"": public.where, **{part.name: part.source.where for part in parts}})
    return found


def _labels(
    parts: Sequence[_Labeled], columns: tuple[Column, ...], config: RunConfig, where: object
) -> tuple[Schema, list[Answers]]:
    """The schema, and the outcomes of each table ``(n,)``."""
    label = config.label_column
    if config.outcome != "class":
        values: list[Answers] = [numbers(part.table, label, part.source.where, part.source.tables) for part in parts]
        if len(np.unique(np.concatenate(values))) < 2:
            raise DataError(f"all records in {where} have one {label!r}: check that the column is the right one")
        if not config.event_column:
            return Schema((), columns, quantity=label), values
        horizons = tuple(map(float, config.horizons)) or survival.usual_horizon(values)
        latest, every = max(horizons, default=0.0), np.concatenate(values)
        if config.horizons and not ((every > latest) | (every <= -latest)).any():
            raise ConfigError(
                f"no record is followed up to horizon {latest:g} without the event (the last time is "
                f"{np.abs(every).max():g}): lower it, or check its unit"
            )
        return Schema(survival.GRADE_NAMES, columns, follow_up=FollowUp(label, config.event_column, horizons)), values
    named = [class_names(part.table.column(label), label, part.source.where, part.source.tables) for part in parts]
    classes = all_classes(set().union(*(names for part, names in zip(parts, named, strict=True) if not part.tested)))
    if len(classes) == 1:
        raise DataError(f"all records in {where} are of class {classes[0]!r}: at least two classes are needed")
    if why := next((why for name in classes if (why := fault(name) or formula_fault(name))), None):
        # A label may be a patient's name: it is not quoted.
        raise DataError(f"a label in the column {label!r} of {where} names no class, as {why}: rename it")
    given = _as_given(parts, label, classes) if config.data == MEMORY else ()
    schema = Schema(classes, columns, given=given)
    for part, names in zip(parts, named, strict=True):
        if unknown := len(set(names) - set(classes)):
            raise DataError(
                f"{part.source.where} has {count(unknown, 'label')} that no silo's own table has ({listed(classes)}): "
                "spell labels alike, or take these records out"
            )
    return schema, [encode_labels(names, classes) for names in named]


def _as_given(parts: Sequence[_Labeled], label: str, classes: Sequence[str]) -> tuple[Any, ...]:
    """Each class as all tables write it, or its name where they differ in more than blanks around it.

    Empty where that is how names look anyway, or of many types.
    """
    found: dict[str, set[Any]] = {}
    for part in parts:
        cells = part.table.column(label).unique()
        for name, cell in zip(class_names(pa.chunked_array([cells]), label, part.source.where), cells, strict=True):
            found.setdefault(name, set()).add(cell.as_py())
    kinds = {type(cell) for cells in found.values() for cell in cells}
    if len(kinds) > 1 or not kinds <= {str, int, float}:
        return ()
    given = tuple(_spelling(found[name], name) for name in classes)
    return () if as_labels(classes).tolist() == [*given] else given


def _spelling(cells: set[Any], name: str) -> Any:
    cells = cells if len(cells) == 1 else {cell.strip() for cell in cells}
    return cells.pop() if len(cells) == 1 else name


def _groups(
    parts: Sequence[_Labeled], group: str, of_public: Sequence[pa.ChunkedArray]
) -> tuple[list[Groups | None], Groups | None]:
    """Groups of each table's records, and of the public set; a test table, which is not split, may lack the column."""
    concerned = [
        number for number, part in enumerate(parts) if group and (not part.tested or group in part.table.column_names)
    ]
    columns = [column_of_groups(parts[number].table, group, parts[number].source.where) for number in concerned]
    groups = numbered([*columns, *of_public]) if columns else []
    own, public = dict(zip(concerned, groups[: len(columns)], strict=True)), groups[len(columns) :]
    return [own.get(number) for number in range(len(parts))], public[0] if public else None


FOLDER: Final = "FEDCT_TABLES_FOLDER"
"""Environment variable: a folder in which ``Tables.write`` has left tables for other processes."""
_PUBLIC: Final = "public.parquet"
_TESTS: Final = "tests"


class _InMemory(TableSettings):
    """Tables in memory have no settings of their own, nor a file to name them."""

    place: ClassVar[str] = ""


_TOLD: Final = _InMemory()


class Tables:
    """The public table, unless it is drawn; one for each silo with the label column; perhaps some silos' test tables.

    They are found as long as this object lives.
    """

    def __init__(
        self,
        public: pa.Table | None,
        silos: Mapping[SiloName, pa.Table],
        tests: Mapping[SiloName, pa.Table] = MappingProxyType({}),
    ) -> None:
        self.public = public
        self.silos = dict(silos)
        self.tests = {silo: tests[silo] for silo in self.silos if silo in tests}
        # Of two runs of the same tables one may end, and the other still needs what is found under their digest.
        self._held = _HELD.setdefault(self.digest, self)

    @cached_property
    def digest(self) -> str:
        """SHA-256 over the silos' names and all tables, in hexadecimal: the same for the same contents."""
        digest = hashlib.sha256(b"fedct tables 1")
        tests = [(f"test of {silo}", table) for silo, table in self.tests.items()]
        for name, table in [*([("", self.public)] if self.public else []), *self.silos.items(), *tests]:
            digest.update(f" {len(name)} {name}".encode())
            with pa.ipc.new_stream(_Hashed(digest), table.schema) as stream:
                # In one piece: how a table is cut into pieces says nothing of what it holds.
                stream.write_table(table.combine_chunks(), max_chunksize=max(1, table.num_rows))
        return digest.hexdigest()

    def write(self, folder: Path) -> None:
        """Write the tables below a folder, for other processes to find."""
        below = folder / self.digest
        below.mkdir(mode=0o700, parents=True)
        if self.public:
            pa.parquet.write_table(self.public, below / _PUBLIC)
        for position, (silo, table) in enumerate(self.silos.items()):
            # The order of the silos counts.
            pa.parquet.write_table(table, below / f"{position:06}-{silo}.parquet")
        (below / _TESTS).mkdir()
        for silo, table in self.tests.items():
            pa.parquet.write_table(table, below / _TESTS / f"{silo}.parquet")


class _Hashed(io.RawIOBase):
    """A file that only hashes what is written to it."""

    def __init__(self, digest: "hashlib._Hash") -> None:
        self._digest = digest

    def writable(self) -> bool:
        return True

    def write(self, content: Any) -> int:
        self._digest.update(content)
        return len(content)


_HELD: Final[WeakValueDictionary[str, Tables]] = WeakValueDictionary()


def load(config: RunConfig) -> FederatedDataset:
    """The tables whose digest is the run config's ``data-dir``, as a federation.

    Raises ConfigError where this process has no such tables, and DataError as ``federation``.
    """
    folder = Path(os.environ.get(FOLDER, "")) / config.data_dir
    public: pa.Table | Path | None
    silos: Mapping[SiloName, pa.Table | Path]
    tests: Mapping[SiloName, pa.Table | Path]
    if held := _HELD.get(config.data_dir):
        public, silos, tests = held.public, held.silos, held.tests
    elif FOLDER in os.environ and folder.is_dir():
        public = folder / _PUBLIC if (folder / _PUBLIC).is_file() else None
        silos = {path.stem.partition("-")[2]: path for path in sorted(folder.glob("[0-9]*.parquet"))}
        own = {silo: folder / _TESTS / f"{silo}.parquet" for silo in silos}
        tests = {silo: path for silo, path in own.items() if path.is_file()}
    else:
        raise ConfigError("the tables of this run were in the memory of another process: hand them to simulate() again")
    return federation(
        config.study,
        "the silos' tables",
        None if public is None else _source("the public table", public),
        {silo: _source(f"the table of silo {silo!r}", table) for silo, table in silos.items()},
        config,
        leave_out="leave the silo out",
        tests={silo: _source(f"the test table of silo {silo!r}", table) for silo, table in tests.items()},
    )


def _source(where: str, table: pa.Table | Path) -> Source:
    return Source(where, partial(datasets.read_table, table) if isinstance(table, Path) else lambda text: table, _TOLD)
