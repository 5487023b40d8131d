"""A model file read: what it says of its model, and the learner in it.

``load_model`` also reads an ONNX file with a description: the form for models of others. A network is made by the
factory that the description names: a short name, or code of a package that was named.

A file from elsewhere is read and asked in a process of its own (``ForeignModel``), which may die of it. ``load_model``
checks types, not values: a forged index, or an error in a library's compiled code, ends that process, never the
command, and leaves one sentence. It is no sandbox: what runs code there runs it with the user's rights.
"""

import json
import math
import sys
from collections.abc import Callable, Collection
from concurrent.futures import TimeoutError as TooLong
from concurrent.futures.process import BrokenProcessPool
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from joblib.externals.loky import ProcessPoolExecutor
from numpy.typing import NDArray

from fedct_flwr import learners, models
from fedct_flwr.config.learner import LearnerSettings
from fedct_flwr.datasets.schema import Column, ImageForm, Schema, check_names
from fedct_flwr.files import DAMAGED, check_is_file
from fedct_flwr.learners import Learner, Resumable
from fedct_flwr.learners.build import AUGMENT, untrained, wanted_of
from fedct_flwr.learners.catalog import NETWORKS, TORCHVISION, TRANSFORMER, make, package
from fedct_flwr.learners.sklearn import SklearnLearner, SklearnRegressor
from fedct_flwr.learners.trained_model import classes_of, probabilities_of, read_object
from fedct_flwr.models.model_file import ModelDescription, Recalibrated, member, text_of, with_member
from fedct_flwr.scoring.assessment import Recalibration
from fedct_flwr.text.printable import escape_warnings
from fedct_flwr.types import Answers, ConfigError, DataError, Features, FedctError, HardLabels

DESCRIPTION: Final = "fedct"
"""Under which key of the file's metadata the model's description is."""
_ONLY_FATAL: Final = 4
_ZIP: Final = b"PK\x03\x04"
_HEADER_BYTES: Final = 8
_TYPES: Final = frozenset(
    {
        "fedct_flwr.learners.feature_pipelines.Patches", "fedct_flwr.learners.feature_pipelines.Pixels",
        "fedct_flwr.learners.language.Sentences", "fedct_flwr.learners.language.Tokens",
        "fedct_flwr.learners.own_table.Table", "fedct_flwr.learners.plain.Plain", "fedct_flwr.learners.plain.Weighted",
        "fedct_flwr.learners.preprocessing.Numbers", "fedct_flwr.learners.preprocessing.Words",
        "fedct_flwr.learners.sklearn.Relabeled", "fedct_flwr.learners.survival.LogHazard",
        "fedct_flwr.learners.text.Texts",
        "fedct_flwr.survival.cox.RidgeCox", "fedct_flwr.survival.model.RiskModel",
        "numpy.dtype", "sklearn._loss._loss.CyHalfBinomialLoss", "sklearn._loss._loss.CyHalfMultinomialLoss",
        "sklearn._loss._loss.CyHalfSquaredError", "sklearn._loss.link.IdentityLink", "sklearn._loss.link.Interval",
        "sklearn._loss.link.LogitLink", "sklearn._loss.link.MultinomialLogit", "sklearn._loss.loss.HalfBinomialLoss",
        "sklearn._loss.loss.HalfMultinomialLoss", "sklearn._loss.loss.HalfSquaredError",
        "sklearn.compose._column_transformer.ColumnTransformer", "sklearn.dummy.DummyClassifier",
        "sklearn.dummy.DummyRegressor",
        "sklearn.ensemble._forest.ExtraTreesClassifier", "sklearn.ensemble._forest.ExtraTreesRegressor",
        "sklearn.ensemble._forest.RandomForestClassifier", "sklearn.ensemble._forest.RandomForestRegressor",
        "sklearn.ensemble._gb.GradientBoostingClassifier", "sklearn.ensemble._gb.GradientBoostingRegressor",
        "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
        "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingClassifier",
        "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingRegressor",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor", "sklearn.impute._base.SimpleImputer",
        "sklearn.linear_model._base.LinearRegression", "sklearn.linear_model._logistic.LogisticRegression",
        "sklearn.linear_model._ridge.Ridge", "sklearn.linear_model._ridge.RidgeCV",
        "sklearn.metrics._dist_metrics.EuclideanDistance64",
        "sklearn.naive_bayes.GaussianNB", "sklearn.neighbors._classification.KNeighborsClassifier",
        "sklearn.neighbors._kd_tree.KDTree", "sklearn.pipeline.Pipeline", "sklearn.preprocessing._data.StandardScaler",
        "sklearn.preprocessing._encoders.OneHotEncoder", "sklearn.preprocessing._label.LabelEncoder",
        "sklearn.svm._classes.SVC", "sklearn.svm._classes.SVR", "sklearn.tree._classes.DecisionTreeClassifier",
        "sklearn.tree._classes.DecisionTreeRegressor", "sklearn.tree._classes.ExtraTreeClassifier",
        "sklearn.tree._classes.ExtraTreeRegressor", "sklearn.tree._tree.Tree", "xgboost.core.Booster",
        "xgboost.sklearn.XGBClassifier", "xgboost.sklearn.XGBRegressor",
    }
)  # fmt: skip
"""Types in the catalog's models, apart from numbers and arrays; RuleFit's rules are expressions that pandas
evaluates, so it is not among them."""
_ADVICE: Final = (
    "which no model of the short names is made of, and is not loaded: if you trust its author with this machine, add "
    "{}, or ask for an ONNX file"
)


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
            raise DataError(f"{what} has {len(inputs)} inputs, and one is read: ask for a file of 'fedct export'")
        self._what, self._input = what, inputs[0]
        self._outputs = [output.name for output in self._session.get_outputs()]

    def predict(self, X: Features) -> HardLabels:
        """The number of each example's class, ``(n,)``. Raises DataError, TrainingError."""
        return classes_of(self._run("label", X), len(X), model=self._what)

    def probabilities(self, X: Features, num_classes: int) -> NDArray[np.float64] | None:
        """Of each class, ``(n, classes)``; None if it knows none. Raises DataError, TrainingError."""
        if "probabilities" not in self._outputs:
            return None
        shares = self._run("probabilities", X)
        return probabilities_of(shares, range(num_classes), len(X), num_classes, model=self._what)

    def _run(self, output: str, X: Features) -> NDArray[Any]:
        kind = np.float64 if "double" in self._input.type else np.float32
        try:
            (found,) = self._session.run([output], {self._input.name: X.astype(kind)})
            return np.asarray(found)
        except Exception as error:
            raise DataError(f"{self._what} cannot be asked: {type(error).__name__}") from error


@dataclass(frozen=True, eq=False)
class Model:
    """A trained model, ready to use. ``schema`` has columns and classes as it numbers them."""

    description: ModelDescription
    schema: Schema
    learner: Learner | OnnxLearner

    def predict(self, X: Features) -> Answers:
        """Predict the class or the value of each example ``(n,)``.

        Raises TrainingError where the model fails, and DataError where its answer is no class of the study.
        """
        return self.schema.outcome.check_answers(self.learner.predict(X))

    def probabilities(self, X: Features, *, raw: bool = False) -> NDArray[np.float64] | None:
        """Of each class, ``(n, classes)``; None if the model knows none. Raises TrainingError.

        Chances where the description can make some, unless they are wanted ``raw``.
        """
        # An ONNX file's graph recalibrates by itself.
        how = None if raw or isinstance(self.learner, OnnxLearner) else self.description.recalibration
        return Recalibrated(self.learner, how).probabilities(X, len(self.schema.classes))


def recalibrated(path: Path, how: Recalibration) -> bytes:
    """The content of a model's file, whose probabilities become chances by ``how``. Raises DataError, ConfigError."""
    content, what = path.read_bytes(), f"the model {path}"
    if path.suffix == ".onnx":
        raise ConfigError(f"{what} is an ONNX file: recalibrate the .skops or .safetensors file, and export that")
    archive = content.startswith(_ZIP)
    description, _ = _described(member(content) if archive else _metadata(content), what)
    text = text_of(description.model_copy(update={"chances": how}))
    if archive:
        return with_member(content, text)
    return learners.described(content, None, text)


def load_model(path: Path, packages: Collection[str] = ()) -> Model:
    """A model from a file that may come from elsewhere; ``packages`` are those whose code may run, besides ours.

    It is read in this process, which a forged file can end: ``ForeignModel`` reads it in another. Raises DataError for
    a file that cannot be read or holds what is not trusted, ConfigError where an extra is missing.
    """
    try:
        check_is_file(path)
        content = path.read_bytes()
    except OSError as error:
        raise DataError(f"cannot read the model {path}: {error.strerror}") from None
    what = f"the model {path}"
    if path.suffix == ".onnx":
        found = OnnxLearner(content, what)
        description, schema = _described(found.description, what)
        check_names(schema.columns, what, schema.classes)
        return Model(description, schema, found)
    archive = content.startswith(_ZIP)
    description, schema = _described(member(content) if archive else _metadata(content), what)
    check_names(schema.columns, what, schema.classes)
    if not archive:
        return Model(description, schema, _network(content, description, what, packages))
    pipeline = read_object(content, what, packages, _TYPES, _ADVICE)
    learner: SklearnLearner = SklearnRegressor(None) if schema.outcome.number else SklearnLearner(None)
    try:
        learner.take_over(pipeline)
    except (AttributeError, TypeError, ValueError) as error:
        raise DataError(f"{what} holds no classifier") from error
    return Model(description, schema, learner)


def blank(description: ModelDescription) -> Features:
    """Two examples ``(2, ...)`` as the model takes them: zeros, and empty texts."""
    if not description.text:
        return np.zeros((2, *description.shape), dtype=np.float32)
    row = ["" if name in description.text else 0.0 for name, _ in description.columns]
    return np.array([row, row], dtype=np.object_)


def _metadata(content: bytes) -> str | None:
    length = int.from_bytes(content[:_HEADER_BYTES], "little")
    try:
        header = json.loads(content[_HEADER_BYTES : _HEADER_BYTES + length])
        return str(header["__metadata__"]["fedct"])
    except DAMAGED:
        return None


def _described(text: str | None, what: str) -> tuple[ModelDescription, Schema]:
    try:
        raw = json.loads(text or "")
        if not isinstance(raw, dict):
            raise ValueError
        description = ModelDescription.read(raw, what)
        texts = description.text
        columns = tuple(Column(name, categories, name in texts) for name, categories in description.columns)
        form = ImageForm(description.image_size, description.image_mode) if description.image_size else None
        return description, Schema(description.classes, columns, description.quantity, form)
    except (ValueError, RecursionError, ConfigError, DataError) as error:
        raise DataError(
            f"{what} is damaged, or does not say what its columns are: real silos' own models are for 'fedct silo "
            "predict', and 'fedct simulate' describes those of its silos when it ends"
        ) from error


def _network(content: bytes, description: ModelDescription, what: str, packages: Collection[str]) -> Learner:
    name = description.learner
    if name not in NETWORKS and name != TRANSFORMER and package(name) not in packages:
        raise DataError(
            f"{what} is a network that {name!r} makes, which is code: if you trust it, add --package {package(name)}"
        )
    # Weights of torchvision would be downloaded, only to be replaced by those in the file.
    params = {**description.params, **({"weights": None} if name == TORCHVISION else {})}
    params.pop(AUGMENT, None)
    settings = LearnerSettings.read({"name": name, "params": params, "preprocessing": "none"}, what)
    try:
        preprocessing = learners.preprocessing_in(content)
        transformer = None if preprocessing is None else read_object(preprocessing, what, (), _TYPES, _ADVICE)
        examples = blank(description)
        # The names that torchvision knows say how large its networks are.
        if name in NETWORKS and name != TORCHVISION:
            wanted = wanted_of(len(description.classes), examples, transformer)
            if learners.num_values(lambda: make(name, settings.params, **wanted)) > len(content):
                raise DataError(f"{what} is damaged or forged: it describes a larger network than it holds")
        learner = untrained(settings, 0, description.classes, examples, transformer)
        if not isinstance(learner, Resumable):
            raise DataError(f"{what} is no network's, though it is said to be one of {name!r}")
        learner.restore(content)
    except DataError:
        raise
    except ImportError:
        raise ConfigError(
            f"{what} is a network, which needs the extra 'torch': pip install -c constraints.txt -e '.[torch]'"
        ) from None
    except ConfigError as error:
        if isinstance(error.__cause__, ImportError):
            raise
        raise DataError(f"{what} describes what cannot be made: {error}") from error
    except Exception as error:  # safetensors and torch raise many types
        raise DataError(f"{what} is damaged: it does not hold what {name!r} makes") from error
    return learner


LIMIT: Final = 600.0
"""Seconds for reading a file, for exporting it, and for each piece of the records."""
PIECE: Final = 2048
"""Records, such as images, that are asked about at a time."""
VALUES: Final = 1 << 21
"""As many records more as have this number of features together."""


class ForeignModel:
    """A model of ``load_model``, used in a process of its own, which ends with this context manager.

    ``packages`` are those whose code may run, ``limit`` is in seconds. Raises what ``Model`` does, and DataError where
    the process dies or the limit is over; then nothing more can be asked.
    """

    def __init__(self, path: Path, packages: Collection[str] = (), *, limit: float = LIMIT) -> None:
        self._path, self._limit = path, limit
        # Its last output is for programmers: the command says it in one sentence.
        self._process: Any = ProcessPoolExecutor(max_workers=1, initializer=_begin, env={"PYTHONFAULTHANDLER": ""})
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

    _model = load_model(path, packages)
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
