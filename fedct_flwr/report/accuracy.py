"""How good models are, at the end and from round to round: alone, together, and with all data in one place."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.report import over_rounds
from fedct_flwr.report.figure import COLORS, DASHES, MUTED, Figure, Section, Table, layout, numbers, plain
from fedct_flwr.report.over_rounds import Scale
from fedct_flwr.report.round_log import Course
from fedct_flwr.report.summary import Run, Test
from fedct_flwr.report.words import UNKNOWN, either, score, sentence
from fedct_flwr.runs.scores import METHODS
from fedct_flwr.scoring import BALANCED_ACCURACY, R_SQUARED

_TESTS: Final[tuple[tuple[Test, str], ...]] = (
    ("own", "each silo's own test set"),
    ("pooled", "the pooled test set"),
)
_Values: TypeAlias = Mapping[str, Mapping[str, list[float]]]
"""Of each silo or run, by test set and method."""
_MEANING: Final = {
    BALANCED_ACCURACY.name: "Balanced accuracy: mean recall over the classes of the test set. ",
    R_SQUARED.name: "R²: share of the test set's variance that a model explains; below 0 it is worse than the mean. ",
}
_MOST_ROWS: Final = 16
_ROW: Final = 30
_MARGIN: Final = 0.03


def accuracy(runs: Sequence[Run]) -> Section:
    """Balanced accuracies, or R²: of the end, from the scoreboard; of each round, where replies carried test scores."""
    figures = [_final(runs)]
    for test, words in _TESTS:
        figures.append(_by_round(runs, test, words))
    found = [figure for figure in figures if figure]
    title = (
        "Accuracy"
        if any(run.measure == BALANCED_ACCURACY.name for run in runs)
        else either(run.measure for run in runs)
    )
    silent = all(not np.isfinite(_column(run.course, test)).any() for run in runs for test, _ in _TESTS)
    notes = []
    # Who asks once has no round to compare with.
    told = [run for run in runs if len(run.course) and not run.one_shot]
    if silent and any(run.course.shares_answers for run in told):
        notes.append(
            "How good models were from round to round is not known: silos report test scores only where "
            "report-scores is set, and a real silo only where its policy allows it."
        )
    elif silent and told:
        notes.append(
            "How good the global model was from round to round is not known: it is tested only where report-scores is "
            "set."
        )
    if not found and not notes:
        return Section("accuracy", title)
    return Section("accuracy", title, found, notes=notes)


def _column(course: Course, test: str) -> NDArray[np.float64]:
    """By silo ``(rounds, silos)``; the global model's ``(rounds,)`` where silos share weights."""
    of_silos = course.of_silos(f"{test}_{'r_squared' if course.shares_values else 'balanced_accuracy'}")
    if test == "pooled" and not np.isfinite(of_silos).any():
        return course.of_run("balanced_accuracy")
    return of_silos


def _by_round(runs: Sequence[Run], test: Test, words: str) -> Figure | None:
    known = [run for run in runs if np.isfinite(_column(run.course, test)).any()]
    if not known:
        return None
    levels = []
    if len(runs) == 1:
        names = {"local": "alone, mean", "centralized": "all data in one place, mean"}
        levels = [(names[m], value) for m in names if np.isfinite(value := runs[0].mean_score(test, m))]
    return over_rounds.figure(
        f"accuracy-{test}",
        f"Round by round, on {words}",
        _by_round_words(runs, known, test),
        runs,
        lambda course: _column(course, test),
        Scale(either(run.measure for run in known), ".3~f", "{:.3f}"),
        levels=levels,
        y={"rangemode": "normal"},
        note="Dashed: what the same learners reach without co-training." if levels else "",
    )


def _by_round_words(runs: Sequence[Run], known: Sequence[Run], test: str) -> str:
    said = []
    for run in known:
        column = _column(run.course, test)
        at = np.flatnonzero(np.isfinite(column).reshape(len(column), -1).any(axis=1))
        first, last = (float(np.nanmean(column[row])) for row in (at[0], at[-1]))
        if len(runs) > 1:
            said.append(f"{run.label} {score(last)}")
            continue
        whose = "the global model has" if column.ndim == 1 else "silos have a mean of"
        return sentence(
            f"{whose} {score(last)} in round {run.course.number[at[-1]]}, after {score(first)} in round "
            f"{run.course.number[at[0]]}"
        )
    return sentence(f"mean in the last round: {', '.join(said)}")


def _final(runs: Sequence[Run]) -> Figure | None:
    known = [run for run in runs if run.scores]
    if not known:
        return None
    single = len(runs) == 1
    values: _Values
    if single:
        run = known[0]
        names = [row.silo for row in run.scores]
        values = {test: {m: [getattr(row, test)[m] for row in run.scores] for m in METHODS} for test, _ in _TESTS}
        colors = [COLORS[run.course.silos.index(n) % len(COLORS) if n in run.course.silos else 0] for n in names]
    else:
        names = [run.label for run in known]
        values = {
            "own": {m: [run.mean_score("own", m) for run in known] for m in METHODS},
            "pooled": {m: [run.pooled_score(m) for run in known] for m in METHODS},
        }
        colors = [COLORS[runs.index(run) % len(COLORS)] for run in known]
    tests = [(test, words) for test, words in _TESTS if np.isfinite([*values[test].values()]).any()]
    if not tests:
        return None
    titles = {"local": "alone", "federated": runs[0].title if single else "co-trained", "centralized": "central"}
    # A run may go without baselines.
    shown = [m for m in METHODS if m == "federated" or any(np.isfinite(values[test][m]).any() for test, _ in tests)]
    columns = ["Silo" if single else "Run", *(f"{test}: {titles[m]}" for test, _ in tests for m in shown)]
    rows = [[n, *(score(values[t][m][i]) for t, _ in tests for m in shown)] for i, n in enumerate(names)]
    foot = [["mean", *(score(run.mean_score(t, m)) for t, _ in tests for m in shown)]] if single else []
    levels = dict(known[0].global_scores or {}) if single and tests[-1][0] == "pooled" else {}
    for name, value in levels.items():
        place = columns.index(f"pooled: {titles['federated']}")
        foot.append([name, *(score(value) if n == place else UNKNOWN for n in range(1, len(columns)))])
    many = len(names) > _MOST_ROWS
    traces = _dots(names, values, tests, titles, colors, many=many)
    leads = any("lines" in trace["mode"] and len(trace["x"]) for trace in traces)
    traces += _levels(levels, [plain(name) for name in names], len(tests), many=many)
    return Figure(
        "accuracy-final",
        "At the end",
        _final_words(known, tests, titles, levels),
        traces,
        _final_layout(values, tests, [plain(name) for name in names], levels.values(), many=many),
        Table(columns, rows, foot=foot),
        "".join(dict.fromkeys(_MEANING[run.measure] for run in known))
        + ("Silos are in the order of their scores." if many else "Lines lead from alone to co-trained." * leads),
        height=380 if many else 110 + _ROW * len(names),
    )  # fmt: skip


def _final_words(
    runs: Sequence[Run], tests: Sequence[tuple[Test, str]], titles: Mapping[str, str], levels: Mapping[str, float]
) -> str:
    said = []
    for test, words in tests:
        if len(runs) > 1:
            means = {
                run.label: run.pooled_score("federated") if test == "pooled" else run.mean_score(test, "federated")
                for run in runs
            }
        else:
            means = {titles[method]: runs[0].mean_score(test, method) for method in METHODS}
        known = [f"{name} {score(mean)}" for name, mean in means.items() if np.isfinite(mean)]
        said += [f"mean over silos on {words}: {', '.join(known)}"] if known else []
    if levels:
        said.append(f"dashed, of no silo: {', '.join(f'{name} {score(value)}' for name, value in levels.items())}")
    return sentence("; ".join(said))


def _dots(
    names: Sequence[str],
    values: _Values,
    tests: Sequence[tuple[str, str]],
    titles: dict[str, str],
    colors: Sequence[str],
    *,
    many: bool,
) -> list[dict[str, Any]]:
    looks: dict[str, dict[str, Any]] = {
        "local": {"symbol": "circle-open", "color": MUTED, "size": 10, "line": {"width": 2}},
        "centralized": {"symbol": "diamond-tall", "color": MUTED, "size": 11},
        "federated": {"symbol": "circle", "color": list(colors), "size": 12},
    }
    if many:
        looks = {name: look | {"size": 6, "line": {"width": int(name == "local")}} for name, look in looks.items()}
        looks["federated"]["color"] = COLORS[0]
    traces: list[dict[str, Any]] = []
    for place, (test, _) in enumerate(tests):
        axes = {"xaxis": f"x{place + 1 if place else ''}", "yaxis": f"y{place + 1 if place else ''}"}
        order = np.argsort(np.nan_to_num(values[test]["federated"], nan=-np.inf)) if many else np.arange(len(names))
        labels = [plain(names[i]) for i in order]
        if not many:
            traces.append(_bars(values[test], labels, axes))
        for method, look in looks.items():
            found = np.array(values[test][method])[order]
            if np.isfinite(found).any():
                shown = {"x": list(range(1, len(order) + 1)), "y": numbers(found), "customdata": labels}
                lying = {"x": numbers(found), "y": labels, "customdata": labels}
                traces.append(
                    {
                        "type": "scatter",
                        "mode": "markers",
                        "name": plain(titles[method]),
                        "legendgroup": method,
                        "showlegend": place == 0,
                        "marker": look,
                        "hovertemplate": f"%{{customdata}}: %{{{'y' if many else 'x'}:.3f}}",
                        **(shown if many else lying),
                        **axes,
                    }
                )
    return traces


def _bars(values: Mapping[str, list[float]], labels: Sequence[str], axes: dict[str, str]) -> dict[str, Any]:
    """From alone to co-trained: one trace, interrupted between rows."""
    x: list[float | None] = []
    y: list[str | None] = []
    for name, alone, together in zip(labels, values["local"], values["federated"], strict=True):
        if np.isfinite([alone, together]).all() and alone != together:
            x += [alone, together, None]
            y += [name, name, None]
    return {
        "type": "scatter", "mode": "lines", "x": x, "y": y, "line": {"color": MUTED, "width": 2},
        "hoverinfo": "skip", "showlegend": False, "opacity": 0.6, **axes,
    }  # fmt: skip


def _levels(levels: Mapping[str, float], labels: Sequence[str], num_tests: int, *, many: bool) -> list[dict[str, Any]]:
    """A dashed line through the rows of the pooled test set, which is the last, for each model that is no silo's."""
    axes = {"xaxis": f"x{num_tests if num_tests > 1 else ''}", "yaxis": f"y{num_tests if num_tests > 1 else ''}"}
    ends = [1, len(labels)] if many else [labels[0], labels[-1]]
    return [
        {
            "type": "scatter", "mode": "lines", "name": plain(name), **axes,
            **({"x": ends, "y": [value, value]} if many else {"x": [value, value], "y": ends}),
            "line": {"color": MUTED, "width": 1.5, "dash": DASHES[1 + place % (len(DASHES) - 1)]},
            "hovertemplate": f"{plain(name)}: %{{{'y' if many else 'x'}:.3f}}<extra></extra>",
        }
        for place, (name, value) in enumerate(levels.items())
    ]  # fmt: skip


def _final_layout(
    values: _Values,
    tests: Sequence[tuple[str, str]],
    labels: Sequence[str],
    levels: Iterable[float],
    *,
    many: bool,
) -> dict[str, Any]:
    known = np.array([*levels, *(v for test, _ in tests for method in METHODS for v in values[test][method])])
    span = [float(np.nanmin(known)) - _MARGIN, min(1.0, float(np.nanmax(known))) + _MARGIN]
    score_axis = {"range": span, "tickformat": ".2f", "rangemode": "normal"}
    found: dict[str, Any] = layout(x={}, y={}, hovermode="closest")
    for place, (test, _) in enumerate(tests):
        suffix = place + 1 if place else ""
        width = 1 / len(tests)
        domain = [place * width + (0.03 if place else 0), (place + 1) * width - (0.03 if place < len(tests) - 1 else 0)]
        title = {"text": f"{test.capitalize()} test set"}
        x: dict[str, Any]
        y: dict[str, Any]
        if many:
            x = {"title": title, "showticklabels": False, "zeroline": False}
            y = score_axis
        else:
            x = {**score_axis, "title": title}
            y = {"autorange": "reversed", "rangemode": "normal", "showticklabels": place == 0, "type": "category"}
            y |= {"categoryorder": "array", "categoryarray": list(labels)}
        found[f"xaxis{suffix}"] = {"domain": domain, "automargin": True, **x}
        found[f"yaxis{suffix}"] = {"anchor": f"x{suffix}", "automargin": True, **y}
        if place:
            found[f"xaxis{suffix}"]["anchor"] = f"y{suffix}"
    return found
