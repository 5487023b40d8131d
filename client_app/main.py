"""Decode, one silo round, encode: the silo's ClientApp. Nothing but labels or a numbered refusal goes back."""

import hashlib
import logging
import struct
from pathlib import Path
from typing import Final

from flwr.app import Context, Message
from flwr.clientapp import ClientApp

from client_app.site import Site, check_agreed, model_path, open_site, silo_name
from client_app.state import ContextState, FolderState, LocalState, set_back
from client_app.weights import train_on
from fedct_flwr.config import NodeConfig, RunConfig
from fedct_flwr.learners.base import Learner, Resumable, Saveable
from fedct_flwr.silo import cotrain
from fedct_flwr.types import ConfigError, DataError, TrainingError
from fedct_flwr.wire.codec import Reply, Terms, decode_instruction, encode_reply
from fedct_flwr.wire.messages import from_record, to_record
from fedct_flwr.wire.refusal import Refusal, Refused
from fedct_flwr.wire.weights import asks_for_weights

logger = logging.getLogger("flwr.fedct")

_HEADER: Final = struct.Struct("<32sI")
_UNKNOWN_SILO: Final = "unknown"

app = ClientApp()


@app.train()
def train(message: Message, context: Context) -> Message:
    """Answer one instruction. Never raises: Flower would pass the exception's text on to the coordinator."""
    silo = _UNKNOWN_SILO
    try:
        config = RunConfig.from_flower(context.run_config)
        node = NodeConfig.from_flower(context.node_config)
        silo = silo_name(config, node)
        check_agreed(config, node)
        site = open_site(config, silo)
        state = FolderState(node.state_dir) if node.state_dir else ContextState(context.state)
        if asks_for_weights(message.content):
            return Message(train_on(message.content, site, node, state, context.run_id), reply_to=message)
        payload = from_record(message.content)
        reply = _answer_once(payload, site, config, node, state, context.run_id)
    except Refused as refused:
        logger.warning("Silo %s sends no labels: %s", silo, refused)
        reply = _refusal(silo, refused.reason)
    except ConfigError as error:
        logger.error("Silo %s: %s", silo, error)
        reply = _refusal(silo, Refusal.CONFIG)
    except DataError as error:
        logger.error("Silo %s: %s", silo, error)
        reply = _refusal(silo, Refusal.NO_DATA)
    except TrainingError as error:
        logger.error("Silo %s: %s", silo, error)
        reply = _refusal(silo, Refusal.TRAINING_FAILED)
    except Exception:
        logger.exception("Silo %s: an unexpected error", silo)
        reply = _refusal(silo, Refusal.INTERNAL)
    return Message(to_record(reply), reply_to=message)


def _answer_once(
    payload: bytes, site: Site, config: RunConfig, node: NodeConfig, state: LocalState, run_id: int
) -> bytes:
    """The reply to an instruction; the same bytes again if it was asked before.

    Raises Refused (ROUND) for a round that was answered already and is asked with other contents: two answers
    to one question would tell more than one.
    """
    name = f"run-{run_id}"
    digest = hashlib.sha256(payload).digest()
    last_round = 0
    if (last := state.get(name)) is not None:
        last_digest, last_round = _HEADER.unpack_from(last)
        if last_digest == digest:
            return last[_HEADER.size :]
    instruction = decode_instruction(payload, site.terms)
    if instruction.round <= last_round:
        raise Refused(Refusal.ROUND)
    path = model_path(config, node, site, run_id)
    set_back(site.learner, state.get(f"{name}-learner"), path if config.resume and instruction.round > 1 else None)
    votes = cotrain(
        site.learner, site.private, site.public, instruction.targets, instruction.query, config.pseudo_weight
    )
    scores = site.scores() if config.report_scores and (node.is_simulated or node.allow_scores) else None
    reply = encode_reply(Reply(instruction.round, site.silo, votes, scores), site.terms)
    if path:
        _keep_model(site.learner, path)
    if isinstance(site.learner, Resumable):
        # Before the answer is on record: asked again after a crash in between, the silo trains from here once more.
        state.put(f"{name}-learner", site.learner.dump())
    state.put(name, _HEADER.pack(digest, instruction.round) + reply)
    return reply


def _keep_model(learner: Learner, path: Path) -> None:
    if not isinstance(learner, Saveable):
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        learner.save(path)
    except (TrainingError, OSError) as error:
        # The labels are good all the same. Better no model than that of an earlier round, which nobody would notice.
        path.unlink(missing_ok=True)
        logger.warning("The model was not kept in %s: %s", path, error)


def _refusal(silo: str, reason: Refusal) -> bytes:
    nothing_agreed = Terms("", b"", 0, ())
    return encode_reply(Reply(0, silo, reason), nothing_agreed)
