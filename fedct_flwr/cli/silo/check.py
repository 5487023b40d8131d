"""``fedct silo check``: what is ready and what is not, safe to e-mail."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import typer

from fedct_flwr.cli.doctor import required, this_python
from fedct_flwr.cli.findings import Finding, Probe, Unread, bad, conclude, good, run_checks
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.cli.silo import checks, checks_network, checks_records
from fedct_flwr.cli.silo.checks import Silo
from fedct_flwr.cli.silo.folder import Folder, FolderOption, silo_file


def settings(silo: Silo) -> Iterator[Finding]:
    """Whether ``silo.toml`` can be read."""
    try:
        config = silo.config
    except Unread:
        # Why may quote the mapping, in which labels stand as the hospital writes them.
        yield bad("silo.toml cannot be read", "fedct silo status says what is wrong")
    else:
        yield good(f"silo.toml: silo {config.silo}")


PROBES: Final[Mapping[str, Probe[Silo]]] = {
    "Python": lambda _: this_python(),
    "packages": lambda _: required(checks.PACKAGES),
    "settings": settings,
    "disk": checks.disk,
    "study": checks_records.study,
    "records": checks_records.records,
    "data": checks_records.inspection,
    "classes": checks_records.class_counts,
    "duplicates": checks_records.duplicates,
    "learner": checks_records.learner,
    "privacy": checks.privacy,
    "limits": checks.shared_limits,
    "students": checks.students,
    "egress key": checks.egress_key,
    "egress log": checks.egress_log,
    "approval": checks.approval,
    "file modes": checks.modes,
    "link": checks_network.link,
}

# What the SuperNode needs and an agent in a container has not: neither a way out nor the node's key and ca.crt.
NETWORK_PROBES: Final[Mapping[str, Probe[Silo]]] = {
    "node key": checks.node_key,
    "certificates": checks_network.certificates,
    "coordinator": checks_network.coordinator,
    "SuperNode": checks_network.supernode,
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
    json_: Json = False,
) -> None:
    """Look at everything a silo needs, and say what to do where something is missing.

    What it prints names no record, no label as the file writes it and no path outside the silo's folder, and hides
    small counts: it is safe to e-mail. Exit code 3 if anything is bad.
    """
    out = Output(as_json=json_)
    probes = {**PROBES, **({} if offline else NETWORK_PROBES)}
    subject = Silo(silo_file(folder, folder_option))
    found = run_checks(out, probes, subject, more="fedct silo check --details", details=details)
    if details:
        out.say("\nThis may quote files: do not e-mail it.")
    if code := conclude(out, found):
        raise typer.Exit(code)
