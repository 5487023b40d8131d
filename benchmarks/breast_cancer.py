"""Breast cancer with the paper's sizes: 5 silos with 17 records each, 370 public examples, 114 to test on.

Abourayya et al., arXiv:2310.05696, Table 3.
"""

import time

from benchmarks import report
from benchmarks.federation import measure

LEARNERS = {
    "decision tree": {"learner": "decision-tree"},
    "XGBoost": {"learner": "xgboost"},
    "random forest": {"learner": "random-forest"},
    "RuleFit": {"learner": "rulefit"},
    "mixed (DT, RF, XGB, XGB, RF)": {"learner": "decision-tree,random-forest,xgboost,xgboost,random-forest"},
}
PAPER = {
    "decision tree": "0.89 / 0.89",
    "XGBoost": "0.93 / 0.94",
    "random forest": "0.90 / 0.93",
    "RuleFit": "0.92 / 0.93",
    "mixed (DT, RF, XGB, XGB, RF)": "0.95 / -",
}


def run(seeds: int | None, fast: bool) -> None:
    """Accuracy on the test set, beside the paper's; 20 splits."""
    seeds = seeds or 20
    settings = {"data": "breast-cancer", "num-server-rounds": 10}
    start = time.perf_counter()
    runs = {name: measure({**settings, **learner}, range(seeds)) for name, learner in LEARNERS.items()}
    header = [
        "Accuracy",
        "local only",
        "vote of locals",
        "FedCT",
        "centralized",
        "paper: FedCT / centralized",
        "rounds",
    ]
    rows = [
        [
            name,
            *(report.cell(result, f"{method}_accuracy_pooled") for method in ("local", "vote", "fedct", "central")),
            PAPER[name],
            f"{result.mean('rounds'):.1f}",
        ]
        for name, result in runs.items()
    ]
    text = f"# Breast cancer, 5 silos with 17 records, {seeds} splits\n\n" + report.table(header, rows)
    report.write("breast-cancer", text, runs, settings, time.perf_counter() - start)
    print(text)
