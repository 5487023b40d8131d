"""Learners: what a silo trains. Any scikit-learn classifier is one."""

from typing import TYPE_CHECKING

from fedct_flwr import importing

if TYPE_CHECKING:
    from fedct_flwr.learners.automatic import Automatic, AutomaticRegressor, Views
    from fedct_flwr.learners.language import Sentences, Tokens, reading_params, same_folder, unusual
    from fedct_flwr.learners.meeting import together
    from fedct_flwr.learners.safeguard import Lesson, NetworkSafeguard
    from fedct_flwr.learners.soft import COURSES, check_in_turn, check_soft
    from fedct_flwr.learners.survival import ByFunction, SurvivalLearner
    from fedct_flwr.learners.text import Table, transformer_for

__all__ = [
    "COURSES", "Automatic", "AutomaticRegressor", "ByFunction", "Lesson", "NetworkSafeguard", "Sentences",
    "SurvivalLearner", "Table", "Tokens", "Views", "check_in_turn", "check_soft", "reading_params", "same_folder",
    "together", "transformer_for", "unusual",
]  # fmt: skip

__getattr__ = importing(
    __name__,
    {
        "automatic": ("Automatic", "AutomaticRegressor", "Views"),
        "language": ("Sentences", "Tokens", "reading_params", "same_folder", "unusual"),
        "meeting": ("together",),
        "safeguard": ("Lesson", "NetworkSafeguard"),
        "soft": ("COURSES", "check_in_turn", "check_soft"),
        "survival": ("ByFunction", "SurvivalLearner"),
        "text": ("Table", "transformer_for"),
    },
)
