"""``fedct silo``: all that a silo needs, from its settings to the proof of what has left. One file for each command."""

import typer

from fedct_flwr.cli.lazy import SETTINGS, lazy_commands

HELPS = {
    "init": "Make a silo's folder: settings, keys and the study.",
    "check": "Say what is ready and what is not, in a form that is safe to e-mail.",
    "approve": "Read what would leave this silo, and allow it.",
    "connect": "Run Flower's SuperNode, the way out; it needs no data.",
    "start": "Run the silo's agent: it trains, and lets approved labels out.",
    "status": "Show what the agent does, what has left and what is left of the limits.",
    "verify": "Prove that the log of all that left is whole.",
    "predict": "Use the silo's own trained model on new records.",
    "revoke": "Withdraw the approval: from now on nothing leaves.",
}

app = typer.Typer(
    cls=lazy_commands(__name__, HELPS),
    help="For a silo: what would leave it, under which limits, and the proof of what has left.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)
