"""A network's weights, its preprocessing and a description as one file in safetensors format."""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load, save

from fedct_flwr.learners.base import Averageable
from fedct_flwr.types import TrainingError

METADATA: Final = "fedct"
"""Under which key of the file's metadata the description is."""
_NETWORK: Final = "network."
_PREPROCESSING: Final = "preprocessing"


def described(network: Averageable | bytes, preprocessing: bytes | None, description: str) -> bytes:
    """The file's content: tensors as ``TorchLearner.dump`` names them, a transformer in skops format, a description.

    Of what such a dump wrote the optimizer's tensors stay, so training can go on from the file.
    """
    tensors: dict[str, NDArray[Any]]
    if isinstance(network, bytes):
        tensors = load(network)
    else:
        tensors = {_NETWORK + name: value for name, value in network.weights().items()}
        tensors["steps"] = np.array(0, dtype=np.int64)
    if preprocessing is not None:
        tensors[_PREPROCESSING] = np.frombuffer(preprocessing, dtype=np.uint8)
    content: bytes = save(tensors, metadata={METADATA: description})
    return content


def weights_in(content: bytes) -> dict[str, NDArray[Any]]:
    """The network's weights by name, of any network. Raises TrainingError for a damaged file."""
    try:
        found = load(content)
    except SafetensorError as error:
        raise TrainingError(f"no weights of a network: {error}") from error
    return {name.removeprefix(_NETWORK): value for name, value in found.items() if name.startswith(_NETWORK)}


def preprocessing_in(content: bytes) -> bytes | None:
    """The transformer in skops format, None if there is none. Raises what safetensors does for a damaged file."""
    found = load(content).get(_PREPROCESSING)
    return None if found is None else found.tobytes()
