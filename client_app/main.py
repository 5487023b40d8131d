"""Decode, one silo round, encode: the silo's ClientApp. Nothing but votes or a numbered refusal goes back."""

import hashlib
import logging
import struct
from typing import TYPE_CHECKING, Final, NamedTuple, Self

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from client_app.site import Site
from client_app.state import WRITING, set_back
from client_app.weights import train_on
from client_app.workplace import Workplace, open_workplace, silo_named
from fedct_flwr.atomic import write_atomically
from fedct_flwr.learners.base import Resumable, Saveable
from fedct_flwr.silo import cotrain, cotrain_softly
from fedct_flwr.types import ConfigError, DataError, HardLabels, TrainingError, Votes
from fedct_flwr.wire.codec import Instruction, Reply, decode_instruction, encode_refusal, encode_reply
from fedct_flwr.wire.messages import from_record, to_record
from fedct_flwr.wire.refusal import Refusal, Refused
from fedct_flwr.wire.weights import asks_for_weights

if TYPE_CHECKING:
    # Needs the extra privacy, which a study without protection does not.
    from client_app.release import Release

logger = logging.getLogger("flwr.fedct")

# Of the request, SHA-256; which model answered; the request's round; the length of the reply.
_HEADER: Final = struct.Struct("<32s32sII")
_RUN: Final = "run-"
_UNKNOWN_SILO: Final = "unknown"

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Answer one instruction. Never raises: Flower would pass the exception's text on to the coordinator."""
    silo = _UNKNOWN_SILO
    try:
        silo = silo_named(context)
        if asks_for_weights(message.content):
            workplace = open_workplace(context, resumable=False)
            return Message(train_on(message.content, workplace, context.run_id), reply_to=message)
        # First of all: a message without a question, by which a coordinator gets to know names, needs no learner.
        payload = from_record(message.content)
        reply = _answer_once(payload, open_workplace(context), context.run_id)
    except Refused as refused:
        logger.warning("Silo %s sends no labels: %s", silo, refused)
        reply = encode_refusal(silo, refused.reason)
    except ConfigError as error:
        logger.error("Silo %s: %s", silo, error)
        reply = encode_refusal(silo, Refusal.CONFIG)
    except DataError as error:
        logger.error("Silo %s: %s", silo, error)
        reply = encode_refusal(silo, Refusal.NO_DATA)
    except TrainingError as error:
        logger.error("Silo %s: %s", silo, error)
        reply = encode_refusal(silo, Refusal.TRAINING_FAILED)
    except Exception:
        logger.exception("Silo %s: an unexpected error", silo)
        reply = encode_refusal(silo, Refusal.INTERNAL)
    return Message(to_record(reply), reply_to=message)


def _answer_once(payload: bytes, workplace: Workplace, run_id: int) -> bytes:
    """The reply to an instruction; the same bytes again if it was asked before.

    The reply and what a learner trains on from are kept in one write: stopped before it, the silo that is asked again
    trains from where it stood before and answers the same. Raises Refused (ROUND) for a round that was answered
    already and is asked with other contents: two answers to one question would tell more than one.

    The very same instruction in another of Flower's runs, as after a resume, is the same question too: this run takes
    over the answer, and with it where the learner stood after it.
    """
    site, state = workplace.site, workplace.state
    name = f"{_RUN}{run_id}"
    digest = hashlib.sha256(payload).digest()
    last = _Answered.read(state.get(name))
    # With a protection, an answer that was kept back under other settings, without one, say, is none under these.
    mine = last and (workplace.release_of is None or last.model_digest == workplace.model_digest)
    if last and mine and last.digest == digest:
        # In case the silo was stopped between the two writes.
        _keep_model(workplace, last.progress)
        return last.reply
    instruction = decode_instruction(payload, site.terms)
    if last and instruction.round <= last.round:
        raise Refused(Refusal.ROUND)
    if earlier := _answered_elsewhere(digest, workplace):
        _keep(name, earlier, workplace)
        _keep_model(workplace, earlier.progress)
        return earlier.reply
    if instruction.votes:
        reply = encode_reply(
            Reply(instruction.round, site.silo, _student_votes(workplace, payload, instruction)), site.terms
        )
        _keep(name, _Answered(digest, workplace.model_digest, instruction.round, reply, None), workplace)
        return reply
    if instruction.soft and site.privacy.enabled:
        raise ConfigError(
            f"the coordinator asks for probabilities, which protection = {site.privacy.protection!r} does not cover"
        )
    kept = workplace.model if workplace.resumes and instruction.round > 1 else None
    set_back(site.learner, last.progress if last else None, kept)
    votes = _own_votes(site, instruction)
    if workplace.release_of:
        try:
            votes = _released(workplace, workplace.release_of(0), payload, instruction, votes)
        except Refused:
            # Nothing leaves; the silo's own model has learned all the same.
            _keep_model(workplace, site.learner if isinstance(site.learner, Saveable) else None)
            raise
    scores = site.scores() if workplace.sends_scores else None
    reply = encode_reply(Reply(instruction.round, site.silo, votes, scores), site.terms)
    progress = None
    if isinstance(site.learner, Resumable):
        progress = site.learner.dump()
    elif isinstance(site.learner, Saveable):
        _keep_model(workplace, site.learner)
    _keep(name, _Answered(digest, workplace.model_digest, instruction.round, reply, progress), workplace)
    # After the answer: a network begins with its model when it is asked in a run that was resumed.
    _keep_model(workplace, progress)
    return reply


def _own_votes(site: Site, instruction: Instruction) -> Votes:
    """What the personal model says after this round's training: labels, or probabilities where they are asked for."""
    if not instruction.soft:
        return cotrain(
            site.learner, site.private, site.public, instruction.targets, instruction.query, site.pseudo_weight
        )
    rounds, targets = instruction.soft.rounds, instruction.soft.targets
    return cotrain_softly(
        site.learner,
        site.private,
        site.public,
        site.public.X[targets.query.positions(len(site.public)) if targets else slice(0)],
        targets.probabilities if targets else None,
        instruction.query,
        weight=targets.weight if targets else 0.0,
        rounds=rounds,
        steps=site.settings.local_steps,
        num_classes=site.terms.num_classes,
    )


def _student_votes(workplace: Workplace, payload: bytes, instruction: Instruction) -> Votes:
    """What the silo's students vote. The personal model has no part in it: it is neither trained nor scored."""
    site = workplace.site
    if workplace.release_of:
        return _released(
            workplace, workplace.release_of(instruction.votes), payload, instruction, np.zeros(0, dtype=np.int16)
        )
    positions = instruction.query.positions(len(site.public))
    return site.students(instruction.votes, workplace.students).votes(site.private, site.public.X, positions, None)


def _released(
    workplace: Workplace, release: "Release", payload: bytes, instruction: Instruction, votes: HardLabels
) -> Votes:
    """What leaves in place of the personal model's labels, or of bare students' votes, as far as the budget goes."""
    from fedct_flwr.learners.labeler import Asked

    site = workplace.site
    positions = instruction.query.positions(len(site.public))
    return release.answer(payload, Asked(site.private, site.public.X, instruction.targets, votes, positions))


class _Answered(NamedTuple):
    """The last answer in a run: to what, in which round, and where the learner stood after it if it trains on."""

    digest: bytes
    model_digest: bytes
    round: int
    reply: bytes
    progress: bytes | None

    @classmethod
    def read(cls, kept: bytes | None) -> Self | None:
        if kept is None:
            return None
        digest, model_digest, number, length = _HEADER.unpack_from(kept)
        end = _HEADER.size + length
        return cls(digest, model_digest, number, kept[_HEADER.size : end], kept[end:] or None)

    def to_bytes(self) -> bytes:
        header = _HEADER.pack(self.digest, self.model_digest, self.round, len(self.reply))
        return header + self.reply + (self.progress or b"")


def _keep(name: str, answered: _Answered, workplace: Workplace) -> None:
    """Keep the last answer of a run, and those of few other runs: every resume is a run of its own."""
    state = workplace.state
    state.put(name, answered.to_bytes())
    others = [other for other in state.names(_RUN) if other != name]
    for other in others[workplace.runs_kept - 1 :]:
        state.drop(other)


def _answered_elsewhere(digest: bytes, workplace: Workplace) -> _Answered | None:
    """The answer to the same instruction as the last one of another run, given under the same settings of the model.

    Only headers are read of all others.
    """
    wanted = digest + workplace.model_digest
    for other in workplace.state.names(_RUN):
        header = workplace.state.get(other, _HEADER.size)
        if header and len(header) == _HEADER.size and header.startswith(wanted):
            return _Answered.read(workplace.state.get(other))
    return None


def _keep_model(workplace: Workplace, model: Saveable | bytes | None) -> None:
    """Write the silo's model, if it keeps one; bytes are what a network trains on from, which is its model."""
    path = workplace.model
    if path is None or model is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with WRITING:
            if isinstance(model, bytes):
                write_atomically(path, model)
            else:
                model.save(path)
    except (TrainingError, OSError) as error:
        # The labels are good all the same. Better no model than that of an earlier round, which nobody would notice.
        path.unlink(missing_ok=True)
        logger.warning("The model was not kept in %s: %s", path, error)
