"""What silos sent, how long they took, when they failed, and what the consensus thinks of them."""

from collections import defaultdict
from collections.abc import Sequence
from typing import Final

import numpy as np

from fedct_flwr.report import over_rounds
from fedct_flwr.report.figure import Section, Table
from fedct_flwr.report.over_rounds import Scale
from fedct_flwr.report.round_log import Course
from fedct_flwr.report.summary import Run
from fedct_flwr.report.words import duration, mean_of_known, number, size, spans, total_of_each

_BYTES: Final = Scale("Bytes", "~s", "{:,.0f}")
_SECONDS: Final = Scale("Seconds", "~g", "{:.3g}")
_LONG_TAIL: Final = 20.0
"""Where one is so many times another, the axis is logarithmic."""
_LOG: Final = {"type": "log", "rangemode": "normal", "dtick": 1}


def traffic(runs: Sequence[Run]) -> Section:
    """Bytes per silo and round, beside what FedAvg would have sent where that is known."""
    told = [run for run in runs if len(run.course)]
    sizes = {float(run.network_bytes) for run in told if run.network_bytes}
    # Of different networks, no one line is beside all runs.
    levels = [("FedAvg, the same network", size) for size in sizes] if len(sizes) == 1 else []
    figure = over_rounds.figure(
        "bytes",
        "What each silo sent",
        over_rounds.said(runs, told, _bytes_words, "bytes that a silo sent a round", _mean_bytes),
        runs,
        lambda course: course.of_silos("bytes_sent"),
        _BYTES,
        levels=levels,
        y=_LOG if _differ(told, [value for _, value in levels]) else {},
        note="Payloads, without Flower's envelope and TLS.",
    )
    notes = []
    for run in told:
        if run.network_bytes:
            sent = mean_of_known(run.course.of_silos("bytes_sent"))
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
    total = total_of_each(sent)
    if np.isnan(total):
        return "no silo has sent anything"
    down = mean_of_known(course.of_run("instruction_bytes"))
    if len(course) == 1:
        return f"a silo sent {size(total)}{'' if np.isnan(down) else f', and was sent {size(down)}'}"
    received = "" if np.isnan(down) else f", and was sent {size(down)} a round"
    return f"a silo sent {size(mean_of_known(sent))} a round, {size(total)} in all{received}"


def _mean_bytes(course: Course) -> str:
    return number(mean_of_known(course.of_silos("bytes_sent")))


def _differ(runs: Sequence[Run], levels: Sequence[float]) -> bool:
    means = [*(mean_of_known(run.course.of_silos("bytes_sent")) for run in runs), *levels]
    means = [mean for mean in means if np.isfinite(mean)]
    return bool(means) and max(means) > _LONG_TAIL * min(means)


def silos(runs: Sequence[Run]) -> Section:
    """Delays, failures, and what the consensus thinks of silos."""
    started = [run for run in runs if len(run.course)]
    figure = over_rounds.figure(
        "delays",
        "Seconds until a silo's reply",
        over_rounds.said(runs, started, _delay_words, "half of the replies took at most", _median_delay),
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
        if (gains := run.gains.table) is not None:
            tables.append((f"What each silo makes of the consensus{whose}", gains))
        if run.course.quality and not (run.trust and run.trust.same):
            tables.append((f"What the consensus thinks of each silo{whose}", _quality(run)))
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


def _quality(run: Run) -> Table:
    course = run.course
    names = list(dict.fromkeys(name for told in course.quality.values() for name in told))
    rows = [
        [silo, *(f"{told.get(name, np.nan):.3f}" for name in names)]
        for silo, told in sorted(course.quality.items(), key=lambda item: course.silos.index(item[0]))
    ]
    # Where silos trust each other, one's trust is the sum of what all give to it.
    said = {"trust": "trust of all silos, 1 on average"} if run.trust else {}
    return Table(["Silo", *(said.get(name, name.replace("_", " ")) for name in names)], rows)
