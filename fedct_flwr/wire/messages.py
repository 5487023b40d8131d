"""Payloads in Flower's records: one ConfigRecord with one bytes field, and nothing else."""

from typing import Final

from flwr.app import ConfigRecord, RecordDict

from fedct_flwr.wire.refusal import Refusal, Refused

_RECORD: Final = "fedct"
_FIELD: Final = "payload"


def to_record(payload: bytes) -> RecordDict:
    """Wrap an encoded instruction or reply."""
    return RecordDict({_RECORD: ConfigRecord({_FIELD: payload})})


def from_record(content: RecordDict) -> bytes:
    """The payload. Raises Refused (MALFORMED) if the content is anything but one record with one bytes field."""
    if list(content) != [_RECORD]:
        raise Refused(Refusal.MALFORMED)
    record = content[_RECORD]
    if not isinstance(record, ConfigRecord) or list(record) != [_FIELD]:
        raise Refused(Refusal.MALFORMED)
    payload = record[_FIELD]
    if not isinstance(payload, bytes):
        raise Refused(Refusal.MALFORMED)
    return payload
