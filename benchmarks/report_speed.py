"""How long a report takes, how large it is, and what it costs a run to be watched."""

import json
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np

from benchmarks import report
from benchmarks.federation import Runs
from fedct_flwr.config import RunConfig
from fedct_flwr.report.live import Feed
from fedct_flwr.report.page import content, document
from fedct_flwr.report.summary import read_runs
from fedct_flwr.runs.records import RoundRecord, SiloRecord
from fedct_flwr.runs.run_folder import RunFolder

ROUNDS: Final = 1000
SILOS: Final = 100
_CLASSES: Final = tuple(f"class {number}" for number in range(10))
_WATCHED_SECONDS: Final = 30.0
_ROUND_SECONDS: Final = 0.5
_ASK_SECONDS: Final = 1.0


def run(seeds: int | None, fast: bool) -> None:
    """Report of 1,000 rounds of 100 silos, and a page that asks every second while rounds come in."""
    start = time.perf_counter()
    runs = {"report": Runs(), "four silos": Runs(), f"{SILOS} silos": Runs()}
    with tempfile.TemporaryDirectory(prefix="fedct-") as temporary:
        folder = _folder(Path(temporary) / "run", SILOS, ROUNDS)
        for _ in range(1 if fast else seeds or 5):
            runs["report"].add(**_report(folder.path))
        for name, silos in (("four silos", 4), (f"{SILOS} silos", SILOS)):
            for share in _watched(Path(temporary) / name, silos, 5.0 if fast else _WATCHED_SECONDS):
                runs[name].add(share=share)
    report.write("report-speed", _text(runs), runs, {"rounds": ROUNDS, "silos": SILOS}, time.perf_counter() - start)


def _text(runs: dict[str, Runs]) -> str:
    values = runs["report"].values
    shares = [[name, f"{runs[name].values['share'][0]:.2%}"] for name in list(runs)[1:]]
    return (
        f"# A report of {ROUNDS:,} rounds of {SILOS} silos\n\n"
        + report.table(
            ["", "Median"],
            [
                ["reading the run folder (s)", f"{np.median(values['read']):.2f}"],
                ["figures, tables and page (s)", f"{np.median(values['made']):.2f}"],
                ["size of the page (MB)", f"{np.median(values['megabytes']):.2f}"],
            ],
        )
        + "\nOf one core's time, what a run is served with while a page asks every second and a round ends every half "
        "(reading, figures, tables, JSON; with the end of the run, which is told at once):\n\n"
        + report.table(["Run of", "Share"], shares)
    )


def _report(path: Path) -> dict[str, float]:
    start = time.perf_counter()
    found = read_runs([path])
    read = time.perf_counter()
    page = document(content(found)).encode()
    return {"read": read - start, "made": time.perf_counter() - read, "megabytes": len(page) / 1e6}


def _watched(path: Path, silos: int, seconds: float) -> Iterator[float]:
    folder, names = _folder(path, silos, 0), _names(silos)
    rng = np.random.default_rng(0)
    feed, spent = Feed(path), 0.0
    number, start = 0, time.monotonic()
    asked = start
    while (now := time.monotonic()) < start + seconds:
        if now > start + number * _ROUND_SECONDS:
            number += 1
            folder.append_round(_record(number, names, rng))
        if now > asked:
            began = time.thread_time()
            feed.data()
            spent += time.thread_time() - began
            asked += _ASK_SECONDS
        time.sleep(0.01)
    folder.finish("completed")
    began = time.thread_time()
    feed.data()
    yield (spent + time.thread_time() - began) / seconds


def _folder(path: Path, silos: int, rounds: int) -> RunFolder:
    names, rng = _names(silos), np.random.default_rng(0)
    settings = {**RunConfig.defaults(), "study": "speed", "data": "heart-disease", "learner": "decision-tree"}
    facts = {"public_fingerprint": "0" * 64, "num_public": 5000, "classes": _CLASSES, "silos": names}
    folder = RunFolder.create(path, settings, facts)
    folder.close()
    for number in range(1, rounds + 1):
        folder.append_round(_record(number, names, rng))
    if rounds:
        tests = [dict(zip(("local", "federated", "centralized"), rng.random(3), strict=True)) for _ in range(2 * silos)]
        rows = [{"silo": name, "own": tests[2 * n], "pooled": tests[2 * n + 1]} for n, name in enumerate(names)]
        (path / "scores.json").write_text(json.dumps(rows), encoding="utf-8")
        trust = {"round": rounds, "silos": names, "matrix": rng.dirichlet(np.ones(silos), silos).round(4).tolist()}
        (path / "trust.jsonl").write_text(json.dumps(trust) + "\n", encoding="utf-8")
        folder.finish("completed", fixed_point=None)
    return folder


def _names(silos: int) -> list[str]:
    return [f"hospital-{number:03}" for number in range(silos)]


def _record(number: int, names: list[str], rng: np.random.Generator) -> RoundRecord:
    level = 0.9 - 0.4 / number
    scores = [
        {f"{test}_balanced_accuracy": float(rng.normal(level, 0.03)) for test in ("own", "pooled")} for _ in names
    ]
    silos = {
        name: SiloRecord(
            int(rng.integers(2400, 2600)),
            float(rng.exponential(0.5)),
            {"agreement": float(rng.normal(level, 0.02))},
            score,
        )
        for name, score in zip(names, scores, strict=True)
    }
    away = [str(name) for name in rng.choice(names, len(names) // 50, replace=False)]
    for name in away:
        del silos[name]
    return RoundRecord(
        round=number,
        seconds=1.0,
        queried=5000,
        facts={
            "changed": int(rng.integers(0, 50)),
            "abstained": int(rng.integers(0, 20)),
            "agreement": float(np.mean([silo.facts["agreement"] for silo in silos.values()])),
            "class_counts": dict(zip(_CLASSES, rng.multinomial(5000, np.full(10, 0.1)).tolist(), strict=True)),
        },
        instruction_bytes=2600,
        bytes_sent=sum(silo.bytes_sent for silo in silos.values()),
        silos=silos,
        absent=dict.fromkeys(away, "no reply"),
        younger={"churn": None if number == 1 else float(rng.random() / number)},
    )
