"""Forged files of classifiers: refused, or loaded as something that still answers.

The forest inside is forged in `test_fuzz`; here it is everything around it.
"""

from __future__ import annotations

import json
import time
import warnings

import numba
import numpy as np
import pytest
from sklearn.datasets import load_iris, make_classification
from sklearn.ensemble import (
    GradientBoostingClassifier,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.frozen import FrozenEstimator

import spinney
from forging import ODD_SETTINGS, put_odd_number, split, with_arrays, with_settings
from spinney import FormatError

pytestmark = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="files are the same without compiled code"
)

X2, Y2 = make_classification(300, 6, flip_y=0.1, random_state=0)
X3, Y3 = load_iris(return_X_y=True)


def sequential(X, y, **parameters):
    model = RandomForestClassifier(7, max_depth=3, random_state=0).fit(X, y)
    return spinney.SequentialVotingClassifier(
        FrozenEstimator(model), max_disagreement=0.05, random_state=0, **parameters
    ).fit(X)


def cascade(X, y, **parameters):
    model = GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0)
    return spinney.CascadeClassifier(
        FrozenEstimator(model.fit(X, y)),
        max_disagreement=0.05,
        random_state=0,
        **parameters,
    ).fit(X)


def on_forest(kind, X, y, **parameters):
    model = RandomForestClassifier(4, max_depth=3, random_state=0).fit(X, y)
    return kind(FrozenEstimator(model), **parameters).fit(X, y)


def accelerated(X, y):
    model = RandomForestClassifier(9, max_depth=3, random_state=0).fit(X, y)
    return spinney.accelerate(
        model, X, max_disagreement=0.05, method="sequential", random_state=0
    )


MAKERS = {
    "accelerated": lambda: accelerated(X2, Y2),
    "all trees": lambda: on_forest(spinney.AllTreesClassifier, X2, Y2),
    "hard votes, two classes": lambda: sequential(X2, Y2, voting="hard"),
    "hard votes, three classes": lambda: sequential(X3, Y3, voting="hard"),
    "soft votes, two classes": lambda: sequential(X2, Y2, voting="soft"),
    "soft votes, three classes": lambda: sequential(X3, Y3, voting="soft"),
    "cascade, two classes": lambda: cascade(X2, Y2),
    "cascade, three classes": lambda: cascade(X3, Y3),
    "cascade of Fan et al.": lambda: cascade(X2, Y2, rule="fan", order="natural"),
    "anytime": lambda: on_forest(spinney.AnytimeForestClassifier, X3, Y3),
    "pruned": lambda: on_forest(spinney.FeatureCostPruner, X3, Y3, budget=2.0),
    "budgeted": lambda: spinney.BudgetedForestClassifier(
        max_trees=3, random_state=0
    ).fit(X3, Y3),
}


@pytest.fixture(scope="module", params=MAKERS)
def made(request, tmp_path_factory):
    """The bytes of a file, a path to forge it at, and rows it can be asked about."""
    path = tmp_path_factory.mktemp("forged") / "made.spinney"
    classifier = MAKERS[request.param]()
    spinney.save(classifier, path)
    rows = np.random.default_rng(0).normal(size=(60, classifier.n_features_in_))
    return path.read_bytes(), path, rows


def loads(path, blob, rows):
    """Whether a forged file loads; if so, what it holds must answer."""
    path.unlink(missing_ok=True)
    path.write_bytes(blob)
    started = time.perf_counter()
    try:
        classifier = spinney.load(path)
    except FormatError:
        return False
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        labels = classifier.predict(rows)
        one = classifier.predict(rows[:1])
    assert time.perf_counter() - started < 20
    assert len(labels) == len(rows)
    assert set(labels.tolist()) <= set(classifier.classes_.tolist())
    assert one[0] == labels[0]
    if hasattr(classifier, "feature_cost"):
        assert classifier.feature_cost(rows).shape == (len(rows),)
    return True


def own_arrays(blob):
    """Names of the arrays that are not those of a forest."""
    names = set(split(blob)[0]) - {"__metadata__"}
    return sorted(name for name in names if not name.startswith(("forest.", "full.")))


def test_what_was_saved_loads(made):
    blob, path, rows = made
    assert loads(path, blob, rows)
    assert loads(path, with_arrays(blob, lambda arrays: None), rows)


def test_odd_numbers_are_refused_or_do_no_harm(made):
    blob, path, rows = made
    rng = np.random.default_rng(0)
    n_refused = 0
    for name in own_arrays(blob):
        for _ in range(12):
            forged = with_arrays(blob, put_odd_number(name, rng))
            n_refused += not loads(path, forged, rows)
    assert n_refused > 0 or not own_arrays(blob)


def test_arrays_of_other_lengths_are_refused_or_do_no_harm(made):
    blob, path, rows = made
    n_refused = 0
    for name in own_arrays(blob):
        for cut in (slice(0, 0), slice(1, None), slice(0, -1)):

            def change(arrays, name=name, cut=cut):
                code, array = arrays[name]
                arrays[name] = (code, array[cut].copy())

            n_refused += not loads(path, with_arrays(blob, change), rows)
    assert n_refused > 0 or not own_arrays(blob)


def test_missing_and_unknown_parts_are_refused(made):
    blob, path, rows = made
    for name in own_arrays(blob):
        forged = with_arrays(blob, lambda arrays, n=name: arrays.pop(n))
        assert not loads(path, forged, rows), name
    settings = json.loads(split(blob)[0]["__metadata__"]["settings"])
    for name in set(settings) - {"promise"}:  # older files have none
        forged = with_settings(blob, lambda s, n=name: s.pop(n) and 0)
        assert not loads(path, forged, rows), name
    assert not loads(path, with_settings(blob, lambda s: s.update(extra=1)), rows)
    forged = with_arrays(blob, lambda a: a.update(extra=("F64", np.zeros(3))))
    assert not loads(path, forged, rows)


def test_files_of_older_versions_promise_nothing(made):
    blob, path, _ = made
    settings = json.loads(split(blob)[0]["__metadata__"]["settings"])
    if "promise" not in settings:
        return
    path.write_bytes(with_settings(blob, lambda s: s.pop("promise") and 0))
    assert spinney.load(path).promise_ is None


def test_a_forged_promise_is_refused(made):
    blob, path, rows = made
    settings = json.loads(split(blob)[0]["__metadata__"]["settings"])
    if "promise" not in settings:
        return
    for change in (
        {"kind": "surely"},
        {"kind": "confidence", "confidence": None},
        {"kind": "expected", "confidence": 0.5},
        {"n_rows": "many"},
        {"extra": 1},
    ):
        forged = with_settings(blob, lambda s, c=change: s["promise"].update(c))
        assert not loads(path, forged, rows), change


def test_odd_settings_are_refused_or_do_no_harm(made):
    blob, path, rows = made
    settings = json.loads(split(blob)[0]["__metadata__"]["settings"])
    for name in set(settings) - {"parameters"}:
        for value in ODD_SETTINGS:
            forged = with_settings(blob, lambda s, n=name, v=value: s.update({n: v}))
            loads(path, forged, rows)


@pytest.mark.parametrize("value", ["x", [], 0.5, True, 10**400, {}])
@pytest.mark.parametrize("name", ["n_jobs", "random_state", "confidence"])
def test_odd_parameters_are_refused(made, name, value):
    blob, path, rows = made
    settings = json.loads(split(blob)[0]["__metadata__"]["settings"])
    if name not in settings["parameters"] or (name, value) == ("confidence", 0.5):
        return
    forged = with_settings(blob, lambda s: s["parameters"].update({name: value}))
    assert not loads(path, forged, rows)


def test_a_number_of_columns_takes_no_memory(made):
    blob, path, _ = made
    path.unlink(missing_ok=True)

    def forge(part):
        for name, value in part.items():
            if name == "n_features":
                part[name] = 2**31 - 1
            elif isinstance(value, dict):
                forge(value)

    path.write_bytes(with_settings(blob, forge))
    # Nothing says how many columns there were. Rows of so many are another matter.
    try:
        classifier = spinney.load(path)
    except FormatError:
        return
    with pytest.raises(ValueError, match="features"):
        classifier.predict(np.zeros((1, 3)))


@pytest.mark.parametrize("n_columns", [-1, 2**31, 2**63])
def test_no_number_of_columns_of_a_combined_model_is_refused(tmp_path, n_columns):
    members = [("a", RandomForestClassifier(3, max_depth=3, random_state=0))]
    model = VotingClassifier(members, voting="soft").fit(X2, Y2)
    path = tmp_path / "combined.spinney"
    spinney.save(spinney.accelerate(model), path)
    blob = with_settings(path.read_bytes(), lambda s: s.update(n_columns=n_columns))
    path.write_bytes(blob)
    with pytest.raises(FormatError, match="n_columns"):
        spinney.load(path)
