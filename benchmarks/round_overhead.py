"""What a round costs beside training: agents, which stay, beside stock SuperNodes, which start a process each time.

In seconds, and in bytes on the socket: a relay before the SuperLink counts them, TLS included. Both are real processes
on this machine, with TLS and node keys: a SuperLink, four SuperNodes, and either four agents or what the SuperNodes
start (``--isolation subprocess``: the code that the coordinator sent, with torch imported, as skops does where it is
installed).
"""

import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

import numpy as np
import psutil

from benchmarks import report
from benchmarks.federation import Runs
from benchmarks.traffic import Carried
from fedct_flwr.config import SiloConfig
from fedct_flwr.datasets.public_set import Query
from fedct_flwr.datasets.study_folder import read_study
from fedct_flwr.hospital.approval import approve
from fedct_flwr.hospital.egress_log import EgressLog
from fedct_flwr.hospital.keys import create_egress_key, load_egress_key
from fedct_flwr.learners.cotraining import cotrain
from fedct_flwr.silo.site import Site, real_site, terms_of
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE
from fedct_flwr.wire.codec import encode_instruction
from fedct_flwr.wire.content import Instruction
from fedct_flwr.wire.messages import to_record
from tests.hospital.runtime_api import RuntimeApi, secret_file
from tests.hospitals import write_silo_folder
from tests.processes.deployment import Deployment

ROUNDS: Final = 6
"""Of which the first is not counted: in it silos read their data."""
LEARNER: Final[dict[str, Any]] = {"name": "logistic-regression"}
IDLE_SECONDS: Final = 30
_REPLY_SECONDS: Final = 120.0
_ROOT: Final = Path(__file__).parents[1]
_AGENT: Final = "import sys; from pathlib import Path; from fedct_flwr.hospital.agent import start_agent; " \
    "start_agent(Path(sys.argv[1]), lambda text: print(text, flush=True))"  # fmt: skip


def run(seeds: int | None, fast: bool) -> None:
    """Agent beside a stock SuperNode: overhead of a round, the silo's own share, idle processor time, memory.

    Three repetitions of five rounds with each, in turns, or one if ``fast``; memory after 100 and 1,000 rounds.
    """
    start = time.perf_counter()
    repetitions = 1 if fast else seeds or 3
    runs = {"agent": Runs(), "stock SuperNode": Runs(), "one agent": Runs()}
    for _ in range(repetitions):
        for name in ("stock SuperNode", "agent"):
            for values in _rounds(name == "agent"):
                runs[name].add(**values)
    for values in _alone(100 if fast else 1000, 5 if fast else IDLE_SECONDS):
        runs["one agent"].add(**values)
    report.write(
        "round-overhead", _text(runs), runs, {"rounds": ROUNDS, "learner": LEARNER}, time.perf_counter() - start
    )


def _text(runs: dict[str, Runs]) -> str:
    median = {
        name: {key: statistics.median(values) for key, values in measured.values.items()}
        for name, measured in runs.items()
    }
    agent, stock, one = median["agent"], median["stock SuperNode"], runs["one agent"].values
    lines = [
        [
            name,
            *(f"{median[name][key]:.2f}" for key in ("seconds", "training", "overhead")),
            *(f"{median[name][key] / 1e3:.1f} kB" for key in ("up", "down")),
        ]
        for name in ("stock SuperNode", "agent")
    ]
    lasting = statistics.quantiles(one["share"], n=20)[-1]
    return (
        f"# Overhead of a round, four hospitals, {LEARNER['name']}\n\n"
        + report.table(["Silos", "Round (s)", "Slowest silo's training (s)", "Overhead (s)", "Up", "Down"], lines)
        + f"\nMedians over {len(runs['agent'].values['seconds'])} rounds of each, without the first of every run. The "
        f"agent's overhead is {stock['overhead'] / agent['overhead']:.1f} times lower. Training is timed alone, in "
        "this process, with the same records and labels.\n\n"
        "The silo's own share of a round, training of naive Bayes included: "
        f"{statistics.median(one['share']):.3f} s in the median, {lasting:.3f} s at the 95th percentile of "
        f"{len(one['share'])} rounds, from the moment that the SuperNode has the message to the moment that it has the "
        "whole reply (the agent's poll, gate, training, state, model, egress log, answer). An idle agent takes "
        f"{100 * one['idle'][0]:.2f}% of a core. Its memory is {one['early'][0]:.0f} MB after a tenth of these rounds "
        f"and {one['late'][0]:.0f} MB after all.\n"
    )


def _rounds(with_agents: bool) -> list[dict[str, float]]:
    """Seconds of each round but the first, of the slowest silo's training alone, what remains, and a silo's bytes."""
    with (
        tempfile.TemporaryDirectory(prefix="fedct-") as temporary,
        Deployment(Path(temporary), learner=LEARNER, stock=not with_agents, relayed=True) as deployment,
    ):
        training = max(_training_seconds(silo.file) for silo in deployment.silos.values())
        shorter, _ = _finished(deployment, 1)
        longer, rounds = _finished(deployment, ROUNDS)
    each = [(long - short) / len(deployment.silos) / (ROUNDS - 1) for long, short in zip(longer, shorter, strict=True)]
    return [
        {
            "seconds": float(entry["seconds"]),
            "training": training,
            "overhead": float(entry["seconds"]) - training,
            "up": each[0],
            "down": each[1],
        }
        for entry in rounds[1:]
    ]


def _finished(deployment: Deployment, number: int) -> tuple[Carried, list[dict[str, Any]]]:
    """What a run of so many rounds carried, over all silos, and its rounds."""
    before = [Carried.of(relay) for relay in deployment.relays.values()]
    run, folder = deployment.begin(
        f"of-{number}", num_server_rounds=number, min_silos=len(deployment.silos), stop_at_fixed_point=False
    )
    ended = deployment.finish(run, folder)
    carried = [Carried.of(relay).since(was) for relay, was in zip(deployment.relays.values(), before, strict=True)]
    rounds = folder.rounds()
    if len(rounds) != number:
        raise RuntimeError(f"the run ended after {len(rounds)} rounds: {ended}")
    return Carried(*map(sum, zip(*carried, strict=True))), rounds


def _training_seconds(silo_file: Path) -> float:
    """Median of five rounds' training with all public examples labeled, as from the second round on."""
    site = _site(silo_file)
    targets = np.resize(np.arange(len(site.terms.classes), dtype=LABEL_DTYPE), len(site.public))
    query = Query(0, len(site.public))
    seconds = []
    for _ in range(5):
        start = time.perf_counter()
        cotrain(site.learner, site.private, site.public, targets, query)
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds)


def _site(silo_file: Path) -> Site:
    config = SiloConfig.read_toml(silo_file)
    return real_site(config, read_study(config.study))


# --- one agent, and a SuperNode's runtime API in this process


def _prepare(folder: Path, port: int, **tables: dict[str, Any]) -> Path:
    """A silo's folder with keys, approved; returns the path of ``silo.toml``."""
    path = write_silo_folder(folder, connection={"supernode": f"127.0.0.1:{port}"}, **tables)
    config = SiloConfig.read_toml(path)
    for parent in (config.egress_key.parent, config.connection.secret.parent, config.state):
        parent.mkdir(parents=True, exist_ok=True)
    create_egress_key(config.egress_key)
    secret_file(config.connection.secret.parent).chmod(0o600)
    with EgressLog.open(config.state, config.silo, load_egress_key(config.egress_key)) as log:
        approve(log, config, read_study(config.study))
    return path


def _alone(rounds: int, idle_seconds: int) -> Iterator[dict[str, float]]:
    """The silo's share of each of so many rounds in seconds, memory on the way in MB, and the share of a core idle."""
    api = RuntimeApi()
    with tempfile.TemporaryDirectory(prefix="fedct-") as temporary, ExitStack() as stack:
        stack.callback(api.close)
        limits = {"max-rounds": 10**6, "max-queries": 10**9, "max-bytes": 10**9}
        silo = _prepare(Path(temporary), api.port, learner={"name": "naive-bayes"}, policy=limits)
        config = SiloConfig.read_toml(silo)
        terms = terms_of(read_study(config.study))
        output = stack.enter_context((Path(temporary) / "log").open("w", encoding="utf-8"))
        agent = subprocess.Popen(
            [sys.executable, "-c", _AGENT, str(silo)], env={**os.environ, "PYTHONPATH": str(_ROOT)},
            stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        stack.callback(agent.wait)
        stack.callback(agent.terminate)
        process = psutil.Process(agent.pid)
        unlabeled = np.full(terms.num_public, ABSTAIN, dtype=LABEL_DTYPE)
        query = Query(0, terms.num_public)
        for number in range(1, rounds + 1):
            targets = unlabeled.copy()
            targets[number % terms.num_public] = number % terms.num_classes
            question = to_record(encode_instruction(Instruction(number, query, targets), terms))
            start = time.perf_counter()
            api.ask(question, run_id=1)
            api.reply(_REPLY_SECONDS)
            if number > 1:
                yield {"share": time.perf_counter() - start}
            if number == rounds // 10:
                yield {"early": process.memory_info().rss / 1e6}
        yield {"late": process.memory_info().rss / 1e6}
        # The longer ago the last message, the longer an agent waits: a minute later no longer than ever.
        threading.Event().wait(0 if idle_seconds < IDLE_SECONDS else 70)
        process.cpu_percent()
        time.sleep(idle_seconds)
        yield {"idle": process.cpu_percent() / 100}
