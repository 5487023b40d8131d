"""Networks for tables and images, and torchvision's.

Images may be changed at random, each on its own, while a network trains. All networks take float images with channels
first, or flat rows where the first layer flattens anyway, and return logits.
"""

import importlib
import sys
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, Final

import torch
from torch import Generator, Tensor, nn

from fedct_flwr.types import ConfigError

_LIBRARY: list[Any] = []
"""Definitions of missing operators, kept as long as the process lives."""


def mend_torchvision() -> None:
    """Have ``import torchvision`` work where it lacks compiled operators, which no network here needs."""
    try:
        importlib.import_module("torchvision")
    except ImportError:
        return
    except RuntimeError as error:
        if "torchvision::" not in str(error):
            raise
        for name in [name for name in sys.modules if name.partition(".")[0] == "torchvision"]:
            del sys.modules[name]
        library: Any = torch.library.Library("torchvision", "DEF")  # type: ignore[no-untyped-call]
        for operator in ("nms", "qnms"):
            library.define(f"{operator}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _LIBRARY.append(library)
        importlib.import_module("torchvision")


def torchvision_network(model: str, num_classes: int, weights: str | None = None) -> nn.Module:
    """A torchvision classification network by name, such as ``efficientnet_b0``, for images ``(n, 3, height, width)``.

    ``weights``, such as ``DEFAULT``, are downloaded at first use. Raises ConfigError for other networks.
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


def mlp(num_features: int, num_classes: int, width: int = 64) -> nn.Module:
    """Two hidden layers of ``width``: 512 for FashionMNIST in the FedCT paper (arXiv:2310.05696, Table 13)."""
    hidden = [nn.Linear(num_features, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *hidden, nn.Linear(width, num_classes))


def small_cnn(num_classes: int = 2, num_channels: int = 3, width: int = 16) -> nn.Module:
    """A network of a few thousand weights for images of any size, gray or color."""
    blocks: list[nn.Module] = []
    channels = num_channels
    for wide in (width, 2 * width, 4 * width):
        # Rounded up, so that an image of one pixel passes, too.
        pool = nn.MaxPool2d(2, ceil_mode=True)
        blocks += [nn.Conv2d(channels, wide, 3, padding=1), nn.BatchNorm2d(wide), nn.ReLU(), pool]
        channels = wide
    return nn.Sequential(*blocks, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, num_classes))


_SHIFT: Final = 8
"""An image moves by at most its side divided by this."""
_BRIGHTNESS: Final = 0.2


def augmented(batch: Tensor, kinds: Iterable[str], generator: Generator | None = None) -> Tensor:
    """Images ``(n, channels, height, width)`` in 0..1, changed in these ways, one after the other.

    Without a ``generator``, torch's own draws.
    """
    for kind in kinds:
        batch = AUGMENTATIONS[kind](batch, generator)
    return batch


def _flipped(axis: int) -> Callable[[Tensor, Generator | None], Tensor]:
    def flip(batch: Tensor, generator: Generator | None) -> Tensor:
        return torch.where(_uniform(batch, generator) < 0.5, batch.flip(axis), batch)

    return flip


def _uniform(batch: Tensor, generator: Generator | None) -> Tensor:
    return torch.rand(len(batch), 1, 1, 1, device=batch.device, generator=generator)


def _shifted(batch: Tensor, generator: Generator | None) -> Tensor:
    """Moved, with the pixels at the edge repeated into the gap."""
    each = torch.arange(len(batch), device=batch.device)[:, None, None, None]
    channels = torch.arange(batch.shape[1], device=batch.device)[None, :, None, None]
    rows, columns = (_moved(batch, side, generator) for side in batch.shape[2:])
    return batch[each, channels, rows[:, None, :, None], columns[:, None, None, :]]


def _moved(batch: Tensor, side: int, generator: Generator | None) -> Tensor:
    """For each image, from where its pixels along one side come, ``(count, side)``."""
    most = max(1, side // _SHIFT)
    by = torch.randint(-most, most + 1, (len(batch), 1), device=batch.device, generator=generator)
    return (torch.arange(side, device=batch.device) + by).clamp(0, side - 1)


def _brightened(batch: Tensor, generator: Generator | None) -> Tensor:
    factor = 1 + _BRIGHTNESS * (2 * _uniform(batch, generator) - 1)
    return (batch * factor).clamp(0, 1)


AUGMENTATIONS: Final[Mapping[str, Callable[[Tensor, Generator | None], Tensor]]] = MappingProxyType(
    {"flip": _flipped(3), "flip-vertically": _flipped(2), "shift": _shifted, "brightness": _brightened}
)
"""Half of the images mirrored; moved by at most an eighth of their side; up to a fifth darker or brighter."""
