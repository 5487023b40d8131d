"""``fedct``: subcommands, and errors as one sentence with an exit code.

Exit codes: 0 done, 1 unexpected, 2 settings, 3 data, 4 the run failed, 5 a learner failed,
129 hung up, 130 interrupted, 143 terminated.
"""

import signal
import sys

import typer
from rich.console import Console
from rich.markup import escape

from fedct_flwr import __version__
from fedct_flwr.cli import coordinator, silo
from fedct_flwr.cli.lazy import SETTINGS, lazy_commands
from fedct_flwr.types import FedctError, RunError

HELPS = {
    "simulate": "Simulate a federation on Flower's engine: silos co-train, and a table tells what each has gained.",
    "predict": "Use a study's global model on new records.",
    "export": "Write a study's global model as ONNX, for programs without Python.",
    "demo": "Make the folders of a demonstration: a coordinator, and four hospitals with data, keys and approvals.",
    "privacy-sheet": "Write one page on what is promised of privacy, what was spent, and what is not covered.",
    "budget": "Estimate the quality of the labels that a privacy budget leaves, by mechanism, before anything runs.",
}

app = typer.Typer(
    name="fedct",
    cls=lazy_commands("fedct_flwr.cli", HELPS),
    help="Federated co-training on Flower: silos share class labels on a public set, never data or models.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)
app.add_typer(coordinator.app, name="coordinator")
app.add_typer(silo.app, name="silo")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"fedct-flwr {__version__}")
        raise typer.Exit


@app.callback()
def options(version: bool = typer.Option(False, "--version", callback=_print_version, is_eager=True)) -> None:
    """Federated co-training on Flower: silos share class labels on a public set, never data or models."""


def run() -> None:
    """Entry point."""
    # Asked to end, end in order: what was started is stopped on the way out.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):  # Windows knows no SIGHUP
            signal.signal(getattr(signal, name), lambda number, frame: sys.exit(128 + number))
    try:
        app()
    except FedctError as error:
        Console(stderr=True, soft_wrap=True).print(f"[bold red]Error:[/] {escape(str(error))}", highlight=False)
        sys.exit(error.exit_code)
    except OSError as error:
        # A disk that is full or a folder that may not be written to, on this side of the engine.
        Console(stderr=True, soft_wrap=True).print(f"[bold red]Error:[/] {escape(str(error))}", highlight=False)
        sys.exit(RunError.exit_code)
