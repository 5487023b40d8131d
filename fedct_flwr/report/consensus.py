"""How the consensus came about: agreement, churn, abstentions and class balance, where silos share labels.

Where they share probabilities, it is told by the likeliest class of each example, and in these words. Where they share
values, it is told how far silos lie off it.
"""

from collections.abc import Sequence
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.kinds.words import LABELS, Decided
from fedct_flwr.report import over_rounds
from fedct_flwr.report.figure import COLORS, Figure, Section, Table, layout, numbers, plain
from fedct_flwr.report.over_rounds import Scale, kept
from fedct_flwr.report.round_log import Course
from fedct_flwr.report.summary import Run
from fedct_flwr.report.words import share

_SHARE: Final = Scale("Share", ".1~%", "{:.1%}")
_COUNT: Final = Scale("Public examples", ",d", "{:,.0f}")
_VALUE: Final = Scale("Units of what is predicted", "~g", "{:.4g}")
_MOST_BARS: Final = 30
_MOST_TICKS: Final = 12
_TINY: Final = 1e-12


def consensus(runs: Sequence[Run]) -> Section:
    """Agreement, label churn, abstentions and class balance where silos share labels; distances where values."""
    told = [run for run in runs if len(run.course) and run.course.shares_labels]
    of_values = _of_values(runs)
    if not told:
        return Section("consensus", "Consensus", of_values)
    words = dict.fromkeys(run.kind.decided for run in told)
    decided = LABELS if len(words) > 1 else next(iter(words))
    notes = [also.beside_others for also in words if also.beside_others and also is not decided]
    figures = [
        over_rounds.figure(
            "agreement", "Agreement with the consensus",
            over_rounds.said(
                runs, told, lambda course: _agreement_words(course, decided.ones),
                "agreement in the last round", lambda course: share(course.of_run("agreement")[-1]),
            ), runs,
            lambda course: course.of_silos("agreement"), _SHARE, fixed_points=True, y={"rangemode": "normal"},
            note=decided.agreement,
        ),
        over_rounds.figure(
            "churn", decided.title_of_churn,
            over_rounds.said(
                runs, [run for run in told if np.isfinite(run.course.of_run("churn")[-1])],
                lambda course: _churn_words(course, decided.ones),
                f"{decided.ones} that changed in the last round", lambda course: share(course.of_run("churn")[-1]),
            ), runs,
            lambda course: course.of_run("churn"), _SHARE, fixed_points=True,
            note=decided.churn,
        ),
    ]  # fmt: skip
    if any(np.nansum(run.course.of_run("abstained")) for run in told):
        figures.append(
            over_rounds.figure(
                "abstentions", "Abstentions",
                over_rounds.said(
                    runs, told, _abstention_words,
                    "examples without a label in the last round",
                    lambda course: f"{course.of_run('abstained')[-1]:,.0f}",
                ), runs,
                lambda course: course.of_run("abstained"), _COUNT,
                note="Examples asked about for which no label was decided upon.",
            )
        )  # fmt: skip
    elif any(words_of.may_abstain for words_of in words):
        notes.append("No abstentions: in every round, each example that was asked about got a label.")
    figures.append(_class_balance(runs, decided))
    return Section("consensus", "Consensus", [*(figure for figure in figures if figure), *of_values], notes=notes)


def _of_values(runs: Sequence[Run]) -> list[Figure]:
    told = [run for run in runs if len(run.course) and run.course.shares_values]
    figures = [
        over_rounds.figure(
            "distance", "How far silos lie off the consensus",
            over_rounds.said(
                runs, told, _distance_words,
                "distance in the last round", lambda course: _VALUE(course.of_run("distance")[-1]),
            ), runs,
            lambda course: course.of_silos("distance"), _VALUE, fixed_points=True,
            note="Root mean square over the examples asked about. Each silo learns a mean of its own.",
        ),
        over_rounds.figure(
            "moved", "How far the consensus moved",
            over_rounds.said(
                runs, [run for run in told if np.isfinite(run.course.of_run("moved")[-1])], _moved_words,
                "moved in the last round", lambda course: _VALUE(course.of_run("moved")[-1]),
            ), runs,
            lambda course: course.of_run("moved"), _VALUE, fixed_points=True,
            note="Root mean square over the examples asked about that had a value before.",
        ),
    ]  # fmt: skip
    return [figure for figure in figures if figure]


def _distance_words(course: Course) -> str:
    values = course.of_run("distance")
    first = f", after {_VALUE(values[0])} in round {course.number[0]}" if len(course) > 1 else ""
    return f"silos lie {_VALUE(values[-1])} off the consensus in round {course.number[-1]}{first}"


def _moved_words(course: Course) -> str:
    end = f"; fixed point since round {course.fixed_point}" if course.fixed_point else "; no fixed point"
    return f"values moved by {_VALUE(course.of_run('moved')[-1])} in round {course.number[-1]}{end}"


def _agreement_words(course: Course, ones: str) -> str:
    values = course.of_run("agreement")
    first = f", after {share(values[0])} in round {course.number[0]}" if len(course) > 1 else ""
    return f"silos agree on {share(values[-1])} of the {ones} in round {course.number[-1]}{first}"


def _churn_words(course: Course, ones: str) -> str:
    churn = course.of_run("churn")[-1]
    end = f"; fixed point since round {course.fixed_point}" if course.fixed_point else "; no fixed point"
    return f"{share(churn)} of the {ones} changed in round {course.number[-1]}{end}"


def _abstention_words(course: Course) -> str:
    values, queried = course.of_run("abstained"), course.of_run("queried")
    return f"{values[-1]:,.0f} of {queried[-1]:,.0f} examples got no label in round {course.number[-1]}"


def _class_balance(runs: Sequence[Run], decided: Decided) -> Figure | None:
    runs = [run for run in runs if np.nansum(run.course.classes)]
    if not runs:
        return None
    shares = [run.course.classes / np.maximum(run.course.classes.sum(axis=1, keepdims=True), _TINY) for run in runs]
    words = [_most(run, of, named=len(runs) > 1) for run, of in zip(runs, shares, strict=True)]
    if len(runs) == 1:
        at = kept(runs[0].course)
        x: list[Any] | NDArray[Any] = runs[0].course.number[at]
        columns, head, rows = shares[0][at], "Round", [str(number) for number in runs[0].course.number[at]]
        axis = {"title": {"text": "Round"}, "tickformat": "d", **({"dtick": 1} if len(at) <= _MOST_TICKS else {})}
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
        hatched = {"shape": "/" if place >= len(COLORS) else ""}
        look: dict[str, Any] = (
            {"type": "scatter", "mode": "none", "stackgroup": "classes", "fillcolor": color}
            if area
            else {"type": "bar", "marker": {"color": color, "opacity": 0.8, "line": {"width": 0}, "pattern": hatched}}
        )
        shown = numbers(x) if isinstance(x, np.ndarray) else x
        y = numbers(columns[:, place])
        traces.append({**look, "name": plain(name), "x": shown, "y": y, "hovertemplate": "%{y:.1%}"})
    return Figure(
        "classes",
        decided.title_of_balance,
        f"{decided.lead_of_balance} after the last round: {'; '.join(words)}.",
        traces,
        layout(
            x=axis, y={"tickformat": ".0%", "range": [0, 1], "title": {"text": "Share"}}, barmode="stack", bargap=0.25
        ),
        Table([head, *classes], [[row, *map(share, of)] for row, of in zip(rows, columns, strict=True)]),
        decided.balance,
    )


def _most(run: Run, shares: NDArray[np.float64], *, named: bool) -> str:
    """The classes with the largest shares after the last round, five at most."""
    order = [place for place in np.argsort(-shares[-1], kind="stable")[:5] if shares[-1, place] > 0]
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
