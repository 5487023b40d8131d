"""The joint labeler: one linear model that silos train together by noisy sums, and what their own models make of it.

Sums are added in the open here and noise is seeded: this measures what labels are worth at a budget, and protects
nobody. Settings of the labeler follow from public numbers (``joint_linear.plan_for``); the rule for them was chosen
after looks at the hospitals, at one split of FashionMNIST and at one of Adult. Public labels and test sets are read to
score alone. Each row can be measured by itself, and the others stay as they were measured.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import balanced_accuracy_score

from benchmarks import report
from benchmarks.harness import Asked
from benchmarks.privacy_data import ADULT, FEW_LARGE, MANY_SMALL, Federation, Setting, Sizes, learner_of, load
from benchmarks.report import Runs
from fedct_flwr import datasets, simulate
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.evaluation.references import centralized, local_only
from fedct_flwr.labelers.joint_linear import joint_labeler, train_together
from fedct_flwr.learners.build import build_learner
from fedct_flwr.learners.safeguard import Safeguard
from fedct_flwr.privacy.noise_shares import surely_honest
from fedct_flwr.privacy.randomness import SimulatedNoise
from fedct_flwr.scoring import balanced_accuracy
from fedct_flwr.seeding import generator
from fedct_flwr.silo.answers import cotrain
from fedct_flwr.types import Examples, Features, HardLabels
from fedct_flwr.wire.content import STEPS, Joint, Query

DELTA: Final = 1e-5
EPSILONS: Final = (0.5, 1.0, 3.0)
GUARDED_AT: Final = (1.0, 3.0)
LEARNERS: Final = ("logistic-regression", "random-forest")
SEEDS_OF_HOSPITALS: Final = 20
SEEDS: Final = 5
SIZES: Final = Sizes(10_000, 0, 3)
FAST_SIZES: Final = Sizes(4_000, 0, 2)
SMOKE_SIZES: Final = Sizes(500, 0, 1)


class Part(NamedTuple):
    """A data set cut into silos, of which so many may collude; ``name``: of its row, as commands call it."""

    name: str
    setting: Setting
    may_collude: int

    def small(self) -> "Part":
        """The smallest size."""
        return self._replace(setting=self.setting.small(), may_collude=1)


HOSPITALS: Final = "Four hospitals"
HOSPITALS_ROW: Final = "hospitals"
COLLUDING_HOSPITALS: Final = 1
PATIENTS: Final = "Five visits of each patient"
_VISITS: Final = 5
_VARIATION: Final = 0.3
"""Of visits around their patient's record, in standard deviations."""
PARTS: Final = (Part("fashion-mnist-50", MANY_SMALL, 5), Part("fashion-mnist-5", FEW_LARGE, 1), Part("adult", ADULT, 2))


def run(asked: Asked) -> None:
    """The joint labeler at epsilon .5, 1 and 3: four hospitals (20 seeds), FashionMNIST and Adult (5 seeds)."""
    runs: dict[str, Runs] = {}
    for row in asked.chosen(tuple(ROWS), tuple(ROWS), ("patients", "adult")):
        ROWS[row](runs, asked)
    report.write("joint", text(runs), runs, {"delta": DELTA, "epsilons": EPSILONS})


def joint_labels(
    private: list[Examples],
    public: Features,
    schema: Schema,
    *,
    epsilon: float,
    may_collude: int,
    seed: int,
    kind: str = "linear",
) -> HardLabels:
    """Labels ``(num_public,)`` of one labeler that these silos train together, none of them dropping out.

    ``kind``: as the setting ``joint-labeler`` names it.
    """
    plan = Joint(
        records=sum(own.size for own in private),
        steps=STEPS,
        epsilon=epsilon,
        delta=DELTA,
        honest=surely_honest(len(private), may_collude),
        columns=0 if kind == "linear" else len(schema.without_texts),
        seed=seed,
    )
    labeler = joint_labeler(plan, PublicSet(public), schema)
    noises = [SimulatedNoise(generator(seed, "joint noise", str(epsilon), place)) for place in range(len(private))]
    return labeler.label(train_together(labeler, private, noises), public)


def hospitals(runs: dict[str, Runs], seed: int) -> None:
    """Add one seed: silos' own models, balanced accuracy on the pooled test set."""
    labels: dict[float, HardLabels] = {}
    for learner in LEARNERS:
        config = RunConfig.from_flower({"study": "b", "data": "heart-disease", "learner": learner, "seed": seed})
        dataset = datasets.load(config)
        if not labels:
            private = [silo.private for silo in dataset.silos]
            for epsilon in EPSILONS:
                terms: dict[str, Any] = {"epsilon": epsilon, "may_collude": COLLUDING_HOSPITALS, "seed": seed}
                labels[epsilon] = joint_labels(private, dataset.public.X, dataset.schema, **terms)
        values = dict(own_models(config, dataset, labels))
        for epsilon, found in labels.items():
            values[f"labels {epsilon:g}"] = _balanced(dataset.truth, found)
        runs.setdefault(f"{HOSPITALS}, {learner}", Runs()).add(**values)


def patients(runs: dict[str, Runs], seed: int) -> None:
    """Add one seed: the labels of four hospitals whose patients come once, or five times."""
    dataset = datasets.load(RunConfig.from_flower({"study": "b", "data": "heart-disease", "seed": seed}))
    names, values = [column.name for column in dataset.schema.columns], {}
    public = pd.DataFrame(dataset.public.X, columns=names)
    for what, visits in (("once", 1), ("patients", _VISITS), ("records", _VISITS)):
        tables = {}
        for place, silo in enumerate(dataset.silos):
            rows, rng = np.repeat(np.arange(silo.private.size), visits), generator(seed, "visits", silo.name)
            spread = (visits > 1) * _VARIATION * np.nanstd(silo.private.X, axis=0)
            X = silo.private.X[rows] + spread * rng.normal(size=(len(rows), len(names)))
            tables[silo.name] = pd.DataFrame(X, columns=names).assign(ill=silo.private.y[rows])
            if what == "patients":
                tables[silo.name]["patient"] = rows + 10_000 * place
        found = simulate(
            tables, public, label="ill", group="patient" if what == "patients" else "", algorithm="fedct-joint",
            epsilon=1.0, learner="logistic-regression", seed=seed, progress=False, test_fraction=0.0,
            baselines="none", inspect=False,
        )  # fmt: skip
        values[what] = _balanced(dataset.truth, found.consensus.astype(np.int16))
    runs.setdefault(PATIENTS, Runs()).add(**values)


def own_models(
    config: RunConfig,
    dataset: FederatedDataset,
    labels: Mapping[float, HardLabels],
    guarded_at: Sequence[float] = GUARDED_AT,
) -> Iterator[tuple[str, float]]:
    """Mean balanced accuracy on the pooled test set: alone, on pooled data, and with labels by epsilon.

    ``guarded_at``: epsilons at which models are guarded too, which takes ten times as long.
    """
    places = range(len(dataset.silos))
    yield "alone", _mean([local_only(config, dataset, place) for place in places], dataset.test)
    yield "pooled data", _mean([centralized(config, dataset, places[0])], dataset.test)
    for epsilon, targets in labels.items():
        for guarded in (False, True) if epsilon in guarded_at else (False,):
            models = []
            for place in places:
                silo = dataset.silos[place]
                model = build_learner(config, dataset, place, silo.private.X)
                made = Safeguard(silo.private, len(dataset.schema.classes), config.seed, silo.name)
                given = made if guarded else None
                cotrain(model, silo.private, dataset.public, targets, Query(seed=0, size=1), safeguard=given)
                models.append(model)
            yield f"{'guarded' if guarded else 'own'} {epsilon:g}", _mean(models, dataset.test)


def silos(runs: dict[str, Runs], part: Part, sizes: Sizes, seed: int) -> None:
    """Add one seed: labels, and the same silos' models with and without them, on the test set."""
    setting = part.setting
    federation = load(setting, sizes, seed)
    values = {}
    alone = [learner_of(seed).fit(*own) for own in federation.silos[: sizes.models]]
    values["balanced alone"] = _mean(alone, federation.test)
    for epsilon in EPSILONS:
        raw = federation.raw_public
        terms: dict[str, Any] = {"epsilon": epsilon, "may_collude": part.may_collude, "seed": seed}
        labels = joint_labels(federation.raw_silos, raw.X, federation.schema, **terms)
        values[f"balanced labels {epsilon:g}"] = _balanced(raw.y, labels)
        models = _learned(federation, labels, sizes, seed)
        values[f"balanced gain {epsilon:g}"] = _mean(models, federation.test) - values["balanced alone"]
    runs.setdefault(setting.title, Runs()).add(**values)


def _learned(federation: Federation, labels: HardLabels, sizes: Sizes, seed: int) -> list[Any]:
    public = federation.public.X
    return [
        learner_of(seed).fit(np.concatenate([own.X, public]), np.concatenate([own.y, labels]))
        for own in federation.silos[: sizes.models]
    ]


def _mean(models: list[Any], test: Examples) -> float:
    return float(np.mean([balanced_accuracy(model, test) for model in models]))


def _balanced(truth: Any, labels: HardLabels) -> float:
    return float(balanced_accuracy_score(truth, labels))


def text(runs: Mapping[str, Runs]) -> str:
    """The results, in words and tables."""
    parts = [
        "# The joint labeler at a total epsilon for each record\n\n"
        f"Epsilon at delta {DELTA:g}, mean ± standard error. **Simulated: sums were added in the open and the noise "
        "was seeded**, so these runs protected nobody. Integers, clipping and each silo's noise are those of protected "
        "sums. Noise counts honest silos only, so the sum has more than the budget needs where silos may collude.\n"
    ]
    if any(name.startswith(HOSPITALS) for name in runs):
        parts.append(_hospitals_table(runs))
    if PATIENTS in runs:
        found = runs[PATIENTS]
        cells = [report.cell(found, what) for what in ("once", "patients", "records")]
        parts.append(
            f"## {PATIENTS}, {len(found.values['once'])} seeds\n\nBalanced accuracy of the labels of four hospitals at "
            f"epsilon 1. A visit is the patient's record, changed by {_VARIATION:g} standard deviations.\n\n"
            + report.table(["one visit", "five, promised to patients", "five, promised to records"], [cells])
        )
    parts += [_table(part, runs[part.setting.title]) for part in PARTS if part.setting.title in runs]
    return "\n".join(parts)


def _hospitals_table(runs: Mapping[str, Runs]) -> str:
    found = {learner: runs[f"{HOSPITALS}, {learner}"] for learner in LEARNERS}
    first = found[LEARNERS[0]]
    header = ["own models", "alone", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)]
    header += [*(f"guarded, epsilon {epsilon:g}" for epsilon in GUARDED_AT), "pooled data"]
    names = ["alone", *(f"own {epsilon:g}" for epsilon in EPSILONS)]
    names += [*(f"guarded {epsilon:g}" for epsilon in GUARDED_AT), "pooled data"]
    rows = [[learner, *(report.cell(measured, name) for name in names)] for learner, measured in found.items()]
    labels = [report.cell(first, f"labels {epsilon:g}") for epsilon in EPSILONS]
    rows.append(["joint labels", "", *labels, *[""] * (len(GUARDED_AT) + 1)])
    return (
        f"## {HOSPITALS}, 510 records, {len(first.values['alone'])} seeds\n\n"
        f"Balanced accuracy on the pooled test set; at most {COLLUDING_HOSPITALS} of 4 colludes.\n\n"
        + report.table(header, rows)
    )


def _table(part: Part, found: Runs) -> str:
    seeds, rows = len(found.values["balanced alone"]), []
    for what, title in (("labels", "labels"), ("gain", "gain of a silo's model")):
        alone = report.cell(found, "balanced alone") if what == "gain" else ""
        rows.append([title, alone, *(report.cell(found, f"balanced {what} {epsilon:g}") for epsilon in EPSILONS)])
    return (
        f"## {part.setting.title}, {seeds} seeds\n\nAt most {part.may_collude} of {part.setting.silos} collude. Each "
        "silo's model is a logistic regression that learns its own records and the labels.\n\n"
        + report.table(["balanced accuracy", "alone", *(f"epsilon {epsilon:g}" for epsilon in EPSILONS)], rows)
    )


def _each_seed(add: Any, runs: dict[str, Runs], asked: Asked) -> None:
    for seed in range(asked.seeds(SEEDS_OF_HOSPITALS)):
        add(runs, seed)


def _all_silos(part: Part, runs: dict[str, Runs], asked: Asked) -> None:
    for seed in range(asked.seeds(SEEDS)):
        silos(runs, asked.of(part, part, part.small()), asked.of(SIZES, FAST_SIZES, SMOKE_SIZES), seed)


ROWS: Final[dict[str, Callable[[dict[str, Runs], Asked], None]]] = {
    HOSPITALS_ROW: partial(_each_seed, hospitals),
    "patients": partial(_each_seed, patients),
    **{part.name: partial(_all_silos, part) for part in PARTS},
}
"""Function that measures each row, by its name."""
