"""The section on time to an event: what became of each silo's test records, by the grade of risk predicted for them."""

from typing import Any, Final

from fedct_flwr.report.figures import COLORS, Figure, Section, Table, layout, numbers, plain, score
from fedct_flwr.report.summary import Run
from fedct_flwr.scoring.assessment import ByGrade

_MOST: Final = 8


def follow_up(run: Run) -> Section:
    """Kaplan and Meier's curves by predicted grade, one figure for each silo; empty for other outcomes."""
    columns = run.outcome.follow_up
    own = [(row.silo, row.tests["own"].models["federated"].grades) for row in run.scores if _graded(row)]
    if not columns or not own:
        return Section("follow-up", "Follow-up by predicted grade", [])
    note = [f"The first {_MOST} of {len(own)} silos are drawn."] if len(own) > _MOST else []
    figures = [_curves(place, silo, grades, columns.time) for place, (silo, grades) in enumerate(own[:_MOST])]
    return Section("follow-up", "Follow-up by predicted grade", figures, notes=note)


def _graded(row: Any) -> bool:
    return "own" in row.tests and bool(getattr(row.tests["own"].models.get("federated"), "grades", None))


def _curves(place: int, silo: str, grades: list[ByGrade], time: str) -> Figure:
    traces: list[dict[str, Any]] = [
        {
            "type": "scatter", "mode": "lines", "name": f"grade {one.grade}", "x": numbers(one.times),
            "y": numbers(one.share), "line": {"shape": "hv", "color": COLORS[number % len(COLORS)]},
            "hovertemplate": "%{x:.4g}: %{y:.2f}",
        }
        for number, one in enumerate(grades)
    ]  # fmt: skip
    rows = [[str(one.grade), f"{one.n:,}", f"{one.events:,}", score(one.share[-1])] for one in grades]
    return Figure(
        f"follow-up-{place}",
        f"Share without event at {plain(silo)}",
        "Test records of the silo, by the grade of risk that its co-trained model predicts (1 is the lowest).",
        traces,
        layout(
            x={"title": {"text": plain(time)}, "rangemode": "tozero"},
            y={"title": {"text": "share without event"}, "range": [0, 1.02], "rangemode": "normal"},
        ),
        Table(["Grade", "n", "events", "share at the end"], rows, words=1),
        "Kaplan and Meier's estimate. Curves of a model that ranks well lie in the order of the grades.",
    )
