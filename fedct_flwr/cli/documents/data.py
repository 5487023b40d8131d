"""What ``--json`` prints of tables: what an inspection finds."""

from typing import TypedDict


class DataFinding(TypedDict):
    """What the inspection of tables found. ``code`` is its stable name; ``severity``: refused, said or accepted.

    ``column`` and ``silo`` are empty where it is about all, or about the public set.
    """

    code: str
    severity: str
    column: str
    silo: str
    said: str
    fix: str


class ColumnFacts(TypedDict):
    """One column of a table.

    ``kind``: numbers, text, truth values, dates, nothing, something else. ``unknown`` counts cells whose value the
    public set does not have; ``not_numbers`` cells of text among numbers, the first in record ``example`` (from 1).
    """

    name: str
    kind: str
    missing: int
    distinct: int
    unknown: int | None
    not_numbers: int | None
    example: int | None


class TableFacts(TypedDict):
    """One table; ``silo`` is empty for the public set. ``classes`` counts records by class."""

    silo: str
    records: int
    columns: list[ColumnFacts]
    classes: dict[str, int]


class Inspection(TypedDict):
    """``fedct inspect``, also where the exit code is 3. ``unused`` are files in the folder that nobody reads."""

    folder: str
    label: str
    tables: list[TableFacts]
    unused: list[str]
    findings: list[DataFinding]
