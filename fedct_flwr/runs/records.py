"""How a run fails, what its silos raised (``errors.jsonl``), and its facts in sentences.

``errors.jsonl`` has what simulated silos' learners raised, for the user of the simulation. A message to the coordinator
holds a reason code alone, and this is no message: a simulated silo writes into a file of the machine that it shares
with the user. A real silo's exceptions may quote records, and stay in its own log.
"""

import contextlib
import json
import os
import re
import traceback
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fedct_flwr.files import DAMAGED
from fedct_flwr.runs.run_folder import RUN_FAILED, RunFolder
from fedct_flwr.text.printable import count, cut, logger, printable
from fedct_flwr.types import FedctError, RunError, SiloName

GLOBAL_MODEL: Final = "global_model"
"""Key of the global model's facts in ``result.json``."""
IN_WRONG_SUM: Final = "it is in a secure sum that honest silos cannot have made"
"""Why no silo of such a sum counts: one of them does not follow the protocol, and the sum cannot tell which."""

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


def errors_of(folder: RunFolder, number: int | None = None) -> dict[SiloName, str]:
    """Type and text of the last error that each silo raised, by silo, in any round or in round ``number``."""
    return {silo: text for at, silo, text in _lines(folder) if number in (None, at)}


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
    """The error in one line; an error of ours names its origin already."""
    line = " ".join(str(error).split())
    text = line if isinstance(error, FedctError) else f"{type(error).__name__}: {line}".removesuffix(": ")
    return cut(printable(text), _LONGEST)


def _lines(folder: RunFolder) -> Iterator[tuple[int, SiloName, str]]:
    try:
        lines = (folder.path / FILE).read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        try:
            entry = json.loads(line)
            yield int(entry["round"]), str(entry["silo"]), str(entry["text"])
        except DAMAGED:
            continue


def certificate(result: Mapping[str, Any]) -> str:
    """How many labels lying silos cannot change, in a sentence; empty where the rule or the result does not say."""
    found = result.get("certificate")
    if not found:
        return ""
    return (
        f"in the last round's count one lying silo cannot change {found['1']:,} of {count(found['labels'], 'label')}, "
        f"and two cannot change {found['2']:,}"
    )


def scores_of_all(result: Mapping[str, Any]) -> str:
    """Scores of all silos together under noise, in a sentence; empty where the run has none.

    >>> scores_of_all({"scores": {"balanced_accuracy": {"value": 0.81, "low": 0.76, "high": 0.86}}})
    "a model of the public labels has balanced accuracy .810 on all silos' test records (.760 to .860 with 95% chance)"
    """
    facts = result.get("scores")
    if not facts:
        return ""
    if why := facts.get("missing"):
        return f"no scores of all silos: {why}"
    value, low, high = (f"{facts['balanced_accuracy'][key]:.3f}".removeprefix("0") for key in ("value", "low", "high"))
    return (
        f"a model of the public labels has balanced accuracy {value} on all silos' test records ({low} to {high} with "
        "95% chance)"
    )


def reason(folder: RunFolder | None, log: str) -> str | None:
    """The coordinator's last reason: in the run folder, or in the log if it could not or may not write there."""
    with contextlib.suppress(RunError, KeyError):
        if folder:
            return str(folder.read_json("result.json")["reason"])
    reasons = re.findall(rf"{RUN_FAILED}: (.+)", log)
    return reasons[-1] if reasons else None
