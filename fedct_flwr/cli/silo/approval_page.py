"""The page that a person reads before approving: what would leave, in plain words, as titles and sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final, NamedTuple, Self

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from fedct_flwr.cli.invitation import fingerprint_of
from fedct_flwr.cli.promised import sheets_of
from fedct_flwr.config.silo import Policy, SiloConfig
from fedct_flwr.datasets.federated import num_units
from fedct_flwr.datasets.query import query_digest, query_text
from fedct_flwr.datasets.study_folder import STUDY_FILE, StudyFolder
from fedct_flwr.hospital import approval
from fedct_flwr.hospital.approval import kinds_let_out
from fedct_flwr.hospital.duplicates import DuplicateReport
from fedct_flwr.hospital.log_entry import TOTALS, Event, LogEntry, Used, spent
from fedct_flwr.hospital.shared_usage import SharedUsage, spent_on_records
from fedct_flwr.privacy.budget import DATA_SET, unit_of, weak_delta
from fedct_flwr.privacy.sheet import Sheet, together_words
from fedct_flwr.report.kind_words import words_of
from fedct_flwr.text.printable import count, listed, quoted
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Examples, Groups
from fedct_flwr.wire.codec import longest_reply
from fedct_flwr.wire.content import Query, Soft
from fedct_flwr.wire.kinds import HARD, Kind
from fedct_flwr.wire.sums import ADDED, RecordSum

_NO_LONGER: Final = "Warning: an earlier approval promised {}; what leaves from now on is not covered by it"
STATED: Final = {
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
    def of(cls, records: Examples, groups: Groups | None, step: int = 1) -> Self:
        """Small numbers are hidden, others rounded up by ``step``."""
        largest = 1 if groups is None else int(np.unique(groups, return_counts=True)[1].max())
        number, most = (-(-each // step) * step for each in (num_units(records.size, groups), largest))
        return cls(number, f"at most {most:,}" if largest >= _FEWEST_SHOWN else "fewer than 5")


def _lines(*lines: object) -> list[str]:
    """Those that there are."""
    return [str(line) for line in lines if line]


@dataclass(frozen=True)
class Page:
    """Sources of the page: ``entries`` are the log's lines so far, ``found`` the own records in the public set."""

    config: SiloConfig
    study: StudyFolder
    entries: Sequence[LogEntry]
    units: Units
    found: DuplicateReport

    def sections(self) -> dict[str, list[str]]:
        """All that is to be known before one approves: titles, and sentences below them. Raises LedgerError."""
        config = self.config
        sections = {
            "The study": self._study(),
            "The query that reads the records": self._query(),
            "What the study states": self._stated(),
            "What leaves, to the coordinator": self._leaves(),
            "Questions of how many patients there are": self._counts(),
            "Questions for scores": self._scores(),
            f"What the {'sums' if config.adds_noise else 'labels'} may tell about a {config.unit}": self._promises(),
            "Limits, in total for this study and public set": self._limits(),
            "Limits over all studies of these records": self._over_all_studies(),
            **{title: lines for kind in self._kinds for title, lines in _of_each_question(kind, config.policy)},
            "Silos that add, and the fingerprints of their keys": self._summands(),
            "What does not leave": self._stays(),
            "Records of this silo in the public set": [self.found.sentence],
            "What you should know": self._beware(),
        }
        return {title: lines for title, lines in sections.items() if lines}

    @cached_property
    def _kinds(self) -> Sequence[Kind]:
        policy = self.config.policy
        return [*kinds_let_out(policy.kinds, self.study.terms, noisy=policy.sum_epsilon > 0)]

    @cached_property
    def _longest(self) -> int:
        """Bytes of the longest reply there can be: about the whole public set, in the last round; 0 where none is."""
        config, terms, size = self.config, self.study.terms, len(self.study.public)
        students = config.transfer.most_students(noisy=config.privacy.enabled)
        nothing = np.full(size, ABSTAIN, dtype=LABEL_DTYPE)
        lengths = (
            longest_reply(question, config.silo, terms, scores=config.policy.metrics)
            for kind in kinds_let_out(config.policy.kinds, terms)
            if not isinstance(kind, RecordSum) and kind.can_answer(students, terms)
            for question in [kind.question(config.policy.max_rounds, Query(0, size), nothing, students, Soft())]
        )
        return max(lengths, default=0)

    def _study(self) -> list[str]:
        config, study, schema = self.config, self.study, self.study.schema
        task = f"trains {config.learner.name} to tell {len(schema.classes):,} classes apart"
        if config.noisy_kind == "draw":
            task = "counts the values of its columns, for a public set that is drawn from all silos' counts"
        elif config.noisy_kind == "count":
            task = "counts the patients who meet the coordinator's conditions, and trains nothing"
        elif schema.grid:
            task = f"trains {config.learner.name} to predict {quoted(schema.quantity)}, {schema.grid.words}"
        elif times := schema.follow_up:
            task = (
                f"trains {config.learner.name} to rank records by {quoted(times.time)} until {quoted(times.event)}, "
                f"and gives public examples grades of risk, which are labels of {len(schema.classes)} classes; how "
                "many of them it uses tells roughly how many events it has"
            )
        # Quoted, cut and one a line, so that no class passes for a sentence.
        more = len(schema.classes) - _MOST_CLASSES
        classes = [
            f"Class {number} of {len(schema.classes):,}: {quoted(name)}"
            for number, name in enumerate(schema.classes[:_MOST_CLASSES], 1)
        ]
        height, width = study.config.image_size or (0, 0)
        holds = f"Images of {height} x {width} pixels, {study.config.image_mode}"
        if schema.columns:
            texts = listed([column.name for column in schema.columns if column.text])
            holds = f"Columns: {len(schema.columns)}{f', of which {texts} hold text' if texts else ''}"
        model, accepted = approval.language_model(config), study.config.tables.accept
        return _lines(
            f"{study.name}: silo {config.silo} {task}",
            *classes,
            more > 0 and f"And {more:,} more classes, which stand in {STUDY_FILE} in the study's folder",
            holds,
            (optional := study.config.may_be_missing) and f"Silos may lack these columns: {listed(optional)}",
            f"Public set: {len(study.public):,} examples without labels, which every silo and the coordinator have",
            f"Its SHA-256: {study.public.fingerprint.hex()}",
            model and f"SHA-256 of the language model in the learner's folder: {model}",
            accepted and f"This study disables these data checks, also for your table: {listed(accepted)}",
        )

    def _query(self) -> list[str]:
        """The SQL, each line numbered, so that none passes for a sentence of the page."""
        data = self.config.data
        if not data.query:
            return []
        return [
            f"Database: {data.database}",
            f"SHA-256 of the query: {query_digest(data)}",
            *(f"{number:3} | {line}" for number, line in enumerate(query_text(data).splitlines(), 1)),
        ]

    def _stated(self) -> list[str]:
        governance = self.study.config.governance
        return [
            f"{title}: {quoted(stated, 300) if (stated := getattr(governance, field)) else 'not stated'}"
            for field, title in STATED.items()
        ]

    def _leaves(self) -> list[str]:
        scores = "two" if self.study.schema.grid and not self.config.counts else "four"
        return _lines(
            f"The coordinator's address: {self.config.connection.superlink}",
            *(words_of(kind).leaves for kind in self._kinds),
            f"Test scores: {scores} numbers with each reply" if self.config.policy.metrics else "Test scores: none",
            # A sum takes several messages, of which most are longer than the reply that says it is ready.
            self._longest
            and not any(kind.added for kind in self._kinds)
            and f"At most {self._longest:,} bytes in one reply, if all public examples are asked about",
            "Also: the silo's name, and if it refuses a question, the number of the reason",
        )

    def _scores(self) -> list[str]:
        agreed = self.study.config.scores
        if not self.config.scores or agreed is None:
            return []
        return [
            "At a run's end this silo trains a model on the public labels alone, and counts its test records by class "
            "and by the class that this model gives them: one record of each patient",
            f"Each run with scores costs epsilon {agreed.epsilon:g} at delta {agreed.delta:g} of the budget below, and "
            "labels get the rest",
            "The personal model is not scored: one record that it learned from may change all its answers",
        ]

    def _counts(self) -> list[str]:
        agreed = self.study.config.count
        if self.config.noisy_kind != "count" or agreed is None:
            return []
        out = ", and none who has opted out" if self.config.records.opt_out else ""
        once = f"each patient once{out}" if self.config.grouped else "each record once, several of a person too"
        return [
            "The coordinator chooses each condition on the study's columns and the label, such as age >= 65. It learns "
            "about how many patients of all silos meet it",
            f"Each question costs epsilon {agreed.epsilon:g} at delta {agreed.delta:g} of the budget below, and the "
            "ledger is charged first",
            f"All records count that this silo trains on: {once}. Those of a test-file do not count",
        ]

    def _limits(self) -> list[str]:
        config, policy, size = self.config, self.config.policy, len(self.study.public)
        ours = self.study.name, self.study.public.fingerprint.hex()
        here = spent(entry for entry in self.entries if (entry.study, entry.public) == ours)
        other = [e for e in self.entries if e.event is Event.RELEASED and (e.study, e.public) != ours]
        numbers = sum(entry.queries for entry in other if entry.kind in ADDED)
        labels = sum(entry.queries for entry in other) - numbers
        elsewhere = [labels and count(labels, "label"), numbers and f"{count(numbers, 'number')} in sums"]
        allowed = min(policy.max_rounds, policy.max_queries // size, policy.max_bytes // max(1, self._longest))
        return _lines(
            *_totals(policy, here, self.config.leaving),
            policy.kinds == (HARD.policy,)
            and f"A round that asks about all public examples takes {size:,} labels and at most {self._longest:,} "
            f"bytes: the limits allow {allowed:,} such rounds",
            config.noisy_kind == "count"
            and f"Each question takes a round, so the limits allow {policy.max_rounds:,} questions at most",
            "A question counts as soon as it is let in, whether or not its answer leaves; refusals count in bytes",
            "Each new run asks again, also about the same examples, until a limit is reached",
            # No limit of this study counts them, though they tell of the same patients.
            *(f"Under other studies and public sets {those} left about these records" for those in elsewhere if those),
            not self.entries
            and "There is no egress log here yet, so all limits and budgets begin at nothing. If this silo has "
            "worked before, decline: its state folder is not mounted, or not restored",
        )

    def _over_all_studies(self) -> list[str]:
        """The limits that several studies share. Raises LedgerError if what they have used cannot be told."""
        records = self.config.records
        usage = SharedUsage.of(self.config) if records.folder else None
        if usage is None:
            return []
        used, studies = usage.spent()
        return _lines(
            *_totals(records, used),
            f"Epsilon: {spent_on_records(self.config)}",
            not self.config.always_answers
            and "This study has no protection: from its first labels on, that epsilon has no bound",
            f"Counted for {count(studies, 'silo folder')} in {records.folder}; this one is counted from its agent's "
            "start on, with all that has left before",
        )

    def _summands(self) -> list[str]:
        """Silos that add, and their keys: a sum hides a silo among others only if each of them has its own key."""
        sums = self.study.sums if self.config.policy.adds else None
        if not sums:
            return []
        keys = {silo: fingerprint_of(Ed25519PublicKey.from_public_bytes(key)) for silo, key in sums.keys.items()}
        return [
            *(f"{silo}: {fingerprint}" for silo, fingerprint in sorted(keys.items())),
            "The coordinator wrote this list. Compare it with the partners, such as by telephone, as each sees its own "
            "fingerprint here: with keys of its own under their names, the coordinator could open what this silo adds",
        ]

    def _stays(self) -> list[str]:
        return [
            "Records or columns of them, models, texts of errors, and any gradient or count that can be read by itself"
            if self.config.adds_noise
            else "Records or columns of them, models, weights, gradients, texts of errors",
            "Every message is written into the egress log before it leaves. Masked parts of sums are not kept, all "
            "else can be read: fedct silo released"
            if any(kind.added for kind in self._kinds)
            else "Every reply is written into the egress log before it leaves, and can be read: fedct silo released",
            "Code that the coordinator sends is never run",
        ]

    def _beware(self) -> list[str]:
        config = self.config
        model = "Labels come from a model that learned from these records, and can tell something about them"
        if config.adds_noise:
            made = {
                "draw": "set that is drawn from the sums: it tells",
                "count": "counts: they tell",
            }.get(config.noisy_kind, "model that the sums train: it tells")
            model = f"Everybody may have the {made} about a record no more than the sums do"
        return _lines(
            model,
            not config.counts
            and "The coordinator says what the others' labels are; false ones make this silo's own model worse",
            not config.counts and "The model of before the study is kept: fedct silo predict --model before",
            *(words_of(kind).beware for kind in self._kinds),
            "The promise above covers only what it says: fedct privacy-sheet names what is not covered"
            if config.promises or config.policy.sum_epsilon
            else "No differential privacy is guaranteed yet; the limits above are what keeps it little",
            "To withdraw the approval at any time: fedct silo revoke. Released labels cannot be called back",
        )

    # --- what differential privacy promises, or promised until now

    def _promises(self) -> list[str]:
        config, entries, promises = self.config, self.entries, approval.promises_of(self.config)
        sheets = sheets_of(config, self.study, entries) if promises else {}
        found = [line for name in sheets if name in promises for line in self._promised(promises[name], sheets[name])]
        for name, covers, what in (
            ("privacy", approval.covers_records, "differential privacy"),
            ("sums", approval.covers_silo, "noise in all sums for this silo as a whole"),
        ):
            if name not in promises and approval.was_promised(entries, covers):
                found.append(_NO_LONGER.format(what))
        return found

    def _promised(self, promise: approval.Promise, sheet: Sheet) -> list[str]:
        """A promise, what is spent of its budget, and the former budget if that was another."""
        config, account, bare = self.config, sheet.accounts[0], sheet.facts["unprotected"]
        weakness, of_records = None, promise.account == DATA_SET
        if of_records:
            weakness = weak_delta(promise.delta, self.units.number, unit_of(grouped=config.grouped))
        changed = (account.budget, account.delta) != (promise.epsilon, promise.delta)
        left = max(0.0, promise.epsilon - account.asked)
        spent = f"epsilon {account.asked:.3g} of {promise.epsilon:g}, {left:.3g} left"
        return _lines(
            *sheet.promised,
            of_records
            and config.grouped
            and f"A patient has {self.units.most} records here, in the column that silo.toml names",
            f"Spent so far: {spent if account.charges else f'nothing of epsilon {promise.epsilon:g}'}",
            together_words(account),
            changed
            and f"Approved before was epsilon {account.budget:g} at delta {account.delta:g}; from now on it is "
            f"{promise.epsilon:g} at {promise.delta:g}",
            not replace(account, epsilon=account.asked, budget=promise.epsilon).kept
            and "Warning: more is spent than this budget promises, so it cannot be approved: raise it",
            bare and f"Warning: {bare:,} labels have left without protection; nothing here covers them",
            weakness and f"Warning: {weakness}",
        )


def _totals(limits: object, used: Used, labels: str = "labels") -> Iterator[str]:
    for field, cap in TOTALS.items():
        title = labels.capitalize() if cap.name == "labels" else cap.title
        yield f"{title}: {getattr(limits, field):,}, of which {cap.of(used):,} are used"


def _of_each_question(kind: Kind, policy: Policy) -> Iterator[tuple[str, list[str]]]:
    """Limits of a policy that hold for each question of this kind: a title, and sentences below it."""
    if kind.added:
        yield (
            "Limits of each secure sum",
            [
                f"The coordinator can open only the sum of at least {policy.min_summands} silos",
                f"The coordinator together with {policy.may_collude} of them learns no other silo's part",
            ],
        )
    if kind.for_numbers:
        yield (
            f"Limits of each question for {kind.of}",
            [
                f"Others' {kind.of} count at most {policy.max_consensus_weight:g} against 1 for the silo's records, "
                "when its model learns from both"
            ],
        )
