"""A learner whose training a test can hold up, in this process or in another."""

import time
from pathlib import Path
from typing import Any, Self

from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.tree import DecisionTreeClassifier


class Held(ClassifierMixin, BaseEstimator):
    """A decision tree that trains for as long as there is a file ``hold`` in ``folder``; ``training`` says it began."""

    def __init__(self, folder: str = "") -> None:
        self.folder = folder

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        self.tree_ = DecisionTreeClassifier(max_depth=3, random_state=0).fit(X, y, sample_weight)
        self.classes_ = self.tree_.classes_
        with (Path(self.folder) / "fits").open("a", encoding="utf-8") as fits:
            fits.write("x")
        while (Path(self.folder) / "hold").exists():
            (Path(self.folder) / "training").touch()
            time.sleep(0.02)
        (Path(self.folder) / "training").unlink(missing_ok=True)
        return self

    def predict(self, X: Any) -> Any:
        return self.tree_.predict(X)


def held_in(folder: Path) -> dict[str, Any]:
    """What goes under ``[learner]``."""
    return {"name": "tests.silo.held.Held", "params": {"folder": str(folder)}, "packages": ["tests"]}
