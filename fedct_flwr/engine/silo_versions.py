"""Of which version each silo's software is, as its SuperNode says when it is let in.

The SuperLink keeps it in a table of its own in Flower's database, so that it outlasts a restart and is in a backup, and
adds it to each node in its answer to ``ListNodes``. What a silo says of itself is believed: it decides nothing.

All of Flower's insides that are touched are in ``install``, ``noted`` and ``_number``.
"""

import importlib
from collections.abc import Callable
from functools import partial
from typing import Any, Final

from fedct_flwr.hospital.short_form import attach, attached, read_version

_MADE: Final = "CREATE TABLE IF NOT EXISTS fedct_silo_version (node_id BIGINT PRIMARY KEY, version TEXT NOT NULL)"
_DROPPED: Final = "DELETE FROM fedct_silo_version WHERE node_id = :node"
_NOTED: Final = (
    "INSERT INTO fedct_silo_version VALUES (:node, :version) "
    "ON CONFLICT (node_id) DO UPDATE SET version = excluded.version"
)
_READ: Final = "SELECT node_id, version FROM fedct_silo_version"


def install() -> None:
    """From now on this process's SuperLink notes versions, and tells them to the coordinator."""
    fleet: Any = importlib.import_module("flwr.superlink.servicer.fleet.fleet_handlers")
    control: Any = importlib.import_module("flwr.superlink.servicer.control.control_handlers")
    for module, name, around in ((fleet, "activate_node", note), (control, "list_nodes", tell)):
        setattr(module, name, partial(around, getattr(module, name)))


def note(flowers: Callable[..., Any], request: Any, state: Any) -> Any:
    """Let a silo in, and note its version; none for Flower's own SuperNode. Raises what Flower raises."""
    answer = flowers(request=request, state=state)
    version, node = read_version(attached(request)), _number(answer.node_id)
    with state.session():
        state.query(_MADE)
        if version:
            state.query(_NOTED, {"node": node, "version": version})
        else:
            state.query(_DROPPED, {"node": node})
    return answer


def tell(flowers: Callable[..., Any], request: Any, account: Any, state: Any) -> Any:
    """All nodes, each with its version where it has said one. Raises what Flower raises."""
    answer = flowers(request, account, state)
    versions = noted(state)
    for node in answer.nodes_info:
        if version := versions.get(node.node_id):
            attach(node, version.encode())
    return answer


def noted(state: Any) -> dict[int, str]:
    """Versions by node."""
    link: Any = importlib.import_module("flwr.server.superlink.linkstate.sql_linkstate")
    with state.session():
        state.query(_MADE)
        return {link.int64_to_uint64(row["node_id"]): row["version"] for row in state.query(_READ)}


def _number(node: int) -> int:
    """As the database has it, which knows no numbers without a sign."""
    link: Any = importlib.import_module("flwr.server.superlink.linkstate.sql_linkstate")
    return int(link.uint64_to_int64(node))
