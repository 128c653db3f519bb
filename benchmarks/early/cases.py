"""The models that exit early, and the rows for each purpose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.compare import models
from benchmarks.compare.datasets import Dataset

# Parts to train on, to calibrate on and to predict, where the source does not say.
SHARES = (0.6, 0.2, 0.2)

# A quick run predicts and calibrates on no more rows than these.
QUICK_ROWS = 2_000


@dataclass(frozen=True)
class Way:
    """One way to stop early.

    Parameters
    ----------
    level : float
        The value of `max_disagreement`.
    rule : str, optional
        The rule of a cascade.
    """

    level: float
    rule: str = ""

    @property
    def name(self) -> str:
        """How tables call it."""
        rule = f", rule {self.rule}" if self.rule else ""
        return f"early stopping, {100 * self.level:g} %{rule}"


@dataclass(frozen=True)
class Case:
    """One model on one data set, and how it is to be stopped early.

    Parameters
    ----------
    dataset : str
        A data set of `benchmarks.data`.
    model : str
        A key of `benchmarks.compare.models.RECIPES`.
    voting : {"soft", "hard", "cascade"}
        Mean of probabilities or majority of votes, trees in random order; or
        boosted trees in an order chosen for the purpose.
    ways : tuple of Way
        Ways to stop early.
    """

    dataset: str
    model: str
    voting: str
    ways: tuple[Way, ...]


LEVELS = (Way(0.001), Way(0.005))
RULES = (Way(0.005, "thresholds"), Way(0.005, "optimal"))

SOFT = tuple(
    Case(dataset, "rf-500x10", "soft", LEVELS)
    for dataset in ("adult", "magic", "census_income_kdd", "cdc_diabetes")
)
HARD = (Case("adult", "rf-deep", "hard", LEVELS),)
CASCADE = tuple(
    Case(dataset, model, "cascade", RULES)
    for dataset in ("adult", "nomao")
    for model in ("lightgbm", "xgboost")
)
CASES = SOFT + HARD + CASCADE
QUICK_CASES = tuple(case for case in CASES if case.dataset == "adult")


@dataclass(frozen=True)
class Rows:
    """Rows of one data set by what they are for; no row is in two parts."""

    name: str
    X_train: NDArray[np.float32]
    y_train: NDArray[np.int64]
    X_cal: NDArray[np.float32]
    X_test: NDArray[np.float32]

    @classmethod
    def load(cls, name: str, quick: bool) -> Rows:
        """Return the rows of a data set, parted in the same way every time.

        A training part of the source is trained on, and the rest of its rows is cut
        in halves; other sets are parted at random, see `SHARES`.
        """
        table = data.load(name)
        if table.n_train is None:
            parts = data.split(len(table.X), SHARES, seed=0)
        else:
            rest = len(table.X) - table.n_train
            halves = data.split(rest, (0.5, 0.5), seed=0)
            parts = (
                np.arange(table.n_train),
                *(table.n_train + half for half in halves),
            )
        train, cal, test = parts
        if quick:
            cal, test = cal[:QUICK_ROWS], test[:QUICK_ROWS]
        X, y = table.X, table.y
        return cls(name, X[train], y[train], X[cal], X[test])

    def parted_again(self, seed: int) -> Rows:
        """Return the same model's rows with others to calibrate on and to predict."""
        pooled = np.concatenate([self.X_cal, self.X_test])
        order = np.random.default_rng(seed).permutation(len(pooled))
        cal, test = np.split(order, [len(self.X_cal)])
        return Rows(self.name, self.X_train, self.y_train, pooled[cal], pooled[test])

    def trained(self, model: str, cache: Path, quick: bool) -> models.Trained:
        """Return a model trained on the training part, from the cache if it is there.

        It is put to one thread.
        """
        dataset = Dataset(self.name, self.X_train, self.y_train, self.X_test)
        trained = models.train(
            model, dataset, cache, quick=quick, compile_seconds=compile_seconds(quick)
        )
        trained.estimator.set_params(n_jobs=1)
        return trained


def compile_seconds(quick: bool) -> float:
    """Return how long an engine may spend in a C compiler."""
    return 5.0 if quick else 60.0
