"""The models that are accelerated, and the rows for each purpose."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from benchmarks import data
from benchmarks.compare import models
from benchmarks.compare.datasets import Dataset
from benchmarks.early import cases as early
from benchmarks.papers import sequential

# Engines beside which a forest is timed. Others take a model of this kind too, but
# compile for hours, or were never the fastest in benchmarks/README.md.
FOREST_PEERS = (
    "scikit-learn",
    "oneDAL",
    "ONNX Runtime",
    "nvForest",
    "treelite GTIL",
)


@dataclass(frozen=True)
class Rows:
    """Rows of one data set by what they are for; no row is in two parts."""

    train: int
    given: NDArray[np.float32]
    new: NDArray[np.float32]


@dataclass(frozen=True)
class Case:
    """One model on one data set.

    Parameters
    ----------
    dataset : str
        A data set of `benchmarks.data`.
    model : str
        A key of `benchmarks.compare.models.RECIPES`.
    """

    dataset: str
    model: str

    @property
    def paper_share(self) -> float | None:
        """Share of the trees that the sequential paper needs, if the set is in it."""
        if self.dataset not in sequential.PAPER:
            return None
        return sequential.PAPER[self.dataset][1] / 100

    @property
    def peers(self) -> tuple[str, ...] | None:
        """Engines that take part; None means all."""
        return FOREST_PEERS if self.model == "rf-deep" else None

    def prepare(self, cache: Path, quick: bool) -> tuple[Rows, models.Trained]:
        """Return rows and the model, from the cache if it is there, on one thread."""
        if self.paper_share is None:
            parts = early.Rows.load(self.dataset, quick)
            trained = parts.trained(self.model, cache, quick)
            return Rows(len(parts.X_train), parts.X_cal, parts.X_test), trained
        table = data.load(self.dataset)
        y = table.positive
        # The same rows and the same forest as in the first split of the paper's table.
        train, new, given = data.split(len(y), sequential.SHARES, seed=0)
        X = table.X
        # The name tells it from a forest for all classes in the same cache.
        dataset = Dataset(f"{self.dataset}-largest", X[train], y[train], X[new])
        trained = models.train(
            self.model,
            dataset,
            cache,
            quick=quick,
            compile_seconds=early.compile_seconds(quick),
        )
        trained.estimator.set_params(n_jobs=1)
        return Rows(len(train), X[given], X[new]), trained


CASES = (
    *(Case(dataset, "rf-deep") for dataset in sequential.PAPER),
    Case("adult", "lightgbm"),
    Case("nomao", "lightgbm"),
)
QUICK_CASES = tuple(case for case in CASES if case.dataset in ("shuttle", "adult"))
