"""Language models in folders on this machine, and text as they take it: embeddings or tokens.

A folder is looked at before anything is loaded, and nothing is downloaded. A model file names the language model's
folder and digest, and holds no weights of it: who uses it needs that folder.
"""

import hashlib
import importlib
import json
import os
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from fedct_flwr import learners
from fedct_flwr.files import DAMAGED, data_folder, digest_of
from fedct_flwr.learners.catalog import EMBEDDING, LEARNER_FOLDER
from fedct_flwr.text.printable import quoted
from fedct_flwr.types import Features, LearnerError

_CONFIG: Final = "config.json"
_ADAPTER: Final = "adapter_config.json"
_TOKENIZER: Final = (
    "tokenizer.json", "tokenizer_config.json", "special_tokens_map.json", "added_tokens.json", "vocab.txt",
    "vocab.json", "merges.txt", "spiece.model", "sentencepiece.bpe.model", "tokenizer.model",
)  # fmt: skip
"""Files that decide which tokens a text becomes."""
_PICKLES: Final = (".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle")
_ABOUT: Final = (".md", ".gitattributes")
"""Files for people, which no loader opens."""
_LIKE_ROBERTA: Final = (
    "roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "roberta-prelayernorm", "data2vec-text", "mpnet", "xmod",
    "ibert", "longformer",
)  # fmt: skip
"""Kinds of models whose positions begin behind the padding's number."""
_LONGEST: Final = 512
"""Tokens of a text where the model does not say how many it takes."""
PADDING: Final = -1
"""Fills the end of a short text: not a token of any model."""


def located(folder: str) -> Path:
    """A model's folder: this path, or one below ``models`` in the data folder. Raises LearnerError."""
    places = [Path(os.environ.get(LEARNER_FOLDER, ""), folder).expanduser(), data_folder() / "models" / folder]
    found = next((place for place in places if folder and (place / _CONFIG).is_file()), None)
    if found is None:
        where = " or in ".join(dict.fromkeys([quoted(folder), quoted(str(places[1]))]))
        raise LearnerError(
            f"no language model is in {where} ({_CONFIG} is missing): copy the "
            "model's folder to this machine, nothing is downloaded"
        )
    if why := next(_refusals(found, {path.name for path in found.iterdir()}), None):
        raise LearnerError(f"the language model in {quoted(str(found))} {why}")
    return found


def _refusals(folder: Path, names: set[str]) -> Iterator[str]:
    """Why a folder is not loaded, and what to do. Of all else that a folder lacks, transformers tells."""
    unsafe = (".py",) if any(name.endswith(".safetensors") for name in names) else (".py", *_PICKLES)
    if code := sorted(name for name in names if name.endswith(unsafe)):
        yield f"is refused, as {quoted(code[0])} can run code: take one in safetensors that transformers knows"
    if _ADAPTER in names:
        yield f"is an adapter ({_ADAPTER}), which names another folder: take the whole model"
    for index in sorted(folder.glob("*.safetensors.index.json")):
        try:
            parts = {str(part) for part in json.loads(index.read_text("utf-8"))["weight_map"].values()}
        except DAMAGED:
            parts = {index.name}
        if strays := sorted(part for part in parts if Path(part).name != part or not part.endswith(".safetensors")):
            yield f"takes weights from {quoted(strays[0])}, which is no file of it: copy the model's folder again"


def fingerprint(folder: Path) -> str:
    """SHA-256 over all that a loader may open: all files but pickles, which are never read; 64 hexadecimal digits."""
    first = [_CONFIG, *_TOKENIZER, *sorted(path.name for path in folder.glob("*.safetensors"))]
    others = {path.name for path in folder.iterdir() if path.suffix not in (*_PICKLES, *_ABOUT)} - {*first}
    whole = hashlib.sha256()
    for name in [*first, *sorted(others)]:
        path = folder / name
        if path.is_file():
            whole.update(f"{name} {digest_of(path)}\n".encode())
    return whole.hexdigest()


def load_tokenizer(folder: Path) -> Any:
    """The folder's tokenizer. Raises LearnerError."""
    return _load("AutoTokenizer", folder)


def load_network(kind: str, folder: Path, **more: Any) -> Any:
    """The folder's network in single precision, by the name of a class of transformers. Raises LearnerError."""
    return _load(kind, folder, use_safetensors=True, dtype="float32", **more)


def most_tokens(folder: Path, wanted: int) -> int:
    """How many tokens of a text are read: ``wanted``, or as many as the model takes if that is less or 0."""
    settings = json.loads((folder / _CONFIG).read_text("utf-8"))
    takes = [settings[key] for key in ("max_position_embeddings", "n_positions") if isinstance(settings.get(key), int)]
    most = min(takes, default=_LONGEST) - (2 if settings.get("model_type") in _LIKE_ROBERTA else 0)
    return min(wanted, most) if wanted else most


def transformers() -> Any:
    """The package, offline and quiet. Raises ImportError without it."""
    # Read when the package is imported: no model comes from a network.
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")

    learners.mend_torchvision()
    with warnings.catch_warnings():
        # Of packages about each other, for their programmers.
        warnings.simplefilter("ignore")
        package: Any = importlib.import_module("transformers")
    package.logging.set_verbosity_error()
    package.logging.disable_progress_bar()
    return package


def _load(kind: str, folder: Path, **more: Any) -> Any:
    package = transformers()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return getattr(package, kind).from_pretrained(
                str(folder), local_files_only=True, trust_remote_code=False, **more
            )
    except Exception as error:  # transformers raises many types
        line = str(error).partition("\n")[0]
        raise LearnerError(
            f"the language model in {quoted(str(folder))} cannot be loaded as {kind} ({type(error).__name__}: {line})"
        ) from error


def tokens_of(tokenizer: Any, texts: list[str], length: int) -> list[list[int]]:
    """At most ``length`` tokens of each text, and at least one: a model such as GPT-2 finds none in an empty text."""
    if not texts:
        return []
    end = next((token for token in (tokenizer.eos_token_id, tokenizer.pad_token_id) if token is not None), 0)
    found = tokenizer(texts, truncation=True, max_length=length, padding=False)["input_ids"]
    return [tokens or [end] for tokens in found]


# --- what learners take of text

_LAYERS: Final = 4
"""An encoder's last layer knows what it was trained for; those before it know more of what a text says otherwise."""


def reading_params(params: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Parameters of learner ``name`` that say how text is read: folder, tokens (0: all it can), and last layers given.

    Raises LearnerError for what cannot be.
    """
    own: dict[str, Any] = {"folder": "", "max_length": 0, **({"layers": _LAYERS} if name == EMBEDDING else {})}
    own = {key: params.get(key, default) for key, default in own.items()}
    if not isinstance(own["folder"], str) or not own["folder"]:
        raise LearnerError(
            f'learner {name!r} needs a language model: set learner-params = \'{{"folder": "PATH"}}\', the '
            "folder with its config.json"
        )
    for key, least in (("max_length", 0), ("layers", 1)):
        if not isinstance(value := own.get(key, least), int) or isinstance(value, bool) or value < least:
            raise LearnerError(f"learner {name!r} has a wrong parameter: {key!r} is a number from {least} on")
    return own


class _OfFolder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer that a language model's ``folder`` is all of."""

    folder: str
    fingerprint_: str

    def fit(self, X: Any, y: Any = None) -> Self:
        """Nothing is learned; the folder's digest is noted. Raises LearnerError."""
        self.fingerprint_ = fingerprint(located(self.folder))
        return self


class Sentences(_OfFolder):
    """Embeddings of texts by a frozen encoder: of each of its last layers the mean over a text's tokens, of length 1.

    The last four side by side: Devlin et al., "BERT", NAACL 2019, table 7. The mean: Reimers, Gurevych,
    "Sentence-BERT", EMNLP 2019, §3.
    """

    def __init__(self, folder: str, max_length: int = 0, layers: int = _LAYERS) -> None:
        self.folder = folder
        self.max_length = max_length
        self.layers = layers

    def transform(self, texts: Iterable[str]) -> NDArray[np.float64]:
        """Rows ``(n, layers * width)``. Raises LearnerError for another folder than the model was trained with."""
        folder = same_folder(self.folder, self.fingerprint_)
        return learners.embedded(list(texts), folder, self.fingerprint_, self.max_length, self.layers)


class Tokens(_OfFolder):
    """The tokens of each record's text, of several columns one below the other; -1 behind the end."""

    def __init__(self, columns: list[int], folder: str, max_length: int = 0) -> None:
        self.columns = columns
        self.folder = folder
        self.max_length = max_length

    def transform(self, X: Features) -> NDArray[np.int64]:
        """Tokens ``(n, max_length)``. Raises LearnerError for another folder than the model was trained with."""
        folder = same_folder(self.folder, self.fingerprint_)
        tokenizer, length = load_tokenizer(folder), most_tokens(folder, self.max_length)
        texts = ["\n".join(row) for row in X[:, self.columns]]
        found = np.full((len(texts), length), PADDING, dtype=np.int64)
        for row, tokens in zip(found, tokens_of(tokenizer, texts, length), strict=True):
            row[: len(tokens)] = tokens
        return found


def same_folder(folder: str, known: str) -> Any:
    """The path of this model's folder. Raises LearnerError if its files are not those of the digest ``known``."""
    path = located(folder)
    if fingerprint(path) != known:
        raise LearnerError(
            f"the language model in {str(path)!r} is not the one that was trained with (SHA-256 {known[:16]}...): copy "
            "that one to this machine"
        )
    return path


def unusual(folder: str, max_length: int, texts: list[str]) -> str:
    """How many texts are longer than the model reads, and how many are empty, in words; empty if none is."""
    path = located(folder)
    length = most_tokens(path, max_length)
    # A token has a character at least.
    long = [text for text in texts if len(text) > length]
    tokens = tokens_of(load_tokenizer(path), long, length + 1) if long else []
    cut, empty = sum(len(found) > length for found in tokens), sum(not text.strip() for text in texts)
    message = [f"{cut} have more than {length} tokens and are cut there"] if cut else []
    message += [f"{empty} are empty"] if empty else []
    return f"of {len(texts)} texts {' and '.join(message)}" if message else ""
