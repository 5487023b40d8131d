"""Language models of a few thousand weights, drawn at random, in folders such as those of real ones."""

import warnings
from pathlib import Path
from typing import Any

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "pain", "fine", "today", "very", "no", "much", "and"]
WORDS += [f"word{i}" for i in range(20)]


def tokenizer(*, bare: bool = False) -> Any:
    """A tokenizer of whole words; ``bare``: without special tokens, as GPT-2's."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    made = Tokenizer(models.WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="[UNK]"))
    made.normalizer = normalizers.Lowercase()
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    if bare:
        return PreTrainedTokenizerFast(tokenizer_object=made, unk_token="[UNK]", eos_token="[SEP]")
    made.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return PreTrainedTokenizerFast(
        tokenizer_object=made, unk_token="[UNK]", pad_token="[PAD]", cls_token="[CLS]", sep_token="[SEP]"
    )


def save_bert(folder: Path, *, length: int = 16) -> Path:
    """An encoder such as MiniLM."""
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=length,
    )  # fmt: skip
    return _save(folder, BertModel, config, bare=False)


def save_gpt2(folder: Path) -> Path:
    """A model that continues text, without a token for padding."""
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=len(WORDS), n_embd=16, n_layer=2, n_head=2, n_positions=16, bos_token_id=3, eos_token_id=3
    )
    return _save(folder, GPT2LMHeadModel, config, bare=True)


def _save(folder: Path, kind: Any, config: Any, *, bare: bool) -> Path:
    import torch

    with torch.random.fork_rng(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.manual_seed(0)
        kind(config).save_pretrained(folder)
        tokenizer(bare=bare).save_pretrained(folder)
    return folder
