"""What a run prints: each round as it ends, and how it all ended."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from fedct_flwr.algorithms.table import what_leaves
from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.algorithm import Algorithm
from fedct_flwr.coordinator.global_model import FACT
from fedct_flwr.datasets.inspection.finding import Finding
from fedct_flwr.evaluation.scoreboard import of_global_models
from fedct_flwr.evaluation.who_gained import distrusts
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.runs.scores import TESTS, SiloScores, comparable, means, notes
from fedct_flwr.runs.silo_errors import errors_of, grouped
from fedct_flwr.simulation.monitor import Monitor
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import from_here, plain


def finding_document(found: Finding) -> dict[str, Any]:
    """A finding of the inspection of tables for programs."""
    return {name: getattr(found, name) for name in ("code", "severity", "column", "silo", "said", "fix")}


def run_document(
    folder: RunFolder,
    config: RunConfig,
    algorithm: Algorithm,
    rows: Sequence[SiloScores],
    seconds: float,
    verdict: dict[str, Any],
    findings: Sequence[Finding] = (),
) -> dict[str, Any]:
    """The run for programs, with the rows and their mean, and the ``findings`` about its data."""
    counted = {test: [row.silo for row in comparable(rows, test)] for test in ("own", "pooled")}
    mean: dict[str, Any] = plain(
        {
            "own": means(rows, "own"),
            "pooled": means(rows, "pooled"),
            "bytes_sent": fmean(row.bytes_sent for row in rows),
            "silos": len(counted["pooled"] or counted["own"]),
            "own_silos": len(counted["own"]),
        }
    )
    return {
        "study": config.study,
        "algorithm": config.algorithm,
        "run_folder": str(folder.path),
        "seconds": seconds,
        "rounds": len(folder.rounds()),
        "fixed_point": folder.read_json("result.json").get("fixed_point"),
        "leaves": what_leaves(config, folder.quantity),
        "measure": folder.outcome.measure.name,
        "silos": plain(list(rows)),
        "mean": mean,
        "global_models": of_global_models(folder),
        "findings": [finding_document(found) for found in findings],
        "notes": notes(rows, folder.rounds()),
        "verdict": verdict,
    }


class PrintedRounds(Monitor):
    """Prints each round as soon as the run folder has it."""

    def __init__(self, console: Console, folder: RunFolder, status: Status) -> None:
        super().__init__(folder, self._print)
        self._console, self._status = console, status

    def __call__(self) -> bool:
        """Print the rounds that are new; returns whether the run is over."""
        is_over = super().__call__()
        if self._folder.exists():
            self._status.update(f"round {self.seen + 1}: silos are at work")
        return is_over

    def _print(self, entry: Mapping[str, Any]) -> None:
        sent = [silo["bytes_sent"] for silo in entry["silos"].values()]
        line = f"round {entry['round']:>2}   "
        line += f"{count(len(sent), 'silo')} sent {fmean(sent):,.0f} bytes each" if sent else "no sum was opened"
        if "agreement" in entry:  # where silos share labels
            line += f", {entry['agreement']:.1%} agree, {count(entry['changed'], 'label')} changed"
        if "distance" in entry:  # where they share values
            line += f", which lie {entry['distance']:.4g} off the consensus"
        self._console.print(line)
        for silo, reason in entry["absent"].items():
            self._console.print(f"           [yellow]without {escape(silo)}: {escape(reason)}[/]")
        errors = errors_of(self._folder, entry["round"]) if entry["absent"] else {}
        for line in grouped({silo: text for silo, text in errors.items() if silo in entry["absent"]}):
            self._console.print(f"           [yellow]{escape(line)}[/]", soft_wrap=True)


def print_gaps(console: Console, folder: RunFolder, rows: Sequence[SiloScores], why: str) -> None:
    """Say why there is no score where there is none; ``why``: of a silo that ended the run, or nothing."""
    last = folder.rounds()[-1]["silos"]
    for row in rows:
        if row.silo not in last:
            console.print(f"[yellow]{escape(row.silo)} had no part in the last round: no scores[/]")
        elif why and not any(math.isfinite(row.value(test, "federated")) for test in TESTS):
            console.print(f"[yellow]no scores of {escape(row.silo)}: {escape(why)}[/]")


def print_verdict(console: Console, said: Mapping[str, Any]) -> None:
    """Say who has gained and who has lost, who does not trust the consensus, and what should worry."""
    for line in filter(None, (said["after_first_round"], said["at_the_end"])):
        console.print(escape(line), soft_wrap=True)
    for line in distrusts(said):
        console.print(escape(line), soft_wrap=True)
    for line in said["warnings"]:
        console.print(f"[yellow]{escape(line)}[/]", soft_wrap=True)


def print_end(console: Console, config: RunConfig, algorithm: Algorithm, folder: RunFolder, seconds: float) -> None:
    """Say how long it went, what left the silos, and where the results are."""
    rounds, result = folder.rounds(), folder.read_json("result.json")
    end = count(len(rounds), "round")
    if "fixed_point" in result and config.rounds > 1:
        fixed = result["fixed_point"]
        end = f"fixed point in round {fixed}" if fixed else f"no fixed point after {end}"
    if model := result.get(FACT):
        file = escape(str(from_here(folder.path / model["file"])))
        console.print(
            f"global model: {file}, trained on {count(model['labels'], 'public label')}; its card is next to it"
            + (f"; the most frequent class alone has {most:.3f}" if (most := model.get("most_frequent_class")) else ""),
            soft_wrap=True,
        )
    left = what_leaves(config, folder.quantity)
    console.print(f"{end}, {seconds:.0f} s; all that left a silo are {left}", soft_wrap=True)
    console.print(f"run folder: {escape(str(from_here(folder.path)))}", soft_wrap=True)
