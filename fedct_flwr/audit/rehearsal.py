"""The audit of one silo before anything is approved, on its own machine: nothing is sent, charged or kept."""

import time
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.audit.adversaries import COORDINATOR, MODEL, seen_in_model
from fedct_flwr.audit.attacks import Observation
from fedct_flwr.audit.audit import About, Audit, How, conclude
from fedct_flwr.audit.members import choose, draw, with_some
from fedct_flwr.datasets.federated import SiloData
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.labelers.protect import labeler_for
from fedct_flwr.learners.base import Choosing, Learner
from fedct_flwr.learners.build import learner_for
from fedct_flwr.seeding import generator
from fedct_flwr.silo.site import Site
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Examples, HardLabels, SiloName

_SHARES: Final = "labels of this silo"


def rehearse(
    site: Site,
    how: How,
    *,
    progress: Callable[[Iterable[int]], Iterable[int]] = lambda items: items,
) -> Audit:
    """Attack the labels, planted in the public set, of models that learn from random halves of the silo's candidates.

    A protection's labeler answers as often as the plan says. Raises ConfigError for a quantity, DataError.
    """
    site.schema.outcome.check_classes(
        f"the study predicts a number ({site.schema.quantity}), and membership attacks here are for classes"
    )
    started = time.monotonic()
    own = SiloData(site.silo, site.private, site.own_test, site.groups)
    candidates = choose([own], how.candidates, how.seed)
    records = candidates.records(own)
    public = PublicSet(np.concatenate([site.public.X, records.X]))
    rows = np.arange(len(site.public), len(public))
    seen: dict[str, list[Mapping[SiloName, Observation]]] = {COORDINATOR: [], MODEL: []}
    drawn: list[dict[SiloName, NDArray[np.bool_]]] = []
    for number in how.begun(progress):
        members = draw(candidates, [own], generator(how.seed, "members", number))
        part = with_some(own, candidates, members[site.silo])
        model = _trained(site, part)
        labels = _labels(site, part.private, public, rows, model)
        strangers = site.own_test if site.own_test.size else site.pooled_test
        seen[COORDINATOR].append({site.silo: Observation(records.y, labels)})
        given = seen_in_model(model, records, strangers, site.public.X, len(site.schema.classes) - 1)
        seen[MODEL].append({site.silo: given})
        drawn.append(members)
    promised = site.privacy.epsilon if site.privacy.enabled else None
    about = About(_SHARES, site.privacy.protection, promised, site.privacy.delta)
    return conclude(about, how, [own], candidates, seen, drawn, time.monotonic() - started)


def _trained(site: Site, part: SiloData) -> Learner:
    learner = learner_for(site.settings, site.silo, site.schema, site.public, part.private.X)
    if isinstance(learner, Choosing):
        learner.choose(part.private, part.groups)
    return learner.fit(*part.private)


def _labels(
    site: Site, private: Examples, public: PublicSet, rows: NDArray[np.intp], model: Learner
) -> NDArray[np.int16]:
    """What would leave of the candidates at these rows of the public set, ``(rounds, n)``."""
    votes = model.predict(public.X[rows]).astype(LABEL_DTYPE)
    if not site.privacy.enabled:
        return votes[None]
    from fedct_flwr.labelers.labeler import Asked
    from fedct_flwr.privacy.randomness import SecureNoise

    nobody: HardLabels = np.full(len(public), ABSTAIN, dtype=LABEL_DTYPE)
    # The number of records counts as public: it stays that of the silo, whoever is in.
    labeler = labeler_for(site.privacy, site.settings, site.silo, site.schema, public, site.private.size)
    asked = Asked(private, public.X, nobody, votes, rows)
    return np.stack([labeler.answer(asked, SecureNoise()) for _ in range(site.privacy.rounds)])
