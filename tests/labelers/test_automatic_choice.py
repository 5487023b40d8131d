"""What a protection makes of a learner that the silo chooses."""

import numpy as np
import pytest

from fedct_flwr.config import LearnerSettings, PrivacySettings
from fedct_flwr.config.privacy import PROTECTIONS
from fedct_flwr.datasets.public_set import PublicSet
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.labelers.protect import labeler_for
from fedct_flwr.types import ConfigError

PROTECTED = [name for name, entry in PROTECTIONS.items() if entry.labeler]
PUBLIC = PublicSet(np.random.default_rng(0).normal(size=(40, 3)))
SCHEMA = Schema.numeric(("ill", "well"), ("a", "b", "c"))


@pytest.mark.parametrize("name", PROTECTED)
def test_a_protection_says_how_the_choice_is_covered_or_refuses_it(name: str):
    privacy = PrivacySettings(protection=name, epsilon=5.0)
    try:
        labeler_for(privacy, LearnerSettings(name="auto"), "essen", SCHEMA, PUBLIC, 100)
    except ConfigError:
        assert not PROTECTIONS[name].of_auto
    else:
        assert PROTECTIONS[name].of_auto
