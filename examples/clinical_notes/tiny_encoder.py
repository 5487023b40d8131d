"""Draw a tiny encoder at random, in the form of a real one, into the folder ``encoder``."""

from pathlib import Path

from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from fedct_flwr.learners.language import transformers

WORDS = "pain chest breath short fever fine walks sleeps well no complaint at rest night since"
PAD, UNK, CLS, SEP = SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]")
VOCABULARY = {word: i for i, word in enumerate([*SPECIAL, *WORDS.split()])}
tokenizer = Tokenizer(models.WordLevel(VOCABULARY, unk_token=UNK))
tokenizer.normalizer = normalizers.Lowercase()
tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
tokenizer.post_processor = processors.TemplateProcessing(f"{CLS} $A {SEP}", special_tokens=[(CLS, 2), (SEP, 3)])
library = transformers()
fast = library.PreTrainedTokenizerFast(
    tokenizer_object=tokenizer, unk_token=UNK, pad_token=PAD, cls_token=CLS, sep_token=SEP
)
fast.save_pretrained(Path("encoder"))
sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
config = library.BertConfig(vocab_size=len(VOCABULARY), max_position_embeddings=32, **sizes)
library.BertModel(config).save_pretrained(Path("encoder"))
