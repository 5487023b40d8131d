"""What a model file in skops format may hold: listed types alone, whatever their values.

skops builds objects without calling what is in the file; its own list of harmless types has all of scikit-learn's
estimators, ours those that the catalog's learners are made of. A forged value may end the process that reads it, so
``foreign`` uses one of its own. RuleFit is not among the types: its rules are expressions that pandas evaluates.
"""

import io
import json
import zipfile
from collections.abc import Collection, Iterator
from typing import Any, Final

import skops.io

from fedct_flwr.types import DataError

TYPES: Final = frozenset(
    {
        "fedct_flwr.learners.views.Patches", "fedct_flwr.learners.views.Pixels",
        "fedct_flwr.learners.language.Sentences", "fedct_flwr.learners.language.Tokens",
        "fedct_flwr.learners.preprocessing.Numbers", "fedct_flwr.learners.preprocessing.Words",
        "fedct_flwr.learners.sklearn.Relabeled", "fedct_flwr.learners.text.Table", "fedct_flwr.learners.text.Texts",
        "numpy.dtype", "sklearn._loss._loss.CyHalfBinomialLoss", "sklearn._loss._loss.CyHalfMultinomialLoss",
        "sklearn._loss.link.Interval", "sklearn._loss.link.LogitLink", "sklearn._loss.link.MultinomialLogit",
        "sklearn._loss.loss.HalfBinomialLoss", "sklearn._loss.loss.HalfMultinomialLoss",
        "sklearn.compose._column_transformer.ColumnTransformer", "sklearn.dummy.DummyClassifier",
        "sklearn.ensemble._forest.ExtraTreesClassifier", "sklearn.ensemble._forest.ExtraTreesRegressor",
        "sklearn.ensemble._forest.RandomForestClassifier", "sklearn.ensemble._forest.RandomForestRegressor",
        "sklearn.ensemble._gb.GradientBoostingClassifier",
        "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
        "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingClassifier",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor", "sklearn.impute._base.SimpleImputer",
        "sklearn.linear_model._base.LinearRegression", "sklearn.linear_model._logistic.LogisticRegression",
        "sklearn.linear_model._ridge.Ridge", "sklearn.metrics._dist_metrics.EuclideanDistance64",
        "sklearn.naive_bayes.GaussianNB", "sklearn.neighbors._classification.KNeighborsClassifier",
        "sklearn.neighbors._kd_tree.KDTree", "sklearn.pipeline.Pipeline", "sklearn.preprocessing._data.StandardScaler",
        "sklearn.preprocessing._encoders.OneHotEncoder", "sklearn.preprocessing._label.LabelEncoder",
        "sklearn.svm._classes.SVC", "sklearn.tree._classes.DecisionTreeClassifier",
        "sklearn.tree._classes.DecisionTreeRegressor", "sklearn.tree._classes.ExtraTreeClassifier",
        "sklearn.tree._classes.ExtraTreeRegressor", "sklearn.tree._tree.Tree", "xgboost.core.Booster",
        "xgboost.sklearn.XGBClassifier",
    }
)  # fmt: skip
"""What the catalog's models are made of, but for RuleFit, apart from numbers and arrays."""

_CONTAINERS: Final = frozenset({"collections.OrderedDict"})
"""What other packages' models keep their parts in (LightGBM's)."""

_LONGEST_NAME: Final = 200


def read_object(content: bytes, what: str, packages: Collection[str] = ()) -> Any:
    """The object in a skops file ``what``; types of ``packages`` are trusted too. Raises DataError for others."""
    try:
        found = _types(content)
        foreign = sorted(name for name in found - TYPES - _CONTAINERS if name.partition(".")[0] not in packages)
        if foreign:
            needed = sorted({f"--package {name.partition('.')[0]}" for name in foreign})
            raise DataError(
                f"{what} holds {', '.join(foreign)}, which no model of the short names is made of, and is not loaded: "
                f"if you trust its author with this machine, add {' '.join(needed)}, or ask for an ONNX file"
            )
        return skops.io.loads(content, trusted=sorted(found))
    except DataError:
        raise
    except Exception as error:  # zipfile, skops and scikit-learn raise many types
        raise DataError(f"{what} is damaged, or not written by this program: {type(error).__name__}") from error


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
            if len(name) > _LONGEST_NAME or not all(part.isidentifier() for part in name.split(".")):
                raise ValueError("No name of a type")
            yield name
        schema = list(schema.values())
    if isinstance(schema, list):
        for item in schema:
            yield from _named(item)
