"""From how many records joint labels help: tables with natural silos, of which each keeps a few records.

A silo's model and the pooled one are logistic regressions with balanced classes, as the labeler weighs classes alike.
"""

from dataclasses import replace
from typing import Any, Final

from benchmarks import report
from benchmarks.federation import Runs
from benchmarks.joint import DELTA, EPSILONS, joint_labels, own_models
from benchmarks.natural_silos import NATURAL
from fedct_flwr import datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.privacy.noise_shares import least_multiplier
from fedct_flwr.seeding import generator
from fedct_flwr.types import Examples

SEEDS: Final = 4
KEPT: Final = (30, 60, 120, 250)
"""Records of each silo."""
FEWEST: Final = 20


def run(seeds: int | None, fast: bool) -> None:
    """From how many records joint labels help, on eight tables with natural silos; 4 seeds."""
    datasets.LOADERS.update(NATURAL)
    runs: dict[str, Runs] = {}
    for name in ("heart-disease", *NATURAL):
        for kept in KEPT[1::2] if fast else KEPT:
            for seed in range(seeds or SEEDS):
                for epsilon, values in measured(name, kept, seed):
                    runs.setdefault(f"{name}, {kept}, epsilon {epsilon:g}", Runs()).add(**values)
    found = sorted(runs.items(), key=lambda row: row[1].mean("per noise"))
    rows = [
        [name, f"{one.mean('records'):.0f}", f"{one.mean('per noise'):.0f}"]
        + [report.cell(one, key) for key in ("alone", "gain", "pooled data")]
        for name, one in found
    ]
    text = (
        f"# Joint labels of few records, {seeds or SEEDS} seeds\n\n{' '.join((__doc__ or '').split())} Scored by "
        f"balanced accuracy on all silos' test records; delta {DELTA:g}. Per noise: all silos' records divided by the "
        "noise multiplier of epsilon and delta, by which rows are sorted.\n\n"
    )
    header = ["table, records of a silo", "records", "per noise", "alone", "gain", "pooled data"]
    report.write("joint-few", text + report.table(header, rows), runs, {})


def measured(name: str, kept: int, seed: int) -> list[tuple[float, dict[str, float]]]:
    """Each epsilon, and what was measured; nothing where the silos have too few records."""
    config = RunConfig.from_flower(
        {"study": "few", "data": name, "seed": seed, "public-fraction": 0.25, "test-fraction": 0.25,
         "learner": "logistic-regression", "learner-params": '{"class_weight": "balanced"}'}
    )  # fmt: skip
    dataset = _cut(datasets.load(config), kept, seed)
    private = [silo.private for silo in dataset.silos]
    records = sum(own.size for own in private)
    if len(private) < 2 or records < len(private) * kept / 2:
        return []
    labels = {
        epsilon: joint_labels(private, dataset.public.X, dataset.schema, epsilon=epsilon, may_collude=1, seed=seed)
        for epsilon in EPSILONS
    }
    values = dict(own_models(config, dataset, labels, guarded_at=()))
    known = {"alone": values["alone"], "pooled data": values["pooled data"], "records": float(records)}
    return [
        (
            epsilon,
            {**known, "gain": values[f"own {epsilon:g}"] - values["alone"],
             "per noise": records / least_multiplier(epsilon, DELTA)},
        )
        for epsilon in EPSILONS
    ]  # fmt: skip


def _cut(dataset: FederatedDataset, kept: int, seed: int) -> FederatedDataset:
    """With so many records of each silo, as far as it has them; without silos of few, or of one class."""
    silos: list[Any] = []
    for silo in dataset.silos:
        own = silo.private
        rows = generator(seed, "few", silo.name).permutation(own.size)[:kept]
        few = Examples(own.X[rows], own.y[rows])
        if few.size >= FEWEST and len(set(few.y)) == len(dataset.schema.classes):
            silos.append(replace(silo, private=few))
    return replace(dataset, silos=tuple(silos))
