"""One inspection of tables: Table 1 by site, and findings: a stable name, where it is, what is wrong, what to do."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Final

from fedct_flwr.text.printable import HIDDEN_BELOW, count, listed, quoted, rounded, suggest
from fedct_flwr.types import ConfigError, DataError, SiloName

CODES: Final = (
    *("number-as-text", "dates-as-text", "one-per-record", "index-column", "unknown-values", "label-spellings"),
    *("no-common-class", "labels-in-a-cell", "number-to-predict", "many-classes", "unreadable"),
    *("few-of-class", "other-scale", "class-shares", "far-number", "missing-as-number", "label-in-public"),
    *("reversed-labels", "labels-do-not-fit", "one-class", "few-records", "shared-records", "repeated-records"),
    *("column-missing", "column-left-out", "opted-out", "follow-up-as-feature"),
)
"""Stable names of findings, the refused ones first; docs/reference/findings.md says what each means."""
_IN_TABLE_ONE: Final = "constant-column", "value-spellings", "tells-the-label", "missing-as-class", "class-at-one-silo"
"""Former findings, which Table 1 by site shows instead."""
_MOST: Final = 3


class Severity(StrEnum):
    """Effect of a finding: nothing runs, the run goes on and reports it, or the settings accept it."""

    REFUSED = "refused"
    SAID = "said"
    ACCEPTED = "accepted"


@dataclass(frozen=True)
class Finding:
    """One finding, about ``column`` and ``silo`` (empty: public, or all); ``lifted`` if accepting it is enough."""

    code: str
    severity: Severity
    message: str
    fix: str
    column: str = ""
    silo: SiloName = ""
    lifted: bool = True

    @property
    def name(self) -> str:
        """Name for ``accept``: ``code``, with the column or the silo concerned."""
        about = self.column or self.silo
        return f"{self.code}:{about}" if about else self.code

    @property
    def sentence(self) -> str:
        """The problem, its place, and the remedy."""
        return f"{self.message}: {self.fix}" if self.fix else self.message


def check_accept(accept: Iterable[str]) -> None:
    """Raise ConfigError for a name that is no finding's, with the nearest one."""
    for name in accept:
        code = name.partition(":")[0]
        if code not in CODES:
            fix = "Table 1 shows it now, so take it out" if code in _IN_TABLE_ONE else suggest(code, CODES)
            raise ConfigError(f"accept: no finding is called {quoted(code)}: {fix}")


def with_accepted(findings: Iterable[Finding], accept: Collection[str]) -> list[Finding]:
    """The findings, where ``CODE``, ``CODE:COLUMN``, ``CODE:SILO`` or ``CODE:COLUMN:SILO`` accepts some.

    Raises ConfigError for a name that is no finding's.
    """
    check_accept(accept)
    found = []
    for each in findings:
        places = ("", f":{each.column}", f":{each.silo}", f":{each.column}:{each.silo}")
        meant = not {each.code + place for place in places}.isdisjoint(accept)
        found.append(replace(each, severity=Severity.ACCEPTED) if meant else each)
    return found


def gathered(findings: Iterable[Finding]) -> list[Finding]:
    """Equal findings as one: that of the first place, which names the others.

    Those without a place stay apart. Equal ones have one remedy, but for the column's name.

    >>> ages = [Finding("other-scale", Severity.SAID, f"'age' at {silo}", "", "age", silo) for silo in "ab"]
    >>> [found.message for found in gathered(ages)]
    ["'age' at a (the same: 'age at b')"]
    """
    kinds: dict[tuple[str, Severity, bool, str], list[Finding]] = {}
    for each in findings:
        remedy = each.fix.replace(each.column, "") if each.column else each.fix
        kinds.setdefault((each.code, each.severity, bool(each.column or each.silo), remedy), []).append(each)
    together = []
    for first, *others in kinds.values():
        places = dict.fromkeys(" at ".join(filter(None, (found.column, found.silo))) for found in [first, *others])
        same = listed([*places][1:], _MOST)
        same = f" (the same: {same})" if len(places) > 1 else f" (and {len(others):,} more)" if others else ""
        together.append(replace(first, message=first.message + same))
    return together


def refuse(findings: Iterable[Finding], where: Mapping[SiloName, object]) -> None:
    """Raise DataError if a finding is refused. ``where`` each silo's table is, and the public set's under no name."""
    if refused := gathered(found for found in findings if found.severity is Severity.REFUSED):
        shown = "; ".join(f"{where[found.silo]}: {found.sentence}" for found in refused[:_MOST])
        more = f"; and {len(refused) - _MOST} more findings" if len(refused) > _MOST else ""
        meant = next((f" (if that is intended, accept {quoted(one.name)})" for one in refused if one.lifted), "")
        raise DataError(f"{shown}{more}{meant}")


@dataclass(frozen=True)
class Redaction:
    """Redaction of findings: cells are quoted in a simulation, without values and small counts at a real silo.

    ``private``: at a real silo, whose findings may be e-mailed. ``settings``: where ``TableSettings`` are written, as
    sentences name it; empty where tables are in memory. ``files``: where keys of each silo's table are written instead.
    ``place``: where a column is that is at no silo. ``others``: what a table is compared with.

    Formal guarantee: with ``private``, what the methods return holds no value of a cell, and no count but zero and
    those of ``rounded``. Percentages are whole, and stand only for counts that may be said.
    """

    private: bool = False
    settings: str = "data.toml"
    place: str = "of the public set"
    others: str = "all other tables"
    files: Mapping[SiloName, Mapping[str, str]] = field(default_factory=dict)

    def number(self, amount: int, noun: str) -> str:
        """An amount of something, such as "fewer than 5 records"."""
        if not self.private or not amount:
            return count(amount, noun)
        return f"fewer than {HIDDEN_BELOW} {noun}s" if amount < HIDDEN_BELOW else f"about {rounded(amount)} {noun}s"

    def share(self, part: int, whole: int) -> str:
        """A part of all cells: "12 of 400 cells"; at a real silo "fewer than 5 of 400 cells", or "10% of its cells"."""
        if part == whole:
            return "all cells"
        if self.private and part >= HIDDEN_BELOW:
            return f"{part / whole:.0%} of its cells"
        if self.private:
            return f"fewer than {HIDDEN_BELOW} of {rounded(whole)} cells"
        return f"{part:,} of {whole:,} cells"

    def example(self, value: str | None, record: int) -> str:
        """Place of one such cell (records are counted from 1), and its value, if that may be quoted."""
        quote = "" if self.private or value is None else f" {quoted(value)}"
        return f", for example{quote} in record {record:,}"

    def values(self, cells: Mapping[str, int]) -> str:
        """Values that several cells hold, in brackets: a rare one may be a person's name or number."""
        few = not self.private and len(cells) <= 20
        shown = [value for value, number in cells.items() if number >= HIDDEN_BELOW and few]
        return f" ({listed(shown, _MOST)})" if shown else ""

    def set(self, key: str, value: str, silo: SiloName = "", part: str = "") -> str:
        """Advice to write a table's setting, or ``part`` of it, at a sentence's end; empty for tables in memory."""
        place = self.files.get(silo, {}).get(key, self.settings)
        return f", or set {key}{part} = {value} in {place}" if place else ""

    def read_as_text(self, column: str) -> str:
        """Advice to let a learner of texts read a column."""
        name = quoted(column).strip("'")
        file = f'text = ["{name}"] in {self.settings}, ' if self.settings else ""
        return f"read it as text ({file}--set text-columns={name} or text_columns=[{quoted(column)}])"

    @property
    def leave_out(self) -> str:
        """Advice not to use a column."""
        if self.private:
            return "ask the coordinator to take the column out of the study"
        named = self.settings and f", or name it under leave-out in {self.settings}"
        return f"take the column out of all tables{named}"

    def at(self, silo: SiloName) -> str:
        """A table's place; an empty silo is the public set."""
        return f"at silo {silo}" if silo else self.place

    def finding(self, code: str, column: str, silo: SiloName, what: str, fix: str) -> Finding:
        """A said finding of a column."""
        return Finding(code, Severity.SAID, f"column {quoted(column)} {self.at(silo)} {what}", fix, column, silo)

    def refused(self, code: str, column: str, silo: SiloName, what: str, fix: str, lifted: bool = True) -> Finding:
        """A refused finding of a column."""
        return replace(self.finding(code, column, silo, what, fix), severity=Severity.REFUSED, lifted=lifted)
