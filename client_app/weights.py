"""A silo's part in a baseline that shares weights: train on from the global ones, hand out its own. Simulation only."""

import numpy as np
from flwr.app import RecordDict

from client_app.state import set_back
from client_app.workplace import Workplace
from fedct_flwr.learners.base import Averageable, Resumable
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE
from fedct_flwr.wire.refusal import Refusal, Refused
from fedct_flwr.wire.weights import ARRAYS, to_reply, to_weights


def train_on(content: RecordDict, workplace: Workplace, run_id: int) -> RecordDict:
    """Train the global weights for one round on private records alone, and return the silo's.

    A round has the same minibatch steps as in co-training. The optimizer's state stays at the silo and lasts from
    round to round, as it does in co-training: only the weights that it works on are replaced.

    Raises Refused (WEIGHTS) for a silo that is not simulated: nothing but labels leaves it. So it does for a learner
    without weights. Raises TrainingError.
    """
    site, state, learner = workplace.site, workplace.state, workplace.site.learner
    if not workplace.hands_out_weights or not (isinstance(learner, Averageable) and isinstance(learner, Resumable)):
        raise Refused(Refusal.WEIGHTS)
    key = f"run-{run_id}-learner"
    set_back(learner, state.get(key), kept=None)
    learner.set_weights(to_weights(content.array_records[ARRAYS]))
    unlabeled = np.full(len(site.public), ABSTAIN, dtype=LABEL_DTYPE)
    learner.advance(site.private, site.public.X, unlabeled, 1.0)
    state.put(key, learner.dump())
    return to_reply(site.silo, learner.weights(), site.private.size)
