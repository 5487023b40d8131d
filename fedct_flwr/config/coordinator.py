"""A coordinator's own settings, ``coordinator.toml``."""

from typing import Literal

from pydantic import Field

from fedct_flwr.config.names import Address
from fedct_flwr.config.settings import Settings

LONGEST_MESSAGE = 2_000_000
"""Bytes. The longest body that a SuperNode posts is one reply: its 3 objects cross one by one, and Flower splits no
record of ours. By their encoding, 50,000 public examples of 10 classes make 25 kB of labels or 450 kB of
probabilities; all other bodies are below 1 kB."""


class CoordinatorConfig(Settings):
    """``coordinator.toml``, in the coordinator's folder."""

    gateway: Address | Literal[""] = ""
    """Where silos find the gateway, as ``host:port``: their invitations say so."""
    max_message: int = Field(default=LONGEST_MESSAGE, ge=100_000, le=1_000_000_000)
    """Bytes of the longest message that the gateway takes."""
