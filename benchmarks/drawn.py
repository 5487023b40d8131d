"""Where no public set exists: one drawn from a data dictionary or from noisy counts, next to the real one."""

from collections.abc import Sequence
from typing import Any, Final

from benchmarks import progress, report
from benchmarks.federation import Runs, measure
from benchmarks.natural_silos import NATURAL
from fedct_flwr import Drawn, datasets

SEEDS: Final = 10
TABLES: Final = ("heart-disease", "adult-by-workclass", "mushroom-by-habitat", "wine-by-type", "fractures", "burns")
LEARNERS: Final = ("logistic-regression", "random-forest", "hist-gradient-boosting")
LITTLE_NOISE: Final = 10.0
SETS: Final[dict[str, Drawn | None]] = {
    "real": None,
    "uniform": Drawn(0),
    **{f"epsilon {epsilon:g}": Drawn(epsilon) for epsilon in (0.3, 1.0, 3.0, LITTLE_NOISE)},
}
FAST: Final = ("real", "uniform", "epsilon 1")


def run(seeds: int | None, fast: bool, rows: Sequence[str] = ()) -> None:
    """Public sets that are drawn, on six tables with natural silos, next to the real ones; 10 seeds."""
    datasets.LOADERS.update(NATURAL)
    seeds, runs, lines = seeds or SEEDS, {}, []
    for table in progress.chosen(rows, TABLES[:1] if fast else TABLES, TABLES):
        for learner in LEARNERS[: 2 if fast else None]:
            real = Runs()
            for name in FAST if fast else SETS:
                drawn = SETS[name]
                settings: dict[str, Any] = {"data": table, "learner": learner, **(drawn.settings() if drawn else {})}
                ours = {"algorithm": "fedct-dawid-skene", "pseudo-weight": "auto"}
                found = runs[f"{table}, {learner}, {name}"] = measure({**settings, **ours}, range(seeds))
                real = real if drawn else found
                share = f"{_gain(found, 'pooled') / _gain(real, 'pooled'):.0%}"
                cells = [report.cell(found, f"{way}_balanced_pooled") for way in ("local", "fedct", "central")]
                own = f"{_gain(found, 'own'):+.3f}"
                lines.append([table, learner, name, *cells, share, own])
    text = (
        f"# Drawn public sets, {seeds} seeds\n\n{__doc__} Balanced accuracy on all silos' test records, mean ± "
        "standard error; share: of the real set's gain over silos alone; own: gain on own test records. Ranges and "
        "categories are those of the tables. Drawn sets have 2,000 examples, real ones what silos gave away. Delta is "
        f"1e-5; epsilon {LITTLE_NOISE:g} has noise of some records.\n\n"
    )
    header = ["table", "learner", "public set", "alone", "co-trained", "pooled data", "share", "own"]
    report.write("drawn", text + report.table(header, lines), runs, {"tables": TABLES})


def _gain(found: Runs, test: str) -> float:
    return found.mean(f"fedct_balanced_{test}") - found.mean(f"local_balanced_{test}")
