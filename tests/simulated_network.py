"""Small networks for tables, by import path."""

from torch import nn


def tiny(num_features: int, num_classes: int) -> nn.Module:
    return nn.Sequential(nn.Linear(num_features, 8), nn.ReLU(), nn.Linear(8, num_classes))


def wide(num_features: int, num_classes: int) -> nn.Module:
    """Enough neurons to know a few hundred records by heart."""
    return nn.Sequential(nn.Linear(num_features, 256), nn.ReLU(), nn.Linear(256, num_classes))
