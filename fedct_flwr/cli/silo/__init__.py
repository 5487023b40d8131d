"""``fedct silo``: all that a silo needs, from its settings to the proof of what has left."""

from fedct_flwr.cli.lazy import lazy_group

HELPS = {
    "join": "Make a silo's folder from the coordinator's invitation.",
    "init": "Make a silo's folder by hand: settings, keys and the study.",
    "renew": "Take certificates from a new invitation, for a silo that has joined.",
    "rotate": "Make a new key for the SuperNode, by which the coordinator knows this silo.",
    "check": "Say what is ready and what is not, in a form that is safe to e-mail.",
    "audit": "Rehearse attacks on this silo's labels before approval; nothing leaves.",
    "approve": "Read what would leave this silo, and allow it.",
    "connect": "Run Flower's SuperNode, the way out; it needs no data.",
    "start": "Run the silo's agent: it trains, and lets approved labels out.",
    "carry": "For an air gap: turn questions into sealed files, and hand answers back.",
    "answer": "For an air gap: answer one sealed question, through the same gate.",
    "status": "Show what the agent does, what has left and what is left of the limits.",
    "verify": "Prove that the log of all that left is whole.",
    "released": "Print the labels that left, as a table.",
    "predict": "Use the silo's own trained model on new records.",
    "metrics": "Give Prometheus the numbers of fedct silo status: limits, budgets, contact, certificates, disk.",
    "revoke": "Withdraw the approval: from now on nothing leaves.",
}

MODULES = {
    "answer": "start",
    "carry": "connect",
    "metrics": "status_report",
    "released": "verify",
    "renew": "join",
    "revoke": "approve",
    "rotate": "join",
}

app = lazy_group(
    __name__, HELPS, MODULES, "For a silo: what would leave it, under which limits, and the proof of what has left."
)
