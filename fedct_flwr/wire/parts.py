"""Parts that Flower's messages travel in: which of them nobody needs long to read."""

from collections.abc import Mapping
from typing import Any, Final

from flwr.app import ConfigRecord, MetricRecord
from flwr.proto.recorddict_pb2 import ConfigRecord as ConfigRecordProto
from flwr.proto.recorddict_pb2 import MetricRecord as MetricRecordProto
from flwr.supercore.inflatable.inflatable_object import get_object_body, get_object_type_from_object_content

_RECORDS: Final[Mapping[str, tuple[Any, Any]]] = {
    "ConfigRecord": (ConfigRecord, ConfigRecordProto),
    "MetricRecord": (MetricRecord, MetricRecordProto),
}
_MOST_FIELDS: Final = 8
"""Of one record; all of ours have one. Flower takes 16 s to read a million, which the gateway lets in."""


def is_short(part: bytes) -> bool:
    """Whether a part has a few numbers or texts alone, if it is a record of such: Flower takes long to read more.

    Raises for what is no part.
    """
    kinds = _RECORDS.get(get_object_type_from_object_content(part))
    if kinds is None:
        return True
    record, proto = kinds
    fields = proto.FromString(get_object_body(part, record)).items
    return len(fields) <= _MOST_FIELDS and not any(
        (field.value.WhichOneof("value") or "").endswith("_list") for field in fields
    )
