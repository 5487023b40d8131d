"""A silo's personal model: it learns the consensus, and answers. It never leaves."""

import base64
import contextlib
import hashlib
import json
import struct
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

import numpy as np

from fedct_flwr import silo
from fedct_flwr.files import UNREADABLE, write_atomically
from fedct_flwr.learners import Choosing, Markable, Resumable, Saveable
from fedct_flwr.learners.out_of_fold import Evidence
from fedct_flwr.learners.safeguard import Decision, Safeguard, Trust
from fedct_flwr.runs.records import keep_error
from fedct_flwr.silo.answers import Question, answer, safeguard_of
from fedct_flwr.silo.context import SiloContext
from fedct_flwr.silo.judgment import STORED, Judge, Judgment
from fedct_flwr.silo.site import WRITING, set_back
from fedct_flwr.text.printable import logger
from fedct_flwr.types import LABEL_DTYPE, DataError, Examples, TrainingError, Votes


class DecisionKey(NamedTuple):
    """Subject of a decision: one of Flower's runs, the settings of the model, the public set, the silo's records."""

    run_id: int
    model_digest: bytes
    public_fingerprint: bytes
    private: Examples

    def facts(self) -> dict[str, Any]:
        """The subject in the file; records are a digest of their classes, which changes when some are added or gone."""
        records = hashlib.sha256(self.private.y.tobytes()).hexdigest()
        public = self.public_fingerprint.hex()
        return {"run": self.run_id, "model": self.model_digest.hex(), "public": public, "records": records}


def write_decision(path: Path, subject: DecisionKey, decision: Decision) -> None:
    """Write a decision. Raises OSError."""
    trust = decision.trust
    labels = base64.b64encode(decision.targets.astype(STORED).tobytes()).decode()
    decided = {
        "weight": trust.weight,
        "evidence": trust.evidence,
        "foreign": trust.foreign,
        "round": decision.round,
        "labels": labels,
    }
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, json.dumps({**subject.facts(), **decided}).encode())


def read_decision(path: Path, subject: DecisionKey, round_: int, *, resumed: bool) -> Decision | None:
    """The decision in the file, if it is on this subject and not from a later round, else None.

    In a ``resumed`` run the run's number may differ, as Flower gives it another one. A damaged file counts as none.
    """
    try:
        raw = json.loads(path.read_text("utf-8"))
        wanted = subject.facts()
        if resumed:
            wanted["run"] = raw["run"]
        if raw["round"] > round_ or any(raw[name] != value for name, value in wanted.items()):
            return None
        evidence = Evidence(*raw["evidence"]) if raw["evidence"] else None
        targets = np.frombuffer(base64.b64decode(raw["labels"]), dtype=STORED).astype(LABEL_DTYPE)
        return Decision(Trust(raw["weight"], evidence, raw["foreign"]), targets, raw["round"])
    except UNREADABLE:
        return None


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
        """Write what the silo makes of the consensus, for itself alone."""
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
