"""Boosting libraries by import path, with parameters for a moment's training."""

from typing import Any, Final

PARAMS: Final[dict[str, dict[str, Any]]] = {
    "lightgbm.LGBMClassifier": {"n_estimators": 5, "min_child_samples": 2, "n_jobs": 1, "verbose": -1},
    "catboost.CatBoostClassifier": {
        "iterations": 5, "verbose": False, "allow_writing_files": False, "thread_count": 1,
    },
    "xgboost.XGBClassifier": {"n_estimators": 5, "n_jobs": 1},
    "sklearn.ensemble.HistGradientBoostingClassifier": {"max_iter": 5, "min_samples_leaf": 2},
}  # fmt: skip
