"""What a check of a machine or of a silo has found: the findings, how they are printed, and what they come to."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, TypeAlias, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedct_flwr.cli.output import Output
from fedct_flwr.types import FedctError

FOUND_BAD: Final = 3
"""Exit code of a check that has found something bad."""

T = TypeVar("T")


class Mark(StrEnum):
    """How a finding is."""

    GOOD = "good"
    WARNING = "warning"
    """Worth knowing, or still to be done."""
    BAD = "bad"
    """So it cannot work, or must not."""
    UNKNOWN = "unknown"
    """Could not be looked at, because something else is bad."""


_SIGNS: Final = {
    Mark.GOOD: ("✓", "+", "green"),
    Mark.WARNING: ("!", "!", "yellow"),
    Mark.BAD: ("✗", "x", "bold red"),
    Mark.UNKNOWN: ("–", "-", "dim"),
}


@dataclass(frozen=True)
class Finding:
    """One line of a check. ``fix`` says what to do; ``details`` may quote files and are not for others."""

    mark: Mark
    said: str
    fix: str = ""
    details: str = ""
    code: str = ""
    """The stable name of a finding about data, with the column concerned: ``unknown-values:sex``."""


def good(said: str) -> Finding:
    """As it should be."""
    return Finding(Mark.GOOD, said)


def warning(said: str, fix: str) -> Finding:
    """Worth knowing, or still to be done."""
    return Finding(Mark.WARNING, said, fix)


def bad(said: str, fix: str, details: object = "") -> Finding:
    """So it cannot work, or must not."""
    return Finding(Mark.BAD, said, fix, str(details))


def by_amount(said: str, amount: float, least: tuple[float, str], better: tuple[float, str]) -> Finding:
    """Bad below ``least`` and worth knowing below ``better``: amounts, each with what to do where there is less."""
    enough, more = least
    if amount < enough:
        return bad(said, more)
    plenty, more = better
    return warning(said, more) if amount < plenty else good(said)


class Unread(Exception):
    """A probe needs something that cannot be read, which another finding tells already."""


class Failed(Exception):
    """A probe ends with this finding."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding.said)
        self.finding = finding


@contextmanager
def or_bad(said: str, fix: str) -> Iterator[None]:
    """End the probe with a bad finding where an error of ours is raised, whose text goes into the details.

    An empty ``said`` says what the error says: only where that tells nothing of the records.
    """
    try:
        yield
    except (FedctError, OSError) as error:
        raise Failed(bad(said or str(error), fix, error)) from None


Probe: TypeAlias = Callable[[T], Iterator[Finding]]
"""Looks at one thing of the subject of a check."""


def run_checks(
    out: Output, probes: Mapping[str, Probe[T]], subject: T, *, more: str, details: bool = False
) -> list[Finding]:
    """Look at everything, and print each finding as it is known; ``more`` is the command that says more."""
    found: list[Finding] = []
    for title, probe in probes.items():
        with out.doing(f"looking at: {title}"):
            findings = list(look(title, probe, subject, more))
        if not out.as_json:
            for finding in findings:
                show(out.console, finding, details=details)
        found += findings
    return found


def conclude(out: Output, found: Sequence[Finding]) -> int:
    """Print what it all comes to. Returns the exit code."""
    wrong = sum(finding.mark is Mark.BAD for finding in found)
    open_ = sum(finding.mark is Mark.WARNING for finding in found)
    document: dict[str, Any] = {
        "bad": wrong,
        "warnings": open_,
        "findings": [
            {"mark": finding.mark.value, "said": finding.said, "fix": finding.fix, "code": finding.code}
            for finding in found
        ],
    }
    out.show(document, f"\n{wrong or 'nothing'} to be put right, {open_ or 'nothing'} to be looked at")
    return FOUND_BAD if wrong else 0


def look(title: str, probe: Probe[T], subject: T, more: str) -> Iterator[Finding]:
    """What a probe finds; it never raises, and what it did not expect is a finding as well."""
    try:
        yield from probe(subject)
    except Failed as end:
        yield end.finding
    except Unread as what:
        yield Finding(Mark.UNKNOWN, f"{title}: not looked at, as {what} cannot be read")
    except Exception as error:
        yield bad(f"{title}: could not be looked at ({type(error).__name__})", f"{more} says more", error)


def show(console: Console, finding: Finding, *, details: bool) -> None:
    """One finding, wrapped under itself."""
    sign, plain, style = _SIGNS[finding.mark]
    table = Table.grid(padding=(0, 1))
    sign = sign if console.encoding.lower().startswith("utf") else plain
    table.add_row(f"[{style}]{sign}[/]", escape(finding.said))
    if finding.fix:
        table.add_row("", f"fix: {escape(finding.fix)}")
    if details and finding.details:
        table.add_row("", f"details: {escape(finding.details)}")
    console.print(table)
