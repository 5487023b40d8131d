"""``fedct silo``: all that a silo needs, from its settings to the proof of what has left."""

from fedct_flwr.cli.lazy import lazy_group

COMMANDS = (
    "join", "init", "check", "audit", "approve", "connect", "start", "carry", "answer", "status",
    "verify", "released", "opt-out", "predict", "metrics", "revoke", "dpia",
)  # fmt: skip
MODULES = {
    "answer": "start",
    "carry": "connect",
    "metrics": "status_report",
    "released": "verify",
    "revoke": "approve",
}

app = lazy_group(
    __name__, COMMANDS, MODULES, "For a silo: what would leave it, under which limits, and the proof of what has left."
)
