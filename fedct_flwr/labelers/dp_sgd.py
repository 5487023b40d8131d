"""A network whose labels may leave: trained by DP-SGD, over all rounds of a study, on private and public examples.

Abadi et al., "Deep learning with differential privacy", CCS 2016, Algorithm 1, with momentum, and a rate that declines.
"""

import logging
import math
from collections.abc import Callable, Iterator
from functools import lru_cache, partial
from typing import Any, ClassVar, Final

import numpy as np
import torch
from dp_accounting import DpEvent, GaussianDpEvent, PoissonSampledDpEvent
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap

from fedct_flwr.config.learner import AUTO
from fedct_flwr.datasets.federated import as_numbers
from fedct_flwr.labelers.labeler import Asked, Start
from fedct_flwr.learners.build import AUGMENT, wanted_of
from fedct_flwr.learners.catalog import is_network, make
from fedct_flwr.learners.text import transformer_for
from fedct_flwr.learners.trained_network import TrainedNetwork, over, seeded
from fedct_flwr.privacy.accounting import calibrate
from fedct_flwr.privacy.mechanisms import repeated
from fedct_flwr.privacy.randomness import ONE, Noise, bernoulli, gaussians
from fedct_flwr.types import ABSTAIN, ConfigError, Features, HardLabels, TrainingError, random_state

# Importing Opacus gives the root logger a handler where it has none, which would print lines of Flower's log.
_HANDLER: Final = logging.NullHandler()
logging.root.addHandler(_HANDLER)
from opacus.grad_sample import GradSampleModuleFastGradientClipping  # noqa: E402

logging.root.removeHandler(_HANDLER)

_LEAST_NOISE: Final = 0.2
_MOST_NOISE: Final = 1e6
_NOISE_AT_ONCE: Final = 1 << 18
"""Gaussian numbers to draw in one go: small networks need few for a step."""
_EXAMPLES_TO_CHECK: Final = 4
_AT_ONCE: Final = 64
"""Examples in one pass, where the gradient of each is made: it is as large as the network."""
_BY_NORMS_AT_ONCE: Final = 512
"""Examples in one pass, where only the norm of each gradient is."""
_OWN_RECORD: Final = (
    nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, nn.LayerNorm, nn.GroupNorm, nn.Identity, nn.ReLU, nn.LeakyReLU, nn.ELU,
    nn.GELU, nn.SiLU, nn.Tanh, nn.Sigmoid, nn.Dropout, nn.Dropout2d, nn.MaxPool1d, nn.MaxPool2d, nn.AvgPool1d,
    nn.AvgPool2d, nn.AdaptiveAvgPool1d, nn.AdaptiveAvgPool2d, nn.AdaptiveMaxPool1d, nn.AdaptiveMaxPool2d,
)  # fmt: skip
"""Layers whose output for a record depends on this record alone."""
_SLACK: Final = 1e-4
"""Norms are computed in float32, to some 1e-6 of themselves: what is clipped to is so much less than the norm."""
_TINY: Final = 1e-6
_STEPS: Final = 30
_RATE: Final = 1500.0
"""Of the first step, times the square of the number of steps, for a clipping norm of 1."""
_MEMORY: Final = 3.0
"""Momentum forgets within one such part of all steps."""
_DECLINE: Final = 5.0
"""The rate ends at the beginning's share of 1 / (1 + this)."""
_CLEAR: Final = 500.0
"""Records over noise, as 2000 have at epsilon 1: with more, the weights may go further."""
_FURTHEST: Final = 4.0
_PUBLIC_WEIGHT: Final = 0.3
_PUBLIC_BATCH: Final = 256
_HUGE: Final = 1e300
_REACH: Final = 1e6
"""Features are cut off there: far beyond what any has, and far from where single precision ends."""


def plan(rounds: int) -> dict[str, int]:
    """About 30 steps, and at least one in each round: where each takes all records, more cost time and no privacy."""
    steps = -(-_STEPS // rounds)
    return {"total_steps": steps * rounds, "steps_per_round": steps}


def labeler(start: Start) -> "DpSgdLabeler":
    """A network like the silo's learner. Raises ConfigError for another learner, or one that cannot be trained so."""
    privacy, learner = start.privacy, start.learner
    # With the statistics of the public set alone.
    transformer = transformer_for(learner, start.schema, start.public.X)
    made = DpSgdLabeler(
        _network(start, transformer),
        start.num_classes,
        num_records=start.num_units,
        batch_size=start.num_units,
        **plan(privacy.rounds),
        clipping_norm=privacy.clipping_norm,
        seed=random_state(learner.seed, "labeler", start.silo),
        device=learner.device,
        transformer=transformer,
        epsilon=privacy.epsilon,
        delta=privacy.delta,
    )
    # Before anything is charged for it.
    made.check(start.public.X)
    return made


def _network(start: Start, transformer: Any) -> Any:
    """Makes the network. Raises ConfigError for a learner that is not a network."""
    learner = start.learner
    if AUGMENT in learner.params:
        raise ConfigError(
            f"{AUGMENT!r} in the learner's parameters has no effect with protection = 'dp-sgd', which clips the "
            "gradient of each image as it is: leave it out"
        )
    wanted = wanted_of(start.num_classes, start.public.X[:2], transformer)
    made = partial(make, learner.name, learner.params, **wanted)
    if learner.name == AUTO or not is_network(made()):
        raise ConfigError(
            f"protection = 'dp-sgd' trains networks, and learner {learner.name!r} is not one: choose a network, or "
            "another protection, such as 'dp-linear'"
        )
    return made


class DpSgdLabeler(TrainedNetwork):
    """Labels what it is asked about by a network that ``total_steps`` of DP-SGD train, ``steps_per_round`` a round.

    Each step takes every private record with probability ``batch_size / num_records``, independently, and adds up
    their gradients, each clipped to ``clipping_norm``. Noise goes on top: normal, in every weight, with standard
    deviation ``noise_multiplier * clipping_norm``, the least for which all steps together cost at most ``epsilon`` at
    ``delta``, per record. The sum is divided by the number of records in an average batch.

    Pseudo-labeled public examples cost nothing, but early labels are bad. So their gradients are clipped as those of
    records are (for the balance, not for privacy), and their mean weighs 0.3 times the share of all steps that are
    done, against 1 for the records'.

    Descent with momentum, 1 - 3 / ``total_steps``. The rate begins at ``learning_rate`` and declines, as
    1 / (1 + 5 x the share of steps done). By default, the weights go equally far in however many steps, and further
    the more records there are for the noise. These numbers, and those of ``plan``, were chosen on scikit-learn's digits
    with 5 x 200 records: a silo that tries some out on its own records would have to pay for that.

    After ``total_steps`` it only labels, for nothing. ``transformer`` must be fitted to public examples alone.

    Formal guarantees:
        Adjacent data sets differ in one record, added or removed. Public are ``num_records``, the schema, the
        public set, the consensus targets, the network as it begins, and all settings. Then everything that ``answer``
        returns and ``dump`` tells is a function of public things and of Poisson-sampled Gaussian mechanisms of sampling
        probability ``batch_size / num_records`` (at most 1: then nothing is sampled) and noise multiplier
        ``noise_multiplier``, one per step, whose events ``event`` returns; together ``(epsilon, delta)``-DP. A record
        of another data set of another size is still sampled with the same probability. Public examples' gradients and
        their weight are functions of the weights before the step and of public things.

        That holds for real numbers and if ``noise`` is secure. The gradient of a record is that of the network's loss
        on this record alone, whatever the network does with a batch. Not covered: floating point (gradients, noise and
        their sum are float32; only labels leave, never the sums), and how long a step takes, which depends on how many
        records were sampled. No record makes training fail: features are cut off at a million, and what has a gradient
        that is no number, or that the network raises an exception for, adds nothing. Not covered either: on a GPU, an
        index out of range ends the process.
    """

    reads_votes: ClassVar[bool] = False

    def __init__(
        self,
        make_network: Callable[[], nn.Module],
        num_classes: int,
        *,
        num_records: int,
        batch_size: int,
        total_steps: int,
        steps_per_round: int,
        learning_rate: float | None = None,
        clipping_norm: float,
        epsilon: float,
        delta: float,
        seed: int,
        device: str,
        transformer: Any = None,
    ) -> None:
        self._batch_size, self._clipping_norm = batch_size, clipping_norm
        self._total_steps, self._steps_per_round = total_steps, steps_per_round
        self._expected = min(batch_size, num_records)
        self._sampling = self._expected / num_records
        self.noise_multiplier = _least_noise(self._sampling, total_steps, epsilon, delta)
        """Standard deviation of the noise, as a multiple of the clipping norm."""
        self._checked = False
        if learning_rate is None:
            clear = self._expected * math.sqrt(total_steps) / self.noise_multiplier
            further = min(_FURTHEST, math.sqrt(clear / _CLEAR))
            learning_rate = further * _RATE / (total_steps**2 * clipping_norm)
        super().__init__(
            make_network, num_classes, learning_rate=learning_rate, seed=seed, device=device, transformer=transformer
        )

    def check(self, public: Features) -> None:
        """Raise ConfigError unless the network maps such examples to logits and each one's gradient can be clipped."""
        # Normalizing a batch mixes records, and a buffer is learned from them without noise.
        mixing = any(isinstance(module, nn.modules.batchnorm._BatchNorm) for module in self._network.modules())
        if mixing or next(self._network.buffers(), None) is not None:
            raise ConfigError(
                "the network normalizes batches or has other buffers, which DP-SGD cannot train: use group or layer "
                "normalization"
            )
        self.check_output(public)
        X = self._tensor(public[:_EXAMPLES_TO_CHECK])
        y = torch.zeros(len(X), dtype=torch.int64, device=self._device)
        self._ready_to_train()
        try:
            self._clipped(X, y, torch.ones(len(X), device=self._device))
        except Exception as error:
            raise ConfigError(f"the network's gradients cannot be clipped: {error}") from error
        self._checked = True

    def event(self, asked: Asked) -> DpEvent:
        """A (Poisson-sampled) Gaussian mechanism for each step of this round; nothing when all steps are taken.

        Raises TrainingError for records of another shape than public examples: nothing is to be charged for them.
        """
        _check_shape(asked)
        return repeated(_step_event(self._sampling, self.noise_multiplier), self._steps_ahead())

    def answer(self, asked: Asked, noise: Noise) -> HardLabels:
        """Train for one round's steps, if any are left, and label. Raises TrainingError, in the state of before."""
        _check_shape(asked)
        if steps := self._steps_ahead():
            if not self._checked:
                self.check(asked.public)
            before = self._snapshot()
            try:
                self._train(asked, steps, noise)
            except BaseException:
                self._put_back(before)
                raise
        return self.labels_of(self._on_device(asked.public)[over(asked.positions).to(self._device)])

    def restore(self, state: bytes) -> None:
        """Go on from a dump. Raises TrainingError if it is not one of this labeler's. Runs no code."""
        super().restore(state)
        if self._steps_done < 0:
            self.reset()
            raise TrainingError("the stored state has taken fewer steps than none")

    def make_optimizer(self, weights: list[Tensor]) -> torch.optim.Optimizer:
        return torch.optim.SGD(
            weights,
            lr=self._learning_rate,
            momentum=max(0.0, 1 - _MEMORY / self._total_steps),
            fused=self._device.type in ("cpu", "cuda"),
        )

    def _steps_ahead(self) -> int:
        # A longer plan before this one may have taken more.
        return max(0, min(self._steps_per_round, self._total_steps - self._steps_done))

    def _ready_to_train(self) -> None:
        """In training mode, but without dropout.

        Its masks go by an example's place in the batch: one record more or less would change what all others add.
        """
        self._network.train()
        for module in self._network.modules():
            if isinstance(module, nn.modules.dropout._DropoutNd):
                module.eval()

    def _train(self, asked: Asked, steps: int, noise: Noise) -> None:
        # Where training stands decides which public examples it draws, which need not be secret.
        seed = self._seed + self._steps_done
        with seeded(seed, self._device):
            self._descend(asked, steps, seed, noise)
        # Of the weights, which are private already, and not of the loss, in which one record may be seen.
        if not all(bool(value.isfinite().all()) for value in self._trained):
            raise TrainingError("the network's weights are not finite: lower the learning rate")
        self._steps_done += steps

    def _descend(self, asked: Asked, steps: int, seed: int, noise: Noise) -> None:
        """One optimizer step per batch."""
        X, y = self._on_device(asked.private.X), self._labels(asked.private.y)
        U, pseudo = self._on_device(asked.public), self._labels(asked.targets)
        labeled = torch.from_numpy(np.flatnonzero(asked.targets != ABSTAIN))
        rng = torch.Generator().manual_seed(seed)
        num_public = min(self._batch_size, _PUBLIC_BATCH)
        gaussian = self._gaussian(steps, noise)
        chance = int(self._sampling * ONE)
        self._ready_to_train()
        for number in range(steps):
            done = (self._steps_done + number) / self._total_steps
            own = torch.from_numpy(np.flatnonzero(bernoulli(noise, chance, len(y)))).to(self._device)
            batch, labels = X[own], y[own]
            share = 1.0
            weights = torch.full((len(own),), 1 / self._expected, device=self._device)
            if len(labeled):
                other = labeled[torch.randint(len(labeled), (num_public,), generator=rng)].to(self._device)
                batch, labels = torch.cat([batch, U[other]]), torch.cat([labels, pseudo[other]])
                share = 1 / (1 + _PUBLIC_WEIGHT * done)
                public = torch.full((num_public,), (1 - share) / num_public, device=self._device)
                weights = torch.cat([weights * share, public])
            gradients = self._clipped_sum(batch, labels, weights)
            torch._foreach_add_(gradients, next(gaussian), alpha=share)
            for parameter, gradient in zip(self._trained, gradients, strict=True):
                parameter.grad = gradient
            for group in self._optimizer.param_groups:
                group["lr"] = self._learning_rate / (1 + _DECLINE * done)
            self._optimizer.step()

    def _clipped_sum(self, X: Tensor, y: Tensor, weights: Tensor, at_once: int = 0) -> list[Tensor]:
        """The sum of the examples' clipped gradients, by parameter; ``weights`` ``(n,)`` count after clipping.

        An example adds nothing where its gradient is no number or the network raises an exception. There may be none.
        """
        sums = [torch.zeros_like(weight) for weight in self._trained]
        at_once = at_once or (_BY_NORMS_AT_ONCE if _can_clip_by_norms(self._network) else _AT_ONCE)
        for start in range(0, len(X), at_once):
            rows = slice(start, start + at_once)
            try:
                parts = self._clipped(X[rows], y[rows], weights[rows])
            except Exception:
                # One record, such as one with a category that an embedding has no row for, leaves the others in.
                if at_once == 1:
                    continue
                parts = self._clipped_sum(X[rows], y[rows], weights[rows], at_once=1)
            torch._foreach_add_(sums, parts)
        return sums

    def _clipped(self, X: Tensor, y: Tensor, weights: Tensor) -> list[Tensor]:
        """The same in one pass, of at least one example."""
        if _can_clip_by_norms(self._network):
            return self._clipped_by_norms(X, y, weights)
        trained = {name: weight.detach() for name, weight in self._network.named_parameters() if weight.requires_grad}
        found = vmap(grad(self._loss), in_dims=(None, 0, 0))(trained, X, y)
        gradients = [gradient.flatten(1) for gradient in found.values()]
        scales = self._scales(torch.stack([gradient.norm(dim=1) for gradient in gradients]).norm(dim=0), weights)
        sums = [scales @ gradient.nan_to_num_(0, 0, 0) for gradient in gradients]
        return [part.view_as(weight) for part, weight in zip(sums, self._trained, strict=True)]

    def _clipped_by_norms(self, X: Tensor, y: Tensor, weights: Tensor) -> list[Tensor]:
        """The same without a gradient for each example: one pass for their norms, and one for the sum.

        Ghost clipping: X. Li et al., "Large language models can be strong differentially private learners", ICLR 2022
        (arXiv:2110.05679, section 4), as Opacus has it. See ``_can_clip_by_norms``.
        """
        hooked = GradSampleModuleFastGradientClipping(
            self._network, max_grad_norm=self._clipping_norm, use_ghost_clipping=True, loss_reduction="sum"
        )
        try:
            inputs = X.detach().requires_grad_()
            losses = nn.functional.cross_entropy(hooked(inputs), y, reduction="none")
            # The way back to the inputs passes each layer's hook.
            torch.autograd.grad(losses.sum(), inputs, retain_graph=True)
            norms = hooked.get_norm_sample().detach()
        finally:
            hooked.zero_grad()
            hooked.remove_hooks()
        fine = norms.isfinite()
        if not fine.all():
            # Not a weight of 0: what is no number stays none, times 0.
            return self._clipped_sum(X[fine], y[fine], weights[fine])
        return list(torch.autograd.grad((losses * self._scales(norms, weights)).sum(), self._trained))

    def _scales(self, norms: Tensor, weights: Tensor) -> Tensor:
        """Factors of the examples' gradients ``(n,)``, by their norms."""
        scales = weights * (self._clipping_norm * (1 - _SLACK) / (norms + _TINY)).clamp(max=1)
        return scales.where(norms.isfinite(), 0)

    def _loss(self, weights: dict[str, Tensor], x: Tensor, label: Tensor) -> Tensor:
        """Cross-entropy of one example."""
        return nn.functional.cross_entropy(functional_call(self._network, weights, (x[None],)), label[None])

    def _tensor(self, X: Features) -> Tensor:
        """Bound huge, infinite and missing values: one record must not make training fail, which would reveal it."""
        X = as_numbers(X)
        if self._transformer is not None:
            X = X if X.dtype == np.object_ else np.clip(X.astype(np.float64), -_HUGE, _HUGE)
        with np.errstate(over="ignore"):
            return super()._tensor(X).nan_to_num().clamp(-_REACH, _REACH)

    def _gaussian(self, steps: int, noise: Noise) -> Iterator[list[Tensor]]:
        """For each step, noise for the records' mean gradient, in the parameters' shapes."""
        sizes = [parameter.numel() for parameter in self._trained]
        total = sum(sizes)
        std = self.noise_multiplier * self._clipping_norm / self._expected
        while steps > 0:
            rows = min(steps, max(1, _NOISE_AT_ONCE // total))
            drawn = torch.from_numpy(gaussians(noise, rows * total, std)).to(self._device)
            for row in drawn.view(rows, total):
                parts = zip(row.split(sizes), self._trained, strict=True)
                yield [part.view_as(parameter) for part, parameter in parts]
            steps -= rows

    def _labels(self, y: HardLabels) -> Tensor:
        return torch.from_numpy(y.astype(np.int64)).to(self._device)


def _can_clip_by_norms(network: nn.Module) -> bool:
    """Whether it is a sequence of layers for which the norms are known to be those of each record's own gradient.

    Not where a layer may mix records or weights stand in two places. Nor where a convolution pads with other values
    than zeros: Opacus 1.6 computes its norms as with zeros.
    """
    weights = [id(weight) for _, weight in network.named_parameters(remove_duplicate=False)]
    if len({*weights}) < len(weights):
        return False
    for layer in network.modules():
        flat = (type(layer) is nn.Flatten and layer.start_dim > 0) or (type(layer) is nn.Unflatten and layer.dim != 0)
        known = flat or type(layer) in (nn.Sequential, *_OWN_RECORD)
        if not known or getattr(layer, "padding_mode", "zeros") != "zeros":
            return False
    return True


def _check_shape(asked: Asked) -> None:
    """Raise TrainingError unless records have the shape of public examples: each of them would add nothing."""
    own, public = asked.private.X.shape[1:], asked.public.shape[1:]
    if own != public:
        raise TrainingError(
            f"records of shape {own} do not fit a public set of shape {public}: read both with the same schema"
        )


def _step_event(sampling: float, noise_multiplier: float) -> DpEvent:
    gaussian = GaussianDpEvent(noise_multiplier)
    return gaussian if sampling == 1 else PoissonSampledDpEvent(sampling, gaussian)


@lru_cache(maxsize=64)
def _least_noise(sampling: float, steps: int, epsilon: float, delta: float) -> float:
    """Takes seconds, and a simulation has many silos of one size."""
    return calibrate(
        lambda noise: repeated(_step_event(sampling, noise), steps), epsilon, delta, _LEAST_NOISE, _MOST_NOISE
    )
