"""Learners by short name or import path."""

import importlib
import inspect
import os
import sys
import threading
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext
from pathlib import Path
from types import FunctionType
from typing import Any, Final
from weakref import WeakValueDictionary

from fedct_flwr import learners
from fedct_flwr.config.learner import AUTO
from fedct_flwr.text.printable import suggest
from fedct_flwr.types import LearnerError

TORCHVISION: Final = "torchvision"
TFIDF: Final = "tfidf-linear"
"""The learner that reads columns of text, see ``learners.text``."""
EMBEDDING: Final = "sentence-embedding"
TRANSFORMER: Final = "transformer"
"""The learners that read text by a language model from a folder, see ``learners.language``."""

CLASSIFIERS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "decision-tree": ("sklearn.tree.DecisionTreeClassifier", {}),
    "random-forest": ("sklearn.ensemble.RandomForestClassifier", {}),
    "extra-trees": ("sklearn.ensemble.ExtraTreesClassifier", {}),
    "gradient-boosting": ("sklearn.ensemble.GradientBoostingClassifier", {}),
    "hist-gradient-boosting": ("sklearn.ensemble.HistGradientBoostingClassifier", {}),
    "logistic-regression": ("sklearn.linear_model.LogisticRegression", {"max_iter": 1000}),
    "svm": ("sklearn.svm.SVC", {}),
    "nearest-neighbors": ("sklearn.neighbors.KNeighborsClassifier", {}),
    "naive-bayes": ("sklearn.naive_bayes.GaussianNB", {}),
    # One thread per silo: threads of several silos on the same cores only wait for each other.
    "xgboost": ("xgboost.XGBClassifier", {"n_jobs": 1}),
    "rulefit": ("fedct_flwr.learners.rules.rule_fit", {}),
    TFIDF: ("sklearn.linear_model.LogisticRegression", {"max_iter": 1000, "C": 5.0}),
}
"""Classifiers in scikit-learn's manner: import path and default parameters."""

REGRESSORS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "decision-tree": ("sklearn.tree.DecisionTreeRegressor", {}),
    "random-forest": ("sklearn.ensemble.RandomForestRegressor", {}),
    "extra-trees": ("sklearn.ensemble.ExtraTreesRegressor", {}),
    "gradient-boosting": ("sklearn.ensemble.GradientBoostingRegressor", {}),
    "hist-gradient-boosting": ("sklearn.ensemble.HistGradientBoostingRegressor", {}),
    "linear-regression": ("sklearn.linear_model.LinearRegression", {}),
    "ridge": ("sklearn.linear_model.Ridge", {}),
    "svm": ("sklearn.svm.SVR", {}),
    "xgboost": ("xgboost.XGBRegressor", {"n_jobs": 1}),
    TFIDF: ("sklearn.linear_model.Ridge", {}),
}
"""The same for a quantity, all of which take sample weights."""

SURVIVAL: Final[dict[str, tuple[str, dict[str, Any]]]] = {"cox": ("fedct_flwr.survival.cox.RidgeCox", {})}
"""The same for time to an event, see ``learners.survival``."""

SOME_REGRESSORS: Final = (
    f"use one of {', '.join(REGRESSORS)}, or the import path of another regressor in scikit-learn's manner"
)
"""Advice on an object that is not a learner."""

NETWORKS: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    "mlp": ("fedct_flwr.learners.networks.mlp", {}),
    "small-cnn": ("fedct_flwr.learners.networks.small_cnn", {}),
    TORCHVISION: ("fedct_flwr.learners.networks.torchvision_network", {}),
}
"""For tables, a small one for images of any size, and torchvision's by their ``model``'s name."""

_NOW_CALLED: Final = {"fashion-mnist-mlp": "mlp with width 512", "cifar10-cnn": "small-cnn", "svhn-cnn": "small-cnn"}
LANGUAGE: Final[dict[str, tuple[str, dict[str, Any]]]] = {
    # Embeddings have length 1, so a linear model needs large weights.
    EMBEDDING: ("sklearn.linear_model.LogisticRegression", {"max_iter": 1000, "C": 5.0}),
    TRANSFORMER: ("fedct_flwr.learners.transformer.classifier", {}),
}
"""Classifiers of text that need a language model's folder among their parameters."""

MAKING: Final = threading.RLock()
"""Held while a learner is made: torch has one random generator for all threads, and networks begin with what it gives.
"""


@contextmanager
def usual_torch() -> Iterator[None]:
    """Torch as in a thread of its own, whatever a notebook has set in this one: with gradients, and on the CPU."""
    torch = sys.modules.get("torch")
    with ExitStack() as usual:
        if torch and torch.is_inference_mode_enabled():
            usual.enter_context(torch.inference_mode(mode=False))
        if torch and torch.get_default_device().type != "cpu":
            usual.enter_context(torch.device("cpu"))
        yield


UNSAVED: Final = frozenset({"rulefit"})
"""Learners whose trained models go into no file that loads without executing code."""

NOT_SOFT: Final = frozenset({"svm", "nearest-neighbors", "rulefit"})
"""Learners that know no probabilities, unless they are told to, or that take no sample weights."""

LEARNER_FOLDER: Final = "FEDCT_LEARNER_FOLDER"
"""Environment variable: a folder in which learners are looked for that are not installed."""

SHORT_NAMES: Final = {**CLASSIFIERS, **NETWORKS}

_OF_CLASSES: Final = {**SHORT_NAMES, **LANGUAGE}
_ALL_NAMES: Final = {**REGRESSORS, **SURVIVAL, **_OF_CLASSES}

NAMES: Final = (AUTO, *_ALL_NAMES)
"""All short names; the first leads to a choice, see ``automatic``."""

LIBRARIES: Final = ("sklearn", "xgboost", "lightgbm", "catboost")
"""Packages whose estimators keep their parameters and run nothing else, and take numbers."""
_EXTRAS: Final = {
    "torch": "torch",
    "safetensors": "torch",
    "torchvision": "vision",
    "transformers": "language",
    "peft": "language",
    "xgboost": "boost",
    "imodels": "rules",
    "six": "rules",
}

USUAL: Final = "default"
"""Arrays, as scikit-learn's transformers give them unless ``set_config`` says otherwise."""


class HeldLearner:
    """A learner that the caller has made, instead of a name that leads to one. It can be found while this object lives.

    ``name`` is an import path with ``@`` and something that tells it from others; ``copy`` makes an untrained copy,
    and ``packages`` are those whose code is in it. ``output`` is the caller's ``transform_output`` of scikit-learn.
    """

    def __init__(self, name: str, copy: Callable[[], Any], packages: Collection[str], output: str = USUAL) -> None:
        self.name, self.copy, self.packages, self.output = name, copy, sorted(packages), output
        _HELD[name] = self


_HELD: Final[WeakValueDictionary[str, HeldLearner]] = WeakValueDictionary()


class ModelMemory(dict[Path, Any]):
    """Trained models that no file can hold, by the paths that they would have. Its copy elsewhere is empty."""

    def __reduce__(self) -> tuple[Any, ...]:
        return ModelMemory, ()


_MEMORIES: Final[WeakValueDictionary[Path, ModelMemory]] = WeakValueDictionary()


def memory_for(folder: Path) -> ModelMemory:
    """Memory for the models of a folder. Learners of this process use it as long as a caller holds it."""
    return _MEMORIES.setdefault(folder.resolve(), ModelMemory())


def models_in_memory(path: Path) -> ModelMemory | None:
    """Memory for a model of this path; None where its folder has none."""
    return _MEMORIES.get(path.resolve().parent)


def make(name: str, params: dict[str, Any], *, number: bool = False, **wanted: Any) -> Any:
    """Make what a short name or an import path such as ``my_package.models.make_pipeline`` leads to.

    The path leads to a class, which must be a learner's, or to a function that makes one; ``params`` are its keyword
    arguments, and so are those of ``wanted`` that it takes. Short names are those of ``REGRESSORS`` where a ``number``
    is predicted. Importing and calling run code, see ``check_allowed``. Raises LearnerError for whatever goes wrong,
    naming the nearest name or the missing extra.
    """
    names = REGRESSORS if number else _OF_CLASSES
    if name in _ALL_NAMES and name not in names:
        if number:
            raise LearnerError(f"learner {name!r} predicts classes, and here a number is predicted: {SOME_REGRESSORS}")
        raise LearnerError(f"learner {name!r} predicts a number, and here classes are predicted: choose another")
    if "@" in name:
        return _held(name, params)
    path, defaults = names.get(name, (name, {}))
    found = _import(name, path, names)
    # By its methods, as CatBoost's classes have all of scikit-learn's but not its base class.
    if inspect.isclass(found) and not (hasattr(found, "fit") and hasattr(found, "predict")) and not is_network(found):
        raise LearnerError(
            f"learner {name!r} is no classifier: {path} is neither like scikit-learn's classes nor a torch module"
        )
    try:
        signature = inspect.signature(found)
    except ValueError:
        raise LearnerError(f"learner {name!r} is no classifier: {path} is built into Python") from None
    arguments = {key: value for key, value in wanted.items() if key in signature.parameters} | defaults | params
    try:
        signature.bind(**arguments)
    except TypeError:
        known = list(signature.parameters)
        unknown = [key for key in arguments if key not in known]
        if unknown:
            wrong = f"has no parameter {unknown[0]!r}: {suggest(unknown[0], known)}"
        else:
            wrong = f"needs more parameters: there are {', '.join(known)}"
        raise LearnerError(f"learner {name!r} {wrong}") from None
    try:
        # The caller's later draws from torch must not depend on networks that are made here.
        torch = sys.modules.get("torch")
        with MAKING, torch.random.fork_rng() if torch else nullcontext():
            made = found(**arguments)
            return learners.as_estimator(made) if is_plain(made) and not is_network(made) else made
    except ImportError as error:
        raise _missing(name, error) from error
    except Exception as error:
        raise LearnerError(f"learner {name!r} cannot be made: {error}") from error


def check_allowed(name: str, packages: Collection[str]) -> None:
    """Raise LearnerError unless a silo that trusts these ``packages`` trains this learner.

    Short names are trusted, but for torchvision, which would fetch weights if it were told to.
    """
    for needed in code_of([name], packages):
        raise LearnerError(
            f"learner {name!r} is not allowed at this silo: use another short name, or add {needed!r} to packages "
            "under [learner] in silo.toml"
        )


def code_of(names: Iterable[str], packages: Collection[str] = ()) -> list[str]:
    """Packages not in ``packages`` whose code runs where learners of these names are made."""
    outside = (name for name in names if name == TORCHVISION or name not in {*NAMES, *_NOW_CALLED})
    needed = dict.fromkeys(name if name == TORCHVISION else package(name) for name in outside)
    return [one for one in needed if one not in packages]


def code_of_file(names: Iterable[str], packages: Collection[str] = ()) -> list[str]:
    """The same where a file has the names: estimators of libraries keep their parameters and run nothing else."""
    return code_of([name for name in names if not _is_of_library(name)], packages)


def _is_of_library(name: str) -> bool:
    if package(name) not in LIBRARIES or "@" in name:
        return False
    try:
        found = _import(name, name, {})
    except LearnerError:
        return False
    # By where it was made: modules hold functions of others, such as urlretrieve.
    mine = inspect.isclass(found) and package_of(found) == package(name)
    return mine and all(hasattr(found, method) for method in ("fit", "get_params", "set_params"))


def named_in(settings: Mapping[str, Any]) -> list[str]:
    """The learners that run-config values name, for silos and for the student."""
    values = (settings.get(key, ()) for key in ("learner", "student"))
    return [name for one in values for name in (one.split(",") if isinstance(one, str) else one) if name]


def check_from_file(names: Iterable[str], packages: Collection[str], file: Path) -> None:
    """Raise LearnerError unless these ``packages`` have all code that learners run which a file names.

    Its author chose the names, and with parameters an import path runs any command.
    """
    for needed in code_of_file(names, packages):
        raise LearnerError(
            f"{file} names a learner whose code would run, of the package {needed!r}: if you trust both, add "
            f"--package {needed}, or packages=[{needed!r}] in Python"
        )


def _held(name: str, params: Mapping[str, Any]) -> Any:
    if (held := _HELD.get(name)) is None:
        kind = name.partition("@")[0]
        raise LearnerError(f"the learner, a {kind}, was an object of another process: hand it to simulate() again")
    if params:
        raise LearnerError(f"learner-params have no effect on a learner that is an object ({name}): set them on it")
    with MAKING:
        return held.copy()


def packages(name: str) -> Collection[str]:
    """The top packages whose types a file of the learner's model may hold."""
    held = _HELD.get(name)
    return held.packages if held else [] if name == AUTO else [package(name)]


def output_of(name: str) -> str:
    """The ``transform_output`` of scikit-learn under which a learner trains and predicts."""
    held = _HELD.get(name)
    return held.output if held else USUAL


def package(name: str) -> str:
    """The top package that a learner's name leads to."""
    return _ALL_NAMES.get(name, (name, {}))[0].replace(":", ".").partition(".")[0]


def package_of(kind: type | FunctionType) -> str:
    """The top package that a type or a function comes from."""
    return kind.__module__.partition(".")[0]


def is_network(model: object) -> bool:
    """Whether it is a torch module, or a class of such."""
    # Without importing torch, which takes seconds and may not be there: what is no module has not imported it either.
    torch, kind = sys.modules.get("torch"), model if isinstance(model, type) else type(model)
    return torch is not None and issubclass(kind, torch.nn.Module)


def is_plain(learner: object) -> bool:
    """Whether it has ``fit`` and ``predict``, but not scikit-learn's parameters."""
    return has_methods(learner, "fit", "predict") and not has_methods(learner, "get_params", "set_params")


def has_methods(learner: object, *names: str) -> bool:
    """Whether an object or its class has these methods: some come to an object only once it is trained.

    ``dir`` of an object would compute all its attributes, and raise what one of them does before training.
    """
    return all(hasattr(type(learner), name) or hasattr(learner, name) for name in names)


def _import(name: str, path: str, names: Mapping[str, Any]) -> Any:
    if (folder := os.environ.get(LEARNER_FOLDER)) and folder not in sys.path:
        # Last, so that no file there hides a module that other code needs.
        sys.path.append(folder)
    module, _, attribute = path.replace(":", ".").rpartition(".")
    if not module:
        instead = f"take {_NOW_CALLED[path]}" if path in _NOW_CALLED else suggest(path, [AUTO, *names])
        raise LearnerError(f"unknown learner {path!r}: {instead} (or give an import path)")
    try:
        found = getattr(importlib.import_module(module), attribute)
    except ImportError as error:
        raise _missing(name, error) from error
    except Exception as error:  # importing runs code, and code may fail in any way
        raise LearnerError(f"cannot import learner {name!r}: {error}") from error
    if not callable(found):
        raise LearnerError(f"learner {name!r} is neither a class nor a function")
    return found


def _missing(name: str, error: ImportError) -> LearnerError:
    extra = _EXTRAS.get((error.name or "").partition(".")[0])
    if extra:
        return LearnerError(
            f"learner {name!r} needs {error.name}, the extra {extra!r}: pip install -c constraints.txt -e '.[{extra}]'"
        )
    return LearnerError(f"cannot import learner {name!r}: {error}")
