"""The sections of a run's page: scores, calibration, follow-up, consensus, privacy, silos, data and settings."""

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator
from typing import Any, Final

import numpy as np

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.inspection.table_one import NOTE, caption, cells_of
from fedct_flwr.report.figures import (
    COLORS,
    MUTED,
    UNKNOWN,
    Figure,
    PageTable,
    Section,
    Values,
    formatted,
    layout,
    levels_at,
    line,
    numbers,
    over_rounds,
    plain,
)
from fedct_flwr.report.kind_words import words_of
from fedct_flwr.report.summary import RunSummary
from fedct_flwr.runs.scores import METHODS, TESTS, OnTest, Test, has_scores, means, notes, of_sums, titles, worst_first
from fedct_flwr.scoring import BALANCED_ACCURACY, CONCORDANCE, R_SQUARED, intervals
from fedct_flwr.scoring.assessment import BINS, METRICS, Assessment
from fedct_flwr.scoring.intervals import Estimate
from fedct_flwr.survival.measures import AT
from fedct_flwr.text.printable import count

_ON: Final[dict[Test, str]] = {"own": "each silo's own test set", "pooled": "the pooled test set"}
_MEANING: Final = {
    BALANCED_ACCURACY.name: "Balanced accuracy: mean recall over the classes of the test set.",
    CONCORDANCE.name: "Concordance: share of comparable pairs of records whose earlier event has the larger risk.",
    R_SQUARED.name: "R²: share of the test set's variance that a model explains; below 0 it is worse than the mean.",
}
_AT_HORIZON: Final = {"auc": "AUC at", "brier": "Brier score at", "calibration": "observed less stated at"}
_MARKERS: Final = {
    "local": {"symbol": "circle-open", "color": MUTED, "size": 10, "line": {"width": 2}},
    "centralized": {"symbol": "diamond-tall", "color": MUTED, "size": 11},
    "federated": {"symbol": "circle", "color": COLORS[0], "size": 12},
}
_MOST_ROWS: Final = 16
_MOST_CURVES: Final = 8
_MOST_CLASSES: Final = 12


def sections_of(run: RunSummary) -> list[Section]:
    """All sections that have something to say, in the order of the page."""
    parts = (scores, metrics, follow_up, consensus, privacy, silos, data, settings)
    return [made for part in parts if (made := part(run)).figures or made.tables or made.notes]


def table_of_silos(run: RunSummary) -> PageTable:
    """A row for each silo: its scores, how near it came to the consensus, what it sent, and when."""
    course, near = run.course, words_of(run.kind).near
    rows_of, heads = {row.silo: row for row in run.scores}, titles(run.algorithm.title)
    known = [(t, m) for t in TESTS for m in METHODS if any(np.isfinite(row.value(t, m)) for row in run.scores)]
    # Silos that share weights agree with no label.
    after = [near.head] if course.shares_answers or not len(course) else []
    missed = [absence.silo for absence in course.absences]
    agrees, sent, seconds = (course.silo[name] for name in (near.column, "bytes_sent", "seconds"))

    def last(
        name: str, cells: Iterable[float], agreement: Values, sent: float, delay: Values, missed: int
    ) -> list[str]:
        shown = [formatted(_mean(agreement), near.form)] if after else []
        return [name, *map(formatted, cells), *shown, formatted(sent, ",.0f"), _delay(delay), f"{missed:,}"]

    rows, foot = [], []
    for n, silo in enumerate(course.silos):
        cells = [rows_of[silo].value(*one) if silo in rows_of else math.nan for one in known]
        row = last(silo, cells, agrees[-1:, n], np.nansum(sent[:, n]), seconds[:, n], missed.count(silo))
        rows.append(row)
    if len(course):
        cells = [run.means(test)[method] for test, method in known]
        foot = [last("mean", cells, agrees[-1], run.bytes_of_a_silo, seconds, len(missed))]
    widths = [(t, sum(test == t for test, _ in known)) for t in TESTS]
    groups = [(f"{run.measure_title}, {test} test set", width) for test, width in widths if width]
    columns = ["Silo", *(heads[m] for _, m in known), *after, "bytes sent", "median delay", "rounds missed"]
    return PageTable(columns, rows, foot=foot, groups=[("", 1), *groups, ("", len(after) + 3)] if groups else [])


def _mean(values: Values) -> float:
    known = values[np.isfinite(values)]
    return float(known.mean()) if known.size else math.nan


def _delay(seconds: Values) -> str:
    """The median of the known delays."""
    known = seconds[np.isfinite(seconds)]
    middle = float(np.median(known)) if known.size else math.nan
    return UNKNOWN if math.isnan(middle) else f"{middle:.2f} s" if middle < 10 else f"{middle:,.0f} s"


def scores(run: RunSummary) -> Section:
    """Scores of the models at the end, and of each round where replies carried some."""
    by_round = [figure for test in TESTS for figure in _by_round(run, test)]
    figures = [*(figure for test in TESTS for figure in _at_the_end(run, test)), *by_round]
    # A run that asks once has no round to compare with.
    silent = not by_round and len(run.course) and not run.algorithm.asks_once
    why = "Scores of each round are unknown: silos report them only where report-scores is set and their policy allows."
    title = "Accuracy" if run.measure == BALANCED_ACCURACY.name else run.measure
    return Section("accuracy", title, figures, notes=[why] if silent else [])


def _by_round(run: RunSummary, test: Test) -> Iterable[Figure]:
    """Of the silos' models, or of the global one where silos share weights."""
    course = run.course
    values = course.silo[f"{test}_{'r_squared' if course.shares_values else 'balanced_accuracy'}"]
    if test == "pooled" and not np.isfinite(values).any():
        values = course.run["balanced_accuracy"]
    dashed = {"local": "alone, mean", "centralized": "all data in one place, mean"}
    levels = [(dashed[m], value) for m, value in run.means(test).items() if m in dashed and np.isfinite(value)]
    note = "Dashed: the same learners without co-training." if levels else ""
    title = f"{run.measure_title} round by round, on {_ON[test]}"
    return over_rounds(f"accuracy-{test}", title, course, values, ".3f", note, levels)


def _at_the_end(run: RunSummary, test: Test) -> Iterator[Figure]:
    """A row for each silo; of many the first are drawn. The table of silos at a glance has the numbers."""
    heads, levels = titles(run.algorithm.title), run.global_scores if test == "pooled" else {}
    drawn = run.scores[:_MOST_ROWS]
    values = {m: [row.value(test, m) for row in drawn] for m in METHODS}
    if not has_scores(run.scores, test):
        return
    labels = [plain(row.silo) for row in drawn]
    traces = [
        line(heads[m], values[m], [], 0, mode="markers", marker=look, hovertemplate="%{y}: %{x:.3f}") | {"y": labels}
        for m, look in _MARKERS.items()
        if np.isfinite(values[m]).any()
    ]
    shown = ", ".join(f"{name} {formatted(value)}" for name, value in levels.items())
    parts = [
        f"Global models (dashed): {shown}." if shown else "Each silo's scores, as in the table at a glance.",
        _MEANING[run.measure],
        f"The first {_MOST_ROWS} of {len(run.scores)} are drawn." if len(run.scores) > _MOST_ROWS else "",
    ]
    rows = {"autorange": "reversed", "type": "category", "categoryorder": "array", "categoryarray": labels}
    yield Figure(
        f"accuracy-{test}-end",
        f"At the end, on {_ON[test]}",
        " ".join(filter(None, parts)),
        [*traces, *levels_at(levels.items(), y=[labels[0], labels[-1]])],
        layout(run.measure_title, "", {"tickformat": ".2f"}, rows),
        height=110 + 30 * len(labels),
    )


def metrics(run: RunSummary) -> Section:
    """All metrics of a run's models with their intervals, worst site first; calibration and confusion matrices."""
    tests = [test for row in run.scores for test in row.tests.values()]
    if not tests:
        return Section("metrics", "Metrics with intervals")
    words = [*notes(run.scores)]
    if positive := next((test.positive for test in tests if test.positive), ""):
        words += [
            f"Sensitivity is the share of {positive} that a model finds, specificity the share of the others that it "
            "leaves alone. The setting positive-class names another class.",
            "Stated chances are too low where the calibration intercept is above 0, too high below 0, and range too "
            "widely where the slope is below 1. The silo whose co-trained chances are furthest off comes first.",
        ]
    words.append("In brackets: 95% intervals. Each silo counts the same in a mean, whatever its n.")
    tables = [table for make in (_by_silo, _confusions) for test in TESTS for table in make(run, test)]
    figures = [figure for test in TESTS for figure in _calibration(run, test)]
    return Section("metrics", "Metrics with intervals", figures, tables, words)


def _scored(run: RunSummary, test: Test) -> list[tuple[str, OnTest, str, Assessment]]:
    """All models with records to be scored on: the silo, its test set, the method, and the numbers."""
    there = [(row.silo, row.tests[test]) for row in worst_first(run.scores, test) if row.tests[test].n]
    return [(silo, found, m, found.models[m]) for silo, found in there for m in METHODS if m in found.models]


def _titles(scored: list[tuple[str, OnTest, str, Assessment]]) -> dict[str, str]:
    """Titles of all metrics, also of those at a run's horizons."""
    names = dict.fromkeys(name for *_, model in scored for name in model.metrics if AT in name)
    at = [(name, *name.split(AT, 1)) for name in names]
    return METRICS | {name: f"{_AT_HORIZON[kind]} {days}" for name, kind, days in at if kind in _AT_HORIZON}


def _by_silo(run: RunSummary, test: Test) -> Iterator[tuple[str, PageTable]]:
    scored, heads = _scored(run, test), titles(run.algorithm.title)
    known = {name: title for name, title in _titles(scored).items() if has_scores(run.scores, test, name)}
    if not scored or not known:
        return
    counts = ["n", *filter(None, [scored[0][1].positive])]
    rows = [
        [
            silo,
            heads[method],
            *(f"{n:,}" for n in (found.n, found.positives)[: len(counts)]),
            *(_interval(model.metrics.get(name, intervals.UNKNOWN)) for name in known),
        ]
        for silo, found, method, model in scored
    ]
    averages = [means(run.scores, test, name) for name in known]
    foot = [
        ["mean", heads[m], *([""] * len(counts)), *(formatted(of[m]) for of in averages)]
        for m in METHODS
        if np.isfinite([of[m] for of in averages]).any()
    ]
    yield f"On {_ON[test]}", PageTable(["Silo", "Model", *counts, *known.values()], rows, words=2, foot=foot)


def _interval(estimate: Estimate) -> str:
    if not np.isfinite([estimate.value, estimate.low, estimate.high]).all():
        return formatted(estimate.value)
    return f"{formatted(estimate.value)} ({estimate.low:.2f}–{estimate.high:.2f})"


def _confusions(run: RunSummary, test: Test) -> Iterator[tuple[str, PageTable]]:
    heads, scored = titles(run.algorithm.title), [one for one in _scored(run, test) if one[3].confusion]
    rows = [
        [silo, heads[method], name, *(f"{n:,}" for n in cells)]
        for silo, found, method, model in scored
        for name, cells in zip(found.classes, model.confusion, strict=True)
    ]
    classes = scored[-1][1].classes if scored else {}
    if rows and len(classes) <= _MOST_CLASSES:
        columns = ["Silo", "Model", "True class", *(f"predicted: {name}" for name in classes)]
        yield f"Confusion matrices on {_ON[test]}", PageTable(columns, rows, words=3)


def _calibration(run: RunSummary, test: Test) -> Iterator[Figure]:
    """The reliability diagram of the co-trained models, of the first silos where there are many."""
    scored = [one for one in _scored(run, test) if one[2] == "federated" and one[3].calibration]
    curves = {silo: model.calibration for silo, _, _, model in scored}
    if not curves:
        return
    order = [row.silo for row in run.scores]
    traces = levels_at([("calibrated", 1.0)], x=[0, 1], y=[0, 1])
    for name, bins in [*curves.items()][:_MOST_CURVES]:
        above = [part.observed_high - part.observed for part in bins]
        below = [part.observed - part.observed_low for part in bins]
        errors = {"type": "data", "symmetric": False, "array": numbers(above), "arrayminus": numbers(below)}
        x, y = ([getattr(part, of) for part in bins] for of in ("predicted", "observed"))
        traces.append(line(name, x, y, order.index(name), error_y=errors | {"thickness": 1}))
    rows = [
        [
            name, f"{part.low:.1f}–{part.high:.1f}", f"{part.n:,}", formatted(part.predicted),
            _interval(Estimate(part.observed, part.observed_low, part.observed_high)),
        ]
        for name, bins in curves.items()
        for part in bins
    ]  # fmt: skip
    every = [part for bins in curves.values() for part in bins]
    off = sum(part.n * abs(part.predicted - part.observed) for part in every) / sum(part.n for part in every)
    few = f" The first {_MOST_CURVES} silos are drawn." if len(curves) > _MOST_CURVES else ""
    yield Figure(
        f"calibration-{test}",
        f"Calibration on {_ON[test]}",
        f"The probability of {scored[0][1].positive or 'the named class'} that co-trained models state is off by "
        f"{off:.3f} on average over {BINS} bins of equal width; bars are 95% intervals. A calibrated model lies on the "
        f"dashed line.{few}",
        traces,
        layout("stated probability", "observed share", {"range": [0, 1]}, {"range": [0, 1]}),
        PageTable(["Silo", "Bin", "n", "stated", "observed"], rows, words=2),
        height=380,
    )


def follow_up(run: RunSummary) -> Section:
    """Kaplan and Meier's curves by predicted grade, one figure for each silo; empty for other outcomes."""
    figures, columns = [], run.outcome.follow_up
    own = [(row.silo, row.tests["own"].models.get("federated")) for row in run.scores if "own" in row.tests]
    graded = [(silo, model.grades) for silo, model in own if model and model.grades] if columns else []
    for place, (silo, grades) in enumerate(graded[:_MOST_CURVES]):
        assert columns is not None  # noqa: S101 - a narrower type
        traces = [
            line(f"grade {one.grade}", one.times, one.share, number, mode="lines", line={"shape": "hv"})
            for number, one in enumerate(grades)
        ]
        figure = Figure(
            f"follow-up-{place}",
            f"Share without event at {silo}",
            "Test records of the silo, by the grade of risk that its co-trained model predicts (1 is the lowest), by "
            "Kaplan and Meier's estimate. Curves of a model that ranks well lie in the order of the grades.",
            traces,
            layout(columns.time, "share without event", {"rangemode": "tozero"}, {"range": [0, 1.02]}),
            PageTable(
                ["Grade", "n", "events", "share at the end"],
                [[str(one.grade), f"{one.n:,}", f"{one.events:,}", formatted(one.share[-1])] for one in grades],
            ),
        )
        figures.append(figure)
    few = [f"The first {_MOST_CURVES} of {len(graded)} silos are drawn."] if len(graded) > _MOST_CURVES else []
    return Section("follow-up", "Follow-up by predicted grade", figures, notes=few)


def consensus(run: RunSummary) -> Section:
    """Agreement of labels or distance of values by silo; a table of how the consensus changed."""
    course, words = run.course, words_of(run.kind)
    near, decided = words.near, words.decided
    if not course.shares_answers:
        return Section("consensus", "Consensus")
    note = "Root mean square over the examples asked about, in units of the number." if course.shares_values else ""
    title = "Distance from the consensus" if course.shares_values else "Agreement with the consensus"
    figures = [*over_rounds(near.column, title, course, course.silo[near.column], near.form, note or decided.agreement)]
    classes = run.outcome.classes if len(run.outcome.classes) <= _MOST_CLASSES else ()
    shares = course.classes / np.maximum(course.classes.sum(axis=1, keepdims=True), 1)
    parts = [
        (decided.title_of_churn, "churn", ".1%"),
        ("Abstentions", "abstained", ",.0f"),
        ("Moved by", "moved", ".4g"),
    ]
    parts = [part for part in parts if np.nansum(course.run[part[1]])]
    rows = [
        [
            str(number), *(formatted(course.run[name][n], form) for _, name, form in parts),
            *(formatted(share, ".1%") for share in shares[n, : len(classes)]),
        ]
        for n, number in enumerate(course.number)
    ]  # fmt: skip
    columns = ["Round", *(title for title, *_ in parts), *classes]
    about = [decided.churn] if np.nansum(course.run["churn"]) else []
    about += [decided.balance] if classes else []
    about += [f"{found[:1].upper()}{found[1:]}." for found in (run.certificate, run.scores_of_all) if found]
    tables = [("The consensus round by round", PageTable(columns, rows, words=0))] if len(columns) > 1 else []
    return Section("consensus", "Consensus", figures, tables, about)


def privacy(run: RunSummary) -> Section:
    """Epsilon spent, budget and delta, a row for each silo or one for the noise as a whole."""
    if run.spending is None:
        return Section("privacy", "Privacy", notes=["The cost is known when the run has ended."])
    rows = [
        [
            *(row.whom, row.protects, row.accountant, f"{row.epsilon:.4g}"),
            *(UNKNOWN if math.isinf(row.budget) else f"{row.budget:.4g}", f"{row.delta:g}"),
        ]
        for row in run.spending.rows
    ]
    columns = ["Silo", "Protects each", "Accountant", "Epsilon spent", "Budget", "Delta"]
    tables = [("Epsilon spent", PageTable(columns, rows, 3))]
    return Section("privacy", "Privacy", tables=tables, notes=[run.spending.note])


def silos(run: RunSummary) -> Section:
    """Failures, gains, trust and other opinions of the consensus about each silo."""
    course, tables = run.course, []
    if not len(course):
        return Section("silos", "Silos")
    rounds = defaultdict(list)
    for absence in course.absences:
        rounds[absence.silo, absence.reason].append(absence.round)
    rows = [
        [silo, reason, f"{min(found)}–{max(found)}" if len(found) > 1 else str(found[0]), str(len(found))]
        for (silo, reason), found in sorted(rounds.items())
    ]
    tables.append(("Silos that did not count", PageTable(["Silo", "Why", "In rounds", "How often"], rows, words=3)))
    columns = ["Silo", "Learner", "Weight of others' labels", "Model", "Why", "Own test records"]
    tables.append(("Use of the consensus by each silo", PageTable(columns, run.gains.rows, words=6)))
    last, trust = run.trust
    rows = [[silo, *(f"{value:.3f}" for value in row)] for silo, row in trust.items()]
    tables.append((f"Trust after round {last}", PageTable(["Silo trusts", *trust], rows)))
    if not trust:
        names = list(dict.fromkeys(name for of in course.quality.values() for name in of))
        known = [(silo, course.quality[silo]) for silo in course.silos if silo in course.quality]
        rows = [[silo, *(f"{of.get(name, math.nan):.3f}" for name in names)] for silo, of in known]
        columns = ["Silo", *(name.replace("_", " ") for name in names)]
        tables.append(("Quality of each silo, as the consensus estimates it", PageTable(columns, rows)))
    wrong = [*of_sums((absence.round, absence.reason) for absence in course.absences)]
    none = [] if course.absences else ["No failures: every silo counted in every round."]
    return Section(
        "silos", "Silos", tables=[(title, table) for title, table in tables if table.rows], notes=wrong + none
    )


def data(run: RunSummary) -> Section:
    """Table 1 by site."""
    table = run.table_one
    rows = [[row.column, *cells_of(row, table.silos)] for row in table.ordered]
    columns = ["Column", *(silo or "public" for silo in table.silos), "Largest SMD"]
    tables = [(caption(table), PageTable(columns, rows, words=len(columns) - 1))] if rows else []
    return Section("data", "Data by site", tables=tables, notes=[NOTE] if rows else [])


def settings(run: RunSummary) -> Section:
    """The exact run config, first what is not the default, and versions."""
    defaults = RunConfig.defaults()
    every = sorted(run.config.to_flower().items(), key=lambda item: item[1] == defaults.get(item[0]))
    rows = [[key, _value(value), "" if value == defaults.get(key) else "set"] for key, value in every]
    facts = [
        ("classes", run.outcome.words or UNKNOWN),
        ("public examples", f"{run.num_public:,}"),
        ("public set, SHA-256", run.fingerprint),
        ("silos", count(len(run.course.silos), "silo")),
        ("run folder", str(run.path.resolve())),
        *((f"{name} (version)", version) for name, version in run.versions.items()),
    ]
    tables = [
        ("Data and versions", PageTable(["Key", "Value"], facts, words=2)),
        ("Settings", PageTable(["Key", "Value", "Default or set"], rows, words=3)),
    ]
    return Section("settings", "Settings and versions", tables=tables)


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) if value != "" else "(empty)"
