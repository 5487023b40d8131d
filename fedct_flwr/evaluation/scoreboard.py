"""The end of a run: scores of every silo alone, co-trained and with all data in one place; who has gained and lost."""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from statistics import fmean
from typing import TYPE_CHECKING, Any, Final
from warnings import warn

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.markup import escape
from rich.table import Table

from fedct_flwr import survival
from fedct_flwr.config.method import methods
from fedct_flwr.coordinator.algorithm import find_algorithm
from fedct_flwr.evaluation.references import References, describe_model, kept_model, methods_of, student
from fedct_flwr.files import write_atomically
from fedct_flwr.models.model_file import Recalibrated
from fedct_flwr.runs.scores import (
    METHODS,
    TESTS,
    VERDICT,
    OnTest,
    SiloScores,
    comparable,
    has_scores,
    means,
    means_words,
    of_global_models,
    titles,
)
from fedct_flwr.scoring.assessment import Assessment, Labels, assess, predict
from fedct_flwr.scoring.intervals import CHANCE, Verdict, verdict
from fedct_flwr.silo.judgment import Judgment, facts_of
from fedct_flwr.text.printable import count, json_text
from fedct_flwr.types import Answers, DataError, SiloName, TrainingError

if TYPE_CHECKING:
    from fedct_flwr.config.run import RunConfig
    from fedct_flwr.datasets import FederatedDataset, SiloData
    from fedct_flwr.runs.run_folder import RunFolder
    from fedct_flwr.scoring import Predictor

MARKS: Final[Mapping[str, str]] = {"gained": " ▲", "lost": " ▼", "": ""}
"""Marks after a silo's name."""
_RARER: Final = 0.5
"""A class that has less than this part of its share among the records has almost gone from the consensus."""


def judgments(folder: "RunFolder", silos: Sequence[SiloName]) -> dict[SiloName, Judgment]:
    """Judgments of the consensus by simulated silos, where one can be read."""
    found: dict[SiloName, Judgment] = {}
    for silo in silos:
        try:
            if (judgment := Judgment.read(folder.silo_judgment(silo))) is not None:
                found[silo] = judgment
        except DataError:
            continue
    return found


def who_gained(rows: Sequence[SiloScores], folder: "RunFolder", dataset: "FederatedDataset | None") -> dict[str, Any]:
    """All that there is to say of a run, in words and for programs; also what the report reads."""
    found = judgments(folder, [row.silo for row in rows])
    asks_once = methods()[folder.settings()["algorithm"]].asks_once
    return {
        **_by_word({row.silo: row.verdict for row in rows if row.verdict}),
        "after_first_round": after_first(found),
        "at_the_end": summary(rows),
        "warnings": [*warnings(rows, folder.rounds(), dataset, asks_once=asks_once), *against_sums(folder, found)],
        "judgments": {silo: facts_of(judgment) for silo, judgment in found.items()},
    }


def against_sums(folder: "RunFolder", found: Mapping[SiloName, Judgment]) -> Iterator[str]:
    """Warnings by silos' own records about labels that a dishonest silo in secure sums may have made."""
    weighed = [judgment for judgment in found.values() if judgment.weight is not None]
    against = sum(judgment.foreign_only or judgment.weight != 1 for judgment in weighed)
    summed = folder.settings().get("secure") or "joint" in folder.read_json("result.json")
    if summed and against and 2 * against >= len(weighed):
        yield (
            f"own records of {against} of {count(len(weighed), 'silo')} speak against what secure sums taught: "
            "a silo that lies in sums is not seen, so ask the partners, or compare with a run without sums"
        )


def save_gains(document: Mapping[str, Any], folder: "RunFolder") -> None:
    """Write it to the run folder."""
    write_atomically(folder.path / VERDICT, json_text(document).encode())


def _by_word(found: Mapping[SiloName, Verdict]) -> dict[str, list[SiloName]]:
    return {word: [silo for silo, verdict in found.items() if verdict.word == word] for word in ("gained", "lost")}


def summary(rows: Sequence[SiloScores]) -> str:
    """How many silos have gained and lost, in a sentence; empty where nothing can be told."""
    known = {row.silo: row.verdict for row in rows if row.verdict}
    if not known:
        return ""
    words = _by_word(known)
    messages = [f"{MARKS[word].strip()} {word}: {', '.join(names)}" for word, names in words.items() if names]
    if others := len(known) - sum(map(len, words.values())):
        messages.append(f"no difference beyond chance for {count(others, 'silo')}")
    return f"{'; '.join(messages)} (own test records against the silo alone, exact test at {CHANCE:.0%})"


def after_first(found: Mapping[SiloName, Judgment]) -> str:
    """The same after the first round that learned a consensus, as the silos saw it; empty where nothing is known."""
    first = {silo: min(judgment.tests, key=int) for silo, judgment in found.items() if judgment.tests}
    if not first:
        return ""
    words = _by_word({silo: found[silo].tests[number] for silo, number in first.items()})
    messages = [f"{word}: {', '.join(names)}" for word, names in words.items() if names]
    number = [*first.values()][-1]
    return f"after round {number}, {'; '.join(messages) or 'no silo had gained or lost beyond chance'}"


def distrusts(document: Mapping[str, Any]) -> Iterator[str]:
    """A sentence on each silo that does not trust the consensus in full, of what ``who_gained`` says."""
    for silo, facts in document["judgments"].items():
        if facts["foreign_only"] or (facts["weight"] is not None and facts["weight"] < 1):
            yield f"{silo}: {facts['why']}"


def warnings(
    rows: Sequence[SiloScores],
    rounds: Sequence[Mapping[str, Any]],
    dataset: "FederatedDataset | None",
    *,
    asks_once: bool = False,
) -> Iterator[str]:
    """Warnings for a reader of the scores, a sentence each. ``rounds`` are the round log's lines.

    ``asks_once``: silos do not learn the labels, whatever the number of rounds. Shares of classes are held against
    those of ``dataset``, or against those of the first consensus.
    """
    for row in rows:
        if not row.verdict or row.verdict.word != "lost":
            continue
        yield (
            f"{row.silo} would be better off alone: {-row.verdict.gain:.3f} less balanced accuracy on its own test "
            f"records (p = {row.verdict.p:.2g})"
        )
    compared = [row.pooled for row in rows if {"federated", "local"} <= row.pooled.keys()]
    if len(rounds) == 1 and compared and all(pooled["federated"] == pooled["local"] for pooled in compared):
        yield (
            "the algorithm asks silos once, and they do not learn its labels: each score is that of the silo alone; "
            "set student, which does"
            if asks_once
            else "the run had one round, after which no silo trains again: each score is that of the silo alone; run "
            "two rounds or more"
        )
    last = rounds[-1] if rounds else {}
    counts = last.get("class_counts") or {}
    if counts and not any(counts.values()):
        yield (
            "the last consensus labels no public example, so silos learn from their own records alone: silos disagree "
            "too much for the algorithm, or have too few records"
        )
    yield from _near_majority(counts, _expected(rounds, dataset))


def _expected(rounds: Sequence[Mapping[str, Any]], dataset: "FederatedDataset | None") -> dict[str, float]:
    """Shares of the classes as they should be, in 0..1."""
    counts: Mapping[str, int] = (rounds[0].get("class_counts") or {}) if rounds else {}
    if dataset is not None:
        counts = dataset.schema.outcome.counts(np.concatenate([silo.private.y for silo in dataset.silos])) or counts
    total = sum(counts.values())
    return {name: count / total for name, count in counts.items()} if total else {}


def _near_majority(counts: Mapping[str, int], expected: Mapping[str, float]) -> Iterator[str]:
    total = sum(counts.values())
    if not total or not expected:
        return
    largest = max(counts, key=lambda name: counts[name])
    rare = 1 - counts[largest] / total
    should = 1 - expected.get(largest, 0.0)
    # A sample of this size has fewer than this by chance alone.
    chance = 2 * float(np.sqrt(should * (1 - should) / total))
    if rare < _RARER * should and rare < should - chance:
        yield (
            f"the consensus is near its most frequent class: {1 - rare:.0%} of its labels are {largest!r}, but "
            f"{1 - should:.0%} of what silos have seen; weigh classes (class-weight = 'balanced'), or choose another "
            "learner"
        )


_SECTIONS: Final = {"own test": "own", "pooled": "pooled"}


def table(rows: Sequence[SiloScores], config: "RunConfig", folder: "RunFolder", name: str = "") -> Table:
    """The rows and their mean as a table of all methods; with ``name`` of that metric instead, such as ``auc``.

    Below are the models that are no silo's, with their scores on the pooled test set.
    """
    heads, methods = titles(find_algorithm(config).title), methods_of(config)
    measure = name.upper() or folder.outcome.measure.name
    sections = [(words, test) for words, test in _SECTIONS.items() if has_scores(rows, test, name)]
    result = Table(box=SIMPLE_HEAD, pad_edge=False, padding=(0, 1), collapse_padding=True)
    result.add_column(measure.replace(" ", "\n"), no_wrap=True)
    for words, _ in sections:
        for method in methods:
            heading = heads[method].replace(" ", "\n")
            result.add_column(f"{words}\n{heading}", justify="right", no_wrap=True)
    result.add_column("bytes\nsent", justify="right", no_wrap=True)
    for row in rows:
        mark = MARKS[row.verdict.word] if row.verdict else ""
        found = [{method: row.value(test, method, name) for method in METHODS} for _, test in sections]
        result.add_row(escape(row.silo) + mark, *_cells(found, methods), f"{row.bytes_sent:,}")
    counted = {len(comparable(rows, test, name)) for _, test in sections}
    # Where sections differ in that, the caption says it.
    over = f"mean of {counted.pop()}" if len(counted) == 1 and counted != {len(rows)} else "mean"
    result.add_section()
    averages = _cells([means(rows, test, name) for _, test in sections], methods)
    sent = round(fmean([row.bytes_sent for row in rows if row.bytes_sent] or [0]))
    result.add_row(over, *averages, f"{sent:,}", style="bold")
    if not name and ("pooled", "pooled") in sections:
        result.add_section()
        places = [(test, method) for _, test in sections for method in methods]
        for model, value in of_global_models(folder).items():
            shown = [f"{value:.3f}" if place == ("pooled", "federated") else "" for place in places]
            result.add_row(escape(model), *shown, "")
    if not name and (words := means_words(rows)):
        result.caption, result.caption_justify = words, "left"
    return result


def _cells(found: Sequence[Mapping[str, float]], methods: Sequence[str]) -> Iterator[str]:
    """The scores by method of each section; green where silos are better off together."""
    for scores in found:
        for method in methods:
            text = "-" if math.isnan(scores[method]) else f"{scores[method]:.3f}"
            better = method == "federated" and scores["federated"] > scores["local"]
            yield f"[green]{text}[/]" if better else text


_WORDS: Final = {"local": "alone", "federated": "co-trained", "centralized": "all data in one place"}
TRAINING: Final = "training the baselines"
"""Name of the slow step."""


def score(
    config: "RunConfig",
    dataset: "FederatedDataset",
    folder: "RunFolder",
    progress: Callable[[Sequence["SiloData"]], Iterable["SiloData"]] = iter,
    tell: Callable[[str], None] = warn,
) -> list[SiloScores]:
    """Train the baselines, load the models that silos ended with from the run folder, and score all of them.

    ``progress`` goes through the silos, and may tell how far it is. A silo that had no part in the last round has no
    model: its model is not the run's, and its learner, which may have failed or hung, is not tried again. ``tell`` gets
    a sentence for each model that cannot be read or cannot predict. NaN stands for a model that was not kept,
    or that does not exist.
    """
    rounds, references, rows = folder.rounds(), References(config, dataset), []
    judged = judgments(folder, [silo.name for silo in dataset.silos])
    global_model = student(config, folder, tell) if config.method.leaves_student else None
    for position, silo in enumerate(progress(dataset.silos)):
        models: dict[str, Predictor] = {}
        if silo.name in rounds[-1]["silos"]:
            models |= references.of(position)
            if global_model:
                models["federated"] = global_model
            elif kept := kept_model(config, dataset, position, folder, tell):
                how = judged[silo.name].recalibration if silo.name in judged else None
                # A survival model states its own chances.
                models["federated"] = kept if dataset.schema.follow_up else Recalibrated(kept, how)
                describe_model(config, dataset, position, folder, kept, how)
        rows.append(_row(models, config, dataset, silo, _bytes_sent(rounds, silo.name), tell))
    return rows


def _row(
    models: Mapping[str, "Predictor"],
    config: "RunConfig",
    dataset: "FederatedDataset",
    silo: "SiloData",
    bytes_sent: int,
    tell: Callable[[str], None],
) -> SiloScores:
    """The scores of a silo's models by method; each model is asked once about each test set."""
    schema = dataset.schema
    labels = Labels(len(schema.classes), None if schema.follow_up else schema.positive(config.positive_class))
    positive = "" if labels.positive is None else schema.classes[labels.positive]
    own: dict[str, Answers] = {}
    tests: dict[str, OnTest] = {}
    for test, examples in (("own", silo.test), ("pooled", dataset.test)):
        assessed: dict[str, Assessment] = {}
        for method, model in models.items():
            try:
                if follow_up := schema.follow_up:
                    answers, assessed[method] = survival.assess_times(model, examples, follow_up.horizons)
                else:
                    predicted = predict(model, examples.X, labels)
                    answers, assessed[method] = predicted.answers, assess(examples, predicted, labels)
            except TrainingError as error:
                tell(f"a model has no score ({silo.name}, {_WORDS[method]}): {error}")
                continue
            if test == "own":
                own[method] = answers
        tests[test] = OnTest(examples.size, schema.outcome.counts(examples.y), positive, assessed)
    key = schema.outcome.measure.key
    compared = {
        test: {m: found.models[m].value(key) if m in found.models else math.nan for m in METHODS}
        for test, found in tests.items()
    }
    judged = not schema.outcome.number and {"local", "federated"} <= own.keys()
    gain = verdict(own["local"], own["federated"], silo.test.y) if judged else None
    return SiloScores(silo.name, compared["own"], compared["pooled"], bytes_sent, tests, gain)


def reported(folder: "RunFolder", silos: Sequence[SiloName]) -> list[SiloScores]:
    """The scores that real silos put on their last reply; NaN for those that reported none, and for the baselines."""
    rounds = folder.rounds()
    rows = []
    for silo in silos:
        scores = rounds[-1]["silos"].get(silo, {}).get("scores") or {}
        own, pooled = (
            {**dict.fromkeys(METHODS, math.nan), "federated": float(scores.get(f"{test}_balanced_accuracy", "nan"))}
            for test in TESTS
        )
        rows.append(SiloScores(silo, own, pooled, _bytes_sent(rounds, silo)))
    return rows


def _bytes_sent(rounds: Sequence[Mapping[str, Any]], silo: SiloName) -> int:
    return sum(entry["silos"].get(silo, {}).get("bytes_sent", 0) for entry in rounds)
