"""Whether the public set holds the silo's own patients: counts of exact and near duplicates, and no record.

A coordinator could forge a public set out of a hospital's records, and would then be told what its model says of them.
It writes every number of that set, so everything is judged by the silo's own records: the scale of each column
(``own_scale``), how near an example is to one record alone, and how often that happens by chance (``standing_out``).

One exact duplicate raises the alarm: all values are the same as finely as the silo's records are written, in all
columns in which these differ from each other. Records of few or coarse columns agree by chance. So the report also
says how many of them agree with each other, and a person decides.

Near duplicates raise it if there are more than chance explains. Texts are also near by the words they share
(``near_texts``).

How well it does is in ``benchmarks/results/duplicates.md``: six data sets, 100 random splits each (seeds 200 to 299),
the four heart-disease hospitals among them with 400 comparisons. The rule was chosen on seeds 0 to 9 of the same data,
but for diabetes, which was looked at only there. With ten of its patients in the public set a silo raises the alarm

- always if they are exact copies, with or without an outlier, or all other rows inflated;
- with noise of .1 standard deviations in 60% at the hospitals, 18% (Adult) to 100% elsewhere; of .3 in 7% to 61%;
- with three columns of each copy empty in 86% and more, with half of them in 32% to 100%;
- with values rounded to two digits in 52% and more, to the decile in 31% and more.

Honest public sets raise it by near duplicates alone in 4% at the hospitals and 1% to 6% elsewhere, but in 39% with
wines, many of which are in the data several times nearly alike. In 12% at the hospitals an exact duplicate raises it:
two patients are in these files twice.

Not noticed: few near copies (one patient with noise .1 in 6% to 45%), near copies among ten times as many made-up rows
(1% to 99%), and copies that were changed further. A silo with 20 records or fewer notices exact copies alone.
"""

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.datasets.schema import Column, Schema
from fedct_flwr.hospital.near_texts import near_texts
from fedct_flwr.hospital.own_scale import EMPTY, Measured, OwnScale
from fedct_flwr.hospital.standing_out import FEWEST, Chance, scores
from fedct_flwr.text.normal_form import normalized
from fedct_flwr.types import DataError, Features

SIGNIFICANCE: Final = 0.01
"""The chance that is aimed at of an alarm by near duplicates, if all come from one population; see above."""

_PARTS: Final = (0.5, 0.75)
"""Examples that have fewer than these shares of the columns are compared with chance apart from the others."""

_STAND_INS: Final = 2000
_STAND_IN_VALUES: Final = 1 << 26

_Rows = NDArray[np.intp]


@dataclass(frozen=True)
class DuplicateReport:
    """How many of a silo's records have an exact, or at least a near, duplicate in the public set.

    For a person to judge by: how many records have an exact duplicate among the silo's own (``own_exact``), and how
    many near public examples chance explains (``by_chance``).
    """

    num_records: int
    num_public: int
    exact: int
    near: int
    alarm: bool
    own_exact: int = 0
    by_chance: int = 0

    @property
    def sentence(self) -> str:
        """The report in words, without any record."""
        found = (
            f"of {self.num_records} records {self.exact} have an exact and {self.near} at least a near duplicate "
            f"among the {self.num_public} examples of the public set"
        )
        ask = "ask the coordinator where the public set comes from"
        if not self.alarm:
            return f"{found}, no more than chance explains"
        if not self.exact:
            return f"{found}; chance explains about {self.by_chance} near ones: {ask}"
        own = f"among themselves {self.own_exact} have an exact one"
        if self.own_exact >= self.exact:
            return f"{found}; {own}, so this may be chance: {ask}"
        return f"{found}; {own}, so chance hardly explains this: {ask}"


def find_duplicates(records: Features, public: Features, schema: Schema) -> DuplicateReport:
    """Compare a silo's records with the public set, both as the study encodes them (NaN where a value is missing).

    Raises DataError if the two do not have the same columns.
    """
    if records.shape[1:] != public.shape[1:]:
        raise DataError(f"records have the shape {records.shape[1:]}, but public examples {public.shape[1:]}")
    texts = None
    if schema.texts:
        texts = near_texts(*([" ".join(row) for row in X[:, list(schema.texts)]] for X in (records, public)))
        records, public, schema = _texts_as_categories(records, public, schema)
    scale = OwnScale.of(records, schema)
    ours, theirs = scale.measure(records), scale.measure(public)
    own, in_public = Counter(ours.keys), set(theirs.keys) - {EMPTY}
    exact = np.array([key in in_public for key in ours.keys], dtype=bool)
    # An exact duplicate raises the alarm by itself, and says nothing of how near others come by chance.
    others = np.flatnonzero([key not in own for key in theirs.keys])
    single = np.flatnonzero([own[key] == 1 for key in ours.keys])
    near = _near(ours, single, theirs.at(others))
    positions, by_chance = np.union1d(np.flatnonzero(exact), near.records), near.by_chance
    if texts is not None:
        positions, by_chance = np.union1d(positions, np.flatnonzero(texts.near)), by_chance + texts.by_chance
    return DuplicateReport(
        len(records),
        len(public),
        int(exact.sum()),
        len(positions),
        alarm=bool(exact.any()) or any(found.p_value < SIGNIFICANCE for found in (near, texts) if found is not None),
        own_exact=sum(own[key] > 1 for key in ours.keys if key != EMPTY),
        by_chance=round(by_chance),
    )


def _texts_as_categories(records: Features, public: Features, schema: Schema) -> tuple[Features, Features, Schema]:
    """Both as numbers: a text is a category, the same wherever the silo has the same, and another where it never has.

    Case and blanks do not count; an empty text is a missing value.
    """
    ours, theirs = (np.full(X.shape, np.nan) for X in (records, public))
    columns = list(schema.columns)
    for position, column in enumerate(columns):
        if not column.text:
            ours[:, position], theirs[:, position] = records[:, position], public[:, position]
            continue
        spelled = [_spelled(text) for text in records[:, position]]
        known = {text: float(number) for number, text in enumerate(sorted({*spelled} - {""}))}
        unknown = float(len(known))
        ours[:, position] = [known.get(text, np.nan) for text in spelled]
        theirs[:, position] = [
            known.get(text, unknown) if text else np.nan for text in map(_spelled, public[:, position])
        ]
        columns[position] = Column(column.name, tuple(known))
    return ours, theirs, replace(schema, columns=tuple(columns))


def _spelled(text: str) -> str:
    return " ".join(normalized("NFC", text).casefold().split())


class _Near(NamedTuple):
    """Positions of the records that have a near duplicate, how many are to be expected, how likely chance is."""

    records: _Rows
    by_chance: float
    p_value: float


def _near(ours: Measured, single: _Rows, public: Measured) -> _Near:
    """Judge how far public examples stand out by how far the silo's own records do, each without itself.

    A record stands in for a public example with the same columns emptied, as a coordinator may choose which are.
    ``single``: positions of the records that may, which have no exact duplicate.
    """
    present = public.present
    part = np.digitize(present.mean(axis=1) if present.size else np.zeros(len(present)), _PARTS)
    # Large images are fewer, to stay within 256 MB.
    most = min(_STAND_INS, max(10 * FEWEST, _STAND_IN_VALUES // max(1, present.shape[1])))
    rng = np.random.default_rng(0)
    records, by_chance, p_values = [], 0.0, []
    for rows in (np.flatnonzero(part == number) for number in np.unique(part)):
        stand_ins = rng.permutation(single)[:most]
        like = present[rng.choice(rows, len(stand_ins))]
        chance = Chance.of(scores(ours.at(stand_ins, like), ours, stand_ins).value)
        if chance is None:
            continue
        found = scores(public.at(rows), ours)
        records.append(found.nearest[chance.near(found.value)])
        by_chance += len(rows) * chance.near_rate
        p_values.append(chance.p_value(found.value))
    if not p_values:
        return _Near(np.zeros(0, dtype=np.intp), 0.0, 1.0)
    return _Near(np.concatenate(records), by_chance, min(1.0, len(p_values) * min(p_values)))
