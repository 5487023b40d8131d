"""A SuperNode without a SuperLink: Flower's own runtime API and node state, in the test's process."""

import hashlib
import logging
import socket
import threading
from pathlib import Path
from typing import Any

import uvicorn
from flwr.app import ConfigRecord, Context, Message, RecordDict
from flwr.app.message import make_message
from flwr.supercore.constant import TaskType
from flwr.supercore.fab import Fab
from flwr.supercore.inflatable.inflatable_object import get_all_nested_objects, get_object_tree, no_object_id_recompute
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents
from flwr.supercore.object_store import ObjectStoreFactory
from flwr.supercore.run import Run
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.main import create_app
from flwr.supernode.nodestate import NodeState, NodeStateFactory

from tests.patience import PATIENCE, eventually

CODE = b"import os; os.abort()"
SECRET = b"what the agent shows"
NODE_ID = 7


class RuntimeApi:
    """What a SuperNode serves to its agent. ``ask`` does as if a message had come from the coordinator."""

    def __init__(self, port: int = 0) -> None:
        factory = NodeStateFactory(ObjectStoreFactory())
        self.state: NodeState = factory.state()
        self.state.set_node_id(NODE_ID)
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._socket.bind(("127.0.0.1", port))
        self.port = self._socket.getsockname()[1]
        self.address = f"127.0.0.1:{self.port}"
        config = uvicorn.Config(
            create_app(factory, SECRET), ws="none", log_level="critical", access_log=False,
            # Else it closes the handlers of others, and absl's closes what pytest captures.
            log_config=None,
        )  # fmt: skip
        self._server = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._server.run, kwargs={"sockets": [self._socket]}, daemon=True)
        self._thread.start()
        eventually(lambda: self._server.started, "the API")

    def close(self) -> None:
        self._server.should_exit = self._server.force_exit = True
        self._thread.join()
        self._socket.close()
        # One for the whole process: whoever comes next shall find none, as in a process that has just begun.
        TaskIdentity._task_id = TaskIdentity._run_id = TaskIdentity._node_id = None

    def ask(self, content: RecordDict, run_id: int = 1, message_type: str = "train") -> Message:
        """Store a message as the SuperNode does when it has pulled one."""
        TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, run_id, 1
        message = Message(content, dst_node_id=NODE_ID, message_type=message_type, group_id="1")
        message.metadata.__dict__["_run_id"] = run_id
        self.store(message, run_id)
        return message

    def store(self, message: Message, run_id: int) -> None:
        run = Run.create_empty(run_id)
        run.fab_hash, run.series_id = hashlib.sha256(CODE).hexdigest(), run_id
        run_config: dict[str, Any] = {"report-scores": True}
        context = Context(run_id, NODE_ID, {}, RecordDict(), run_config, run_id)
        self.state.set_run_series_context(run_id, context)
        self.state.store_run(run)
        self.state.store_fab(Fab(run.fab_hash, CODE, {}))
        with no_object_id_recompute():
            message.metadata.__dict__["_message_id"] = message.object_id
            self.state.object_store.preregister(run_id, get_object_tree(message))
            for name, piece in get_all_nested_objects(message).items():
                self.state.object_store.put(name, piece.deflate())
        # As it comes: the content follows as objects.
        self.state.store_message(make_message(message.metadata, RecordDict()))
        assert self.state.create_task(TaskType.CLIENT_APP, run_id, run.fab_hash) is not None

    def reply(self, seconds: float = PATIENCE) -> Message:
        """The next reply, put together again from its objects, as the coordinator gets it."""
        bare = eventually(lambda: self.state.get_messages_legacy(is_reply=True), "a reply", seconds)[0]
        name = bare.metadata.message_id
        store = self.state.object_store
        tree = store.get_object_tree(name)
        names = [name]
        pending = list(tree.children)
        while pending:
            child = pending.pop()
            names.append(child.object_id)
            pending.extend(child.children)
        pieces = {piece: eventually(lambda piece=piece: store.get(piece)) for piece in names}
        whole = inflate_object_from_contents(name, pieces)
        assert isinstance(whole, Message)
        self.state.delete_messages(message_ids=[name, bare.metadata.reply_to_message_id])
        return make_message(
            bare.metadata,
            whole.content if whole.has_content() else None,
            None if whole.has_content() else whole.error,
        )

    def tasks(self) -> list[Any]:
        return list(self.state.get_tasks())


def secret_file(folder: Path) -> Path:
    path = folder / "secret"
    path.write_bytes(SECRET)
    return path


def odd_record() -> RecordDict:
    return RecordDict({"other": ConfigRecord({"text": "nothing that anybody agreed upon"})})


logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
