"""A finding of the inspection: its stable name, where it is, what is wrong, and what to do."""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Final

from fedct_flwr.text.printable import listed, quoted
from fedct_flwr.text.suggest import suggest
from fedct_flwr.types import ConfigError, DataError, SiloName

CODES: Final = (
    *("number-as-text", "dates-as-text", "one-per-record", "index-column", "unknown-values", "label-spellings"),
    *("no-common-class", "labels-in-a-cell", "number-to-predict", "many-classes", "unreadable"),
    *("few-of-class", "other-scale", "class-shares", "out-of-range", "far-number", "constant-column"),
    *("missing-as-number", "value-spellings", "tells-the-label", "label-in-public", "reversed-labels"),
    *("one-class", "class-at-one-silo", "few-records", "shared-records", "repeated-records"),
)
"""Stable names of findings, the refused ones first; docs/reference/findings.md says what each means."""

_GONE: Final[dict[str, str]] = {
    **dict.fromkeys(("public-records", "test-records", "contradicting-labels"), "'shared-records' covers it"),
    "unrelated-labels": "'reversed-labels' covers opposite labels",
    **dict.fromkeys(
        (
            *(
                "missing-values",
                "repeated-number",
                "rounded-numbers",
                "unequal-sizes",
                "many-categories",
                "few-numbers",
            ),
            *("codes-as-numbers", "record-number", "empty-texts", "repeated-text", "two-scales", "values-in-a-cell"),
            *("wrong-encoding", "heading-row", "summary-row", "pasted-cells", "dates-as-numbers", "spreadsheet-words"),
            *("filled-down", "missing-as-class", "ordinal-classes", "survival", "slipped-rows", "unrelated-rows"),
            *("contradicting-columns", "swapped-columns", "reversed-column", "unrelated-column"),
        ),
        "no check replaces it, and the table by site of `fedct inspect` shows what columns hold",
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
    ["'age' at a (the same: 'age at b')"]
    """
    groups: dict[tuple[str, Severity], list[Finding]] = {}
    for found in findings:
        groups.setdefault((found.code, found.severity), []).append(found)
    together = []
    for first, *others in groups.values():
        places = dict.fromkeys(" at ".join(filter(None, (found.column, found.silo))) for found in [first, *others])
        same = (
            f" (the same: {listed([*places][1:], _MOST_LISTED)})" if len(places) > 1 else f" (and {len(others):,} more)"
        )
        together.append(replace(first, said=first.said + (same if others else "")))
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
