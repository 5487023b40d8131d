"""One ConfigRecord with one bytes field, and nothing beside it."""

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, RecordDict

from fedct_flwr.types import Refusal, Refused
from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.messages import from_record, to_record

PAYLOAD = b"\x08\x01"


def test_nothing_but_the_payload_is_sent():
    content = to_record(PAYLOAD)
    assert {name: dict(record) for name, record in content.items()} == {"fedct": {"payload": PAYLOAD}}
    assert from_record(content) == PAYLOAD


@pytest.mark.parametrize(
    "content",
    [
        RecordDict(),
        RecordDict({"fedct": ConfigRecord()}),
        RecordDict({"other": ConfigRecord({"payload": PAYLOAD})}),
        RecordDict({"fedct": ConfigRecord({"other": PAYLOAD})}),
        RecordDict({"fedct": ConfigRecord({"payload": PAYLOAD, "note": "patient 12"})}),
        RecordDict({"fedct": ConfigRecord({"payload": PAYLOAD}), "model": ArrayRecord([np.zeros(2)])}),
        RecordDict({"fedct": ConfigRecord({"payload": "text"})}),
        RecordDict({"fedct": ConfigRecord({"payload": [PAYLOAD]})}),
        RecordDict({"fedct": ArrayRecord({"payload": Array(np.zeros(2))})}),
    ],
    ids=["empty", "no-field", "other-record", "other-field", "second-field", "second-record", "text", "list", "arrays"],
)
def test_anything_else_is_refused(content: RecordDict):
    with pytest.raises(Refused) as refused:
        from_record(content)
    assert refused.value.reason is Refusal.MALFORMED


# --- reasons to refuse


def test_covers_every_reason_of_the_protocol():
    on_the_wire = dict(labels_pb2.Refusal.items())
    assert on_the_wire.pop("REFUSAL_UNSPECIFIED") == 0
    assert {f"REFUSAL_{reason.name}": reason.number for reason in Refusal} == on_the_wire


ROOT = Path(__file__).parents[2]
PROTO = "fedct_flwr/wire/labels.proto"


@pytest.fixture(scope="module")
def generated(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the code generated anew, by the command of `make proto`."""
    out = tmp_path_factory.mktemp("generated")
    options = ["-I.", f"--python_out={out}", f"--pyi_out={out}", PROTO]
    subprocess.run([sys.executable, "-m", "grpc_tools.protoc", *options], cwd=ROOT, check=True)
    return out


@pytest.mark.parametrize("suffix", ["_pb2.py", "_pb2.pyi"])
def test_generated_code_is_current(suffix: str, generated: Path):
    path = PROTO.replace(".proto", suffix)
    assert (ROOT / path).read_bytes() == (generated / path).read_bytes(), "labels.proto has changed: run `make proto`"
