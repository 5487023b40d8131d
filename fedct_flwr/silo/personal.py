"""A silo's personal model: it reads a question, learns the consensus, and answers. It never leaves."""

import contextlib
import math
import struct
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np

from fedct_flwr import learners, silo, wire
from fedct_flwr.files import write_atomically
from fedct_flwr.learners import Choosing, Grading, Learner, Markable, Resumable, Saveable
from fedct_flwr.learners.out_of_fold import Pseudo, chosen, fit_with
from fedct_flwr.learners.safeguard import Safeguard
from fedct_flwr.runs.records import keep_error
from fedct_flwr.scoring import both_accuracies, r_squared
from fedct_flwr.silo.context import Question, SiloContext
from fedct_flwr.silo.judgment import DecisionKey, Judge, Judgment, read_decision, safeguard_of, write_decision
from fedct_flwr.silo.site import WRITING, Site, set_back
from fedct_flwr.text.printable import logger
from fedct_flwr.types import (
    ABSTAIN,
    ConfigError,
    DataError,
    Examples,
    HardLabels,
    Refusal,
    Refused,
    TrainingError,
    Votes,
)
from fedct_flwr.wire.content import Fit, Instruction, Query, Scores
from fedct_flwr.wire.kinds import Kind

if TYPE_CHECKING:
    from fedct_flwr.datasets.federated import PublicSet

_TRIAL: Final = 50
"""Steps, rounded up to rounds, after which a network shows what the consensus does to it."""


def answer(kind: Kind, site: Site, instruction: Instruction) -> Votes:
    """Train the silo's own model for a round, and answer with it.

    Raises TrainingError, ConfigError for an answer that students give, Refused (QUERY) where nothing is learned.
    """
    if kind.inner:
        return answer(kind.inner, site, instruction)
    if not kind.own_model:
        raise ConfigError("students cast votes, not the silo's own model: ask for labels, or for votes of students")
    if kind.for_numbers:
        return silo.with_numbers(kind, site, instruction)
    if kind.added and kind is not wire.GRADIENTS:
        raise Refused(Refusal.QUERY)
    if kind.by_name:
        if (targets := kind.soft_targets(instruction)) is not None:
            return silo.with_shares(site, instruction, targets)
        check_learner(kind, site.learner)
    settings = site.settings
    trial = math.ceil(_TRIAL / settings.local_steps)
    records = site.private, site.public, instruction.targets, instruction.query
    return cotrain(site.learner, *records, settings.full_weight, site.safeguard, trial)


def check_learner(kind: Kind, learner: Learner) -> None:
    """Raise ConfigError for a learner that cannot give such answers, or cannot learn from them."""
    if kind.by_probabilities:
        learners.check_soft(learner)


def score(kind: Kind, learner: Learner, own: Examples, pooled: Examples) -> Scores | Fit:
    """Scores of a model on a silo's own and on the pooled test set."""
    if kind.scores is Fit:
        return Fit(r_squared(learner, own), r_squared(learner, pooled))
    return Scores(*both_accuracies(learner, own), *both_accuracies(learner, pooled))


def cotrain(
    learner: Learner,
    private: Examples,
    public: "PublicSet",
    targets: HardLabels,
    query: Query,
    pseudo_weight: float = 1.0,
    safeguard: Safeguard | None = None,
    trial: int = 1,
) -> HardLabels:
    """Train on private and pseudo-labeled examples, then label the queried ones: votes ``(query.size,)``.

    ``targets`` ``(num_public,)`` are the consensus labels, or ABSTAIN. A pseudo-labeled example weighs
    ``pseudo_weight``, a private one 1, unless a ``safeguard`` decides: of a learner that trains on, after ``trial``
    rounds of what the consensus does to it. Raises TrainingError (Abourayya et al., arXiv:2310.05696, Alg. 1).
    """
    positions = query.positions(len(public))
    if isinstance(learner, Choosing):
        learner.choose(private)
    if isinstance(learner, Grading):
        return learner.grade(private, public.X, targets, positions)
    if isinstance(learner, Resumable):
        if isinstance(safeguard, learners.NetworkSafeguard):
            trust = safeguard.weigh(learner, public.X, targets, trial)
            private, pseudo_weight = safeguard.training, trust.weight or pseudo_weight
            targets = targets if trust.weight else np.full_like(targets, ABSTAIN)
        learner.advance(private, public.X, targets, pseudo_weight)
        return learner.label(public.X, positions)
    weight = pseudo_weight
    if safeguard:
        weight = safeguard.trust(learner, public.X, targets).weight
        targets = safeguard.counted(learner, public.X, targets)
    labeled = np.flatnonzero(targets != ABSTAIN) if weight else np.zeros(0, dtype=np.intp)
    fit_with(learner, private, Pseudo(chosen(public.X, labeled), targets[labeled], weight))
    # A copy: a user's own learner may change what it is given.
    return learner.predict(public.X[positions])


_LEARNER: Final = "learner-"
# Of the last question that was learned, SHA-256; of the settings it was learned under.
_HEADER: Final = struct.Struct("<32s32s")
_ROUNDS_ALONE: Final = 10
"""A model that trains on from round to round has as many before the study as a run has by default."""


class Personal:
    """The personal model in one of Flower's runs: ``votes`` learns and answers, ``keep`` makes that last."""

    def __init__(self, context: SiloContext, run_id: int) -> None:
        self._context = context
        self._site = context.site
        self._name = f"{_LEARNER}{run_id}"
        self._learned = b""
        self._judge = Judge(
            context.site,
            context.state,
            context.model_digest.hex()[:16],
            real=not context.simulated,
            keeps=context.model is not None,
        )
        self._taken_over = False
        public = context.site.terms.public_fingerprint
        self._subject = DecisionKey(run_id, context.model_digest, public, context.site.private)

    def votes(self, question: Question) -> Votes:
        """Learn the targets of a question, and label what it asks about. Raises TrainingError or ConfigError."""
        learner, state = self._site.learner, _State.read(self._context.state.get(self._name))
        resumed = self._context.resumes and question.instruction.round > 1
        mine = state.progress if state and state.model_digest == self._context.model_digest else None
        fresh = set_back(learner, mine or None, self._context.model if resumed else None)
        rounds = silo.warm_up_alone(self._site, promised=self._promised(question)) if fresh else 0
        if rounds:
            logger.info("Silo %s: %s rounds on its own records before its first answer", self._site.silo, rounds)
        if isinstance(learner, Choosing):
            learner.choose(self._site.private, self._site.groups)
        self._judge.before(question)
        safeguard = safeguard_of(question.kind, self._site)
        if isinstance(safeguard, Safeguard):
            path, resumed = self._context.decision, self._context.resumes
            asked = question.instruction.round
            safeguard.before = read_decision(path, self._subject, asked, resumed=resumed) if path else None
        votes = answer(question.kind, self._site, question.instruction)
        if isinstance(safeguard, Safeguard) and question.teaches:
            safeguard.date(question.instruction.round)
        self._learned = question.digest
        return votes

    def keep(self, question: Question) -> None:
        """Write the model that has learned a question, and where it stands. Never raises: nothing of it is to leave."""
        self._write_judgment(question)
        learner, now = self._site.learner, (question.digest, self._context.model_digest)
        if not (isinstance(learner, Resumable) or (isinstance(learner, Saveable) and self._context.model)):
            return
        try:
            state = _State.read(self._context.state.get(self._name))
            learned = state is not None and state[:2] == now
            # In a run that has taken it over, the model on disk may be that of a run in between.
            if not learned or self._taken_over:
                known = self._learned == question.digest
                progress = self._progress(state if learned else None, question)
                if not known:
                    # Where a protection's labeler answers by itself, the model has learned only now.
                    self._write_judgment(question)
                self._write(self._context.model, learner, progress, question.instruction.round)
                self._context.state.put(self._name, _State(*now, progress).to_bytes())
                self._forget_others()
            self._keep_before(question)
        except TrainingError as error:
            logger.error("Silo %s: its own model did not learn this round: %s", self._site.silo, error)
        except Exception:
            logger.exception("Silo %s: its own model did not learn this round", self._site.silo)

    def _promised(self, question: Question) -> bool:
        return bool(question.instruction.noise or self._context.release)

    def take_over(self, run_id: int) -> None:
        """Go on from where the model stood in another run, of which this one is the continuation."""
        self._taken_over = True
        state = self._context.state
        if (kept := state.get(f"{_LEARNER}{run_id}")) is not None:
            state.put(self._name, kept)

    def _progress(self, learned: "_State | None", question: Question) -> bytes:
        """State of a network after a question; empty for other learners. Raises TrainingError or ConfigError."""
        if learned and learned.progress:
            return learned.progress
        if self._learned != question.digest:
            self.votes(question)
        learner = self._site.learner
        if self._context.in_process and isinstance(learner, Markable):
            return learner.mark()
        return learner.dump() if isinstance(learner, Resumable) else b""

    def _keep_before(self, question: Question) -> None:
        """Keep a model of the silo's own records alone, once in a study and last of all: a network takes long."""
        path, learner, site = self._context.before, self._site.learner, self._site
        if path is None or path.exists() or not isinstance(learner, Saveable):
            return
        try:
            if isinstance(learner, Resumable):
                learner.reset()
                # With a safeguard of its own: what the run has decided stays as it is.
                silo.train_alone(replace(site), _ROUNDS_ALONE, promised=self._promised(question))
            else:
                learner.fit(*site.private)
            with WRITING:
                learner.save(path)
        except (TrainingError, OSError) as error:
            logger.warning("Silo %s: the model of before the study was not kept in %s: %s", site.silo, path, error)

    def _write_judgment(self, question: Question) -> None:
        """Write the silo's judgment of the consensus, and its safeguard's decision, next to its model.

        Nothing for a question that was not learned here. Logs errors of the learner and of the disk, and raises none.
        """
        path = self._context.judgment
        if path is None or self._learned != question.digest:
            return
        try:
            found = self._judge.after(question, Judgment.read(path))
            if found.says_something:
                with WRITING:
                    found.write(path)
            safeguard = safeguard_of(question.kind, self._site)
            decided = safeguard.decision if isinstance(safeguard, Safeguard) else None
            if decided and decided.round == question.instruction.round and self._context.decision:
                with WRITING:
                    write_decision(self._context.decision, self._subject, decided)
        except (DataError, TrainingError, OSError) as error:
            logger.warning("Silo %s: what it makes of the consensus was not kept: %s", self._site.silo, error)

    def _write(self, path: Path | None, model: object, progress: bytes, round_: int) -> None:
        """Write the silo's model, if it keeps one; where a network trains on from is its model."""
        if path is None or not isinstance(model, Saveable):
            return
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            with WRITING:
                if progress:
                    write_atomically(path, progress)
                else:
                    model.save(path)
        except (TrainingError, OSError) as error:
            logger.warning("The model was not kept in %s: %s", path, error)
            if self._context.run:
                keep_error(self._context.run, round_, self._site.silo, error)
            # Better no model than an outdated one that looks current.
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)

    def _forget_others(self) -> None:
        """Drop old networks' states: they are large, and every resume is a run of its own."""
        others = [name for name in self._context.state.names(_LEARNER) if name != self._name]
        for name in others[self._context.runs_kept - 1 :]:
            self._context.state.drop(name)


class _State(NamedTuple):
    """The last learned question, the settings of the model, and the network's state after it."""

    digest: bytes
    model_digest: bytes
    progress: bytes

    @classmethod
    def read(cls, kept: bytes | None) -> Self | None:
        if kept is None:
            return None
        digest, model_digest = _HEADER.unpack_from(kept)
        return cls(digest, model_digest, kept[_HEADER.size :])

    def to_bytes(self) -> bytes:
        return _HEADER.pack(self.digest, self.model_digest) + self.progress
