"""Convolutional networks beside those of the FedCT paper, so that each silo can have another architecture.

After Li, Wang, "FedMD", arXiv:1910.03581, whose participants have networks of two and three convolutions, of up to 512
channels. These are small enough to be trained by the dozen on a processor.
"""

from torch import nn


def cnn(num_classes: int, channels: tuple[int, ...] = (8, 16)) -> nn.Module:
    """Rows of 784 pixels to logits; each convolution halves the image: 28, 14, 7, 4.

    >>> sum(parameter.numel() for parameter in cnn(5).parameters())
    5173
    """
    layers: list[nn.Module] = [nn.Unflatten(1, (1, 28, 28))]
    before, side = 1, 28
    for width in channels:
        layers += [nn.Conv2d(before, width, 3, stride=2, padding=1), nn.ReLU()]
        before, side = width, (side + 1) // 2
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(before * side**2, num_classes))
