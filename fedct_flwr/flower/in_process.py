"""One run in this process, on the loopback: seconds where Flower's simulation engine needs half a minute to start."""

import logging
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from fedct_flwr.types import RunError

_POLL_SECONDS: Final = 0.2
_STOP_SECONDS: Final = 30.0


def run_in_process(
    settings: Mapping[str, Any],
    num_silos: int,
    log: Path,
    watch: Callable[[], bool],
    *,
    one_at_a_time: bool = False,
    outlives: bool = False,
) -> None:
    """Run the app with these run-config values; as ``engine.run_on_engine`` otherwise.

    A silo that hangs stays in this process until it ends. ``one_at_a_time`` is for networks, which draw from torch's
    one generator. ``outlives`` is for a process that goes on where this is interrupted: then the run is stopped first.
    """
    from client_app.main import app as client_app
    from fedct_flwr.silo.site import simulated_site
    from server_app.main import app as server_app

    failures: list[Exception] = []
    workers, stopped = 1 if one_at_a_time else None, threading.Event()

    def work() -> None:
        try:
            run_loopback(server_app, client_app, settings, simulated_nodes(num_silos), workers, stopped)
        except Exception as error:
            failures.append(error)

    with _logged(log):
        run = threading.Thread(target=work, daemon=True)
        run.start()
        try:
            while run.is_alive():
                watch()
                run.join(_POLL_SECONDS)
        except BaseException:
            if outlives:
                stopped.set()
                run.join(_STOP_SECONDS)
            raise
        watch()
    # Another run in this process, or this one resumed, begins with learners of its own; and records are not held on to.
    simulated_site.cache_clear()
    if failures:
        raise RunError(f"the run failed: {failures[0]}") from failures[0]


@contextmanager
def _logged(path: Path) -> Iterator[None]:
    """What the apps log goes to the file, as on the engine, and not between the lines of the command."""
    logger = logging.getLogger("flwr")
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(levelname)s : %(message)s"))
    before, level = logger.handlers[:], logger.level
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        logger.handlers[:] = before
        logger.setLevel(level)
        handler.close()
