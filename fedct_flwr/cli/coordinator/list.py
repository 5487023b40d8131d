"""``fedct coordinator list``: which silos the SuperLink knows, and when it last heard from each."""

from datetime import UTC, datetime
from typing import Any, Final

from rich.markup import escape
from rich.table import Table

from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder
from fedct_flwr.cli.coordinator.nodes_of import nodes_of
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.flower.nodes import Node
from fedct_flwr.hospital.link import span
from fedct_flwr.text.printable import in_shell

_LINES: Final = {
    "online": "[green]online[/]",
    "offline": "[yellow]offline[/]",
    "waiting": "[yellow]never seen[/]",
    "unregistered": "[bold red]not registered: fedct coordinator register[/]",
    "invited": "[yellow]invited, its key has not come[/]",
    "unknown": "[yellow]nobody can tell[/]",
}


def list(folder: Folder, json_: Json = False) -> None:  # noqa: A001 - the command's name
    """Show by name which silos the SuperLink knows, which are online, and when it last heard from each.

    A silo that falls silent counts as online for a minute more.
    """
    out = Output(as_json=json_)
    coordinator = CoordinatorFolder.open(folder)
    current, former, others = nodes_of(coordinator)
    silos = [facts_of(name, node) for name, node in current.items()]
    document = {"silos": silos, "others": others}
    table = Table.grid(padding=(0, 2))
    for silo in silos:
        table.add_row(f"[bold]{escape(silo['silo'])}[/]", line_of(silo))
    if not silos:
        out.say(f"there is no key in {coordinator.silos}")
    out.show(document, *([table] if silos else []))
    for name in former:
        out.say(f"{name} may still use a former key: fedct coordinator rotate {in_shell(folder)} {name}")
    if others:
        out.say(f"the SuperLink also knows keys that are not in silos/: {others}")


def line_of(silo: dict[str, Any]) -> str:
    """The state of a silo in words."""
    seen = f", last seen {span(silo['seconds'])} ago" if silo["seconds"] is not None else ""
    return f"{_LINES[silo['state']]}{seen}"


def facts_of(name: str, node: Node | None, *, known: bool = True, invited_only: bool = False) -> dict[str, Any]:
    """What there is to say of a silo. ``known``: whether the SuperLink was asked; ``invited_only``: it has no key."""
    if not known or node is None or node.seen is None:
        missing = "unregistered" if node is None else "waiting"
        state = "invited" if invited_only else missing if known else "unknown"
        return {"silo": name, "state": state, "seen": None, "seconds": None}
    seconds = max(0.0, (datetime.now(UTC) - node.seen).total_seconds())
    state = "online" if node.online else "offline"
    return {
        "silo": name,
        "state": state,
        "seen": node.seen.isoformat(timespec="seconds"),
        "seconds": seconds,
    }
