"""A SuperLink's database, as Flower uses it, without a SuperLink."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from flwr.supercore.constant import TaskType
from flwr.supercore.fab import Fab
from flwr.superlink.config_loader import get_federation_manager, get_objectstore_linkstate_factories

_FEDERATION: Final = "@none/default"


@contextlib.contextmanager
def superlink(path: Path) -> Iterator[Any]:
    """What a SuperLink does with its database, without a SuperLink."""
    _, factory = get_objectstore_linkstate_factories(str(path), get_federation_manager())
    state = factory.state()
    try:
        yield state
    finally:
        for store in (state, state.object_store):
            if engine := getattr(store, "_engine", None):
                engine.dispose()


def begin_run(state: Any, code: bytes) -> tuple[int, Any]:
    """A run with a bundle that is under way, and its task."""
    fab = state.store_fab(Fab(hash_str="", content=code, verifications={}))
    about = {"series_description": "a study"}
    run = int(state.create_run("fedct", "1", fab, {}, _FEDERATION, None, "aid", TaskType.SERVER_APP, **about))
    (task,) = state.get_tasks(run_ids=[run])
    state.claim_task(task.task_id)
    state.activate_task(task.task_id)
    return run, task
