"""``fedct coordinator``: what the coordinator of a study needs beside Flower. One file for each command."""

import typer

from fedct_flwr.cli.lazy import SETTINGS, lazy_commands

HELPS = {
    "init": "Make a coordinator's folder: certificates, a secret, and a place for study, silos' keys and runs.",
    "kit": "Make what silos are sent: a folder each, with study, address and certificates.",
    "start": "Run all of the coordinator: SuperLink, gateway and SuperExec, each without rights to the others' files.",
    "register": "Admit the silos' nodes to the running SuperLink, by their public keys.",
    "list": "Show which silos are registered and online, and when each was last seen.",
    "run": "Run the study with real silos: rounds are shown as they end.",
    "stop": "End a run that is under way.",
}

app = typer.Typer(
    cls=lazy_commands(__name__, HELPS),
    help="For the coordinator of a study: certificates, the silos' nodes, and runs.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)
