"""The table of silos, and the sections on consensus, privacy, silos, data and settings."""

import math
from collections import defaultdict
from typing import Any, Final

import numpy as np

from fedct_flwr.config.run import RunConfig
from fedct_flwr.datasets.inspection.table_one import NOTE, caption, cells_of
from fedct_flwr.report.figures import (
    COLORS,
    UNKNOWN,
    Figure,
    Scale,
    Section,
    Table,
    Values,
    formatted,
    layout,
    mean,
    numbers,
    over_rounds,
    plain,
    score,
)
from fedct_flwr.report.summary import Run
from fedct_flwr.runs.scores import METHODS, TESTS, of_sums, titles
from fedct_flwr.text.kinds import Decided, words_of
from fedct_flwr.text.printable import count

_SHARE: Final = Scale("Share", ".1~%", ".1%")
_COUNT: Final = Scale("Public examples", ",d", ",.0f")
_VALUE: Final = Scale("Units of the predicted number", "~g", ".4g")
_TINY: Final = 1e-12


def table_of_silos(run: Run) -> Table:
    """A row for each silo: its scores, how near it came to the consensus, what it sent, and when."""
    course, near = run.course, words_of(run.kind).near
    scores = {row.silo: row for row in run.scores}
    heads = titles(run.algorithm.title)
    known = [(t, m) for t in TESTS for m in METHODS if any(np.isfinite(row.value(t, m)) for row in run.scores)]
    # Silos that share weights agree with no label.
    after = [near.head] if course.shares_answers or not len(course) else []
    columns = ["Silo", *(heads[m] for _, m in known), *after, "bytes sent", "median delay", "rounds missed"]
    widths = [(t, sum(test == t for test, _ in known)) for t in TESTS]
    groups = [(f"{run.measure_title}, {test} test set", width) for test, width in widths if width]
    missed = [absence.silo for absence in course.absences]
    agrees, sent, seconds = (course.silo[name] for name in (near.column, "bytes_sent", "seconds"))
    rows = []
    for n, silo in enumerate(course.silos):
        row = scores.get(silo)
        cells = [score(row.value(test, method)) if row else UNKNOWN for test, method in known]
        last = [formatted(agrees[-1, n] if len(course) else np.nan, near.form)] if after else []
        times = [f"{np.nansum(sent[:, n]):,.0f}", _delay(seconds[:, n]), str(missed.count(silo))]
        rows.append([silo, *cells, *last, *times])
    foot = []
    if len(course):
        averages = [score(run.means(test)[method]) for test, method in known]
        last = [formatted(mean(agrees[-1]), near.form)] if after else []
        times = [formatted(run.bytes_of_a_silo, ",.0f"), _delay(seconds), f"{len(missed):,}"]
        foot = [["mean", *averages, *last, *times]]
    return Table(columns, rows, foot=foot, groups=[("", 1), *groups, ("", len(after) + 3)] if groups else [])


def _delay(seconds: Values) -> str:
    """The median of the known delays."""
    known = seconds[np.isfinite(seconds)]
    middle = float(np.median(known)) if known.size else float("nan")
    return UNKNOWN if np.isnan(middle) else f"{middle:.2f} s" if middle < 10 else f"{middle:,.0f} s"


def consensus(run: Run) -> Section:
    """Agreement, churn, abstentions and class balance of labels; distances of values."""
    course, decided = run.course, words_of(run.kind).decided
    figures = [
        over_rounds(
            "distance", "Distance from the consensus", "Root mean square distance of silos", course,
            course.silo["distance"], _VALUE, note="Over the examples asked about. Each silo learns a mean of its own.",
        ),
        over_rounds(
            "moved", "Change of the consensus", "Root mean square change", course,
            course.run["moved"], _VALUE, note="Over the examples asked about that had a value before.",
        ),
    ]  # fmt: skip
    if course.shares_labels:
        figures += [
            over_rounds(
                "agreement", "Agreement with the consensus", "Mean agreement of silos", course,
                course.silo["agreement"], _SHARE, y={"rangemode": "normal"}, note=decided.agreement,
            ),
            over_rounds(
                "churn", decided.title_of_churn, f"Changed {decided.ones}", course,
                course.run["churn"], _SHARE, note=decided.churn,
            ),
        ]  # fmt: skip
        if np.nansum(course.run["abstained"]):
            figures.append(
                over_rounds(
                    "abstentions", "Abstentions", "Examples without a label", course,
                    course.run["abstained"], _COUNT, note="Of the examples asked about.",
                )
            )  # fmt: skip
        figures.append(_class_balance(run, decided))
    return Section("consensus", "Consensus", [figure for figure in figures if figure])


def _class_balance(run: Run, decided: Decided) -> Figure | None:
    """Bars, one for each of at most 30 rounds."""
    counts = run.course.classes
    if not np.nansum(counts):
        return None
    at = np.unique(np.linspace(0, len(counts) - 1, 30).round().astype(int))
    shares = counts[at] / np.maximum(counts[at].sum(axis=1, keepdims=True), _TINY)
    rounds = [str(number) for number in run.course.number[at]]
    traces = [
        {
            # Classes are no silos: they begin at another color.
            "type": "bar", "name": plain(name), "x": rounds, "y": numbers(shares[:, place]),
            "marker": {"color": COLORS[(place + 4) % len(COLORS)], "opacity": 0.8}, "hovertemplate": "%{y:.1%}",
        }
        for place, name in enumerate(run.outcome.classes)
    ]  # fmt: skip
    largest = np.argsort(-shares[-1], kind="stable")[:5]
    named = ", ".join(f"{run.outcome.classes[place]} {_SHARE(shares[-1, place])}" for place in largest)
    return Figure(
        "classes",
        decided.title_of_balance,
        f"{decided.lead_of_balance} after the last round: {named}.",
        traces,
        layout(
            x={"type": "category", "title": {"text": "Round"}},
            y={"tickformat": ".0%", "range": [0, 1], "title": {"text": "Share"}},
            barmode="stack",
            bargap=0.25,
        ),
        Table(["Round", *run.outcome.classes], [[n, *map(_SHARE, row)] for n, row in zip(rounds, shares, strict=True)]),
        decided.balance,
    )


def privacy(run: Run) -> Section:
    """Epsilon spent, by the ledgers or the result."""
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
    table = ("Epsilon spent", Table(columns, rows, words=3))
    return Section("privacy", "Privacy", tables=[table], notes=[run.spending.note])


def silos(run: Run) -> Section:
    """Failures, gains, trust and other opinions of the consensus about each silo."""
    course = run.course
    if not len(course):
        return Section("silos", "Silos")
    tables: list[tuple[str, Table]] = []
    notes: list[str] = []
    if course.absences:
        tables.append(("Silos that did not count", _absences(run)))
        notes += of_sums((absence.round, absence.reason) for absence in course.absences)
    else:
        notes.append("No failures: every silo counted in every round.")
    if run.gains.rows:
        columns = ["Silo", "Learner", "Weight of others' labels", "Model", "Why", "Own test records"]
        tables.append(("Use of the consensus by each silo", Table(columns, run.gains.rows, words=6)))
    if run.trust:
        rows = [[s, *(f"{v:.3f}" for v in row)] for s, row in zip(run.trust.silos, run.trust.matrix, strict=True)]
        tables.append((f"Trust after round {run.trust.round}", Table(["Silo trusts", *run.trust.silos], rows)))
    elif course.quality:
        names = list(dict.fromkeys(name for of in course.quality.values() for name in of))
        rows = [
            [silo, *(f"{course.quality[silo].get(name, np.nan):.3f}" for name in names)]
            for silo in course.silos
            if silo in course.quality
        ]
        columns = ["Silo", *(name.replace("_", " ") for name in names)]
        tables.append(("Quality of each silo, as the consensus estimates it", Table(columns, rows)))
    return Section("silos", "Silos", tables=tables, notes=notes)


def _absences(run: Run) -> Table:
    rounds = defaultdict(list)
    for absence in run.course.absences:
        rounds[absence.silo, absence.reason].append(absence.round)
    rows = [
        [silo, reason, f"{min(found)}–{max(found)}" if len(found) > 1 else str(found[0]), str(len(found))]
        for (silo, reason), found in sorted(rounds.items())
    ]
    return Table(["Silo", "Why", "In rounds", "How often"], rows, words=3)


def data(run: Run) -> Section:
    """Table 1 by site."""
    table = run.table_one
    rows = [[row.column, *cells_of(row, table.silos)] for row in table.ordered]
    columns = ["Column", *(silo or "public" for silo in table.silos), "Largest SMD"]
    tables = [(caption(table), Table(columns, rows, words=len(columns) - 1))] if rows else []
    return Section("data", "Data by site", tables=tables, notes=[NOTE] if rows else [])


def settings(run: Run) -> Section:
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
        ("Data and versions", Table(["Key", "Value"], facts, words=2)),
        ("Settings", Table(["Key", "Value", "Default or set"], rows, words=3)),
    ]
    return Section("settings", "Settings and versions", tables=tables)


def _value(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value) if value != "" else "(empty)"
