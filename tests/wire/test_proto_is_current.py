"""The generated code in the repository is what labels.proto says."""

import subprocess
import sys
from pathlib import Path

import pytest

from fedct_flwr.wire import labels_pb2

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


def test_the_code_in_use_is_the_one_in_the_repository():
    assert Path(labels_pb2.__file__) == ROOT / PROTO.replace(".proto", "_pb2.py")
