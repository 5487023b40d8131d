"""A silo's part in a baseline that shares weights: train on from the global ones, hand out its own. Simulation only."""

import io
from collections.abc import Mapping
from typing import Any

import numpy as np
from flwr.app import RecordDict
from numpy.typing import NDArray

from fedct_flwr.learners.base import Correctable
from fedct_flwr.learners.drift import drift_of
from fedct_flwr.silo.state import set_back
from fedct_flwr.silo.workplace import Workplace
from fedct_flwr.wire.refusal import Refusal, Refused
from fedct_flwr.wire.weights import ARRAYS, CONFIG, question_digest, to_reply, to_weights, with_control, without_control


def train_on(content: RecordDict, workplace: Workplace, run_id: int) -> RecordDict:
    """Train the global weights for one round on private records alone, and return the silo's.

    The last question asked again is answered the same. Raises Refused (WEIGHTS) for a real silo or a learner without
    weights, and TrainingError.
    """
    site, state, learner = workplace.site, workplace.state, workplace.site.learner
    if not (workplace.hands_out_weights and isinstance(learner, Correctable)):
        raise Refused(Refusal.WEIGHTS)
    begun, control = without_control(to_weights(content.array_records[ARRAYS]))
    drift = drift_of(content.config_records[CONFIG], control, learner.reach)
    run, question = f"run-{run_id}", question_digest(content)
    again = state.get(f"{run}-question") == question
    set_back(learner, state.get(f"{run}-learner"), kept=None)
    own = _unpacked(state.get(f"{run}-drift"))
    if not again:
        nothing_yet = {name: np.zeros_like(begun[name]) for name in learner.parameters}
        learner.set_weights(begun)
        learner.advance_corrected(site.private, drift.correction(own or nothing_yet))
    reached = learner.weights()
    # Running statistics drift too, but no gradient tells where to.
    change = drift.change(*({name: weights[name] for name in learner.parameters} for weights in (begun, reached)))
    if not again:
        state.put(f"{run}-learner", learner.dump())
        state.put(f"{run}-drift", _packed({name: value + own.get(name, 0) for name, value in change.items()}))
        state.put(f"{run}-question", question)
    return to_reply(site.silo, with_control(reached, change if drift.sends_change else {}), site.private.size)


def _packed(own: Mapping[str, Any]) -> bytes:
    file = io.BytesIO()
    np.savez(file, **own)
    return file.getvalue()


def _unpacked(kept: bytes | None) -> dict[str, NDArray[Any]]:
    if kept is None:
        return {}
    with np.load(io.BytesIO(kept), allow_pickle=False) as own:
        return dict(own)
