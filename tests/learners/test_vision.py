"""torchvision's networks with a last layer for the study's classes."""

from typing import Any

import pytest
import torch

from fedct_flwr.learners.catalog import make
from fedct_flwr.learners.networks import torchvision_network


@pytest.fixture
def no_download(monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights are on the network; networks without them have the same layers."""
    import torchvision.models

    original = torchvision.models.get_model

    def get_model(name: str, weights: Any = None, **more: Any) -> Any:
        return original(name, weights=None, **more)

    monkeypatch.setattr(torchvision.models, "get_model", get_model)


@pytest.mark.parametrize("model", ["resnet18", "efficientnet_b0"])
def test_a_network_has_an_output_for_each_class(model: str) -> None:
    network = make("torchvision", {"model": model}, num_classes=3).eval()
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 3)


@pytest.mark.usefixtures("no_download")
@pytest.mark.parametrize("model", ["resnet18", "efficientnet_b0"])
def test_a_trained_network_gets_a_new_last_layer(model: str) -> None:
    network = torchvision_network(model, 3, weights="DEFAULT").eval()
    assert network(torch.zeros(2, 3, 32, 32)).shape == (2, 3)
