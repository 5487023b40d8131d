"""Language models in torch: a frozen encoder's embeddings of texts, and a model with a head as a network.

Of the network all is trained, its last layers, or adapters (LoRA), and only trained weights are kept, averaged and
written. E. J. Hu et al., "LoRA", ICLR 2022.
"""

import hashlib
import threading
import warnings
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from fedct_flwr.learners.language import (
    PADDING,
    load_network,
    load_tokenizer,
    located,
    most_tokens,
    tokens_of,
    transformers,
)
from fedct_flwr.learners.trained_network import choose_device, said_in_one_sentence
from fedct_flwr.text.printable import suggest
from fedct_flwr.types import LearnerError

_TRAINED: Final = ("lora", "last", "full")
_ABOVE: Final = ("pooler.", "ln_f.", "final_layer_norm.", "norm.")
"""Parts of a model between its last layer and its head."""


def classifier(
    folder: str, num_classes: int, *, train: str = "lora", rank: int = 8, layers: int = 1, checkpointing: bool = False
) -> nn.Module:
    """The model in ``folder`` with a head for the classes, for tokens ``(n, length)``, see ``language.Tokens``.

    ``train``: ``lora`` (adapters of this ``rank`` and the head), ``last`` (the last ``layers`` and the head), or
    ``full``. ``checkpointing`` computes activations twice to need less memory. Raises LearnerError.
    """
    if train not in _TRAINED:
        raise LearnerError(f"'train' in the learner's parameters is {train!r}: {suggest(train, _TRAINED)}")
    if min(rank, layers) < 1:
        raise LearnerError("'rank' and 'layers' in the learner's parameters are numbers from 1 on")
    path = located(folder)
    tokenizer = load_tokenizer(path)
    padding = next((token for token in (tokenizer.pad_token_id, tokenizer.eos_token_id) if token is not None), 0)
    model = load_network(
        "AutoModelForSequenceClassification", path, num_labels=num_classes, ignore_mismatched_sizes=True
    )
    # A model such as GPT-2 classifies by the last token that is not padding.
    model.config.pad_token_id = padding
    if checkpointing:
        model.activation_checkpointing_enable({"use_reentrant": False})
    if train == "lora":
        model = _with_adapters(model, rank)
    elif train == "last":
        _freeze_all_but(model, layers)
    return Classifier(model, padding)


class Classifier(nn.Module):
    """From tokens ``(n, length)``, -1 where there are none, to logits. Its state holds what is trained alone."""

    most_at_once: Final = 64
    """Examples that are asked about at a time: attention takes the square of a text's length in memory."""
    lower_for_memory: Final = "batch-size, or 'max_length' in the learner's parameters, or set 'checkpointing' there"

    def __init__(self, model: Any, padding: int) -> None:
        super().__init__()
        self._model = model
        self._padding = padding
        self._trained = frozenset(name for name, part in self.named_parameters() if part.requires_grad)

    def forward(self, X: Tensor) -> Tensor:
        """Logits ``(n, classes)``."""
        tokens = X.long()
        there = tokens >= 0
        # No longer than the longest text of the batch; on a GPU, a step would wait for that number.
        if not torch.compiler.is_exporting() and not (self.training and tokens.is_cuda):
            (tokens,) = self.trimmed(tokens)
            there = tokens >= 0
        ids = torch.where(there, tokens, self._padding)
        logits: Tensor = self._model(input_ids=ids, attention_mask=there.long()).logits
        return logits

    @staticmethod
    def trimmed(*X: Tensor) -> list[Tensor]:
        """Tokens ``(n, length)`` without what is behind the longest text of all."""
        longest = max(1, *(int((tokens >= 0).sum(dim=1).max()) for tokens in X if len(tokens)))
        return [tokens[:, :longest] for tokens in X]

    def state_dict(self, *args: Any, **kwargs: Any) -> Any:
        """The weights that are trained."""
        return {name: value for name, value in super().state_dict(*args, **kwargs).items() if name in self._trained}

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True, assign: bool = False) -> Any:
        """Take over the weights that ``state_dict`` returns; those that are not trained stay as they are.

        Raises RuntimeError for weights of other shapes and, if ``strict``, unless the names are those that are trained.
        """
        if strict and state_dict.keys() != self._trained:
            raise RuntimeError("Other weights are trained in this network")
        return super().load_state_dict(state_dict, strict=False, assign=assign)


def _with_adapters(model: Any, rank: int) -> Any:
    transformers()
    with warnings.catch_warnings():
        # Of packages about each other, for their programmers.
        warnings.simplefilter("ignore")
        from peft import LoraConfig, TaskType, get_peft_model

        def adapted(**where: Any) -> Any:
            settings = LoraConfig(task_type=TaskType.SEQ_CLS, r=rank, lora_alpha=2 * rank, lora_dropout=0.0, **where)
            return get_peft_model(model, settings)

        try:
            return adapted()
        except ValueError:
            # A kind of model for which peft does not know where adapters are best.
            return adapted(target_modules="all-linear")


def _freeze_all_but(model: Any, layers: int) -> None:
    """Freeze all but the head, the part just below it and the last ``layers``."""
    blocks = max((part for part in model.modules() if isinstance(part, nn.ModuleList)), key=len, default=None)
    if blocks is None:
        raise LearnerError(f"{type(model).__name__} has no list of layers: set 'train' to 'lora' or 'full'")
    for name, weight in model.base_model.named_parameters():
        weight.requires_grad = name.startswith(_ABOVE)
    for block in list(blocks)[-layers:]:
        block.requires_grad_(True)


_BATCH: Final = 32
_KEPT: Final = 50_000
"""Texts whose embeddings stay in memory: 300 MB of four layers of a small encoder."""
_DECIMALS: Final = 4
"""Digits kept, so that the texts of a batch do not change each other's embeddings."""
_known: dict[tuple[str, int, int, bytes], NDArray[np.float32]] = {}
"""Embeddings by encoder, tokens that are read, layers, and the SHA-256 of the text, which is not kept."""
_ONE_AT_A_TIME: Final = threading.RLock()


def embedded(texts: list[str], folder: Path, fingerprint: str, max_length: int, layers: int) -> NDArray[np.float64]:
    """Rows ``(n, layers * width)``, each layer's part of length 1. Raises LearnerError, TrainingError.

    Of the encoder in ``folder`` that has this ``fingerprint``, and at most ``max_length`` tokens of a text (0: all it
    can).
    """
    digests = [hashlib.sha256(text.encode(errors="surrogatepass")).digest() for text in texts]
    keys = [(fingerprint, max_length, layers, digest) for digest in digests]
    with _ONE_AT_A_TIME:
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in _known}
        if len(_known) + len(new) > _KEPT:
            _known.clear()
            new = dict(zip(keys, texts, strict=True))
        if new:
            tokenizer, network = _loaded(folder, fingerprint)
            tokens = tokens_of(tokenizer, [*new.values()], most_tokens(folder, max_length))
            _known.update(zip(new, _embed(network, tokens, layers), strict=True))
        if not keys:
            config = _loaded(folder, fingerprint)[1].config
            return np.zeros((0, config.hidden_size * min(layers, config.num_hidden_layers)))
        return np.stack([_known[key] for key in keys]).astype(np.float64)


@lru_cache(maxsize=2)
def _loaded(folder: Path, fingerprint: str) -> tuple[Any, Any]:
    """Tokenizer and network, one of each in a process."""
    network = load_network("AutoModel", folder).eval().to(choose_device("auto"))
    return load_tokenizer(folder), network


@torch.inference_mode()
def _embed(network: Any, tokens: list[list[int]], layers: int) -> list[NDArray[np.float32]]:
    """Mean over a text's tokens in each of the last layers, of length 1."""
    # Texts of about the same length together: what fills up a batch costs as much as text.
    order = sorted(range(len(tokens)), key=lambda position: len(tokens[position]))
    found: list[NDArray[np.float32]] = [np.zeros(0, dtype=np.float32)] * len(tokens)
    with said_in_one_sentence("'max_length' in the learner's parameters"):
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            batch = [torch.tensor(tokens[row], device=network.device) for row in rows]
            padded = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True, padding_value=PADDING)
            there = (padded != PADDING).long()
            states = network(input_ids=padded * there, attention_mask=there, output_hidden_states=True).hidden_states
            # The first are not a layer's: they are what goes into the first of them.
            last = torch.stack(states[1:][-layers:], dim=1)
            means = (last * there[:, None, :, None]).sum(dim=2) / there.sum(dim=1)[:, None, None]
            vectors = torch.nn.functional.normalize(means, dim=2).flatten(1).float()
            vectors = torch.round(vectors * 10**_DECIMALS) / 10**_DECIMALS
            for row, vector in zip(rows, vectors.cpu().numpy(), strict=True):
                found[row] = vector
    return found
