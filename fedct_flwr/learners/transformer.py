"""A language model with a head as a network: all of it trained, its last layers, or adapters (LoRA).

Only trained weights are kept, averaged and written. E. J. Hu et al., "LoRA", ICLR 2022.
"""

import warnings
from collections.abc import Mapping
from typing import Any, Final

import torch
from torch import Tensor, nn

from fedct_flwr.learners.encoder_folder import load_network, load_tokenizer, located, transformers
from fedct_flwr.text.suggest import suggest
from fedct_flwr.types import LearnerError

_TRAINED: Final = ("lora", "last", "full")
_ABOVE: Final = ("pooler.", "ln_f.", "final_layer_norm.", "norm.")
"""Parts of a model between its last layer and its head."""


def classifier(
    folder: str,
    num_classes: int,
    *,
    train: str = "lora",
    rank: int = 8,
    layers: int = 1,
    checkpointing: bool = False,
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
        """Take over trained weights. Raises RuntimeError if they are others than this network's."""
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
