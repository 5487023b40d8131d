"""Payloads in Flower's records: one ConfigRecord with one bytes field, and nothing else.

Baselines in simulation send weights instead, as Flower's FedAvg expects them. Coordinator to silo: the global weights
under ``arrays``, settings under ``config``. Silo to coordinator: its own under ``arrays``, the number of its records
under ``metrics``, its name under ``silo``. Other arrays of the weights' shapes (SCAFFOLD's control variates) stand
among them, as Flower averages one record: their names begin with ``control/``.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from flwr.app import Array, ArrayRecord, ConfigRecord, MetricRecord, RecordDict
from numpy.typing import NDArray

from fedct_flwr.types import Refusal, Refused, SiloName

_RECORD: Final = "fedct"
_FIELD: Final = "payload"
FEDDYN_ALPHA: Final = "feddyn-alpha"
CONTROL_VARIATES: Final = "control-variates"
ACTION: Final = "secure_sum"
"""The ClientApp's function for these messages is registered by ``@app.query("secure_sum")``."""


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


ARRAYS: Final = "arrays"
CONFIG: Final = "config"
NUM_EXAMPLES: Final = "num-examples"
_CONTROL: Final = "control/"

Weights = Mapping[str, NDArray[Any]]


def to_arrays(weights: Weights) -> ArrayRecord:
    """Weights by name as Flower's arrays."""
    return ArrayRecord({name: Array(value) for name, value in weights.items()})


def to_weights(arrays: ArrayRecord) -> dict[str, NDArray[Any]]:
    """Flower's arrays as weights by name."""
    return {name: array.numpy() for name, array in arrays.items()}


def num_bytes(arrays: ArrayRecord) -> int:
    """Bytes of the arrays on the wire, without Flower's envelope."""
    return sum(len(array.data) for array in arrays.values())


def to_question(arrays: ArrayRecord, config: ConfigRecord) -> RecordDict:
    """The global weights for a silo to train on from, as Flower's FedAvg packs them."""
    return RecordDict({ARRAYS: arrays, CONFIG: config})


def with_control(weights: Weights, control: Weights) -> dict[str, NDArray[Any]]:
    """Both in one, as they travel."""
    return {**weights, **{_CONTROL + name: value for name, value in control.items()}}


def without_control(weights: Weights) -> tuple[dict[str, NDArray[Any]], dict[str, NDArray[Any]]]:
    """The two that ``with_control`` joined."""
    control = {name.removeprefix(_CONTROL): value for name, value in weights.items() if name.startswith(_CONTROL)}
    return {name: value for name, value in weights.items() if not name.startswith(_CONTROL)}, control


def asks_for_weights(content: RecordDict) -> bool:
    """Whether a message carries weights to train on from, instead of an instruction."""
    return ARRAYS in content.array_records


def to_reply(silo: SiloName, weights: Weights, num_examples: int) -> RecordDict:
    """A silo's answer; FedAvg weighs it by ``num_examples``."""
    return RecordDict(
        {
            ARRAYS: to_arrays(weights),
            "metrics": MetricRecord({NUM_EXAMPLES: num_examples}),
            "silo": ConfigRecord({"name": silo}),
        }
    )


def read_reply(content: RecordDict, sent: ArrayRecord) -> SiloName:
    """The silo of a reply to ``sent``. Raises Refused (MALFORMED) unless weights are finite and of the same shapes."""
    try:
        if set(content) != {ARRAYS, "metrics", "silo"}:
            raise Refused(Refusal.MALFORMED)
        received, expected = to_weights(content.array_records[ARRAYS]), to_weights(sent)
        silo, weight = content.config_records["silo"]["name"], content.metric_records["metrics"][NUM_EXAMPLES]
        fits = {name: value.shape for name, value in received.items()} == {
            name: value.shape for name, value in expected.items()
        }
        if not (fits and all(np.isfinite(value).all() for value in received.values())):
            raise Refused(Refusal.MALFORMED)
        if not (isinstance(silo, str) and isinstance(weight, int) and weight > 0):
            raise Refused(Refusal.MALFORMED)
    except (KeyError, TypeError, ValueError):
        raise Refused(Refusal.MALFORMED) from None
    return silo
