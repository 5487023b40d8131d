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


class SiteFacts(TypedDict):
    """A column at a silo, or in the public set if ``silo`` is empty.

    ``numbers`` are lower quartile, median and upper quartile, ``words`` the most frequent values with their counts.
    ``smd`` is the standardized mean difference from all other tables, by ``what`` differs most: 'median', 'missing' or
    a value. ``here`` is the median, or the share, and ``there`` the range of the other tables'. ``marked``: look at it.
    """

    silo: str
    records: int
    missing: int
    numbers: list[float] | None
    words: dict[str, int] | None
    smd: float | None
    what: str
    here: float
    there: list[float]
    marked: bool


class ColumnBySite(TypedDict):
    """A column in all tables; ``label`` is true for the one that is predicted."""

    column: str
    label: bool
    sites: list[SiteFacts]


class Inspection(TypedDict):
    """``fedct inspect``, also where the exit code is 3. ``table``: the label, then the largest differences first.

    ``unused`` are files in the folder that no table is read from.
    """

    folder: str
    label: str
    table: list[ColumnBySite]
    unused: list[str]
    findings: list[DataFinding]
