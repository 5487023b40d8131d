"""``fedct silo opt-out``: which records are left out, and which answers had used them before."""

from typing import Annotated, Final

import typer

from fedct_flwr.cli.output import Output
from fedct_flwr.cli.silo.folder import Folder, silo_file
from fedct_flwr.config.silo import SiloConfig
from fedct_flwr.datasets.inspections import inspect_records
from fedct_flwr.datasets.silo_records import listed_here
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.approval import promises_of
from fedct_flwr.hospital.keys import load_egress_key
from fedct_flwr.hospital.log_entry import Event, LogEntry, read_entries
from fedct_flwr.hospital.opted_out import marks, since
from fedct_flwr.hospital.shared_usage import spent_on_records
from fedct_flwr.text.printable import count
from fedct_flwr.types import ConfigError

_LEAVES: Final = (Event.RELEASED, Event.ADDED)
_LEFT: Final = """\
These answers left earlier; the log does not say whose records there were then.
Cannot be taken back: what has left, and what other silos' models and the global model learned from it. A noisy \
labeler keeps its training and its paid answers, as others would spend more: it repeats them when asked again.
Until they are made again, models and answers in {} keep what they learned: take the files model-*, before-*, \
learner-* and run-* away while the agent stands still, and start a new run without --resume."""


def opt_out(
    folder: Folder = None,
    affected: Annotated[
        bool, typer.Option("--affected", help="Name the answers that left before these patients were left out.")
    ] = False,
) -> None:
    """Show how many records the opt-out list leaves out, to tens, and which answers it came too late for."""
    config, out = SiloConfig.read_toml(silo_file(folder)), Output()
    if config.data.opt_out is None:
        raise ConfigError("silo.toml names no opt-out list: write opt-out = 'ids.csv' under [records]")
    study, known = read_study(config.study), since(config.state)
    marked = marks(config, load_egress_key(config.egress_key))
    for found in inspect_records(config.data, study, config.silo).findings:
        if found.code == "opted-out":
            out.say(f"Records: {found.message}.")
    here = listed_here(config.data, study)
    lines = [known.get(mark) for mark, there in zip(marked, here, strict=True) if there]
    if strange := here.count(False):
        out.say(f"In no record here: {count(strange, 'id')} of the list, not counted below. Earlier files may have had "
                "them.")  # fmt: skip
    if waiting := lines.count(None):
        out.say(f"Not left out yet: {count(waiting, 'id')} of the list. Start the agent again, which reads it then.")
    if not affected:
        return
    runs = dict[tuple[str, int], list[LogEntry]]()
    late = dict[tuple[str, str], int]()
    for entry in read_entries(config.state):
        leaves = entry.event in _LEAVES and entry.bytes and not entry.reason
        # The same answer to the same question in a later run may be the kept one.
        if leaves and late.setdefault((entry.request, entry.payload), _too_late(entry, lines)):
            runs.setdefault((entry.study, entry.run), []).append(entry)
    for (name, run), left in runs.items():
        rounds = ", ".join(map(str, dict.fromkeys(entry.round for entry in left if entry.round)))
        most = max(late[entry.request, entry.payload] for entry in left)
        what = f"{count(len(left), 'message')} with {count(sum(entry.queries for entry in left), 'label')}"
        out.say(f"Study {name}, run {run}{f', rounds {rounds}' if rounds else ''}: {what} left from {left[0].time} to "
                f"{left[-1].time}, too late for {count(most, 'id')} of the list.")  # fmt: skip
    for promise in promises_of(config).values() if runs else ():
        spent = promise.spending(study.name)
        out.say(f"Epsilon spent on study {study.name}, for {promise.protects}: {spent.epsilon:.4g} of {spent.budget:g} "
                f"at delta {spent.delta:g}, at most for these patients.")  # fmt: skip
    if runs and config.records.folder:
        out.say(f"Over all studies of these records: {spent_on_records(config)}.")
    out.say(_LEFT.format(config.state) if runs else "No answer has left before these patients were left out.")


def _too_late(entry: LogEntry, lines: list[int | None]) -> int:
    """Of how many ids the records may be in an answer; those not left out yet have no line."""
    return sum(line is None or entry.number < line for line in lines)
