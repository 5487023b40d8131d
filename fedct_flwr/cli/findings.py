"""Findings of a check of tables or of a silo, and their printed form."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedct_flwr.datasets.inspection import Finding as DataFinding
from fedct_flwr.datasets.inspection import Severity

FOUND_BAD: Final = 3
"""Exit code of a check that has found something bad."""


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
class CheckFinding:
    """One line of a check. ``fix`` says what to do; ``details`` may quote files and are not for others."""

    mark: Mark
    message: str
    fix: str = ""
    details: str = ""
    code: str = ""
    """The stable name of a finding about data, with the column concerned: ``unknown-values:sex``."""


def good(message: str) -> CheckFinding:
    """As it should be."""
    return CheckFinding(Mark.GOOD, message)


def warning(message: str, fix: str) -> CheckFinding:
    """Worth knowing, or still to be done."""
    return CheckFinding(Mark.WARNING, message, fix)


def bad(message: str, fix: str, details: object = "") -> CheckFinding:
    """So it cannot work, or must not."""
    return CheckFinding(Mark.BAD, message, fix, str(details))


_MARKS: Final = {Severity.REFUSED: Mark.BAD, Severity.SAID: Mark.WARNING, Severity.ACCEPTED: Mark.GOOD}


def of_data(found: DataFinding) -> CheckFinding:
    """A finding of the inspection of tables."""
    accepted = " (accepted)" if found.severity is Severity.ACCEPTED else ""
    return CheckFinding(_MARKS[found.severity], f"{found.message}{accepted}", found.fix, code=found.name)


def show(console: Console, finding: CheckFinding, *, details: bool) -> None:
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
