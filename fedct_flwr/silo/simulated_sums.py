"""A simulated silo's replies to the messages of secure sums."""

from dataclasses import dataclass
from typing import Final

from flwr.app import Context, Message

from fedct_flwr import datasets
from fedct_flwr.config.run import RunConfig
from fedct_flwr.secure_sum.faults import Fault, SumRefused
from fedct_flwr.secure_sum.silo import Contribution, SumClient, refusal, remind, to_bytes
from fedct_flwr.secure_sum.simulated import simulated_key, simulated_terms
from fedct_flwr.silo.opening import open_silo_context
from fedct_flwr.silo.site import ContextState, LocalState
from fedct_flwr.silo.summing import Ready
from fedct_flwr.types import Refused
from fedct_flwr.wire.messages import from_record, to_record

_SESSION: Final = "session-of-sums"


def answer_sum(message: Message, summand: SumClient, contribution: Contribution) -> Message:
    """The reply to any message of a secure sum. ``summand`` outlives it: it keeps the session's keys in memory."""
    try:
        request = from_record(message.content)
    except Refused:
        request = b""  # refused by the silo like any other bytes that are no request
    return Message(to_record(summand.answer(request, contribution)), reply_to=message)


@dataclass(frozen=True)
class SimulatedSums:
    """A simulated silo's part: it finds in ``memory`` what it has to remember of the session."""

    summand: SumClient
    ready: Ready
    memory: LocalState

    def answer(self, message: Message) -> Message:
        """The reply to a message of sums."""
        if (kept := self.memory.get(_SESSION)) is not None:
            remind(self.summand, kept)
        reply = answer_sum(message, self.summand, self.ready)
        self.memory.put(_SESSION, to_bytes(self.summand))
        return reply


def sums_at(context: Context) -> SimulatedSums:
    """The part of the silo that a message is for. Raises ConfigError or DataError."""
    here = open_silo_context(context)
    config = RunConfig.from_flower(context.run_config)
    silo, names = here.site.silo, config.roster or [silo.name for silo in datasets.load(config).silos]
    summand = SumClient(silo, simulated_key(config, silo), simulated_terms(config, names))
    return SimulatedSums(summand, Ready(here.state), ContextState(context.state))


def refused_sum() -> bytes:
    """The reply of a silo that cannot take part."""
    return refusal(SumRefused(Fault.TERMS))
