"""The benchmark of text: its data set in silos of one kind or of both."""

import gzip
from pathlib import Path

import pytest

from benchmarks import language, methods, sentiment
from fedct_flwr import datasets
from fedct_flwr.algorithms.checks import check_run
from fedct_flwr.config import RunConfig
from fedct_flwr.coordinator.study import Subject
from tests.language_models import save_bert


@pytest.fixture
def _few(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [f"{'tweets' if n % 3 else 'movie'},text {n},{n % 5 - 2},{int(n % 5 > 2)}" for n in range(200)]
    (tmp_path / "sentiment.csv.gz").write_bytes(gzip.compress("\n".join(["domain,text,score,label", *rows]).encode()))
    monkeypatch.setenv("FEDCT_DATA", str(tmp_path))
    for name, number in {"PRIVATE": 10, "TEST": 5, "PUBLIC": 100}.items():
        monkeypatch.setattr(sentiment, name, number)
    sentiment.texts.cache_clear()


@pytest.mark.usefixtures("_few")
@pytest.mark.parametrize("name", sentiment.SENTIMENT)
def test_silos_public_and_test_texts_are_different_ones(name: str) -> None:
    found = sentiment.SENTIMENT[name](RunConfig.from_flower({"study": "s", "data": name}))
    assert [(silo.private.size, silo.test.size) for silo in found.silos] == [(10, 5)] * 5
    parts = [found.public.X, found.test.X, *(silo.private.X for silo in found.silos)]
    texts = [text for part in parts for text in part[:, 0]]
    assert len(texts) == len(set(texts)) == 100 + 25 + 50
    assert found.truth is not None
    domains = [{int(text.split()[1]) % 3 == 0 for text in silo.private.X[:, 0]} for silo in found.silos]
    alone = name == "sentiment-by-domain"
    assert [len(domain) == 1 for domain in domains] == [alone] * 5
    sentiment.texts.cache_clear()


class Accepted(Exception):
    """The run would begin."""


@pytest.mark.usefixtures("_few")
@pytest.mark.parametrize(
    ("row", "method"),
    [
        (row, method)
        for row, (_, tried) in language._ROWS.items()
        for method in tried
        if method not in ("local only", "centralized")
    ],
)
def test_no_row_has_a_setting_without_effect(
    row: str, method: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def begin(config: RunConfig) -> None:
        config = methods.change(config, query_size=min(config.query_size, 100))
        dataset = datasets.load(config)
        check_run(config, dataset, Subject.simulated(dataset), [silo.name for silo in dataset.silos])
        raise Accepted

    monkeypatch.setattr(methods, "run_federation", begin)
    for name, load in sentiment.SENTIMENT.items():
        monkeypatch.setitem(datasets.LOADERS, name, load)
    settings = {**language._ROWS[row][0], "data": "sentiment"}
    with pytest.raises(Accepted):
        methods.METHODS[method](language._config(save_bert(tmp_path), settings, row, method))
    sentiment.texts.cache_clear()
