"""Messages between coordinator and silos, to the byte."""

from typing import TYPE_CHECKING

from fedct_flwr import importing

if TYPE_CHECKING:
    from fedct_flwr.wire.numbers import PROBABILITIES, VALUES, kind_named
    from fedct_flwr.wire.sums import (
        ADDED,
        GRADIENTS,
        HISTOGRAMS,
        PATIENTS,
        SCORES,
        SUMS,
        NoisySum,
        Summed,
        in_sums,
        put_joint,
        take_histograms,
        take_joint,
    )

__all__ = [
    "ADDED", "GRADIENTS", "HISTOGRAMS", "PATIENTS", "PROBABILITIES", "SCORES", "SUMS", "VALUES", "NoisySum", "Summed",
    "in_sums", "kind_named", "put_joint", "take_histograms", "take_joint",
]  # fmt: skip

__getattr__ = importing(__name__)
