"""``fedct coordinator list``: which silos the SuperLink knows, and when it last heard from each."""

from datetime import UTC, datetime
from typing import Final

from rich.markup import escape
from rich.table import Table

from fedct_flwr.cli.coordinator.folder import CoordinatorFolder, Folder
from fedct_flwr.cli.coordinator.register import node_key
from fedct_flwr.cli.documents import ListedSilo, Silos
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.engine.nodes import Node, list_nodes
from fedct_flwr.hospital.link import span

_LINES: Final = {
    "online": "[green]online[/]",
    "offline": "[yellow]offline[/]",
    "waiting": "[yellow]never seen[/]",
    "unregistered": "[bold red]not registered: fedct coordinator register[/]",
}


def list(folder: Folder, json_: Json = False) -> None:  # noqa: A001 - the command's name
    """Show by name which silos the SuperLink knows, which of them are online, and when it last heard from each.

    A silo that falls silent counts as online for a minute more.
    """
    out = Output(as_json=json_)
    coordinator = CoordinatorFolder.open(folder)
    keys = {name: node_key(path) for name, path in coordinator.keys().items()}
    nodes = {node.key: node for node in list_nodes(coordinator.address(), coordinator.ca)}
    now = datetime.now(UTC)
    silos = [_facts(name, nodes.get(key), now) for name, key in keys.items()]
    document: Silos = {"silos": silos, "others": sum(key not in keys.values() for key in nodes)}
    table = Table.grid(padding=(0, 2))
    for silo in silos:
        seen = f"last seen {span(silo['seconds'])} ago" if silo["seconds"] is not None else ""
        table.add_row(f"[bold]{escape(silo['silo'])}[/]", _LINES[silo["state"]], seen)
    if not silos:
        out.say(f"there is no key in {coordinator.silos}")
    out.show(document, *([table] if silos else []))
    if document["others"]:
        out.say(f"the SuperLink also knows keys that are not in silos/: {document['others']}")


def _facts(name: str, node: Node | None, now: datetime) -> ListedSilo:
    """What there is to say of a silo."""
    if node is None or node.seen is None:
        return {"silo": name, "state": "unregistered" if node is None else "waiting", "seen": None, "seconds": None}
    seconds = max(0.0, (now - node.seen).total_seconds())
    state = "online" if node.online else "offline"
    return {"silo": name, "state": state, "seen": node.seen.isoformat(timespec="seconds"), "seconds": seconds}
