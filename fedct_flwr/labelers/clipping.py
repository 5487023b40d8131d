"""Sums of gradients in which every example's is clipped, by one pass forward and one back.

The gradient of a linear layer's weights is, for one example, the outer product of its input and of what comes back at
its output, so its norm is the product of two norms (Goodfellow, arXiv:1510.01799), and the clipped sum is one product
of matrices once the norms are known ("book-keeping": Bu et al., "Differentially private optimization on large model at
small cost", ICML 2023). For all other layers Opacus computes the gradient of each example.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Final, NamedTuple

import torch
from torch import Tensor, nn

from fedct_flwr.types import ConfigError

_TINY: Final = 1e-6
_SLACK: Final = 1e-4
"""Norms are computed in float32, to some 1e-6 of themselves: what is clipped to is so much less than the norm."""
_AT_ONCE: Final = 4096
"""Examples in one pass through nothing but linear layers: a small network takes as long for a few as for many."""
_SINGLY_AT_ONCE: Final = 256
"""With other layers: a convolution's gradients by example take that many times the network's memory."""


class _Call(NamedTuple):
    """A layer's pass forward."""

    layer: nn.Module
    input: Tensor
    output: Tensor


class _Backprop(NamedTuple):
    """What came back at a layer's output; ``samples`` are gradients by example, unless it is a plain linear layer."""

    layer: Any
    input: Tensor
    back: Tensor
    samples: dict[nn.Parameter, Tensor] | None


class ClippedGradients:
    """Computes gradients of a network's cross-entropy, each example's clipped to ``norm``.

    Raises ConfigError for a network with layers that normalize batches, that have buffers, or for which Opacus knows
    no gradients of single examples.
    """

    def __init__(self, network: nn.Module, norm: float) -> None:
        try:
            from opacus.grad_sample import GradSampleModule
        except ImportError:
            raise ConfigError("DP-SGD needs Opacus: pip install -c constraints.txt -e '.[dp-sgd]'") from None
        self._samplers: dict[type[nn.Module], Any] = GradSampleModule.GRAD_SAMPLERS
        self._network = network
        self._norm = norm * (1 - _SLACK)
        self.parameters = [parameter for parameter in network.parameters() if parameter.requires_grad]
        if not self.parameters:
            raise ConfigError("the network has no weights to train: DP-SGD needs some")
        self._tape: list[_Call] = []
        self._recording = False
        self._singly: bool | None = None
        for name, module in network.named_modules():
            self._check(name, module)
            if any(parameter.requires_grad for parameter in module.parameters(recurse=False)):
                module.register_forward_hook(self._record)

    def compute(self, X: Tensor, y: Tensor, weights: Tensor) -> list[Tensor]:
        """The sum of the clipped gradients, by parameter; ``weights`` ``(n,)`` count after clipping.

        An example adds nothing where its gradient is no number or the network raises an exception. There may be none.
        """
        sums: dict[nn.Parameter, Tensor] = {}
        at_once = _SINGLY_AT_ONCE if self._is_singly(X, y) else _AT_ONCE
        for rows, calls in self._passable(X, y, at_once):
            norms = _norms(calls, len(y[rows]))
            scales = weights[rows] * (self._norm / (norms + _TINY)).clamp(max=1)
            there = norms.isfinite()
            gradients: Iterable[tuple[nn.Parameter, Tensor]]
            if there.all():
                gradients = (found for call in calls for found in _weighted(call, scales))
            else:
                # Without the others: times 0, what is infinite would be no number.
                few = self.compute(X[rows][there], y[rows][there], weights[rows][there])
                gradients = zip(self.parameters, few, strict=True)
            for parameter, gradient in gradients:
                sums[parameter] = sums[parameter] + gradient if parameter in sums else gradient
        return [sums[p] if p in sums else torch.zeros_like(p) for p in self.parameters]

    def are_right(self, X: Tensor, y: Tensor) -> bool:
        """Whether, in a batch of these examples, each one's norm is that of its gradient when it is alone.

        Not so in a network that mixes examples, uses a weight in two places, or changes a layer's output in place.
        """
        calls = self._passes(X, y)
        norms = _norms(calls, len(X))
        for i in range(len(X)):
            loss = nn.functional.cross_entropy(self._network(X[i : i + 1]), y[i : i + 1])
            gradients = torch.autograd.grad(loss, self.parameters, materialize_grads=True)
            alone = torch.stack([gradient.norm() for gradient in gradients]).norm()
            if not torch.isclose(norms[i], alone, rtol=1e-3, atol=1e-6):
                return False
        return True

    def _is_singly(self, X: Tensor, y: Tensor) -> bool:
        """Whether some layer has a gradient for each example, as one example tells, once."""
        if self._singly is None:
            _, calls = next(self._passable(X, y, 1), (slice(0), []))
            self._singly = any(call.samples is not None for call in calls) if calls else None
        return bool(self._singly)

    def _passable(self, X: Tensor, y: Tensor, at_once: int) -> Iterator[tuple[slice, list[_Backprop]]]:
        """``_passes`` of the examples, ``at_once`` in a batch; without those that the network raises an exception for.

        One of them must not decide whether there is an answer: such as a category that an embedding has no row for.
        """
        for start in range(0, len(X), at_once):
            rows = slice(start, min(start + at_once, len(X)))
            try:
                calls = self._passes(X[rows], y[rows])
            except Exception:
                if at_once > 1:
                    half = -(-(rows.stop - start) // 2)
                    for part, found in self._passable(X[rows], y[rows], half):
                        yield slice(start + part.start, start + part.stop), found
            else:
                yield rows, calls

    def _passes(self, X: Tensor, y: Tensor) -> list[_Backprop]:
        self._tape, self._recording = [], True
        try:
            losses = nn.functional.cross_entropy(self._network(X), y, reduction="none")
        finally:
            self._recording = False
        tape, self._tape = self._tape, []
        # Asked for the gradients at layers' outputs, torch computes none of weights.
        backprops = torch.autograd.grad(losses.sum(), [call.output for call in tape], materialize_grads=True)
        return [self._backprop(*found) for found in zip(tape, backprops, strict=True)]

    def _backprop(self, call: _Call, back: Tensor) -> _Backprop:
        layer = call.layer
        if type(layer) is nn.Linear and back.ndim == 2 and layer.weight.requires_grad:
            return _Backprop(layer, call.input, back, None)
        samples = self._samplers[type(layer)](layer, [call.input], back)
        return _Backprop(layer, call.input, back, {p: sample for p, sample in samples.items() if p.requires_grad})

    def _record(self, layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> None:
        if self._recording:
            self._tape.append(_Call(layer, inputs[0].detach(), output))

    def _check(self, name: str, module: nn.Module) -> None:
        # Normalizing a batch mixes records, and a buffer is learned from them without noise.
        known = type(module) in self._samplers
        trained = any(parameter.requires_grad for parameter in module.parameters(recurse=False))
        buffered = next(module.buffers(recurse=False), None) is not None
        if isinstance(module, nn.modules.batchnorm._BatchNorm) or buffered or (trained and not known):
            raise ConfigError(
                f"the network's layer {name!r} ({type(module).__name__}) cannot be trained by DP-SGD: use linear, "
                "convolutional and embedding layers, and group or layer normalization instead of batch normalization"
            )


def _norms(calls: list[_Backprop], count: int) -> Tensor:
    """The norm of each of the first ``count`` examples' gradients."""
    squares = torch.zeros(count, device=calls[0].back.device)
    for layer, inputs, back, samples in calls:
        if samples is None:
            length = inputs[:count].square().sum(1)
            if _has_bias(layer):
                length += 1
            squares.addcmul_(back[:count].square().sum(1), length)
        else:
            for sample in samples.values():
                squares += sample[:count].flatten(1).square().sum(1)
    return squares.sqrt()


def _has_bias(layer: Any) -> bool:
    return layer.bias is not None and bool(layer.bias.requires_grad)


def _weighted(call: _Backprop, weights: Tensor) -> Iterator[tuple[nn.Parameter, Tensor]]:
    """The gradient of each of the layer's parameters, with these weights on the examples."""
    layer, inputs, back, samples = call
    if samples is None:
        scaled = back * weights[:, None]
        yield layer.weight, scaled.T @ inputs
        if _has_bias(layer):
            yield layer.bias, scaled.sum(0)
    else:
        for parameter, sample in samples.items():
            yield parameter, torch.tensordot(weights, sample, dims=1)
