"""Sums of gradients in which every example's is clipped: Opacus computes the gradient of each example."""

import warnings
from collections.abc import Iterator
from typing import Any, Final

import torch
from torch import Tensor, nn

from fedct_flwr.types import ConfigError

_TINY: Final = 1e-6
_SLACK: Final = 1e-4
"""Norms are computed in float32, to some 1e-6 of themselves: what is clipped to is so much less than the norm."""
_AT_ONCE: Final = 4096
"""Examples in one pass, at most."""
_NUMBERS_AT_ONCE: Final = 1 << 24
"""Numbers in the gradients by example of one pass (64 MB)."""


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
        self._network = network
        self._norm = norm * (1 - _SLACK)
        self.parameters: list[Any] = [parameter for parameter in network.parameters() if parameter.requires_grad]
        if not self.parameters:
            raise ConfigError("the network has no weights to train: DP-SGD needs some")
        for name, module in network.named_modules():
            _check(name, module, GradSampleModule.GRAD_SAMPLERS)
        # The first layer's input needs no gradient, which is as it should be.
        warnings.filterwarnings("ignore", message="Full backward hook is firing when gradients are computed")
        self._hooks = GradSampleModule(network, loss_reduction="sum", strict=False)
        self._at_once = max(1, min(_AT_ONCE, _NUMBERS_AT_ONCE // sum(part.numel() for part in self.parameters)))

    def compute(self, X: Tensor, y: Tensor, weights: Tensor) -> list[Tensor]:
        """The weighted sum of the clipped gradients, by parameter.

        ``weights`` ``(n,)`` count after clipping: an example changes the sum by at most its weight times the norm. One
        whose gradient is no number, or that the network raises an exception for, adds nothing. There may be no
        examples.
        """
        sums = [torch.zeros_like(parameter) for parameter in self.parameters]
        for start in range(0, len(X), self._at_once):
            for rows, samples in self._passable(X, y, start, min(start + self._at_once, len(X))):
                norms = _norms(samples)
                there = norms.isfinite()
                scales = torch.where(there, weights[rows] * (self._norm / (norms + _TINY)).clamp(max=1), 0)
                for total, sample in zip(sums, samples, strict=True):
                    # Times 0, what is infinite would be no number.
                    sample[~there] = 0
                    total += torch.tensordot(scales, sample, dims=1)
        return sums

    def are_right(self, X: Tensor, y: Tensor) -> bool:
        """Whether, in a batch of these examples, each one's norm is that of its gradient when it is alone.

        Not so in a network that mixes examples, or uses a weight behind a layer's back.
        """
        norms = _norms(self._samples(X, y))
        self._hooks.disable_hooks()
        try:
            for i in range(len(X)):
                loss = nn.functional.cross_entropy(self._network(X[i : i + 1]), y[i : i + 1])
                gradients = torch.autograd.grad(loss, self.parameters, materialize_grads=True)
                alone = torch.stack([gradient.norm() for gradient in gradients]).norm()
                if not torch.isclose(norms[i], alone, rtol=1e-3, atol=1e-6):
                    return False
        finally:
            self._hooks.enable_hooks()
        return True

    def _passable(self, X: Tensor, y: Tensor, start: int, stop: int) -> Iterator[tuple[slice, list[Tensor]]]:
        """``_samples`` of these rows, without those that the network raises an exception for.

        One of them must not decide whether there is an answer: such as a category that an embedding has no row for.
        """
        try:
            samples = self._samples(X[start:stop], y[start:stop])
        except Exception:
            if stop - start > 1:
                middle = (start + stop) // 2
                yield from self._passable(X, y, start, middle)
                yield from self._passable(X, y, middle, stop)
            return
        yield slice(start, stop), samples

    def _samples(self, X: Tensor, y: Tensor) -> list[Tensor]:
        """Each example's gradient, by parameter ``(n, ...)``; 0 for a parameter that the loss does not depend on."""
        self._forget()
        nn.functional.cross_entropy(self._network(X), y, reduction="sum").backward()  # type: ignore[no-untyped-call]
        found = [
            parameter.new_zeros(len(X), *parameter.shape) if parameter.grad_sample is None else parameter.grad_sample
            for parameter in self.parameters
        ]
        self._forget()
        return found

    def _forget(self) -> None:
        """Let go of what Opacus noted in a pass before, which an exception may have ended in between."""
        for parameter in self.parameters:
            parameter.grad = parameter.grad_sample = None
            parameter._forward_counter = 0
            vars(parameter).pop("_current_grad_sample", None)
        for module in self._network.modules():
            for noted in ("activations", "max_batch_len"):
                vars(module).pop(noted, None)


def _check(name: str, module: nn.Module, known: Any) -> None:
    # Normalizing a batch mixes records, and a buffer is learned from them without noise.
    trained = any(parameter.requires_grad for parameter in module.parameters(recurse=False))
    buffered = next(module.buffers(recurse=False), None) is not None
    if isinstance(module, nn.modules.batchnorm._BatchNorm) or buffered or (trained and type(module) not in known):
        raise ConfigError(
            f"the network's layer {name!r} ({type(module).__name__}) cannot be trained by DP-SGD: use linear, "
            "convolutional and embedding layers, and group or layer normalization instead of batch normalization"
        )


def _norms(samples: list[Tensor]) -> Tensor:
    """The norm of each example's gradient ``(n,)``."""
    lengths = [sample.flatten(1).norm(dim=1) for sample in samples]
    return torch.stack(lengths).norm(dim=0)  # type: ignore[no-any-return]
