"""A coordinator's silos by name, as the SuperLink knows them."""

from fedct_flwr.cli.coordinator.folder import CoordinatorFolder
from fedct_flwr.cli.coordinator.register import node_key
from fedct_flwr.flower.nodes import Node, list_nodes


def nodes_of(folder: CoordinatorFolder) -> tuple[dict[str, Node | None], dict[str, list[Node]], int]:
    """Each silo's node, None where it is not registered; each silo's former nodes; how many nodes are nobody's.

    Raises Unreachable, Garbled, RunError or ConfigError.
    """
    nodes = {node.key: node for node in list_nodes(folder.address(), folder.ca)}
    current = {name: nodes.pop(node_key(path), None) for name, path in folder.keys().items()}
    former: dict[str, list[Node]] = {}
    for path in folder.former_keys():
        if node := nodes.pop(node_key(path), None):
            former.setdefault(name_of_former(path.name), []).append(node)
    return current, former, len(nodes)


def name_of_former(file: str) -> str:
    """The silo whose former key lies in ``NAME@N.pub``.

    >>> name_of_former("zurich@2.pub")
    'zurich'
    """
    return file.rpartition("@")[0]
