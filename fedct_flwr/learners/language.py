"""Text as language models take it: embeddings of sentences for linear models, tokens for networks.

A model file names the language model's folder and digest, and holds no weights of it: who uses it needs that folder.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, TransformerMixin

from fedct_flwr.learners.catalog import EMBEDDING
from fedct_flwr.learners.encoder_folder import (
    PADDING,
    Frozen,
    fingerprint,
    load_tokenizer,
    located,
    most_tokens,
    tokens_of,
)
from fedct_flwr.types import Features, LearnerError

_FOLDER: Final = "folder"
_LAYERS: Final = 4
"""An encoder's last layer knows what it was trained for; those before it know more of what a text says otherwise."""


class Encoder(NamedTuple):
    """The model's folder, tokens it reads (0: all it can), and how many last layers it gives."""

    folder: str
    max_length: int
    layers: int = _LAYERS

    @classmethod
    def of(cls, params: Mapping[str, Any], name: str) -> "tuple[Encoder, dict[str, Any]]":
        """These and all other parameters of learner ``name``. Raises LearnerError for what cannot be."""
        own = {"folder": "", "max_length": 0, **({"layers": _LAYERS} if name == EMBEDDING else {})}
        said: dict[str, Any] = {key: params.get(key, default) for key, default in own.items()}
        if not isinstance(said["folder"], str) or not said["folder"]:
            raise LearnerError(
                f'learner {name!r} needs a language model: set learner-params = \'{{"{_FOLDER}": "PATH"}}\', the '
                "folder with its config.json"
            )
        for key, least in (("max_length", 0), ("layers", 1)):
            if not isinstance(value := said.get(key, least), int) or isinstance(value, bool) or value < least:
                raise LearnerError(f"learner {name!r} has a wrong parameter: {key!r} is a number from {least} on")
        return cls(**said), {key: value for key, value in params.items() if key not in own}


class _OfFolder(TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A transformer that a language model's ``folder`` is all of."""

    folder: str
    fingerprint_: str

    def fit(self, X: Any, y: Any = None) -> Self:
        """Nothing is learned; the folder's digest is noted. Raises LearnerError."""
        self.fingerprint_ = fingerprint(located(self.folder))
        return self


class Sentences(_OfFolder):
    """What a frozen encoder makes of texts: of each of its last layers the mean over a text's tokens, of length 1.

    The last four side by side: Devlin et al., "BERT", NAACL 2019, table 7. The mean: Reimers, Gurevych,
    "Sentence-BERT", EMNLP 2019, §3.
    """

    def __init__(self, folder: str, max_length: int = 0, layers: int = _LAYERS) -> None:
        self.folder = folder
        self.max_length = max_length
        self.layers = layers

    def transform(self, texts: Iterable[str]) -> NDArray[np.float64]:
        """Rows ``(n, layers * width)``. Raises LearnerError for another folder than the model was trained with."""
        from fedct_flwr.learners.embeddings import embedded

        return embedded(list(texts), self.frozen)

    @property
    def frozen(self) -> Frozen:
        """The encoder. Raises LearnerError."""
        return Frozen(same_folder(self.folder, self.fingerprint_), self.fingerprint_, self.max_length, self.layers)


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


def unusual(encoder: Encoder, texts: list[str]) -> str:
    """How many texts are longer than the model reads, and how many are empty, in words; empty if none is."""
    folder = located(encoder.folder)
    length = most_tokens(folder, encoder.max_length)
    # A token has a character at least.
    long = [text for text in texts if len(text) > length]
    tokens = tokens_of(load_tokenizer(folder), long, length + 1) if long else []
    cut, empty = sum(len(found) > length for found in tokens), sum(not text.strip() for text in texts)
    said = [f"{cut} have more than {length} tokens and are cut there"] if cut else []
    said += [f"{empty} are empty"] if empty else []
    return f"of {len(texts)} texts {' and '.join(said)}" if said else ""
