"""What a model file from elsewhere may hold: listed types, and no index that leads out of bounds.

skops builds objects without calling what is in the file, and tells which types it does not know to be harmless. Its own
list has all of scikit-learn's estimators; ours has those that the catalog's learners are made of. What their arrays
hold, compiled code believes without looking, so that is looked at here.

What remains: whatever scikit-learn's, SciPy's and XGBoost's readers and predictors get wrong with values that were not
thought of here. A model of somebody unknown is safest in a process that may be lost. RuleFit is not among the types:
its rules are expressions that pandas evaluates, which is to run code.
"""

import io
import json
import sys
import zipfile
from collections.abc import Collection, Iterator
from typing import Any, Final

import numpy as np
import skops.io
from sklearn.dummy import DummyClassifier
from sklearn.ensemble import GradientBoostingClassifier, HistGradientBoostingClassifier
from sklearn.ensemble._forest import ForestClassifier
from sklearn.ensemble._hist_gradient_boosting.binning import _BinMapper
from sklearn.ensemble._hist_gradient_boosting.predictor import TreePredictor
from sklearn.neighbors import KDTree, KNeighborsClassifier
from sklearn.preprocessing import OneHotEncoder
from sklearn.svm import SVC
from sklearn.tree import BaseDecisionTree, DecisionTreeClassifier, DecisionTreeRegressor, ExtraTreeClassifier
from sklearn.tree._tree import Tree

from fedct_flwr.types import DataError

TYPES: Final = frozenset(
    {
        "fedct_flwr.learners.relabel.Relabeled",
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
        "sklearn.ensemble._forest.RandomForestClassifier",
        "sklearn.ensemble._gb.GradientBoostingClassifier",
        "sklearn.ensemble._hist_gradient_boosting.binning._BinMapper",
        "sklearn.ensemble._hist_gradient_boosting.gradient_boosting.HistGradientBoostingClassifier",
        "sklearn.ensemble._hist_gradient_boosting.predictor.TreePredictor",
        "sklearn.impute._base.SimpleImputer",
        "sklearn.linear_model._logistic.LogisticRegression",
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
        "sklearn.tree._tree.Tree",
        "xgboost.core.Booster",
        "xgboost.sklearn.XGBClassifier",
    }
)
"""What the catalog's classifiers and the preprocessing are made of, but for RuleFit, beside numbers and arrays."""

_VALUES: Final = (
    *(type(None), bool, int, float, str, slice),
    *(np.generic, np.dtype, np.random.RandomState, np.random.Generator),
)
"""What has no parts."""

_KERNELS: Final = ("linear", "poly", "rbf", "sigmoid")

_NOT_OURS: Final = "is damaged, or none that this program wrote"


def read_object(content: bytes, what: str, packages: Collection[str] = ()) -> Any:
    """The object in a file in skops format from elsewhere; ``what`` names the file in errors.

    ``packages`` are those whose types are trusted too. Raises DataError for types that are neither in ``TYPES`` nor
    theirs, naming them; for indices out of bounds; and for a damaged file.
    """
    try:
        found = _types(content)
        foreign = sorted(name for name in found - TYPES if name.partition(".")[0] not in packages)
        if foreign:
            needed = sorted({f"--package {name.partition('.')[0]}" for name in foreign})
            raise DataError(
                f"{what} holds {', '.join(foreign)}, which no model of the short names is made of, and is not loaded: "
                f"if you trust whoever wrote it with this machine, add {' '.join(needed)}"
            )
        model = skops.io.loads(content, trusted=sorted(found))
        for part in _parts(model, set(), strict=not packages):
            _check(part)
    except DataError:
        raise
    except Exception as error:  # zipfile, skops and scikit-learn raise many types
        raise DataError(f"{what} {_NOT_OURS}: {type(error).__name__}") from error
    return model


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
            yield f"{schema.get('__module__')}.{schema['__class__']}"
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
        _require(not strict or type(value) is np.ndarray)
        inner = list(value.flat) if value.dtype.hasobject else []
    elif isinstance(value, Tree | KDTree):
        # Those of the types that own them are not met here.
        _require(not strict)
        return
    elif hasattr(value, "__dict__"):
        if strict:
            _require(_name(value) in TYPES and not any(hasattr(type(value), name) for name in vars(value)))
        yield value
        inner = [item for name, item in vars(value).items() if not _owns(value, name, item)]
    else:
        # Losses and their like.
        _require(not strict or _name(value) in TYPES)
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
    return _is_xgboosts("Booster", part) and name == "handle"


def _is_xgboosts(name: str, part: Any) -> bool:
    # Whoever has not imported XGBoost, which is an extra, has no object of it.
    xgboost = sys.modules.get("xgboost")
    return xgboost is not None and isinstance(part, getattr(xgboost, name))


def _check(part: Any) -> None:
    """Raise ValueError for what would lead compiled code out of bounds.

    By type alone: attributes are whatever the file says.
    """
    # What has not been trained, such as the pattern of a forest's trees, predicts nothing.
    own = vars(part)
    if isinstance(part, BaseDecisionTree):
        if "tree_" in own:
            _check_tree(part.tree_, part.n_features_in_)
    elif isinstance(part, ForestClassifier):
        if "estimators_" in own:
            _require(all(type(tree) in (DecisionTreeClassifier, ExtraTreeClassifier) for tree in part.estimators_))
            _require(all(tree.n_features_in_ == part.n_features_in_ for tree in part.estimators_))
    elif isinstance(part, GradientBoostingClassifier):
        if "estimators_" in own:
            _check_stages(part)
    elif isinstance(part, HistGradientBoostingClassifier):
        if "_predictors" in own:
            _check_histograms(part)
    elif isinstance(part, SVC):
        if "support_vectors_" in own:
            _check_support_vectors(part)
    elif isinstance(part, KNeighborsClassifier):
        _check_neighbors(part)
    elif isinstance(part, OneHotEncoder):
        if "categories_" in own:
            _check_categories(part)
    elif _is_xgboosts("XGBClassifier", part):
        _require("_Booster" not in own or _is_xgboosts("Booster", part._Booster))
    elif _is_xgboosts("Booster", part):
        _check_boosted(part)


def _check_tree(tree: Any, num_features: int) -> None:
    _require(type(tree) is Tree and type(num_features) is int)
    # Boosting reads one value for each node.
    _require(tree.n_outputs == 1 and tree.max_n_classes >= 1)
    # As long as memory was taken for; then what is read of the nodes is theirs.
    _require(0 < tree.node_count <= tree.capacity)
    left, right, feature = tree.children_left, tree.children_right, tree.feature
    inner = left != -1
    _require_below(left, right, inner)
    _require(bool((feature[inner] >= 0).all() and (feature[inner] < num_features).all()))


def _check_stages(boosting: Any) -> None:
    trees, num_features = boosting.estimators_, boosting.n_features_in_
    _require(trees.ndim == 2 and all(type(tree) is DecisionTreeRegressor for tree in trees.flat))
    _require(all(type(tree.tree_) is Tree and tree.n_features_in_ == num_features for tree in trees.flat))
    # The trees add to what this one begins with, a column for each tree of a stage.
    _require(type(boosting.init_) is DummyClassifier or boosting.init_ == "zero")
    _require(boosting._raw_predict_init(np.zeros((1, num_features))).shape == (1, trees.shape[1]))


def _check_histograms(boosting: Any) -> None:
    # Neither encoders in front, which change the number of features, nor categories, which are bits at an index.
    _require(
        type(boosting.n_features_in_) is int and boosting._preprocessor is None and "_in_fit" not in vars(boosting)
    )
    _require(type(boosting._bin_mapper) is _BinMapper and not np.any(boosting._bin_mapper.is_categorical_))
    for tree in (tree for trees in boosting._predictors for tree in trees):
        _require(type(tree) is TreePredictor)
        _check_nodes(tree.nodes, boosting.n_features_in_)


def _check_neighbors(neighbors: Any) -> None:
    own = vars(neighbors)
    if "_fit_X" not in own:
        _require("_tree" not in own and "_fit_method" not in own)
        return
    _require(type(neighbors._fit_X) is np.ndarray and isinstance(neighbors.metric, str))
    # Its search tree is built anew, from examples and classes.
    neighbors.fit(neighbors._fit_X, neighbors.classes_[neighbors._y])


def _check_categories(encoder: Any) -> None:
    """A category's position is where SciPy writes a one."""
    _require(encoder.handle_unknown == "ignore" and encoder._infrequent_enabled is False)
    _require(encoder._drop_idx_after_grouping is None)
    _require(encoder._n_features_outs == [len(known) for known in encoder.categories_])
    # Found by bisection.
    _require(all(known.dtype.kind == "f" and (np.diff(known) > 0).all() for known in encoder.categories_))


def _check_nodes(nodes: Any, num_features: int) -> None:
    inner = nodes["is_leaf"] == 0
    _require(len(nodes) > 0 and not nodes["is_categorical"].any())
    _require_below(nodes["left"].astype(np.int64), nodes["right"].astype(np.int64), inner)
    _require(bool((nodes["feature_idx"][inner] >= 0).all() and (nodes["feature_idx"][inner] < num_features).all()))


def _require_below(left: Any, right: Any, inner: Any) -> None:
    """Every inner node's children come after it, as they do in all trees that grow: no circle, none out of bounds."""
    own = np.flatnonzero(inner)
    for child in (left[inner], right[inner]):
        _require(bool((child > own).all() and (child < len(left)).all()))


def _check_support_vectors(machine: Any) -> None:
    # With a kernel that is computed elsewhere, or examples in a sparse format, indices are read that nothing checks.
    _require(isinstance(machine.kernel, str) and machine.kernel in _KERNELS and machine._sparse is False)
    vectors, classes = machine.support_vectors_, len(machine._n_support)
    pairs = classes * (classes - 1) // 2
    _require(classes > 1 and len(machine._probA) == len(machine._probB))
    _require(vectors.ndim == 2 and (machine._n_support >= 0).all() and machine._n_support.sum() == len(vectors))
    _require(vectors.shape[1] == machine.n_features_in_ and machine.support_.shape == (len(vectors),))
    _require(machine._dual_coef_.shape == (classes - 1, len(vectors)) and machine._intercept_.shape == (pairs,))
    _require(all(len(values) in (0, pairs) for values in (machine._probA, machine._probB)))
    _require(len(machine.classes_) == classes)


def _check_boosted(booster: Any) -> None:
    # What XGBoost wrote down again, without following any of it.
    said = json.loads(booster.save_raw("json"))["learner"]
    model, groups = said["gradient_booster"]["model"], max(1, int(said["learner_model_param"]["num_class"]))
    num_features = int(said["learner_model_param"]["num_feature"])
    _require(said["gradient_booster"]["name"] == "gbtree" and len(model["tree_info"]) == len(model["trees"]))
    _require(all(0 <= group < groups for group in model["tree_info"]))
    # Where each round's trees begin.
    begins = model.get("iteration_indptr", [0, len(model["trees"])])
    _require(begins[0] == 0 and begins == sorted(begins) and begins[-1] == len(model["trees"]))
    for tree in model["trees"]:
        left, right = np.asarray(tree["left_children"]), np.asarray(tree["right_children"])
        feature, inner = np.asarray(tree["split_indices"]), np.asarray(tree["left_children"]) != -1
        _require(0 < len(left) == len(right) == len(feature) and not any(tree["split_type"]))
        _require_below(left, right, inner)
        _require(bool((feature[inner] >= 0).all() and (feature[inner] < num_features).all()))


def _require(holds: bool) -> None:
    if not holds:
        raise ValueError("Out of bounds")
