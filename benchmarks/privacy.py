"""What label quality is left at a total epsilon, by mechanism: the consensus, and models that learn from it.

One-shot co-training: each silo's labels are released once, the plurality decides, and personal models are trained on
private records and the consensus. Labelers that are trained once would give the same labels in any round; those that
pay for each label would only have less to pay with. Their hyper-parameters are the defaults, or stand below. They were
chosen on other data (``dp-linear-settings``), though not before anything was measured here: four earlier settings of
the linear labeler had .72 to .75 at epsilon 1 on FashionMNIST. Public labels and the test set are read to score alone.
"""

import math
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import numpy as np
from sklearn.decomposition import PCA

from benchmarks import report
from benchmarks.federation import Runs
from benchmarks.methods import one_thread_per_silo
from fedct_flwr import datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.consensus import plurality, tally
from fedct_flwr.datasets.federated import pool
from fedct_flwr.learners.dp_linear import DpLinearLabeler
from fedct_flwr.learners.labeler import Asked, Labeler
from fedct_flwr.learners.preprocessing import standard
from fedct_flwr.learners.public_features import PublicFeatures
from fedct_flwr.learners.randomized import RandomizedLabeler
from fedct_flwr.learners.sklearn import SklearnLearner, make_estimator
from fedct_flwr.learners.teachers import TeachersLabeler
from fedct_flwr.partition import iid
from fedct_flwr.privacy.accounting import quick_epsilon
from fedct_flwr.privacy.calibration import calibrate
from fedct_flwr.privacy.mechanisms import Xor
from fedct_flwr.privacy.mechanisms.base import repeated
from fedct_flwr.privacy.mechanisms.xor import tally_bits
from fedct_flwr.privacy.randomness import simulated
from fedct_flwr.privacy.sensitivity import Sensitivity
from fedct_flwr.schema import Schema
from fedct_flwr.scoring import accuracy
from fedct_flwr.seeding import generator, random_state
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Examples, Features, HardLabels, VoteCounts

DELTA: Final = 1e-5
EPSILONS: Final = (0.1, 0.5, 1.0, 3.0, 8.0, math.inf)
FAST_EPSILONS: Final = (1.0, 8.0, math.inf)
PAID_LABELS: Final = 1_000
"""What is asked where each label costs, in favour of those mechanisms: of more, each would be noisier."""
RECORDS_PER_TEACHER: Final = 10
HIDDEN: Final = 64
"""Units of the network that is trained by DP-SGD."""
MODEL: Final[dict[str, Any]] = {"C": 0.1, "tol": 1e-3, "max_iter": 1000}
"""Logistic regression of the personal models and of the teachers, on features of the public set."""
_FITTED_ON: Final = 10_000
_UNPROTECTED: Final = 1e6
"""Stands for an infinite epsilon at labelers that need a number."""


class Setting(NamedTuple):
    """A data set, and how much of it lies where."""

    title: str
    data: str
    silos: int
    private: int
    public: int
    components: int
    """Principal components that personal models and teachers take of images; 0: a table's columns, encoded."""
    mechanisms: tuple[str, ...]
    reference: dict[str, dict[float, str]]
    """Consensus accuracies measured before this code was written, by mechanism and epsilon."""


WITHOUT_NETWORKS: Final = ("dp-linear", "teachers", "randomized-response", "xor")
"""Networks of many silos would take most of the time."""

SETTINGS: Final = (
    Setting(
        "FashionMNIST, 5 silos x 2,000 records",
        "fashion-mnist",
        5,
        10_000,
        50_000,
        60,
        ("dp-linear", "dp-sgd", "teachers", "randomized-response", "xor"),
        {
            "dp-linear": {0.5: ".72", 1.0: ".78", 3.0: ".80", 8.0: ".80", math.inf: ".80"},
            "teachers": {1.0: ".17", 3.0: ".45", 8.0: ".67"},
            "randomized-response": dict.fromkeys((0.5, 1.0, 3.0, 8.0), ".10"),
            "xor": dict.fromkeys((0.5, 1.0, 3.0, 8.0), ".10"),
        },
    ),
    Setting(
        "FashionMNIST, 50 silos x 200 records",
        "fashion-mnist",
        50,
        10_000,
        50_000,
        60,
        WITHOUT_NETWORKS,
        {"dp-linear": {3.0: ".772", math.inf: ".785"}, "local only": {math.inf: ".742"}},
    ),
    Setting("Adult, 20 silos x 1,553 records", "adult", 20, 31_073, 10_000, 0, WITHOUT_NETWORKS, {}),
)


class Sizes(NamedTuple):
    """How much is measured."""

    public: int
    """Examples of the public set that are labeled where labels cost nothing: the accuracy of all is that of these."""
    paid: int
    models: int
    """Silos whose personal models are trained."""


FULL: Final = Sizes(10_000, PAID_LABELS, 3)
FAST: Final = Sizes(5_000, PAID_LABELS, 2)


class Federation(NamedTuple):
    """Silos' records, and public ones with the labels that only a benchmark knows; raw, and as models take them."""

    schema: Schema
    raw_silos: list[Examples]
    raw_public: Examples
    features: PublicFeatures
    """What the linear labeler sees of raw examples."""
    silos: list[Examples]
    public: Examples
    test: Examples
    own_votes: list[HardLabels]
    """The labels of each silo's own model for the public examples."""
    local: float
    """Mean accuracy of the silos' own models on the test set."""


Votes = Callable[[Federation, float, Sizes, int], VoteCounts]
"""All silos' released votes ``(examples, classes)`` on the first public examples, at a total epsilon and seed."""


def run(seeds: int | None, fast: bool) -> None:
    """Label quality at total epsilon 0.1 to 8, by mechanism; about 20 minutes.

    3 seeds. ``fast``: 2 seeds, three epsilons; about 3 minutes.
    """
    seeds, epsilons, sizes = seeds or 3, FAST_EPSILONS if fast else EPSILONS, FAST if fast else FULL
    start = time.perf_counter()
    runs: dict[str, Runs] = {}
    parts = []
    for setting in SETTINGS:
        measured = measure(setting, epsilons, sizes, range(seeds))
        runs |= {f"{setting.title}: {name}": found for name, found in measured.items()}
        parts.append(f"## {setting.title}\n\n{_table(setting, epsilons, measured)}")
    text = "# Label quality at a total epsilon, by mechanism\n\n" + _about(sizes) + "\n".join(parts) + _notes()
    settings = {
        "delta": DELTA,
        "sizes": sizes._asdict(),
        "records per teacher": RECORDS_PER_TEACHER,
        "model": MODEL,
        "hidden": HIDDEN,
        "seeds": seeds,
    }
    report.write("privacy", text, runs, settings, time.perf_counter() - start)


def measure(setting: Setting, epsilons: Sequence[float], sizes: Sizes, seeds: Sequence[int]) -> dict[str, Runs]:
    """Values by ``epsilon, mechanism``, and under ``baselines`` and ``paper's xor``."""
    found: dict[str, Runs] = {}
    for seed in seeds:
        federation = load(setting, sizes, seed)
        share = np.bincount(federation.public.y).max() / federation.public.size
        found.setdefault("baselines", Runs()).add(local=federation.local, majority=float(share))
        for epsilon in epsilons:
            for name in setting.mechanisms:
                counts = MECHANISMS[name](federation, epsilon, sizes, seed)
                found.setdefault(_key(epsilon, name), Runs()).add(**_scores(federation, counts, sizes, seed))
        paper = PAPERS_XOR(len(federation.schema.classes))
        counts = _xor_counts(federation, paper, sizes.public, seed)
        found.setdefault("paper's xor", Runs()).add(**_scores(federation, counts, sizes, seed))
    return found


def load(setting: Setting, sizes: Sizes, seed: int) -> Federation:
    """Split the data; learn features of the public set alone; train every silo's own model."""
    config = RunConfig.from_flower(
        {
            "study": "benchmark",
            "data": setting.data,
            "seed": seed,
            # A data set's public examples come without their labels: take all but one as private.
            "private-size": setting.private + setting.public - 1,
            "public-size": 1,
        }
    )
    dataset = datasets.load(config)
    everything = pool([silo.private for silo in dataset.silos])
    rng = generator(seed, "privacy benchmark")
    own, others = np.split(rng.permutation(everything.size), [setting.private])
    X, y = everything
    public = Examples(X[others], y[others])
    transform = _features(setting, dataset.schema, public.X)
    features = PublicFeatures(public.X, dataset.schema, seed=seed)
    public = Examples(public.X[: sizes.public], public.y[: sizes.public])
    raw = [Examples(X[own[part]], y[own[part]]) for part in iid(len(own), setting.silos, rng)]
    silos = [Examples(transform(part.X), part.y) for part in raw]
    ready, test = (Examples(transform(part.X), part.y) for part in (public, dataset.test))
    models = [_learner(seed).fit(*part) for part in silos]
    return Federation(
        dataset.schema,
        raw,
        public,
        features,
        silos,
        ready,
        test,
        [model.predict(ready.X) for model in models],
        float(np.mean([accuracy(model, test) for model in models])),
    )


def _features(setting: Setting, schema: Schema, public: Features) -> Callable[[Features], Features]:
    """For models: principal components of images, or a table's columns encoded; learned of public examples."""
    if setting.components:
        components = PCA(setting.components, random_state=0).fit(public[:_FITTED_ON])
        return lambda X: components.transform(X).astype(np.float32)
    encoder = standard(schema, public)
    return lambda X: encoder.transform(X.astype(np.float64)).astype(np.float32)


def _learner(seed: int) -> SklearnLearner:
    return SklearnLearner(make_estimator("logistic-regression", MODEL, seed))


def _scores(federation: Federation, counts: VoteCounts, sizes: Sizes, seed: int) -> dict[str, float]:
    """Accuracy of the consensus, and of personal models that learn of it; an abstention is no label."""
    public = Examples(federation.public.X[: len(counts)], federation.public.y[: len(counts)])
    consensus = plurality(counts, _nothing(len(counts)), generator(seed, "ties"))
    labeled = consensus != ABSTAIN
    learned = [
        _learner(seed).fit(np.concatenate([silo.X, public.X[labeled]]), np.concatenate([silo.y, consensus[labeled]]))
        for silo in federation.silos[: sizes.models]
    ]
    return {
        "consensus": float((consensus == public.y).mean()),
        "personal": float(np.mean([accuracy(model, federation.test) for model in learned])),
    }


def _nothing(num_examples: int) -> HardLabels:
    return np.full(num_examples, ABSTAIN, dtype=LABEL_DTYPE)


def _answer(
    labeler: Labeler, private: Examples, public: Features, votes: HardLabels, seed: int, silo: int
) -> HardLabels:
    labeler.reset()
    asked = Asked(private, public, _nothing(len(public)), votes, np.arange(len(public)))
    return labeler.answer(asked, simulated(generator(seed, "noise", silo)))


def _dp_linear(federation: Federation, epsilon: float, sizes: Sizes, seed: int) -> VoteCounts:
    """Features and calibration are the same at all silos: one labeler, reset between them."""
    public, silos = federation.raw_public, federation.raw_silos
    fewest = min(silo.size for silo in silos)
    labeler = DpLinearLabeler(
        federation.features,
        len(federation.schema.classes),
        num_records=fewest,
        epsilon=min(epsilon, _UNPROTECTED),
        delta=DELTA,
    )
    votes = [
        _answer(
            labeler, Examples(silo.X[:fewest], silo.y[:fewest]), public.X, federation.own_votes[number], seed, number
        )
        for number, silo in enumerate(silos)
    ]
    return tally(votes, public.size, len(federation.schema.classes))


def _dp_sgd(federation: Federation, epsilon: float, sizes: Sizes, seed: int) -> VoteCounts:
    """A small network on the same features as the other models, trained once."""
    from fedct_flwr.learners.dp_sgd import DpSgdLabeler, plan  # not at the top: only this needs torch

    one_thread_per_silo()
    public, classes = federation.public.X, len(federation.schema.classes)
    fewest = min(silo.size for silo in federation.silos)
    labeler = DpSgdLabeler(
        partial(_network, public.shape[1], classes),
        classes,
        num_records=fewest,
        batch_size=fewest,
        **plan(rounds=1)._asdict(),
        clipping_norm=1.0,
        epsilon=min(epsilon, _UNPROTECTED),
        delta=DELTA,
        seed=seed,
        device="cpu",
    )
    votes = [
        _answer(labeler, Examples(silo.X[:fewest], silo.y[:fewest]), public, federation.own_votes[number], seed, number)
        for number, silo in enumerate(federation.silos)
    ]
    return tally(votes, len(public), classes)


def _network(inputs: int, classes: int) -> Any:
    from torch import nn

    return nn.Sequential(nn.Linear(inputs, HIDDEN), nn.ReLU(), nn.Linear(HIDDEN, classes))


def _teachers(federation: Federation, epsilon: float, sizes: Sizes, seed: int) -> VoteCounts:
    public, classes = federation.public.X[: sizes.paid], len(federation.schema.classes)
    votes = [
        _answer(
            TeachersLabeler(
                _learner,
                len(public),
                classes,
                num_records=silo.size,
                num_teachers=silo.size // RECORDS_PER_TEACHER,
                num_queries=len(public),
                epsilon=min(epsilon, _UNPROTECTED),
                delta=DELTA,
                noise_kind="gumbel",
                seed=random_state(seed, "teachers", number),
            ),
            silo,
            public,
            federation.own_votes[number][: len(public)],
            seed,
            number,
        )
        for number, silo in enumerate(federation.silos)
    ]
    return tally(votes, len(public), classes)


def _randomized(federation: Federation, epsilon: float, sizes: Sizes, seed: int) -> VoteCounts:
    public, classes = federation.public.X[: sizes.paid], len(federation.schema.classes)
    own = [votes[: len(public)] for votes in federation.own_votes]
    if math.isinf(epsilon):
        return tally(own, len(public), classes)
    labeler = RandomizedLabeler(classes, num_queries=len(public), epsilon=epsilon, delta=DELTA)
    votes = [_answer(labeler, silo, public, own[number], seed, number) for number, silo in enumerate(federation.silos)]
    return tally(votes, len(public), classes)


def _xor(federation: Federation, epsilon: float, sizes: Sizes, seed: int) -> VoteCounts:
    classes, labels = len(federation.schema.classes), min(sizes.paid, federation.public.size)
    if math.isinf(epsilon):
        return _randomized(federation, epsilon, sizes, seed)
    inverse = calibrate(
        lambda noise: Xor(classes, 1 / noise).event(labels),
        epsilon,
        DELTA,
        1 / epsilon,
        2 * labels / epsilon,
        quick=True,
    )
    return _xor_counts(federation, Xor(classes, 1 / inverse), labels, seed)


def _xor_counts(federation: Federation, mechanism: Xor, labels: int, seed: int) -> VoteCounts:
    return tally_bits(
        mechanism(votes[:labels], simulated(generator(seed, "noise", number)))
        for number, votes in enumerate(federation.own_votes)
    )


MECHANISMS: Final[dict[str, Votes]] = {
    "dp-linear": _dp_linear,
    "dp-sgd": _dp_sgd,
    "teachers": _teachers,
    "randomized-response": _randomized,
    "xor": _xor,
}

PAPERS_BITS: Final = 3_000
PAPERS_EPSILON: Final = 0.1
PAPERS_ROUNDS: Final = 400
PAPERS_PUBLIC: Final = 50_000
PAPERS_XOR: Final = partial(
    Xor.for_release, epsilon=PAPERS_EPSILON, sensitivity=Sensitivity(PAPERS_BITS, "the paper's", "estimated")
)


def _key(epsilon: float, mechanism: str) -> str:
    return f"epsilon {epsilon:g}, {mechanism}"


def _table(setting: Setting, epsilons: Sequence[float], measured: dict[str, Runs]) -> str:
    baselines = measured["baselines"]
    rows = [
        [
            f"{epsilon:g}",
            name,
            report.cell(found := measured[_key(epsilon, name)], "consensus"),
            setting.reference.get(name, {}).get(epsilon, "–"),
            report.cell(found, "personal"),
            f"{found.mean('personal') - baselines.mean('local'):+.3f}",
        ]
        for epsilon in epsilons
        for name in setting.mechanisms
    ]
    paper = measured["paper's xor"]
    rows.append(
        [
            f"{PAPERS_EPSILON:g} a round",
            "xor, the paper's",
            report.cell(paper, "consensus"),
            ".10",
            report.cell(paper, "personal"),
            f"{paper.mean('personal') - baselines.mean('local'):+.3f}",
        ]
    )
    alone = setting.reference.get("local only", {}).get(math.inf)
    return (
        report.table(
            ["total epsilon", "mechanism", "consensus on U", "reference", "personal models", "gain over local only"],
            rows,
        )
        + f"\nLocal only: {report.cell(baselines, 'local')}{f' (reference {alone})' if alone else ''}. "
        f"Majority class of U: {baselines.mean('majority'):.3f}.\n"
    )


def _about(sizes: Sizes) -> str:
    return (
        f"Accuracy, mean ± standard error; record-level, delta {DELTA:g}. One-shot co-training, called directly and "
        "not through a federation: silos' released labels, their plurality, and personal models (logistic regression) "
        f"trained on private records and the consensus, of the first {sizes.models} silos. dp-linear labels all of the "
        f"public set for one price; {sizes.public:,} of its examples are measured. Where each label costs, "
        f"{sizes.paid:,} are asked, in favour of those mechanisms. Reference: figures of a first study, with its best "
        "of three configurations; those of randomized response and XOR are for 50,000 labels. Infinite epsilon is no "
        f"noise (teachers, dp-linear, dp-sgd: epsilon {_UNPROTECTED:g}).\n\n"
    )


def _notes() -> str:
    mechanism = PAPERS_XOR(10)
    release = 2 * PAPERS_PUBLIC * mechanism.theta
    composed = quick_epsilon(repeated(mechanism.event(PAPERS_PUBLIC), PAPERS_ROUNDS), DELTA)
    flipped = 1 / (1 + math.exp(mechanism.theta))
    return (
        "\n## The XOR mechanism at the paper's settings\n\n"
        f"s = {PAPERS_BITS:,} bits, epsilon {PAPERS_EPSILON:g} a round, {PAPERS_ROUNDS} rounds of {PAPERS_PUBLIC:,} "
        f"labels (arXiv:2310.05696): theta = {mechanism.theta:.3g} a bit. No sensitivity below 2|U| bits is proven, so "
        f"a release costs epsilon {release:.3g} in the worst case, all of them {PAPERS_ROUNDS * release:,.0f}, or "
        f"{composed:.3g} at delta {DELTA:g} composed. If s held, it would be {PAPERS_EPSILON * PAPERS_ROUNDS:g} for "
        f"all rounds. A bit is flipped with probability {flipped:.7f}: noise. The paper reports test accuracy .80 at "
        "this setting, which is what local training alone gives.\n"
    )
