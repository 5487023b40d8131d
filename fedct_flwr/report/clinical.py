"""What clinicians ask of a model: metrics with intervals, confusion matrices and calibration, by silo and test set."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

import numpy as np

from fedct_flwr.report.figure import COLORS, MUTED, Figure, Section, Table, layout, numbers, plain
from fedct_flwr.report.summary import TESTS, Run, Test
from fedct_flwr.report.words import UNKNOWN, score, sentence
from fedct_flwr.runs.score_notes import metric_means, notes
from fedct_flwr.runs.scores import METHODS, SiloScores
from fedct_flwr.scoring.assessment import OF_CLASSES, OF_VALUES
from fedct_flwr.scoring.calibration import BINS, Bin
from fedct_flwr.scoring.intervals import Estimate, proportion

_NAMES: Final = {
    "balanced_accuracy": "balanced accuracy",
    "accuracy": "accuracy",
    "auc": "AUC",
    "sensitivity": "sensitivity",
    "specificity": "specificity",
    "brier": "Brier score",
    "r_squared": "R²",
    "mae": "mean absolute error",
    "rmse": "root mean squared error",
}
_TITLES: Final[dict[Test, str]] = {"own": "each silo's own test set", "pooled": "the pooled test set"}
_MOST_CURVES: Final = 8
_MOST_CLASSES: Final = 12


def clinical(runs: Sequence[Run]) -> Section:
    """All metrics of a run's models with their intervals; of several runs, the means over their silos."""
    known = [run for run in runs if any(row.tests for row in run.scores)]
    title = "Metrics with intervals" if len(runs) == 1 else "Means of all metrics"
    if not known:
        return Section("metrics", title)
    if len(runs) > 1:
        return Section("metrics", title, tables=list(_compared(known)))
    run = known[0]
    tables = [*_by_silo(run), *_confusions(run)]
    figures = [figure for test in TESTS if (figure := _calibration(run, test))]
    return Section("metrics", title, figures, tables, [*notes(run.scores), *_words(run)])


def _by_silo(run: Run) -> Iterator[tuple[str, Table]]:
    titles = _methods(run)
    for test in TESTS:
        there = [(row, row.tests[test]) for row in run.scores if test in row.tests and row.tests[test].n]
        names = _known_metrics(run.scores, test)
        if not there or not names:
            continue
        positive = there[0][1].positive
        counts = ["n", *([positive] if positive else [])]
        rows = [
            [
                row.silo,
                titles[method],
                f"{found.n:,}",
                *([f"{found.positives:,}"] if positive else []),
                *(_interval(row.metric(test, method, name)) for name in names),
            ]
            for row, found in there
            for method in METHODS
            if method in found.models
        ]
        averages = {name: metric_means(run.scores, test, name) for name in names}
        foot = [
            [
                "mean",
                titles[method],
                *([""] * len(counts)),
                *(score(averages[name].get(method, np.nan)) for name in names),
            ]
            for method in METHODS
            if any(method in found for found in averages.values())
        ]
        columns = ["Silo", "Model", *counts, *(_NAMES[name] for name in names)]
        yield f"On {_TITLES[test]}", Table(columns, rows, words=2, foot=foot)


def _confusions(run: Run) -> Iterator[tuple[str, Table]]:
    titles = _methods(run)
    for test in TESTS:
        rows: list[list[str]] = []
        classes: list[str] = []
        for row in run.scores:
            found = row.tests.get(test)
            if not found or not found.n:
                continue
            classes = [*found.classes]
            for method in METHODS:
                if method in found.models:
                    matrix = found.models[method].confusion
                    named = zip(classes, matrix, strict=True) if matrix else ()
                    rows += [[row.silo, titles[method], name, *(f"{n:,}" for n in line)] for name, line in named]
        if rows and len(classes) <= _MOST_CLASSES:
            columns = ["Silo", "Model", "True class", *(f"predicted: {name}" for name in classes)]
            yield f"Confusion matrices on {_TITLES[test]}", Table(columns, rows, words=3)


def _calibration(run: Run, test: Test) -> Figure | None:
    curves = {
        row.silo: found.calibration
        for row in run.scores
        if test in row.tests and (found := row.tests[test].models.get("federated")) and found.calibration
    }
    if not curves:
        return None
    positive = next(row.tests[test].positive for row in run.scores if row.silo in curves)
    silos = [row.silo for row in run.scores]
    together = len(curves) > _MOST_CURVES
    shown = {f"all {len(curves)} silos": _merged(curves.values())} if together else curves
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "lines", "x": [0, 1], "y": [0, 1], "hoverinfo": "skip", "showlegend": False,
            "line": {"color": MUTED, "dash": "dash", "width": 1.5},
        }
    ]  # fmt: skip
    rows = []
    for name, bins in shown.items():
        color = COLORS[0 if together else silos.index(name) % len(COLORS)]
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
                "error_y": {
                    "type": "data",
                    "symmetric": False,
                    "array": numbers([part.observed_high - part.observed for part in bins]),
                    "arrayminus": numbers([part.observed - part.observed_low for part in bins]),
                    "thickness": 1,
                    "color": color,
                },
                "hovertemplate": "stated %{x:.2f}, observed %{y:.2f}, n = %{customdata}",
            }
        )
        rows += [
            [
                name,
                f"{part.low:.1f}–{part.high:.1f}",
                f"{part.n:,}",
                score(part.predicted),
                _interval(Estimate(part.observed, part.observed_low, part.observed_high)),
            ]
            for part in bins
        ]
    what = f"the probability of {positive}" if positive else "the probability of the class that a model names"
    off = sum(part.n * abs(part.predicted - part.observed) for bins in shown.values() for part in bins)
    off /= sum(part.n for bins in shown.values() for part in bins)
    return Figure(
        f"calibration-{test}",
        f"Calibration on {_TITLES[test]}",
        sentence(f"{what} that co-trained models state is off by {off:.3f} on average over the bins"),
        traces,
        layout(
            x={"title": {"text": "stated probability"}, "range": [0, 1]},
            y={"title": {"text": "observed share"}, "range": [0, 1], "rangemode": "normal"},
            hovermode="closest",
        ),
        Table(["Silo", "Bin", "n", "stated", "observed"], rows, words=2),
        f"{BINS} bins of one width; bars are 95% intervals. On the dashed line, probabilities mean what they say.",
        height=380,
    )


def _merged(curves: Iterable[Sequence[Bin]]) -> list[Bin]:
    """The bins of several curves together."""
    found = []
    parts = [part for bins in curves for part in bins]
    for low in sorted({part.low for part in parts}):
        same = [part for part in parts if part.low == low]
        n = sum(part.n for part in same)
        observed = proportion(sum(part.n * part.observed for part in same), n)
        stated = sum(part.n * part.predicted for part in same) / n
        found.append(Bin(low, same[0].high, n, stated, observed.value, observed.low, observed.high))
    return found


def _compared(runs: Sequence[Run]) -> Iterator[tuple[str, Table]]:
    for test in TESTS:
        names = [name for name in _NAMES if any(name in _known_metrics(run.scores, test) for run in runs)]
        rows = [
            [run.label, *(score(metric_means(run.scores, test, name).get("federated", np.nan)) for name in names)]
            for run in runs
        ]
        if names:
            columns = ["Run", *(_NAMES[name] for name in names)]
            yield f"Co-trained, on {_TITLES[test]}: means over silos", Table(columns, rows)


def _known_metrics(rows: Sequence[SiloScores], test: Test) -> list[str]:
    return [
        name
        for name in (*OF_CLASSES, *OF_VALUES)
        if any(row.metric(test, method, name) for row in rows for method in METHODS)
    ]


def _methods(run: Run) -> dict[str, str]:
    return {"local": "alone", "federated": run.title, "centralized": "central"}


def _interval(estimate: Estimate | None) -> str:
    if estimate is None:
        return UNKNOWN
    if not np.isfinite([estimate.low, estimate.high]).all():
        return score(estimate.value)
    return f"{score(estimate.value)} ({estimate.low:.2f}–{estimate.high:.2f})"


def _words(run: Run) -> Iterator[str]:
    tests = [test for row in run.scores for test in row.tests.values()]
    if positive := next((test.positive for test in tests if test.positive), ""):
        yield (
            f"In brackets: 95% intervals. Sensitivity is the share of {positive} that a model finds, specificity the "
            "share of the others that it leaves alone; positive-class names another class. Each silo counts the same "
            "in a mean, whatever its n."
        )
    elif tests:
        yield "In brackets: 95% intervals. Each silo counts the same in a mean, whatever its n."
