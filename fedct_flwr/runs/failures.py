"""A run that fails leaves its reason, in the log and in its folder."""

import contextlib
import traceback
from collections.abc import Iterator
from typing import Final

from fedct_flwr.runs.run_folder import RUN_FAILED, RunFolder
from fedct_flwr.text.log import logger
from fedct_flwr.types import FedctError, RunError

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
