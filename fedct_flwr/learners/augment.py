"""Images changed at random, each on its own, when a network trains on them, by torch's global generator."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

import torch
from torch import Tensor

_SHIFT: Final = 8
"""An image moves by at most its side divided by this."""
_BRIGHTNESS: Final = 0.2


def augmented(batch: Tensor, kinds: Iterable[str]) -> Tensor:
    """Images ``(n, channels, height, width)`` in 0..1, changed in these ways, one after the other."""
    for kind in kinds:
        batch = KINDS[kind](batch)
    return batch


def _flipped(axis: int) -> Callable[[Tensor], Tensor]:
    def flip(batch: Tensor) -> Tensor:
        chosen = torch.rand(len(batch), 1, 1, 1, device=batch.device) < 0.5
        return torch.where(chosen, batch.flip(axis), batch)

    return flip


def _shifted(batch: Tensor) -> Tensor:
    """Moved, with the pixels at the edge repeated into the gap."""
    each = torch.arange(len(batch), device=batch.device)[:, None, None, None]
    channels = torch.arange(batch.shape[1], device=batch.device)[None, :, None, None]
    rows, columns = (_moved(len(batch), side, batch.device) for side in batch.shape[2:])
    return batch[each, channels, rows[:, None, :, None], columns[:, None, None, :]]


def _moved(count: int, side: int, device: torch.device) -> Tensor:
    """For each image, from where its pixels along one side come, ``(count, side)``."""
    most = max(1, side // _SHIFT)
    by = torch.randint(-most, most + 1, (count, 1), device=device)
    return (torch.arange(side, device=device) + by).clamp(0, side - 1)


def _brightened(batch: Tensor) -> Tensor:
    factor = 1 + _BRIGHTNESS * (2 * torch.rand(len(batch), 1, 1, 1, device=batch.device) - 1)
    return (batch * factor).clamp(0, 1)


KINDS: Final[Mapping[str, Callable[[Tensor], Tensor]]] = MappingProxyType(
    {"flip": _flipped(3), "flip-vertically": _flipped(2), "shift": _shifted, "brightness": _brightened}
)
"""Half of the images mirrored; moved by at most an eighth of their side; up to a fifth darker or brighter."""

NAMES: Final[Sequence[str]] = tuple(KINDS)
