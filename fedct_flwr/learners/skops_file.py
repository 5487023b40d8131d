"""Trained models in skops format: written in a third of the time and bytes, and read where all types are known.

skops builds objects without calling what is in the file; its own list of harmless types has all of scikit-learn's
estimators. A forged value may end the process that reads it, so ``models.loading`` has one of its own.
"""

import importlib
import io
import json
import sys
import threading
import zipfile
from collections.abc import Collection, Iterator
from types import FunctionType, ModuleType
from typing import Any, Final

from sklearn.base import BaseEstimator
from sklearn.feature_extraction.text import CountVectorizer

from fedct_flwr.types import DataError

_TORCH_OF_SKLEARN: Final = "sklearn.externals.array_api_compat.torch"
_IMPORTING: Final = threading.Lock()
_LONGEST_NAME: Final = 200
_HARMLESS: Final = {"collections.OrderedDict", "builtins.object"}
"""Containers in other packages' models (LightGBM's), and types that selectors of columns name."""


def skops_io() -> ModuleType:
    """``skops.io`` without torch (180 MB, a second), which scikit-learn's wrapper of it would import."""
    with _IMPORTING:
        if "skops.io" in sys.modules or _TORCH_OF_SKLEARN in sys.modules:
            return importlib.import_module("skops.io")
        sys.modules[_TORCH_OF_SKLEARN] = ModuleType(_TORCH_OF_SKLEARN)
        try:
            return importlib.import_module("skops.io")
        finally:
            del sys.modules[_TORCH_OF_SKLEARN]


def dumps(model: Any) -> bytes:
    """The bytes of ``skops.io.dumps``, but for blanks. Raises like that, and ValueError for what no name leads to."""
    skops_io()
    import skops
    from skops.io._utils import SaveContext, get_state

    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as file:
        context = SaveContext(zip_file=file)
        # Whole objects stay alive meanwhile: skops knows them by where they are in memory.
        schema = {**get_state(model, context), "protocol": context.protocol, "_skops_version": skops.__version__}
        kinds = {each if isinstance(each, type | FunctionType) else type(each) for each in context.memo.values()}
        if any("<" in kind.__qualname__ for kind in kinds):
            raise ValueError("it holds a lambda, or what is defined within a function")
        file.writestr("schema.json", json.dumps(schema))
    return content.getvalue()


def with_plain_numbers(model: Any) -> Any:
    """The trained model, whose vectorizers number words by Python's own integers.

    NumPy's would each become a file of its own within a model file: minutes for some ten thousand words.
    """
    inner = [
        *(step for _, step in getattr(model, "steps", ())),
        *(part for _, part, *_ in getattr(model, "transformers_", ())),
        *(part for _, part in getattr(model, "transformer_list", ())),
        *(getattr(model, name, None) for name in ("estimator_", "best_estimator_")),
    ]
    for part in inner:
        if isinstance(part, BaseEstimator):
            with_plain_numbers(part)
    if isinstance(model, CountVectorizer) and hasattr(model, "vocabulary_"):
        model.vocabulary_ = {word: int(number) for word, number in model.vocabulary_.items()}
    return model


def read_object(
    content: bytes, what: str, packages: Collection[str], known: Collection[str] = (), advice: str = ""
) -> Any:
    """The object in a skops file ``what``, if all its types are ``known`` or from one of these ``packages``.

    Nothing is unpickled. Raises DataError for other types, which ends with ``advice``, and for a damaged file.
    """
    try:
        found = _types(content)
        foreign = sorted(name for name in found - _HARMLESS - {*known} if name.partition(".")[0] not in packages)
        if foreign:
            needed = " ".join(sorted({f"--package {name.partition('.')[0]}" for name in foreign}))
            raise DataError(f"{what} holds {', '.join(foreign)}, {advice.format(needed)}")
        return skops_io().loads(content, trusted=sorted(found))
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
    return packaged | set(skops_io().get_untrusted_types(data=content))


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
