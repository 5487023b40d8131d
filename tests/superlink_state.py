"""A SuperLink's database, as Flower uses it, without a SuperLink."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from flwr.superlink.config_loader import get_federation_manager, get_objectstore_linkstate_factories

FEDERATION: Final = "@none/default"


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
