"""Messages between coordinator and silos, to the byte."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.wire.numbers import KINDS, PROBABILITIES, VALUES
    from fedct_flwr.wire.sums import (
        ADDED,
        GRADIENTS,
        RecordSum,
        Summed,
        in_sums,
        kind_of_counts,
        take_histograms,
        take_joint,
    )

__all__ = [
    "ADDED", "GRADIENTS", "KINDS", "PROBABILITIES", "VALUES", "RecordSum", "Summed", "in_sums", "kind_of_counts",
    "take_histograms", "take_joint",
]  # fmt: skip

__getattr__ = importing(__name__)
