"""Private training before a silo's first answer: a network that has learned nothing votes at random.

How long is set, or found by early stopping (Prechelt, "Early stopping - but when?", 1998): a fold of the records is
held out, and training ends when the loss on it is below that of a constant answer, the shares of the classes, and has
not fallen for some looks. The weights of the best look are kept.
"""

import math
import time
from typing import Final

import numpy as np

from fedct_flwr.config.learner import AUTO
from fedct_flwr.learners import Averageable, Probabilistic, Resumable
from fedct_flwr.learners.out_of_fold import HeldOut, losses, probabilities
from fedct_flwr.learners.safeguard import NetworkSafeguard
from fedct_flwr.silo.site import Site
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Examples

_SET: Final = 10
"""Rounds where records cannot decide, or must not: as many as a run has by default."""
_LOOKS: Final = 20
"""Most looks."""
_SECONDS: Final = 300.0
"""Seconds after which no further look is taken: half of a round's deadline by default."""
_PATIENCE: Final = 3
"""Looks without a smaller loss after which training ends."""
_STEPS: Final = 20
"""Minibatches between two looks at least: after fewer, losses hardly differ."""


def warm_up_alone(site: Site, *, promised: bool) -> int:
    """Train a site's fresh network on private records alone, before the round that its first answer follows.

    With ``auto``, the optimizer then begins again, so silos' networks have taken as many steps and can be stacked.
    ``promised``: under a guarantee, for which the time must not depend on records. Returns the rounds that early
    stopping has found, or 0. Raises TrainingError.
    """
    learner, rounds = site.learner, site.settings.warm_up_rounds
    if not isinstance(learner, Resumable):
        return 0
    nothing = np.full(len(site.public), ABSTAIN, dtype=LABEL_DTYPE)

    def train(records: Examples, times: int) -> None:
        for _ in range(times):
            learner.advance(records, site.public.X, nothing, 1.0)

    held = HeldOut(site.private, site.settings.seed, site.silo, site.groups)
    own, asked = held.rest, held.asked
    if isinstance(site.safeguard, NetworkSafeguard):
        site.safeguard.begin()
    decides = rounds == AUTO and not promised and held.enough
    if not (decides and isinstance(learner, Averageable) and isinstance(learner, Probabilistic)):
        known = site.safeguard.training if isinstance(site.safeguard, NetworkSafeguard) else site.private
        train(known, (_SET if rounds == AUTO else rounds) - 1)
        return 0
    # Worth asking is what says more than how frequent each class is.
    shares = np.bincount(own.y, minlength=site.terms.num_classes) / own.size
    constant = losses(np.tile(shares, (asked.size, 1)), asked.y).mean()
    every, best, least, at = math.ceil(_STEPS / site.settings.local_steps), learner.weights(), math.inf, 0
    start = time.monotonic()
    for look in range(1, _LOOKS + 1):
        train(own, every)
        loss = losses(probabilities(learner, asked.X, site.terms.num_classes), asked.y).mean()
        if loss < least:
            best, least, at = learner.weights(), loss, look
        elif least < constant and look - at >= _PATIENCE:
            break
        if time.monotonic() - start > _SECONDS:
            break
    learner.reset()
    learner.set_weights(best)
    return at * every


def train_alone(site: Site, rounds: int, *, promised: bool) -> None:
    """Train a site's fresh network as its silo does while no consensus reaches it: warm-up, then ``rounds``.

    ``promised`` is that of ``warm_up_alone``. Raises TrainingError.
    """
    learner, safeguard = site.learner, site.safeguard
    assert isinstance(learner, Resumable)  # noqa: S101 - others have no rounds
    warm_up_alone(site, promised=promised)
    nothing = np.full(len(site.public), ABSTAIN, dtype=LABEL_DTYPE)
    first = safeguard.training if isinstance(safeguard, NetworkSafeguard) else site.private
    for records in [first] + [site.private] * (rounds - 1):
        learner.advance(records, site.public.X, nothing, 1.0)
