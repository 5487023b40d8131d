"""The inspection of a study: its public set at the coordinator, and a real silo's records next to it.

Formal guarantee: what is found of a silo's records tells as much as ``inspection.words.Words`` with ``private``: names
of the study and of settings, numbers of records where they are not small, and where in the file an example is.
"""

from collections.abc import Collection
from dataclasses import replace
from typing import Final

import pyarrow as pa

from fedct_flwr.config import DataSettings
from fedct_flwr.datasets.inspection import Finding, Inspection, Severity, Words, inspect_tables
from fedct_flwr.datasets.study_folder import StudyFolder, form_of, table_of
from fedct_flwr.datasets.table_files import read_table
from fedct_flwr.types import DataError, SiloName

_OF_RECORDS: Final = frozenset({"tells-the-label", "survival"})
"""Findings on columns that need the silo's labels."""
_NOTHING: Final = Inspection((), ())


def inspect_public(study: StudyFolder) -> Inspection:
    """Inspect a study's public set; of images nothing is said. Raises ConfigError or DataError."""
    config = study.config
    if config.image_size:
        return _NOTHING
    words = Words(settings=config.tables.place)
    return inspect_tables(read_table(config.public, tables=config.tables), {}, "", settings=config.tables, words=words)


def inspect_records(
    data: DataSettings, study: StudyFolder, silo: SiloName, table: pa.Table | None = None
) -> Inspection:
    """Inspect a silo's records next to the study's public set; of images nothing is said.

    ``table`` is what ``table_of`` has read of them, if it has.
    Raises ConfigError or DataError where they cannot be read.
    """
    records = table_of(data, study) if table is None else table
    if records is None:
        return _NOTHING
    tables, agreed = form_of(data, study), study.config.tables
    if data.label not in records.column_names or records.num_rows == 0:
        raise DataError(f"{data.file} has no records, or no column {data.label!r}: correct file or label in silo.toml")
    inspection = inspect_tables(
        read_table(study.config.public, tables=agreed),
        {silo: records},
        data.label,
        settings=tables,
        accept=agreed.accept,
        agreed=study.schema.classes,
        mapping=data.mapping,
        words=Words(private=True, settings=tables.place),
    )
    return Inspection(inspection.tables, tuple(_for_silo(inspection.findings)))


def _for_silo(findings: Collection[Finding]) -> list[Finding]:
    """Of what is found of the public set, what nothing can be done with; a silo can only ask for another."""
    ask = "ask the coordinator for a study in which that is put right"
    public = [found for found in findings if not found.silo and found.severity is Severity.REFUSED]
    public += [found for found in findings if not found.silo and found.code in _OF_RECORDS]
    return [*(replace(found, fix=ask) for found in public), *(found for found in findings if found.silo)]
