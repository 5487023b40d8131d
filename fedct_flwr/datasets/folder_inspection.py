"""The inspection of a whole folder of tables, before anything is made of it."""

from collections.abc import Collection, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa

from fedct_flwr.config import RunConfig
from fedct_flwr.config.tables import TableSettings
from fedct_flwr.datasets import files
from fedct_flwr.datasets.folder import TableFolder, read_folder
from fedct_flwr.datasets.from_tables import Source
from fedct_flwr.datasets.inspection import Finding, Inspection, Severity, check_accept, inspect_tables, with_accepted
from fedct_flwr.datasets.lacking import no_column
from fedct_flwr.datasets.leaks import TEST_RECORDS, leaks
from fedct_flwr.datasets.tables import text_columns
from fedct_flwr.text.printable import listed
from fedct_flwr.types import DataError, SiloName


class FolderInspection(NamedTuple):
    """What the tables are, and the files of the folder."""

    inspection: Inspection
    files: TableFolder
    sheets: Mapping[str, list[str]] = MappingProxyType({})
    """By file, the sheets with contents that are not read."""


def inspect_folder(config: RunConfig) -> FolderInspection:
    """Inspect the folder ``data-dir`` as a simulation of it would; errors of single tables are findings as well.

    Where nothing is refused, a simulation reads the folder. Raises DataError for a folder that is not there, or that
    lacks a public set or silos, and ConfigError for names in ``accept`` that no finding has.
    """
    told = TableSettings.of_folder(Path(config.data_dir))
    folder = read_folder(Path(config.data_dir), told)
    check_accept([*told.accept, *config.accept])
    public, silos = files.sources(folder, told)
    settings = public.tables.model_copy(
        update={
            "text": tuple(dict.fromkeys([*config.text_columns, *public.tables.text])),
            "group": config.group_column or public.tables.group,
        }
    )
    try:
        table = public.read(settings.text)
        unlabeled = _without(table, {config.label_column, settings.group})
        _check(unlabeled.num_rows > 0 and unlabeled.column_names, public, "is empty: it needs a record and a feature")
    except DataError as error:
        return FolderInspection(Inspection((), (_unreadable(error, ""),)), folder)
    tables, wrong = _read(config, unlabeled, silos, settings)
    found = inspect_tables(
        table,
        tables,
        config.label_column,
        number=config.outcome == "number",
        settings=settings,
        accept=config.accept,
    )
    more: list[Finding] = []
    if not wrong and not found.refused:
        try:
            # What shows only in a federation: swapped labels at one silo, test records that training has seen.
            dataset = files.load(config)
            more = [each for each in dataset.findings if each not in found.findings]
            told_of = [Finding(TEST_RECORDS, Severity.SAID, *_in_two(leak.said)) for leak in leaks(dataset)]
            more += with_accepted(told_of, [*told.accept, *config.accept])
        except DataError as error:
            wrong = [_unreadable(error, "")]
    try:
        sheets = files.unread_sheets(folder, told)
    except DataError:
        # Such a file is among the findings.
        sheets = {}
    return FolderInspection(Inspection(found.tables, (*wrong, *found.findings, *more)), folder, sheets)


def _read(
    config: RunConfig, public: pa.Table, silos: Mapping[SiloName, Source], settings: TableSettings
) -> tuple[dict[SiloName, pa.Table], list[Finding]]:
    """The silos' tables that can be read and have a label column, and what is wrong with the others' columns."""
    label = config.label_column
    text = [*([] if config.outcome == "number" else [label]), *text_columns(public), *settings.text]
    text += [settings.group] if settings.group else []
    tables, wrong, theirs = {}, [], public.column_names
    for silo, source in silos.items():
        try:
            table = source.read(text)
            # A table makes its list of names anew whenever it is asked.
            names = table.column_names
            there, known = {*names}, {label, settings.group, *theirs}
            if label not in there:
                raise no_column(source.where, label, names)
            _check(table.num_rows > 0, source, "has no records: add records, or take the file away")
            tables[silo] = table
            missing = [name for name in theirs if name not in there]
            extra = [name for name in names if name not in known]
            instead = f" (it has {listed(extra)})" if extra else ", or take them out of the public set"
            said = f"lacks columns of the public set: {listed(missing)}; name them as there{instead}"
            _check(not missing, source, said)
            said = (
                f"has columns that the public set lacks: {listed(extra)}; take them out, or name them under leave-out"
            )
            _check(not extra, source, f"{said} in data.toml")
        except DataError as error:
            wrong.append(_unreadable(error, silo))
    return tables, wrong


def _without(table: pa.Table, names: Collection[str]) -> pa.Table:
    return table.drop_columns([name for name in table.column_names if name in names])


def _check(fine: object, source: Source, said: str) -> None:
    if not fine:
        raise DataError(f"{source.where} {said}")


def _in_two(sentence: str) -> tuple[str, str]:
    """What is wrong, and what to do."""
    said, _, fix = sentence.rpartition(": ")
    return (said, fix) if said else (fix, "")


def _unreadable(error: DataError, silo: SiloName) -> Finding:
    said, _, fix = str(error).partition(": ")
    return Finding("unreadable", Severity.REFUSED, said, fix, silo=silo)
