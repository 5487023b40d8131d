"""Label quality at a total epsilon, by mechanism: the consensus, and models that learn from it.

One-shot co-training: each silo's labels are released once, the plurality decides, and personal models are trained on
private records and the consensus. Labelers that are trained once would give the same labels in any round; those that
pay for each label would only have less to pay with.

Hyper-parameters of the mechanisms are the defaults. Those of the linear labeler were chosen on other data
(``dp-linear-settings``), though not before anything was measured here: four earlier settings did worse at epsilon 1 on
FashionMNIST. Public labels and the test set are read to score alone.
"""

import math
from collections.abc import Sequence
from typing import Final

import numpy as np

from benchmarks import report
from benchmarks.federation import Runs
from benchmarks.privacy_data import ADULT, FEW_LARGE, MANY_SMALL, MODEL, Federation, Setting, Sizes, learner_of, load
from benchmarks.privacy_text import about, key, notes, table
from benchmarks.privacy_votes import DELTA, HIDDEN, MECHANISMS, PAPERS_XOR, no_labels, xor_votes
from fedct_flwr.consensus.counting import plurality
from fedct_flwr.scoring import accuracy
from fedct_flwr.seeding import generator
from fedct_flwr.types import ABSTAIN, Examples, VoteCounts

EPSILONS: Final = (0.1, 0.5, 1.0, 3.0, 8.0, math.inf)
FAST_EPSILONS: Final = (1.0, 8.0, math.inf)
PAID_LABELS: Final = 1_000
"""Queries where each label costs, in favour of those mechanisms: with more, each label would be noisier."""

WITHOUT_NETWORKS: Final = ("dp-linear", "randomized-response", "xor")
"""Networks of many silos would take most of the time."""

SETTINGS: Final = (
    FEW_LARGE._replace(mechanisms=("dp-linear", "dp-sgd", "randomized-response", "xor")),
    MANY_SMALL._replace(mechanisms=WITHOUT_NETWORKS),
    ADULT._replace(mechanisms=WITHOUT_NETWORKS),
)

FULL: Final = Sizes(10_000, PAID_LABELS, 3)
FAST: Final = Sizes(5_000, PAID_LABELS, 2)


def run(seeds: int | None, fast: bool) -> None:
    """Label quality at total epsilon 0.1 to 8, by mechanism; about half an hour.

    3 seeds. ``fast``: 2 seeds, three epsilons; about 6 minutes.
    """
    seeds, epsilons, sizes = seeds or 3, FAST_EPSILONS if fast else EPSILONS, FAST if fast else FULL
    runs: dict[str, Runs] = {}
    for setting in SETTINGS:
        measured = measure(setting, epsilons, sizes, range(seeds))
        runs |= {f"{setting.title}: {name}": found for name, found in measured.items()}
    settings = {"delta": DELTA, "sizes": sizes._asdict(), "model": MODEL, "hidden": HIDDEN, "seeds": seeds}
    report.write("privacy", text(runs, epsilons, sizes), runs, settings)


def text(runs: dict[str, Runs], epsilons: Sequence[float], sizes: Sizes) -> str:
    """All of it in words and tables; ``runs`` by setting and, after a colon, the names of ``measure``."""
    parts = []
    for setting in SETTINGS:
        title = f"{setting.title}: "
        measured = {name.removeprefix(title): found for name, found in runs.items() if name.startswith(title)}
        parts.append(f"## {setting.title}\n\n{table(setting, epsilons, measured)}")
    return "# Label quality at a total epsilon, by mechanism\n\n" + about(sizes) + "\n".join(parts) + notes()


def measure(setting: Setting, epsilons: Sequence[float], sizes: Sizes, seeds: Sequence[int]) -> dict[str, Runs]:
    """Values by ``epsilon, mechanism``, and under ``baselines`` and ``paper's xor``."""
    found: dict[str, Runs] = {}
    for seed in seeds:
        federation = load(setting, sizes, seed)
        share = np.bincount(federation.public.y).max() / federation.public.size
        found.setdefault("baselines", Runs()).add(local=federation.local, majority=float(share))
        for epsilon in epsilons:
            for name in setting.mechanisms:
                counts = MECHANISMS[name](federation, epsilon, sizes, seed)
                found.setdefault(key(epsilon, name), Runs()).add(**_scores(federation, counts, sizes, seed))
        paper = PAPERS_XOR(len(federation.schema.classes))
        counts = xor_votes(federation, paper, sizes.public, seed)
        found.setdefault("paper's xor", Runs()).add(**_scores(federation, counts, sizes, seed))
    return found


def _scores(federation: Federation, counts: VoteCounts, sizes: Sizes, seed: int) -> dict[str, float]:
    """Accuracy of the consensus, and of personal models that learn of it; an abstention is no label."""
    public = Examples(federation.public.X[: len(counts)], federation.public.y[: len(counts)])
    consensus = plurality(counts, no_labels(len(counts)), generator(seed, "ties"))
    labeled = consensus != ABSTAIN
    learned = [
        learner_of(seed).fit(np.concatenate([silo.X, public.X[labeled]]), np.concatenate([silo.y, consensus[labeled]]))
        for silo in federation.silos[: sizes.models]
    ]
    return {
        "consensus": float((consensus == public.y).mean()),
        "personal": float(np.mean([accuracy(model, federation.test) for model in learned])),
    }
