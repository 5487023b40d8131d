"""A network's weights, its preprocessing and a description as one file in safetensors format."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import load, save

from fedct_flwr.learners.base import Averageable

METADATA: Final = "fedct"
"""Under which key of the file's metadata the description is."""
_PREPROCESSING: Final = "preprocessing"


def to_bytes(network: Averageable, preprocessing: bytes | None, description: str) -> bytes:
    """The file's content: tensors named as ``TorchLearner.dump`` names them, but none of the optimizer's.

    ``preprocessing`` is a transformer in skops format, None for none.
    """
    tensors: dict[str, NDArray[Any]] = {f"network.{name}": value for name, value in network.weights().items()}
    tensors["steps"] = np.array(0, dtype=np.int64)
    if preprocessing is not None:
        tensors[_PREPROCESSING] = np.frombuffer(preprocessing, dtype=np.uint8)
    content: bytes = save(tensors, metadata={METADATA: description})
    return content


def preprocessing_in(content: bytes) -> bytes | None:
    """The transformer in skops format, None if there is none. Raises what safetensors does for a damaged file."""
    found = load(content).get(_PREPROCESSING)
    return None if found is None else found.tobytes()
