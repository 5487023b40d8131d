"""A network of one's own: any function that returns an ``nn.Module``.

    env PYTHONPATH=examples fedct simulate --learner own_network.make --learner-params '{"width": 16}'

It gets features ``(n, columns)`` after imputing and scaling, and returns one logit per class.
"""

import torch
from torch import Tensor, nn


class Residual(nn.Module):
    """A layer that adds to its input."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x: Tensor) -> Tensor:
        """Add what the layer has to say."""
        return x + torch.relu(self.linear(x))


def make(num_features: int, num_classes: int, width: int = 32) -> nn.Module:
    """The first two are filled in by the study, the rest by ``--learner-params``."""
    return nn.Sequential(nn.Linear(num_features, width), nn.ReLU(), Residual(width), nn.Linear(width, num_classes))
