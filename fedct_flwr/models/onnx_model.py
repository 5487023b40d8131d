"""Another party's model as an ONNX file such as ``onnx_export`` writes, run by ONNX Runtime.

A graph is data: it has no types to trust and runs no code of its own. The runtime may still have errors, so commands
use it in the process of ``foreign``. Needs the extra ``onnx``.
"""

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from fedct_flwr.learners.answered import check_probabilities
from fedct_flwr.types import LABEL_DTYPE, ConfigError, DataError, Features, HardLabels

DESCRIPTION: Final = "fedct"
"""Under which key of the file's metadata the model's description is."""
_ONLY_FATAL: Final = 4


class OnnxLearner:
    """Only predicts. ``content`` is the file's; ``what`` names it in errors. Raises DataError, ConfigError."""

    def __init__(self, content: bytes, what: str) -> None:
        try:
            import onnxruntime
        except ImportError:
            raise ConfigError(
                f"{what} is an ONNX file, which needs the extra 'onnx': pip install -c constraints.txt -e '.[onnx]'"
            ) from None
        options = onnxruntime.SessionOptions()
        options.log_severity_level = _ONLY_FATAL
        try:
            self._session: Any = onnxruntime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
            self.description = self._session.get_modelmeta().custom_metadata_map.get(DESCRIPTION)
            inputs = self._session.get_inputs()
        except Exception as error:  # the runtime raises many types
            raise DataError(f"{what} is damaged, or not an ONNX model: {type(error).__name__}") from error
        if len(inputs) != 1:
            raise DataError(f"{what} reads tokens of texts, which its tokenizer has to make: use the .skops file")
        self._what, self._input = what, inputs[0]
        self._outputs = [output.name for output in self._session.get_outputs()]

    def predict(self, X: Features) -> HardLabels:
        """The number of each example's class, ``(n,)``. Raises DataError."""
        labels = self._run("label", X)
        if labels.shape != (len(X),) or labels.dtype.kind not in "iu" or (labels != labels.astype(LABEL_DTYPE)).any():
            raise DataError(f"{self._what} says {labels.dtype} of shape {labels.shape}, which are no classes")
        return labels.astype(LABEL_DTYPE)

    def probabilities(self, X: Features, num_classes: int) -> NDArray[np.float64] | None:
        """Of each class, ``(n, classes)``; None if it knows none. Raises DataError, TrainingError."""
        if "probabilities" not in self._outputs:
            return None
        found = self._run("probabilities", X)
        if found.shape != (len(X), num_classes):
            raise DataError(f"{self._what} says probabilities of shape {found.shape} for {num_classes} classes")
        check_probabilities(found.astype(np.float64), model=self._what)
        return found.astype(np.float64)

    def _run(self, output: str, X: Features) -> NDArray[Any]:
        kind = np.float64 if "double" in self._input.type else np.float32
        try:
            (found,) = self._session.run([output], {self._input.name: X.astype(kind)})
            return np.asarray(found)
        except Exception as error:
            raise DataError(f"{self._what} cannot be asked: {type(error).__name__}") from error
