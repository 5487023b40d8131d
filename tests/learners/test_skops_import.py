"""skops without torch: what it leads to is not loaded, and nothing is left in its place."""

import subprocess
import sys

PROGRAM = """
import sys
from fedct_flwr.learners.skops_file import skops_io
first, again = skops_io(), skops_io()
assert first is again and first.dumps
assert "torch" not in sys.modules
import sklearn.externals.array_api_compat.torch as wrapped
import torch
assert wrapped.Tensor is torch.Tensor
"""


def test_skops_does_not_load_torch_and_others_still_can() -> None:
    subprocess.run([sys.executable, "-c", PROGRAM], check=True)
