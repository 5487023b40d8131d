"""A model file from elsewhere, read and asked in a process of its own, which may die of it.

``model_file`` checks types, not values: a forged index, or an error in a library's compiled code, ends that process,
never the command, and leaves one sentence. It is no sandbox: what runs code there runs it with the user's rights.
"""

import math
import sys
from collections.abc import Callable, Collection
from concurrent.futures import TimeoutError as TooLong
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from joblib.externals.loky import ProcessPoolExecutor
from numpy.typing import NDArray

from fedct_flwr import models
from fedct_flwr.datasets.schema import Schema
from fedct_flwr.models.model_file import ModelDescription
from fedct_flwr.text.printable import escape_warnings
from fedct_flwr.types import Answers, ConfigError, DataError, Features, FedctError

LIMIT: Final = 600.0
"""Seconds for reading a file, for exporting it, and for each piece of the records."""
PIECE: Final = 2048
"""Records, such as images, that are asked about at a time."""
VALUES: Final = 1 << 21
"""As many records more as have this number of features together."""


class ForeignModel:
    """A model of ``model_file.load_model``, used in a process of its own, which ends with this context manager.

    ``packages`` are those whose code may run, ``limit`` is in seconds. Raises what ``Model`` does, and DataError where
    the process dies or the limit is over; then nothing more can be asked.
    """

    def __init__(self, path: Path, packages: Collection[str] = (), *, limit: float = LIMIT) -> None:
        self._path, self._limit = path, limit
        # Its last output is for programmers: the command says it in one sentence.
        quiet = {"PYTHONFAULTHANDLER": ""}
        self._process: Any = ProcessPoolExecutor(max_workers=1, initializer=_begin, env=quiet)
        try:
            self.description, self.schema = self._ask(_read, path, packages)
        except BaseException:
            self._end()
            raise

    description: ModelDescription
    schema: Schema

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._end()

    def predict(self, X: Features, *, raw: bool = False) -> tuple[Answers, NDArray[np.float64] | None]:
        """The class or value of each example ``(n,)`` and probabilities ``(n, classes)``, None if it knows none.

        ``raw``: as the model ranks, also where its file can make chances of that.
        """
        # Records of a table go by the ten thousands: each trip to the process costs milliseconds.
        piece = max(PIECE, VALUES // max(1, math.prod(X.shape[1:])))
        pieces = [self._ask(_predict, X[start : start + piece], raw) for start in range(0, max(1, len(X)), piece)]
        labels, probabilities = zip(*pieces, strict=True)
        return np.concatenate(labels), None if probabilities[0] is None else np.concatenate(probabilities)

    def to_onnx(self) -> bytes:
        """The model as ONNX, by ``onnx_export.to_onnx``."""
        content: bytes = self._ask(_to_onnx)
        return content

    def _ask(self, work: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return self._process.submit(work, *arguments).result(self._limit)
        except BrokenProcessPool:
            raise DataError(
                f"the model {self._path} ended the process that read it: the file is damaged or forged, or the machine "
                "has too little memory for it"
            ) from None
        except TooLong:
            self._end()
            raise DataError(
                f"the model {self._path} had no answer after {self._limit:.0f} s: the file is damaged or forged, or "
                "too large for this machine"
            ) from None
        except FedctError:
            raise
        except Exception as error:  # whatever a damaged model makes its libraries raise
            raise DataError(f"the model {self._path} is damaged or forged: {type(error).__name__}") from error

    def _end(self) -> None:
        self._process.shutdown(wait=True, kill_workers=True)


_model: Any = None
"""In the process of its own: the one model that it was started for."""


def _begin() -> None:
    escape_warnings()
    with suppress(ImportError, OSError, ValueError):
        import resource

        # A core dump would hold the records that were asked about.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.platform == "linux":
        # Where memory runs out, this process is the first to go.
        with suppress(OSError):
            Path("/proc/self/oom_score_adj").write_text("1000")


def _read(path: Path, packages: Collection[str]) -> tuple[ModelDescription, Schema]:
    global _model

    _model = models.load_model(path, packages)
    return _model.description, _model.schema


def _predict(X: Features, raw: bool) -> tuple[Answers, NDArray[np.float64] | None]:
    return _model.predict(X), _model.probabilities(X, raw=raw)


def _to_onnx() -> bytes:
    try:
        return models.to_onnx(_model)
    except ImportError as error:
        raise ConfigError(
            f"ONNX files need {error.name}, the extra 'onnx': pip install -c constraints.txt -e '.[onnx]'"
        ) from error
