"""One message at a silo: the silo that it is for is opened, and an instruction's bytes become a reply's.

Of Flower's messages it knows the context alone.
"""

import os
import struct
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

import numpy as np
from flwr.app import Context

from fedct_flwr import labelers, secure_sum, silo, wire
from fedct_flwr.config.run import NodeConfig, RunConfig
from fedct_flwr.silo.context import Question, SiloContext
from fedct_flwr.silo.personal import Personal, score
from fedct_flwr.silo.summing import Ready
from fedct_flwr.text.printable import logger
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, ConfigError, HardLabels, Refusal, Refused, SiloName, Votes
from fedct_flwr.wire.codec import encode_reply
from fedct_flwr.wire.content import Reply
from fedct_flwr.wire.kinds import NOTHING

if TYPE_CHECKING:
    # Needs the extra privacy, which a study without protection does not.
    from fedct_flwr.labelers.labeler import Asked
    from fedct_flwr.runs.run_folder import RunFolder
    from fedct_flwr.silo.own import OwnSilo
    from fedct_flwr.silo.release import Release
    from fedct_flwr.silo.site import LocalState, Site

WITHOUT_GATE: Final = "FEDCT_WITHOUT_GATE"
"""Set to 1, a real silo answers without a gate and without a log: for measurements and tests only."""

_Config = TypeVar("_Config", RunConfig, NodeConfig)

_AFTERWARDS: Final[ContextVar[list[Callable[[], None]] | None]] = ContextVar("afterwards", default=None)
"""Work for after the answer has left; None outside of ``gated``."""
_OWN: Final["ContextVar[OwnSilo | None]"] = ContextVar("own", default=None)
"""The silo of the gate, as it has read it."""


def silo_named(context: Context) -> SiloName:
    """The name of the silo that must answer. Raises ConfigError, or DataError for unreadable data."""
    node = _node(context)
    if node.silo_file:
        return _own(node.silo_file).config.silo
    return silo.simulated_silo(_run_config(context), node.partition_id or 0).name


def open_silo_context(context: Context, *, resumable: bool = True) -> SiloContext:
    """All that is needed to answer a message. Raises ConfigError or DataError.

    ``resumable``: what a simulated silo keeps must outlast one of Flower's runs. A real silo answers only within
    ``gated``: a stock SuperNode, which runs this app by itself, has no gate and writes no log.
    """
    node = _node(context)
    if node.silo_file:
        if not (_AFTERWARDS.get() is not None or os.environ.get(WITHOUT_GATE) == "1"):
            raise ConfigError(
                "a real silo answers only through its gate: start its agent with 'fedct silo start', and the SuperNode "
                "with 'fedct silo connect'"
            )
        return silo.own_context(_own(node.silo_file), context)
    return silo.simulated_context(_run_config(context), node.partition_id or 0, context, resumable=resumable)


def run_of_simulation(context: Context) -> "RunFolder | None":
    """The run's folder, if the silo is a simulated one and has it on this machine; a real silo has none."""
    return None if _node(context).silo_file else silo.run_folder_of(_run_config(context), context.run_id)


@contextmanager
def gated(own: "OwnSilo | None" = None) -> Iterator[list[Callable[[], None]]]:
    """Mark this thread as gated: a real silo (``own``) answers, and the gate does further work once the answer left."""
    afterwards: list[Callable[[], None]] = []
    before, former = _AFTERWARDS.set(afterwards), _OWN.set(own)
    try:
        yield afterwards
    finally:
        _AFTERWARDS.reset(before)
        _OWN.reset(former)


def once_left(work: Callable[[], None]) -> None:
    """Do some work once the answer has left: later, where there is a gate, and otherwise at once."""
    afterwards = _AFTERWARDS.get()
    if afterwards is None:
        work()
    else:
        afterwards.append(work)


def _own(silo_file: Path) -> "OwnSilo":
    """The silo of a message: the gate's, or without an agent the one that was read first. Raises ConfigError."""
    return _OWN.get() or silo.read_once(silo_file)


def _run_config(context: Context) -> RunConfig:
    """The run config of a message. Raises ConfigError."""
    return _read_once(RunConfig, context.run_config)


def _node(context: Context) -> NodeConfig:
    """The node config of a message. Raises ConfigError."""
    return _read_once(NodeConfig, context.node_config)


def _read_once(kind: type[_Config], raw: Mapping[str, Any]) -> _Config:
    """A process reads each config once, however many messages and silos it serves."""
    return _read(kind, tuple((name, type(value), value) for name, value in raw.items()))  # type: ignore[return-value]


@lru_cache(maxsize=2048)
def _read(kind: type[RunConfig | NodeConfig], items: tuple[tuple[str, type, Any], ...]) -> RunConfig | NodeConfig:
    return kind.from_flower({name: value for name, _, value in items})


_NO_VOTES: Final[HardLabels] = np.zeros(0, dtype=LABEL_DTYPE)
"""Votes of a personal model that has no part in an answer."""


def answer(payload: bytes, context: SiloContext, run_id: int) -> tuple[bytes, Callable[[], None]]:
    """The reply to an instruction, the same bytes again if it was asked before; and work for after it has left.

    Raises Refused (ROUND) for a round that was answered already and is asked with other contents: two answers to one
    question would tell more than one. The same instruction in another of Flower's runs, as after a resume, is the same
    question: this run takes over the answer, and where the learner stood after it. Without a promise, an answer is made
    again once records are gone, as after an opt-out.
    """
    answers, personal = KeptAnswers(context.state), Personal(context, run_id)
    question = Question.asked(payload, context)
    instruction, kind = question.instruction, question.kind
    learns = kind.own_model and not instruction.asks_of_records
    afterwards = partial(personal.keep, question) if learns else _nothing
    last = answers.last(run_id)
    # With a protection, an answer that was kept back under other settings, without one, say, is none under these. Nor
    # is one that waits for a sum: what is approved now would not be what is added.
    as_now = context.release_of is not None or kind.added
    mine = last and (not as_now or last.made_by == context.answer_digest)
    if last and mine and last.digest == question.digest:
        # A question of long ago that is repeated must not undo what was learned since.
        return last.reply, afterwards if answers.is_newest(run_id) else _nothing
    if last and instruction.round <= last.round:
        raise Refused(Refusal.ROUND)
    if elsewhere := answers.elsewhere(question.digest, context.answer_digest):
        other, last = elsewhere
        personal.take_over(other)
    else:
        reply = _new_reply(question, context, personal)
        last = Answered(question.digest, context.answer_digest, instruction.round, reply)
    answers.keep(run_id, last)
    return last.reply, afterwards


def _nothing() -> None:
    """No work after the answer has left."""


def _new_reply(question: Question, context: SiloContext, personal: Personal) -> bytes:
    """The reply to a question that was not answered before. Raises Refused, ConfigError or TrainingError."""
    site, instruction, kind = context.site, question.instruction, question.kind
    if instruction.noise and context.noise_adder_of is None:
        raise Refused(Refusal.POLICY)
    if instruction.asks_of_records:
        return _added(question, context)
    if kind.added and kind is wire.GRADIENTS and context.purse_of and context.purse_of().real:
        # The answer only says that the step was heard: the model learns afterwards, and whether it could stays secret.
        return encode_reply(Reply(instruction.round, site.silo, NOTHING), site.terms)
    if not kind.own_model:
        return _reply(question, context, _student_votes(question, context))
    if context.release is None:
        votes, learned = _own_votes(question, context, personal, promised=bool(instruction.noise))
        return _reply(question, context, votes, scored=learned)
    if kind.for_numbers:
        what = f"which protection = {site.privacy.protection!r} does not cover"
        raise ConfigError(f"the coordinator asks for {kind.of}, {what}")
    return _protected_reply(question, context, context.release, personal)


def _voted(context: SiloContext, vote: Callable[[], Votes], *, promised: bool, otherwise: Votes) -> tuple[Votes, bool]:
    """Votes of the silo's models, and whether they could vote. Raises TrainingError or ConfigError unless ``promised``.

    Under a guarantee a missing answer would tell of a record.
    """
    if not promised:
        return vote(), True
    try:
        return vote(), True
    except Exception:
        logger.exception("Silo %s: its own model could not answer; the coordinator is not told", context.site.silo)
        return otherwise, False


def _own_votes(question: Question, context: SiloContext, personal: Personal, *, promised: bool) -> tuple[Votes, bool]:
    abstaining = np.full(question.instruction.query.size, ABSTAIN, dtype=LABEL_DTYPE)
    return _voted(context, partial(personal.votes, question), promised=promised, otherwise=abstaining)


def _added(question: Question, context: SiloContext) -> bytes:
    """The reply where silos add with noise for records: what the silo adds is ready. Raises Refused, ConfigError."""
    site, instruction, kind = context.site, question.instruction, question.kind
    if not isinstance(kind, wire.RecordSum) or context.purse_of is None:
        raise Refused(Refusal.POLICY)
    if instruction.joint is not None:
        vector = silo.noisy_gradient(site, instruction.joint, context.purse_of(), question.payload)
    elif instruction.histograms is None or context.study_of is None:
        raise Refused(Refusal.POLICY)
    else:
        vector = silo.noisy_counts(site, context.study_of(), instruction, context.purse_of(), question.payload)
    shape = secure_sum.shape_of_records(kind, instruction, question.subject)
    Ready(context.state).keep(vector, shape, context.runs_kept)
    return encode_reply(Reply(instruction.round, site.silo, NOTHING), site.terms)


def _protected_reply(question: Question, context: SiloContext, release: "Release", personal: Personal) -> bytes:
    """The labeler's labels, which alone decide whether there is a reply and what it is.

    So the personal model learns afterwards, unless the labeler reads its labels, or a simulation wants its scores.
    """
    learned = False
    votes: Votes = _NO_VOTES
    if release.labeler.reads_votes or context.sends_scores:
        votes, learned = _own_votes(question, context, personal, promised=True)
    return _reply(question, context, _released(question, context, release, votes), scored=learned)


def _student_votes(question: Question, context: SiloContext) -> Votes:
    """Votes of the silo's students. The personal model is neither trained nor scored."""
    site, instruction = context.site, question.instruction
    if release := context.release_of_students(instruction.votes):
        return _released(question, context, release)

    def votes() -> Votes:
        return site.students(instruction.votes).answer(_asked(question, site), None)

    nothing = np.zeros((instruction.query.size, site.terms.width), dtype=np.int32)
    return _voted(context, votes, promised=bool(instruction.noise), otherwise=nothing)[0]


def _released(question: Question, context: SiloContext, release: "Release", votes: HardLabels = _NO_VOTES) -> Votes:
    """The protected answer of labeler or students, charged to the ledger; a repeated question costs nothing.

    ``votes`` are the personal model's labels, for a labeler that reads them. Raises Refused once the budget is spent.
    """
    return release.answer(question.payload, _asked(question, context.site, votes))


def _asked(question: Question, site: "Site", votes: HardLabels = _NO_VOTES) -> "Asked":
    """The question to a labeler or to students; ``votes`` are the personal model's, where the labeler reads them."""
    positions = question.instruction.query.positions(len(site.public))
    return labelers.Asked(site.private, site.public.X, question.instruction.targets, votes, positions, site.groups)


def _reply(question: Question, context: SiloContext, votes: Votes, *, scored: bool = False) -> bytes:
    """One reply; ``scored``: with the personal model's test scores, where they may leave and are asked for."""
    site, instruction, kind = context.site, question.instruction, question.kind
    if kind.added and isinstance(kind, wire.Summed):
        shape = secure_sum.shape_of_votes(kind, instruction, site.terms, question.subject)
        vector = secure_sum.summand(votes, instruction, site.terms)
        if instruction.noise:
            if context.noise_adder_of is None:
                raise Refused(Refusal.POLICY)
            vector = silo.with_noise(vector, instruction, site.terms, context.noise_adder_of(), question.payload)
        Ready(context.state).keep(vector, shape, context.runs_kept)
    if kind.added:
        votes = NOTHING
    # Test scores are of classes, or of values.
    sends = scored and context.sends_scores and not site.schema.follow_up
    scores = score(kind, site.learner, site.own_test, site.pooled_test) if sends else None
    if scores and site.leaves_out:
        # A share of a small test set tells its size, and two sizes how many patients have opted out in between.
        scores = type(scores)(*(round(number, 2) for number in scores))
    return encode_reply(Reply(instruction.round, site.silo, votes, scores), site.terms)


# Of the request, SHA-256; settings and records that answered; the request's round; the length of the reply.
_HEADER: Final = struct.Struct("<32s32sII")
_RUN: Final = "run-"


class Answered(NamedTuple):
    """The last answer in a run: to which question (``digest``), by what (``made_by``), 32 bytes each."""

    digest: bytes
    made_by: bytes
    round: int
    reply: bytes

    @classmethod
    def read(cls, kept: bytes | None) -> Self | None:
        """Read the bytes of ``to_bytes``."""
        if kept is None:
            return None
        digest, made_by, number, length = _HEADER.unpack_from(kept)
        return cls(digest, made_by, number, kept[_HEADER.size : _HEADER.size + length])

    def to_bytes(self) -> bytes:
        """Bytes for ``read``."""
        return _HEADER.pack(self.digest, self.made_by, self.round, len(self.reply)) + self.reply


class KeptAnswers:
    """The last answers of all of Flower's runs that ever asked this silo. None is forgotten: each is a few bytes."""

    def __init__(self, state: "LocalState") -> None:
        self._state = state

    def last(self, run_id: int) -> Answered | None:
        """The last answer in a run."""
        return Answered.read(self._state.get(_name(run_id)))

    def keep(self, run_id: int, answered: Answered) -> None:
        """Make it the last answer of a run. Raises OSError."""
        self._state.put(_name(run_id), answered.to_bytes())

    def is_newest(self, run_id: int) -> bool:
        """Whether no other run has an answer that was kept later."""
        return self._state.names(_RUN)[:1] == [_name(run_id)]

    def elsewhere(self, digest: bytes, made_by: bytes) -> tuple[int, Answered] | None:
        """The run whose last question was this one, with the answer that the same settings and records gave."""
        for name in self._state.names(_RUN):
            header = self._state.get(name, _HEADER.size)
            if header and len(header) == _HEADER.size and header.startswith(digest + made_by):
                found = Answered.read(self._state.get(name))
                return (int(name.removeprefix(_RUN)), found) if found else None
        return None


def _name(run_id: int) -> str:
    return f"{_RUN}{run_id}"
