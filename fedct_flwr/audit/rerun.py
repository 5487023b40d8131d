"""One refit: the run's settings once more in this process, on half of the candidates, with all that travelled."""

import hashlib
import logging
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from flwr.app import Context, Message
from flwr.clientapp import ClientApp
from numpy.typing import NDArray

from client_app.main import app as client_app
from fedct_flwr import datasets
from fedct_flwr.baselines.weight_sharing import WeightSharing
from fedct_flwr.config.run import RunConfig
from fedct_flwr.coordinator.algorithm import find_algorithm
from fedct_flwr.datasets import loading
from fedct_flwr.datasets.federated import FederatedDataset
from fedct_flwr.flower.loopback import run_loopback, simulated_nodes
from fedct_flwr.learners import Learner, Resumable, Saveable
from fedct_flwr.learners.build import build_learner
from fedct_flwr.runs.run_folder import RunFolder
from fedct_flwr.secure_sum.terms import shape_of_votes
from fedct_flwr.silo.round import open_silo_context, silo_named
from fedct_flwr.silo.simulated import simulated_site
from fedct_flwr.silo.summing import Ready
from fedct_flwr.types import ABSTAIN, LABEL_DTYPE, HardLabels, Refusal, Refused, RunError, SiloName, Votes
from fedct_flwr.wire.codec import decode_instruction, decode_reply, encode_instruction
from fedct_flwr.wire.content import Instruction, Joint, Terms
from fedct_flwr.wire.kinds import kind_of
from fedct_flwr.wire.messages import ACTION, ARRAYS, asks_for_weights, from_record, to_weights, without_control
from fedct_flwr.wire.sums import Summed
from server_app.main import app as server_app

_SOFT_AXES: Final = 2


class InSum(NamedTuple):
    """A silo's summand of a secure sum, ``(examples * classes,)`` with noise: attacks read the sum alone."""

    asked: Instruction
    vector: NDArray[np.uint64]
    honest: int


@dataclass
class OfSilo:
    """One silo's answers, a row for each round in which it answered.

    ``labels`` are ``(num_public,)``, ``probabilities`` ``(num_public, classes)`` with NaN for other examples; ``steps``
    are those of the joint labeler's training, ``in_sums`` what it adds to sums with noise.
    """

    labels: list[HardLabels] = field(default_factory=list)
    probabilities: list[NDArray[np.float64]] = field(default_factory=list)
    weights: list[Mapping[str, NDArray[Any]]] = field(default_factory=list)
    steps: list[Joint] = field(default_factory=list)
    in_sums: list[InSum] = field(default_factory=list)


class Transcript:
    """Listens at ``app``; ``self.app`` is to be run instead."""

    def __init__(self, app: ClientApp, terms: Terms) -> None:
        self.silos: dict[SiloName, OfSilo] = {}
        self.terms, self._inner = terms, app
        self.app = ClientApp()
        self.app.train()(self._train)
        # Messages of a secure sum look random.
        self.app.query(ACTION)(app)

    def _train(self, message: Message, context: Context) -> Message:
        silo = silo_named(context)
        if asks_for_weights(message.content):
            reply = self._inner(message, context)
            if reply.has_content() and ARRAYS in reply.content.array_records:
                sent = without_control(to_weights(reply.content.array_records[ARRAYS]))[0]
                self.silos.setdefault(silo, OfSilo()).weights.append(sent)
            return reply
        try:
            asked = decode_instruction(from_record(message.content), self.terms)
        except Refused:  # the message by which a coordinator gets to know the silos' names
            return self._inner(message, context)
        reply = self._inner(message, context)
        if reply.has_content():
            answer = decode_reply(from_record(reply.content), self.terms, asked).outcome
            if isinstance(answer, Refusal):
                return reply
            if asked.noise:
                self._keep_summand(silo, asked, context)
            else:
                self._keep(silo, asked, answer)
        return reply

    def _keep_summand(self, silo: SiloName, asked: Instruction, context: Context) -> None:
        """Read it where the silo keeps it for the sum: what passes there is masked."""
        here, kind = open_silo_context(context), kind_of(asked, self.terms)
        if not isinstance(kind, Summed) or here.noise_adder_of is None:
            raise TypeError("noise is in sums of votes alone")
        shape = shape_of_votes(kind, asked, self.terms, hashlib.sha256(encode_instruction(asked, self.terms)).digest())
        added = InSum(asked, Ready(here.state).vector(shape), here.noise_adder_of().honest)
        self.silos.setdefault(silo, OfSilo()).in_sums.append(added)

    def _keep(self, silo: SiloName, asked: Instruction, answer: Votes) -> None:
        kept, terms = self.silos.setdefault(silo, OfSilo()), self.terms
        positions = asked.query.positions(terms.num_public)
        if asked.joint is not None:
            kept.steps.append(asked.joint)
            return
        if answer.ndim == _SOFT_AXES:
            shares = np.full((terms.num_public, terms.num_classes), np.nan)
            shares[positions] = answer / np.maximum(answer.sum(axis=1, keepdims=True), 1e-12)
            kept.probabilities.append(shares)
            answer = answer.argmax(axis=1)
        labels = np.full(terms.num_public, ABSTAIN, dtype=LABEL_DTYPE)
        labels[positions] = answer
        kept.labels.append(labels)


_NAME: Final = "audited"
_FIXED: Final[Mapping[str, Any]] = {
    "data": _NAME, "public": "given", "baselines": "none", "resume": False,
    "tracking": "none", "report-scores": False, "student": "", "student-params": "{}", "run-dir": "", "roster": "",
}  # fmt: skip
"""The data set that is handed in has been read already, and its public set drawn."""
_OF_DATA: Final = (*loading.SETTINGS.values(), *loading.OF_PUBLIC.values())
_IN_THE_OPEN: Final[Mapping[str, Any]] = {"secure": False, "min-summands": 0, "may-collude": 1}
"""Without noise, sums have exactly the votes that travel without them: each silo's can be added up."""


@dataclass(frozen=True, eq=False)
class Refit:
    """Messages and each silo's last model, in a run whose members are known."""

    dataset: FederatedDataset
    transcript: Transcript
    models: Mapping[SiloName, Learner]
    in_sums: bool = False
    """Whether the coordinator sees no silo's answers but their sum."""


def rerun(config: RunConfig, dataset: FederatedDataset, seed: int) -> Refit:
    """Run these settings on this data set, with another seed. Raises RunError where the run fails."""
    transcript = Transcript(
        client_app, dataset.schema.terms(config.study, len(dataset.public), dataset.public.fingerprint)
    )
    with tempfile.TemporaryDirectory(prefix="fedct-audit-") as folder, _named(dataset), _silent():
        path = Path(folder) / "run"
        averages = isinstance(find_algorithm(config), WeightSharing)
        defaults = RunConfig.defaults()
        in_sums = config.method.in_sums and not config.method.trains_together
        again = RunConfig.from_flower(
            {
                **config.to_flower(),
                **_FIXED,
                **{key: defaults[key] for used in _OF_DATA for key in used},
                **(_IN_THE_OPEN if in_sums and not config.method.noise_in_shares else {}),
                "seed": seed,
                "run-dir": str(path),
                "save-models": averages,
            }
        )
        networks = isinstance(simulated_site(again, 0).learner, Resumable)
        run_loopback(
            server_app, transcript.app, again.to_flower(), simulated_nodes(len(dataset.silos)), 1 if networks else None
        )
        result = RunFolder(path).read_json("result.json")
        if result.get("status") != "completed" or len(transcript.silos) < len(dataset.silos):
            raise RunError(f"a refit of the run failed: {result.get('reason', 'a silo sent no answer')}")
        models = {silo.name: simulated_site(again, number).learner for number, silo in enumerate(dataset.silos)}
        if averages:
            models = dict.fromkeys(models, _global_model(again, dataset, path))
        simulated_site.cache_clear()
    return Refit(dataset, transcript, models, in_sums)


def _global_model(config: RunConfig, dataset: FederatedDataset, path: Path) -> Learner:
    """The last average, of an algorithm that averages weights."""
    learner = build_learner(config, dataset, 0, dataset.silos[0].private.X)
    if not isinstance(learner, Saveable):
        raise RunError(f"a {type(learner).__name__} is in no file, and the global model is read from one")
    return learner.load(RunFolder(path).global_model(learner.suffix))


@contextmanager
def _named(dataset: FederatedDataset) -> Iterator[None]:
    """Let the two apps find the data set by name, as they find all others, in this process alone."""
    datasets.LOADERS[_NAME] = lambda config: dataset
    # The apps read a data set once for each config.
    datasets.load.cache_clear()
    simulated_site.cache_clear()
    try:
        yield
    finally:
        del datasets.LOADERS[_NAME]
        datasets.load.cache_clear()


@contextmanager
def _silent() -> Iterator[None]:
    """Keep each refit's log from the terminal: the run that is audited has its own."""
    logger = logging.getLogger("flwr")
    level = logger.level
    logger.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        logger.setLevel(level)
