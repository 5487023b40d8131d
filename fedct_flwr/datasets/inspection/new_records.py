"""Findings on new records, which a trained model is to judge: columns that are not what it has learned from."""

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from fedct_flwr.datasets.inspection.finding import Finding, with_accepted
from fedct_flwr.datasets.inspection.profile import Kind, Profile, Text, profile
from fedct_flwr.datasets.inspection.shift import of_silo
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.datasets.schema import Column
from fedct_flwr.types import Features

_WELL_KNOWN: Final = 1000
"""In how many cells each category counts as seen, where only its name is known."""


def inspect_new(
    table: pa.Table, columns: Sequence[Column], public: Features | None = None, accept: Collection[str] = ()
) -> list[Finding]:
    """Findings on a table of new records whose model has these columns; others in it are left aside.

    ``public`` ``(examples, columns)`` is the study's public set, where it is at hand: units and ranges are judged by
    it. Raises ConfigError for names in ``accept`` that no finding has.
    """
    # Of free text there is nothing to find.
    kept = [position for position, column in enumerate(columns) if not column.text]
    if len(kept) < len(columns):
        columns = [columns[position] for position in kept]
        public = None if public is None else public[:, kept].astype(np.float64)
    own = table.select([column.name for column in columns if column.name in table.column_names])
    say = Words(place="in the new records", settings="")
    return with_accepted(of_silo(_reference(columns, public), profile(own), "", say), accept)


def _reference(columns: Sequence[Column], public: Features | None) -> Profile:
    """What is known of the columns, as if it had been read from a public table."""
    numbers = {
        column.name: public[:, position]
        for position, column in enumerate(columns)
        if public is not None and column.categories is None
    }
    records = 1 if public is None else len(public)
    found = profile(pa.table(numbers) if numbers else pa.table({"": pa.nulls(records)}))
    kinds = {column.name: Kind.NUMBERS if column.categories is None else Kind.TEXT for column in columns}
    texts = {}
    for position, column in enumerate(columns):
        if column.categories is not None:
            known = len(column.categories)
            counts = np.full(known, _WELL_KNOWN)
            if public is not None:
                codes = public[:, position]
                counts = np.bincount(codes[codes < known].astype(np.int64), minlength=known)
            texts[column.name] = Text(pa.array(column.categories, pa.string()), counts)
    return replace(found, kinds=kinds, texts=texts)
