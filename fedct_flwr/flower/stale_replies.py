"""A reply that a SuperNode no longer waits for leaves at its next look for work, not after the next question.

Flower sends one reply after each question. Where a pull is aborted, its reply takes the place of the next one, and each
later round waits for a silo that has replied.

Issue for Flower, "SuperNode: replies lag one message behind after an interrupted pull": `start_client_internal` calls
`_push_messages` only after a message was pulled. Push pending replies on every iteration.
"""

import importlib
from collections.abc import Callable
from typing import Any, Final

_SOME: Final = 0
"""In place of a run's number, which Flower's loop only compares with None."""


def install(looked: Callable[[], None]) -> None:
    """From now on this process's SuperNode sends pending replies at each look for work, and calls ``looked`` then."""
    module: Any = importlib.import_module("flwr.supernode.start_client_internal")
    look = module._pull_and_store_message

    def look_and_see_what_waits(*, state: Any, **others: Any) -> int | None:
        run: int | None = look(state=state, **others)
        looked()
        return _SOME if run is None and _has_reply(state) else run

    module._pull_and_store_message = look_and_see_what_waits


def _has_reply(state: Any) -> bool:
    """Whether there is a reply that was not taken yet. Flower's own question takes what it finds."""
    with state.lock_msg_store:
        return any(
            entry.message.metadata.reply_to_message_id and not entry.is_retrieved for entry in state.msg_store.values()
        )
