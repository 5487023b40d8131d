"""``fedct coordinator``: commands for the coordinator of a study."""

from fedct_flwr.cli.lazy import lazy_group

COMMANDS = (
    "init", "count", "draw", "invite", "register", "status", "unregister", "metrics", "run", "stop",
)  # fmt: skip
MODULES = {"metrics": "status", "stop": "run", "unregister": "register"}

app = lazy_group(
    __name__, COMMANDS, MODULES, "For the coordinator of a study: certificates, the silos' nodes, and runs."
)
