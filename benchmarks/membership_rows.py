"""Membership inference in words and tables: one row for each method, seats side by side.

An attack that is the strongest on the records it was chosen on looks better than it is. So each seed's attack is the
one that works best on the other seeds, where there are some.
"""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Final, NamedTuple

from benchmarks import report
from benchmarks.federation import Runs
from fedct_flwr.audit.adversaries import COORDINATOR, MODEL
from fedct_flwr.audit.audit import Audit
from fedct_flwr.scoring.intervals import Z

AUC: Final = "auc"
ERROR: Final = "error"
_CLAIMED: Final = 0.53
_MORE: Final = "more than"
_LESS: Final = "less than"
_ALIKE: Final = "an amount that cannot be told from that of"
_HEADER: Final = (
    "method",
    "VUL, coordinator (95%)",
    "strongest attack",
    "right of 100",
    "VUL, final model",
    "epsilon proven (promised)",
    "paper's VUL",
)


class Measured(NamedTuple):
    """How a part was measured: seconds by the clock, and those that the processor spent."""

    command: str
    refits: int
    seeds: int
    candidates: int
    seconds: float
    processor_seconds: float
    commit: str


class Best(NamedTuple):
    """The mean over the seeds of the strongest attack, its standard error, and which attack that mostly was."""

    value: float
    error: float
    attack: str

    @property
    def low(self) -> float:
        """Of the 95% interval."""
        return max(0.0, self.value - Z * self.error)

    @property
    def high(self) -> float:
        """Of the 95% interval."""
        return min(1.0, self.value + Z * self.error)

    def __str__(self) -> str:
        return f"{self.value:.3f} ({self.low:.3f} to {self.high:.3f})"


def values_of(found: Audit) -> dict[str, float]:
    """All numbers of one seed's audit that the tables are made of."""
    values: dict[str, float] = {}
    for seat in found.seats:
        values[f"{seat.seat}: right"] = seat.right.value
        for name, area in seat.attacks.items():
            values[f"{seat.seat}: {name}: {AUC}"] = area.value
            values[f"{seat.seat}: {name}: {ERROR}"] = (area.high - area.low) / (2 * Z)
    if found.about.epsilon is not None and found.lower_epsilon is not None:
        values |= {"epsilon": found.about.epsilon, "lower_epsilon": found.lower_epsilon}
    return values


def best(runs: Runs, seat: str) -> Best | None:
    """The strongest attack of a seat; None for a seat that sees nothing."""
    marks = {key.split(": ")[1]: values for key, values in runs.values.items() if _is(key, seat, AUC)}
    if not marks:
        return None
    # A run that ended after one round shows no changes over rounds: an attack is for all seeds.
    seeds = max(map(len, marks.values()))
    chosen = _chosen({name: values for name, values in marks.items() if len(values) == seeds})
    value = fmean(runs.values[f"{seat}: {name}: {AUC}"][seed] for seed, name in enumerate(chosen))
    errors = [runs.values[f"{seat}: {name}: {ERROR}"][seed] for seed, name in enumerate(chosen)]
    error = math.sqrt(sum(one**2 for one in errors)) / len(errors)
    return Best(value, error, Counter(chosen).most_common(1)[0][0])


def _is(key: str, seat: str, of: str) -> bool:
    return key.startswith(f"{seat}: ") and key.endswith(f": {of}")


def _chosen(marks: Mapping[str, Sequence[float]]) -> list[str]:
    """For each seed the attack with the best mark on all others, or on itself where it is the only one."""
    seeds = len(next(iter(marks.values())))

    def elsewhere(name: str, seed: int) -> float:
        others = [mark for number, mark in enumerate(marks[name]) if number != seed or seeds == 1]
        return fmean(others)

    return [max(marks, key=lambda name: elsewhere(name, seed)) for seed in range(seeds)]


def row(method: str, runs: Runs, paper: float | None) -> list[str]:
    """A row of a part's table."""
    first = best(runs, COORDINATOR)
    proven = f"{runs.mean('lower_epsilon'):.2f} ({runs.mean('epsilon'):g})" if "epsilon" in runs.values else ""
    return [
        method,
        *((str(first), first.attack, f"{100 * runs.mean(f'{COORDINATOR}: right'):.0f}") if first else ("", "", "")),
        str(best(runs, MODEL) or ""),
        proven,
        "" if paper is None else f"{paper:.2f}",
    ]


def text_of(
    runs: Mapping[str, Runs],
    measured: Mapping[str, Measured],
    titles: Mapping[str, str],
    papers: Mapping[str, Mapping[str, float]],
) -> str:
    """All parts that were measured, a table each, and remarks."""
    parts = ["# Membership inference\n"]
    for name, about in measured.items():
        own = {key.removeprefix(f"{name}: "): found for key, found in runs.items() if key.startswith(f"{name}: ")}
        rows = [row(method, found, papers[name].get(method)) for method, found in own.items()]
        parts.append(f"## {titles[name]}\n\n{report.table(_HEADER, rows)}\n{_how(about)}\n")
    lines = [line for name in measured for line in _remarks(name, titles[name], runs)]
    return "\n".join(parts) + "\n## Remarks\n\n" + "\n".join(f"- {line}" for line in lines) + "\n"


def _how(about: Measured) -> str:
    seeds = "one seed" if about.seeds == 1 else f"{about.seeds} seeds"
    return (
        f"{about.refits} refits with {about.candidates} candidates, {seeds}; {about.processor_seconds:.0f} s of the "
        f"processor, {about.seconds:.0f} s by the clock, commit {about.commit}."
    )


def _remarks(name: str, title: str, runs: Mapping[str, Runs]) -> list[str]:
    """Where the paper's claim holds: hard labels leak least, VUL .51 to .53, against .71 to .76 for FedAvg."""

    def of(method: str) -> Best | None:
        found = runs.get(f"{name}: {method}")
        return best(found, COORDINATOR) if found else None

    hard = of("FedCT")
    if hard is None:
        return []
    lines = [
        f"{title}: the claim that hard labels have a VUL of .51 to .53 {_held(hard)} where candidates stand in the "
        f"public set ({hard.value:.3f})."
    ]
    others = {method: of(method) for method in ("FedAvg", "DD", "PredCons", "FedMD", "PATE", "FedKT")}
    for words in (_MORE, _LESS, _ALIKE):
        told = [f"{method} ({one.value:.3f})" for method, one in others.items() if one and _than(one, hard) == words]
        if told:
            names = " and ".join(filter(None, [", ".join(told[:-1]), told[-1]]))
            verb = "leaks" if len(told) == 1 else "leak"
            lines.append(f"{title}: {names} {verb} {words} FedCT ({hard.value:.3f}).")
    return lines


def _held(found: Best) -> str:
    if found.high <= _CLAIMED:
        return "holds"
    return "cannot be refuted" if found.low <= _CLAIMED else "does not hold"


def _than(other: Best, own: Best) -> str:
    """Whether two areas differ by more than chance."""
    if abs(other.value - own.value) <= Z * math.hypot(other.error, own.error):
        return _ALIKE
    return _MORE if other.value > own.value else _LESS
