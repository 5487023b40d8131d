"""All that is to be known before one approves what leaves a silo: the sentences of ``fedct silo approve``."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedct_flwr.cli.invitation import fingerprint_of
from fedct_flwr.config import Policy, SiloConfig
from fedct_flwr.config.caps import Total, caps_of
from fedct_flwr.datasets.public_set import Query
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.datasets.study_folder import STUDY_FILE, StudyFolder
from fedct_flwr.hospital import approval
from fedct_flwr.hospital.books import Left, Spent
from fedct_flwr.hospital.duplicates import DuplicateReport
from fedct_flwr.hospital.log_entry import LogEntry
from fedct_flwr.hospital.shared_books import SharedBooks
from fedct_flwr.kinds import GRADIENTS, kinds_let_out
from fedct_flwr.privacy.leaving import Answers
from fedct_flwr.privacy.sheet import clock_words, promise, promise_together, spent_words, together_words
from fedct_flwr.privacy.spending import Spending
from fedct_flwr.secure_sum.terms import Terms as SumTerms
from fedct_flwr.silo.site import terms_of
from fedct_flwr.text.plural import count
from fedct_flwr.text.printable import listed, quoted
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE
from fedct_flwr.wire.codec import longest_reply
from fedct_flwr.wire.content import Soft

_NO_LONGER: Final = "Warning: an earlier approval promised {}; what leaves from now on is not covered by it"
_MOST_CLASSES: Final = 20
"""So many are named: with more, the page would push its own beginning off the screen."""


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
            *([f"This study disables these data checks, also for your table: {listed(accepted)}"] if accepted else []),
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


def promises(config: SiloConfig, study: StudyFolder, num_records: int, entries: Sequence[LogEntry]) -> list[str]:
    """What differential privacy promises, for these records and for the silo as a whole, or promised until now.

    Raises LedgerError.
    """
    if config.promises:
        said = _promised(config, study, num_records, approval.unprotected_labels(entries, study.name))
    else:
        said = [_NO_LONGER.format("differential privacy")] if approval.was_protected(entries) else []
    if config.policy.sum_epsilon:
        return [*_promised_of_sums(config, study, entries), *said]
    if approval.had_noise_in_sums(entries):
        return [*said, _NO_LONGER.format("noise in all sums for this silo as a whole")]
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
