"""The head of the page: a sentence, a few key figures, and a table with a row for each silo or each run."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedct_flwr.report.figures import UNKNOWN, Table, Values, either, formatted, mean, score, share, size
from fedct_flwr.report.summary import TESTS, Run
from fedct_flwr.runs.scores import METHODS
from fedct_flwr.text.plural import count

_STATUS = {"unfinished": "has not ended", "completed": "completed", "failed": "failed"}


@dataclass(frozen=True)
class Tile:
    """A key figure, its value, and a number to compare it with."""

    name: str
    value: str
    beside: str = ""


@dataclass(frozen=True)
class Glance:
    """The head of the page. ``status`` is empty for several runs."""

    title: str
    subtitle: str
    status: str
    status_words: str
    sentence: str
    tiles: Sequence[Tile] = ()
    table: Table | None = None
    table_title: str = ""
    problems: Sequence[str] = ()


def glance(runs: Sequence[Run]) -> Glance:
    """Of one run or several."""
    problems = []
    for run in runs:
        whose = f"{run.label}: " if len(runs) > 1 else ""
        if run.status == "failed":
            problems.append(f"{whose}the run failed{': ' + run.reason if run.reason else ''}")
        problems += [f"{whose}{warning}" for warning in run.gains.warnings]
        if not len(run.course):
            yet = " yet" if run.status == "unfinished" else ""
            problems.append(f"{whose}no round has ended{yet}, so there is nothing to draw")
    return _of_one(runs[0], problems) if len(runs) == 1 else _of_several(runs, problems)


def _of_one(run: Run, problems: Sequence[str]) -> Glance:
    silos = count(len(run.course.silos), "silo")
    public = "" if run.num_public is None else f" · {run.num_public:,} public examples"
    subtitle = f"{silos} · {_learners(run)}{public} · seed {run.settings.get('seed', '?')}"
    state = _STATUS[run.status]
    if run.status == "unfinished" and len(run.course):
        state = f"round {run.course.number[-1]} has ended"
    title = f"{run.study}: {run.title}"
    return Glance(
        title, subtitle, run.status, state, _sentence(run), _tiles(run), _silo_table(run), "Silos", problems
    )  # fmt: skip


def _learners(run: Run) -> str:
    """Of a class the last part of its import path; the settings have all."""
    if run.real:
        return "learners of the silos' own"
    names = str(run.settings.get("learner", "?")).split(",")
    last = [name.rpartition(".")[2] for name in names]
    return ", ".join(short if short[:1].isupper() else name.strip() for name, short in zip(names, last, strict=True))


def _sentence(run: Run) -> str:
    course = run.course
    if not len(course):
        return ""
    said = [f"{count(len(course.silos), 'silo')} trained together for {count(len(course), 'round')}"]
    if course.fixed_point:
        said[0] += f"; from round {course.fixed_point} on {run.kind.decided.still} changed"
    if run.leaves:
        said.append(f"All that left a silo are {run.leaves}")
    means = {method: run.mean_score("pooled", method) for method in METHODS}
    if np.isfinite(means["federated"]):
        whose = "silos' models have a mean" if course.shares_answers else "global model has a"
        words = {"local": "when each trains alone", "centralized": "with all data in one place"}
        others = [f"{score(means[name])} {text}" for name, text in words.items() if np.isfinite(means[name])]
        compared = f" ({'; '.join(others)})" if others else ""
        said.append(f"On the pooled test set the {whose} {run.measure} of {score(means['federated'])}{compared}")
    if run.global_scores:
        known = ", ".join(f"{score(value)} of the {name}" for name, value in run.global_scores.items())
        said.append(f"Balanced accuracy of global models on the pooled test set: {known}")
    said += [f"{sentence[0].upper()}{sentence[1:]}" for sentence in run.gains.sentences]
    return f"{'. '.join(said)}."


def _tiles(run: Run) -> list[Tile]:
    course = run.course
    if not len(course):
        return []
    most = 1 if run.one_shot else run.settings.get("num-server-rounds", UNKNOWN)
    ended = f"fixed point in round {course.fixed_point}" if course.fixed_point else f"of {most} at most"
    tiles = [Tile("Rounds", f"{len(course):,}", ended)]
    means = {method: run.mean_score("pooled", method) for method in METHODS}
    if np.isfinite(means["federated"]):
        others = {"alone": means["local"], "central": means["centralized"]}
        compared = ", ".join(f"{score(value)} {name}" for name, value in others.items() if np.isfinite(value))
        tiles.append(Tile(either([run.measure]), score(means["federated"]), compared))
    elif np.isfinite(last := course.of_run("balanced_accuracy")[-1]):
        tiles.append(Tile("Balanced accuracy", score(last), "global model, pooled test set"))
    for name, value in (run.global_scores or {}).items():
        tiles.append(Tile("Balanced accuracy", score(value), f"{name}, pooled test set"))
    near = {"agreement": ("Agreement", ".1%"), "distance": ("Off the consensus", ".4g")}
    for column, (title, form) in near.items():
        values = course.of_run(column)
        if np.isfinite(values).any():
            first = f"{formatted(values[0], form)} in round {course.number[0]}" if len(course) > 1 else ""
            tiles.append(Tile(title, formatted(values[-1], form), first))
    compared = "in all rounds, on average"
    if run.network_bytes:
        compared = f"FedAvg: {size(float(run.network_bytes) * len(course))}"
    tiles.append(Tile("Sent by a silo", size(_total(course.of_silos("bytes_sent"))), compared))
    if run.spending and run.spending.rows:
        row = max(run.spending.rows, key=lambda row: row.epsilon)
        tiles.append(Tile("Epsilon", f"{row.epsilon:.3g}", f"for each {row.protects}, delta {row.delta:g}"))
    expected = len(course) * len(course.silos)
    tiles.append(Tile("Failures", f"{len(course.absences):,}", f"of {expected:,} replies expected"))
    return tiles


def _silo_table(run: Run) -> Table:
    course = run.course
    scores = {row.silo: row for row in run.scores}
    titles = {"local": "alone", "federated": run.title, "centralized": "central"}
    known = [
        (test, method)
        for test in TESTS
        for method in METHODS
        if any(np.isfinite(getattr(row, test)[method]) for row in run.scores)
    ]
    near = run.kind.near
    # Silos that share weights agree with no label.
    after = [near.head] if course.shares_answers or not len(course) else []
    columns = ["Silo", *(titles[method] for _, method in known), *after, "bytes sent", "median delay", "rounds missed"]
    tests = [(test, sum(each == test for each, _ in known)) for test in TESTS]
    groups = [(f"{either([run.measure])}, {test} test set", width) for test, width in tests if width]
    missed = [absence.silo for absence in course.absences]
    agrees, sent, seconds = (course.of_silos(name) for name in (near.column, "bytes_sent", "seconds"))
    rows = []
    for n, silo in enumerate(course.silos):
        row = scores.get(silo)
        cells = [score(getattr(row, test)[method]) if row else UNKNOWN for test, method in known]
        last = [formatted(agrees[-1, n] if len(course) else np.nan, near.form)] if after else []
        rows.append(
            [silo, *cells, *last, f"{np.nansum(sent[:, n]):,.0f}", _delay(seconds[:, n]), str(missed.count(silo))]
        )
    foot = []
    if len(course):
        means = [score(run.mean_score(test, method)) for test, method in known]
        last = [formatted(mean(agrees[-1]), near.form)] if after else []
        foot = [["mean", *means, *last, formatted(_total(sent), ",.0f"), _delay(seconds), f"{len(missed):,}"]]
    return Table(columns, rows, foot=foot, groups=[("", 1), *groups, ("", len(after) + 3)] if groups else [])


def _total(sent: Values) -> float:
    """Of a column ``(rounds, silos)``, the sum of a silo, on average; NaN where nothing is known."""
    return float(np.nansum(sent, axis=0).mean()) if np.isfinite(sent).any() else float("nan")


def _delay(seconds: Values) -> str:
    """The median of the known delays."""
    known = seconds[np.isfinite(seconds)]
    if not known.size:
        return UNKNOWN
    middle = float(np.median(known))
    return f"{middle:.2f} s" if middle < 10 else f"{middle:,.0f} s"


def _of_several(runs: Sequence[Run], problems: Sequence[str]) -> Glance:
    columns = [
        "Run", "Algorithm", "Learner", "Status", "rounds", "fixed point", "alone", "co-trained",
        "central", "agreement", "bytes a silo", "failures",
    ]  # fmt: skip
    rows = []
    for run in runs:
        course = run.course
        agreement = float(course.of_run("agreement")[-1]) if len(course) else np.nan
        sent = _total(course.of_silos("bytes_sent")) if len(course) else np.nan
        rows.append(
            [
                *(run.label, run.algorithm, _learners(run), _STATUS[run.status], f"{len(course):,}"),
                str(course.fixed_point or UNKNOWN),
                *(score(run.pooled_score(method)) for method in METHODS),
                *(share(agreement), formatted(sent, ",.0f"), f"{len(course.absences):,}"),
            ]
        )
    measures = dict.fromkeys(run.measure for run in runs)
    best = max(runs, key=lambda run: np.nan_to_num(run.pooled_score("federated"), nan=-np.inf))
    found = best.pooled_score("federated")
    said = ""
    if np.isfinite(found) and len(measures) == 1:
        said = f"The best mean {best.measure} on the pooled test set is {score(found)}, in {best.label}."
        if any(run.one_shot for run in runs):
            said += " A one-shot run leaves no models at its silos: its score is that of its global model."
    return Glance(
        f"{', '.join(dict.fromkeys(run.study for run in runs))}: {len(runs)} runs",
        "One color for each run in all figures; lines are the mean of its silos, bands 8 of 10 of them.",
        "",
        "",
        said,
        (),
        Table(columns, rows, words=4, groups=[("", 6), (f"{either(measures)}, pooled test set", 3), ("", 3)]),
        "Runs",
        problems,
    )
