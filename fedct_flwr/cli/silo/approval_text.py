"""All that is to be known before one approves what leaves a silo: the sentences of ``fedct silo approve``."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedct_flwr.cli.invitation import fingerprint_of
from fedct_flwr.config import SiloConfig
from fedct_flwr.config.limits import TOTALS
from fedct_flwr.datasets.public_set import Query
from fedct_flwr.datasets.study_folder import STUDY_FILE, StudyFolder
from fedct_flwr.hospital import approval
from fedct_flwr.hospital.duplicates import DuplicateReport
from fedct_flwr.hospital.log_entry import LogEntry, Spent
from fedct_flwr.hospital.shared_books import SharedBooks
from fedct_flwr.kinds import GRADIENTS, HARD, kinds_let_out
from fedct_flwr.privacy.sheet import Answers, clock_words, promise, promise_together, spent_words, together_words
from fedct_flwr.privacy.spending import Spending
from fedct_flwr.secure_sum.terms import Terms as SumTerms
from fedct_flwr.silo.site import terms_of
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import listed, quoted
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE
from fedct_flwr.wire.codec import longest_reply
from fedct_flwr.wire.content import Soft

_NO_LONGER: Final = "Warning: an earlier approval promised {}; what leaves from now on is not covered by it"
_STATED: Final = {
    "controller": "Who decides how the labels are used (controller)",
    "partners": "Partners",
    "retention": "How long the coordinator keeps the labels",
    "withdrawal": "If a patient withdraws consent",
}
"""Titles of the fields of ``[governance]`` in study.toml."""
_MOST_CLASSES: Final = 20
"""Classes named on the page: more would push its beginning off the screen."""


def sections(
    config: SiloConfig,
    study: StudyFolder,
    here: Spent,
    elsewhere: int,
    found: DuplicateReport,
    promised: list[str],
    *,
    first: bool = False,
) -> dict[str, list[str]]:
    """All that is to be known before one approves: titles, and sentences below them.

    ``here`` is what left for this study and its public set, ``elsewhere`` the labels that left for others; ``promised``
    says what differential privacy promises, if it does. ``first``: whether there is no log of before.
    """
    policy, public, schema = config.policy, study.public, study.schema
    kinds = kinds_let_out(policy.kinds, terms_of(study), noisy=policy.sum_epsilon > 0)
    added = study.sums if policy.adds else None
    model, accepted, longest = approval.language_model(config), study.config.tables.accept, _longest(config, study)
    texts = listed([column.name for column in schema.columns if column.text])
    of_texts = f", of which {texts} hold text" if texts else ""
    (height, width), governance = study.config.image_size or (0, 0), study.config.governance
    allowed = min(policy.max_rounds, policy.max_queries // len(public), policy.max_bytes // max(1, longest))
    told = {
        "The study": _lines(
            f"{study.name}: silo {config.silo} trains {config.learner.name} to tell {len(schema.classes):,} "
            "classes apart",
            *_classes(schema.classes),
            f"Columns: {len(schema.columns)}{of_texts}"
            if schema.columns
            else f"Images of {height} x {width} pixels, {study.config.image_mode}",
            f"Public set: {len(public):,} examples without labels, which every silo and the coordinator have",
            f"Its SHA-256: {public.fingerprint.hex()}",
            model and f"SHA-256 of the language model in the learner's folder: {model}",
            accepted and f"This study disables these data checks, also for your table: {listed(accepted)}",
        ),
        "What the study states": [
            f"{title}: {quoted(stated, 300) if (stated := getattr(governance, field)) else 'not stated'}"
            for field, title in _STATED.items()
        ],
        "What leaves, to the coordinator": _lines(
            f"The coordinator's address: {config.connection.superlink}",
            *(kind.leaves for kind in kinds),
            "Test scores: four numbers with each reply" if policy.metrics else "Test scores: none",
            longest and f"At most {longest:,} bytes in one reply, if all public examples are asked about",
            "Also: the silo's name, and if it refuses a question, the number of the reason",
        ),
        f"What the {'sums' if config.adds_noise else 'labels'} may tell about a record": promised,
        "Limits, in total for this study and public set": _lines(
            *_totals(config.policy, here),
            policy.kinds == (HARD.policy,)
            and f"A round that asks about all public examples takes {len(public):,} labels and at most {longest:,} "
            f"bytes: the limits allow {allowed:,} such rounds",
            "A question counts as soon as it is let in, whether or not its answer leaves; refusals count in bytes",
            "Each new run asks again, also about the same examples, until a limit is reached",
            # No limit of this study counts them, though they tell of the same patients.
            elsewhere and f"Under other studies and public sets {elsewhere:,} labels have left about these records",
            first
            and "There is no egress log here yet, so all limits and budgets begin at nothing. If this silo has "
            "worked before, decline: its state folder is not mounted, or not restored",
        ),
        "Limits over all studies of these records": _over_all_studies(config),
        **{title: [*lines] for kind in kinds for title, lines in kind.limits(policy).items()},
        "Silos that add, and the fingerprints of their keys": _summands(added) if added else [],
        "What does not leave": [
            "Records or columns of them, models, texts of errors, and any gradient that can be read by itself"
            if config.adds_noise
            else "Records or columns of them, models, weights, gradients, texts of errors",
            "Every reply is written into the egress log before it leaves, and can be read: fedct silo released",
            "Code that the coordinator sends is never run",
        ],
        "Records of this silo in the public set": [found.sentence],
        "What you should know": _lines(
            "Everybody may have the model that the sums train: it tells about a record no more than the sums do"
            if config.adds_noise
            else "Labels come from a model that learned from these records, and can tell something about them",
            "The coordinator says what the others' labels are; false ones make this silo's own model worse",
            "The model of before the study is kept: fedct silo predict --model before",
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


def _summands(sums: SumTerms) -> list[str]:
    """Who takes part by which key: a sum hides a silo among others only where these are others' own keys."""
    keys = {silo: fingerprint_of(Ed25519PublicKey.from_public_bytes(key)) for silo, key in sums.keys.items()}
    return [
        *(f"{silo}: {fingerprint}" for silo, fingerprint in sorted(keys.items())),
        "The coordinator wrote this list. Compare it with the partners, such as by telephone, as each sees its own "
        "fingerprint here: with keys of its own under their names, the coordinator could open what this silo adds",
    ]


def promises(config: SiloConfig, study: StudyFolder, num_records: int, entries: Sequence[LogEntry]) -> list[str]:
    """What differential privacy promises, for these records and for the silo as a whole, or promised until now.

    Raises LedgerError.
    """
    said = _promised_of_sums(config, study, entries) if config.policy.sum_epsilon else []
    if config.promises:
        bare = approval.bare_labels(entries, study.name, approval.covers_records)
        said += _promised(config, study, num_records, bare)
    elif approval.was_promised(entries, approval.covers_records):
        said.append(_NO_LONGER.format("differential privacy"))
    if not config.policy.sum_epsilon and approval.was_promised(entries, approval.covers_silo):
        said.append(_NO_LONGER.format("noise in all sums for this silo as a whole"))
    return said


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
    return _lines(
        *what,
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
    books, records = SharedBooks.of(config), config.records
    if books is None:
        return []
    used, studies = books.spent()
    epsilon = 0.0
    if records.epsilon:
        from fedct_flwr.privacy.ledger import common_budget

        budget = common_budget(config)
        epsilon = budget.spent().upper if budget else 0.0
    return _lines(
        *_totals(records, used),
        records.epsilon
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
        if kind is not GRADIENTS and kind.can_answer(students, terms)
        for question in [kind.question(policy.max_rounds, Query(0, size), nothing, students, Soft())]
    )
    return max(lengths, default=0)
