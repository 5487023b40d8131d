"""``fedct silo check``: what is ready and what is not, safe to e-mail."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from fedct_flwr.cli.silo import (
    probes_keys,
    probes_machine,
    probes_network,
    probes_privacy,
    probes_records,
    probes_students,
)
from fedct_flwr.cli.silo.findings import Finding, Mark, Probe, Silo, Unread, bad, good
from fedct_flwr.cli.silo.folder import Folder, FolderOption, silo_file
from fedct_flwr.types import DataError


def settings(silo: Silo) -> Iterator[Finding]:
    """Whether ``silo.toml`` can be read."""
    try:
        config = silo.config
    except Unread:
        # Why may quote the mapping, in which labels stand as the hospital writes them.
        yield bad("silo.toml cannot be read", "fedct silo status says what is wrong")
    else:
        yield good(f"silo.toml: silo {config.silo}")


PROBES: Final[Mapping[str, Probe]] = {
    "Python": probes_machine.python,
    "packages": probes_machine.packages,
    "settings": settings,
    "disk": probes_machine.disk,
    "device": probes_machine.device,
    "study": probes_records.study,
    "records": probes_records.records,
    "classes": probes_records.class_counts,
    "duplicates": probes_records.duplicates,
    "learner": probes_records.learner,
    "privacy": probes_privacy.privacy,
    "students": probes_students.students,
    "egress key": probes_keys.egress_key,
    "egress log": probes_keys.egress_log,
    "approval": probes_keys.approval,
    "file modes": probes_keys.modes,
    "link": probes_network.link,
}

# What the SuperNode needs and an agent in a container has not: neither a way out nor the node's key and ca.crt.
NETWORK_PROBES: Final[Mapping[str, Probe]] = {
    "node key": probes_keys.node_key,
    "certificate": probes_network.certificate,
    "coordinator": probes_network.coordinator,
    "proxy": probes_network.proxies,
    "SuperNode": probes_network.supernode,
}

_SIGNS: Final = {
    Mark.GOOD: ("✓", "+", "green"),
    Mark.WARNING: ("!", "!", "yellow"),
    Mark.BAD: ("✗", "x", "bold red"),
    Mark.UNKNOWN: ("–", "-", "dim"),
}


def check(
    folder: Folder = None,
    folder_option: FolderOption = None,
    offline: Annotated[
        bool,
        typer.Option(
            "--offline",
            help="Leave out what only the SuperNode needs, and make no connection, as where the agent has no way out.",
        ),
    ] = False,
    details: Annotated[
        bool, typer.Option("--details", help="Say more about errors; this may quote files, so do not e-mail it.")
    ] = False,
) -> None:
    """Look at everything a silo needs, and say what to do where something is missing.

    What it prints names no record, no label as the file writes it and no path outside the silo's folder, and hides
    small counts: it is safe to e-mail. Exit code 3 if anything is bad.
    """
    file = silo_file(folder, folder_option)
    console = Console(highlight=False)
    silo, found = Silo(file), []
    for title, probe in {**PROBES, **({} if offline else NETWORK_PROBES)}.items():
        with console.status(f"looking at: {title}"):
            findings = list(look(title, probe, silo))
        for finding in findings:
            show(console, finding, details=details)
        found += findings
    if details:
        console.print("\nThis may quote files: do not e-mail it.")
    wrong = sum(finding.mark is Mark.BAD for finding in found)
    open_ = sum(finding.mark is Mark.WARNING for finding in found)
    console.print(f"\n{wrong or 'nothing'} to be put right, {open_ or 'nothing'} to be looked at")
    if wrong:
        raise typer.Exit(DataError.exit_code)


def look(title: str, probe: Probe, silo: Silo) -> Iterator[Finding]:
    """What a probe finds; it never raises, and what it did not expect is a finding as well."""
    try:
        yield from probe(silo)
    except Unread as what:
        yield Finding(Mark.UNKNOWN, f"{title}: not looked at, as {what} cannot be read")
    except Exception as error:
        yield bad(
            f"{title}: could not be looked at ({type(error).__name__})", "fedct silo check --details says more", error
        )


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
