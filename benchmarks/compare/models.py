"""The trained models that every engine has to run."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import joblib
import numpy as np
from numpy.typing import NDArray

from benchmarks.compare.datasets import Dataset, load


@dataclass(frozen=True)
class Trained:
    """A trained classifier and what adapters need to know about it."""

    name: str
    library: str
    estimator: Any
    n_classes: int
    n_features: int
    folder: Path = field(compare=False)
    compile_seconds: float = 60.0

    def probabilities(self, X: NDArray[np.float32]) -> NDArray[np.floating]:
        """Return what the original library says, on all cores."""
        return self.estimator.predict_proba(X)

    def labels(self, X: NDArray[np.float32]) -> NDArray[np.integer]:
        """Return the labels that the original library says."""
        return np.asarray(self.estimator.predict(X))


@dataclass(frozen=True)
class Recipe:
    """How a model is trained, and how the tables name it."""

    library: str
    n_trees: int
    quick_trees: int
    title: str
    make: Callable[[int, int], Any]
    # Of each data set that the model is for, the columns that hold codes of categories;
    # without any, the model is for every set, and all columns are numbers to it.
    categories: Mapping[str, tuple[int, ...]] = field(default_factory=dict)

    def takes(self, dataset: str) -> bool:
        """Whether the model can be trained on a data set."""
        return not self.categories or dataset in self.categories

    def trees(self, quick: bool) -> int:
        """Return the number of trees; a quick run takes smaller models."""
        return self.quick_trees if quick else self.n_trees

    def named(self, quick: bool) -> str:
        """Return the title with the number of trees in it."""
        return self.title.format(self.trees(quick))


def _deep_forest(n_trees: int, n_classes: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(n_estimators=n_trees, random_state=0, n_jobs=-1)


def _shallow_forest(n_trees: int, n_classes: int) -> Any:
    from sklearn.ensemble import RandomForestClassifier

    return RandomForestClassifier(
        n_estimators=n_trees, max_depth=10, random_state=0, n_jobs=-1
    )


def _lightgbm(n_trees: int, n_classes: int) -> Any:
    from lightgbm import LGBMClassifier

    return LGBMClassifier(
        n_estimators=_rounds(n_trees, n_classes),
        num_leaves=31,
        random_state=0,
        verbose=-1,
    )


def _xgboost(n_trees: int, n_classes: int) -> Any:
    from xgboost import XGBClassifier

    return XGBClassifier(
        n_estimators=_rounds(n_trees, n_classes),
        max_depth=6,
        tree_method="hist",
        random_state=0,
    )


def _rounds(n_trees: int, n_classes: int) -> int:
    """Return the rounds of boosting; with several classes a round has several trees."""
    return n_trees if n_classes == 2 else -(-n_trees // n_classes)


# Class of work, education, marital status, occupation, relationship, race, sex and
# country; elsewhere these codes are taken for numbers.
CATEGORIES = {"adult": (1, 3, 5, 6, 7, 8, 9, 13)}

RECIPES = {
    "rf-deep": Recipe(
        "sklearn", 101, 21, "random forest, {} trees, full depth", _deep_forest
    ),
    "rf-500x10": Recipe(
        "sklearn", 500, 100, "random forest, {} trees, depth 10", _shallow_forest
    ),
    "lightgbm": Recipe(
        "lightgbm", 500, 100, "LightGBM, {} trees, 31 leaves", _lightgbm
    ),
    "lightgbm-categories": Recipe(
        "lightgbm",
        500,
        100,
        "LightGBM on category columns, {} trees, 31 leaves",
        _lightgbm,
        CATEGORIES,
    ),
    "xgboost": Recipe("xgboost", 500, 100, "XGBoost, {} trees, depth 6", _xgboost),
}


def prepared(job: dict[str, Any]) -> tuple[Dataset, Trained]:
    """Return the data set of a job, and the model that its worker is to measure.

    Parameters
    ----------
    job : dict
        With `dataset`, `model`, `cache`, `quick` and `compile_seconds`.
    """
    data = load(job["dataset"])
    trained = train(
        job["model"],
        data,
        Path(job["cache"]),
        quick=job["quick"],
        compile_seconds=job["compile_seconds"],
    )
    return data, trained


def train(
    name: str,
    data: Dataset,
    cache: Path,
    *,
    quick: bool = False,
    compile_seconds: float = 60.0,
) -> Trained:
    """Train the model `name` on `data`, or take it from the folder `cache`.

    Parameters
    ----------
    name : str
        A key of `RECIPES`.
    data : Dataset
        What to train on.
    cache : path
        Folder for trained models and for what engines compile from them.
    quick : bool, default=False
        Take the smaller number of trees.
    compile_seconds : float, default=60
        How long an engine may spend in a C compiler.
    """
    recipe = RECIPES[name]
    n_trees = recipe.trees(quick)
    estimator = recipe.make(n_trees, data.n_classes)
    # The version is part of the name: a pickle is only good for the one it is from.
    version = __import__(recipe.library).__version__
    folder = cache / f"{data.name}-{name}-{n_trees}-{version}"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "model.joblib"
    if path.exists():
        estimator = joblib.load(path)
    else:
        started = time.perf_counter()
        columns = recipe.categories.get(data.name)
        told = {} if columns is None else {"categorical_feature": list(columns)}
        estimator.fit(data.X_train, data.y_train, **told)
        print(f"trained {folder.name} in {time.perf_counter() - started:.1f} s")
        joblib.dump(estimator, path)
    return Trained(
        name=name,
        library=recipe.library,
        estimator=estimator,
        n_classes=data.n_classes,
        n_features=data.X_train.shape[1],
        folder=folder,
        compile_seconds=compile_seconds,
    )
