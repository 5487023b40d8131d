"""The end of a process in which a library is still at work.

Python stops threads in the middle of what they do when it ends. One that is inside a library of C++ then takes the
process with it: exit code 134 instead of the one that was meant, after all work was done.
"""

import logging
import os
import sys
import threading
from typing import Final, NoReturn

from fedct_flwr.text.printable import printable

LIBRARY_THREAD: Final = "learner"
"""Name of daemon threads in which learners work."""


def learners_at_work() -> bool:
    """Whether any thread that would be stopped may be inside a learner's library."""
    return any(thread.name == LIBRARY_THREAD for thread in threading.enumerate())


def end_process(code: str | int | None) -> NoReturn:
    """End at once, with what ``sys.exit`` takes: nothing more is run at exit, and nothing written is lost."""
    if isinstance(code, str):
        sys.stderr.write(printable(f"{code}\n", keep="\n"))
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code if isinstance(code, int) else int(code is not None))
