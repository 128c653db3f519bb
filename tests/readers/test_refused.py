"""What docs/models.md says is not read is refused, and nothing else is listed there."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.calibration import CalibratedClassifierCV
from sklearn.ensemble import (
    AdaBoostClassifier,
    AdaBoostRegressor,
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    RandomForestClassifier,
    RandomTreesEmbedding,
    StackingClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier

import datasets
from spinney import UnsupportedModelError, accelerate, read_model

PAGE = Path(__file__).parents[2] / "docs" / "models.md"
X, Y = datasets.bundled("iris")
TWO = (Y == 1).astype(int)
TREE = DecisionTreeClassifier(max_depth=2, random_state=0)


def category_frame(values):
    values = np.array(values, dtype=object)[np.arange(len(X)) % len(values)]
    return pd.DataFrame({"a": X[:, 0], "b": pd.Categorical(values)})


def pipeline():
    yield make_pipeline(StandardScaler(), TREE).fit(X, Y)


def several_labels():
    yield RandomForestClassifier(2).fit(X, np.column_stack([Y, TWO]))


def ada_boost():
    yield AdaBoostClassifier(n_estimators=2).fit(X, Y)
    yield AdaBoostRegressor(n_estimators=2).fit(X, Y)


def ada_boost_of_others():
    yield AdaBoostClassifier(LogisticRegression(), n_estimators=2).fit(X, TWO)


def bagging_of_others():
    yield BaggingClassifier(RandomForestClassifier(2), n_estimators=2).fit(X, Y)
    yield BaggingClassifier(LogisticRegression(), n_estimators=2).fit(X, TWO)


def of_models():
    yield VotingClassifier([("a", TREE)]).fit(X, Y)
    yield StackingClassifier([("a", TREE)], cv=2).fit(X, Y)


def embedding():
    yield RandomTreesEmbedding(2).fit(X)


def one_curve_per_fold():
    yield CalibratedClassifierCV(TREE, cv=2, ensemble=True).fit(X, TWO)


def curves_of_several_classes():
    tree = RandomForestClassifier(2, random_state=0).fit(X, Y)
    yield CalibratedClassifierCV(FrozenEstimator(tree)).fit(X, Y)


def started_from_another():
    start = LogisticRegression(max_iter=1000)
    yield GradientBoostingClassifier(init=start, n_estimators=2).fit(X, TWO)


def histogram_categories():
    for values in ([-1, 2], [0.5, 1.0]):
        model = HistGradientBoostingClassifier(max_iter=2, categorical_features=["b"])
        frame = category_frame(values)
        yield model.fit(frame.astype({"b": pd.CategoricalDtype(values)}), TWO)


def null_categories():
    polars = pytest.importorskip("polars")
    for kind in (polars.Categorical, polars.Enum(["y", "x"])):
        values = polars.Series(["x", "y", None] * 50, dtype=kind)
        frame = polars.DataFrame({"a": X[:, 0], "b": values})
        yield HistGradientBoostingClassifier(max_iter=2).fit(frame, TWO)


def linear_trees():
    lightgbm = pytest.importorskip("lightgbm")
    yield lightgbm.LGBMClassifier(
        n_estimators=2, linear_tree=True, verbose=-1, n_jobs=1
    ).fit(X, TWO)


def objectives_of_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    small = {"n_estimators": 2, "verbose": -1, "n_jobs": 1}

    def squares(y, raw):
        return raw - y, np.ones_like(raw)

    yield lightgbm.LGBMRegressor(objective="cross_entropy_lambda", **small).fit(X, TWO)
    yield lightgbm.LGBMRegressor(reg_sqrt=True, **small).fit(X, X[:, 1])
    yield lightgbm.LGBMClassifier(objective=squares, **small).fit(X, TWO)


def stopping_lightgbm():
    lightgbm = pytest.importorskip("lightgbm")
    yield lightgbm.LGBMClassifier(
        n_estimators=2, pred_early_stop=True, verbose=-1, n_jobs=1
    ).fit(X, TWO)


def ordered_categories():
    lightgbm = pytest.importorskip("lightgbm")
    frame = category_frame(["x", "y"])
    frame["c"] = frame["b"].cat.as_ordered()
    yield lightgbm.LGBMClassifier(n_estimators=2, verbose=-1, n_jobs=1).fit(frame, TWO)


def linear_booster():
    xgboost = pytest.importorskip("xgboost")
    yield xgboost.XGBClassifier(n_estimators=2, booster="gblinear").fit(X, TWO)


def objectives_of_xgboost():
    xgboost = pytest.importorskip("xgboost")
    for kind, objective in (
        (xgboost.XGBClassifier, "binary:hinge"),
        (xgboost.XGBRegressor, "binary:logistic"),
        (xgboost.XGBRegressor, "reg:logistic"),
    ):
        yield kind(n_estimators=2, objective=objective, n_jobs=1).fit(X, TWO)


def labels_of_xgboost():
    xgboost = pytest.importorskip("xgboost")
    labels = np.column_stack([TWO, 1 - TWO])
    yield xgboost.XGBClassifier(n_estimators=2, n_jobs=1).fit(X, labels)


def names_beyond_ascii():
    xgboost = pytest.importorskip("xgboost")
    if tuple(map(int, xgboost.__version__.split(".")[:2])) < (3, 1):
        pytest.skip("categories are not kept before 3.1")
    model = xgboost.XGBClassifier(n_estimators=2, enable_categorical=True, n_jobs=1)
    yield model.fit(category_frame(["ä", "ö"]), TWO)


def small_catboost(kind="CatBoostClassifier", **changes):
    catboost = pytest.importorskip("catboost")
    return getattr(catboost, kind)(
        iterations=3, verbose=0, allow_writing_files=False, thread_count=1, **changes
    )


def texts_and_embeddings_of_catboost():
    frame = pd.DataFrame({"a": X[:, 0], "b": np.where(TWO, "hi you", "bye me")})
    yield small_catboost(text_features=["b"]).fit(frame, TWO)
    frame["b"] = list(X)
    yield small_catboost(embedding_features=["b"]).fit(frame, TWO)


def losses_of_catboost():
    labels = np.column_stack([TWO, Y == 2]).astype(int)
    for loss in ("MultiLogloss", "MultiCrossEntropy"):
        yield small_catboost(loss_function=loss).fit(X, labels)
    yield small_catboost("CatBoostRegressor", loss_function="RMSEWithUncertainty").fit(
        X, X[:, 1]
    )


def scaled_catboost():
    model = small_catboost("CatBoostRegressor").fit(X, X[:, 1])
    model.set_scale_and_bias(2.0, 1.0)
    yield model


def several_target_borders_of_catboost():
    frame = category_frame(["x", "y", "z"]).astype({"b": str})
    model = small_catboost(
        "CatBoostRegressor",
        cat_features=["b"],
        one_hot_max_size=1,
        simple_ctr=["Borders:TargetBorderCount=1", "Borders:TargetBorderCount=2"],
    )
    yield model.fit(frame, X[:, 1] + (frame["b"] == "x"))


def statistics_of_several_targets_of_catboost():
    frame = category_frame(["x", "y", "z"]).astype({"b": str})
    settings = {"loss_function": "MultiRMSE", "cat_features": ["b"]}
    model = small_catboost("CatBoostRegressor", one_hot_max_size=1, **settings)
    yield model.fit(frame, np.column_stack([X[:, 1] + (frame["b"] == "x"), Y]))


def catboost_without_tables():
    frame = category_frame(["x", "y", "z"]).astype({"b": str})
    yield small_catboost(
        cat_features=["b"],
        one_hot_max_size=1,
        final_ctr_computation_mode="Skip",
    ).fit(frame, (frame["b"] == "x") ^ (X[:, 0] > 5))


MAKERS = {
    "a pipeline, by `read_model`": pipeline,
    "a forest of several labels at once, by `read_model` and with rows": several_labels,
    "AdaBoost of several classes or for regression, by `read_model` and with rows": (
        ada_boost
    ),
    "AdaBoost of models other than trees": ada_boost_of_others,
    "bagging of models other than single trees": bagging_of_others,
    "voting and stacking of models, by `read_model` and with rows": of_models,
    "a random trees embedding": embedding,
    "a calibrated model with one curve per fold, by `read_model` and with rows": (
        one_curve_per_fold
    ),
    "a calibrated model of several classes, by `read_model` and with rows": (
        curves_of_several_classes
    ),
    "boosting that starts from another model": started_from_another,
    "histogram boosting with negative or fractional numbers as categories": (
        histogram_categories
    ),
    "histogram boosting on category columns with nulls of Polars": null_categories,
    "LightGBM's linear trees": linear_trees,
    "LightGBM's `cross_entropy_lambda` and `reg_sqrt`, and an `LGBMClassifier` with a "
    "custom objective": objectives_of_lightgbm,
    "LightGBM estimators with `pred_early_stop`": stopping_lightgbm,
    "LightGBM on ordered category columns beside others": ordered_categories,
    "XGBoost's linear booster": linear_booster,
    "XGBoost's `binary:hinge`, and regressors that predict probabilities": (
        objectives_of_xgboost
    ),
    "XGBoost with several labels at once, by `read_model`, in a file and with rows": (
        labels_of_xgboost
    ),
    "XGBoost on categories with non-ASCII characters": names_beyond_ascii,
    "CatBoost's text and embedding features": texts_and_embeddings_of_catboost,
    "CatBoost's `MultiLogloss`, `MultiCrossEntropy` and `RMSEWithUncertainty`": (
        losses_of_catboost
    ),
    "CatBoost with a scale (`set_scale_and_bias`)": scaled_catboost,
    "CatBoost with several `TargetBorderCount` for one kind of statistic": (
        several_target_borders_of_catboost
    ),
    "CatBoost's `MultiRMSE` with target statistics": (
        statistics_of_several_targets_of_catboost
    ),
    "CatBoost without the final tables of its statistics": catboost_without_tables,
}


def listed():
    """Return what the table of the page says is not read."""
    page = PAGE.read_text(encoding="utf-8")
    table = page.partition("## What is not read")[2].partition("\n## ")[0]
    return re.findall(r"^\| (?!model )([^|-][^|]*) \| [^|]+ \|$", table, re.MULTILINE)


def test_the_page_lists_what_is_tested_here():
    assert listed() == list(MAKERS)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::FutureWarning")
@pytest.mark.parametrize("name", MAKERS)
def test_it_is_refused(name):
    for model in MAKERS[name]():
        with pytest.raises(UnsupportedModelError):
            read_model(model)
        # All trees may do where one forest does not; the page says where.
        if "with rows" not in name and "`read_model`" not in name:
            with pytest.raises(UnsupportedModelError):
                accelerate(model)
        elif "with rows" in name:
            accelerate(model)
            with pytest.raises(UnsupportedModelError):
                accelerate(model, X)
