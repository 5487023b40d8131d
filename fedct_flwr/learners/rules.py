"""RuleFit: a sparse linear model over the rules of small trees, readable by those who have to trust it.

J. H. Friedman, B. E. Popescu, "Predictive learning via rule ensembles", Annals of Applied Statistics 2(3), 2008; the
implementation is imodels'.
"""

import threading
import warnings
from typing import Any, Final, Self

from imodels import RuleFitClassifier
from sklearn.multiclass import OneVsRestClassifier

# imodels seeds NumPy's global generator and draws from it: another fit at the same time would draw in between.
_FITTING: Final = threading.Lock()


class _OneAtATime(RuleFitClassifier):  # type: ignore[misc]  # imodels is untyped
    """RuleFit whose rules depend on its random state alone, also in a process with several silos."""

    def fit(self, *args: Any, **kwargs: Any) -> Self:
        with _FITTING:
            super().fit(*args, **kwargs)
        return self


def rule_fit(
    tree_size: int = 4,
    max_rules: int = 200,
    include_linear: bool = False,
    alpha: float | None = None,
    random_state: int | None = None,
) -> Any:
    """RuleFit, one against the rest as imodels' knows two classes only.

    The defaults are those of Abourayya et al., arXiv:2310.05696, §5. Without ``alpha``, the penalty's strength is
    chosen by cross-validation, so that at most ``max_rules`` are left.
    """
    # imodels calls scikit-learn in its old ways, some thousand times a fit.
    for message in ("'penalty' was deprecated", "Inconsistent values", "The least populated class", "'n_jobs' has no"):
        warnings.filterwarnings("ignore", message=message, module="sklearn")
    warnings.filterwarnings("ignore", message="Ignoring max_rules parameter since alpha passed")
    rules = _OneAtATime(
        tree_size=tree_size, max_rules=max_rules, include_linear=include_linear, alpha=alpha, random_state=random_state
    )
    return OneVsRestClassifier(rules)
