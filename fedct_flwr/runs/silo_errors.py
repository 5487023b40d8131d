"""What simulated silos' learners raised, in ``errors.jsonl`` of the run folder, for the user of the simulation.

A message to the coordinator holds a reason code alone, and this is no message: a simulated silo writes into a file of
the machine that it shares with the user. A real silo's exceptions may quote records, and stay in its own log.
"""

import contextlib
import json
import os
import traceback
from collections.abc import Iterator, Mapping
from typing import Final

from fedct_flwr.files import DAMAGED
from fedct_flwr.runs.run_folder import RUN_FAILED, RunFolder
from fedct_flwr.text.log import logger
from fedct_flwr.text.printable import cut, printable
from fedct_flwr.types import FedctError, RunError, SiloName

_UNEXPECTED: Final = (
    "unexpected error at the coordinator: error.txt in the run folder has the details; go on with --resume"
)


@contextlib.contextmanager
def failures_noted(folder: RunFolder) -> Iterator[None]:
    """Write down why the block fails, and raise it again."""
    try:
        yield
    except FedctError as error:
        logger.error("%s: %s", RUN_FAILED, error)
        # On a full disk there is no room for the reason either; the log has it.
        with contextlib.suppress(RunError):
            folder.finish("failed", reason=str(error))
        raise
    except Exception:
        # Flower's log of a run ends before the error that ended it.
        logger.error("%s: %s", RUN_FAILED, _UNEXPECTED)
        with contextlib.suppress(RunError):
            folder.note_error(traceback.format_exc())
            folder.finish("failed", reason=_UNEXPECTED)
        raise


FILE: Final = "errors.jsonl"
_LONGEST: Final = 600
_NAMED: Final = 3


def keep_error(folder: RunFolder, number: int, silo: SiloName, error: Exception) -> None:
    """Add what a silo raised in round ``number``. Never raises: the run goes on without it."""
    line = json.dumps({"round": number, "silo": silo, "text": _one_line(error)}) + "\n"
    try:
        # Several processes write here, each its line at once.
        file = os.open(folder.path / FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)
    except OSError:
        return


def errors_of(folder: RunFolder, number: int) -> dict[SiloName, str]:
    """Type and text of what each silo raised in round ``number``, by silo; empty where that is unknown."""
    return {silo: text for at, silo, text in _lines(folder) if at == number}


def all_errors(folder: RunFolder) -> dict[SiloName, str]:
    """The last thing that each silo raised in any round, by silo."""
    return {silo: text for _, silo, text in _lines(folder)}


def grouped(errors: Mapping[SiloName, str]) -> list[str]:
    """A line for each text, with the silos that said it.

    >>> grouped({"a": "ValueError: no", "b": "ValueError: no", "c": "KeyError: 1"})
    ['a, b: ValueError: no', 'c: KeyError: 1']
    """
    silos: dict[str, list[SiloName]] = {}
    for silo, text in errors.items():
        silos.setdefault(text, []).append(silo)
    return [f"{_named(sorted(names))}: {text}" for text, names in silos.items()]


def _named(names: list[SiloName]) -> str:
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more:,} more" if more > 0 else "")


def _one_line(error: Exception) -> str:
    """What was raised; an error of ours says already which type it comes from."""
    said = " ".join(str(error).split())
    text = said if isinstance(error, FedctError) else f"{type(error).__name__}: {said}".removesuffix(": ")
    return cut(printable(text), _LONGEST)


def _lines(folder: RunFolder) -> Iterator[tuple[int, SiloName, str]]:
    try:
        lines = (folder.path / FILE).read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        try:
            said = json.loads(line)
            yield int(said["round"]), str(said["silo"]), str(said["text"])
        except DAMAGED:
            continue
