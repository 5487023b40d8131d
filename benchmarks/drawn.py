"""Where no public set exists: one drawn from a data dictionary or from noisy counts, next to the real one."""

import warnings
from functools import partial
from typing import Any, Final

from benchmarks import progress, report
from benchmarks.harness import FULL, Asked
from benchmarks.natural_silos import NATURAL, load_flamby
from benchmarks.practice_data import load as load_practices
from benchmarks.report import Runs
from fedct_flwr import Drawn, datasets, simulate

SEEDS: Final = 10
LOADERS: Final = {**NATURAL, "flamby": load_flamby, "practices": load_practices}
TABLES: Final = (
    "heart-disease", "flamby", "practices", "adult-by-workclass", "mushroom-by-habitat", "wine-by-type", "fractures",
    "burns",
)  # fmt: skip
_OF_TWO: Final = "wine-by-type"
"""Two silos, of which sums would tell each the other's: joint labels take three."""
LEARNERS: Final = ("logistic-regression", "random-forest", "hist-gradient-boosting")
LITTLE_NOISE: Final = 10.0
CHAIN: Final = "epsilon .3, labels .7"
"""The set is drawn and the labels are the joint labeler's: epsilon 1 for both together."""
SETS: Final[dict[str, Drawn | None]] = {
    "real": None,
    "uniform": Drawn(0),
    **{f"epsilon {epsilon:g}": Drawn(epsilon) for epsilon in (0.3, 1.0, 3.0, LITTLE_NOISE)},
    CHAIN: Drawn(0.3),
}
FAST: Final = ("real", "uniform", "epsilon 1", CHAIN)


def run(asked: Asked) -> None:
    """Public sets that are drawn, on eight tables with natural silos, next to the real ones; 10 seeds."""
    datasets.LOADERS.update(LOADERS)
    warnings.simplefilter("ignore")
    seeds, runs, lines, small = asked.seeds(SEEDS), {}, [], asked.size != FULL
    for table in asked.chosen(TABLES, TABLES[:1], TABLES[:1]):
        for learner in LEARNERS[: asked.of(None, 2, 1)]:
            real = Runs()
            for name in FAST if small else SETS:
                if name == CHAIN and table == _OF_TWO:
                    continue
                drawn = SETS[name]
                found = runs[f"{table}, {learner}, {name}"] = Runs()
                for seed in range(seeds):
                    ours = partial(_measured, table, learner, name, seed)
                    found.add(**progress.once(f"{table}, {learner}, {name}, {seed}", ours))
                real = real if drawn else found
                share = f"{_gain(found, 'pooled') / _gain(real, 'pooled'):.0%}"
                cells = [report.cell(found, f"pooled_{way}") for way in ("local", "federated", "centralized")]
                own = f"{_gain(found, 'own'):+.3f}"
                lines.append([table, learner, name, *cells, share, own])
    text = (
        f"# Drawn public sets, {seeds} seeds\n\n{__doc__} Balanced accuracy on all silos' test records, mean ± "
        "standard error; share: of the real set's gain over silos alone; own: gain on own test records. Ranges and "
        "categories are those of the tables. Drawn sets have 2,000 examples, real ones what silos gave away. Delta is "
        f"1e-5; epsilon {LITTLE_NOISE:g} has noise of some records. "
        f"{CHAIN}: the whole chain is private at epsilon 1, with the joint labeler's labels.\n\n"
    )
    header = ["table", "learner", "public set", "alone", "co-trained", "pooled data", "share", "own"]
    report.write("drawn", text + report.table(header, lines), runs, {"tables": TABLES})


def _measured(table: str, learner: str, name: str, seed: int) -> dict[str, float]:
    """Balanced accuracy ``test_model`` of one seed, mean over the silos."""
    rule: dict[str, Any] = {"algorithm": "fedct-joint", "epsilon": 0.7} if name == CHAIN else {}
    run = simulate(table, learner=learner, public=SETS[name], seed=seed, progress=False, **rule)
    scored = [column for column in run.scores if column.endswith("_balanced_accuracy")]
    return {column.removesuffix("_balanced_accuracy"): float(run.scores[column].mean()) for column in scored}


def _gain(found: Runs, test: str) -> float:
    return found.mean(f"{test}_federated") - found.mean(f"{test}_local")
