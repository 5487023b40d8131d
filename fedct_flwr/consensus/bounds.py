"""What theory promises of co-training's convergence, and where it promises nothing."""

from typing import NamedTuple

from scipy.special import zeta


class FailureBound(NamedTuple):
    """An upper bound on the probability that the consensus changes again; it may exceed 1."""

    value: float

    @property
    def vacuous(self) -> bool:
        """Whether the bound says nothing: every probability is at most 1."""
        return self.value >= 1


def convergence_bound(num_silos: int, num_public: int, c: float, first_round: int) -> FailureBound:
    """Proposition 1 of FedCT: the probability that some label of the consensus changes after ``first_round``.

    Abourayya et al., arXiv:2310.05696, §3 and Appendix A, for the majority vote of m = ``num_silos``:
    ``delta <= |U| (4c)^(m/2) zeta(m/2, t0 + 1)`` with the Hurwitz zeta function, |U| = ``num_public`` and
    t0 = ``first_round``.

    Assumes that in round t each silo gives each label of the consensus that it was trained on back with probability
    a_t >= 1 - c/t (so a training accuracy on U that reaches 1, the faster the smaller ``c``), independently of the
    other silos; and a_t >= 1/2 from t0 on, that is t0 >= 2c. Silos trained on the same pseudo-labels are not
    independent, so in practice this is a heuristic. The proof's sum begins with t0, which makes it zeta(m/2, t0); we
    keep to the proposition, and with t0 - 1 in the place of t0 have what was proven.

    Raises ValueError outside the proposition: fewer than 3 silos, no public examples, c <= 0, or t0 < 2c.

    Many silos that fit their labels quickly do converge:

    >>> convergence_bound(num_silos=50, num_public=10_000, c=1, first_round=1000).vacuous
    False

    With the paper's sizes for FashionMNIST (5 silos, 50,000 public examples, 400 communication rounds) the bound is
    vacuous, even for silos that fit all but 1 in 400 labels in the last of them:

    >>> bound = convergence_bound(num_silos=5, num_public=50_000, c=1, first_round=400)
    >>> round(bound.value), bound.vacuous
    (133, True)
    """
    if num_silos < 3 or num_public < 1 or c <= 0 or first_round < 2 * c:
        raise ValueError(
            f"Proposition 1 needs at least 3 silos, a public set, c > 0 and a first round of at least 2c, not "
            f"{num_silos} silos, {num_public} examples, c = {c} and round {first_round}"
        )
    half = num_silos / 2
    return FailureBound(float(num_public * (4 * c) ** half * zeta(half, first_round + 1)))
