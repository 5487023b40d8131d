"""``fedct``: subcommands, and errors as one sentence with an exit code.

| exit code | means |
| --- | --- |
| 0 | done |
| 1 | declined (``silo approve``, ``silo revoke``), not healthy (``silo status``), or an unexpected error |
| 2 | a setting or an option is missing, misspelled or out of range |
| 3 | data or a file cannot be used, or a check (``inspect``, ``silo check``) has found something bad |
| 4 | the run failed, or the disk is full; ``silo verify``: the log is not intact |
| 5 | a learner failed |
| 129, 130, 143 | hung up, interrupted (Ctrl-C), terminated |
"""

import os
import signal
import sys
import traceback
from types import TracebackType
from typing import Final, NoReturn

import typer
from rich.markup import escape

from fedct_flwr.cli import coordinator, silo
from fedct_flwr.cli.lazy import SETTINGS, lazy_commands
from fedct_flwr.cli.output import echo
from fedct_flwr.process_end import end_process, learners_at_work
from fedct_flwr.text.console import console
from fedct_flwr.text.printable import escape_warnings, printable
from fedct_flwr.types import ConfigError, FedctError, RunError
from fedct_flwr.version import __version__

_REAL = "Real silos"
PANELS = {
    **dict.fromkeys(("simulate", "compare", "inspect", "report"), "Simulate"),
    "demo": _REAL,
    **dict.fromkeys(("predict", "evaluate", "calibrate", "export"), "Models"),
    **dict.fromkeys(("audit", "privacy-sheet"), "Privacy"),
}
"""Commands, each with the title below which help shows it."""

GONE: Final = {
    ("simulate", "--watch"): "the run's report.html is written again after each round: open that file",
    ("audit", "--planted"): "candidates always stand in the public set: leave it out",
    ("audit", "--not-planted"): "the coordinator sees nothing of records that are not public: leave it out",
    ("audit", "--forge"): "an audit plays a coordinator that follows the protocol: leave it out",
}
"""Commands and their options that went, each with what serves now."""

EPILOG = """Begin with 'fedct simulate': four real hospitals, in a minute.

Exit codes: 0 done; 1 declined, or an unexpected error; 2 settings; 3 data, or a check that found something bad;
4 the run failed; 5 a learner failed; 130 interrupted.
"""

app = typer.Typer(
    name="fedct",
    cls=lazy_commands("fedct_flwr.cli", PANELS, {"export": "predict", "calibrate": "evaluate"}, PANELS),
    epilog=EPILOG,
    help="Federated co-training on Flower: silos share class labels on a public set, never data or models.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings=SETTINGS,
)
app.add_typer(coordinator.app, name="coordinator", rich_help_panel=_REAL)
app.add_typer(silo.app, name="silo", rich_help_panel=_REAL)


def _print_version(wanted: bool) -> None:
    if wanted:
        echo(f"fedct-flwr {__version__}\n")
        raise typer.Exit


@app.callback()
def options(
    version: bool = typer.Option(
        False, "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
    ),
) -> None:
    """Federated co-training on Flower: silos share class labels on a public set, never data or models."""


def run() -> None:
    """Entry point of a process, which ends."""
    if sys.getfilesystemencoding() != "utf-8" and not sys.flags.utf8_mode:
        # Names of files are UTF-8 to the libraries that read tables, whatever the locale says. So for other processes.
        os.environ["PYTHONUTF8"] = "1"
        os.execv(sys.executable, [sys.executable, "-X", "utf8", *sys.orig_argv[1:]])  # noqa: S606 - itself
    # Made for this process: with warnings as errors Flower's programs do not start.
    os.environ.pop("PYTHONWARNINGS", None)
    try:
        dispatch()
    except SystemExit as end:
        if learners_at_work():
            end_process(end.code)
        raise


def dispatch() -> None:
    """Do what the command line says. Raises SystemExit."""
    # Asked to end, end in order: what was started is stopped on the way out.
    for name in ("SIGTERM", "SIGHUP"):
        if hasattr(signal, name):  # Windows knows no SIGHUP
            signal.signal(getattr(signal, name), lambda number, frame: sys.exit(128 + number))
    if os.environ.get("COLUMNS") == "0":
        del os.environ["COLUMNS"]  # of a terminal without a size, on which nothing would be printed
    sys.excepthook = _show_unexpected
    escape_warnings()
    try:
        if sys.argv[1:2] == ["simulate"]:
            # Scripts ask for no served page, and get none.
            sys.argv[:] = [word for word in sys.argv if word != "--no-watch"]
        for (command, option), instead in GONE.items():
            if sys.argv[1:2] == [command] and option in sys.argv[2:]:
                raise ConfigError(f"{option} is no option of fedct {command} any more, as {instead}")
        app()
    except FedctError as error:
        _fail(str(error), error.exit_code)
    except OSError as error:
        # A disk that is full or a folder that may not be written to, on this side of the engine.
        where = error.filename2 or error.filename
        _fail(
            f"{where}: {error.strerror}; fix that, or choose another place" if where else str(error),
            RunError.exit_code,
        )
    except MemoryError:
        _fail(
            "the memory that this process may use is not enough: end other programs, or name a smaller file",
            RunError.exit_code,
        )


def _show_unexpected(kind: type[BaseException], error: BaseException, where: TracebackType | None) -> None:
    """A traceback as Python prints it, with what it quotes escaped."""
    sys.stderr.write(printable("".join(traceback.format_exception(kind, error, where)), keep="\n"))


def _fail(sentence: str, code: int) -> NoReturn:
    console(stderr=True, soft_wrap=True).print(f"[bold red]Error:[/] {escape(printable(sentence))}")
    sys.exit(code)
