"""``fedct silo approve`` and ``revoke``: what would leave, in plain words, and a question; and that nothing leaves."""

import getpass
import os
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, Self

import numpy as np
import typer
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from fedct_flwr.cli.invitation import fingerprint_of
from fedct_flwr.cli.output import Json, Output
from fedct_flwr.cli.silo.folder import Folder, silo_file
from fedct_flwr.config import DataSettings, SiloConfig
from fedct_flwr.config.learner import AUTO
from fedct_flwr.config.limits import TOTALS
from fedct_flwr.datasets.federated import num_units
from fedct_flwr.datasets.groups import check_protected
from fedct_flwr.datasets.public_set import Query
from fedct_flwr.datasets.query import query_digest, query_text, result_of
from fedct_flwr.datasets.study_folder import STUDY_FILE, StudyFolder, read_grouped, read_study, table_of
from fedct_flwr.hospital import approval
from fedct_flwr.hospital.adding import check_sums
from fedct_flwr.hospital.duplicates import DuplicateReport, find_duplicates
from fedct_flwr.hospital.egress_log import AtWorkError, EgressLog
from fedct_flwr.hospital.keys import load_egress_key
from fedct_flwr.hospital.latest_state import open_log, remember
from fedct_flwr.hospital.log_entry import Event, LogEntry, Spent, is_revoked, read_entries, spent
from fedct_flwr.hospital.shared_usage import SharedUsage
from fedct_flwr.kinds import GRADIENTS, HARD, HISTOGRAMS, check_let_out, kinds_let_out
from fedct_flwr.labelers.protect import check_all_installed, check_extra
from fedct_flwr.learners.catalog import CLASSIFIERS
from fedct_flwr.privacy.budget import Spending
from fedct_flwr.privacy.sheet import Answers, clock_words, promise, promise_together, spent_words, together_words
from fedct_flwr.secure_sum.terms import Terms as SumTerms
from fedct_flwr.silo.site import terms_of
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import in_shell, listed, printable, quoted
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, ConfigError, Examples, Groups, RunError
from fedct_flwr.wire.codec import longest_reply
from fedct_flwr.wire.content import Soft

_DESPITE: Final = "despite duplicates"
_LONGEST: Final = 1000
"""Characters of a name or a reason, which are part of a line of the log."""
_IN, _FURTHER = 2, 4
"""Columns that a line begins at, and where it goes on."""


def approve(
    folder: Folder = None,
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
    of their own. Stop the agent first.

    Exit code 1 and nothing written if it is declined.
    """
    if yes and not reason.strip():
        raise ConfigError("--yes approves without a person who reads: give the reason for the log, --reason TEXT")
    config = SiloConfig.read_toml(silo_file(folder))
    by = _approver(by, reason)
    # What an import path leads to is found out by fedct silo check, which makes it.
    config.check_effects(network=False if config.learner.name in {AUTO, *CLASSIFIERS} else None)
    study = read_study(config.study)
    check_sums(config, study)
    check_let_out(config.policy.kinds, terms_of(study))
    check_all_installed(config)
    if config.policy.sum_epsilon:
        check_extra("privacy", "sum-epsilon")
    out = Output(as_json=json_)
    console = out.console
    with out.doing("comparing the silo's records with the public set"):
        table = table_of(config.data, study)
        records, groups = read_grouped(config.data, study, table=table)
        if config.promises:
            check_protected(groups, config.silo)
        found = find_duplicates(records.X, study.public.X, study.schema)
    # Before anybody reads for long: is it a log that an approval can go into?
    with open_log(config) as log:
        entries = list(read_entries(config.state))
        told = sections(config, study, entries, Units.of(records, groups), found)
        if config.draws:
            from fedct_flwr.silo.drawing import plan_of

            outside = plan_of(study).form.place(records.X)[1] or "0 values outside of the data dictionary"
            told["Values of this silo that the study does not foresee"] = [outside]
        for title, lines in told.items():
            console.print(f"\n[bold]{title}[/]")
            for line in lines:
                _show(console, line)
        approvers = approval.approvers_now(config, entries)
        if (now := approval.as_hex(approvers)) != (then := approval.as_hex(approval.approvers_of(config))):
            change = f"from {', '.join(now)} to {', '.join(then) or 'none'}"
            _show(console, f"Approvers change {change}, or their keys do: two of those before sign this.")
        console.print()
        document: dict[str, Any] = {"approved": False, "duplicates_alarm": found.alarm, "sections": told}
        if not _agreed(found, yes=yes, despite_duplicates=despite_duplicates, err=json_):
            console.print("Not approved: nothing leaves.")
            out.show(document)
            raise typer.Exit(1)
        if is_revoked(config.state):
            raise RunError(
                "the approval was revoked while you read this, so nothing was approved: run the command again"
            )
        result = result_of(config.data, table) if config.data.query else {}
        said: dict[str, object] = {"by": by, "reason": reason, "result": result}
        if approvers:
            said["approvers"] = signed = approval.sign(config, entries, approval.terms_digest(config, study), by, key)
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
        approval.approve(log, config, study, found, **said)
        remember(config, log)
    console.print("Approved, and written into the egress log.")
    console.print("Next: start the SuperNode and the agent (fedct silo connect, fedct silo start; or the containers)")
    out.show({**document, "approved": True})


def _approver(by: str, reason: str) -> str:
    """Who approves. Raises ConfigError for a name or a reason that hides something."""
    if not by:
        try:
            by = getpass.getuser()
        except (KeyError, OSError, ImportError):
            # A container's user may have no name.
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


# --- revoke

_AGENT_SECONDS: Final = 5.0
"""The agent looks once a second, whatever else it does."""
_POLL_SECONDS: Final = 0.1


def revoke(
    folder: Folder = None,
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
) -> None:
    """Withdraw the approval at once, also while the agent is at work. What has left cannot be called back."""
    silo = silo_file(folder)
    config = SiloConfig.read_toml(silo)
    out = Output()
    # Whatever the log says that cannot be read: revoked is revoked.
    if is_revoked(config.state) or not _is_approved(config.state):
        out.say("Nothing is approved: nothing leaves.")
        return
    if not yes and not typer.confirm("Withdraw the approval, so that nothing leaves from now on?"):
        raise typer.Exit(1)
    approval.withdraw(config.state)
    if _logged(config):
        out.say("Revoked: nothing leaves from now on, and the log says so.")
    else:
        out.say(
            "Revoked: nothing leaves from now on. The log does not say so yet, and until it does that stands in a file "
            f"alone: end the agent, if it hangs, or see fedct silo verify {in_shell(silo.parent)}"
        )
    out.say("To allow it again: fedct silo approve")


def _logged(config: SiloConfig) -> bool:
    """Put it into the log, or wait for the agent that is at work to do so. Whether it stands there."""
    try:
        with EgressLog.open(config.state, config.silo, load_egress_key(config.egress_key)) as log:
            approval.put_down(log, config.state)
        return True
    except AtWorkError:
        end = time.monotonic() + _AGENT_SECONDS
        while (waits := is_revoked(config.state)) and time.monotonic() < end:
            time.sleep(_POLL_SECONDS)
        return not waits and not _is_approved(config.state)
    except (ConfigError, RunError):
        return False


def _is_approved(state: Path) -> bool:
    try:
        return approval.current(read_entries(state)) is not None
    except RunError:
        return True


# --- what is said before

_NO_LONGER: Final = "Warning: an earlier approval promised {}; what leaves from now on is not covered by it"
_STATED: Final = {
    "controller": "Who decides how the labels are used (controller)",
    "partners": "Partners",
    "retention": "How long the coordinator keeps the labels",
    "withdrawal": "If a patient withdraws consent",
}
"""Titles of the fields of ``[governance]`` in study.toml."""
_FEWEST_SHOWN: Final = 5
_MOST_CLASSES: Final = 20
"""Classes named on the page: more would push its beginning off the screen."""


class Units(NamedTuple):
    """How many there are to protect (records, or patients), and the ``most`` records that one has, in words."""

    number: int
    most: str

    @classmethod
    def of(cls, records: Examples, groups: Groups | None) -> Self:
        """Small numbers are hidden."""
        largest = 1 if groups is None else int(np.unique(groups, return_counts=True)[1].max())
        return cls(num_units(records.size, groups), f"{largest:,}" if largest >= _FEWEST_SHOWN else "fewer than 5")


def sections(
    config: SiloConfig, study: StudyFolder, entries: Sequence[LogEntry], units: Units, found: DuplicateReport
) -> dict[str, list[str]]:
    """All that is to be known before one approves: titles, and sentences below them. Raises LedgerError.

    ``entries`` are the lines of the log so far, and ``found`` the records that are in the public set.
    """
    ours = study.name, study.public.fingerprint.hex()
    here = spent(entry for entry in entries if (entry.study, entry.public) == ours)
    released = [entry for entry in entries if entry.event is Event.RELEASED]
    elsewhere = sum(entry.queries for entry in released if (entry.study, entry.public) != ours)
    promised = _promises(config, study, units, entries)
    policy, public, schema = config.policy, study.public, study.schema
    kinds = kinds_let_out(policy.kinds, terms_of(study), noisy=policy.sum_epsilon > 0)
    added = study.sums if policy.adds else None
    model, accepted, longest = approval.language_model(config), study.config.tables.accept, _longest(config, study)
    texts = listed([column.name for column in schema.columns if column.text])
    of_texts = f", of which {texts} hold text" if texts else ""
    (height, width), governance = study.config.image_size or (0, 0), study.config.governance
    allowed = min(policy.max_rounds, policy.max_queries // len(public), policy.max_bytes // max(1, longest))
    task, scores = f"trains {config.learner.name} to tell {len(schema.classes):,} classes apart", "four"
    if config.draws:
        task = "counts the values of its columns, for a public set that is drawn from all silos' counts"
    elif schema.grid:
        task = f"trains {config.learner.name} to predict {quoted(schema.quantity)}, {schema.grid.said}"
        scores = "two"
    told = {
        "The study": _lines(
            f"{study.name}: silo {config.silo} {task}",
            *_classes(schema.classes),
            f"Columns: {len(schema.columns)}{of_texts}"
            if schema.columns
            else f"Images of {height} x {width} pixels, {study.config.image_mode}",
            f"Public set: {len(public):,} examples without labels, which every silo and the coordinator have",
            f"Its SHA-256: {public.fingerprint.hex()}",
            model and f"SHA-256 of the language model in the learner's folder: {model}",
            accepted and f"This study disables these data checks, also for your table: {listed(accepted)}",
        ),
        "The query that reads the records": _query(config.data),
        "What the study states": [
            f"{title}: {quoted(stated, 300) if (stated := getattr(governance, field)) else 'not stated'}"
            for field, title in _STATED.items()
        ],
        "What leaves, to the coordinator": _lines(
            f"The coordinator's address: {config.connection.superlink}",
            *(kind.leaves for kind in kinds),
            f"Test scores: {scores} numbers with each reply" if policy.metrics else "Test scores: none",
            longest and f"At most {longest:,} bytes in one reply, if all public examples are asked about",
            "Also: the silo's name, and if it refuses a question, the number of the reason",
        ),
        f"What the {'sums' if config.adds_noise else 'labels'} may tell about a {config.unit}": promised,
        "Limits, in total for this study and public set": _lines(
            *_totals(config.policy, here),
            policy.kinds == (HARD.policy,)
            and f"A round that asks about all public examples takes {len(public):,} labels and at most {longest:,} "
            f"bytes: the limits allow {allowed:,} such rounds",
            "A question counts as soon as it is let in, whether or not its answer leaves; refusals count in bytes",
            "Each new run asks again, also about the same examples, until a limit is reached",
            # No limit of this study counts them, though they tell of the same patients.
            elsewhere and f"Under other studies and public sets {elsewhere:,} labels have left about these records",
            not entries
            and "There is no egress log here yet, so all limits and budgets begin at nothing. If this silo has "
            "worked before, decline: its state folder is not mounted, or not restored",
        ),
        "Limits over all studies of these records": _over_all_studies(config),
        **{title: [*lines] for kind in kinds for title, lines in kind.limits(policy).items()},
        "Silos that add, and the fingerprints of their keys": _summands(added) if added else [],
        "What does not leave": [
            "Records or columns of them, models, texts of errors, and any gradient or count that can be read by itself"
            if config.adds_noise
            else "Records or columns of them, models, weights, gradients, texts of errors",
            "Every reply is written into the egress log before it leaves, and can be read: fedct silo released",
            "Code that the coordinator sends is never run",
        ],
        "Records of this silo in the public set": [found.sentence],
        "What you should know": _lines(
            f"Everybody may have the {'set that is drawn from' if config.draws else 'model that'} the sums"
            f"{' train' * (not config.draws)}: it tells about a record no more than the sums do"
            if config.adds_noise
            else "Labels come from a model that learned from these records, and can tell something about them",
            not config.draws
            and "The coordinator says what the others' labels are; false ones make this silo's own model worse",
            not config.draws and "The model of before the study is kept: fedct silo predict --model before",
            *(kind.beware for kind in kinds),
            "What is promised above is no more than it says: fedct privacy-sheet tells what is not covered"
            if config.promises or config.policy.sum_epsilon
            else "No differential privacy is guaranteed yet; the limits above are what keeps it little",
            "To withdraw the approval at any time: fedct silo revoke. What has left cannot be called back",
        ),
    }
    return {title: lines for title, lines in told.items() if lines}


def _lines(*lines: object) -> list[str]:
    """Those that there are."""
    return [str(line) for line in lines if line]


def _totals(limits: object, used: Spent) -> Iterator[str]:
    for field, cap in TOTALS.items():
        yield f"{cap.title}: {getattr(limits, field):,}, of which {cap.of(used):,} are used"


def _classes(names: Sequence[str]) -> list[str]:
    """The classes as the coordinator calls them: quoted, cut and one a line, so that none passes for a sentence."""
    more = len(names) - _MOST_CLASSES
    return _lines(
        *(f"Class {number} of {len(names):,}: {quoted(name)}" for number, name in enumerate(names[:_MOST_CLASSES], 1)),
        more > 0 and f"And {more:,} more classes, which stand in {STUDY_FILE} in the study's folder",
    )


def _query(data: DataSettings) -> list[str]:
    """The SQL, each line numbered, so that none passes for a sentence of the page."""
    if not data.query:
        return []
    lines = enumerate(query_text(data.query).splitlines(), 1)
    return [
        f"Database: {data.database}",
        f"SHA-256 of the query: {query_digest(data.query)}",
        *(f"{number:3} | {line}" for number, line in lines),
    ]


def _summands(sums: SumTerms) -> list[str]:
    """Who takes part by which key: a sum hides a silo among others only where these are others' own keys."""
    keys = {silo: fingerprint_of(Ed25519PublicKey.from_public_bytes(key)) for silo, key in sums.keys.items()}
    return [
        *(f"{silo}: {fingerprint}" for silo, fingerprint in sorted(keys.items())),
        "The coordinator wrote this list. Compare it with the partners, such as by telephone, as each sees its own "
        "fingerprint here: with keys of its own under their names, the coordinator could open what this silo adds",
    ]


def _promises(config: SiloConfig, study: StudyFolder, units: Units, entries: Sequence[LogEntry]) -> list[str]:
    """What differential privacy promises of records and of the silo, or promised until now. Raises LedgerError."""
    said = _promised_of_sums(config, study, entries) if config.policy.sum_epsilon else []
    if config.promises:
        bare = approval.bare_labels(entries, study.name, approval.covers_records)
        said += _promised(config, study, units, bare)
    elif approval.was_promised(entries, approval.covers_records):
        said.append(_NO_LONGER.format("differential privacy"))
    if not config.policy.sum_epsilon and approval.was_promised(entries, approval.covers_silo):
        said.append(_NO_LONGER.format("noise in all sums for this silo as a whole"))
    return said


def _promised(config: SiloConfig, study: StudyFolder, units: Units, bare: int) -> list[str]:
    """The promise, and what is spent of it; ``bare`` labels have left without a protection. Raises LedgerError."""
    from fedct_flwr.privacy.budget import budget_of
    from fedct_flwr.silo.release import account_of

    budget = budget_of(config.privacy, grouped=config.grouped)
    weakness = budget.weakness(units.number)
    found = account_of(config, study.name)
    plan = study.config.draw if config.draws else study.config.joint
    if config.adds_noise and plan:
        from fedct_flwr.silo.joint import together_in

        what = promise_together(together_in(study, draws=config.draws), plan, config.privacy, budget.unit)
    else:
        what = promise(config.privacy, len(study.public), Answers.of(config), budget.unit)
    return _lines(
        *what,
        config.grouped and f"A patient has at most {units.most} records here, in the column that silo.toml names",
        *_account(found, config.privacy.epsilon, config.privacy.delta),
        bare and f"Warning: {bare:,} labels have left without protection; nothing here covers them",
        weakness and f"Warning: {weakness}",
    )


def _account(account: Spending, epsilon: float, delta: float) -> list[str]:
    """What is spent of a budget that is to be approved, and what it was until now if it was another."""
    before = f"Approved before was epsilon {account.budget:g} at delta {account.delta:g}"
    changed = (account.budget, account.delta) != (epsilon, delta)
    return _lines(
        spent_words(replace(account, budget=epsilon)),
        *clock_words(account),
        *together_words(account),
        changed and f"{before}; from now on it is {epsilon:g} at {delta:g}",
    )


def _promised_of_sums(config: SiloConfig, study: StudyFolder, entries: Sequence[LogEntry]) -> list[str]:
    """What is promised of the silo as a whole, and what of it is spent. Raises LedgerError."""
    from fedct_flwr.silo.noisy_sum import account_of_sums

    policy, found = config.policy, account_of_sums(config, study.name)
    may_collude = study.sums.may_collude if study.sums else policy.may_collude
    bare = approval.bare_labels(entries, study.name, approval.covers_silo)
    return _lines(
        f"Unit: this silo as a whole, whatever its votes are. Epsilon {policy.sum_epsilon:g}, delta "
        f"{policy.sum_delta:g}, in total over the whole study",
        f"From whom: from everybody, the coordinator too, if at most {may_collude} silos collude with it",
        *_account(found, policy.sum_epsilon, policy.sum_delta),
        bare and f"Warning: {bare:,} labels have left without noise; nothing here covers them",
    )


def _over_all_studies(config: SiloConfig) -> list[str]:
    """The limits that several studies share. Raises LedgerError if what they have used cannot be told."""
    usage, records = SharedUsage.of(config), config.records
    if usage is None:
        return []
    used, studies = usage.spent()
    epsilon = 0.0
    if records.epsilon:
        from fedct_flwr.privacy.ledger import common_budget

        budget = common_budget(config)
        epsilon = budget.spent().upper if budget else 0.0
    return _lines(
        *_totals(records, used),
        records.epsilon
        # Other studies may count records where this one counts patients.
        and f"Epsilon: {records.epsilon:g} at delta {records.delta:g} for each record, of which {epsilon:.3g} is spent",
        f"Counted for {count(studies, 'silo folder')} in {records.folder}; this one is counted from its agent's start "
        "on, with all that has left before",
    )


def _longest(config: SiloConfig, study: StudyFolder) -> int:
    """Bytes of the longest reply there can be: about the whole public set, in the last round; 0 where none is."""
    terms, policy, size = terms_of(study), config.policy, len(study.public)
    students = config.transfer.most_students(noisy=config.privacy.enabled)
    nothing = np.full(size, ABSTAIN, dtype=LABEL_DTYPE)
    lengths = (
        longest_reply(question, config.silo, terms, scores=policy.metrics)
        for kind in kinds_let_out(policy.kinds, terms)
        if kind not in (GRADIENTS, HISTOGRAMS) and kind.can_answer(students, terms)
        for question in [kind.question(policy.max_rounds, Query(0, size), nothing, students, Soft())]
    )
    return max(lengths, default=0)
