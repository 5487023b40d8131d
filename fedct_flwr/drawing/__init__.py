"""Counts with noise: of patients, and of columns' values, from which a public set is drawn where none exists."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.drawing.counts import CountPlan, check_counts, count_in_words, draw
    from fedct_flwr.drawing.patients import PatientCount
    from fedct_flwr.drawing.simulated import WITHOUT_DICTIONARY

__all__ = ["WITHOUT_DICTIONARY", "CountPlan", "PatientCount", "check_counts", "count_in_words", "draw"]

__getattr__ = importing(__name__)
