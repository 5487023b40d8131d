"""Rules that decide a label for each public example from the votes of the silos."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.consensus.prediction import (
        TRUSTS,
        consensus_of_values,
        naive,
        prediction_consensus,
        similarity_of_values,
    )

__all__ = ["TRUSTS", "consensus_of_values", "naive", "prediction_consensus", "similarity_of_values"]

__getattr__ = importing(__name__)
