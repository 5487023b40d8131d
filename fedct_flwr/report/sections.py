"""The page's sections but for accuracy: consensus, traffic, privacy, trust, silos, settings."""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.config import RunConfig
from fedct_flwr.report import over_rounds
from fedct_flwr.report.figure import COLORS, Figure, Section, Table, layout, numbers, plain
from fedct_flwr.report.over_rounds import Scale, kept
from fedct_flwr.report.round_log import Course
from fedct_flwr.report.summary import Run, Trust
from fedct_flwr.report.words import UNKNOWN, count, duration, sentence, share, size, spans

_SHARE: Final = Scale("Share", ".0%", "{:.1%}")
_COUNT: Final = Scale("Public examples", ",d", "{:,.0f}")
_BYTES: Final = Scale("Bytes", "~s", "{:,.0f}")
_SECONDS: Final = Scale("Seconds", "~g", "{:.3g}")
_MOST_BARS: Final = 30
_MOST_CELLS: Final = 12
_LONG_TAIL: Final = 20.0
_TINY: Final = 1e-12
_LOG: Final = {"type": "log", "rangemode": "normal", "dtick": 1}


def consensus(runs: Sequence[Run]) -> Section:
    """Agreement, label churn, abstentions and class balance, where silos share labels."""
    told = [run for run in runs if len(run.course) and run.course.shares_labels]
    if not told:
        return Section("consensus", "Consensus")
    figures = [
        over_rounds.figure(
            "agreement", "Agreement with the consensus",
            _said(
                runs, told, _agreement_words,
                "agreement in the last round", lambda course: share(course.of_run("agreement")[-1]),
            ), runs,
            lambda course: course.of_silos("agreement"), _SHARE, fixed_points=True, y={"rangemode": "normal"},
            note="The share of a silo's votes that equal the label decided upon.",
        ),
        over_rounds.figure(
            "churn", "Label churn",
            _said(
                runs, [run for run in told if np.isfinite(run.course.of_run("churn")[-1])], _churn_words,
                "labels that changed in the last round", lambda course: share(course.of_run("churn")[-1]),
            ), runs,
            lambda course: course.of_run("churn"), _SHARE, fixed_points=True,
            note="Of the examples asked about that had a label before: the share with another one, or none, after.",
        ),
    ]  # fmt: skip
    notes = []
    if any(np.nansum(run.course.of_run("abstained")) for run in told):
        figures.append(
            over_rounds.figure(
                "abstentions", "Abstentions",
                _said(
                    runs, told, _abstention_words,
                    "examples without a label in the last round",
                    lambda course: f"{course.of_run('abstained')[-1]:,.0f}",
                ), runs,
                lambda course: course.of_run("abstained"), _COUNT,
                note="Examples asked about for which no label was decided upon.",
            )
        )  # fmt: skip
    else:
        notes.append("No abstentions: in every round, each example that was asked about got a label.")
    figures.append(_class_balance(runs))
    return Section("consensus", "Consensus", [figure for figure in figures if figure], notes=notes)


def _said(
    runs: Sequence[Run], told: Sequence[Run], words: Callable[[Course], str], what: str, brief: Callable[[Course], str]
) -> str:
    """What a figure says: a sentence on one run, or on several ``what`` it is with each run's value, in ``brief``."""
    if len(runs) == 1:
        return sentence(words(told[0].course)) if told else ""
    return sentence(f"{what}: " + ", ".join(f"{run.label} {brief(run.course)}" for run in told))


def _agreement_words(course: Course) -> str:
    values = course.of_run("agreement")
    first = f", after {share(values[0])} in round {course.number[0]}" if len(course) > 1 else ""
    return f"silos agree on {share(values[-1])} of the labels in round {course.number[-1]}{first}"


def _churn_words(course: Course) -> str:
    churn = course.of_run("churn")[-1]
    end = f"; fixed point since round {course.fixed_point}" if course.fixed_point else "; no fixed point"
    return f"{share(churn)} of the labels changed in round {course.number[-1]}{end}"


def _abstention_words(course: Course) -> str:
    values, queried = course.of_run("abstained"), course.of_run("queried")
    return f"{values[-1]:,.0f} of {queried[-1]:,.0f} examples got no label in round {course.number[-1]}"


def _class_balance(runs: Sequence[Run]) -> Figure | None:
    runs = [run for run in runs if np.nansum(run.course.classes)]
    if not runs:
        return None
    shares = [run.course.classes / np.maximum(run.course.classes.sum(axis=1, keepdims=True), _TINY) for run in runs]
    words = [_most(run, of, named=len(runs) > 1) for run, of in zip(runs, shares, strict=True)]
    if len(runs) == 1:
        at = kept(runs[0].course)
        x: list[Any] | NDArray[Any] = runs[0].course.number[at]
        columns, head, rows = shares[0][at], "Round", [str(number) for number in runs[0].course.number[at]]
        axis = {"title": {"text": "Round"}, "tickformat": "d", **({"dtick": 1} if len(at) <= _MOST_CELLS else {})}
    else:
        x = [plain(run.label) for run in runs]
        columns, head, rows = _aligned(runs, shares), "Run", [run.label for run in runs]
        axis = {"type": "category"}
    classes = list(dict.fromkeys(name for run in runs for name in run.classes))
    area = len(rows) > _MOST_BARS
    traces = []
    for place, name in enumerate(classes):
        # Classes are no silos: they begin at another color.
        color = COLORS[(place + 4) % len(COLORS)]
        look: dict[str, Any] = (
            {"type": "scatter", "mode": "none", "stackgroup": "classes", "fillcolor": color}
            if area
            else {"type": "bar", "marker": {"color": color, "opacity": 0.8, "line": {"width": 0}}}
        )
        shown = numbers(x) if isinstance(x, np.ndarray) else x
        y = numbers(columns[:, place])
        traces.append({**look, "name": plain(name), "x": shown, "y": y, "hovertemplate": "%{y:.1%}"})
    return Figure(
        "classes",
        "Class balance of the pseudo-labels",
        f"Pseudo-labels after the last round: {'; '.join(words)}.",
        traces,
        layout(
            x=axis, y={"tickformat": ".0%", "range": [0, 1], "title": {"text": "Share"}}, barmode="stack", bargap=0.25
        ),
        Table([head, *classes], [[row, *map(share, of)] for row, of in zip(rows, columns, strict=True)]),
        "Of all public examples that have a label.",
    )


def _most(run: Run, shares: NDArray[np.float64], *, named: bool) -> str:
    """The classes with the largest shares after the last round, five at most."""
    order = np.argsort(-shares[-1], kind="stable")[:5]
    said = ", ".join(f"{run.classes[place]} {share(float(shares[-1, place]))}" for place in order)
    return f"{run.label}: {said}" if named else said


def _aligned(runs: Sequence[Run], shares: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """The last round's shares ``(runs, classes)``, of runs that may have different classes."""
    classes = list(dict.fromkeys(name for run in runs for name in run.classes))
    found = np.zeros((len(runs), len(classes)))
    for row, (run, of) in enumerate(zip(runs, shares, strict=True)):
        for column, name in enumerate(run.classes):
            found[row, classes.index(name)] = of[-1, column]
    return found


def traffic(runs: Sequence[Run]) -> Section:
    """Bytes per silo and round, beside what FedAvg would have sent where that is known."""
    told = [run for run in runs if len(run.course)]
    levels = [("FedAvg, the same network", float(run.network_bytes)) for run in told[:1] if run.network_bytes]
    figure = over_rounds.figure(
        "bytes",
        "What each silo sent",
        _said(runs, told, _bytes_words, "bytes that a silo sent a round", _mean_bytes),
        runs,
        lambda course: course.of_silos("bytes_sent"),
        _BYTES,
        levels=levels,
        y=_LOG if _differ(told) else {},
        note="Payloads, without Flower's envelope and TLS.",
    )
    notes = []
    for run in told:
        if run.network_bytes:
            sent = np.nanmean(run.course.of_silos("bytes_sent"))
            notes.append(
                f"FedAvg{' with the network of ' + run.label if len(runs) > 1 else ''} would have sent "
                f"{size(run.network_bytes)} per silo and round, {run.network_bytes / sent:,.1f} times as much: the "
                "weights of the silos' own network, as Flower packs them, from the model files of this run."
            )
    unknown = [run.label for run in told if run.course.shares_labels and not run.network_bytes]
    if unknown:
        of = f" beside {', '.join(unknown)}" if len(runs) > 1 else ""
        notes.append(
            f"What FedAvg would have sent{of} is not known: that takes a network, the same at all silos, in the model "
            "files that a simulation keeps."
        )
    return Section("traffic", "What travelled", [figure] if figure else [], notes=notes)


def _bytes_words(course: Course) -> str:
    sent = course.of_silos("bytes_sent")
    total = np.nansum(sent, axis=0).mean()
    down = size(float(np.nanmean(course.of_run("instruction_bytes"))))
    return f"a silo sent {size(float(np.nanmean(sent)))} a round, {size(total)} in all, and was sent {down} a round"


def _mean_bytes(course: Course) -> str:
    return f"{np.nanmean(course.of_silos('bytes_sent')):,.0f}"


def _differ(runs: Sequence[Run]) -> bool:
    means = [float(np.nanmean(run.course.of_silos("bytes_sent"))) for run in runs]
    means += [float(run.network_bytes) for run in runs[:1] if run.network_bytes]
    return bool(means) and max(means) > _LONG_TAIL * min(means)


def privacy(runs: Sequence[Run]) -> Section:
    """Epsilon spent, by whatever keeps the books."""
    notes, rows = [], []
    for run in runs:
        whose = f"{run.label}: " if len(runs) > 1 else ""
        if run.spending is None:
            notes.append(f"{whose}What was spent is said when the run has ended.")
            continue
        notes.append(f"{whose}{run.spending.note}")
        for row in run.spending.rows:
            budget = UNKNOWN if row.budget is None else f"{row.budget:.4g}"
            cells = [row.whom, row.unit, row.source, f"{row.epsilon:.4g}", budget, f"{row.delta:g}"]
            rows.append([run.label, *cells] if len(runs) > 1 else cells)
    columns = ["Silo", "Protects each", "Accountant", "Epsilon spent", "Budget", "Delta"]
    columns = ["Run", *columns] if len(runs) > 1 else columns
    tables = [("Epsilon spent", Table(columns, rows, words=len(columns) - 3))] if rows else []
    return Section("privacy", "Privacy", tables=tables, notes=notes)


def trust(runs: Sequence[Run]) -> Section:
    """The last trust matrix of each run that has one."""
    figures = [_heatmap(run, run.trust, place, len(runs)) for place, run in enumerate(runs) if run.trust]
    return Section("trust", "Trust", figures)


def _heatmap(run: Run, found: Trust, place: int, num_runs: int) -> Figure:
    few = len(found.silos) <= _MOST_CELLS
    names = [plain(silo) for silo in found.silos]
    others = found.matrix - np.diag(np.diag(found.matrix))
    trusted = others.sum(axis=0) / max(len(found.silos) - 1, 1)
    most, least = found.silos[int(trusted.argmax())], found.silos[int(trusted.argmin())]
    cells = {"texttemplate": "%{z:.2f}"} if few else {}
    if few:
        table = Table(
            ["Silo trusts", *found.silos],
            [[s, *(f"{v:.3f}" for v in row)] for s, row in zip(found.silos, found.matrix, strict=True)],
        )
    else:
        rows = [
            [s, f"{own:.3f}", f"{by:.4f}"]
            for s, own, by in zip(found.silos, np.diag(found.matrix), trusted, strict=True)
        ]
        table = Table(["Silo", "trusts itself", "trusted by others, mean"], rows)
    whose = f" ({run.label})" if num_runs > 1 else ""
    side = {"showticklabels": few, "ticks": "", "showgrid": False, "type": "category", "rangemode": "normal"}
    return Figure(
        f"trust-{place}",
        f"Whom each silo trusts{whose}",
        f"After round {found.round}, {most} is trusted most by the others and {least} least.",
        [
            {
                "type": "heatmap", "x": names, "y": names, "z": numbers(found.matrix), "xgap": 2 if few else 0,
                "ygap": 2 if few else 0, "colorscale": [[0, "rgba(47,127,219,0.06)"], [1, "#2f7fdb"]],
                "colorbar": {"thickness": 12, "outlinewidth": 0}, **cells,
                "hovertemplate": "%{y} trusts %{x}: %{z:.3f}<extra></extra>",
            }
        ],
        layout(
            x={**side, "title": {"text": "… this silo"}},
            y={**side, "title": {"text": "How much does …"}, "autorange": "reversed"},
            hovermode="closest",
        ),
        table,
        "Rows sum to 1.",
        height=int(np.clip(120 + 34 * len(names), 260, 620)),
    )  # fmt: skip


def silos(runs: Sequence[Run]) -> Section:
    """Delays, failures, and what the consensus thinks of silos."""
    started = [run for run in runs if len(run.course)]
    figure = over_rounds.figure(
        "delays",
        "Seconds until a silo's reply",
        _said(runs, started, _delay_words, "half of the replies took at most", _median_delay),
        runs,
        lambda course: course.of_silos("seconds"),
        _SECONDS,
        y=_LOG if any(_long_tail(run.course) for run in started) else {},
    )
    tables = []
    for run in started:
        whose = f" ({run.label})" if len(runs) > 1 else ""
        if run.course.absences:
            tables.append((f"Silos that did not count{whose}", _absences(run.course)))
        if run.course.quality:
            tables.append((f"What the consensus thinks of each silo{whose}", _quality(run.course)))
    whole = [run.label for run in started if not run.course.absences]
    of = f" in {', '.join(whole)}" if len(runs) > 1 else ""
    notes = [f"No failures{of}: every silo counted in every round."] if whole else []
    return Section("silos", "Silos", [figure] if figure else [], tables, notes)


def _long_tail(course: Course) -> bool:
    seconds = course.of_silos("seconds")
    seconds = seconds[np.isfinite(seconds) & (seconds > 0)]
    return bool(seconds.size and seconds.max() > _LONG_TAIL * np.median(seconds))


def _delay_words(course: Course) -> str:
    seconds = course.of_silos("seconds")
    if not np.isfinite(seconds).any():
        return "no silo has replied"
    row, column = np.unravel_index(int(np.nanargmax(seconds)), seconds.shape)
    return (
        f"half of the replies took at most {duration(float(np.nanmedian(seconds)))}; the slowest was "
        f"{course.silos[column]}'s in round {course.number[row]}, with {duration(float(seconds[row, column]))}"
    )


def _median_delay(course: Course) -> str:
    seconds = course.of_silos("seconds")
    return duration(float(np.nanmedian(seconds)) if np.isfinite(seconds).any() else np.nan)


def _absences(course: Course) -> Table:
    rounds = defaultdict(list)
    for absence in course.absences:
        rounds[absence.silo, absence.reason].append(absence.round)
    rows = [[silo, reason, spans(found), str(len(found))] for (silo, reason), found in sorted(rounds.items())]
    return Table(["Silo", "Why", "In rounds", "How often"], rows, words=3)


def _quality(course: Course) -> Table:
    names = list(dict.fromkeys(name for told in course.quality.values() for name in told))
    rows = [
        [silo, *(f"{told.get(name, np.nan):.3f}" for name in names)] for silo, told in sorted(course.quality.items())
    ]
    return Table(["Silo", *(name.replace("_", " ") for name in names)], rows)


def settings(runs: Sequence[Run]) -> Section:
    """The exact run config and versions; first what is not as by default, or what differs between the runs."""
    keys = list(dict.fromkeys(key for run in runs for key in run.settings))
    defaults = RunConfig.defaults()
    if len(runs) == 1:
        special = [key for key in keys if runs[0].settings[key] != defaults.get(key)]
        title, columns = "Settings that are not the default", ["Key", "Value"]
    else:
        special = [key for key in keys if len({str(run.settings.get(key)) for run in runs}) > 1]
        title, columns = "Settings that differ", ["Key", *(run.label for run in runs)]
    facts = [
        ["classes", *(", ".join(run.classes) for run in runs)],
        ["public examples", *(UNKNOWN if run.num_public is None else f"{run.num_public:,}" for run in runs)],
        ["public set, SHA-256", *(run.fingerprint or UNKNOWN for run in runs)],
        ["silos", *(count(len(run.course.silos), "silo") for run in runs)],
        ["run folder", *(str(run.path.resolve()) for run in runs)],
    ]
    packages = list(dict.fromkeys(name for run in runs for name in run.versions))
    versions = [[f"{name} (version)", *(run.versions.get(name, UNKNOWN) for run in runs)] for name in packages]
    every = [[key, *(_value(run, key) for run in runs)] for key in keys]
    tables = [
        (title, Table(columns, [[key, *(_value(run, key) for run in runs)] for key in special], words=len(columns))),
        ("Data and versions", Table(columns, facts + versions, words=len(columns))),
        ("All settings", Table(columns, every, words=len(columns))),
    ]
    return Section("settings", "Settings and versions", tables=tables)


def _value(run: Run, key: str) -> str:
    value = run.settings.get(key, UNKNOWN)
    return str(value).lower() if isinstance(value, bool) else str(value) if value != "" else "(empty)"
