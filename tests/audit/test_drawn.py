"""A drawn public set in an audit: its counts keep the promise, and noise that is too small is caught."""

import numpy as np
import pytest

from fedct_flwr import datasets
from fedct_flwr.audit.adversaries import COORDINATOR, DRAWN
from fedct_flwr.audit.audit import Audit, How, audit
from fedct_flwr.audit.words import document, page
from fedct_flwr.config.run import RunConfig
from fedct_flwr.privacy.noise_shares import NoiseShares
from fedct_flwr.privacy.randomness import Noise

CONFIG = RunConfig.from_flower(
    {
        "study": "test", "data": "heart-disease", "public": "drawn", "draw-rows": 200, "num-server-rounds": 1,
        "learner": "naive-bayes", "save-models": False,
    }
)  # fmt: skip


def audited(refits: int = 6) -> Audit:
    return audit(CONFIG, datasets.load(CONFIG), How(refits=refits))


def test_counts_with_noise_keep_what_is_promised_of_the_drawn_set() -> None:
    found = audited()
    assert found.drawn is not None
    assert (found.drawn.epsilon, found.drawn.delta) == (1.0, 1e-5)
    assert found.drawn.lower <= 1.0
    # What is attacked is no noise alone.
    assert found.of(DRAWN).strongest[1].auc.low > 0.5
    # Labels are promised nothing, and are attacked as always.
    assert found.epsilon is None
    assert "gap" in found.of(COORDINATOR).attacks
    text = page("test", found)
    assert "at most 1 for each record in the drawn public set" in text
    assert "Nothing speaks against the promise" in text
    assert document("test", found)["drawn"]["epsilon"] == 1.0


@pytest.mark.parametrize("part", [0.0, 0.1])
def test_noise_that_is_left_out_or_a_tenth_is_caught(part: float, monkeypatch: pytest.MonkeyPatch) -> None:
    share = NoiseShares.share

    def smaller(shares: NoiseShares, noise: Noise) -> np.ndarray:
        return np.rint(part * share(shares, noise)).astype(np.int64)

    monkeypatch.setattr(NoiseShares, "share", smaller)
    found = audited()
    assert found.drawn is not None
    assert found.drawn.lower > 1.0
    assert "**The promise is broken: stop the study and report this.**" in page("test", found, short=True)
