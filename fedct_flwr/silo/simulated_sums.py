"""A simulated silo's replies to the messages of secure sums."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from flwr.app import Context, Message

from fedct_flwr import datasets, secure_sum
from fedct_flwr.config.run import RunConfig
from fedct_flwr.silo.opening import open_silo_context
from fedct_flwr.silo.site import ContextState, LocalState
from fedct_flwr.silo.summing import Ready
from fedct_flwr.types import Refused
from fedct_flwr.wire.messages import from_record, to_record

if TYPE_CHECKING:
    from fedct_flwr.secure_sum.silo import Contribution, SumClient

_SESSION: Final = "session-of-sums"


def answer_sum(message: Message, summand: "SumClient", contribution: "Contribution") -> Message:
    """The reply to any message of a secure sum. ``summand`` outlives it: it keeps the session's keys in memory."""
    try:
        request = from_record(message.content)
    except Refused:
        request = b""  # refused by the silo like any other bytes that are no request
    return Message(to_record(summand.answer(request, contribution)), reply_to=message)


@dataclass(frozen=True)
class SimulatedSums:
    """A simulated silo's part: it finds in ``memory`` what it has to remember of the session."""

    summand: "SumClient"
    ready: Ready
    memory: LocalState

    def answer(self, message: Message) -> Message:
        """The reply to a message of sums."""
        if (kept := self.memory.get(_SESSION)) is not None:
            secure_sum.remind(self.summand, kept)
        reply = answer_sum(message, self.summand, self.ready)
        self.memory.put(_SESSION, secure_sum.to_bytes(self.summand))
        return reply


def sums_at(context: Context) -> SimulatedSums:
    """The part of the silo that a message is for. Raises ConfigError or DataError."""
    here = open_silo_context(context)
    config = RunConfig.from_flower(context.run_config)
    silo, names = here.site.silo, config.roster or [silo.name for silo in datasets.load(config).silos]
    summand = secure_sum.SumClient(
        silo, secure_sum.simulated_key(config, silo), secure_sum.simulated_terms(config, names)
    )
    return SimulatedSums(summand, Ready(here.state), ContextState(context.state))


def refused_sum() -> bytes:
    """The reply of a silo that cannot take part."""
    return secure_sum.refusal(secure_sum.SumRefused(secure_sum.Fault.TERMS))
