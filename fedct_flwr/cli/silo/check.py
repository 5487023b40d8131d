"""``fedct silo check``: what is ready and what is not, safe to e-mail."""

from collections.abc import Iterator, Mapping
from typing import Annotated, Final

import typer

from fedct_flwr.cli.findings import conclude, run_checks
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.cli.silo import (
    probes_keys,
    probes_limits,
    probes_machine,
    probes_network,
    probes_privacy,
    probes_records,
    probes_students,
)
from fedct_flwr.cli.silo.findings import Finding, Probe, Silo, Unread, bad, good
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


PROBES: Final[Mapping[str, Probe]] = {
    "Python": probes_machine.python,
    "packages": probes_machine.packages,
    "settings": settings,
    "disk": probes_machine.disk,
    "device": probes_machine.device,
    "study": probes_records.study,
    "records": probes_records.records,
    "data": probes_records.inspection,
    "classes": probes_records.class_counts,
    "duplicates": probes_records.duplicates,
    "learner": probes_records.learner,
    "privacy": probes_privacy.privacy,
    "limits": probes_limits.shared_limits,
    "students": probes_students.students,
    "egress key": probes_keys.egress_key,
    "egress log": probes_keys.egress_log,
    "approval": probes_keys.approval,
    "file modes": probes_keys.modes,
    "address": probes_network.address,
    "link": probes_network.link,
    "agent": probes_network.contact,
}

# What the SuperNode needs and an agent in a container has not: neither a way out nor the node's key and ca.crt.
NETWORK_PROBES: Final[Mapping[str, Probe]] = {
    "node key": probes_keys.node_key,
    "certificate": probes_network.certificate,
    "client certificate": probes_network.client_certificate,
    "coordinator": probes_network.coordinator,
    "proxy": probes_network.proxies,
    "SuperNode": probes_network.supernode,
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
