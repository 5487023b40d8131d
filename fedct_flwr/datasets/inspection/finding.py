"""A finding of the inspection: its stable name, where it is, what is wrong, and what to do."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from fedct_flwr.text.printable import listed, quoted
from fedct_flwr.text.suggest import suggest
from fedct_flwr.types import ConfigError, DataError, SiloName

CODES: Final[dict[str, str]] = {
    # Refused: certain to make results meaningless.
    "number-as-text": "a column of numbers is text because of some cells: '<5', '1,5', '?'",
    "dates-as-text": "a column of dates would be read as categories",
    "one-per-record": "a text column has another value in nearly every record: a name, an identifier, free text",
    "index-column": "a column numbers the records, such as the index that pandas writes",
    "unknown-values": "the public set lacks a silo's values of a text column",
    "label-spellings": "classes differ in spelling alone: 'yes' and 'Yes', or one class has two names",
    "no-common-class": "a silo has no class in common with the others",
    "labels-in-a-cell": "cells of the label column hold several labels",
    "number-to-predict": "the label column holds numbers to predict, not classes",
    "many-classes": "the label column has nearly as many classes as records",
    "unreadable": "a file or a column cannot be used",
    # Said: suspicious.
    "few-of-class": "a class has very few records; one or two are refused",
    "other-scale": "a silo's numbers lie apart from those of all other tables: another unit or coding?",
    "class-shares": "a silo's share of a class lies apart from that of all other silos",
    "out-of-range": "many of a silo's numbers, or negative ones, lie outside the range of all other tables",
    "far-number": "a few numbers lie far from all others: typing errors, or a line of sums?",
    "constant-column": "a column has a single value in all tables, or in one where the others vary",
    "missing-as-number": "a number such as -999 seems to stand for a missing value",
    "value-spellings": "values of a text column differ in spelling alone",
    "tells-the-label": "a single column tells the label",
    "label-in-public": "the public set has a column with the label column's name, which is not used",
    "reversed-labels": "a silo's labels are the opposite of what the other silos' records predict",
    "one-class": "a silo's records all have the same class",
    "class-at-one-silo": "only one silo has a class",
    "few-records": "a silo, or the public set, has very few records",
    "shared-records": "records stand in two silos, in the public set, or in the training and test part of a silo",
    "repeated-records": "a silo, or the public set, has the same record several times",
}
"""What each finding means, by its stable name."""

_SHARED: Final = "'shared-records' covers it"
_SHOWN: Final = "the table by site of `fedct inspect` shows it"
_GONE: Final[dict[str, str]] = {
    **dict.fromkeys(("public-records", "test-records"), _SHARED),
    "contradicting-labels": "'repeated-records' and 'shared-records' cover it",
    **dict.fromkeys(("missing-values", "repeated-number", "rounded-numbers", "unequal-sizes"), _SHOWN),
    **dict.fromkeys(("many-categories", "codes-as-numbers", "record-number", "empty-texts", "repeated-text"), _SHOWN),
    "two-scales": "'far-number' and the table by site cover it",
    "unrelated-labels": "'reversed-labels' covers opposite labels",
    "few-numbers": _SHOWN,
    **dict.fromkeys(
        (
            *("values-in-a-cell", "wrong-encoding", "heading-row", "summary-row", "pasted-cells", "dates-as-numbers"),
            *("spreadsheet-words", "filled-down", "missing-as-class", "ordinal-classes", "survival", "slipped-rows"),
            *("unrelated-rows", "contradicting-columns", "swapped-columns", "reversed-column", "unrelated-column"),
        ),
        "no check replaces it",
    ),
}
"""Names that findings had, and what serves now."""

_MOST_SAID: Final = 3
_MOST_LISTED: Final = 3


class Severity(StrEnum):
    """What becomes of a finding."""

    REFUSED = "refused"
    """Results would be meaningless: nothing runs."""
    SAID = "said"
    """Suspicious: it is reported, and the run goes on."""
    ACCEPTED = "accepted"
    """The settings accept it."""


@dataclass(frozen=True)
class Finding:
    """One finding, about ``column`` and ``silo`` (empty: the public set, or all)."""

    code: str
    severity: Severity
    said: str
    fix: str
    column: str = ""
    silo: SiloName = ""
    lifted: bool = True
    """Whether accepting it is enough. Dates stay unusable for any learner."""

    @property
    def name(self) -> str:
        """What accepts it: ``code``, with the column or the silo concerned."""
        about = self.column or self.silo
        return f"{self.code}:{about}" if about else self.code

    @property
    def sentence(self) -> str:
        """What is wrong, where, and what to do."""
        return f"{self.said}: {self.fix}" if self.fix else self.said

    def accepted_by(self, accept: Collection[str]) -> bool:
        """Whether one of these names is meant for it: ``code``, ``code:column``, ``code:silo``, or with both."""
        names = {self.code, f"{self.code}:{self.column}", f"{self.code}:{self.silo}"}
        return not names.isdisjoint(accept) or f"{self.code}:{self.column}:{self.silo}" in accept


def check_accept(accept: Iterable[str], where: str = "accept") -> None:
    """Raise ConfigError for a name that is no finding's, with the nearest one or what serves in its place."""
    for name in accept:
        code = name.partition(":")[0]
        if code in _GONE:
            raise ConfigError(f"{where}: the finding {quoted(code)} is gone, {_GONE[code]}: remove {quoted(name)}")
        if code not in CODES:
            raise ConfigError(f"{where}: no finding is called {quoted(code)}: {suggest(code, CODES)}")


def known_names(accept: Iterable[str]) -> tuple[str, ...]:
    """The names without those of findings that no longer exist: a study that was approved with them stays valid."""
    return tuple(name for name in accept if name.partition(":")[0] not in _GONE)


def with_accepted(findings: Iterable[Finding], accept: Collection[str]) -> list[Finding]:
    """The findings, where some are meant so. Raises ConfigError for a name that is no finding's."""
    check_accept(accept)
    return [replace(found, severity=Severity.ACCEPTED) if found.accepted_by(accept) else found for found in findings]


def gathered(findings: Iterable[Finding]) -> list[Finding]:
    """Equal findings as one: that of the first place, which names the others.

    >>> ages = [Finding("other-scale", Severity.SAID, f"'age' at {silo}", "", "age", silo) for silo in "ab"]
    >>> [found.said for found in gathered(ages)]
    ["'age' at a (the same: 'age' at silo b)"]
    """
    groups: dict[tuple[str, Severity], list[Finding]] = {}
    for found in findings:
        groups.setdefault((found.code, found.severity), []).append(found)
    together = []
    for first, *others in groups.values():
        elsewhere = [found for found in others if (found.column, found.silo) != (first.column, first.silo)]
        same = f" (the same: {_places(elsewhere)})" if elsewhere else f" (and {len(others):,} more)"
        more = same if others else ""
        together.append(replace(first, said=first.said + more))
    return together


def refuse(findings: Iterable[Finding], where: Mapping[SiloName, object]) -> None:
    """Raise DataError if a finding is refused. ``where`` each silo's table is, and the public set's under no name."""
    refused = gathered(found for found in findings if found.severity is Severity.REFUSED)
    if not refused:
        return
    shown = "; ".join(f"{where[found.silo]}: {found.sentence}" for found in refused[:_MOST_SAID])
    more = f"; and {len(refused) - _MOST_SAID} more findings" if len(refused) > _MOST_SAID else ""
    meant = next((f" (if it is meant so, accept {quoted(one.name)})" for one in refused if one.lifted), "")
    raise DataError(f"{shown}{more}{meant}")


def _places(findings: Sequence[Finding]) -> str:
    columns = list(dict.fromkeys(found.column for found in findings if found.column))
    silos = list(dict.fromkeys(found.silo for found in findings if found.silo))
    if not columns:
        return f"silos {_names(silos)}" if len(silos) > 1 else f"silo {silos[0]}" if silos else "elsewhere"
    if not silos:
        return listed(columns, _MOST_LISTED)
    if len(columns) == 1:
        return f"{quoted(columns[0])} at {'silos' if len(silos) > 1 else 'silo'} {_names(silos)}"
    return f"{listed(columns, _MOST_LISTED)} at {'silos' if len(silos) > 1 else 'silo'} {_names(silos)}"


def _names(silos: Sequence[SiloName]) -> str:
    more = f" and {len(silos) - _MOST_LISTED:,} more" if len(silos) > _MOST_LISTED else ""
    return ", ".join(silos[:_MOST_LISTED]) + more
