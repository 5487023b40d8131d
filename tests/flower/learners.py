"""Learners for simulations. They are imported where the app's bundle is, which leaves ``fedct_flwr.cli`` out."""

from pathlib import Path
from typing import Any

from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier


class Placed(DecisionTreeClassifier):
    """A learner that leaves a file in a folder, called as the Ray node on which it trains."""

    def __init__(self, folder: str = "", random_state: Any = None) -> None:
        super().__init__(random_state=random_state)
        self.folder = folder

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
        import ray

        (Path(self.folder) / ray.get_runtime_context().get_node_id()).touch()
        return super().fit(X, y, sample_weight=sample_weight)


def slow() -> RandomForestClassifier:
    """A learner that takes its time."""
    return RandomForestClassifier(n_estimators=20_000)
