"""What is seen first: a sentence, a few key figures, and a table with a row for each silo or each run."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from fedct_flwr.report.figure import Table
from fedct_flwr.report.summary import TESTS, Run, Test
from fedct_flwr.report.words import UNKNOWN, duration, either, formatted, number, score, share, size, total_of_each
from fedct_flwr.runs.scores import METHODS
from fedct_flwr.text.plural import count

_STATUS = {"unfinished": "has not ended", "completed": "completed", "failed": "failed"}


@dataclass(frozen=True)
class Tile:
    """A key figure: what it is, its value, and what to compare it with."""

    name: str
    value: str
    beside: str = ""


@dataclass(frozen=True)
class Glance:
    """The head of the page."""

    title: str
    subtitle: str
    status: str
    """``unfinished``, ``completed``, ``failed``, or ``""`` for several runs."""
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
    title = f"{run.study}: {run.title}"
    subtitle = f"{silos} · {_learners(run)}{public} · seed {run.settings.get('seed', '?')}"
    state = _STATUS[run.status]
    if run.status == "unfinished" and len(run.course):
        state = f"round {run.course.number[-1]} has ended"
    return Glance(
        title, subtitle, run.status, state, _words(run), _tiles(run), _silo_table(run), "Silos", problems
    )  # fmt: skip


def _learners(run: Run) -> str:
    if run.real:
        return "learners of the silos' own"
    return ", ".join(map(_learner, str(run.settings.get("learner", "?")).split(",")))


def _learner(name: str) -> str:
    """Of a class the last part of its import path: the settings have all. A function's name alone says too little."""
    last = name.rpartition(".")[2]
    return last if last[:1].isupper() else name.strip()


def _words(run: Run) -> str:
    course = run.course
    if not len(course):
        return ""
    said = f"{count(len(course.silos), 'silo')} trained together for {count(len(course), 'round')}"
    if course.fixed_point:
        said += f"; from round {course.fixed_point} on {run.kind.decided.still} changed"
    said += f". All that left a silo are {run.leaves}" if run.leaves else ""
    mean = {method: run.mean_score("pooled", method) for method in METHODS}
    if np.isfinite(mean["federated"]):
        whose = "silos' models have a mean" if course.shares_answers else "global model has a"
        said += f". On the pooled test set the {whose} {run.measure} of {score(mean['federated'])}"
        beside = [
            f"{score(mean[method])} {words}"
            for method, words in {
                "local": "when each trains alone",
                "centralized": "with all data in one place",
            }.items()
            if np.isfinite(mean[method])
        ]
        said += f" ({'; '.join(beside)})" if beside else ""
    if run.global_scores:
        known = [f"{score(value)} of the {name}" for name, value in run.global_scores.items()]
        said += f". Balanced accuracy of global models on the pooled test set: {', '.join(known)}"
    said += "".join(f". {sentence[0].upper()}{sentence[1:]}" for sentence in run.gains.sentences)
    return f"{said}."


def _tiles(run: Run) -> list[Tile]:
    course = run.course
    if not len(course):
        return []
    most = 1 if run.one_shot else run.settings.get("num-server-rounds", UNKNOWN)
    ended = f"fixed point in round {course.fixed_point}" if course.fixed_point else f"of {most} at most"
    tiles = [Tile("Rounds", f"{len(course):,}", ended)]
    mean = {method: run.mean_score("pooled", method) for method in METHODS}
    if np.isfinite(mean["federated"]):
        others = {"alone": mean["local"], "central": mean["centralized"]}
        beside = ", ".join(f"{score(value)} {name}" for name, value in others.items() if np.isfinite(value))
        tiles.append(Tile(either([run.measure]), score(mean["federated"]), beside))
    elif np.isfinite(last := course.of_run("balanced_accuracy")[-1]):
        tiles.append(Tile("Balanced accuracy", score(last), "global model, pooled test set"))
    for name, value in (run.global_scores or {}).items():
        tiles.append(Tile("Balanced accuracy", score(value), f"{name}, pooled test set"))
    if course.shares_labels:
        agreement = course.of_run("agreement")
        beside = f"{share(agreement[0])} in round {course.number[0]}" if len(course) > 1 else "with the consensus"
        tiles.append(Tile("Agreement", share(agreement[-1]), beside))
    if course.shares_values:
        distance = course.of_run("distance")
        beside = f"{distance[0]:.4g} in round {course.number[0]}" if len(course) > 1 else "the silos' values"
        tiles.append(Tile("Off the consensus", f"{distance[-1]:.4g}", beside))
    total = total_of_each(course.of_silos("bytes_sent"))
    beside = "in all rounds, on average"
    if run.network_bytes:
        beside = f"FedAvg: {size(float(run.network_bytes) * len(course))}"
    tiles.append(Tile("Sent by a silo", size(total), beside))
    if run.spending and run.spending.rows:
        row = max(run.spending.rows, key=lambda row: row.epsilon)
        tiles.append(Tile("Epsilon", f"{row.epsilon:.3g}", f"for each {row.protects}, delta {row.delta:g}"))
    expected = len(course) * len(course.silos)
    missed = len(course.absences)
    tiles.append(Tile("Failures", f"{missed:,}", f"of {expected:,} replies expected"))
    return tiles


def _silo_table(run: Run) -> Table:
    course = run.course
    scores = {row.silo: row for row in run.scores}
    titles = {"local": "alone", "federated": run.title, "centralized": "central"}
    tests: list[tuple[Test, list[str]]] = []
    for test in TESTS:
        known = [m for m in METHODS if any(np.isfinite(getattr(row, test)[m]) for row in run.scores)]
        tests += [(test, known)] if known else []
    columns = ["Silo", *(titles[m] for _, known in tests for m in known)]
    groups = [(f"{either([run.measure])}, {test} test set", len(known)) for test, known in tests]
    of = run.kind.near
    # Who shares weights agrees with no label.
    agrees = course.shares_answers or not len(course)
    after = [of.head] if agrees else []
    after += ["bytes sent", "median delay", "rounds missed"]
    groups = [("", 1), *groups, ("", len(after))] if groups else []
    columns += after
    missed = dict.fromkeys(course.silos, 0)
    for absence in course.absences:
        missed[absence.silo] = missed.get(absence.silo, 0) + 1
    rows = []
    for place, silo in enumerate(course.silos):
        row = scores.get(silo)
        cells = [score(getattr(row, test)[m]) if row else UNKNOWN for test, known in tests for m in known]
        seconds = course.of_silos("seconds")[:, place]
        seconds = seconds[np.isfinite(seconds)]
        near = [formatted(course.of_silos(of.column)[-1, place] if len(course) else np.nan, of.form)] if agrees else []
        sent = float(np.nansum(course.of_silos("bytes_sent")[:, place]))
        delay = duration(float(np.median(seconds))) if seconds.size else UNKNOWN
        rows.append([silo, *cells, *near, f"{sent:,.0f}", delay, str(missed[silo])])
    foot = []
    if len(course):
        means = [score(run.mean_score(test, m)) for test, known in tests for m in known]
        sent = total_of_each(course.of_silos("bytes_sent"))
        near = [formatted(course.of_run(of.column)[-1], of.form)] if agrees else []
        every = course.of_silos("seconds")
        delay = duration(float(np.nanmedian(every))) if np.isfinite(every).any() else UNKNOWN
        foot = [["mean", *means, *near, number(sent), delay, f"{sum(missed.values()):,}"]]
    return Table(columns, rows, foot=foot, groups=groups)


def _of_several(runs: Sequence[Run], problems: Sequence[str]) -> Glance:
    studies = list(dict.fromkeys(run.study for run in runs))
    columns = [
        "Run", "Algorithm", "Learner", "Status", "rounds", "fixed point", "alone", "co-trained",
        "central", "agreement", "bytes a silo", "failures",
    ]  # fmt: skip
    rows = []
    for run in runs:
        course = run.course
        agreement = float(course.of_run("agreement")[-1]) if len(course) else np.nan
        sent = total_of_each(course.of_silos("bytes_sent")) if len(course) else np.nan
        rows.append(
            [
                run.label,
                run.algorithm,
                _learners(run),
                _STATUS[run.status],
                f"{len(course):,}",
                str(course.fixed_point or UNKNOWN),
                *(score(run.pooled_score(method)) for method in METHODS),
                share(agreement),
                number(sent),
                f"{len(course.absences):,}",
            ]
        )
    measures = dict.fromkeys(run.measure for run in runs)
    best = max(runs, key=lambda run: np.nan_to_num(run.pooled_score("federated"), nan=-np.inf))
    said = ""
    if np.isfinite(best.pooled_score("federated")) and len(measures) == 1:
        value = score(best.pooled_score("federated"))
        said = f"The best mean {best.measure} on the pooled test set is {value}, in {best.label}."
        if any(
            np.isnan(run.mean_score("pooled", "federated")) and np.isfinite(run.pooled_score("federated"))
            for run in runs
        ):
            said += " Of a run that leaves no models at its silos, it is that of its global model."
    return Glance(
        f"{', '.join(studies)}: {len(runs)} runs",
        "One color for each run in all figures; lines are the mean of its silos, bands 8 of 10 of them.",
        "",
        "",
        said,
        (),
        Table(columns, rows, words=4, groups=[("", 6), (f"{either(measures)}, pooled test set", 3), ("", 3)]),
        "Runs",
        problems,
    )
