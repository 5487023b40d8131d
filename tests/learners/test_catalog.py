"""What a silo trains only if its own settings say so."""

import pytest
from syrupy.assertion import SnapshotAssertion

from fedct_flwr.learners.catalog import SHORT_NAMES, TORCHVISION, check_allowed
from fedct_flwr.types import ConfigError


@pytest.mark.parametrize("name", sorted(SHORT_NAMES.keys() - {TORCHVISION}))
def test_short_names_are_trusted(name: str) -> None:
    check_allowed(name, [])


@pytest.mark.parametrize(
    ("name", "package"),
    [
        (TORCHVISION, TORCHVISION),  # it would fetch weights if it were told to
        ("sklearn.svm.SVC", "sklearn"),
        ("subprocess.check_output", "subprocess"),
        ("fedct_flwr.learners.networks.torchvision_network", "fedct_flwr"),
    ],
)
def test_all_else_needs_the_silos_consent(name: str, package: str, wording: SnapshotAssertion) -> None:
    with pytest.raises(ConfigError) as caught:
        check_allowed(name, ["another"])
    assert str(caught.value) == wording
    check_allowed(name, ["another", package])
