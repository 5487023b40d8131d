"""Findings on the columns of a silo next to the public set's: values, kinds, scales and ranges that do not fit."""

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from fedct_flwr.datasets.inspection.dragged import filled_down
from fedct_flwr.datasets.inspection.filled import filled
from fedct_flwr.datasets.inspection.finding import Finding, Severity
from fedct_flwr.datasets.inspection.limits import limited
from fedct_flwr.datasets.inspection.meanings import is_identifier, no_feature
from fedct_flwr.datasets.inspection.number_text import dates, number_as_text
from fedct_flwr.datasets.inspection.precision import coarser
from fedct_flwr.datasets.inspection.profile import FEWEST, QUANTILES, Kind, Profile, Text
from fedct_flwr.datasets.inspection.spelling import LONG_WORD, misspelled, weigh, without_accents
from fedct_flwr.datasets.inspection.spreadsheet import mangled
from fedct_flwr.datasets.inspection.strays import are_codes, far_numbers, sentinels, two_scales
from fedct_flwr.datasets.inspection.words import Words
from fedct_flwr.types import SiloName

_NEARLY_ALL: Final = 0.95
_FEWEST_UNKNOWN: Final = 5
_CERTAIN: Final = 20
_UNLIKELY: Final = 1e-3
_MANY_UNKNOWN: Final = 0.05
_SOME_UNKNOWN_WORDS: Final = 0.01
"""The same, in a column of few words all of which the public set has many times."""
_VERY_UNLIKELY: Final = 1e-6
_FEWEST_FOR_HALVES: Final = 100
_OTHER_CODES: Final = 0.1
_FEW_VALUES: Final = 50
_FEW_CODES: Final = 10
_SOME_UNKNOWN: Final = 0.02
_MOSTLY: Final = 0.5
_P10, _P25, _P50, _P75, _P90 = range(len(QUANTILES))
_WELL_KNOWN: Final = 10
_FEWEST_SIGNS: Final = 3
_NEAR_ZERO: Final = 0.25
"""Of the middle number."""
_SHORT_TAIL: Final = 1.5
"""Times the width of four fifths of all numbers, by which the smallest one may be below their middle."""


def unknown(public: Profile, silo: Profile, name: str) -> int | None:
    """Cells of a silo's text column whose value the public set does not have; None for another column."""
    if name not in public.texts or name not in silo.texts:
        return None
    text = silo.texts[name]
    known = pc.is_in(text.values, value_set=public.texts[name].values).to_numpy(zero_copy_only=False)
    return weigh(~known.astype(bool), text.counts)


def of_silo(
    public: Profile, silo: Profile, name: SiloName, say: Words, no_features: Collection[str] = ()
) -> Iterator[Finding]:
    """All findings on the columns that a silo shares with the public set; ``no_features`` say who somebody is."""
    for column, kind in public.kinds.items():
        own = silo.kinds.get(column)
        if own is Kind.NOTHING and kind is not Kind.NOTHING:
            if _is_often_missing(public, silo, column):
                continue
            said = f"{say.column(column, name)} has no value"
            yield Finding("missing-values", Severity.SAID, said, "nothing, if that is so", column, name)
        elif kind in (Kind.NUMBERS, Kind.TRUTH) and own is Kind.TEXT:
            yield _text_for_numbers(public, silo, column, name, say)
        elif kind in (Kind.NUMBERS, Kind.TRUTH) and own is Kind.DATES:
            said = f"{say.column(column, name)} holds dates, and numbers in the public set"
            yield Finding("dates-as-text", Severity.REFUSED, said, "turn them into numbers", column, name)
        elif kind is Kind.TEXT and own is Kind.TEXT:
            yield from _unknown_values(public, silo, column, name, say, column in no_features)
    yield from _mostly_empty(public, silo, name, say)
    yield from mangled(silo, name, say)
    yield from coarser(public, silo, name, say)
    yield from filled_down(silo, name, say)
    repeated = [*filled(silo, name, say, public)]
    yield from repeated
    known = {found.column for found in repeated}
    yield from (found for found in limited(public, silo, name, say) if found.column not in known)
    meant = [*sentinels(silo, name, say, public), *far_numbers(silo, name, say, _ranges(public))]
    yield from meant
    # What stands for a missing value is in no unit.
    columns = {found.column for found in meant}
    scales = [
        each for each in of_scales(public, silo, name, say) if each.code != "out-of-range" or each.column not in columns
    ]
    yield from scales
    yield from _unknown_codes(public, silo, name, say, columns | {found.column for found in scales})
    yield from two_scales(silo, name, say)


def _is_often_missing(public: Profile, silo: Profile, name: str) -> bool:
    """Whether chance explains that none of a few records has a value, by how often the public set has none."""
    if name not in public.columns:
        return silo.records < _FEWEST_UNKNOWN
    share = (public.missing(name) + 1) / (public.records + 1)
    return bool(share**silo.records > _UNLIKELY)


def _ranges(public: Profile) -> dict[str, tuple[float, float]]:
    """Where the numbers of the public set's columns lie, of those with enough of them."""
    numbers = public.numbers
    return {
        numbers.names[at]: (float(numbers.smallest[at]), float(numbers.largest[at]))
        for at in np.flatnonzero(numbers.valid >= FEWEST)
    }


def constant_in_public(public: Profile, silos: Mapping[SiloName, Profile], say: Words) -> Iterator[Finding]:
    """Columns of numbers with one value in the public set, where silos have so many others that this is no chance."""
    numbers = public.numbers
    for at in np.flatnonzero((numbers.distinct == 1) & (numbers.valid >= FEWEST)):
        name, value = numbers.names[at], numbers.smallest[at]
        cells = [
            own.columns[name].drop_null().cast(pa.float64(), safe=False)
            for own in silos.values()
            if name in own.numbers.position
        ]
        same = sum(int(pc.sum(pc.equal(column, value)).as_py() or 0) for column in cells)
        if (total := sum(map(len, cells))) and (same / total) ** int(numbers.valid[at]) < _UNLIKELY and same < total:
            said = f"{say.column(name, '')} has one value alone, and silos have others"
            fix = f"write values there, as silos learn from each other by them alone, or {say.leave_out(name)}"
            yield Finding("constant-column", Severity.SAID, said, fix, name)


def _mostly_empty(public: Profile, silo: Profile, name: SiloName, say: Words) -> Iterator[Finding]:
    """Columns that a silo leaves mostly empty, and the public set does not."""
    for column, kind in silo.kinds.items():
        if kind is Kind.NOTHING or silo.records < FEWEST or column not in public.columns:
            continue
        missing, there = silo.missing(column), public.missing(column) / max(1, public.records)
        if missing > _MOSTLY * silo.records and there <= missing / silo.records / 2:
            said = f"{say.column(column, name)} is empty in {say.share(missing, silo.records, 'record')}"
            fix = "nothing, if that is so; of merged cells, the first alone has a value"
            yield Finding("missing-values", Severity.SAID, said, fix, column, name)


def _text_for_numbers(public: Profile, silo: Profile, column: str, name: SiloName, say: Words) -> Finding:
    text = silo.texts[column]
    if found := dates(silo, column, name, say):
        return found
    if text.looks.number.any():
        at = public.numbers.position.get(column)
        known = None if at is None else (float(public.numbers.smallest[at]), float(public.numbers.largest[at]))
        return number_as_text(silo, column, name, say, Severity.REFUSED, known)
    said = f"{say.column(column, name)} must hold numbers, as in the public set, and holds text"
    place = silo.first(column, text.values)
    example = say.example(None, place[0]) if place else ""
    return Finding("number-as-text", Severity.REFUSED, f"{said}{example}", "write numbers", column, name)


def _unknown_values(
    public: Profile, silo: Profile, column: str, name: SiloName, say: Words, names_records: bool
) -> Iterator[Finding]:
    known, own = public.texts[column], silo.texts[column]
    new = ~pc.is_in(own.values, value_set=known.values).to_numpy(zero_copy_only=False).astype(bool)
    cells, valid = weigh(new, own.counts), own.valid
    if not cells:
        return
    # The chance that one more public value would be a new one, by the values that occur once (Good 1953).
    chance = (int(np.count_nonzero(known.counts == 1)) + 1) / (known.valid + 1)
    values = _cells(own, new)
    where = say.column(column, name)
    there = "" if say.private else say.values(_cells(known, np.ones(len(known.values), dtype=bool)))
    if cells >= _NEARLY_ALL * valid and valid >= _FEWEST_UNKNOWN:
        certain = valid >= _CERTAIN or chance**valid < _UNLIKELY
        said = f"{where} has values that the public set does not have, in {say.share(cells, valid)}{say.values(values)}"
        fix = f"write them as the public set does{there}, or {say.leave_out(column)}"
        if names_records or (is_identifier(column) and len(known.values) > FEWEST):
            fix = no_feature(column, say)
        yield Finding("unknown-values", Severity.REFUSED if certain else Severity.SAID, said, fix, column, name)
        return
    spellings = {without_accents(value) for value in known.values.to_pylist()}
    alike = {value: number for value, number in values.items() if without_accents(value) in spellings}
    how = "case, blanks or accents"
    if not alike and len(known.values) <= _FEW_VALUES:
        bare = {_bare(value) for value in known.values.to_pylist()} - {""}
        alike = {value: number for value, number in values.items() if _bare(value) in bare}
        how = "signs between letters and digits"
    if alike:
        said = f"{where} has values that differ from the public set's in {how} alone{say.values(alike)}"
        yield Finding("value-spellings", Severity.SAID, said, "write them as there", column, name)
    elif valid >= FEWEST and cells > _MANY_UNKNOWN * valid and _is_unlikely(cells / valid, chance, valid):
        said = f"{where} has values that the public set does not have, in {say.share(cells, valid)}{say.values(values)}"
        yield Finding("unknown-values", Severity.SAID, said, f"check how they are written{there}", column, name)
    elif cells >= _FEWEST_UNKNOWN and len(known.values) + len(values) <= _FEW_VALUES:
        both = _cells(known, np.ones(len(known.values), dtype=bool))
        if (pair := misspelled(both | values, LONG_WORD)) and pair[0] in values:
            said = f"{where} has values that are nearly spelled as one of the public set{say.values({pair[0]: cells})}"
            yield Finding("value-spellings", Severity.SAID, said, "write them as there", column, name)
        elif cells > _SOME_UNKNOWN_WORDS * valid and _is_unlikely(cells / valid, chance, valid, _VERY_UNLIKELY):
            share = say.share(cells, valid)
            said = f"{where} has values that the public set does not have, in {share}{say.values(values)}"
            fix = f"check how they are written{there}, and leave the cell empty where nothing is known"
            yield Finding("unknown-values", Severity.SAID, said, fix, column, name)


def _bare(value: str) -> str:
    """A word or a code without signs within, such as ``i109`` for ``I10.9``; empty for a number, or for few signs."""
    bare = re.sub(r"(?<=\w)[\W_]+(?=\w)", "", without_accents(value))
    return bare if len(bare) >= _FEWEST_SIGNS and any(char.isalpha() for char in bare) else ""


def _unknown_codes(
    public: Profile, silo: Profile, name: SiloName, say: Words, known: Collection[str]
) -> Iterator[Finding]:
    """Columns of a few whole numbers, such as grades, in which a silo has -1 or 9 as well; but for ``known`` ones."""
    theirs, ours = public.numbers, silo.numbers
    few = theirs.whole & (theirs.distinct > 1) & (theirs.distinct <= _FEW_CODES) & (theirs.valid >= _FEWEST_FOR_HALVES)
    for at in np.flatnonzero(few):
        column = theirs.names[at]
        here = ours.position.get(column)
        if here is None or column in known or not ours.whole[here] or ours.distinct[here] > 2 * _FEW_CODES:
            continue
        codes, counts = np.unique(public.valid(column), return_counts=True)
        own = silo.valid(column)
        # A site, or a fifth child, that no public record has is no mistake.
        found = np.unique(own)
        among = np.union1d(codes, found)
        gaps = np.array([np.abs(among[among != value] - value).min() for value in found])
        stands_for_none = (are_codes(found) & (gaps > 1)) | ((found < 0) & (codes.min() >= 0))
        new = np.isin(own, found[stands_for_none & ~np.isin(found, codes)])
        cells, valid = int(np.count_nonzero(new)), int(ours.valid[here])
        # As of words: the chance that one more number would be a new one.
        chance = (int(np.count_nonzero(counts == 1)) + 1) / (int(theirs.valid[at]) + 1)
        if cells >= _FEWEST_UNKNOWN and cells >= _SOME_UNKNOWN * valid and _is_unlikely(cells / valid, chance, valid):
            values = {f"{value:g}": int(np.count_nonzero(own == value)) for value in np.unique(own[new])}
            share = say.share(cells, valid)
            said = f"{say.column(column, name)} has codes that the public set does not have, in {share}"
            fix = "check what they mean: leave the cell empty where nothing is known"
            yield Finding("unknown-values", Severity.SAID, said + say.values(values), fix, column, name)


def _is_unlikely(share: float, chance: float, cells: int, limit: float = _UNLIKELY) -> bool:
    """Whether so large a share of the cells is unlikely, where each has this chance (Chernoff's bound)."""
    if share <= chance:
        return False
    rest = (1 - share) * np.log((1 - share) / (1 - chance)) if share < 1 else 0.0
    return bool(cells * (share * np.log(share / chance) + rest) > -np.log(limit))


def _cells(text: Text, chosen: NDArray[np.bool_]) -> dict[str, int]:
    return dict(zip(text.values.filter(pa.array(chosen)).to_pylist(), text.counts[chosen].tolist(), strict=True))


def of_scales(
    public: Profile, silo: Profile, name: SiloName, say: Words, whose: str = "the public set's"
) -> Iterator[Finding]:
    """Columns of numbers that lie apart from the public set's, or partly outside of their range."""
    common = [column for column in public.numbers.names if column in silo.numbers.position]
    if not common:
        return
    theirs, ours = public.numbers, silo.numbers
    here = np.array([theirs.position[column] for column in common])
    there = np.array([ours.position[column] for column in common])
    enough = (theirs.valid[here] >= FEWEST) & (ours.valid[there] >= FEWEST)
    q, own = theirs.quantiles[here], ours.quantiles[there]
    wide = np.minimum(theirs.distinct[here], ours.distinct[there]) > 2
    with np.errstate(invalid="ignore"):
        apart = enough & wide & ((own[:, _P10] > q[:, _P90]) | (own[:, _P90] < q[:, _P10]))
        # Of skewed numbers, also half of them apart from the other half: days and weeks, amounts and their logarithms.
        many = np.minimum(theirs.valid[here], ours.valid[there]) >= _FEWEST_FOR_HALVES
        apart |= many & wide & ((own[:, _P25] > q[:, _P75]) | (own[:, _P75] < q[:, _P25]))
        # A tenth, at least: measurements around zero, or their logarithms.
        negative = (theirs.smallest[here] >= 0) & (own[:, _P10] < 0)
        # Fewer, if they are as large as usual ones: somebody has lost, or found, a sign.
        enough_there = (theirs.valid[here] >= _FEWEST_FOR_HALVES) & (ours.valid[there] >= FEWEST)
        signs = enough_there & (theirs.smallest[here] > 0) & (ours.smallest[there] <= -q[:, _P25])
        # Or any, where no number is near zero: nobody is -5 years old. Logarithms reach far down, and below it.
        near = q[:, _P50] - theirs.smallest[here] <= _SHORT_TAIL * (q[:, _P90] - q[:, _P10])
        signs |= enough_there & near & (theirs.smallest[here] > _NEAR_ZERO * q[:, _P50]) & (ours.smallest[there] < 0)
        outside_range = (own[:, _P90] > theirs.largest[here]) | (own[:, _P10] < theirs.smallest[here])
    # Two values are codes: 1 and 2 where there are 0 and 1.
    few = enough & (theirs.distinct[here] == 2) & (ours.distinct[there] <= 2) & theirs.whole[here] & ours.whole[there]
    above = (ours.largest[there] > theirs.largest[here]) & (ours.at_largest[there] > _OTHER_CODES * ours.valid[there])
    below = (ours.smallest[there] < theirs.smallest[here]) & (
        ours.at_smallest[there] > _OTHER_CODES * ours.valid[there]
    )
    for position in np.flatnonzero(few & (above | below)):
        column = common[position]
        values = (
            ""
            if say.private
            else (
                f" ({own[position].min():g} and {own[position].max():g}, there {q[position].min():g} and "
                f"{q[position].max():g})"
            )
        )
        said = f"{say.column(column, name)} has other codes than the public set{values}"
        yield Finding("other-scale", Severity.SAID, said, "write the same codes everywhere", column, name)
    # A share is certain only from many public examples: one in a hundred new ones lies outside of them by chance.
    known = enough & (theirs.valid[here] >= FEWEST * _WELL_KNOWN)
    for position in np.flatnonzero(apart):
        column = common[position]
        factor = _factor(q[position], own[position])
        medians = _medians(q[position], own[position], factor, say)
        said = f"{say.column(column, name)} lies apart from {whose} numbers{medians}"
        fix = "check the unit" if factor is not None else "check the unit, or nothing, if its records differ so"
        yield Finding("other-scale", Severity.SAID, said, fix, column, name)
    for position in np.flatnonzero(known & wide & outside_range & ~apart):
        column = common[position]
        said = f"{say.column(column, name)} has a tenth of its numbers or more outside {whose} range"
        yield Finding("out-of-range", Severity.SAID, said, "check the unit and the values", column, name)
    outside = apart | (known & outside_range)
    for position in np.flatnonzero(wide & ((known & negative) | signs) & ~outside):
        column = common[position]
        said = f"{say.column(column, name)} has negative numbers, and {whose} numbers are positive"
        yield Finding("out-of-range", Severity.SAID, said, "check the unit and the values", column, name)


def _factor(public: NDArray[np.float64], own: NDArray[np.float64]) -> float | None:
    """One factor between the two at all quantiles, as between units; None if there is none."""
    if public.min() <= 0 or own.min() <= 0:
        return None
    logs = np.log(own / public)
    return float(np.exp(np.median(logs))) if np.ptp(logs) < 0.25 * abs(np.median(logs)) else None


def _medians(public: NDArray[np.float64], own: NDArray[np.float64], factor: float | None, say: Words) -> str:
    if say.private:
        return ""
    times = "" if factor is None else f", {max(factor, 1 / factor):.3g} times as {'large' if factor > 1 else 'small'}"
    return f" (median {own[_P50]:.4g}, there {public[_P50]:.4g}{times})"
