"""Small fitted classifiers of every kind, with rows to report on."""

from __future__ import annotations

from functools import cache

import numpy as np
from sklearn.datasets import make_classification
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression

import datasets
import spinney
from spinney.base.all_trees import AllTreesClassifier
from spinney.sequential.classifier import SequentialVotingClassifier

KINDS = (
    "hard votes",
    "soft votes",
    "hard votes of several",
    "soft votes of several",
    "called voters",
    "certified votes",
    "thresholds",
    "optimal",
    "fan",
    "thresholds of several",
    "optimal of several",
    "threshold",
    "per class",
    "accuracy loss",
    "all trees",
    "anytime",
    "pruner",
    "budgeted",
)
# One of each kind of page: what labels add to a report is the same for the others.
WITHOUT_LABELS = (
    "soft votes",
    "hard votes of several",
    "called voters",
    "thresholds",
    "per class",
    "accuracy loss",
    "all trees",
    "anytime",
    "pruner",
    "budgeted",
)
LABELLED_OR_NOT = [(kind, True) for kind in KINDS] + [
    (kind, False) for kind in WITHOUT_LABELS
]
BOUNDED = ("threshold", "per class", "accuracy loss")
STOPPING = tuple(
    name for name in KINDS if name not in ("all trees", "anytime", "pruner", "budgeted")
)


@cache
def rows(name):
    """Return (to train on, to fit on, to report on), each with labels."""
    X, y = datasets.bundled(name)
    order = np.random.default_rng(0).permutation(len(X))
    thirds = np.array_split(order, 3)
    return [(X[part], y[part]) for part in thirds]


@cache
def forest(name, n_trees=21):
    """Return a random forest of scikit-learn."""
    X, y = rows(name)[0]
    return RandomForestClassifier(n_trees, random_state=0).fit(X, y)


@cache
def boosting(name):
    """Return gradient boosting of scikit-learn."""
    X, y = rows(name)[0]
    return GradientBoostingClassifier(n_estimators=20, max_depth=3, random_state=0).fit(
        X, y
    )


@cache
def bounded(kind):
    """Return what `fitted` does, for other bounds than one on all rows."""
    X, y = make_classification(
        4000, 8, n_informative=5, weights=[0.8], flip_y=0.05, random_state=0
    )
    labels = np.array(["ok", "fraud"])[1 - y] if kind == "per class" else y
    model = GradientBoostingClassifier(n_estimators=25, max_depth=3, random_state=0)
    model.fit(X[:1000], labels[:1000])
    settings = {
        "threshold": {"max_disagreement": 0.02, "decision_threshold": 0.2},
        "per class": {"max_disagreement": {"fraud": 0.05, "ok": 0.02}},
        "accuracy loss": {"max_accuracy_loss": 0.02, "y": labels[1000:3200]},
    }[kind]
    classifier = spinney.accelerate(
        model, X[1000:3200], method="cascade", random_state=0, **settings
    )
    return classifier, model, X[3200:], labels[3200:]


@cache
def fitted(kind):
    """Return (classifier, model inside or None, X, y) of a kind."""
    if kind in BOUNDED:
        return bounded(kind)
    data = "wine" if "several" in kind else "breast_cancer"
    _, (X_fit, y_fit), (X, y) = rows(data)
    model = forest(data)
    settings = {
        "max_disagreement": 0.1 if "several" in kind else 0.05,
        "random_state": 0,
    }
    if kind == "called voters":
        half = X_fit.shape[1] // 2
        X_train, y_train = rows(data)[0]
        model = [
            LogisticRegression(C=10.0**-k).fit(np.sign(X_train), y_train)
            for k in range(half // 3)
        ]
        classifier = SequentialVotingClassifier(model, voting="hard", **settings)
        return classifier.fit(np.sign(X_fit)), None, np.sign(X), y
    inside = FrozenEstimator(model)
    if kind == "certified votes":
        classifier = SequentialVotingClassifier(
            inside, max_disagreement=0.1, confidence=0.9, random_state=0
        )
    elif "votes" in kind:
        voting = kind.split()[0]
        classifier = SequentialVotingClassifier(inside, voting=voting, **settings)
    elif kind == "all trees":
        classifier = AllTreesClassifier(inside)
    elif kind == "anytime":
        classifier = spinney.AnytimeForestClassifier(inside)
    elif kind == "pruner":
        costs = np.arange(1.0, X.shape[1] + 1.0)
        classifier = spinney.FeatureCostPruner(
            inside, feature_costs=costs, trade_off=2e-4
        )
    elif kind == "budgeted":
        model = None
        classifier = spinney.BudgetedForestClassifier(
            budget=12.0, max_trees=8, random_state=0
        )
    else:
        model = boosting(data)
        classifier = spinney.CascadeClassifier(
            FrozenEstimator(model), rule=kind.split()[0], **settings
        )
    return classifier.fit(X_fit, y_fit), model, X, y


@cache
def reported(kind, labelled=True):
    """Return a report on a kind of classifier."""
    from spinney.report import make_report

    classifier, _, X, y = fitted(kind)
    return make_report(classifier, X, y if labelled else None)
