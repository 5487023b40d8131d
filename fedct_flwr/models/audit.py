"""What a model file from elsewhere may hold: listed types, and no index that leads out of bounds.

skops builds objects without calling what is in the file, and tells which types it does not know to be harmless. Its own
list has all of scikit-learn's estimators; ours has those that the catalog's learners are made of. What their arrays
hold, ``indices`` looks at.

What remains: whatever scikit-learn's, SciPy's and XGBoost's readers and predictors get wrong with values that were not
thought of here. ``foreign`` reads such files in a process that may be lost. RuleFit is not among the types:
its rules are expressions that pandas evaluates, which is to run code.
"""

import io
import json
import zipfile
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final

import numpy as np
import skops.io
from sklearn.neighbors import KDTree, KNeighborsClassifier
from sklearn.tree import BaseDecisionTree
from sklearn.tree._tree import Tree

from fedct_flwr.models import trees
from fedct_flwr.models.indices import check, is_xgboosts, require
from fedct_flwr.types import DataError

TYPES: Final = frozenset(
    {
        "fedct_flwr.learners.image_features.Patches",
        "fedct_flwr.learners.image_features.Pixels",
        "fedct_flwr.learners.language.Sentences",
        "fedct_flwr.learners.language.Tokens",
        "fedct_flwr.learners.preprocessing.Numbers",
        "fedct_flwr.learners.preprocessing.Words",
        "fedct_flwr.learners.relabel.Relabeled",
        "fedct_flwr.learners.text.Table",
        "fedct_flwr.learners.text.Texts",
        "numpy.dtype",
        "sklearn._loss._loss.CyHalfBinomialLoss",
        "sklearn._loss._loss.CyHalfMultinomialLoss",
        "sklearn._loss.link.Interval",
        "sklearn._loss.link.LogitLink",
        "sklearn._loss.link.MultinomialLogit",
        "sklearn._loss.loss.HalfBinomialLoss",
        "sklearn._loss.loss.HalfMultinomialLoss",
        "sklearn.compose._column_transformer.ColumnTransformer",
        "sklearn.dummy.DummyClassifier",
        "sklearn.ensemble._forest.ExtraTreesClassifier",
        "sklearn.ensemble._forest.ExtraTreesRegressor",
        "sklearn.ensemble._forest.RandomForestClassifier",
        "sklearn.ensemble._forest.RandomForestRegressor",
        "sklearn.ensemble._gb.GradientBoostingClassifier",
        "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
        "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingClassifier",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.impute._base.SimpleImputer",
        "sklearn.linear_model._base.LinearRegression",
        "sklearn.linear_model._logistic.LogisticRegression",
        "sklearn.linear_model._ridge.Ridge",
        "sklearn.metrics._dist_metrics.EuclideanDistance64",
        "sklearn.naive_bayes.GaussianNB",
        "sklearn.neighbors._classification.KNeighborsClassifier",
        "sklearn.neighbors._kd_tree.KDTree",
        "sklearn.pipeline.Pipeline",
        "sklearn.preprocessing._data.StandardScaler",
        "sklearn.preprocessing._encoders.OneHotEncoder",
        "sklearn.preprocessing._label.LabelEncoder",
        "sklearn.svm._classes.SVC",
        "sklearn.tree._classes.DecisionTreeClassifier",
        "sklearn.tree._classes.DecisionTreeRegressor",
        "sklearn.tree._classes.ExtraTreeClassifier",
        "sklearn.tree._classes.ExtraTreeRegressor",
        "sklearn.tree._tree.Tree",
        "xgboost.core.Booster",
        "xgboost.sklearn.XGBClassifier",
    }
)
"""What the catalog's classifiers, some of its regressors and the preprocessing are made of, but for RuleFit.

Numbers and arrays are allowed besides.
"""

_CONTAINERS: Final = frozenset({"collections.OrderedDict"})
"""What other packages' models keep their parts in (LightGBM's), which are looked at like all others."""

_VALUES: Final = (
    *(type(None), bool, int, float, str, slice),
    *(np.generic, np.dtype, np.random.RandomState, np.random.Generator),
)
"""What has no parts."""

_LONGEST_NAME: Final = 200
_NOT_OURS: Final = "is damaged, or none that this program wrote"


def read_object(content: bytes, what: str, packages: Collection[str] = ()) -> Any:
    """The object in a file in skops format from elsewhere; ``what`` names the file in errors.

    ``packages`` are those whose types are trusted too. Raises DataError for types that are neither in ``TYPES`` nor
    theirs, naming them; for indices out of bounds; and for a damaged file.
    """
    try:
        found = _types(content)
        foreign = sorted(name for name in found - TYPES - _CONTAINERS if name.partition(".")[0] not in packages)
        if foreign:
            needed = sorted({f"--package {name.partition('.')[0]}" for name in foreign})
            raise DataError(
                f"{what} holds {', '.join(foreign)}, which no model of the short names is made of, and is not loaded: "
                f"if you trust whoever wrote it with this machine, add {' '.join(needed)}"
            )
        with trees.checked(), _checked_boosters(found):
            model = skops.io.loads(content, trusted=sorted(found))
        for part in _parts(model, set(), strict=not packages):
            check(part)
    except DataError:
        raise
    except Exception as error:  # zipfile, skops and scikit-learn raise many types
        raise DataError(f"{what} {_NOT_OURS}: {type(error).__name__}") from error
    return model


def _checked_boosters(found: Collection[str]) -> AbstractContextManager[None]:
    if not any(name.partition(".")[0] == "xgboost" for name in found):
        return nullcontext()
    from fedct_flwr.models.boosted import checked

    return checked()


def _types(content: bytes) -> set[str]:
    """The types that skops does not know to be harmless, and all of scikit-learn's."""
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        # skops packs nothing: what is a few bytes here cannot become gigabytes.
        entries = file.infolist()
        if any(entry.compress_type != zipfile.ZIP_STORED for entry in entries):
            raise ValueError("Packed")
        if sum(entry.file_size for entry in entries) > len(content):
            raise ValueError("Members that share bytes")
        named = set(_named(json.loads(file.read("schema.json"))))
    packaged = {name for name in named if name.partition(".")[0] not in ("builtins", "collections", "numpy", "scipy")}
    return packaged | set(skops.io.get_untrusted_types(data=content))


def _named(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(schema.get("__class__"), str):
            name = f"{schema.get('__module__')}.{schema['__class__']}"
            # It is quoted in errors.
            require(len(name) <= _LONGEST_NAME and all(part.isidentifier() for part in name.split(".")))
            yield name
        schema = list(schema.values())
    if isinstance(schema, list):
        for item in schema:
            yield from _named(item)


def _parts(value: Any, seen: set[int], *, strict: bool) -> Iterator[Any]:
    """The object and all that it is made of, each once.

    If ``strict``, raises ValueError for whatever no model of the listed types holds: other containers and values,
    attributes that hide a method, and what walks nodes outside of the one type that is checked for it.
    """
    if id(value) in seen:
        return
    seen.add(id(value))
    if isinstance(value, _VALUES) or (isinstance(value, type) and issubclass(value, np.generic)):
        return
    if isinstance(value, dict):
        inner = [*value.keys(), *value.values()]
    elif isinstance(value, list | tuple | set | frozenset):
        inner = list(value)
    elif isinstance(value, np.ndarray):
        require(not strict or type(value) is np.ndarray)
        inner = list(value.flat) if value.dtype.hasobject else []
    elif isinstance(value, Tree | KDTree):
        # Those of the types that own them are not met here.
        require(not strict)
        return
    elif hasattr(value, "__dict__"):
        if strict:
            require(_name(value) in TYPES and not any(hasattr(type(value), name) for name in vars(value)))
        yield value
        inner = [item for name, item in vars(value).items() if not _owns(value, name, item)]
    else:
        # Losses and their like.
        require(not strict or _name(value) in TYPES)
        return
    for item in inner:
        yield from _parts(item, seen, strict=strict)


def _name(value: Any) -> str:
    return f"{type(value).__module__}.{type(value).__qualname__}"


def _owns(part: Any, name: str, item: Any) -> bool:
    """Whether the check of ``part`` has looked at this attribute, so that nothing is left to look at."""
    if isinstance(part, BaseDecisionTree):
        return name == "tree_" and type(item) is Tree
    if isinstance(part, KNeighborsClassifier):
        return name == "_tree" and type(item) is KDTree
    return is_xgboosts("Booster", part) and name == "handle"
