"""Parts of Flower's messages: their names, and whether they are short enough to read."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from flwr.app import ConfigRecord, Message, MetricRecord
from flwr.common.serde import message_from_proto
from flwr.proto.recorddict_pb2 import ConfigRecord as ConfigRecordProto
from flwr.proto.recorddict_pb2 import MetricRecord as MetricRecordProto
from flwr.supercore.inflatable.inflatable_object import get_object_body, get_object_type_from_object_content
from flwr.supercore.inflatable.inflatable_utils import inflate_object_from_contents

_RECORDS: Final[Mapping[str, tuple[Any, Any]]] = {
    "ConfigRecord": (ConfigRecord, ConfigRecordProto),
    "MetricRecord": (MetricRecord, MetricRecordProto),
}
_MOST_FIELDS: Final = 8
"""Most fields of one record; all of ours have one. Flower takes 16 s to read a million, which the gateway lets in."""


def part_ids(tree: Any, most: int = 1 << 20) -> list[str]:
    """Names of a message's parts, each once, from Flower's tree of them; no more than ``most``."""
    found = dict[str, None]()
    for name in _names(tree):
        found[name] = None
        if len(found) == most:
            break
    return list(found)


def _names(tree: Any) -> Iterator[str]:
    """A message's own name comes last: its other parts are sent first."""
    for child in tree.children:
        yield from _names(child)
    yield tree.object_id


def is_short(part: bytes) -> bool:
    """Whether a part is no long record, which Flower would take long to read. Raises for what is no part."""
    kinds = _RECORDS.get(get_object_type_from_object_content(part))
    if kinds is None:
        return True
    record, proto = kinds
    fields = proto.FromString(get_object_body(part, record)).items
    return len(fields) <= _MOST_FIELDS and not any(
        (field.value.WhichOneof("value") or "").endswith("_list") for field in fields
    )


def inflated(name: str, parts: Mapping[str, bytes], short: Callable[[bytes], bool] = is_short) -> Message | None:
    """The message of this name that these parts make; None if it is not one. Raises what Flower stumbles over."""
    if not all(map(short, parts.values())):
        return None
    found = inflate_object_from_contents(name, dict(parts))
    return found if isinstance(found, Message) else None


def bare(proto: Any) -> Message:
    """The message that Flower announces, without its records or its error."""
    proto.ClearField("error")
    proto.content.Clear()
    proto.content.SetInParent()
    return message_from_proto(proto)
