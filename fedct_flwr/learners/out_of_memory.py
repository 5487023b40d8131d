"""Running out of memory, in one sentence that says which setting to lower."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import torch

from fedct_flwr.types import TrainingError

_SIGNS: Final = ("can't allocate memory", "not enough memory", "out of memory")
"""What torch's errors say on a CPU and on GPUs."""


@contextmanager
def said_in_one_sentence(lower: str) -> Iterator[None]:
    """Turn errors of memory into a TrainingError that says what to ``lower``; all others pass."""
    try:
        yield
    except (RuntimeError, MemoryError) as error:
        if not isinstance(error, MemoryError) and not any(sign in str(error).lower() for sign in _SIGNS):
            raise
        if torch.cuda.is_available():
            torch.cuda.empty_cache()
        raise TrainingError(f"the machine has too little memory for the network: lower {lower}") from error
