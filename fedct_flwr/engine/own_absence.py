"""Time in which the SuperLink itself was away ends no run and loses no silo: it heard nobody's heartbeats then.

A clock that was set back keeps nobody: who is gone would count as there until it shows the same time again.

Flower 1.41 ends a run when its ServerApp has sent no heartbeat for a minute, and answers for a silo that has sent none
that it is not there. A SuperLink that was down or stood still for so long, as with a machine that is suspended, ended
all runs at its first call, before any ServerApp or silo could send one.

What is used of Flower's insides: four methods of its database, and the tables of tasks and nodes.
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
_JUST_BACK_SECONDS: Final = 30.0
"""So long after the first call every call finds runs and silos as if they had just been heard. Whoever found nobody
calls again within 20 s."""
_PATIENCE_SECONDS: Final = 60.0
"""In which a ServerApp or a silo sends a heartbeat, as Flower waits for one."""
_OF_TASKS: Final = ("_cleanup_expired_task_tokens", "get_task_by_token")
_OF_NODES: Final = ("_check_and_tag_offline_nodes", "get_message_res")


class Absence:
    """Whether this process was away, by a ``clock`` that goes on meanwhile, in seconds. At its start, it was."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self._clock = clock
        self._looked = self._called = -math.inf
        self._away = True
        self._lock = threading.Lock()

    def look(self) -> float:
        """Note that the process is there; the time. To be called all the time."""
        with self._lock:
            now = self._clock()
            if abs(now - self._looked) >= _GAP_SECONDS:
                self._away = True
            self._looked = now
            return now

    def just_back(self) -> bool:
        """Whether it has come back, and this is the first call since then or one soon after it."""
        now = self.look()
        with self._lock:
            if self._away:
                self._away, self._called = False, now
            return abs(now - self._called) < _JUST_BACK_SECONDS

    def watch(self) -> None:
        """Ask from now on, in a thread of its own."""

        def look() -> None:
            while True:
                self.look()
                time.sleep(_LOOK_SECONDS)

        threading.Thread(target=look, name="own-absence", daemon=True).start()

    def forgive(self) -> None:
        """From now on this process's SuperLink ends no run, and misses no silo, for what it could not hear."""
        core: Any = importlib.import_module("flwr.supercore.corestate.sql_corestate")
        link: Any = importlib.import_module("flwr.server.superlink.linkstate.sql_linkstate")
        for methods, state, heard in (
            (_OF_TASKS, core.SqlCoreState, _tasks_heard(core)),
            (_OF_NODES, link.SqlLinkState, _nodes_heard(link)),
        ):
            for name in methods:
                setattr(state, name, self._after_forgiving(getattr(state, name), heard))

    def _after_forgiving(self, flowers: Callable[..., Any], heard: Callable[[], Any]) -> Callable[..., Any]:
        @functools.wraps(flowers)
        def method(state: Any, *arguments: Any, **others: Any) -> Any:
            if self.just_back():
                with state.session() as session:
                    session.execute(heard())
            return flowers(state, *arguments, **others)

        return method


def _tasks_heard(core: Any) -> Callable[[], Any]:
    """The statement by which all that runs was heard a moment ago."""

    def heard() -> Any:
        task, until = core.TaskModel, core.now() + timedelta(seconds=_PATIENCE_SECONDS)
        return core.update(task).where(task.token.is_not(None)).values(active_until=until)

    return heard


def _nodes_heard(link: Any) -> Callable[[], Any]:
    """The same of all silos that were there."""

    def heard() -> Any:
        node, until = link.NodeModel, link.now().timestamp() + _PATIENCE_SECONDS
        online = node.status == link.NodeStatus.ONLINE
        return link.update(node).where(online).values(online_until=until)

    return heard
