"""Flower's SuperLink, which also takes the short form of a silo's calls and keeps connections of idle silos open.

It ends no run because it was down or suspended for a while, tells no silo what another one has sent, takes no answer in
another's name, and knows of which version each silo is.

``superlink`` takes Flower's own options. SuperNodes without the short form, and all other calls, find Flower's
SuperLink as it is. All of Flower's insides that are touched are in ``main``, ``Questions.install``, ``own_absence``,
``own_answers``, ``silent_store`` and ``silo_versions``.
"""

import importlib
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from types import SimpleNamespace
from typing import Any, Final, NamedTuple

from flwr.common.constant import HEARTBEAT_DEFAULT_INTERVAL

from fedct_flwr.engine import own_answers, silent_store, silo_versions
from fedct_flwr.engine.held_calls import Bells, HeldCalls
from fedct_flwr.engine.own_absence import Absence
from fedct_flwr.hospital.short_form import attach, attached, mark, pack_parts, part_ids, read_wish, unpack_parts

COMMAND: Final = (sys.executable, "-P", "-m", "fedct_flwr.engine.superlink")
"""Without options."""
KEPT_SECONDS: Final = 75
"""So long a connection may be idle, where uvicorn closes it after 5 s: a new one costs more bytes than a call."""
_STOP_SECONDS: Final = 3
"""Calls that are open when the SuperLink is to end are given up after so long."""


class _Handed(NamedTuple):
    """A question on its way to a silo."""

    message_id: str
    run_id: int
    expires: float
    answer: Any
    whole: bool
    """Whether its parts are in the answer; the silo asks for them otherwise, and says itself once it has them."""


class Questions:
    """Flower's handlers of messages, with their parts. ``bells`` ring once a silo's question is there as a whole."""

    def __init__(self, bells: Bells) -> None:
        self._bells = bells
        self._handed: dict[int, _Handed] = {}
        """By silo: what it has not said yet that it has it."""
        self._coming: dict[int, set[str]] = {}
        """By silo: parts of its question that the run has announced and not sent yet."""
        self._lock = threading.Lock()

    def install(self) -> None:
        """From now on this process's SuperLink calls these handlers around its own."""
        fleet: Any = importlib.import_module("flwr.superlink.servicer.fleet.fleet_handlers")
        runtime: Any = importlib.import_module("flwr.superlink.servicer.runtime.runtime_handlers")
        for module, name, around in (
            (fleet, "pull_messages", self.pull),
            (fleet, "push_messages", self.push),
            (fleet, "confirm_message_received", self.confirm),
            (runtime, "push_messages", self.announce),
            (runtime, "push_object", self.arrive),
        ):
            setattr(module, name, partial(around, getattr(module, name)))

    def pull(self, flowers: Callable[..., Any], request: Any, state: Any, store: Any) -> Any:
        """The next question with its parts; or the last one, if the silo does not know of it, as after a restart."""
        wish = read_wish(attached(request))
        if wish is None:
            return flowers(request=request, state=state, store=store)
        node = request.node.node_id
        # Whoever asks for work is there, and so is whoever is handed a question: Flower counts a silo as gone a minute
        # after its last heartbeat.
        state.acknowledge_node_heartbeat(node, HEARTBEAT_DEFAULT_INTERVAL)
        if lost := self._lost(node, wish.received, state, store):
            return lost.answer
        answer = flowers(request=request, state=state, store=store)
        if not answer.messages_list:
            return answer
        metadata = answer.messages_list[0].metadata
        parts = [state.get_object(metadata.run_id, name) for name in part_ids(answer.message_object_trees[0])]
        packed = pack_parts(parts) if all(parts) else None
        if packed is not None:
            attach(answer, packed)
            state.store_traffic(metadata.run_id, bytes_sent=len(packed), bytes_recv=0)
        expires = metadata.created_at + metadata.ttl
        with self._lock:
            self._handed[node] = _Handed(metadata.message_id, metadata.run_id, expires, answer, packed is not None)
        return answer

    def push(self, flowers: Callable[..., Any], request: Any, state: Any) -> Any:
        """Take an answer with its parts. Raises what Flower raises for one that nobody waits for."""
        answer = flowers(request=request, state=state)
        packed = attached(request)
        if packed is None:
            return answer
        metadata = request.messages_list[0].metadata
        self._forget(metadata.src_node_id, metadata.reply_to_message_id, state.object_store)
        try:
            parts = unpack_parts(packed)
        except ValueError:
            return answer
        missing = []
        for name in answer.objects_to_push:
            if name not in parts:
                missing.append(name)
            # Or else the store has it, which is nobody's business (``silent_store``).
            elif state.store_object(metadata.run_id, answer.session_id, name, parts[name]):
                state.store_traffic(metadata.run_id, bytes_sent=0, bytes_recv=len(parts[name]))
        del answer.objects_to_push[:]
        answer.objects_to_push.extend(missing)
        return answer

    def confirm(self, flowers: Callable[..., Any], request: Any, state: Any, store: Any) -> Any:
        """A silo has fetched all parts of a question, which are deleted with this: it is not to be had again."""
        answer = flowers(request=request, state=state, store=store)
        self._forget(request.node.node_id, request.message_object_id, store)
        return answer

    def announce(self, flowers: Callable[..., Any], request: Any, state: Any, task: Any) -> Any:
        """Note which parts of which silo's question are to come."""
        parts = {
            message.metadata.dst_node_id: set(part_ids(tree))
            for message, tree in zip(request.messages_list, request.message_object_trees, strict=True)
        }
        # Before a silo can find the question, which it would get without them.
        with self._lock:
            self._coming.update(parts)
        wanted: set[str] = set()
        try:
            answer = flowers(request, state, task)
            wanted.update(answer.objects_to_push)
        finally:
            with self._lock:
                self._coming.update({node: wanted & names for node, names in parts.items()})
            self._ring()
        return answer

    def arrive(self, flowers: Callable[..., Any], request: Any, state: Any, task: Any) -> Any:
        """A part of some questions has come."""
        answer = flowers(request, state, task)
        with self._lock:
            for parts in self._coming.values():
                parts.discard(request.object_id)
        self._ring()
        return answer

    def is_coming(self, node: int) -> bool:
        """Whether parts of this silo's question are still to come."""
        with self._lock:
            return node in self._coming

    def _ring(self) -> None:
        with self._lock:
            whole = [node for node, parts in self._coming.items() if not parts]
            for node in whole:
                del self._coming[node]
        for node in whole:
            self._bells.ring(node)

    def _lost(self, node: int, received: str, state: Any, store: Any) -> _Handed | None:
        """The question that was handed out and did not arrive, if it still counts."""
        with self._lock:
            handed = self._handed.get(node)
        if handed is None:
            return None
        utils: Any = importlib.import_module("flwr.server.superlink.utils")
        constant: Any = importlib.import_module("flwr.common.constant")
        status = constant.Status
        over = utils.check_abort(handed.run_id, [status.PENDING, status.STARTING, status.FINISHED], state)
        if not over and mark(handed.message_id) != received and time.time() < handed.expires:
            return handed
        self._forget(node, handed.message_id, store)
        return None

    def _forget(self, node: int, message_id: str, store: Any) -> None:
        """A question has arrived: its parts are of no use any more."""
        with self._lock:
            handed = self._handed.get(node)
            if handed is None or handed.message_id != message_id:
                return
            del self._handed[node]
        if handed.whole:
            store.delete(message_id)


def main() -> None:
    """Run ``flower-superlink``."""
    cli: Any = importlib.import_module("flwr.superlink.cli.flower_superlink")
    app: Any = importlib.import_module("flwr.superlink.main")
    bells = Bells()
    questions = Questions(bells)
    silent_store.install()
    silo_versions.install()
    questions.install()
    own_answers.install()
    absence = Absence()
    absence.forgive()
    absence.watch()
    create_app = app.create_app
    app.create_app = lambda *arguments, **others: HeldCalls(
        create_app(*arguments, **others), bells, questions.is_coming
    )
    cli.uvicorn = SimpleNamespace(
        run=partial(
            cli.uvicorn.run, timeout_keep_alive=KEPT_SECONDS, timeout_graceful_shutdown=_STOP_SECONDS,
            server_header=False,
        )
    )  # fmt: skip
    cli.flower_superlink()


if __name__ == "__main__":
    main()
