"""The error that a table lacks a column, with what is likely to be the reason."""

import re
from collections.abc import Sequence

from fedct_flwr.datasets.headers import NUMBER
from fedct_flwr.datasets.inspection.spelling import without_accents
from fedct_flwr.text.printable import listed, quoted
from fedct_flwr.types import DataError


def no_column(where: object, name: str, names: Sequence[str], what: str = "column") -> DataError:
    """The error that a table lacks a column which it needs, with what may be the reason. ``names`` are those it has."""
    lacking = f"{where} has no {what} {quoted(name)}"
    if not any(other.strip() for other in names):
        return DataError(f"{where} is empty, or its first line is: write a header that has {quoted(name)}")
    if alike := [other for other in names if without_accents(other) == without_accents(name)]:
        return DataError(f"{lacking}, but {quoted(alike[0])}: give it the same name in all tables, to the letter")
    sign = re.search(rf"(?:^|([\W_])){re.escape(name)}(?:$|([\W_]))", names[0]) if len(names) == 1 else None
    if sign and (between := sign[1] or sign[2]):
        remedy = f"set separator = {quoted(between)} for it, if that stands between fields"
        if between in ",;":
            remedy = "each line is one field in quotation marks: take these marks out"
        return DataError(f"{lacking}, but one column whose name holds {quoted(name)}: {remedy}")
    if sum(bool(NUMBER.fullmatch(other.strip())) for other in names) > len(names) / 3:
        return DataError(f"{lacking}, and its first line holds numbers: write the columns' names above it")
    return DataError(f"{lacking}: it has {listed(names)}")
