"""torchvision's image networks, with a last layer for the study's classes."""

from torch import nn

from fedct_flwr.learners.torch_packages import mend_torchvision
from fedct_flwr.types import ConfigError


def torchvision_network(model: str, num_classes: int, weights: str | None = None) -> nn.Module:
    """A torchvision classification network by name, such as ``efficientnet_b0`` or ``resnet18``.

    ``weights``, such as ``DEFAULT``, are what torchvision trained it to on ImageNet; it downloads them into torch's
    cache at first use; without them nothing is downloaded. Takes float images ``(n, 3, height, width)``. Raises
    ConfigError for what is no classification network, or for a trained one without a linear layer at its end.
    """
    mend_torchvision()
    from torchvision import models

    # The others, for segmentation and detection, download what their backbone was trained to even without weights.
    if model not in models.list_models(module=models):
        raise ConfigError(
            f"torchvision has no classification network {model!r}: take one such as 'resnet18' or 'efficientnet_b0'"
        )
    network: nn.Module
    if weights is None:
        network = models.get_model(model, weights=None, num_classes=num_classes)
        return network
    network = models.get_model(model, weights=weights)
    name, last = [*network.named_modules()][-1]
    if not isinstance(last, nn.Linear):
        raise ConfigError(f"{model!r} does not end in a linear layer: make the network yourself, see examples")
    network.set_submodule(name, nn.Linear(last.in_features, num_classes))
    return network
