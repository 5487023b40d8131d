"""The two joint labelers on tables that linear models can learn or cannot.

Made sites (``no_harm_rows``): ranges of some columns and a pair of others make somebody ill, and the shares of the ill
differ between sites. Sums are added in the open, as in ``joint``, and protect nobody.
"""

import time
from collections.abc import Mapping
from typing import Final

from benchmarks import report
from benchmarks.federation import Runs
from benchmarks.joint import DELTA, EPSILONS, joint_labels, own_models
from benchmarks.no_harm_rows import ROWS
from fedct_flwr import datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import LOADERS
from fedct_flwr.types import HardLabels

DATA: Final = ("sites-prevalence", "sites-covariates", "sites-line", "heart-disease", "few-adult-by-workclass")
LEARNER: Final = "random-forest"
KINDS: Final = ("linear", "additive")
MAY_COLLUDE: Final = 1
GUARDED_AT: Final = (3.0,)
_DEFAULT_SEEDS: Final = 5


def run(seeds: int | None, fast: bool) -> None:
    """Joint labelers, linear and additive, on real and made sites: silos' forests at epsilon .5, 1, 3."""
    for data in DATA[:1] if fast else DATA:
        run_row(data, seeds, fast)


def run_row(data: str, seeds: int | None, fast: bool) -> None:
    """One table of all kinds of joint labelers; the others stay as they were measured."""
    LOADERS.update(ROWS)
    start = time.perf_counter()
    runs: dict[str, Runs] = {}
    for seed in range(seeds or _DEFAULT_SEEDS):
        measure(runs, data, seed)
    about = {"delta": DELTA, "epsilons": EPSILONS, "learner": LEARNER, "may_collude": MAY_COLLUDE}
    report.write_row("joint-additive", data, text, runs, about, time.perf_counter() - start)


def measure(runs: dict[str, Runs], name: str, seed: int) -> None:
    """Add one seed of a data set, for both kinds."""
    config = RunConfig.from_flower({"study": "b", "data": name, "learner": LEARNER, "seed": seed})
    dataset = datasets.load(config)
    private = [silo.private for silo in dataset.silos]
    for kind in KINDS:
        labels: dict[float, HardLabels] = {
            epsilon: joint_labels(
                private,
                dataset.public.X,
                dataset.schema,
                epsilon=epsilon,
                may_collude=MAY_COLLUDE,
                seed=seed,
                kind=kind,
            )
            for epsilon in EPSILONS
        }
        runs.setdefault(f"{name}, {kind}", Runs()).add(**dict(own_models(config, dataset, labels, GUARDED_AT)))


def text(runs: Mapping[str, Runs], measured: Mapping[str, str]) -> str:
    """What was measured, as a table; ``measured`` says of each data set by what command."""
    header = ["data", "labeler", "alone", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)]
    header += [*(f"guarded, epsilon {epsilon:g}" for epsilon in GUARDED_AT), "pooled data"]
    names = ["alone", *(f"own {epsilon:g}" for epsilon in EPSILONS)]
    names += [*(f"guarded {epsilon:g}" for epsilon in GUARDED_AT), "pooled data"]
    rows = [[*name.split(", "), *(report.cell(found, each) for each in names)] for name, found in runs.items()]
    seeds = len(next(iter(runs.values())).values["alone"])
    how = "".join(f"{data}: {said.strip().removeprefix('This row: ')} " for data, said in measured.items())
    return (
        f"# Joint labelers: linear and additive, {seeds} seeds\n\n"
        f"Balanced accuracy of silos' own random forests on the pooled test set, mean ± standard error. Epsilon in "
        f"total for each record, at delta {DELTA:g}; at most {MAY_COLLUDE} silo colludes. **Simulated: sums were added "
        "in the open and the noise was seeded**, so these runs protected nobody.\n\n"
        + report.table(header, rows)
        + (f"\nRows: {how.strip()}\n" if how else "")
    )
