"""The silo's ClientApp: one silo round for each instruction. Nothing but votes or a numbered refusal goes back."""

import contextlib
from collections.abc import Mapping
from typing import Final

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from fedct_flwr import secure_sum, silo
from fedct_flwr.runs.records import keep_error
from fedct_flwr.silo.round import answer, once_left, open_silo_context, run_of_simulation, silo_named
from fedct_flwr.text.printable import logger
from fedct_flwr.types import ConfigError, DataError, Refusal, Refused, SiloName, TrainingError
from fedct_flwr.wire.codec import encode_refusal
from fedct_flwr.wire.messages import ACTION, asks_for_weights, from_record, to_record

_UNKNOWN_SILO: Final = "unknown"
_REASONS: Final[Mapping[type[Exception], Refusal]] = {
    ConfigError: Refusal.CONFIG, DataError: Refusal.NO_DATA, TrainingError: Refusal.TRAINING_FAILED
}  # fmt: skip

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Answer one instruction. Never raises: Flower would pass the exception's text on to the coordinator."""
    name = _UNKNOWN_SILO
    try:
        name = silo_named(context)
        if asks_for_weights(message.content):
            here = open_silo_context(context, resumable=False)
            return Message(silo.train_on(message.content, here, context.run_id), reply_to=message)
        # First of all: a message without a question, by which a coordinator gets to know names, needs no learner.
        payload = from_record(message.content)
        reply, afterwards = answer(payload, open_silo_context(context), context.run_id)
        once_left(afterwards)
    except Refused as refused:
        logger.warning("Silo %s sends no labels: %s", name, refused)
        reply = encode_refusal(name, refused.reason)
    except (ConfigError, DataError, TrainingError) as error:
        logger.error("Silo %s: %s", name, error)
        _tell(message, context, name, error)
        reply = encode_refusal(name, next(reason for kind, reason in _REASONS.items() if isinstance(error, kind)))
    except Exception as error:
        logger.exception("Silo %s: an unexpected error", name)
        _tell(message, context, name, error)
        reply = encode_refusal(name, Refusal.INTERNAL)
    return Message(to_record(reply), reply_to=message)


@app.query(ACTION)
def add(message: Message, context: Context) -> Message:
    """Answer one message of a secure sum. Never raises, as above."""
    try:
        return silo.add_in_sum(message, context)
    except Exception:
        logger.exception("A silo takes no part in a secure sum")
        refused = secure_sum.refusal(secure_sum.SumRefused(secure_sum.Fault.TERMS))
        return Message(to_record(refused), reply_to=message)


def _tell(message: Message, context: Context, name: SiloName, error: Exception) -> None:
    """Let the user of a simulation read what went wrong, in the run's folder. Nothing of it is in a message."""
    number = message.metadata.group_id
    # A failure here must not replace the answer.
    with contextlib.suppress(Exception):
        if name != _UNKNOWN_SILO and number.isdecimal() and (folder := run_of_simulation(context)):
            keep_error(folder, int(number), name, error)
