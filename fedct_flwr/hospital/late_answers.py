"""An answer for which a SuperNode no longer waits leaves at its next look, and not after the next question.

Flower 1.41 sends answers after a question only, and then the first that is there. Where the connection breaks off while
a question comes, the agent answers what has come of it and the SuperNode gives the question up: that answer takes the
place of the next one, which leaves in place of the one after that, and so on. Each round then waits for a silo that has
answered, for as long as the process lives. Needs the standard library alone; ``send_late_answers`` touches Flower's
insides.
"""

import importlib
from typing import Any, Final

_SOME: Final = 0
"""In place of a run's number, which Flower's loop only compares with None."""


def send_late_answers() -> None:
    """From now on this process's SuperNode sends whatever answers it has whenever it finds no question."""
    module: Any = importlib.import_module("flwr.supernode.start_client_internal")
    look = module._pull_and_store_message

    def look_and_see_what_waits(*, state: Any, **others: Any) -> int | None:
        run: int | None = look(state=state, **others)
        return _SOME if run is None and _has_answer(state) else run

    module._pull_and_store_message = look_and_see_what_waits


def _has_answer(state: Any) -> bool:
    """Whether there is an answer that was not taken yet. Flower's own question takes what it finds."""
    with state.lock_msg_store:
        return any(
            entry.message.metadata.reply_to_message_id and not entry.is_retrieved for entry in state.msg_store.values()
        )
