"""The joint labeler: one linear model that silos train together by noisy sums, and what their own models make of it.

Sums are added in the open here and noise is seeded: this measures what labels are worth at a budget, and protects
nobody. Settings of the labeler follow from public numbers (``joint_linear.plan_for``); the rule for them was chosen
after looks at the hospitals, at one split of FashionMNIST and at one of Adult. Public labels and test sets are read to
score alone.
"""

import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
import pandas as pd
from sklearn.metrics import balanced_accuracy_score

from benchmarks.declared import tables
from benchmarks.harness import Settings
from benchmarks.natural_silos import NATURAL
from benchmarks.no_harm_rows import ROWS as MADE_SITES
from benchmarks.privacy_data import ADULT, FEW_LARGE, MANY_SMALL, Federation, Setting, Sizes, learner_of, load
from fedct_flwr import datasets, simulate
from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.federated import FederatedDataset, PublicSet, SiloData, take
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.evaluation.references import centralized, local_only
from fedct_flwr.labelers.joint_linear import joint_labeler, train_together
from fedct_flwr.learners.build import build_learner
from fedct_flwr.learners.safeguard import Safeguard
from fedct_flwr.privacy.noise_shares import least_multiplier, surely_honest
from fedct_flwr.privacy.randomness import SimulatedNoise
from fedct_flwr.scoring import balanced_accuracy
from fedct_flwr.silo.personal import cotrain
from fedct_flwr.types import Examples, Features, HardLabels, generator
from fedct_flwr.wire.content import STEPS, Joint, Query

DELTA: Final = 1e-5
EPSILONS: Final = (0.5, 1.0, 3.0)
GUARDED_AT: Final = (1.0, 3.0)


class Part(NamedTuple):
    """A data set cut into silos, of which so many may collude; ``name``: as rows have it."""

    name: str
    setting: Setting
    may_collude: int


_FEWEST: Final = 20
_VISITS: Final = 5
_VARIATION: Final = 0.3
"""Of visits around their patient's record, in standard deviations."""
PARTS: Final = (Part("fashion-mnist-50", MANY_SMALL, 5), Part("fashion-mnist-5", FEW_LARGE, 1), Part("adult", ADULT, 2))


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
    records, honest = sum(own.size for own in private), surely_honest(len(private), may_collude)
    columns = 0 if kind == "linear" else len(schema.without_texts)
    budget: dict[str, Any] = {"epsilon": epsilon, "delta": DELTA}
    plan = Joint(records=records, steps=STEPS, honest=honest, columns=columns, seed=seed, **budget)
    labeler = joint_labeler(plan, PublicSet(public), schema)
    noises = [SimulatedNoise(generator(seed, "joint noise", str(epsilon), place)) for place in range(len(private))]
    return labeler.label(train_together(labeler, private, noises), public)


def own_of_silos(settings: Settings) -> dict[str, float]:
    """Balanced accuracy of silos' own models on the pooled test set, and of the labels that they learn."""
    given = {key: settings[key] for key in ("data", "learner", "seed")}
    config = RunConfig.from_flower({"study": "b", **given})
    dataset = datasets.load(config)
    private, seed = [silo.private for silo in dataset.silos], settings["seed"]
    terms: dict[str, Any] = {"may_collude": 1, "seed": seed, "kind": settings["kind"]}
    labels = {
        epsilon: joint_labels(private, dataset.public.X, dataset.schema, epsilon=epsilon, **terms)
        for epsilon in EPSILONS
    }
    known = {} if dataset.truth is None else labels
    truth = {f"labels {epsilon:g}": _balanced(dataset.truth, found) for epsilon, found in known.items()}
    return {**dict(own_models(config, dataset, labels, settings["guarded"])), **truth}


def few(settings: Settings) -> dict[str, float]:
    """What labels add where each silo keeps a few records; nothing where silos have fewer."""
    kept, epsilon, seed = settings["kept"], settings["epsilon"], settings["seed"]
    config = RunConfig.from_flower(
        {"study": "few", "data": settings["data"], "seed": seed, "public-fraction": 0.25, "test-fraction": 0.25,
         "learner": "logistic-regression", "learner-params": '{"class_weight": "balanced"}'}
    )  # fmt: skip
    whole = datasets.load(config)
    silos = _with_few(whole, kept, seed)
    private = [silo.private for silo in silos]
    records = sum(own.size for own in private)
    if len(private) < 2 or records < len(private) * kept / 2:
        return {}
    dataset = replace(whole, silos=tuple(silos))
    labels = joint_labels(private, dataset.public.X, dataset.schema, epsilon=epsilon, may_collude=1, seed=seed)
    found = dict(own_models(config, dataset, {epsilon: labels}, guarded_at=()))
    gain = found[f"own {epsilon:g}"] - found["alone"]
    return {**found, "gain": gain, "records": records, "per noise": records / least_multiplier(epsilon, DELTA)}


def _with_few(dataset: FederatedDataset, kept: int, seed: int) -> list[SiloData]:
    """Silos with at most this number of records; without those of fewer than 20, or of one class."""
    silos = []
    for silo in dataset.silos:
        rows = generator(seed, "few", silo.name).permutation(silo.private.size)[:kept]
        own = take(silo.private, rows)
        if own.size >= _FEWEST and len(set(own.y)) == len(dataset.schema.classes):
            silos.append(replace(silo, private=own))
    return silos


def patients(settings: Settings) -> dict[str, float]:
    """The labels of four hospitals whose patients come once, or five times."""
    # One hospital lacks all values of a column.
    warnings.simplefilter("ignore", RuntimeWarning)
    seed = settings["seed"]
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
    return values


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


def silos(settings: Settings) -> dict[str, float]:
    """Labels, and the same silos' models with and without them, on the test set."""
    part, seed = next(one for one in PARTS if one.name == settings["part"]), settings["seed"]
    setting = part.setting.small() if settings["small"] else part.setting
    sizes = Sizes(settings["public"], 0, settings["models"])
    federation = load(setting, sizes, seed)
    values = {}
    alone = [learner_of(seed).fit(*own) for own in federation.silos[: sizes.models]]
    values["alone"] = _mean(alone, federation.test)
    for epsilon in EPSILONS:
        raw = federation.raw_public
        collude = 1 if settings["small"] else part.may_collude
        terms: dict[str, Any] = {"epsilon": epsilon, "may_collude": collude, "seed": seed}
        labels = joint_labels(federation.raw_silos, raw.X, federation.schema, **terms)
        values[f"labels {epsilon:g}"] = _balanced(raw.y, labels)
        models = _learned(federation, labels, sizes, seed)
        values[f"gain {epsilon:g}"] = _mean(models, federation.test) - values["alone"]
    return values


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


TABLES: Final = tables(
    __file__,
    {"own": own_of_silos, "silos": silos, "few": few, "patients": patients},
    loaders={**MADE_SITES, **NATURAL},
)
