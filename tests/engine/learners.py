"""Learners for simulations. They are imported where the app's bundle is, which leaves ``fedct_flwr.cli`` out."""

import time
from typing import Any

from sklearn.ensemble import RandomForestClassifier
from sklearn.tree import DecisionTreeClassifier


class Hanging(DecisionTreeClassifier):
    """A learner that never comes to an end."""

    def fit(self, X: Any, y: Any) -> Any:
        time.sleep(3600)


def slow() -> RandomForestClassifier:
    """A learner that takes its time."""
    return RandomForestClassifier(n_estimators=20_000)
