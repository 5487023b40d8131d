"""The nodes that a SuperLink knows, with their keys: ``flwr supernode list`` tells neither keys nor names."""

import ssl
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

import httpx
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat, load_pem_public_key
from google.protobuf.message import DecodeError

from fedct_flwr.flower.command import NoAnswer, Unreachable
from fedct_flwr.flower.runtime_client import MEDIA_TYPE, version_headers
from fedct_flwr.types import RunError

_TIMEOUT_SECONDS: Final = 30.0
_PATIENCE: Final = 2
"""Heartbeat intervals that Flower lets pass before it counts a node as gone."""


@dataclass(frozen=True)
class Node:
    """``key`` in OpenSSH's form. ``seen``: its last heartbeat, or up to a minute after it; None before the first."""

    key: bytes
    node_id: int
    online: bool
    seen: datetime | None


def list_nodes(address: str, authority: Path) -> list[Node]:
    """All nodes that are registered. Raises Unreachable, NoAnswer, or RunError if the SuperLink declines."""
    from flwr.proto.control_pb2 import ListNodesRequest, ListNodesResponse

    headers = {"accept": MEDIA_TYPE, "content-type": MEDIA_TYPE, **version_headers("flwr CLI")}
    try:
        context = ssl.create_default_context(cafile=str(authority))
        found = httpx.post(
            f"https://{address}/v1/control/list-nodes", content=ListNodesRequest().SerializeToString(),
            headers=headers, verify=context, timeout=_TIMEOUT_SECONDS,
        )  # fmt: skip
        answer = ListNodesResponse.FromString(found.raise_for_status().content)
    except httpx.TransportError:
        raise Unreachable(
            f"no SuperLink answers at {address} with a certificate that {authority} has signed: start it, or correct "
            "the address"
        ) from None
    except httpx.HTTPStatusError as error:
        why = ": see its log, and whether the disk with its database is full" * error.response.is_server_error
        status = error.response.status_code
        raise RunError(f"the SuperLink at {address} declines with HTTP status {status}{why}") from None
    except (ValueError, DecodeError):
        raise NoAnswer(f"what answers at {address} is no SuperLink") from None
    nodes = []
    for node in answer.nodes_info:
        if node.unregistered_at:
            continue
        online, until = node.status == "online", node.online_until
        last = until - (_PATIENCE * node.heartbeat_interval if online else 0)
        try:
            key = load_pem_public_key(node.public_key).public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        except (ValueError, UnsupportedAlgorithm):
            continue
        seen = datetime.fromtimestamp(last, UTC) if until else None
        nodes.append(Node(key, node.node_id, online, seen))
    return nodes
