"""Federated co-training in 100 lines of NumPy and scikit-learn: the idea, without networks, limits and privacy.

Each silo labels the public examples with its own model, a rule makes a consensus of the labels, and each silo trains on
its records plus that consensus (Abourayya et al., arXiv:2310.05696, Algorithm 1). Only the votes would leave a silo.
"""

import numpy as np
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import StratifiedKFold
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

UNKNOWN = -1


def majority(votes, classes, before):
    """The class with the most votes; a tie keeps the label of before. ``votes``: ``(silos, examples)``."""
    counts = np.stack([(votes == c).sum(axis=0) for c in range(classes)])
    labels, tied = counts.argmax(axis=0), (counts == counts.max(axis=0)).sum(axis=0) > 1
    return np.where(tied, before, labels)


def dawid_skene(votes, classes, before):
    """Votes weighed by how often each silo takes one class for another (Dawid and Skene 1979), found by EM."""
    voted = np.stack([votes == c for c in range(classes)], axis=2).astype(float)  # (silos, examples, classes)
    truth, several = voted.mean(axis=0), (voted.sum(axis=1) > 0).sum(axis=1) > 1
    for even in (np.inf, 10):  # classes are equally probable at first, then as frequent as they look
        for _ in range(200):
            shares = np.ones(classes) if even == np.inf else truth.sum(axis=0) + even
            shares = shares / shares.sum()
            confusion = np.einsum("et,sev->stv", truth, voted)  # (silos, true class, voted class)
            average = confusion[several].sum(axis=0) + 0.5  # seven examples of what all silos do, for each of them
            confusion += 0.5 + 7 * several[:, None, None] * average / average.sum(axis=1, keepdims=True)
            confusion /= confusion.sum(axis=2, keepdims=True)
            scores = np.log(shares) + np.einsum("sev,stv->et", voted, np.log(confusion))
            new = np.exp(scores - scores.max(axis=1, keepdims=True))
            new /= new.sum(axis=1, keepdims=True)
            change, truth = np.abs(new - truth).max(), new
            if change <= 1e-3:
                break
    likely = truth / shares  # a rare class counts as much as a frequent one
    leads = likely >= 0.98 * likely.max(axis=1, keepdims=True)
    kept = np.where(leads[np.arange(len(before)), before], before, UNKNOWN)
    labels = np.where(leads.sum(axis=1) > 1, kept, likely.argmax(axis=1))
    return np.where((votes == votes[0]).all(axis=0), votes[0], labels)


def fit(model, X, y, public, labels):
    """A new model of the records, and of the public examples whose label is known."""
    known = labels != UNKNOWN
    return clone(model).fit(np.concatenate([X, public[known]]), np.concatenate([y, labels[known]]))


def trusts(model, X, y, public, labels):
    """The guard: own records that a model has not seen must not speak against the consensus by a standard error."""
    gains = []
    for train, test in StratifiedKFold(5, shuffle=True, random_state=0).split(X, y):
        alone = clone(model).fit(X[train], y[train]).predict(X[test]) == y[test]
        taught = fit(model, X[train], y[train], public, labels).predict(X[test]) == y[test]
        gains.append(taught.astype(float) - alone)
    gains = np.concatenate(gains)
    return gains.mean() >= -gains.std(ddof=1) / len(gains) ** 0.5


def cotrain(silos, public, model, rule=dawid_skene, rounds=3, guard=True):
    """Models by silo and the consensus ``(examples,)``. ``silos``: name to ``(X, y)``, with ``y`` from 0 on."""
    classes, labels = 1 + max(y.max() for _, y in silos.values()), np.full(len(public), UNKNOWN)
    for _ in range(rounds):
        models = {}
        for name, (X, y) in silos.items():
            taught = labels if not guard or trusts(model, X, y, public, labels) else np.full_like(labels, UNKNOWN)
            models[name] = fit(model, X, y, public, taught)
        votes = np.stack([models[name].predict(public) for name in silos])  # all that leaves a silo
        labels = rule(votes, classes, labels)
    return models, labels


if __name__ == "__main__":
    X, y = load_breast_cancer(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(y))
    public, test, *parts = np.split(order, [200, 369, 409, 449, 489, 529])
    silos = {f"hospital {number}": (X[part], y[part]) for number, part in enumerate(parts[:4], start=1)}
    linear = make_pipeline(StandardScaler(), LogisticRegression())
    together, _ = cotrain(silos, X[public], linear)
    for name, own in silos.items():
        alone = clone(linear).fit(*own).score(X[test], y[test])
        print(f"{name}: {alone:.3f} alone, {together[name].score(X[test], y[test]):.3f} with the others' labels")
