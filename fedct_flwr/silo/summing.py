"""A silo's answer to a message of secure sums that came over Flower."""

from flwr.app import Message

from fedct_flwr.secure_sum.silo import Contribution, Summand
from fedct_flwr.wire.messages import from_record, to_record
from fedct_flwr.wire.refusal import Refused


def answer_sum(message: Message, summand: Summand, contribution: Contribution) -> Message:
    """The reply to any message of ``@app.query("secure_sum")``: what the sum needs, or a refusal by number.

    ``summand`` must outlive the message, as it keeps the session's keys in memory: so this is for ClientApps that stay
    in one process, on the loopback and in an agent. Flower's simulation engine may give each message to another one.
    """
    try:
        request = from_record(message.content)
    except Refused:
        request = b""  # refused by the silo like any other bytes that are no request
    return Message(to_record(summand.answer(request, contribution)), reply_to=message)
