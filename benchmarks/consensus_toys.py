"""The two toy problems of prediction consensus, as pictures: a bad silo among four, and polynomials that agree.

D. Fan, C. Mendler-Dünner, M. Jaggi, arXiv:2305.18497, §5.1 (Figure 2), §3.4 (Figure 1) and Appendix A. The text at hand
gives neither the means of the Gaussians nor the cubic function and where the silos' points lie: those here are ours.
"""

import logging
import time
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.polynomial import Polynomial
from numpy.typing import NDArray

from benchmarks import pictures, report
from benchmarks.federation import Runs
from benchmarks.methods import SETTINGS, one_thread_per_silo
from benchmarks.prediction_consensus import METHODS, Length, Measured, measure
from fedct_flwr import datasets
from fedct_flwr.config import RunConfig
from fedct_flwr.consensus.trust import dynamic, naive, similarity_of_values, targets_of
from fedct_flwr.datasets.federated import FederatedDataset, SiloData
from fedct_flwr.datasets.pooled import split_over_silos
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.learners.soft import weighted_values
from fedct_flwr.seeding import generator
from fedct_flwr.types import LABEL_DTYPE, Examples

MEANS: Final = np.array([[-2.0, -2.0], [-2.0, 2.0], [2.0, -2.0], [2.0, 2.0]])
FLIPPED: Final = 0.1
"""Share of every silo's labels that is wrong; of the bad silo's all are shifted, right or wrong."""
_GAUSSIANS: Final[dict[str, Any]] = {
    **SETTINGS,
    "data": "four-gaussians",
    "learner": "benchmarks.consensus_toys.small_network",
    "learning-rate": 0.005,
    "bad-silos": "silo-4",
    "corruption": "label-shift",
}
_SHOWN: Final = ("local only", "naive", "dynamic")
_LENGTH: Final = Length(rounds=20, warm_up=5, steps=40)

CENTERS: Final = (-2.0, 0.0, 2.0)
_POINTS: Final = np.linspace(-3, 3, 50)
_ROUNDS: Final = 50


def run(seeds: int | None, fast: bool) -> None:
    """Prediction consensus, Figures 1 and 2, Appendix A: four Gaussians with a bad silo; polynomials, one too weak.

    5 seeds of the Gaussians, 2 if ``fast``, and 20 of the polynomials.
    """
    datasets.LOADERS["four-gaussians"] = four_gaussians
    logging.getLogger("flwr").setLevel(logging.ERROR)
    one_thread_per_silo()
    seeds, start = seeds or 5, time.perf_counter()
    runs, shown = _gaussians(seeds)
    polynomials = {name: _polynomials(degrees, range(20)) for name, degrees in _DEGREES.items()}
    text = f"# Prediction consensus: two toy problems\n\n{_ABOUT_GAUSSIANS.format(seeds=seeds)}\n"
    text += report.table(
        ["Held-out accuracy", *_SHOWN],
        [[who, *(report.cell(runs, f"{who}, {method}") for method in _SHOWN)] for who in ("good silos", "bad silo")],
    )
    text += _draw_gaussians(shown) + "\n" + _ABOUT_POLYNOMIALS
    header = ["Squared error against the true function, mean over the public points", *_RULES]
    rows = [
        [f"{name}: {who}", *(report.cell(found, f"{who}, {rule}") for rule in _RULES)]
        for name, found in polynomials.items()
        for who in ("strong silos", "weak silo")
        if f"{who}, naive" in found.values
    ]
    beside = polynomials["and a weak one"].values
    better = sum(d < n for d, n in zip(beside["strong silos, dynamic"], beside["strong silos, naive"], strict=True))
    text += report.table(header, rows) + (
        f"\nBeside the weak silo dynamic trust is better than naive for the strong ones with {better} of 20 seeds. "
        "With the others a silo begins so far off that it trusts nobody but itself.\n" + _draw_polynomials()
    )
    settings = {**_GAUSSIANS, **_LENGTH._asdict(), "means": MEANS.tolist(), "centers": CENTERS}
    report.write("consensus-toys", text, {"gaussians": runs, **polynomials}, settings, time.perf_counter() - start)


_ABOUT_GAUSSIANS: Final = (
    "**Four Gaussians**, {seeds} seeds: four classes around (±2, ±2) with unit variance, four silos with 50 records "
    "each, 200 public examples, a network with layers of 5, 10 and 4. A tenth of all labels is wrong; those of silo 4 "
    "are shifted by one class besides. The picture shows what silo 1 decides where, with the first seed.\n"
)
_ABOUT_POLYNOMIALS: Final = (
    "**Polynomials**, 20 seeds: y = x³ - 3x with unit noise, 50 points at each silo around -2, 0 and 2 with unit "
    "variance, 50 public points from -3 to 3, lambda 1, 50 rounds, each solved exactly by least squares. Silos fit "
    "polynomials of degree 4. A fourth silo, around 0, fits a line. Dynamic trust is by squared distance, its rows the "
    "shares of 1 / (1 + distance / variance): the paper gives no formula for regression.\n\n"
)


def small_network(num_features: int, num_classes: int) -> Any:
    """Three layers with 5, 10 and as many neurons as classes (§5.1)."""
    from torch import nn

    layers = (nn.Linear(num_features, 5), nn.ReLU(), nn.Linear(5, 10), nn.ReLU(), nn.Linear(10, num_classes))
    return nn.Sequential(*layers)


def four_gaussians(config: RunConfig) -> FederatedDataset:
    """Four silos with even mixtures of four Gaussians, a tenth of their labels drawn from the other classes."""
    rng = generator(config.seed, "gaussians")
    y = (np.arange(2400) % len(MEANS)).astype(LABEL_DTYPE)
    X = (MEANS[y] + rng.normal(size=(len(y), 2))).astype(np.float32)
    schema = Schema.numeric(("a", "b", "c", "d"), ("x1", "x2"))
    sizes = {"private": 200, "public": 200, "silos": 4}
    dataset = split_over_silos("four-gaussians", schema, Examples(X, y), **sizes, config=config)

    def noisy(silo: SiloData) -> SiloData:
        own = silo.private
        wrong = rng.random(own.size) < FLIPPED
        other = (own.y + rng.integers(1, len(MEANS), own.size)) % len(MEANS)
        return replace(silo, private=Examples(own.X, np.where(wrong, other, own.y).astype(LABEL_DTYPE)))

    return replace(dataset, silos=tuple(map(noisy, dataset.silos)))


def _gaussians(seeds: int) -> tuple[Runs, dict[str, Measured]]:
    """Accuracy of the good silos and of the bad one by method; and the runs of the first seed."""
    runs, shown = Runs(), {}
    for seed in range(seeds):
        for name in _SHOWN:
            found = measure({**_GAUSSIANS, **METHODS[name], "seed": seed}, _LENGTH)
            shown.setdefault(name, found)
            good = [silo for silo in found.accuracy if silo != "silo-4"]
            runs.add(**{f"good silos, {name}": found.mean(good), f"bad silo, {name}": found.mean(["silo-4"])})
    return runs, shown


def _draw_gaussians(shown: dict[str, Measured]) -> str:
    from matplotlib.colors import ListedColormap

    colors = ListedColormap(["#4477aa", "#ee6677", "#228833", "#ccbb44"])
    dataset = datasets.load(RunConfig.from_flower({**_GAUSSIANS, "seed": 0}))
    across = np.linspace(-5, 5, 120, dtype=np.float32)
    grid = np.stack(np.meshgrid(across, across), axis=-1).reshape(-1, 2)
    drawn = pictures.figure(14, 3.8)
    first, *others = drawn.subplots(1, 1 + len(shown))
    for silo, marker in zip(dataset.silos, "osD^", strict=True):
        X, y = silo.private
        first.scatter(*X.T, c=y, cmap=colors, vmin=0, vmax=3, s=12, marker=marker, label=silo.name)
    first.legend(fontsize="x-small")
    first.set_title("private records (silo-4 is bad)", fontsize="medium")
    for axes, (name, found) in zip(others, shown.items(), strict=True):
        decided = found.models["silo-1"].predict(grid).reshape(len(across), -1)
        axes.imshow(decided, extent=(-5, 5, -5, 5), origin="lower", cmap=colors, vmin=0, vmax=3, alpha=0.6)
        axes.scatter(*MEANS.T, c=range(4), cmap=colors, edgecolors="black", vmin=0, vmax=3)
        good = found.mean(["silo-1", "silo-2", "silo-3"])
        axes.set_title(f"silo-1, {name}\ngood silos' accuracy {good:.3f}", fontsize="medium")
    return pictures.save(drawn, "consensus-gaussians")


_RULES: Final = ("local only", "naive", "dynamic")
_TRUSTS: Final = {"naive": naive(), "dynamic": dynamic(similarity_of_values)}
_DEGREES: Final = {"three strong silos": (4, 4, 4), "and a weak one": (4, 4, 4, 1)}


class _Points(NamedTuple):
    """A silo's own."""

    x: NDArray[np.float64]
    y: NDArray[np.float64]


class _Regression(NamedTuple):
    """The silos' points and models, and what these predict for the public points ``(silos, 50)``."""

    points: list[_Points]
    models: list[Polynomial]
    values: NDArray[np.float64]


def true_function(x: NDArray[np.float64]) -> NDArray[np.float64]:
    """The cubic function that all silos see parts of."""
    return x**3 - 3 * x


def consensus_of_polynomials(degrees: Sequence[int], rule: str, seed: int) -> _Regression:
    """The silos' models after 50 rounds; ``local only``: before the first.

    Each round minimizes ``mean (f(x) - y)^2 + mean (f(x) - target)^2`` exactly (equation 3, lambda 1).
    """
    rng = np.random.default_rng(seed)
    points = []
    for center in (*CENTERS, 0.0)[: len(degrees)]:
        x = rng.normal(center, 1.0, 50)
        points.append(_Points(x, true_function(x) + rng.normal(size=50)))
    models = [Polynomial.fit(own.x, own.y, degree) for own, degree in zip(points, degrees, strict=True)]
    values = np.stack([model(_POINTS) for model in models])
    for _ in range(_ROUNDS if rule in _TRUSTS else 0):
        matrix, _ = _TRUSTS[rule].apply([str(n) for n in range(len(degrees))], values, {})
        targets = targets_of(matrix, values)
        for n, (own, degree) in enumerate(zip(points, degrees, strict=True)):
            together = weighted_values(own.x, own.y, _POINTS, targets[n], 1.0)
            # Polynomial.fit weighs residuals before they are squared.
            models[n] = Polynomial.fit(together.X, together.y, degree, w=np.sqrt(together.weights))
        values = np.stack([model(_POINTS) for model in models])
    return _Regression(points, models, values)


def _polynomials(degrees: Sequence[int], seeds: range) -> Runs:
    runs = Runs()
    for seed in seeds:
        for rule in _RULES:
            found = consensus_of_polynomials(degrees, rule, seed)
            errors = ((found.values - true_function(_POINTS)) ** 2).mean(axis=1)
            runs.add(**{f"strong silos, {rule}": float(errors[:3].mean())})
            if len(degrees) > len(CENTERS):
                runs.add(**{f"weak silo, {rule}": float(errors[3])})
    return runs


def _draw_polynomials() -> str:
    wide = np.linspace(-5, 5, 200)
    drawn = pictures.figure(14, 3.8)
    panels = [((4, 4, 4), "local only"), ((4, 4, 4), "naive"), ((4, 4, 4, 1), "naive"), ((4, 4, 4, 1), "dynamic")]
    for axes, (degrees, rule) in zip(drawn.subplots(1, len(panels), sharey=True), panels, strict=True):
        found = consensus_of_polynomials(degrees, rule, 0)
        axes.plot(wide, true_function(wide), color="black", linestyle=":", label="true function")
        for n, (own, model) in enumerate(zip(found.points, found.models, strict=True), start=1):
            line = axes.plot(wide, model(wide), label=f"silo {n}")[0]
            axes.scatter(*own, s=6, color=line.get_color())
        axes.axvspan(-3, 3, color="gray", alpha=0.12)
        axes.set_ylim(-25, 25)
        axes.set_title(f"{len(degrees)} silos, {rule}", fontsize="medium")
    axes.legend(fontsize="x-small")
    return pictures.save(drawn, "consensus-polynomials")
