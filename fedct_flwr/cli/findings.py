"""Findings of a check of a machine or a silo: a table of checks, the printed form, and the exit code."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, Generic, TypeVar

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedct_flwr.cli.output import Output
from fedct_flwr.datasets.inspection.finding import Finding as DataFinding
from fedct_flwr.datasets.inspection.finding import Severity
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
    message: str
    fix: str = ""
    details: str = ""
    code: str = ""
    """The stable name of a finding about data, with the column concerned: ``unknown-values:sex``."""


def good(message: str) -> Finding:
    """As it should be."""
    return Finding(Mark.GOOD, message)


def warning(message: str, fix: str) -> Finding:
    """Worth knowing, or still to be done."""
    return Finding(Mark.WARNING, message, fix)


def bad(message: str, fix: str, details: object = "") -> Finding:
    """So it cannot work, or must not."""
    return Finding(Mark.BAD, message, fix, str(details))


_MARKS: Final = {Severity.REFUSED: Mark.BAD, Severity.SAID: Mark.WARNING, Severity.ACCEPTED: Mark.GOOD}


def of_data(found: DataFinding) -> Finding:
    """A finding of the inspection of tables."""
    accepted = " (accepted)" if found.severity is Severity.ACCEPTED else ""
    return Finding(_MARKS[found.severity], f"{found.message}{accepted}", found.fix, code=found.name)


class Unread(Exception):
    """A check needs something that cannot be read, which another finding tells already."""


@dataclass(frozen=True)
class Check(Generic[T]):
    """One row of a table of checks.

    Where ``look`` ends with an error of ours, the finding says ``failed`` and ``fix``. The error's own text goes into
    the details; an empty ``failed`` says it, so only where it tells nothing of records. A look that returns None has
    nothing to say.
    """

    title: str
    look: Callable[[T], Iterator[Finding] | None]
    failed: str = ""
    fix: str = ""

    def findings(self, subject: T, more: str) -> Iterator[Finding]:
        """The findings; never raises. ``more`` is the command that explains unexpected ones."""
        try:
            yield from self.look(subject) or ()
        except Unread as what:
            yield Finding(Mark.UNKNOWN, f"{self.title}: not looked at, as {what} cannot be read")
        except Exception as error:
            if self.fix and isinstance(error, FedctError | OSError):
                yield bad(f"{self.title}: {self.failed or error}", self.fix, error)
            else:
                yield bad(f"{self.title}: could not be looked at ({type(error).__name__})", f"{more} says more", error)


def run_checks(out: Output, checks: Sequence[Check[T]], subject: T, *, more: str, details: bool = False) -> int:
    """Look at everything, print each finding as it is known, and what all come to. Returns the exit code."""
    found: list[Finding] = []
    for check in checks:
        with out.doing(f"looking at: {check.title}"):
            findings = list(check.findings(subject, more))
        if not out.as_json:
            for finding in findings:
                show(out.console, finding, details=details)
        found += findings
    wrong = sum(finding.mark is Mark.BAD for finding in found)
    open_ = sum(finding.mark is Mark.WARNING for finding in found)
    document: dict[str, Any] = {
        "bad": wrong,
        "warnings": open_,
        "findings": [
            {"mark": finding.mark.value, "said": finding.message, "fix": finding.fix, "code": finding.code}
            for finding in found
        ],
    }
    out.show(document, f"\n{wrong or 'nothing'} to be put right, {open_ or 'nothing'} to be looked at")
    return FOUND_BAD if wrong else 0


def show(console: Console, finding: Finding, *, details: bool) -> None:
    """One finding, wrapped under itself."""
    sign, plain, style = _SIGNS[finding.mark]
    table = Table.grid(padding=(0, 1))
    sign = sign if console.encoding.lower().startswith("utf") else plain
    table.add_row(f"[{style}]{sign}[/]", escape(finding.message))
    if finding.fix:
        table.add_row("", f"fix: {escape(finding.fix)}")
    if details and finding.details:
        table.add_row("", f"details: {escape(finding.details)}")
    console.print(table)
