"""One line of a process's own log: for people, or with FEDCT_LOG=json in the environment one JSON object for programs.

An object has ``time`` (UTC, ISO 8601), ``level``, ``part`` (agent, connect, coordinator), ``message``, and what the
line is about: ``silo``, ``run``, ``round``. Neither form holds data: it is the same sentence. Needs the standard
library alone, as it is also in the image of a SuperNode.
"""

import json
import logging
import os
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime
from typing import Final

VARIABLE: Final = "FEDCT_LOG"
_ABOUT: Final[ContextVar[Mapping[str, object]]] = ContextVar("about")


@contextmanager
def about(**facts: object) -> Iterator[None]:
    """Add these facts to this thread's log lines: ``silo``, ``run``, ``round``, ``part``."""
    token = _ABOUT.set({**_ABOUT.get({}), **facts})
    try:
        yield
    finally:
        _ABOUT.reset(token)


def log_line(sentence: str, level: str = "info") -> str:
    """The line, without its end."""
    if os.environ.get(VARIABLE) != "json":
        return f"{datetime.now().astimezone():%Y-%m-%d %H:%M:%S}  {sentence}"
    now = datetime.now(UTC).isoformat(timespec="milliseconds")
    return json.dumps({"time": now, "level": level, **_ABOUT.get({}), "message": sentence})


class JsonFormatter(logging.Formatter):
    """Formats Python's own log in the same form; a traceback is a field of its own.

    It has places in the code and types of errors, but not their texts: these may quote a record, and such logs are
    collected where others read them.
    """

    def format(self, record: logging.LogRecord) -> str:
        """One line."""
        found = json.loads(log_line(record.getMessage(), record.levelname.lower()))
        error = record.exc_info[1] if record.exc_info else None
        return json.dumps({**found, **({"traceback": "".join(_places(error))} if error else {})})


def _places(error: BaseException) -> Iterator[str]:
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause:
        yield from _places(cause)
    yield from traceback.format_tb(error.__traceback__)
    yield f"{type(error).__name__}\n"


def set_up_log() -> None:
    """Have Python's own log of this process in the same form."""
    if os.environ.get(VARIABLE) == "json":
        logger, handler = logging.getLogger("flwr.fedct"), logging.StreamHandler()
        handler.setFormatter(JsonFormatter())
        logger.handlers, logger.propagate = [handler], False
