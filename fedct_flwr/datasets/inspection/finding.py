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
    "unknown-values": "values of a text column at a silo that the public set does not have",
    "label-spellings": "classes that differ in spelling alone: 'yes' and 'Yes', or one class by two names",
    "no-common-class": "a silo has no class in common with the others",
    "labels-in-a-cell": "cells of the label column hold several labels",
    "number-to-predict": "the label column holds numbers to predict, not classes",
    "many-classes": "the label column has nearly as many classes as records",
    "unreadable": "a file or a column cannot be used",
    # Said: suspicious.
    "many-categories": "most values of a text column occur once",
    "values-in-a-cell": "cells of a text column hold several values",
    "value-spellings": "values of a text column differ in spelling alone",
    "constant-column": "a column has one value alone, in the public set or at a silo",
    "wrong-encoding": "words that were read in a wrong encoding: 'mÃ¼de'",
    "heading-row": "a line of headings among the records",
    "summary-row": "a line of means, medians or sums among the records",
    "pasted-cells": "many cells in a row that stand a second time elsewhere",
    "missing-values": "most or all values of a column are missing",
    "empty-texts": "many records have no text in a column of texts",
    "repeated-text": "many records have one and the same text",
    "label-in-public": "the public set has a column of the label column's name, which is not used",
    "dates-as-numbers": "whole numbers such as 20241231 are dates",
    "record-number": "a column of numbers looks like an identifier",
    "codes-as-numbers": "a column of numbers looks like codes",
    "missing-as-number": "a number such as -999 seems to stand for a missing value",
    "far-number": "a few numbers lie far from all others: typing errors, or a line of sums?",
    "spreadsheet-words": "words that a spreadsheet has turned into dates or numbers: '2-Sep' among genes",
    "repeated-number": "most numbers of a column at a silo are one, which the public set hardly has",
    "filled-down": "many cells of a column in a row are equal, or count on by one step",
    "rounded-numbers": "a silo's numbers are rounded, and most of the public set's are not",
    "two-scales": "a column's numbers in one table form two groups far apart: two units?",
    "other-scale": "a column's numbers at a silo lie apart from the public set's, or differ by a factor: another unit?",
    "out-of-range": "many of a column's numbers at a silo lie outside the public set's range",
    "missing-as-class": "a class is named as a missing value is",
    "ordinal-classes": "the classes are steps of a scale, and classes have no order",
    "survival": "a time and an event look like survival data",
    "reversed-labels": "a silo's labels are the opposite of what the other silos' records predict",
    "unrelated-labels": "a silo's labels do not go with its records, as they do at the other silos",
    "slipped-rows": "a column's cells, or the labels, stand some rows above or below their records",
    "unrelated-rows": "columns, or the labels, go with their records in one part of the table alone",
    "contradicting-columns": "a number is smaller than another one of its record, which it never is elsewhere",
    "swapped-columns": "two columns go with the others as each other do elsewhere",
    "reversed-column": "a column goes with the others in the opposite way of elsewhere",
    "unrelated-column": "nothing goes with a column, or with several that go together, as it does elsewhere",
    "few-records": "a silo, or the public set, has very few records",
    "one-class": "a silo's records are all of one class",
    "few-of-class": "a class has very few records",
    "class-at-one-silo": "a class occurs at one silo alone",
    "repeated-records": "a silo has the same record several times",
    "contradicting-labels": "the same records occur with different labels",
    "shared-records": "silos have records in common",
    "test-records": "test records, or groups, that a silo trains on as well",
    "public-records": "a silo's records are in the public set",
    "unequal-sizes": "one silo has many times as many records as others",
    "tells-the-label": "a column alone tells what is to be predicted, of most records or of one class",
    "few-numbers": "the number to predict has two values alone",
}
"""What each finding means, by its stable name."""

_MOST_SAID: Final = 3
_MOST_LISTED: Final = 3


class Severity(StrEnum):
    """What becomes of a finding."""

    REFUSED = "refused"
    """Results would be meaningless: nothing runs."""
    SAID = "said"
    """Suspicious: it is said, and the run goes on."""
    ACCEPTED = "accepted"
    """Somebody has said that it is meant so."""


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
    """Whether to accept it is enough. No learner reads dates, say, whatever somebody accepts."""

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
    """Raise ConfigError for a name that is no finding's, with the nearest one."""
    for name in accept:
        code = name.partition(":")[0]
        if code not in CODES:
            raise ConfigError(f"{where}: no finding is called {quoted(code)}: {suggest(code, CODES)}")


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
