"""Printed output of a run: each round as it ends, and the outcome."""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

from rich.console import Console, RenderableType
from rich.markup import escape
from rich.status import Status

from fedct_flwr.cli.output import Output
from fedct_flwr.config.run import STUDY, RunConfig
from fedct_flwr.coordinator.algorithm import find_algorithm
from fedct_flwr.datasets.inspection import Finding
from fedct_flwr.evaluation import scoreboard
from fedct_flwr.evaluation.scoreboard import distrusts
from fedct_flwr.report.summary import what_leaves
from fedct_flwr.runs.records import GLOBAL_MODEL, certificate, errors_of, grouped, scores_of_all
from fedct_flwr.runs.run_folder import Monitor, RunFolder
from fedct_flwr.runs.scores import TESTS, SiloScores, comparable, has_scores, means, notes, of_global_models
from fedct_flwr.text.printable import count, from_here


def finding_document(found: Finding) -> dict[str, Any]:
    """A finding of the inspection of tables for programs."""
    values = {name: getattr(found, name) for name in ("code", "severity", "column", "silo")}
    return {**values, "said": found.message, "fix": found.fix}


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
        most = f"{'at most ' * (len({*sent}) > 1)}{max(sent, default=0):,} bytes each"
        line += f"{count(len(sent), 'silo')} sent {most}" if sent else "no sum was opened"
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


def show_run(
    out: Output,
    folder: RunFolder,
    config: RunConfig,
    rows: Sequence[SiloScores],
    verdict: Mapping[str, Any],
    seconds: float,
    why: str,
    findings: Sequence[Finding] = (),
) -> None:
    """How a run ended: tables of its scores, what is to be said of them, and where the results are; or the document.

    ``findings`` are about the run's data; ``why`` says why a silo that ended the run has no scores, or nothing.
    """
    how, console = find_algorithm(config), out.console
    document = _document(folder, config, rows, seconds, verdict, findings)
    tables = [scoreboard.table(rows, config, folder)]
    if any(has_scores(rows, test, "auc") for test in TESTS):
        tables.append(scoreboard.table(rows, config, folder, "auc"))
    # Real silos have scores where they were asked for.
    scored = config.data != STUDY or config.report_scores
    shown: list[RenderableType] = ["", how.full_title, *tables] if scored else []
    out.show(document, *shown)
    for line in document["notes"]:
        out.warn(line)
    last = folder.rounds()[-1]["silos"]
    for row in rows if scored else ():
        if row.silo not in last:
            out.warn(f"{row.silo} had no part in the last round: no scores")
        elif why and not any(math.isfinite(row.value(test, "federated")) for test in TESTS):
            out.warn(f"no scores of {row.silo}: {why}")
    for line in filter(None, (verdict["after_first_round"], verdict["at_the_end"], *distrusts(verdict))):
        out.say(line)
    for line in verdict["warnings"]:
        out.warn(line)
    _print_end(console, config, folder, seconds)


def _document(
    folder: RunFolder,
    config: RunConfig,
    rows: Sequence[SiloScores],
    seconds: float,
    verdict: Mapping[str, Any],
    findings: Sequence[Finding],
) -> dict[str, Any]:
    """The run for programs, with the rows and their mean, and the ``findings`` about its data."""
    own, pooled = (len(comparable(rows, test)) for test in ("own", "pooled"))
    mean = {
        "own": means(rows, "own"),
        "pooled": means(rows, "pooled"),
        "bytes_sent": fmean(row.bytes_sent for row in rows),
        "silos": pooled or own,
        "own_silos": own,
    }
    return {
        "study": config.study,
        "algorithm": config.algorithm,
        "run_folder": str(folder.path),
        "seconds": seconds,
        "rounds": len(folder.rounds()),
        "fixed_point": folder.read_json("result.json").get("fixed_point"),
        "leaves": what_leaves(config, folder.outcome.quantity),
        "measure": folder.outcome.measure.name,
        "silos": rows,
        "mean": mean,
        "global_models": of_global_models(folder),
        "findings": [finding_document(found) for found in findings],
        "notes": notes(rows, folder.rounds()),
        "verdict": verdict,
    }


def _print_end(console: Console, config: RunConfig, folder: RunFolder, seconds: float) -> None:
    """Say how long it went, what left the silos, and where the results are."""
    rounds, result = folder.rounds(), folder.read_json("result.json")
    end = count(len(rounds), "round")
    if "fixed_point" in result and config.rounds > 1:
        fixed = result["fixed_point"]
        end = f"fixed point in round {fixed}" if fixed else f"no fixed point after {end}"
    if model := result.get(GLOBAL_MODEL):
        file = escape(str(from_here(folder.path / model["file"])))
        console.print(
            f"global model: {file}, trained on {count(model['labels'], 'public label')}; its card is next to it"
            + (f"; the most frequent class alone has {most:.3f}" if (most := model.get("most_frequent_class")) else ""),
            soft_wrap=True,
        )
    for sentence in filter(None, (certificate(result), scores_of_all(result))):
        console.print(sentence, soft_wrap=True, markup=False)
    left = what_leaves(config, folder.outcome.quantity)
    console.print(f"{end}, {seconds:.0f} s; all that left a silo are {left}", soft_wrap=True)
    console.print(f"run folder: {escape(str(from_here(folder.path)))}", soft_wrap=True)
