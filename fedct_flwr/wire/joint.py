"""The steps of the joint labeler's training in messages."""

import math
from typing import Final

import numpy as np

from fedct_flwr.wire import labels_pb2
from fedct_flwr.wire.content import Joint, Terms
from fedct_flwr.wire.refusal import Refusal, Refused

_MOST_FEATURES: Final = 4096
_MOST_STEPS: Final = 1000


def joint_size(terms: Terms) -> int:
    """Bytes of a step, at most."""
    return 8 * _MOST_FEATURES * terms.num_classes


def put_joint(joint: Joint, message: labels_pb2.Instruction) -> None:
    """Put a step into a message."""
    *plan, weights = joint
    for name, value in zip(Joint._fields, plan, strict=False):
        setattr(message.joint, name, value)
    if weights is not None:
        message.joint.weights = weights.astype("<f8").tobytes()


def take_joint(message: labels_pb2.Instruction, terms: Terms) -> Joint | None:
    """Take a step out of a message. Raises Refused (MALFORMED) for one that no silo can take."""
    if not message.HasField("joint"):
        return None
    joint = message.joint
    fits = 1 <= joint.steps <= _MOST_STEPS and joint.records and joint.honest
    keeps = 0 < joint.epsilon < math.inf and 0 < joint.delta < 1
    asks_otherwise = message.votes or message.summed or message.answer or message.HasField("soft")
    if not (fits and keeps and terms.num_classes) or asks_otherwise:
        raise Refused(Refusal.MALFORMED)
    weights = None
    if joint.weights:
        if len(joint.weights) % (8 * terms.num_classes) or message.round > joint.steps:
            raise Refused(Refusal.MALFORMED)
        weights = np.frombuffer(joint.weights, dtype="<f8").astype(np.float64).reshape(-1, terms.num_classes)
        if not np.isfinite(weights).all():
            raise Refused(Refusal.MALFORMED)
    plan = (joint.records, joint.steps, joint.epsilon, joint.delta, joint.honest, joint.columns, joint.seed)
    return Joint(*plan, weights)
