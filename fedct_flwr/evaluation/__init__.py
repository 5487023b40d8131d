"""How a run ended: the models that silos end with, baselines to compare with, their scores, and who gained."""

from typing import TYPE_CHECKING

from fedct_flwr.front_door import importing

if TYPE_CHECKING:
    from fedct_flwr.evaluation.references import kept_model
    from fedct_flwr.evaluation.scoreboard import TRAINING, judgments, save_gains, score, table, who_gained

__all__ = ["TRAINING", "judgments", "kept_model", "save_gains", "score", "table", "who_gained"]

__getattr__ = importing(__name__)
