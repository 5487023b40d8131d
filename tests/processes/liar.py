"""A silo that announces an answer to every question, and sends none of them.

``liar ADDRESS CA KEY``: the SuperLink's address, its certificate authority, and the silo's node key.
"""

import sys
import time
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key
from flwr.app import Message, RecordDict
from flwr.supercore.inflatable.inflatable_object import get_object_tree, no_object_id_recompute
from flwr.supercore.task_identity import TaskIdentity
from flwr.supernode.fleet_http_connection import http_request_response


def lie(address: str, authority: str, node_key: str) -> None:
    """Until it is killed."""
    key = load_ssh_private_key(Path(node_key).read_bytes(), None)
    assert isinstance(key, ec.EllipticCurvePrivateKey)
    with http_request_response(address, False, Path(authority).read_bytes(), (key, key.public_key())) as connection:
        node_id, receive, send, *_ = connection
        while True:
            if (received := receive()) is None:
                time.sleep(0.1)
                continue
            question = received[0]
            TaskIdentity.task_id, TaskIdentity.run_id, TaskIdentity.node_id = 1, question.metadata.run_id, node_id
            answer = Message(RecordDict(), reply_to=question)
            with no_object_id_recompute():
                answer.metadata.__dict__["_message_id"] = answer.object_id
                send(answer, get_object_tree(answer), 0.0)
            print("announced", flush=True)


if __name__ == "__main__":
    lie(*sys.argv[1:])
