"""``fedct coordinator status`` and ``metrics``: the coordinator at a glance; changes nothing."""

import os
import shutil
import ssl
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import typer
from rich.markup import escape
from rich.table import Table

from fedct_flwr.cli.certificates import days_of
from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder
from fedct_flwr.cli.coordinator.invite import files_of, invited
from fedct_flwr.cli.coordinator.register import nodes_of
from fedct_flwr.cli.output import Json, Output, print_metrics
from fedct_flwr.hospital.link import LinkError, call, span
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.text.printable import in_shell
from fedct_flwr.types import RunError
from fedct_flwr.version import __version__

SOON: Final = 30
"""Days: a certificate that expires within them is to be renewed."""
FEW_BYTES: Final = 1 << 30
"""Free bytes of a disk that is nearly full."""

_LINES: Final = {
    "online": "[green]SuperNode online[/]",
    "offline": "[yellow]offline[/]",
    "waiting": "[yellow]never seen[/]",
    "unregistered": "[bold red]not registered: fedct coordinator register[/]",
    "invited": "[yellow]invited, its key has not come[/]",
    "unknown": "[yellow]unknown, as the SuperLink does not answer[/]",
}


def status(folder: Folder, json_: Json = False) -> None:
    """Show the coordinator at a glance: SuperLink, gateway, silos, days that certificates last, database, disk.

    Exit code 4, after the document, if the SuperLink or the gateway does not answer.
    """
    out = Output(as_json=json_)
    report = facts(CoordinatorFolder.open(folder))
    out.show(report, _table(report))
    if run := report["interrupted"]:
        again = f"fedct coordinator run {in_shell(folder)} --resume {in_shell(Path(run))}"
        out.warn(f"the newest run was interrupted: go on with '{again}'")
    if not report["reachable"] or report["gateway"]["trouble"]:
        raise typer.Exit(RunError.exit_code)


def _gateway(coordinator: CoordinatorFolder) -> dict[str, str | bool]:
    """Where the gateway is, and what is wrong with it. FEDCT_GATEWAY is its address inside containers."""
    address = os.environ.get("FEDCT_GATEWAY") or coordinator.config().gateway
    if not address:
        return {"address": "", "trouble": "", "answers": False}
    context = ssl.create_default_context(cafile=str(coordinator.ca))
    # By its own certificate authority alone: inside, it has another name than silos use.
    context.check_hostname = False
    error = call(address, context).error
    # It answers, if only that no silo is calling.
    answers = error in ("", LinkError.CERTIFICATE)
    return {"address": address, "trouble": "" if answers else error, "answers": answers}


def facts(coordinator: CoordinatorFolder) -> dict[str, Any]:
    """All that there is to say. Raises ConfigError for a folder that cannot be read."""
    try:
        current, others = nodes_of(coordinator)
        trouble = ""
    except RunError as error:
        current, others, trouble = {}, 0, str(error)
    keys, now, silos = coordinator.keys(), datetime.now(UTC), []
    for name in invited(coordinator):
        node = current.get(name)
        seen = node.seen if node else None
        if node and seen:
            state = "online" if node.online else "offline"
        elif name not in keys:
            state = "invited"
        else:
            state = "unknown" if trouble else "waiting" if node else "unregistered"
        silos.append(
            {
                "silo": name,
                "state": state,
                "seen": seen.isoformat(timespec="seconds") if seen else None,
                "seconds": max(0.0, (now - seen).total_seconds()) if seen else None,
                "certificate_days": days_of(files_of(coordinator, name)["client.crt"]),
            }
        )
    return {
        "version": __version__,
        "superlink": coordinator.address(),
        "reachable": not trouble,
        "trouble": trouble,
        "gateway": _gateway(coordinator),
        "silos": silos,
        "others": others,
        "interrupted": _interrupted(coordinator.runs),
        "certificate_days": {
            name: days_of(path)
            for name, path in (
                ("server", coordinator.server_certificate),
                ("authority", coordinator.ca),
                ("authority of silos", coordinator.clients_ca),
            )
        },
        "database_bytes": sum(path.stat().st_size for path in coordinator.state.glob("*") if path.is_file()),
        # Each may be a disk of its own, above all in containers.
        "free_bytes": min(
            shutil.disk_usage(path).free
            for path in (coordinator.path, coordinator.state, coordinator.runs)
            if path.exists()
        ),
    }


def _interrupted(runs: Path) -> str | None:
    """The folder of the newest run, if it has no result and no process is at work on it."""
    newest = max(runs.glob("*/config.json"), key=lambda path: path.stat().st_mtime_ns, default=None)
    return str(newest.parent) if newest and RunFolder(newest.parent).was_interrupted() else None


def _table(report: dict[str, Any]) -> Table:
    table = Table.grid(padding=(0, 2))
    reachable = (
        f"[green]answers[/] at {report['superlink']}"
        if report["reachable"]
        else f"[bold red]{escape(report['trouble'])}[/]"
    )
    table.add_row("SuperLink", reachable)
    if address := report["gateway"]["address"]:
        wrong = report["gateway"]["trouble"]
        answers = f"[bold red]does not answer at {address} ({wrong}): start it[/]" if wrong else "[green]answers[/]"
        table.add_row("gateway", answers)
    for silo in report["silos"]:
        seen = f", last seen {span(silo['seconds'])} ago" if silo["seconds"] is not None else ""
        state = f"{_LINES[silo['state']]}{seen}{_lasting(silo['certificate_days'])}"
        table.add_row("silo", f"[bold]{escape(silo['silo'])}[/]: {state}")
    for name, days in report["certificate_days"].items():
        table.add_row("certificate", f"{name}{_lasting(days)}")
    table.add_row("database", f"{report['database_bytes'] / 1e6:,.1f} MB")
    few = report["free_bytes"] < FEW_BYTES
    free = f"{report['free_bytes'] / 1e9:,.1f} GB free"
    table.add_row("disk", f"[bold red]{free}: make room[/]" if few else free)
    table.add_row("version", f"fedct-flwr {report['version']}")
    return table


def _lasting(days: int | None) -> str:
    if days is None:
        return ", [yellow]no certificate[/]"
    if days < 0:
        return ", [bold red]certificate expired[/]"
    return f", certificate: [yellow]{days:,} days[/]" if days < SOON else f", certificate: {days:,} days"


def metrics(folder: Folder) -> None:
    """Give Prometheus the numbers of fedct coordinator status: silos, certificates, database, disk.

    A timer can write them for node_exporter's textfile collector.
    """
    coordinator = CoordinatorFolder.open(folder)
    print_metrics(lambda: facts(coordinator))
