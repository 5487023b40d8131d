"""Breast cancer with the paper's sizes: 5 silos with 17 records each, 370 public examples, 114 to test on.

Abourayya et al., arXiv:2310.05696, Table 3.
"""

import time

from benchmarks import report
from benchmarks.federation import measure

LEARNERS = {
    "decision tree": ("decision-tree", (0.89, 0.89)),
    "XGBoost": ("xgboost.XGBClassifier", (0.93, 0.94)),
    "random forest": ("random-forest", (0.90, 0.93)),
    "RuleFit": ("imodels.RuleFitClassifier", (0.92, 0.93)),
    "mixed (DT, RF, XGB, XGB, RF)": (
        "decision-tree,random-forest,xgboost.XGBClassifier,xgboost.XGBClassifier,random-forest",
        (0.95, None),
    ),
}


def run(seeds: int) -> None:
    """Accuracy on the test set, beside the paper's."""
    settings = {"data": "breast-cancer", "num-server-rounds": 10}
    start = time.perf_counter()
    runs = {name: measure({**settings, "learner": learner}, range(seeds)) for name, (learner, _) in LEARNERS.items()}
    header = ["Accuracy", "local only", "vote of locals", "FedCT", "centralized", "paper: FedCT / centralized", "rounds"]
    rows = [
        [
            name,
            *(report.cell(result, f"{method}_accuracy_pooled") for method in ("local", "vote", "fedct", "central")),
            " / ".join("-" if figure is None else f"{figure:.2f}" for figure in LEARNERS[name][1]),
            f"{result.mean('rounds'):.1f}",
        ]
        for name, result in runs.items()
    ]
    text = f"# Breast cancer, 5 silos with 17 records, {seeds} splits\n\n" + report.table(header, rows)
    report.write("breast-cancer", text, runs, settings, time.perf_counter() - start)
    print(text)
