"""Four real hospitals: every hospital alone, co-trained, and all data in one place."""

import time

from benchmarks import report
from benchmarks.federation import measure

LEARNERS = {
    "logistic regression": {"learner": "logistic-regression"},
    "random forest": {"learner": "random-forest"},
    "random forest, balanced": {"learner": "random-forest", "learner-params": '{"class_weight": "balanced"}'},
    "gradient boosting": {"learner": "gradient-boosting"},
    "mixed (LR, RF, boosting, LR)": {
        "learner": "logistic-regression,random-forest,gradient-boosting,logistic-regression"
    },
}


def run(seeds: int | None, fast: bool) -> None:
    """Four real hospitals, balanced accuracy on the pooled test set and on each one's own; 20 seeds."""
    seeds = seeds or 20
    settings = {"data": "heart-disease", "num-server-rounds": 10}
    start = time.perf_counter()
    runs = {name: measure({**settings, **learner}, range(seeds)) for name, learner in LEARNERS.items()}
    text = f"# Heart disease, four hospitals, {seeds} seeds\n\nBalanced accuracy, mean ± standard error.\n\n"
    for test, title in (("pooled", "Pooled test set"), ("own", "Each hospital's own test set")):
        header = [title, "local only", "FedCT, one round", "FedCT, fixed point", "centralized", "rounds", "bytes"]
        rows = [
            [
                name,
                *(report.cell(result, f"{method}_balanced_{test}") for method in ("local", "once", "fedct", "central")),
                f"{result.mean('rounds'):.1f}",
                f"{result.mean('bytes_per_silo_and_round'):.0f}",
            ]
            for name, result in runs.items()
        ]
        text += report.table(header, rows) + "\n"
    text += "Rounds: until the fixed point, at most 10. Bytes: sent by one hospital in one round.\n"
    report.write("heart-disease", text, runs, {**settings, "learners": LEARNERS}, time.perf_counter() - start)
