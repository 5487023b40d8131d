"""Embeddings of texts by a frozen encoder, each text embedded once: kept in memory by its digest."""

import hashlib
import threading
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import torch
from numpy.typing import NDArray

from fedct_flwr.learners.encoder_folder import PADDING, Frozen, load_network, load_tokenizer, most_tokens, tokens_of
from fedct_flwr.learners.trained_network import choose_device, said_in_one_sentence

_BATCH: Final = 32
_KEPT: Final = 50_000
"""Texts whose embeddings stay in memory: 300 MB of four layers of a small encoder."""
_DECIMALS: Final = 4
"""Digits kept, so that the texts of a batch do not change each other's embeddings."""

_known: dict[bytes, NDArray[np.float32]] = {}
_ONE_AT_A_TIME: Final = threading.RLock()


def embedded(texts: list[str], encoder: Frozen) -> NDArray[np.float64]:
    """Rows ``(n, layers * width)``, each layer's part of length 1. Raises LearnerError, TrainingError."""
    begin = f"{encoder.fingerprint} {encoder.max_length} {encoder.layers} ".encode()
    keys = [hashlib.sha256(begin + text.encode(errors="surrogatepass")).digest() for text in texts]
    with _ONE_AT_A_TIME:
        new = {key: text for key, text in zip(keys, texts, strict=True) if key not in _known}
        if len(_known) + len(new) > _KEPT:
            _known.clear()
            new = dict(zip(keys, texts, strict=True))
        if new:
            _known.update(zip(new, _embed([*new.values()], encoder), strict=True))
        if not keys:
            config = _loaded(encoder.folder, encoder.fingerprint)[1].config
            return np.zeros((0, config.hidden_size * min(encoder.layers, config.num_hidden_layers)))
        return np.stack([_known[key] for key in keys]).astype(np.float64)


@lru_cache(maxsize=2)
def _loaded(folder: Path, fingerprint: str) -> tuple[Any, Any]:
    """Tokenizer and network, one of each in a process."""
    network = load_network("AutoModel", folder).eval().to(choose_device("auto"))
    return load_tokenizer(folder), network


@torch.inference_mode()
def _embed(texts: list[str], encoder: Frozen) -> NDArray[np.float32]:
    tokenizer, network = _loaded(encoder.folder, encoder.fingerprint)
    embedding = _Embedding(network, encoder.layers)
    tokens = tokens_of(tokenizer, texts, most_tokens(encoder.folder, encoder.max_length))
    # Texts of about the same length together: what fills up a batch costs as much as text.
    order = sorted(range(len(texts)), key=lambda position: len(tokens[position]))
    found: list[NDArray[np.float32]] = [np.zeros(0, dtype=np.float32)] * len(texts)
    with said_in_one_sentence("'max_length' in the learner's parameters"):
        for start in range(0, len(order), _BATCH):
            rows = order[start : start + _BATCH]
            batch = [torch.tensor(tokens[row], device=network.device) for row in rows]
            padded = torch.nn.utils.rnn.pad_sequence(batch, batch_first=True, padding_value=PADDING)
            for row, vector in zip(rows, embedding(padded).cpu().numpy(), strict=True):
                found[row] = vector
    return np.stack(found)


class _Embedding(torch.nn.Module):
    """Of each of the last layers the mean over a text's tokens ``(n, length)``, of length 1; PADDING ends a text."""

    def __init__(self, network: Any, layers: int) -> None:
        super().__init__()
        self.network = network
        self.layers = layers

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        there = (tokens != PADDING).long()
        states = self.network(input_ids=tokens * there, attention_mask=there, output_hidden_states=True).hidden_states
        # The first are not a layer's: they are what goes into the first of them.
        last = torch.stack(states[1:][-self.layers :], dim=1)
        means = (last * there[:, None, :, None]).sum(dim=2) / there.sum(dim=1)[:, None, None]
        rows = torch.nn.functional.normalize(means, dim=2).flatten(1).float()
        return torch.round(rows * 10**_DECIMALS) / 10**_DECIMALS
