"""Reasons to refuse: one number and one sentence each, the same in Python as on the wire."""

import subprocess
import sys
from pathlib import Path

import pytest

from fedct_flwr.types import Refusal, Refused
from fedct_flwr.wire import labels_pb2


def test_covers_every_reason_of_the_protocol():
    on_the_wire = dict(labels_pb2.Refusal.items())
    assert on_the_wire.pop("REFUSAL_UNSPECIFIED") == 0
    assert {f"REFUSAL_{reason.name}": reason.number for reason in Refusal} == on_the_wire


@pytest.mark.parametrize("number", [labels_pb2.REFUSAL_UNSPECIFIED, 99, -1, 2**31 - 1])
def test_a_number_without_reason_is_malformed(number: int):
    with pytest.raises(Refused) as refused:
        Refusal.from_number(number)
    assert refused.value.reason is Refusal.MALFORMED


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
