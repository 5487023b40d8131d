"""The sections on consensus, traffic, privacy, silos and settings."""

import math
from collections import defaultdict
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from fedct_flwr.config import RunConfig
from fedct_flwr.datasets.inspection.table_one import NOTE, TableOne, caption, cells_of
from fedct_flwr.kinds.facts import LABELS, Decided
from fedct_flwr.report.figures import (
    COLORS,
    UNKNOWN,
    Figure,
    Scale,
    Section,
    Table,
    layout,
    mean,
    numbers,
    over_rounds,
    plain,
    share,
    size,
)
from fedct_flwr.report.summary import Run, Trust
from fedct_flwr.text.plural import count

_SHARE: Final = Scale("Share", ".1~%", ".1%")
_COUNT: Final = Scale("Public examples", ",d", ",.0f")
_VALUE: Final = Scale("Units of the predicted number", "~g", ".4g")
_BYTES: Final = Scale("Bytes", "~s", ",.0f")
_SECONDS: Final = Scale("Seconds", "~g", ".3g")
_TINY: Final = 1e-12
_MOST_TRUSTING: Final = 12
"""Silos whose trust in each other is a table."""


def consensus(runs: Sequence[Run]) -> Section:
    """Agreement, churn, abstentions and class balance of labels; distances of values."""
    labels = [run for run in runs if len(run.course) and run.course.shares_labels]
    words = dict.fromkeys(run.kind.decided for run in labels)
    decided = next(iter(words)) if len(words) == 1 else LABELS
    figures = [
        over_rounds(
            "distance", "Distance from the consensus", "Root mean square distance of silos", runs,
            lambda course: course.of_silos("distance"), _VALUE,
            note="Over the examples asked about. Each silo learns a mean of its own.",
        ),
        over_rounds(
            "moved", "Change of the consensus", "Root mean square change", runs,
            lambda course: course.of_run("moved"), _VALUE,
            note="Over the examples asked about that had a value before.",
        ),
    ]  # fmt: skip
    notes = [also.beside_others for also in words if also.beside_others and also is not decided]
    if labels:
        figures += [
            over_rounds(
                "agreement", "Agreement with the consensus", "Mean agreement of silos", runs,
                lambda course: course.of_silos("agreement"), _SHARE, y={"rangemode": "normal"}, note=decided.agreement,
            ),
            over_rounds(
                "churn", decided.title_of_churn, f"Changed {decided.ones}", runs,
                lambda course: course.of_run("churn"), _SHARE, note=decided.churn,
            ),
        ]  # fmt: skip
        if any(np.nansum(run.course.of_run("abstained")) for run in labels):
            figures.append(
                over_rounds(
                    "abstentions", "Abstentions", "Examples without a label", runs,
                    lambda course: course.of_run("abstained"), _COUNT, note="Of the examples asked about.",
                )
            )  # fmt: skip
        figures.append(_class_balance(labels, decided))
    return Section("consensus", "Consensus", [figure for figure in figures if figure], notes=notes)


def _class_balance(runs: Sequence[Run], decided: Decided) -> Figure | None:
    """Bars: of one run one for each of at most 30 rounds, of several one for each run's last round."""
    runs = [run for run in runs if np.nansum(run.course.classes)]
    if not runs:
        return None
    shares = [run.course.classes / np.maximum(run.course.classes.sum(axis=1, keepdims=True), _TINY) for run in runs]
    classes = list(dict.fromkeys(name for run in runs for name in run.classes))
    if len(runs) == 1:
        at = np.unique(np.linspace(0, len(runs[0].course) - 1, 30).round().astype(int))
        names, columns = [str(number) for number in runs[0].course.number[at]], shares[0][at]
    else:
        names = [run.label for run in runs]
        known = [dict(zip(run.classes, of[-1], strict=True)) for run, of in zip(runs, shares, strict=True)]
        columns = np.array([[of.get(name, 0.0) for name in classes] for of in known])
    traces = [
        {
            # Classes are no silos: they begin at another color.
            "type": "bar", "name": plain(name), "x": [plain(each) for each in names], "y": numbers(columns[:, place]),
            "marker": {"color": COLORS[(place + 4) % len(COLORS)], "opacity": 0.8}, "hovertemplate": "%{y:.1%}",
        }
        for place, name in enumerate(classes)
    ]  # fmt: skip
    largest = ", ".join(f"{classes[n]} {share(columns[-1, n])}" for n in np.argsort(-columns[-1], kind="stable")[:5])
    return Figure(
        "classes",
        decided.title_of_balance,
        f"{decided.lead_of_balance} after the last round{'' if len(runs) == 1 else ' of ' + names[-1]}: {largest}.",
        traces,
        layout(
            x={"type": "category", "title": {"text": "Round" if len(runs) == 1 else "Run"}},
            y={"tickformat": ".0%", "range": [0, 1], "title": {"text": "Share"}},
            barmode="stack",
            bargap=0.25,
        ),
        Table(
            ["Round" if len(runs) == 1 else "Run", *classes],
            [[name, *map(share, row)] for name, row in zip(names, columns, strict=True)],
        ),
        decided.balance,
    )


def traffic(runs: Sequence[Run]) -> Section:
    """Bytes per silo and round, next to what FedAvg would have sent where that is known."""
    started = [run for run in runs if len(run.course)]
    sizes = {float(run.network_bytes) for run in started if run.network_bytes}
    figure = over_rounds(
        "bytes", "Bytes sent by each silo", "Mean bytes of a silo", runs,
        lambda course: course.of_silos("bytes_sent"), _BYTES,
        # Of different networks, no one line fits all runs.
        levels=[("FedAvg, the same network", size) for size in sizes] if len(sizes) == 1 else [],
        note="Payloads, without Flower's envelope and TLS.",
    )  # fmt: skip
    notes = [
        f"{run.label}: FedAvg would have sent {size(run.network_bytes)} per silo and round, "
        f"{run.network_bytes / mean(run.course.of_silos('bytes_sent')):,.1f} times as much: the weights of the silos' "
        "own network, as Flower packs them."
        for run in started
        if run.network_bytes
    ]
    return Section("traffic", "Traffic", [figure] if figure else [], notes=notes)


def privacy(runs: Sequence[Run]) -> Section:
    """Epsilon spent, by the ledgers or the result."""
    notes, rows = [], []
    for run in runs:
        whose = f"{run.label}: " if len(runs) > 1 else ""
        if run.spending is None:
            notes.append(f"{whose}The cost is known when the run has ended.")
            continue
        notes.append(f"{whose}{run.spending.note}")
        for row in run.spending.rows:
            budget = UNKNOWN if math.isinf(row.budget) else f"{row.budget:.4g}"
            cells = [row.whom, row.protects, row.accountant, f"{row.epsilon:.4g}", budget, f"{row.delta:g}"]
            rows.append([run.label, *cells] if len(runs) > 1 else cells)
    columns = ["Silo", "Protects each", "Accountant", "Epsilon spent", "Budget", "Delta"]
    columns = ["Run", *columns] if len(runs) > 1 else columns
    tables = [("Epsilon spent", Table(columns, rows, words=len(columns) - 3))] if rows else []
    return Section("privacy", "Privacy", tables=tables, notes=notes)


def silos(runs: Sequence[Run]) -> Section:
    """Delays, failures, gains, trust and other opinions of the consensus about each silo."""
    started = [run for run in runs if len(run.course)]
    figure = over_rounds(
        "delays", "Seconds until a silo's reply", "Mean delay", runs,
        lambda course: course.of_silos("seconds"), _SECONDS,
    )  # fmt: skip
    tables, notes = [], []
    for run in started:
        whose = f" ({run.label})" if len(runs) > 1 else ""
        if run.course.absences:
            tables.append((f"Silos that did not count{whose}", _absences(run)))
        else:
            notes.append(f"No failures{whose}: every silo counted in every round.")
        if run.gains.rows:
            columns = ["Silo", "Learner", "Weight of others' labels", "Model", "Why", "Own test records"]
            tables.append((f"Use of the consensus by each silo{whose}", Table(columns, run.gains.rows, words=6)))
        if run.trust and run.trust.same:
            notes.append(f"After round {run.trust.round}, each silo trusts all silos the same{whose}.")
        elif run.trust:
            tables.append((f"Trust after round {run.trust.round}{whose}", _trusted(run.trust)))
        elif run.course.quality:
            tables.append((f"Quality of each silo, as the consensus estimates it{whose}", _quality(run)))
    return Section("silos", "Silos", [figure] if figure else [], tables, notes)


def _absences(run: Run) -> Table:
    rounds = defaultdict(list)
    for absence in run.course.absences:
        rounds[absence.silo, absence.reason].append(absence.round)
    rows = [
        [silo, reason, f"{min(found)}–{max(found)}" if len(found) > 1 else str(found[0]), str(len(found))]
        for (silo, reason), found in sorted(rounds.items())
    ]
    return Table(["Silo", "Why", "In rounds", "How often"], rows, words=3)


def _trusted(found: Trust) -> Table:
    """Who trusts whom, rows sum to 1; of many silos how much each trusts itself and is trusted by others."""
    if len(found.silos) <= _MOST_TRUSTING:
        rows = [[s, *(f"{v:.3f}" for v in row)] for s, row in zip(found.silos, found.matrix, strict=True)]
        return Table(["Silo trusts", *found.silos], rows)
    own = np.diag(found.matrix)
    others = (found.matrix.sum(axis=0) - own) / (len(found.silos) - 1)
    rows = [[s, f"{of:.3f}", f"{by:.4f}"] for s, of, by in zip(found.silos, own, others, strict=True)]
    return Table(["Silo", "trusts itself", "trusted by others, mean"], rows)


def _quality(run: Run) -> Table:
    quality = run.course.quality
    names = list(dict.fromkeys(name for of in quality.values() for name in of))
    rows = [
        [silo, *(f"{quality[silo].get(name, np.nan):.3f}" for name in names)]
        for silo in run.course.silos
        if silo in quality
    ]
    return Table(["Silo", *(name.replace("_", " ") for name in names)], rows)


def data(runs: Sequence[Run]) -> Section:
    """Table 1 by site, of a single run."""
    table = runs[0].table_one if len(runs) == 1 else TableOne()
    silos = table.silos
    rows = [[row.column, *cells_of(row, silos)] for row in table.ordered]
    columns = ["Column", *(silo or "public" for silo in silos), "Largest SMD"]
    tables = [(caption(table), Table(columns, rows, words=len(columns) - 1))] if rows else []
    return Section("data", "Data by site", tables=tables, notes=[NOTE] if rows else [])


def settings(runs: Sequence[Run]) -> Section:
    """The exact run config and versions; first those that are not the default, or that differ between the runs."""
    keys = list(dict.fromkeys(key for run in runs for key in run.settings))
    defaults = RunConfig.defaults()
    if len(runs) == 1:
        special = [key for key in keys if runs[0].settings[key] != defaults.get(key)]
        title, columns = "Settings that are not the default", ["Key", "Value"]
    else:
        special = [key for key in keys if len({str(run.settings.get(key)) for run in runs}) > 1]
        title, columns = "Settings that differ", ["Key", *(run.label for run in runs)]
    facts = [
        ["classes", *(run.outcome.words or UNKNOWN for run in runs)],
        ["public examples", *(UNKNOWN if run.num_public is None else f"{run.num_public:,}" for run in runs)],
        ["public set, SHA-256", *(run.fingerprint or UNKNOWN for run in runs)],
        ["silos", *(count(len(run.course.silos), "silo") for run in runs)],
        ["run folder", *(str(run.path.resolve()) for run in runs)],
    ]
    packages = list(dict.fromkeys(name for run in runs for name in run.versions))
    versions = [[f"{name} (version)", *(run.versions.get(name, UNKNOWN) for run in runs)] for name in packages]
    tables = [
        (name, Table(columns, rows, words=len(columns)))
        for name, rows in (
            (title, [[key, *(_value(run, key) for run in runs)] for key in special]),
            ("Data and versions", facts + versions),
            ("All settings", [[key, *(_value(run, key) for run in runs)] for key in keys]),
        )
    ]
    return Section("settings", "Settings and versions", tables=tables)


def _value(run: Run, key: str) -> str:
    value: Any = run.settings.get(key, UNKNOWN)
    return str(value).lower() if isinstance(value, bool) else str(value) if value != "" else "(empty)"
