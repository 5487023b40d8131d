"""Packages that stand on torch and may not go with the build of it that is installed."""

import importlib
import sys
from typing import Any

import torch

_LIBRARY: list[Any] = []
"""What defines missing operators, kept as long as the process lives."""


def mend_torchvision() -> None:
    """Have ``import torchvision`` work where it lacks compiled operators, as those from another source than torch do.

    It registers shapes of ``nms`` and ``qnms`` when it is imported, and fails where these operators are missing. Then
    transformers and peft fail as well. No network here needs them; calling them still fails. Nothing happens where
    torchvision is not installed, or is imported already.
    """
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
