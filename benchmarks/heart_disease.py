"""Four real hospitals: every hospital alone, co-trained, and all data in one place."""

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


RULES = {"majority": "fedct", "Dawid-Skene": "fedct-dawid-skene"}
REACHED = ("once", "fedct")


def run(seeds: int | None, fast: bool) -> None:
    """Four real hospitals, balanced accuracy on the pooled test set and on each one's own; 20 seeds."""
    seeds = seeds or 20
    settings = {"data": "heart-disease", "num-server-rounds": 10}
    runs = {
        f"{name}, {rule}": measure({**settings, **learner, "algorithm": algorithm}, range(seeds))
        for name, learner in LEARNERS.items()
        for rule, algorithm in RULES.items()
    }
    text = f"# Heart disease, four hospitals, {seeds} seeds\n\nBalanced accuracy, mean ± standard error.\n\n"
    for test, title in (("pooled", "Pooled test set"), ("own", "Each hospital's own test set")):
        reached = [f"{rule}, {until}" for rule in RULES for until in ("one round", "fixed point")]
        header = [title, "local only", *reached, "centralized", "rounds", "bytes"]
        rows = []
        for name in LEARNERS:
            by_rule = [runs[f"{name}, {rule}"] for rule in RULES]
            rows.append(
                [
                    name,
                    report.cell(by_rule[0], f"local_balanced_{test}"),
                    *(report.cell(found, f"{method}_balanced_{test}") for found in by_rule for method in REACHED),
                    report.cell(by_rule[0], f"central_balanced_{test}"),
                    " / ".join(f"{found.mean('rounds'):.1f}" for found in by_rule),
                    f"{by_rule[0].mean('bytes_per_silo_and_round'):.0f}",
                ]
            )
        text += report.table(header, rows) + "\n"
    text += (
        f"Rounds: until the fixed point, at most 10 ({' / '.join(RULES)}). Bytes: sent by one hospital in one round.\n"
    )
    about = {**settings, "learners": LEARNERS, "rules": RULES}
    report.write("heart-disease", text, runs, about)
