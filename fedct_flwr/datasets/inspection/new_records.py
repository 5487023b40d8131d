"""Findings on new records, which a trained model is to judge: columns that are not what it has learned from.

A few records have no quantiles to compare. Of these, each number is looked at alone: whether it is farther from the
public set's numbers than these are from each other, also in logarithms.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
import pyarrow as pa

from fedct_flwr.datasets.inspection.finding import Finding, Severity, with_accepted
from fedct_flwr.datasets.inspection.profile import FEWEST, Kind, Profile, Text, profile
from fedct_flwr.datasets.inspection.shift import of_silo
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.datasets.schema import Column
from fedct_flwr.types import Features

_WELL_KNOWN: Final = 1000
"""In how many cells each category counts as seen, where only its name is known."""
_MANY_NUMBERS: Final = 10
_OF_MANY: Final = frozenset({"far-number", "two-scales"})
"""What a few numbers do not tell of themselves."""
_FAR_IN_LOGS: Final = 0.5


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
    reference, records = _reference(columns, public), profile(own)
    few = [*_few(reference, records)]
    found = [
        each for each in of_silo(reference, records, "", say) if each.code not in _OF_MANY or each.column not in few
    ]
    known = {each.column for each in found}
    found += [each for each in _far(reference, records, few, say) if each.column not in known]
    return with_accepted(found, accept)


def _few(public: Profile, new: Profile) -> Iterator[str]:
    """Columns of a few numbers, of which the public set has many."""
    theirs, ours = public.numbers, new.numbers
    for name, at in theirs.position.items():
        here = ours.position.get(name)
        many = theirs.valid[at] >= FEWEST and theirs.distinct[at] > _MANY_NUMBERS
        if here is not None and 0 < ours.valid[here] < FEWEST and many:
            yield name


def _far(public: Profile, new: Profile, names: Collection[str], say: Words) -> Iterator[Finding]:
    """Numbers of a few records that lie far from all of the public set's."""
    theirs, ours = public.numbers, new.numbers
    for name in names:
        here, at = ours.position[name], theirs.position[name]
        low, high = float(theirs.smallest[at]), float(theirs.largest[at])
        ends = float(ours.smallest[here]), float(ours.largest[here])
        if (wrong := next((x for x in ends if _is_far(x, low, high)), None)) is not None:
            values = f"{wrong:g}, there {low:g} to {high:g}"
            said = f"{say.column(name, '')} has a number far from the public set's ({values})"
            yield Finding("far-number", Severity.SAID, said, "check the unit and the value", name)


def _is_far(x: float, low: float, high: float) -> bool:
    """Whether a number is farther from a range than the range is wide, and in logarithms than half of it."""
    if max(x - high, low - x) < high - low:
        return False
    # Amounts in blood have long tails.
    nearest = high if x > high else low
    return min(x, low) <= 0 or bool(abs(np.log(x / nearest)) > _FAR_IN_LOGS * np.log(high / low))


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
