"""A silo's agent that ends at once, and only once, at a step of a secure sum: ``dies.py STEP TIMES``.

What it would have answered is in its log by then, and never leaves.
"""

import os
import sys
from pathlib import Path

from fedct_flwr.cli.main import app
from fedct_flwr.secure_sum.messages import Header, Step
from fedct_flwr.secure_sum.silo import Contribution, Summand

DIED = Path("/app/silo/state/died")

step, left = Step[sys.argv[1]], int(sys.argv[2])
answer = Summand.answer


def dying(self: Summand, request: bytes, contribution: Contribution) -> bytes:
    global left
    reply = answer(self, request, contribution)
    left -= Header.of(request).step is step
    if left == 0 and not DIED.exists():
        DIED.touch()
        # Docker starts it again.
        os._exit(137)
    return reply


Summand.answer = dying  # type: ignore[method-assign]
sys.argv = ["fedct", "silo", "start"]
app()
