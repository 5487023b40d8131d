"""``fedct silo approve``: what would leave, in plain words, and a question."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Annotated, Final

import numpy as np
import typer
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from fedct_flwr.cli import documents
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.cli.silo.folder import Folder, FolderOption, silo_file
from fedct_flwr.config import SiloConfig
from fedct_flwr.config.learner import AUTO
from fedct_flwr.datasets.public_set import Query
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.study_folder import STUDY_FILE, StudyFolder, read_records, read_study
from fedct_flwr.hospital import approval
from fedct_flwr.hospital.books import Left, Spent, left, spent
from fedct_flwr.hospital.duplicates import DuplicateReport, find_duplicates
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.keys import load_egress_key
from fedct_flwr.hospital.log_entry import LogEntry
from fedct_flwr.hospital.revocation import put_down
from fedct_flwr.kinds import kinds_let_out
from fedct_flwr.labelers.protect import check_installed
from fedct_flwr.learners.catalog import CLASSIFIERS
from fedct_flwr.privacy.leaving import Answers
from fedct_flwr.privacy.sheet import promise, spent_words, together_words
from fedct_flwr.silo.site import terms_of
from fedct_flwr.text.printable import listed, printable, quoted
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, ConfigError
from fedct_flwr.wire.codec import longest_reply
from fedct_flwr.wire.content import Soft

_DESPITE: Final = "despite duplicates"
_IN, _FURTHER = 2, 4
"""Columns that a line begins at, and where it goes on."""
_MOST_CLASSES: Final = 20
"""So many are named: with more, the page would push its own beginning off the screen."""


def approve(
    folder: Folder = None,
    folder_option: FolderOption = None,
    yes: Annotated[bool, typer.Option("--yes", help="Approve without being asked, for programs.")] = False,
    despite_duplicates: Annotated[
        bool,
        typer.Option("--despite-duplicates", help="Approve although records of the silo are in the public set."),
    ] = False,
    json_: Json = False,
) -> None:
    """Read in plain words what would leave this silo, and allow it. Nothing leaves before that.

    Exit code 1 and nothing written if it is declined.
    """
    config = SiloConfig.read_toml(silo_file(folder, folder_option))
    # What an import path leads to is found out by fedct silo check, which makes it.
    config.check_effects(network=False if config.learner.name in {AUTO, *CLASSIFIERS} else None)
    study = read_study(config.study)
    check_installed(config.privacy)
    out = Output(as_json=json_)
    console = out.console
    with out.doing("comparing the silo's records with the public set"):
        records = read_records(config.data, study)
        found = find_duplicates(records.X, study.public.X, study.schema)
    # Before anybody reads for long: is it a log that an approval can go into?
    with EgressLog.open(config.state, config.silo, load_egress_key(config.egress_key)) as log:
        put_down(log, config.state)
        public = study.public.fingerprint.hex()
        here = spent(entry for entry in log.entries() if (entry.study, entry.public) == (study.name, public))
        elsewhere = left(entry for entry in log.entries() if (entry.study, entry.public) != (study.name, public))
        if config.privacy.enabled:
            bare = approval.unprotected_labels(log.entries(), study.name)
            promised = _promised(config, study, len(records.y), bare)
        else:
            promised = _ended(log.entries())
        told = sections(config, study, here, elsewhere, found, promised)
        for title, lines in told.items():
            console.print(f"\n[bold]{title}[/]")
            for line in lines:
                _show(console, line)
        console.print()
        document: documents.Approval = {"approved": False, "duplicates_alarm": found.alarm, "sections": told}
        if not _agreed(found, yes=yes, despite_duplicates=despite_duplicates, err=json_):
            console.print("Not approved: nothing leaves.")
            out.show(document)
            raise typer.Exit(1)
        if config.privacy.enabled:
            from fedct_flwr.silo.release import approve_budget

            # First, as a budget that is in force lets nothing out that is not approved.
            approve_budget(config, study.name, approval.terms_digest(config, study))
        approval.approve(log, config, study, found)
    console.print("Approved, and written into the egress log.")
    console.print("Next: start the SuperNode and the agent (fedct silo connect, fedct silo start; or the containers)")
    out.show({**document, "approved": True})


def _show(console: Console, line: str) -> None:
    """One line, further in where it goes on: what a name pushes there does not look like a sentence of this page."""
    parts = Text(printable(line)).wrap(console, console.width - _FURTHER)
    for number, part in enumerate(parts):
        part.rstrip()
        console.print(Padding(part, (0, 0, 0, _FURTHER if number else _IN), expand=False))


def _agreed(found: DuplicateReport, *, yes: bool, despite_duplicates: bool, err: bool) -> bool:
    """Ask. An alarm is not passed by the way: who wants that types it out. Raises ConfigError for ``--yes`` alone."""
    if found.alarm and not despite_duplicates:
        if yes:
            raise ConfigError(
                "records of this silo seem to be in the public set, so labels on it tell about its patients: ask the "
                "coordinator where the public set comes from, or add --despite-duplicates to approve all the same"
            )
        question = f"To approve all the same, type '{_DESPITE}'"
        if typer.prompt(question, default="", show_default=False, err=err) != _DESPITE:
            return False
    return yes or typer.confirm("Approve this?", err=err)


def sections(
    config: SiloConfig,
    study: StudyFolder,
    here: Spent,
    elsewhere: Left,
    found: DuplicateReport,
    promised: list[str],
) -> dict[str, list[str]]:
    """All that is to be known before one approves: titles, and sentences below them.

    ``here`` is what left for this study and its public set, ``elsewhere`` what left for others; ``promised`` says what
    differential privacy promises, if it does.
    """
    policy, public, schema = config.policy, study.public, study.schema
    kinds = kinds_let_out(policy.kinds, terms_of(study))
    return {
        "The study": [
            f"{study.name}: silo {config.silo} trains {config.learner.name} to tell {len(schema.classes):,} "
            "classes apart",
            *_classes(schema.classes),
            _columns(schema) if schema.columns else f"Images of {_size(study)}",
            f"Public set: {len(public):,} examples without labels, which every silo and the coordinator have",
            f"Its SHA-256: {public.fingerprint.hex()}",
        ],
        "What leaves, to the coordinator": [
            f"The coordinator's address: {config.connection.superlink}",
            *(kind.leaves for kind in kinds),
            "Test scores: four numbers with each reply" if policy.metrics else "Test scores: none",
            f"At most {_longest(config, study):,} bytes in one reply, if all public examples are asked about",
            "Beside them: the silo's name, and if it refuses a question, the number of the reason",
        ],
        **({"What the labels may tell about a record": promised} if promised else {}),
        "Limits, in total for this study and public set": [
            f"Rounds: {policy.max_rounds:,}, of which {here.rounds:,} are used",
            f"Labels: {policy.max_queries:,}, of which {here.queries:,} are used",
            f"Bytes: {policy.max_bytes:,}, of which {here.bytes:,} are used",
            "A question counts as soon as it is let in, whether or not its answer leaves; refusals count in bytes",
            "A round is one of a run. Each new run asks anew, about the same examples too, until a limit is reached",
            *_elsewhere(elsewhere),
        ],
        **{title: [*lines] for kind in kinds for title, lines in kind.limits(policy).items()},
        "What does not leave": [
            "Records or columns of them, models, weights, gradients, texts of errors",
            "Every reply is written into the egress log before it leaves; code that the coordinator sends is never run",
        ],
        "Records of this silo in the public set": [found.sentence],
        "What you should know": [
            "Labels are not nothing: they follow from the model, and tell something about the records it learned from",
            "The coordinator says what the others' labels are; false ones make this silo's own model worse",
            "The model of before the study is kept: fedct silo predict --model before",
            *(kind.beware for kind in kinds if kind.beware),
            (
                "What is promised above is no more than it says: fedct privacy-sheet tells what is not covered"
                if config.privacy.enabled
                else "No differential privacy is guaranteed yet; the limits above are what keeps it little"
            ),
            "To withdraw the approval at any time: fedct silo revoke. What has left cannot be called back",
        ],
    }


def _classes(names: Sequence[str]) -> list[str]:
    """The classes as the coordinator calls them: quoted, cut and one a line, so that none passes for a sentence."""
    shown = [
        f"Class {number} of {len(names):,}: {quoted(name)}" for number, name in enumerate(names[:_MOST_CLASSES], 1)
    ]
    more = len(names) - len(shown)
    return [
        *shown,
        *([f"And {more:,} more classes, which stand in {STUDY_FILE} in the study's folder"] if more else []),
    ]


def _ended(entries: Iterable[LogEntry]) -> list[str]:
    """What to say where nothing is promised any more."""
    if not approval.was_protected(entries):
        return []
    return ["Warning: an earlier approval promised differential privacy; what leaves from now on is not covered by it"]


def _promised(config: SiloConfig, study: StudyFolder, num_records: int, bare: int) -> list[str]:
    """What is promised, what of it is spent, and what is wrong with it. Raises LedgerError.

    ``bare``: labels that have left without a protection.
    """
    from fedct_flwr.privacy.budget import budget_of
    from fedct_flwr.silo.release import account_of

    weakness = budget_of(config.privacy).weakness(num_records)
    found = account_of(config, study.name)
    now = []
    if (found.budget, found.delta) != (config.privacy.epsilon, config.privacy.delta):
        now = [
            f"Approved before was epsilon {found.budget:g} at delta {found.delta:g}; from now on it is "
            f"{config.privacy.epsilon:g} at {config.privacy.delta:g}"
        ]
    return [
        *promise(config.privacy, len(study.public), Answers.of(config)),
        spent_words(replace(found, budget=config.privacy.epsilon)),
        *together_words(found),
        *now,
        *([f"Warning: {bare:,} labels have left without protection; nothing here covers them"] if bare else []),
        *([f"Warning: {weakness}"] if weakness else []),
    ]


def _elsewhere(elsewhere: Left) -> list[str]:
    """What no limit of this study counts, though it tells of the same patients."""
    if not elsewhere.labels:
        return []
    return [f"Under other studies and public sets {elsewhere.labels:,} labels have left about these records"]


def _columns(schema: Schema) -> str:
    texts = [column.name for column in schema.columns if column.text]
    return f"Columns: {len(schema.columns)}" + (f", of which {listed(texts)} hold text" if texts else "")


def _size(study: StudyFolder) -> str:
    height, width = study.config.image_size or (0, 0)
    return f"{height} x {width} pixels, {study.config.image_mode}"


def _longest(config: SiloConfig, study: StudyFolder) -> int:
    """Bytes of the longest reply there can be: about the whole public set, in the last round."""
    terms, policy, size = terms_of(study), config.policy, len(study.public)
    students = config.transfer.most_students(noisy=config.privacy.enabled)
    nothing = np.full(size, ABSTAIN, dtype=LABEL_DTYPE)
    lengths = (
        longest_reply(question, config.silo, terms, scores=policy.metrics)
        for kind in kinds_let_out(policy.kinds, terms)
        if kind.can_answer(students, terms)
        for question in [kind.question(policy.max_rounds, Query(0, size), nothing, students, Soft())]
    )
    return max(lengths, default=0)
