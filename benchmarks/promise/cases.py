"""What is fitted to which rows, and the models that it is fitted for."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from benchmarks import data

N_TREES = {"lightgbm": 300, "forest": 201}
# Votes of several classes take longer to fit.
N_TREES_OF_SEVERAL = {"lightgbm": 300, "forest": 101}

# Rows that a model is trained on, and rows that splits are drawn from.
MOST_TRAINED, SHARE_TRAINED = 10_000, 0.3
MOST_IN_POOL = 40_000
# Held-out rows of a split at most.
MOST_HELD_OUT = 20_000

NAMES = {
    "adult": "Adult",
    "nomao": "Nomao",
    "magic": "MAGIC",
    "census_income_kdd": "Census income",
    "cdc_diabetes": "CDC diabetes",
    "dota2": "Dota2",
    "covertype": "Covertype, 7 classes",
    "diabetes130": "Hospitalization, 3 classes",
    "skin_segmentation": "Skin",
    "sensorless": "Sensorless, 11 classes",
    "pucrio_postures": "Postures, 5 classes",
}

# Votes of several classes, and of rows that need most of the trees, take long to fit:
# forests are measured on other sets of several classes, and on Skin instead of Dota2.
BOOSTED = (
    "adult",
    "nomao",
    "magic",
    "census_income_kdd",
    "cdc_diabetes",
    "dota2",
    "covertype",
    "diabetes130",
)
FORESTS = (*BOOSTED[:5], "skin_segmentation", "sensorless", "pucrio_postures")
# What `accelerate` is given.
BOOSTED_TO_ACCELERATE = ("adult", "nomao", "dota2", "covertype")
FORESTS_TO_ACCELERATE = ("magic", "census_income_kdd", "cdc_diabetes", "sensorless")

# Approach -> the model that it is measured with.
APPROACHES = {
    "cascade, thresholds": "lightgbm",
    "cascade, optimal": "lightgbm",
    "soft votes": "forest",
    "hard votes": "forest",
    "accelerate": "lightgbm",
    "accelerate, forests": "forest",
}


@dataclass(frozen=True)
class Setting:
    """A bound, and how many rows there are to calibrate on.

    Parameters
    ----------
    bound : float
        Bound on the disagreement.
    n_rows : int
        Calibration rows of a split.
    """

    bound: float
    n_rows: int


@dataclass(frozen=True)
class Case:
    """One approach on one data set.

    Parameters
    ----------
    approach : str
        A key of `APPROACHES`.
    dataset : str
        A key of `NAMES`.
    setting : Setting
        Bound and calibration rows.
    n_splits : int
        How often rows are parted anew.
    """

    approach: str
    dataset: str
    setting: Setting
    n_splits: int

    @property
    def slug(self) -> str:
        """Name of the file with the results, without its ending."""
        words = (
            self.approach.replace(", ", "-").replace(" ", "-"),
            self.dataset,
            f"{self.setting.bound:g}",
            str(self.setting.n_rows),
        )
        return "_".join(words)


MAIN = Setting(0.005, 4000)
STRICT, LOOSE = Setting(0.001, 10_000), Setting(0.01, 2000)


def _cases() -> tuple[Case, ...]:
    """Return all cases: the main setting first, then others on some of the sets."""

    def over(
        approach: str, datasets: tuple[str, ...], setting: Setting, n_splits: int
    ) -> list[Case]:
        return [Case(approach, one, setting, n_splits) for one in datasets]

    return (
        *over("cascade, thresholds", BOOSTED, MAIN, 40),
        *over("cascade, optimal", BOOSTED, MAIN, 40),
        *over("soft votes", FORESTS, MAIN, 40),
        *over("hard votes", FORESTS, MAIN, 40),
        # It measures times, and takes longer for it.
        *over("accelerate", BOOSTED_TO_ACCELERATE, MAIN, 10),
        *over("accelerate, forests", FORESTS_TO_ACCELERATE, MAIN, 10),
        *over("cascade, thresholds", ("adult", "nomao", "covertype"), STRICT, 40),
        *over("cascade, thresholds", ("adult", "magic", "diabetes130"), LOOSE, 40),
        *over("hard votes", ("adult", "census_income_kdd"), STRICT, 40),
        *over("hard votes", ("adult", "magic"), LOOSE, 40),
    )


CASES = _cases()
QUICK_CASES = tuple(
    Case(approach, "magic", Setting(0.01, 2000), 2) for approach in APPROACHES
)


@dataclass(frozen=True)
class Pool:
    """A trained model, and rows that it was not trained on.

    Parameters
    ----------
    model : fitted model
        The model.
    X : ndarray of shape (n_rows, n_features)
        Rows that splits are drawn from.
    """

    model: Any
    X: NDArray[np.float32]

    def split(
        self, n_rows: int, seed: int
    ) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        """Return rows to calibrate on and held-out rows, drawn without replacement.

        Parameters
        ----------
        n_rows : int
            Number of rows to calibrate on.
        seed : int
            Number of the split.
        """
        order = np.random.default_rng([seed, n_rows]).permutation(len(self.X))
        held_out = order[n_rows : n_rows + MOST_HELD_OUT]
        return self.X[order[:n_rows]], self.X[held_out]


@lru_cache(maxsize=1)
def pool_of(dataset: str, kind: str, cache: Path, n_trees: int | None = None) -> Pool:
    """Return the model for a data set, trained or from the cache, and its pool.

    Parameters
    ----------
    dataset : str
        A key of `NAMES`.
    kind : {"lightgbm", "forest"}
        What is trained.
    cache : path
        Folder that keeps trained models.
    n_trees : int, optional
        Trees, if other than usual.
    """
    table = data.load(dataset)
    n_rows = len(table.y)
    n_trained = min(MOST_TRAINED, int(SHARE_TRAINED * n_rows))
    order = np.random.default_rng(0).permutation(n_rows)
    trained = order[:n_trained]
    pool = order[n_trained : n_trained + MOST_IN_POOL]
    if n_trees is None:
        n_trees = (N_TREES if table.n_classes == 2 else N_TREES_OF_SEVERAL)[kind]
    path = cache / f"promise-{dataset}-{kind}-{n_trees}.joblib"
    if not path.exists():
        cache.mkdir(parents=True, exist_ok=True)
        model = _unfitted(kind, n_trees, table.n_classes)
        joblib.dump(model.fit(table.X[trained], table.y[trained]), path)
    return Pool(joblib.load(path), np.ascontiguousarray(table.X[pool]))


def _unfitted(kind: str, n_trees: int, n_classes: int) -> Any:
    """Return a model to be trained. Boosting has a tree per class and round."""
    if kind == "forest":
        from sklearn.ensemble import RandomForestClassifier

        return RandomForestClassifier(
            n_trees, min_samples_leaf=3, random_state=0, n_jobs=1
        )
    import lightgbm

    per_round = 1 if n_classes == 2 else n_classes
    return lightgbm.LGBMClassifier(
        n_estimators=n_trees // per_round, random_state=0, n_jobs=1, verbose=-1
    )
