"""``fedct silo released``: the labels that left, as a table."""

import csv
import io
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.cli.output import Output, echo
from fedct_flwr.cli.silo.folder import Folder, silo_file
from fedct_flwr.config import SiloConfig
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.egress_log import kept
from fedct_flwr.hospital.log_entry import Event, read_entries
from fedct_flwr.silo.site import terms_of
from fedct_flwr.types import Votes
from fedct_flwr.wire.codec import decode_instruction, decode_reply
from fedct_flwr.wire.content import Terms
from fedct_flwr.wire.refusal import Refusal


def released(folder: Folder = None) -> None:
    """Print the labels that left in this study as CSV: line of the log, run, round, example, label.

    A reply with counts or probabilities has a line for each example and class, with its number.
    """
    config = SiloConfig.read_toml(silo_file(folder))
    study = read_study(config.study)
    terms, out = terms_of(study), Output(to_stderr=True)
    table, missing = io.StringIO(), 0
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["line", "run", "round", "example", "label", "number"])
    for entry in read_entries(config.state):
        ours = (entry.study, entry.public) == (terms.study, terms.public_fingerprint.hex())
        if entry.event is not Event.RELEASED or not ours:
            continue
        found = kept(config.state, entry)
        if found is None:
            missing += 1
            continue
        instruction = decode_instruction(found[1], terms)
        outcome = decode_reply(found[0], terms, instruction).outcome
        if isinstance(outcome, Refusal):
            continue
        for example, label, number in _rows(instruction.query.positions(terms.num_public), outcome, terms):
            writer.writerow([entry.number, entry.run, entry.round, example, label, number])
    echo(table.getvalue(), data=True)
    if missing:
        out.warn(f"replies that an older version let out: {missing:,}; the log has their digests alone")


def _rows(query: NDArray[np.intp], votes: Votes, terms: Terms) -> Iterator[tuple[int, str, float | str]]:
    names = terms.classes or (terms.quantity,)
    if not votes.size:
        # The silo said that it was ready for a sum, whose numbers are masked.
        return
    if votes.ndim == 1 and terms.classes:
        for example, label in zip(query, votes, strict=True):
            yield int(example), names[label] if label >= 0 else "", ""
        return
    for example, row in zip(query, votes.reshape(len(votes), -1), strict=True):
        yield from ((int(example), name, number.item()) for name, number in zip(names, row, strict=True))
