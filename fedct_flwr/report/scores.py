"""The sections on scores: of the models at the end and by round, and all metrics with intervals."""

from collections.abc import Iterator, Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.report.figures import (
    COLORS,
    MUTED,
    Figure,
    Scale,
    Section,
    Table,
    layout,
    levels_at,
    numbers,
    over_rounds,
    plain,
    score,
)
from fedct_flwr.report.summary import Course, Run
from fedct_flwr.runs.scores import METHODS, TESTS, OnTest, Test, has_scores, means, notes, titles, worst_first
from fedct_flwr.scoring import BALANCED_ACCURACY, CONCORDANCE, R_SQUARED
from fedct_flwr.scoring.assessment import BINS, METRICS, Assessment
from fedct_flwr.scoring.intervals import UNKNOWN, Estimate
from fedct_flwr.survival.scores import AT

_TITLES: Final[dict[Test, str]] = {"own": "each silo's own test set", "pooled": "the pooled test set"}
_MEANING: Final = {
    BALANCED_ACCURACY.name: "Balanced accuracy: mean recall over the classes of the test set. ",
    CONCORDANCE.name: "Concordance: share of comparable pairs of records whose earlier event has the larger risk. ",
    R_SQUARED.name: "R²: share of the test set's variance that a model explains; below 0 it is worse than the mean. ",
}
_AT_HORIZON: Final = {"auc": "AUC at", "brier": "Brier score at", "calibration": "observed less stated at"}
_LOOKS: Final[Mapping[str, dict[str, Any]]] = {
    "local": {"symbol": "circle-open", "color": MUTED, "size": 10, "line": {"width": 2}},
    "centralized": {"symbol": "diamond-tall", "color": MUTED, "size": 11},
    "federated": {"symbol": "circle", "color": COLORS[0], "size": 12},
}
_MOST_ROWS: Final = 16
_MOST_CURVES: Final = 8
_MOST_CLASSES: Final = 12
_MARGIN: Final = 0.03


def accuracy(run: Run) -> Section:
    """Balanced accuracies, or R²: of the end, from the scoreboard; of each round, where replies carried test scores."""
    title = "Accuracy" if run.measure == BALANCED_ACCURACY.name else run.measure
    by_round = [_by_round(run, test) for test in TESTS]
    # A run that asks once has no round to compare with.
    silent = not any(by_round) and len(run.course) and not run.algorithm.asks_once
    words = (
        "Scores of each round are unknown: silos report them only where report-scores is set and their policy allows."
    )
    figures = [figure for figure in (*(_final(run, test) for test in TESTS), *by_round) if figure]
    return Section("accuracy", title, figures, notes=[words] if silent else [])


def _column(course: Course, test: str) -> NDArray[np.float64]:
    """By silo ``(rounds, silos)``; the global model's ``(rounds,)`` where silos share weights."""
    of_silos = course.silo[f"{test}_{'r_squared' if course.shares_values else 'balanced_accuracy'}"]
    known = test == "own" or np.isfinite(of_silos).any()
    return of_silos if known else course.run["balanced_accuracy"]


def _by_round(run: Run, test: Test) -> Figure | None:
    names = {"local": "alone, mean", "centralized": "all data in one place, mean"}
    levels = [(names[m], value) for m, value in run.means(test).items() if m in names and np.isfinite(value)]
    return over_rounds(
        f"accuracy-{test}",
        f"Round by round, on {_TITLES[test]}",
        f"Mean {run.measure}",
        run.course,
        _column(run.course, test),
        Scale(run.measure_title, ".3~f", ".3f"),
        levels=levels,
        y={"rangemode": "normal"},
        note="Dashed: the same learners without co-training." if levels else "",
    )


def _final(run: Run, test: Test) -> Figure | None:
    """A row for each silo; of many the first are drawn. The table of silos at a glance has the numbers."""
    heads, levels = titles(run.algorithm.title), run.global_scores if test == "pooled" else {}
    values = {m: [row.value(test, m) for row in run.scores] for m in METHODS}
    if not np.isfinite([*values.values()]).any():
        return None
    labels = [plain(row.silo) for row in run.scores[:_MOST_ROWS]]
    scores = [*levels.values(), *(value for of_method in values.values() for value in of_method)]
    span = [float(np.nanmin(scores)) - _MARGIN, min(1.0, float(np.nanmax(scores))) + _MARGIN]
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "markers", "name": plain(heads[m]), "x": numbers(values[m][:_MOST_ROWS]),
            "y": labels, "marker": look, "hovertemplate": "%{y}: %{x:.3f}",
        }
        for m, look in _LOOKS.items()
        if np.isfinite(values[m]).any()
    ]  # fmt: skip
    traces += levels_at(levels.items(), y=[labels[0], labels[-1]])
    few = f"The first {_MOST_ROWS} of {len(run.scores)} are drawn." if len(run.scores) > _MOST_ROWS else ""
    shown = ", ".join(f"{name} {score(value)}" for name, value in levels.items())
    return Figure(
        f"accuracy-{test}-end",
        f"At the end, on {_TITLES[test]}",
        f"Global models (dashed): {shown}." if shown else "Each silo's scores, as in the table at a glance.",
        traces,
        layout(
            x={"range": span, "tickformat": ".2f", "title": {"text": run.measure_title}},
            y={"autorange": "reversed", "type": "category", "categoryorder": "array", "categoryarray": labels},
            hovermode="closest",
        ),
        None,
        _MEANING[run.measure] + few,
        height=110 + 30 * len(labels),
    )


def clinical(run: Run) -> Section:
    """All metrics of a run's models with their intervals."""
    if not any(row.tests for row in run.scores):
        return Section("metrics", "Metrics with intervals")
    figures = [figure for test in TESTS if (figure := _calibration(run, test))]
    tables = [*_by_silo(run), *_confusions(run)]
    return Section("metrics", "Metrics with intervals", figures, tables, [*notes(run.scores), *_words(run)])


def _titles(run: Run) -> dict[str, str]:
    """Titles of all metrics, also of those at a run's horizons."""
    models = [model for row in run.scores for test in row.tests.values() for model in test.models.values()]
    at = [
        name.partition(AT) for name in dict.fromkeys(name for model in models for name in model.metrics) if AT in name
    ]
    return METRICS | {"".join(parts): f"{_AT_HORIZON[parts[0]]} {parts[2]}" for parts in at if parts[0] in _AT_HORIZON}


def _scored(run: Run, test: Test) -> list[tuple[str, OnTest, str, Assessment]]:
    """All models with records to be scored on: the silo, its test set, the method, and the numbers."""
    there = [(row.silo, row.tests[test]) for row in worst_first(run.scores, test) if row.tests[test].n]
    return [(silo, found, m, found.models[m]) for silo, found in there for m in METHODS if m in found.models]


def _by_silo(run: Run) -> Iterator[tuple[str, Table]]:
    heads, known = titles(run.algorithm.title), _titles(run)
    for test in TESTS:
        scored, names = _scored(run, test), [name for name in known if has_scores(run.scores, test, name)]
        if not scored or not names:
            continue
        positive = scored[0][1].positive
        counts = ["n", *([positive] if positive else [])]
        rows = [
            [
                *(silo, heads[method], f"{found.n:,}"),
                *([f"{found.positives:,}"] if positive else []),
                *(_interval(model.metrics.get(name, UNKNOWN)) for name in names),
            ]
            for silo, found, method, model in scored
        ]
        averages = {name: means(run.scores, test, name=name) for name in names}
        foot = [
            ["mean", heads[m], *([""] * len(counts)), *(score(averages[name][m]) for name in names)]
            for m in METHODS
            if np.isfinite([found[m] for found in averages.values()]).any()
        ]
        columns = ["Silo", "Model", *counts, *(known[name] for name in names)]
        yield f"On {_TITLES[test]}", Table(columns, rows, words=2, foot=foot)


def _confusions(run: Run) -> Iterator[tuple[str, Table]]:
    heads = titles(run.algorithm.title)
    for test in TESTS:
        scored = [one for one in _scored(run, test) if one[3].confusion]
        rows = [
            [silo, heads[method], name, *(f"{n:,}" for n in line)]
            for silo, found, method, model in scored
            for name, line in zip(found.classes, model.confusion, strict=True)
        ]
        classes = scored[-1][1].classes if scored else {}
        if rows and len(classes) <= _MOST_CLASSES:
            columns = ["Silo", "Model", "True class", *(f"predicted: {name}" for name in classes)]
            yield f"Confusion matrices on {_TITLES[test]}", Table(columns, rows, words=3)


def _calibration(run: Run, test: Test) -> Figure | None:
    """The reliability diagram of the co-trained models, of the first silos where there are many."""
    scored = [one for one in _scored(run, test) if one[2] == "federated" and one[3].calibration]
    curves = {silo: model.calibration for silo, _, _, model in scored}
    if not curves:
        return None
    positive = scored[0][1].positive
    silos = [row.silo for row in run.scores]
    line = {"color": MUTED, "dash": "dash", "width": 1.5}
    traces: list[dict[str, Any]] = [
        {"type": "scatter", "mode": "lines", "x": [0, 1], "y": [0, 1], "showlegend": False, "line": line}
    ]
    for name, bins in [*curves.items()][:_MOST_CURVES]:
        color = COLORS[silos.index(name) % len(COLORS)]
        errors = {
            "type": "data", "symmetric": False, "thickness": 1, "color": color,
            "array": numbers([part.observed_high - part.observed for part in bins]),
            "arrayminus": numbers([part.observed - part.observed_low for part in bins]),
        }  # fmt: skip
        traces.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": plain(name),
                "x": numbers([part.predicted for part in bins]),
                "y": numbers([part.observed for part in bins]),
                "customdata": [part.n for part in bins],
                "marker": {"color": color, "size": 9},
                "line": {"color": color, "width": 1.5},
                "error_y": errors,
                "hovertemplate": "stated %{x:.2f}, observed %{y:.2f}, n = %{customdata}",
            }
        )
    rows = [
        [
            name,
            f"{part.low:.1f}–{part.high:.1f}",
            f"{part.n:,}",
            score(part.predicted),
            _interval(Estimate(part.observed, part.observed_low, part.observed_high)),
        ]
        for name, bins in curves.items()
        for part in bins
    ]
    every = [part for bins in curves.values() for part in bins]
    off = sum(part.n * abs(part.predicted - part.observed) for part in every) / sum(part.n for part in every)
    what = f"probability of {positive}" if positive else "probability of the named class"
    few = f" The first {_MOST_CURVES} silos are drawn." if len(curves) > _MOST_CURVES else ""
    return Figure(
        f"calibration-{test}",
        f"Calibration on {_TITLES[test]}",
        f"The {what} that co-trained models state is off by {off:.3f} on average over the bins.",
        traces,
        layout(
            x={"title": {"text": "stated probability"}, "range": [0, 1]},
            y={"title": {"text": "observed share"}, "range": [0, 1], "rangemode": "normal"},
            hovermode="closest",
        ),
        Table(["Silo", "Bin", "n", "stated", "observed"], rows, words=2),
        f"{BINS} bins of equal width; bars are 95% intervals. A calibrated model lies on the dashed line.{few}",
        height=380,
    )


def _interval(estimate: Estimate) -> str:
    if not np.isfinite([estimate.value, estimate.low, estimate.high]).all():
        return score(estimate.value)
    return f"{score(estimate.value)} ({estimate.low:.2f}–{estimate.high:.2f})"


def _words(run: Run) -> Iterator[str]:
    tests = [test for row in run.scores for test in row.tests.values()]
    if positive := next((test.positive for test in tests if test.positive), ""):
        yield (
            f"Sensitivity is the share of {positive} that a model finds, specificity the share of the others that it "
            "leaves alone. The setting positive-class names another class."
        )
        yield (
            "Stated chances are too low where the calibration intercept is above 0, too high below 0, and range too "
            "widely where the slope is below 1. The silo whose co-trained chances are furthest off comes first."
        )
    if tests:
        yield "In brackets: 95% intervals. Each silo counts the same in a mean, whatever its n."
