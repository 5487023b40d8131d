"""``fedct silo approve``: what would leave, in plain words, and a question."""

import getpass
import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Final

import numpy as np
import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from fedct_flwr.cli import documents
from fedct_flwr.cli.invitation import fingerprint_of
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.cli.silo.called import called_elsewhere
from fedct_flwr.cli.silo.folder import Folder, FolderOption, silo_file
from fedct_flwr.config import Policy, SiloConfig
from fedct_flwr.config.caps import Total, caps_of
from fedct_flwr.config.learner import AUTO
from fedct_flwr.datasets.public_set import Query
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.study_folder import STUDY_FILE, StudyFolder, read_records, read_study
from fedct_flwr.hospital import approval
from fedct_flwr.hospital.adding import check_sums
from fedct_flwr.hospital.books import Left, Spent, left, spent
from fedct_flwr.hospital.duplicates import DuplicateReport, find_duplicates
from fedct_flwr.hospital.egress_log import AtWorkError, EgressLog
from fedct_flwr.hospital.four_eyes import last_decision, sign
from fedct_flwr.hospital.keys import load_egress_key
from fedct_flwr.hospital.latest_state import open_log, remember
from fedct_flwr.hospital.log_entry import LogEntry, read_entries
from fedct_flwr.hospital.next_approval import leave, settle
from fedct_flwr.hospital.revocation import is_revoked
from fedct_flwr.hospital.shared_books import SharedBooks
from fedct_flwr.kinds import GRADIENTS, kinds_let_out
from fedct_flwr.labelers.protect import check_all_installed, check_extra
from fedct_flwr.learners.catalog import CLASSIFIERS
from fedct_flwr.privacy.leaving import Answers
from fedct_flwr.privacy.sheet import clock_words, promise, spent_words, together_words
from fedct_flwr.privacy.sheet_of_joint import promise_together
from fedct_flwr.privacy.spending import Spending
from fedct_flwr.secure_sum.terms import Terms as SumTerms
from fedct_flwr.silo.site import terms_of
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import listed, printable, quoted
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, ConfigError, RunError
from fedct_flwr.wire.codec import longest_reply
from fedct_flwr.wire.content import Soft

_DESPITE: Final = "despite duplicates"
_NO_LONGER: Final = "Warning: an earlier approval promised {}; what leaves from now on is not covered by it"
_LONGEST: Final = 1000
"""Characters of a name or a reason, which are part of a line of the log."""
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
    by: Annotated[str, typer.Option(help="Who approves, for the log.", show_default="who is logged in")] = "",
    reason: Annotated[str, typer.Option(help="Why it is approved, for the log; --yes needs it.")] = "",
    key: Annotated[
        Path | None, typer.Option(help="The approver's own key, where silo.toml has approvers (two have to sign).")
    ] = None,
    json_: Json = False,
) -> None:
    """Read in plain words what would leave this silo, and allow it. Nothing leaves before that.

    The log keeps who approved, and why. Where silo.toml names approvers, two of them have to approve, each with a key
    of their own. An agent that is at work starts anew with what is approved.

    Exit code 1 and nothing written if it is declined.
    """
    if yes and not reason.strip():
        raise ConfigError("--yes approves without a person who reads: give the reason for the log, --reason TEXT")
    silo = silo_file(folder, folder_option)
    config = SiloConfig.read_toml(silo)
    by = _approver(by, reason)
    # What an import path leads to is found out by fedct silo check, which makes it.
    config.check_effects(network=False if config.learner.name in {AUTO, *CLASSIFIERS} else None)
    study = read_study(config.study)
    check_sums(config, study)
    check_all_installed(config)
    if config.policy.sum_epsilon:
        check_extra("privacy", "sum-epsilon")
    out = Output(as_json=json_)
    console = out.console
    with out.doing("comparing the silo's records with the public set"):
        records = read_records(config.data, study)
        found = find_duplicates(records.X, study.public.X, study.schema)
    # Before anybody reads for long: is it a log that an approval can go into?
    with _log_of(config) as log:
        withdrawn = is_revoked(config.state)
        public = study.public.fingerprint.hex()
        entries = list(read_entries(config.state))
        here = spent(entry for entry in entries if (entry.study, entry.public) == (study.name, public))
        elsewhere = left(entry for entry in entries if (entry.study, entry.public) != (study.name, public))
        if config.promises:
            bare = approval.unprotected_labels(entries, study.name)
            promised = _promised(config, study, len(records.y), bare)
        else:
            promised = _ended(entries)
        if config.policy.sum_epsilon:
            promised = [*_promised_of_sums(config, study, entries), *promised]
        elif approval.had_noise_in_sums(entries):
            promised = [*promised, _NO_LONGER.format("noise in all sums for this silo as a whole")]
        called = called_elsewhere(silo.parent, config.connection.superlink)
        told = sections(config, study, here, elsewhere, found, promised, first=not entries, called=called)
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
        revoked = is_revoked(config.state) and not withdrawn
        if revoked or last_decision(read_entries(config.state)) != last_decision(entries):
            raise RunError(
                "somebody else has approved or revoked while you read this, so nothing was approved: run the command "
                "again, and read what is so now"
            )
        said: dict[str, object] = {"by": by, "reason": reason}
        if config.approvers:
            said["approvers"] = signed = sign(
                config, approval.terms_digest(config, study), by, key, last_decision(entries)
            )
            if not signed:
                console.print(
                    f"Signed by {by}. Nothing leaves before a second approver has signed the same.", markup=False
                )
                out.show(document)
                return
        if config.promises:
            from fedct_flwr.silo.release import approve_budget

            # First, as a budget that is in force lets nothing out that is not approved.
            approve_budget(config, study.name, approval.terms_digest(config, study))
        if config.policy.sum_epsilon:
            from fedct_flwr.silo.noisy_sum import approve_sums

            approve_sums(config, study.name, approval.terms_digest(config, study))
        if log:
            approval.approve(log, config, study, found, **said)
            remember(config, log)
        else:
            entry = approval.approving(config, study, found, **said)
            leave(config.state, entry, load_egress_key(config.egress_key), last_decision(entries))
    if log:
        console.print("Approved, and written into the egress log.")
        console.print(
            "Next: start the SuperNode and the agent (fedct silo connect, fedct silo start; or the containers)"
        )
    else:
        console.print("Approved: the agent starts anew with it, and writes it into the egress log.")
    out.show({**document, "approved": True})


@contextmanager
def _log_of(config: SiloConfig) -> Iterator[EgressLog | None]:
    """The log, with all that was decided before; None if the agent has it, which then puts the approval down.

    Raises RunError, also for an agent at work where a ledger has to be written.
    """
    try:
        log = open_log(config)
    except AtWorkError:
        if config.keeps_ledger:
            raise
        yield None
        return
    with log:
        settle(log, config.state)
        yield log


def _approver(by: str, reason: str) -> str:
    """Who approves. Raises ConfigError for a name or a reason that hides something."""
    if not by:
        try:
            by = getpass.getuser()
        except (KeyError, OSError, ImportError):
            # In a container nobody may have a name.
            by = f"user {os.getuid()}"
    for option, text in (("--by", by), ("--reason", reason)):
        if printable(text) != text or len(text) > _LONGEST:
            raise ConfigError(f"{option} {text[:40]!r} is too long or has hidden characters: write plain text")
    return by


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
    *,
    first: bool = False,
    called: str = "",
) -> dict[str, list[str]]:
    """All that is to be known before one approves: titles, and sentences below them.

    ``here`` is what left for this study and its public set, ``elsewhere`` what left for others; ``promised`` says what
    differential privacy promises, if it does. ``first``: whether there is no log of before;
    ``called``: another address that the SuperNode calls.
    """
    policy, public, schema = config.policy, study.public, study.schema
    kinds = kinds_let_out(policy.kinds, terms_of(study), noisy=policy.sum_epsilon > 0)
    added = study.sums if policy.adds else None
    model = approval.language_model(config)
    accepted = study.config.tables.accept
    longest = _longest(config, study)
    return {
        "The study": [
            f"{study.name}: silo {config.silo} trains {config.learner.name} to tell {len(schema.classes):,} "
            "classes apart",
            *_classes(schema.classes),
            _columns(schema) if schema.columns else f"Images of {_size(study)}",
            f"Public set: {len(public):,} examples without labels, which every silo and the coordinator have",
            f"Its SHA-256: {public.fingerprint.hex()}",
            *([f"SHA-256 of the language model in the learner's folder: {model}"] if model else []),
            *(
                [f"The study takes these findings on tables, this silo's too, for meant so: {listed(accepted)}"]
                if accepted
                else []
            ),
        ],
        "What leaves, to the coordinator": [
            f"The coordinator's address: {config.connection.superlink}",
            *([f"Warning: the SuperNode's container calls another address, {called}"] if called else []),
            *(kind.leaves for kind in kinds),
            "Test scores: four numbers with each reply" if policy.metrics else "Test scores: none",
            *([f"At most {longest:,} bytes in one reply, if all public examples are asked about"] if longest else []),
            "Beside them: the silo's name, and if it refuses a question, the number of the reason",
        ],
        **(
            {f"What the {'sums' if config.adds_noise else 'labels'} may tell about a record": promised}
            if promised
            else {}
        ),
        "Limits, in total for this study and public set": [
            *(
                f"{cap.title}: {getattr(policy, field):,}, of which {cap.of(here):,} are used"
                for field, cap in caps_of(Policy, Total).items()
            ),
            "A question counts as soon as it is let in, whether or not its answer leaves; refusals count in bytes",
            "A round is one of a run. Each new run asks anew, about the same examples too, until a limit is reached",
            *_elsewhere(elsewhere),
            *(
                [
                    "There is no egress log here yet, so all limits and budgets begin at nothing. If this silo has "
                    "worked before, decline: its state folder is not mounted, or not restored"
                ]
                if first
                else []
            ),
        ],
        **_over_all_studies(config),
        **{title: [*lines] for kind in kinds for title, lines in kind.limits(policy).items()},
        **({"Silos that add, and the fingerprints of their keys": _summands(added)} if added else {}),
        "What does not leave": [
            "Records or columns of them, models, texts of errors, and any gradient that can be read by itself"
            if config.adds_noise
            else "Records or columns of them, models, weights, gradients, texts of errors",
            "Every reply is written into the egress log before it leaves; code that the coordinator sends is never run",
        ],
        "Records of this silo in the public set": [found.sentence],
        "What you should know": [
            "Everybody may have the model that the sums train: it tells about a record no more than the sums do"
            if config.adds_noise
            else "Labels are not nothing: they follow from the model, and tell something about the records it learned "
            "from",
            "The coordinator says what the others' labels are; false ones make this silo's own model worse",
            "The model of before the study is kept: fedct silo predict --model before",
            *(kind.beware for kind in kinds if kind.beware),
            (
                "What is promised above is no more than it says: fedct privacy-sheet tells what is not covered"
                if config.keeps_ledger
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


def _summands(sums: SumTerms) -> list[str]:
    """Who takes part by which key: a sum hides a silo among others only where these are others' own keys."""
    keys = {silo: fingerprint_of(Ed25519PublicKey.from_public_bytes(key)) for silo, key in sums.keys.items()}
    return [
        *(f"{silo}: {fingerprint}" for silo, fingerprint in sorted(keys.items())),
        "The coordinator wrote this list. Compare it with the partners, such as by telephone, as each sees its own "
        "fingerprint here: with keys of its own under their names, the coordinator could open what this silo adds",
    ]


def _ended(entries: Iterable[LogEntry]) -> list[str]:
    """What to say where nothing is promised any more."""
    if not approval.was_protected(entries):
        return []
    return [_NO_LONGER.format("differential privacy")]


def _promised(config: SiloConfig, study: StudyFolder, num_records: int, bare: int) -> list[str]:
    """What is promised, what of it is spent, and what is wrong with it. Raises LedgerError.

    ``bare``: labels that have left without a protection.
    """
    from fedct_flwr.privacy.budget import budget_of
    from fedct_flwr.silo.release import account_of

    weakness = budget_of(config.privacy).weakness(num_records)
    found = account_of(config, study.name)
    if config.adds_noise and study.config.joint:
        from fedct_flwr.silo.joint import together_in

        what = promise_together(together_in(study), study.config.joint, config.privacy)
    else:
        what = promise(config.privacy, len(study.public), Answers.of(config))
    return [
        *what,
        spent_words(replace(found, budget=config.privacy.epsilon)),
        *clock_words(found),
        *together_words(found),
        *_changed(found, config.privacy.epsilon, config.privacy.delta),
        *([f"Warning: {bare:,} labels have left without protection; nothing here covers them"] if bare else []),
        *([f"Warning: {weakness}"] if weakness else []),
    ]


def _changed(account: Spending, epsilon: float, delta: float) -> list[str]:
    """What a budget was until now, where it is another from now on."""
    if (account.budget, account.delta) == (epsilon, delta):
        return []
    before = f"Approved before was epsilon {account.budget:g} at delta {account.delta:g}"
    return [f"{before}; from now on it is {epsilon:g} at {delta:g}"]


def _promised_of_sums(config: SiloConfig, study: StudyFolder, entries: Sequence[LogEntry]) -> list[str]:
    """What is promised of the silo as a whole, and what of it is spent. Raises LedgerError."""
    from fedct_flwr.silo.noisy_sum import account_of_sums

    policy, found = config.policy, account_of_sums(config, study.name)
    may_collude = study.sums.may_collude if study.sums else policy.may_collude
    bare = approval.labels_without_noise(entries, study.name)
    return [
        f"Unit: this silo as a whole, whatever its votes are. Epsilon {policy.sum_epsilon:g}, delta "
        f"{policy.sum_delta:g}, in total over the whole study",
        f"From whom: from everybody, the coordinator too, if at most {may_collude} silos collude with it",
        spent_words(replace(found, budget=policy.sum_epsilon)),
        *clock_words(found),
        *together_words(found),
        *_changed(found, policy.sum_epsilon, policy.sum_delta),
        *([f"Warning: {bare:,} labels have left without noise; nothing here covers them"] if bare else []),
    ]


def _elsewhere(elsewhere: Left) -> list[str]:
    """What no limit of this study counts, though it tells of the same patients."""
    if not elsewhere.labels:
        return []
    return [f"Under other studies and public sets {elsewhere.labels:,} labels have left about these records"]


def _over_all_studies(config: SiloConfig) -> dict[str, list[str]]:
    """The limits that several studies share. Raises LedgerError if what they have used cannot be told."""
    books = SharedBooks.of(config)
    if books is None:
        return {}
    used, studies = books.spent()
    lines = (
        f"{cap.title}: {getattr(config.records, field):,}, of which {cap.of(used):,} are used"
        for field, cap in caps_of(Policy, Total).items()
    )
    return {
        "Limits over all studies of these records": [
            *lines,
            *_epsilon_over_all_studies(config),
            f"Counted for {count(studies, 'silo folder')} in {config.records.folder}; this one is counted from its "
            "agent's start on, with all that has left before",
        ]
    }


def _epsilon_over_all_studies(config: SiloConfig) -> list[str]:
    if not config.records.epsilon:
        return []
    from fedct_flwr.privacy.common_budget import common_budget

    budget = common_budget(config)
    spent_ = budget.spent().upper if budget else 0.0
    return [
        f"Epsilon: {config.records.epsilon:g} at delta {config.records.delta:g} for each record, of which {spent_:.3g} "
        "is spent"
    ]


def _columns(schema: Schema) -> str:
    texts = [column.name for column in schema.columns if column.text]
    return f"Columns: {len(schema.columns)}" + (f", of which {listed(texts)} hold text" if texts else "")


def _size(study: StudyFolder) -> str:
    height, width = study.config.image_size or (0, 0)
    return f"{height} x {width} pixels, {study.config.image_mode}"


def _longest(config: SiloConfig, study: StudyFolder) -> int:
    """Bytes of the longest reply there can be: about the whole public set, in the last round; 0 where none is."""
    terms, policy, size = terms_of(study), config.policy, len(study.public)
    students = config.transfer.most_students(noisy=config.privacy.enabled)
    nothing = np.full(size, ABSTAIN, dtype=LABEL_DTYPE)
    lengths = (
        longest_reply(question, config.silo, terms, scores=policy.metrics)
        for kind in kinds_let_out(policy.kinds, terms)
        if kind is not GRADIENTS and kind.can_answer(students, terms)
        for question in [kind.question(policy.max_rounds, Query(0, size), nothing, students, Soft())]
    )
    return max(lengths, default=0)
