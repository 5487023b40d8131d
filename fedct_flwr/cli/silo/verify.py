"""``fedct silo verify``: proof of all that left, by the public key alone; ``released``: the labels as a table."""

import csv
import io
import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from numpy.typing import NDArray

from fedct_flwr.cli.output import Json, Output, echo
from fedct_flwr.cli.silo.folder import Folder, silo_file
from fedct_flwr.config.silo import SiloConfig, SiloFolder
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.egress_log import FOLDER, kept
from fedct_flwr.hospital.keys import load_public_key, public_key_path
from fedct_flwr.hospital.latest_state import lost_line
from fedct_flwr.hospital.log_entry import LOG_FILE, Event, LogVerdict, read_entries, spent, verify_log
from fedct_flwr.text.printable import count
from fedct_flwr.types import ConfigError, Refusal, RunError, Votes
from fedct_flwr.wire.codec import decode_instruction, decode_reply
from fedct_flwr.wire.content import Terms
from fedct_flwr.wire.sums import ADDED

_HASH: Final = re.compile(r"[0-9a-f]{64}")
_MASKED: Final = "its masked parts are logged, and not kept"


def verify(
    folder: Folder = None,
    key: Annotated[
        Path | None, typer.Option(help="The silo's public key, of which a copy lies elsewhere.", show_default="its own")
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="HASH", help="A line's hash that was written down earlier: it must still be there.")
    ] = "",
    json_: Json = False,
) -> None:
    """Prove that the log of all that left is as it was written, and say what has left.

    Exit code 4 and the first bad line if it is not, or if it lacks the line that was written down. The same code if a
    reply is missing of which the log has the digest.
    """
    since = since.strip().lower()
    if since and not _HASH.fullmatch(since):
        raise ConfigError(f"--since {since!r} is no hash of a line: give the 64 digits that were written down")
    config = SiloFolder.read_toml(silo_file(folder))
    public_key = load_public_key(key or public_key_path(config.egress_key))
    out, log = Output(as_json=json_), config.state / LOG_FILE
    with out.doing("proving line by line"):
        verdict = _verdict(config, public_key)
    lines = verdict.chain.number
    found = _line_with(since, log, lines) if since and verdict.intact else None
    # The agent may write meanwhile: only what was proven is added up.
    proven = [entry for entry in read_entries(config.state) if entry.number <= lines] if verdict.intact else []
    # Raises for a reply that was changed after it left.
    released = [entry for entry in proven if entry.event is Event.RELEASED]
    replies = [kept(config.state, entry) for entry in released]
    # Lines of earlier versions have no request, and their replies were not kept.
    missing = sum(reply is None and bool(entry.request) for reply, entry in zip(replies, released, strict=True))
    summed, bytes_ = [entry for entry in released if entry.kind in ADDED], spent(proven).bytes
    numbers = sum(entry.queries for entry in summed)
    labels = sum(entry.queries for entry in released) - numbers
    refused = sum(entry.event is Event.REFUSED for entry in proven)
    document = {
        "silo": config.silo,
        "intact": verdict.intact,
        "sentence": verdict.sentence,
        "lines": lines,
        "bad_line": verdict.bad_line,
        "last_hash": verdict.chain.last or None,
        "sent": {"messages": len(released), "labels": labels, "numbers": numbers, "bytes": bytes_},
        "missing": missing,
        "refused": refused,
        "since_line": found,
    }
    out.show(document)
    if not verdict.intact:
        raise _broken(verdict)
    if since and not found:
        raise RunError(
            f"the egress log has no line with the hash {since}: an older copy was put back, or a new log begun, and "
            "what left in between is not in it"
        )
    parts = {"labels": (len(released) - len(summed), labels), "numbers": (len(summed), numbers)}
    left = [(many, what, count(in_all, what[:-1])) for what, (many, in_all) in parts.items() if many]
    with_what = ""
    if isinstance(config, SiloConfig) and len(left) == len(parts):
        with_what = f", {' and '.join(f'{of} with {these}' for of, _, these in left)}"
    elif isinstance(config, SiloConfig):
        _, what, these = left[0] if left else (0, config.leaving, count(0, config.leaving[:-1]))
        with_what = f" with {what}, {these}"
    out.say(f"The egress log of {config.silo} is intact: {verdict.sentence}.")
    out.say(f"Left: {count(len(released), 'message')}{with_what}, {bytes_:,} bytes in all; refused: {refused:,}.")
    if replies:
        whole = sum(reply is not None for reply in replies)
        where = "'fedct silo released'" if isinstance(config, SiloConfig) else config.state / FOLDER
        out.say(f"Kept word for word, and as the log says: {whole:,} of {len(replies):,}; see {where}.")
    if summed:
        out.say(f"Of these, {count(len(summed), 'message')} said that an answer is ready for a sum: {_MASKED}.")
    if found:
        out.say(f"The line that was written down is there: line {found:,}.")
    if lines:
        out.say(f"Hash of its last line: {verdict.chain.last}")
        out.say("Write that down elsewhere: 'fedct silo verify --since HASH' proves later that nothing is gone.")
    if missing:
        raise _missing(config, missing)


def _verdict(config: SiloFolder, public_key: Ed25519PublicKey) -> LogVerdict:
    """The proof of the log, which has the line that is remembered next to the key, too."""
    verdict = verify_log(config.state, public_key, config.silo)
    if verdict.intact and (line := lost_line(config)):
        sentence = (
            f"line {line}: it is gone, which is remembered next to the egress key: mount {config.state}, or restore it"
        )
        return replace(verdict, intact=False, sentence=sentence, bad_line=line)
    return verdict


def _broken(verdict: LogVerdict) -> RunError:
    return RunError(f"the egress log is not intact{', ' if verdict.bad_line else ': '}{verdict.sentence}")


def _missing(config: SiloFolder, number: int) -> RunError:
    folder, what = config.state / FOLDER, count(number, "released message")
    return RunError(f"{folder} lacks {what} of which the log has the digest: restore the folder from a backup")


def _line_with(digest: str, path: Path, lines: int) -> int | None:
    """Which of the first ``lines`` lines, which are proven, has this hash (from 1); None if none has."""
    if not lines:
        return None
    with path.open("rb") as file:
        for number, line in zip(range(1, lines + 1), file, strict=False):
            if json.loads(line)["hash"] == digest:
                return number
    return None


def released(folder: Folder = None) -> None:
    """Print the labels that left in this study as CSV: line of the log, run, round, example, label.

    A reply with counts or probabilities has a line for each example and class, with its number. So has each test score
    that left, without an example; a part of a count of patients has its condition. Exit code 4 if the log is not
    intact, or if a reply is missing.
    """
    config = SiloConfig.read_toml(silo_file(folder))
    verdict = _verdict(config, load_public_key(public_key_path(config.egress_key)))
    if not verdict.intact:
        raise _broken(verdict)
    study = read_study(config.study)
    terms = study.terms
    table, missing, others, summed = io.StringIO(), 0, 0, 0
    writer = csv.writer(table, lineterminator="\n")
    writer.writerow(["line", "run", "round", "example", "label", "number"])
    for entry in read_entries(config.state):
        ours = (entry.study, entry.public) == (terms.study, terms.public_fingerprint.hex())
        if entry.event is not Event.RELEASED or entry.number > verdict.chain.number:
            continue
        if not ours:
            others += 1
            continue
        found = kept(config.state, entry)
        if found is None:
            missing += bool(entry.request)
            continue
        instruction = decode_instruction(found[1], terms)
        reply = decode_reply(found[0], terms, instruction)
        outcome = reply.outcome
        if isinstance(outcome, Refusal):
            continue
        for name, score in reply.scores._asdict().items() if reply.scores else ():
            writer.writerow([entry.number, entry.run, entry.round, "", f"test score {name}", score])
        if (asked := instruction.histograms) and asked.where:
            condition = f"{asked.where} by {asked.by}" if asked.by else asked.where
            writer.writerow([entry.number, entry.run, entry.round, "", condition, ""])
            continue
        summed += entry.kind in ADDED
        for example, label, number in _rows(instruction.query.positions(terms.num_public), outcome, terms):
            writer.writerow([entry.number, entry.run, entry.round, example, label, number])
    echo(table.getvalue(), data=True)
    if others:
        what = f"{count(others, 'message')} of another study or public set"
        Output(to_stderr=True).warn(f"not printed: {what}, which left too; see 'fedct silo verify'")
    if summed:
        Output(to_stderr=True).warn(f"not printed: {count(summed, 'message')} of an answer in a sum; {_MASKED}")
    if missing:
        raise _missing(config, missing)


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
