"""The error that a table's header names several columns alike, with what is likely to be the reason."""

import re
from collections.abc import Sequence
from typing import Final

from fedct_flwr.text.printable import listed
from fedct_flwr.types import DataError

NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]+)?")
"""A number as a file may have it in a cell."""


def same_name(where: object, names: Sequence[str]) -> DataError:
    """The error that a table has several columns of each of these names."""
    if not all(name.strip() for name in names):
        fix = "if a title stands above the header, take its line out, otherwise name them"
        return DataError(f"{where} has columns without a name: {fix}")
    if all(NUMBER.fullmatch(name.strip()) for name in names):
        return DataError(f"the first line of {where} holds numbers: write the columns' names above it")
    return DataError(f"{where} has columns of the same name: {listed(names)}; rename them")
