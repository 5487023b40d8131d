"""Four real hospitals: every hospital alone, co-trained, and all data in one place."""

from functools import partial
from typing import Final

from benchmarks.federation import cotrained
from benchmarks.harness import Column, Grid, Row, Settings, Table

LEARNERS: Final = {
    "logistic regression": {"learner": "logistic-regression"},
    "random forest": {"learner": "random-forest"},
    "random forest, balanced": {"learner": "random-forest", "learner-params": '{"class_weight": "balanced"}'},
    "gradient boosting": {"learner": "gradient-boosting"},
    "mixed (LR, RF, boosting, LR)": {
        "learner": "logistic-regression,random-forest,gradient-boosting,logistic-regression"
    },
}
RULES: Final = {"majority": "fedct", "Dawid-Skene": "fedct-dawid-skene"}


def _by(algorithm: str, settings: Settings) -> dict[str, float]:
    return cotrained({**settings, "algorithm": algorithm})


def _columns(test: str) -> list[Column]:
    return [
        Column("local only", f"majority: local_balanced_{test}"),
        *(
            Column(f"{rule}, {words}", f"{rule}: {reached}_balanced_{test}")
            for rule in RULES
            for words, reached in {"one round": "once", "fixed point": "fedct"}.items()
        ),
        Column("centralized", f"majority: central_balanced_{test}"),
        *(Column(f"rounds, {rule}", f"{rule}: rounds", ".1f") for rule in RULES),
        Column("bytes", "majority: bytes_per_silo_and_round", ".0f"),
    ]


TABLES: Final = {
    "heart-disease": Table(
        "Heart disease, four hospitals",
        "Balanced accuracy, mean ± standard error. Rounds: until the fixed point, at most {num-server-rounds}. Bytes: "
        "sent by one hospital in one round.",
        [Row(name, learner) for name, learner in LEARNERS.items()],
        {rule: partial(_by, algorithm) for rule, algorithm in RULES.items()},
        [Grid("Pooled test set", _columns("pooled")), Grid("Each hospital's own test set", _columns("own"))],
        seeds=20,
        settings={"data": "heart-disease", "num-server-rounds": 10},
        smoke={"num-server-rounds": 2},
        smoke_rows=["logistic regression"],
    )
}
