"""The error that a table lacks a column, with what is likely to be the reason."""

from collections.abc import Sequence

from fedct_flwr.datasets.table_files import NO_HEADER, NUMBER
from fedct_flwr.text.printable import listed, quoted
from fedct_flwr.text.spelling import without_accents
from fedct_flwr.types import DataError


def no_column(where: object, name: str, names: Sequence[str], what: str = "column") -> DataError:
    """The error that a table lacks a column which it needs, with what may be the reason. ``names`` are those it has."""
    lacking = f"{where} has no {what} {quoted(name)}"
    if not any(other.strip() for other in names):
        return DataError(NO_HEADER.format(where, "nothing"))
    if alike := [other for other in names if without_accents(other) == without_accents(name)]:
        return DataError(f"{lacking}, but {quoted(alike[0])}: give it the same name in all tables, to the letter")
    if len(names) == 1 and name in names[0]:
        remedy = "check the separator, and take quotation marks around whole lines out"
        return DataError(f"{lacking}, but one column whose name holds {quoted(name)}: {remedy}")
    if sum(bool(NUMBER.fullmatch(other.strip())) for other in names) > len(names) / 3:
        return DataError(f"{lacking}: {NO_HEADER.format(where, 'numbers')}")
    return DataError(f"{lacking}: it has {listed(names)}")
