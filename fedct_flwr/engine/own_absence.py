"""Time in which the SuperLink itself was away ends no run: it heard nobody's heartbeats then.

Flower 1.41 ends a run when its ServerApp has sent no heartbeat for a minute. A SuperLink that was down or stood still
for so long, as with a machine that is suspended, ended all runs at its first call, before any ServerApp could send one.

What is used of Flower's insides: two methods of its database, and the table of tasks.
"""

import functools
import importlib
import math
import threading
import time
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

_GAP_SECONDS: Final = 10.0
"""A process that is at work looks at the clock more often than that."""
_LOOK_SECONDS: Final = 1.0
_JUST_BACK_SECONDS: Final = 10.0
"""So long every call finds the runs as if their ServerApps had just been heard: whichever call is the first."""
_PATIENCE_SECONDS: Final = 60.0
"""In which a ServerApp sends a heartbeat, as Flower waits for one."""


class Absence:
    """Whether this process was away, by a ``clock`` that goes on meanwhile, in seconds. At its start, it was."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._looked = self._back = -math.inf
        self._lock = threading.Lock()

    def just_back(self) -> bool:
        """Whether it has come back in the last seconds. To be asked all the time, as it is the asking that is noted."""
        with self._lock:
            now = self._clock()
            if abs(now - self._looked) >= _GAP_SECONDS:
                self._back = now
            self._looked = now
            return now - self._back < _JUST_BACK_SECONDS

    def watch(self) -> None:
        """Ask from now on, in a thread of its own."""

        def look() -> None:
            while True:
                self.just_back()
                time.sleep(_LOOK_SECONDS)

        threading.Thread(target=look, name="own-absence", daemon=True).start()

    def forgive(self) -> None:
        """From now on this process's SuperLink ends no run for what it could not hear."""
        core: Any = importlib.import_module("flwr.supercore.corestate.sql_corestate")
        for name in ("_cleanup_expired_task_tokens", "get_task_by_token"):
            setattr(core.SqlCoreState, name, self._after_forgiving(getattr(core.SqlCoreState, name), core))

    def _after_forgiving(self, flowers: Callable[..., Any], core: Any) -> Callable[..., Any]:
        @functools.wraps(flowers)
        def method(state: Any, *arguments: Any) -> Any:
            if self.just_back():
                task, until = core.TaskModel, core.now() + timedelta(seconds=_PATIENCE_SECONDS)
                with state.session() as session:
                    late = (task.token.is_not(None), task.active_until < until)
                    session.execute(core.update(task).where(*late).values(active_until=until))
            return flowers(state, *arguments)

        return method
