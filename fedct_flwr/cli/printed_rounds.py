"""What a run prints: each round as it ends, and how it all ended."""

import contextlib
import re
from statistics import fmean

from rich.console import Console
from rich.markup import escape
from rich.status import Status

from fedct_flwr.algorithms.table import Algorithm, what_leaves
from fedct_flwr.cli.output import from_here
from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.global_model import FACT
from fedct_flwr.runs.run_folder import RUN_FAILED, RunFolder
from fedct_flwr.text.plural import count
from fedct_flwr.types import RunError


class PrintedRounds:
    """Prints each round as soon as the run folder has it."""

    def __init__(self, console: Console, folder: RunFolder, status: Status) -> None:
        self._console, self._folder, self._status = console, folder, status
        self._log = folder.round_log()
        self._seen = max((entry["round"] for entry in self._log.records()), default=0)
        # A round after the checkpoint is forgotten by who resumes the run, and comes anew.
        with contextlib.suppress(RunError):
            self._seen = min(self._seen, folder.load_checkpoint().round)
        # That of an earlier end, until the coordinator that resumes the run takes it away.
        self._old_end = folder.ended_at()

    @property
    def is_over(self) -> bool:
        """Whether the coordinator has said how the run ended."""
        return self._folder.ended_at() not in (None, self._old_end)

    def __call__(self) -> bool:
        """Print the rounds that are new; returns whether the run is over."""
        if not self._folder.exists():
            return False
        for entry in self._log.records():
            if entry["round"] <= self._seen:
                continue
            self._seen = entry["round"]
            sent = [silo["bytes_sent"] for silo in entry["silos"].values()]
            line = f"round {entry['round']:>2}   {count(len(sent), 'silo')} sent {fmean(sent):,.0f} bytes each"
            if "agreement" in entry:  # where silos share labels
                line += f", {entry['agreement']:.1%} agree, {count(entry['changed'], 'label')} changed"
            if "distance" in entry:  # where they share values
                line += f", which lie {entry['distance']:.4g} off the consensus"
            self._console.print(line)
            for silo, reason in entry["absent"].items():
                self._console.print(f"           [yellow]without {escape(silo)}: {escape(reason)}[/]")
        self._status.update(f"round {self._seen + 1}: silos are at work")
        return self.is_over


def reason(folder: RunFolder | None, log: str) -> str | None:
    """What the coordinator said last: in the run folder, or in the log if it could not or may not write there."""
    try:
        return str(folder.read_json("result.json")["reason"]) if folder else last_words(log)
    except (RunError, KeyError):
        return last_words(log)


def last_words(log: str) -> str | None:
    """Why a run failed, as the coordinator's log has it."""
    said = re.findall(rf"{RUN_FAILED}: (.+)", log)
    return said[-1] if said else None


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
            f"global model: {file}, trained on {count(model['labels'], 'public label')}; its card is beside it"
            + (f"; the most frequent class alone has {most:.3f}" if (most := model.get("most_frequent_class")) else ""),
            soft_wrap=True,
        )
    left = what_leaves(algorithm, folder.quantity)
    left += " and test scores, as report-scores asks" if config.report_scores else ""
    console.print(f"{end}, {seconds:.0f} s; all that left a silo are {left}", soft_wrap=True)
    console.print(f"run folder: {escape(str(from_here(folder.path)))}", soft_wrap=True)
