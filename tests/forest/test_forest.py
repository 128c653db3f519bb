"""A Forest is checked when it is made, never changes, and can be cut into parts."""

from __future__ import annotations

import copy
import pickle
import time
from dataclasses import FrozenInstanceError, fields

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.datasets import load_iris
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier

import datasets
import reference
import strategies
from spinney import Forest, InvalidForestError, SpinneyError, read_model
from spinney.forest import ARRAYS
from spinney.forest.levels import MAX_DEPTH

INF, NAN = np.inf, np.nan


def two_trees():
    """Arguments of a small valid forest: a tree of five nodes, then one of three.

    ::

        0              5
        ├── 1          ├── 7
        └── 2          └── 6
            ├── 4
            └── 3
    """
    return {
        "tree_offsets": np.array([0, 5, 8]),
        "feature": np.array([0, -1, 2, -1, -1, 1, -1, -1], dtype=np.int32),
        "threshold": np.array([0.5, 0, -1.5, 0, 0, 0.0, 0, 0]),
        "left": np.array([1, -1, 4, -1, -1, 7, -1, -1], dtype=np.int32),
        "right": np.array([2, -1, 3, -1, -1, 6, -1, -1], dtype=np.int32),
        "value": np.arange(16.0).reshape(8, 2),
        "n_features": 3,
        "aggregation": "mean",
        "classes": np.array(["no", "yes"]),
    }


def with_categories(**changes):
    """Arguments of the small forest, node 2 asking for a set of categories."""
    parts = {
        "category_set": np.array([-1, -1, 1, -1, -1, -1, -1, -1]),
        "category_offsets": np.array([0, 0, 2]),
        "category_words": np.array([5, 1], dtype=np.uint32),
    }
    return parts | changes


def changed(name, index, to):
    """Return the array `name` of the small forest with one entry changed."""
    array = two_trees()[name].copy()
    array[index] = to
    return {name: array}


def per_class(**changes):
    """Arguments that turn the small forest into one whose trees add to one class."""
    return {
        "value": np.arange(8.0),
        "aggregation": "sum",
        "tree_output": np.array([0, 1]),
        "n_outputs": 2,
    } | changes


def same_forest(one, other):
    """Whether two forests are equal in every part."""
    for field in fields(Forest):
        mine, theirs = getattr(one, field.name), getattr(other, field.name)
        if isinstance(mine, np.ndarray):
            if mine.dtype != theirs.dtype or not np.array_equal(mine, theirs):
                return False
        elif mine != theirs:
            return False
    return True


# ------------------------------------------------------------------ what is refused

WRONG_NODES = {
    "left child beyond the last node": (changed("left", 2, 8), "tree 0, node 2"),
    "left child far beyond": (changed("left", 2, 2**31 - 1), "tree 0, node 2"),
    "right child negative": (changed("right", 0, -1), "tree 0, node 0"),
    "child very negative": (changed("left", 5, -(2**31)), "tree 1, node 0"),
    "left child in the next tree": (changed("left", 2, 6), "tree 0, node 2"),
    "right child in the tree before": (changed("right", 5, 3), "tree 1, node 0"),
    "child is a root": (changed("right", 2, 0), "tree 0, node 2"),
    "child is the root of another": (changed("right", 2, 5), "tree 0, node 2"),
    "two parents": (changed("right", 0, 3), "tree 0, node 3: reached from more"),
    "the same child twice": (changed("right", 5, 7), "tree 1, node 2: reached from"),
    "its own child": (changed("left", 2, 2), "tree 0, node 2: reached from more"),
    "leaf with a left child": (changed("left", 1, 3), "tree 0, node 1: a leaf"),
    "leaf with a right child": (changed("right", 7, 6), "tree 1, node 2: a leaf"),
    "leaf in the middle": (changed("feature", 2, -1), "tree 0, node 2: a leaf"),
    "inner node without children": (changed("feature", 6, 0), "tree 1, node 1"),
    "feature too large": (changed("feature", 5, 3), "tree 1, node 0: feature"),
    "feature below -1": (changed("feature", 1, -2), "tree 0, node 1: feature"),
    "NaN threshold": (changed("threshold", 2, NAN), "tree 0, node 2: the threshold"),
    "NaN threshold at a leaf": (changed("threshold", 7, NAN), "tree 1, node 2"),
    "NaN value": (changed("value", (4, 1), NAN), "tree 0, node 4: values"),
    "infinite value": (changed("value", (5, 0), INF), "tree 1, node 0: values"),
    "negative samples": (
        {"n_node_samples": np.array([5, 2, 3, 1, 2, 5, -1, 4.0])},
        "tree 1, node 1: the number of training rows",
    ),
    "NaN samples": (
        {"n_node_samples": np.array([NAN, 2, 3, 1, 2, 5, 1, 4.0])},
        "tree 0, node 0: the number of training rows",
    ),
    "set beyond the last": (
        with_categories(category_set=[-1, -1, 2, -1, -1, -1, -1, -1]),
        "tree 0, node 2: category_set",
    ),
    "set below -1": (
        with_categories(category_set=[-1, -1, -1, -1, -1, -2, -1, -1]),
        "tree 1, node 0: category_set",
    ),
    "leaf with a set": (
        with_categories(category_set=[-1, -1, -1, -1, -1, -1, -1, 0]),
        "tree 1, node 2: a leaf",
    ),
    "empty tree": ({"tree_offsets": np.array([0, 5, 5, 8])}, "tree 1: must have"),
    "trees that overlap": ({"tree_offsets": np.array([0, 6, 5, 8])}, "tree 1"),
    "offsets that wrap around": (
        {"tree_offsets": np.array([0, 2**63 - 1, -(2**63), 8])},
        "tree 1",
    ),
    "output of no class": (per_class(tree_output=[0, 2]), "tree 1: tree_output"),
    "negative output": (per_class(tree_output=[-1, 1]), "tree 0: tree_output"),
}


@pytest.mark.parametrize(
    ("changes", "place"), WRONG_NODES.values(), ids=WRONG_NODES.keys()
)
def test_refuses_a_wrong_node_and_names_its_tree_and_node(changes, place):
    with pytest.raises(InvalidForestError, match=f"^{place}"):
        Forest(**(two_trees() | changes))


def test_refuses_a_cycle_that_no_root_reaches():
    # Tree 0 is a lone leaf as its root sees it; nodes 1 and 2 are each other's child,
    # and every node but the root still has exactly one parent.
    cycle = {
        "tree_offsets": [0, 1, 6],
        "feature": [-1, 0, -1, -1, 0, -1],
        "threshold": np.zeros(6),
        "left": [-1, 2, -1, -1, 4, -1],
        "right": [-1, 3, -1, -1, 5, -1],
        "value": np.zeros((6, 2)),
    }
    with pytest.raises(InvalidForestError, match="tree 1, node 3: lies on a cycle"):
        Forest(**(two_trees() | cycle))


def test_refuses_a_long_cycle_without_walking_for_ever():
    # root, its two leaves, and a ring of splits whose other children are leaves
    n_ring = 1000
    ring = np.arange(3, 3 + n_ring)
    n_nodes = 3 + 2 * n_ring
    left, right = np.full((2, n_nodes), -1)
    left[0], right[0] = 1, 2
    left[ring] = np.roll(ring, -1)
    right[ring] = ring + n_ring
    arguments = two_trees() | {
        "tree_offsets": [0, n_nodes],
        "feature": np.where(left >= 0, 0, -1),
        "threshold": np.zeros(n_nodes),
        "left": left,
        "right": right,
        "value": np.zeros((n_nodes, 2)),
    }
    with pytest.raises(InvalidForestError, match="tree 0, node 3: lies on a cycle"):
        Forest(**arguments)


def test_refuses_a_node_that_nobody_points_to():
    lonely = {
        "tree_offsets": [0, 6, 9],
        "feature": [0, -1, 2, -1, -1, -1, 1, -1, -1],
        "threshold": np.zeros(9),
        "left": [1, -1, 4, -1, -1, -1, 8, -1, -1],
        "right": [2, -1, 3, -1, -1, -1, 7, -1, -1],
        "value": np.zeros((9, 2)),
    }
    with pytest.raises(InvalidForestError, match="tree 0, node 5: not reached"):
        Forest(**(two_trees() | lonely))


WRONG_PARTS = {
    "no trees": ({"tree_offsets": np.array([0])}, "at least one tree"),
    "no offsets": ({"tree_offsets": np.array([], dtype=int)}, "at least one tree"),
    "offsets of two dimensions": (
        {"tree_offsets": np.array([[0, 5, 8]])},
        "at least one tree",
    ),
    "offsets start late": ({"tree_offsets": np.array([1, 5, 8])}, "tree_offsets"),
    "offsets end early": ({"tree_offsets": np.array([0, 5, 7])}, "tree_offsets"),
    "no nodes": (
        {name: np.array([], dtype=int) for name in ("feature", "left", "right")},
        "feature must be",
    ),
    "feature of two dimensions": ({"feature": np.zeros((8, 1))}, "feature must be"),
    "feature without dimension": ({"feature": 3}, "of the 1 nodes"),
    "threshold too short": ({"threshold": np.zeros(7)}, "threshold must have one"),
    "left too long": ({"left": np.zeros(9)}, "left must have one"),
    "right of two dimensions": ({"right": np.zeros((8, 1))}, "right must have one"),
    "missing_left too short": ({"missing_left": [True]}, "missing_left must have"),
    "zero_is_missing too long": (
        {"zero_is_missing": np.zeros(9, dtype=bool)},
        "zero_is_missing must have",
    ),
    "n_node_samples too short": (
        {"n_node_samples": np.ones(5)},
        "n_node_samples must have",
    ),
    "value too short": ({"value": np.zeros((7, 2))}, "value must have one row"),
    "value of three dimensions": (
        {"value": np.zeros((8, 2, 1))},
        "value must have one row",
    ),
    "value without dimension": ({"value": 1.0}, "value"),
    "value without columns": ({"value": np.zeros((8, 0))}, "n_outputs"),
    "fractional feature": ({"feature": np.full(8, 0.5)}, "feature holds"),
    "child beyond int32": (
        {"left": two_trees()["left"].astype(np.int64) + 2**32},
        "left holds numbers that do not fit",
    ),
    "NaN among the offsets": ({"tree_offsets": [0.0, NAN, 8.0]}, "tree_offsets"),
    "no features": ({"n_features": 0}, "n_features"),
    "too many features": ({"n_features": 2**31}, "n_features"),
    "half a feature": ({"n_features": 3.5}, "n_features"),
    "too few names": ({"feature_names": ["a", "b"]}, "feature_names must have 3"),
    "unknown aggregation": ({"aggregation": "median"}, "aggregation must be one of"),
    "unknown link": ({"link": "probit"}, "link must be one of"),
    "unknown rule": ({"category_rule": "round"}, "category_rule must be one of"),
    "unknown place of base": ({"base_added": "never"}, "base_added must be one of"),
    "unknown decision": ({"decides_by": "coin"}, "decides_by must be one of"),
    "unknown input type": ({"input_dtype": "float16"}, "input_dtype must be one of"),
    "unknown sum type": ({"sum_dtype": "int8"}, "sum_dtype must be one of"),
    "NaN scale": ({"link_scale": NAN}, "link_scale must be finite"),
    "infinite decision": ({"decision_threshold": INF}, "decision_threshold must be"),
    "threshold of several outputs": (
        {"decision_threshold": 0.3},
        "decision_threshold is for a single output",
    ),
    "unknown prediction": ({"model_predicts": "x"}, "model_predicts must be one of"),
    "NaN base": ({"base_score": NAN}, "base_score must be finite"),
    "infinite base": ({"base_score": [0.0, INF]}, "base_score must be finite"),
    "base of a mean": ({"base_score": 0.5}, "a mean has no base score"),
    "too many bases": ({"base_score": [0.0, 1.0, 2.0]}, "base_score"),
    "sets without words": (
        {"category_set": np.full(8, -1), "category_offsets": [0]},
        "belong together",
    ),
    "words without sets": ({"category_words": [1]}, "belong together"),
    "set offsets start late": (
        with_categories(category_offsets=[1, 1, 2]),
        "category_offsets must rise",
    ),
    "set offsets end early": (
        with_categories(category_offsets=[0, 0, 1]),
        "category_offsets must rise",
    ),
    "set offsets fall": (
        with_categories(category_offsets=[0, 2, 1, 2]),
        "category_offsets must rise",
    ),
    "no set offsets": (with_categories(category_offsets=[]), "category_offsets"),
    "words of two dimensions": (
        with_categories(category_words=[[5, 1]]),
        "category_words",
    ),
    "negative word": (with_categories(category_words=[-1, 1]), "category_words"),
    "category_set too short": (with_categories(category_set=[-1]), "category_set"),
    "no output": ({"n_outputs": 0}, "n_outputs"),
    "forged number of outputs": ({"n_outputs": 2**40}, "n_outputs"),
    "outputs that are no number": ({"n_outputs": "2"}, "n_outputs must be a whole"),
    "more outputs than values": ({"n_outputs": 3}, "value must have 3 columns"),
    "tree_output too short": (per_class(tree_output=[0]), "tree_output must have one"),
    "tree_output with many values": (
        per_class(value=np.zeros((8, 2))),
        "each node has a single value",
    ),
    "more classes than outputs": ({"classes": ["a", "b", "c"]}, "3 classes need 3"),
    "fewer classes than outputs": ({"classes": ["a"]}, "1 classes need 1"),
    "classes of two dimensions": ({"classes": [["a"], ["b"]]}, "classes must be"),
    "classes without dimension": ({"classes": "ab"}, "classes must be"),
    "no labels": ({"classes": []}, "classes must be"),
    "vote without classes": (
        {"aggregation": "vote", "classes": None},
        "a vote needs classes",
    ),
    "vote with one value": (
        {"aggregation": "vote", "value": np.zeros(8)},
        "a vote needs one value per class",
    ),
    "vote with tree_output": (
        per_class(aggregation="vote"),
        "a vote needs one value per class",
    ),
    "probabilities without classes": (
        {"classes": None, "link": "softmax"},
        "needs classes",
    ),
    "exp with classes": ({"link": "exp"}, "is for regressors"),
}


@pytest.mark.parametrize(
    ("changes", "message"), WRONG_PARTS.values(), ids=WRONG_PARTS.keys()
)
def test_refuses_parts_that_do_not_fit_and_names_the_part(changes, message):
    with pytest.raises(InvalidForestError, match=message):
        Forest(**(two_trees() | changes))


def test_the_small_forest_itself_is_valid_in_every_variant_used_above():
    for changes in ({}, with_categories(), per_class()):
        assert Forest(**(two_trees() | changes)).n_trees == 2


def test_errors_can_be_caught_by_the_builtin_and_by_the_common_name():
    for kind in (ValueError, SpinneyError):
        with pytest.raises(kind, match="n_features"):
            Forest(**(two_trees() | {"n_features": 0}))


def chain(depth):
    """Arguments of a tree whose left spine has `depth` levels."""
    n_nodes = 2 * depth + 1
    spine = np.arange(0, 2 * depth, 2)
    left, right = np.full((2, n_nodes), -1)
    left[spine], right[spine] = spine + 2, spine + 1
    return two_trees() | {
        "tree_offsets": [0, n_nodes],
        "feature": np.where(left >= 0, 0, -1),
        "threshold": np.zeros(n_nodes),
        "left": left,
        "right": right,
        "value": np.zeros((n_nodes, 2)),
    }


def test_accepts_the_deepest_tree_that_is_allowed():
    assert Forest(**chain(MAX_DEPTH)).depths.tolist() == [MAX_DEPTH]


def test_refuses_a_deeper_tree_quickly():
    start = time.perf_counter()
    with pytest.raises(InvalidForestError, match="20,000 levels"):
        Forest(**chain(500_000))
    assert time.perf_counter() - start < 5


@given(strategies.forests())
def test_accepts_random_forests_numbered_in_any_order(forest):
    assert forest.n_nodes == forest.tree_offsets[-1]
    assert forest.value.shape[0] == forest.n_nodes


@given(strategies.forests(), st.data())
def test_refuses_any_single_child_bent_to_another_node(forest, data):
    inner = np.flatnonzero(forest.feature >= 0)
    if not inner.size:
        return
    node = data.draw(st.sampled_from(inner.tolist()))
    name = data.draw(st.sampled_from(["left", "right"]))
    children = getattr(forest, name).copy()
    to = data.draw(st.integers(-2, forest.n_nodes + 1).filter(children[node].__ne__))
    children[node] = to
    with pytest.raises(InvalidForestError, match=r"^tree \d+, node \d+: "):
        forest.replace(**{name: children})


# ------------------------------------------------------------------ what it says


def test_counts_and_depths_of_the_small_forest():
    forest = Forest(**two_trees())
    assert (forest.n_trees, forest.n_nodes, forest.n_features) == (2, 8, 3)
    assert forest.depths.tolist() == [2, 1]
    assert forest.classes_.tolist() == ["no", "yes"]
    assert forest.n_outputs == 2
    assert forest.base_score.tolist() == [0.0, 0.0]
    assert not forest.missing_left.any()


def test_a_single_leaf_has_depth_zero():
    forest = strategies.random_forest(n_trees=3, shape="leaf")
    assert forest.depths.tolist() == [0, 0, 0]
    assert forest.n_nodes == 3


@given(strategies.forests())
def test_depths_are_the_longest_paths(forest):
    def depth(node):
        if forest.left[node] < 0:
            return 0
        return 1 + max(depth(forest.left[node]), depth(forest.right[node]))

    expected = [depth(root) for root in forest.tree_offsets[:-1]]
    assert forest.depths.tolist() == expected


def test_repr_tells_the_essentials():
    text = repr(Forest(**two_trees(), source="a test"))
    for part in ("a test", "2 trees", "8 nodes", "depth up to 2", "3 features"):
        assert part in text
    assert "2 classes" in text
    assert "'mean'" in text
    assert "regression" in repr(Forest(**(two_trees() | {"classes": None})))


def test_one_value_per_node_may_come_without_a_second_dimension():
    forest = Forest(**(two_trees() | {"value": np.arange(8.0), "aggregation": "sum"}))
    assert forest.value.shape == (8, 1)
    assert forest.n_outputs == 1


@pytest.mark.parametrize(
    ("changes", "votes"),
    [
        ({}, True),
        ({"aggregation": "vote"}, True),
        ({"aggregation": "sum"}, False),
        ({"classes": None}, False),
        (per_class(), False),
        ({"value": np.zeros(8)}, False),
    ],
)
def test_trees_vote_only_where_each_has_one_value_per_class(changes, votes):
    assert Forest(**(two_trees() | changes)).votes_by_class is votes


# ------------------------------------------------------------------ never changes


def every_array(forest):
    """Return the arrays of a forest by name, computed ones included."""
    names = [*ARRAYS, "base_score", "classes", "depths"]
    arrays = {name: getattr(forest, name) for name in names}
    return {name: array for name, array in arrays.items() if array is not None}


FULL = with_categories(
    n_node_samples=np.ones(8),
    zero_is_missing=np.zeros(8, dtype=bool),
    missing_left=np.ones(8, dtype=bool),
    base_score=np.array([0.5, 1.5]),
    aggregation="sum",
)


def test_no_array_can_be_written_to():
    arrays = every_array(Forest(**(two_trees() | FULL)))
    arrays |= every_array(Forest(**(two_trees() | per_class())))
    assert set(arrays) == {*ARRAYS, "base_score", "classes", "depths"}
    for name, array in arrays.items():
        with pytest.raises(ValueError, match="read-only"):
            array[...] = array[0]
        assert not array.flags.writeable, name


def test_a_decision_threshold_on_a_mean_of_probabilities_works_or_raises():
    X, y = datasets.bundled("breast_cancer")
    model = RandomForestClassifier(7, max_depth=3, random_state=0).fit(X, y)
    forest = read_model(model)
    with pytest.raises(InvalidForestError, match="single output"):
        forest.replace(decision_threshold=0.9)
    probability = model.predict_proba(X)[:, 1]
    strict = forest.replace(
        value=forest.value[:, 1:], n_outputs=1, base_score=0.0, decision_threshold=0.9
    )
    assert np.array_equal(strict.predict(X), np.int64(probability >= 0.9))
    assert not np.array_equal(strict.predict(X), forest.predict(X))


def test_a_forest_of_one_class_has_a_threshold_that_no_score_reaches():
    score = {"value": np.zeros((8, 1)), "n_outputs": 1, "aggregation": "sum"}
    two = Forest(**(two_trees() | score | {"decision_threshold": 0.5}))
    one = two.replace(classes=["only"])
    assert (two.effective_threshold, one.effective_threshold) == (0.5, INF)
    raw = np.array([[0.4], [0.5], [1e300]])
    assert two.winners(raw).tolist() == [0, 1, 1]
    assert one.winners(raw).tolist() == [0, 0, 0]


def test_no_attribute_can_be_set_or_removed():
    forest = Forest(**two_trees())
    with pytest.raises(FrozenInstanceError):
        forest.n_features = 7
    with pytest.raises(FrozenInstanceError):
        del forest.threshold


# Types as they are stored (so that nothing needs converting) and other types.
@pytest.mark.parametrize("as_stored", [True, False])
@pytest.mark.parametrize("given_as", ["own array", "read-only view"])
def test_later_writes_of_the_caller_do_not_change_the_forest(as_stored, given_as):
    for variant in (FULL, per_class()):
        arguments = two_trees() | variant
        mine = {}
        for name, argument in arguments.items():
            if isinstance(argument, (np.ndarray, list)):
                wanted = ARRAYS.get(name)
                mine[name] = np.array(argument, dtype=wanted if as_stored else None)
        views = {name: array.view() for name, array in mine.items()}
        if given_as == "read-only view":
            for view in views.values():
                view.flags.writeable = False
        forest = Forest(**(arguments | views))
        before = {name: array.copy() for name, array in every_array(forest).items()}
        for array in mine.values():
            array[...] = array.flat[-1]
        for name, array in every_array(forest).items():
            assert np.array_equal(array, before[name]), name


def test_other_types_are_taken_if_nothing_is_lost():
    small = two_trees()
    other = Forest(
        **(
            small
            | {
                "tree_offsets": [0, 5, 8],
                "feature": small["feature"].astype(np.float64),
                "left": small["left"].astype(">i8"),
                "right": small["right"].tolist(),
                "threshold": small["threshold"].astype(np.float32),
                "value": np.asfortranarray(small["value"]),
                "classes": ["no", "yes"],
            }
        )
    )
    assert same_forest(other, Forest(**small))
    assert other.value.flags.c_contiguous
    assert other.left.dtype == np.int32
    assert other.left.dtype.isnative


# ------------------------------------------------------------------ copies


@given(strategies.forests())
def test_pickles_and_copies_are_equal_and_read_only(forest):
    copies = [
        pickle.loads(pickle.dumps(forest)),
        copy.copy(forest),
        copy.deepcopy(forest),
        forest.replace(),
    ]
    for other in copies:
        assert same_forest(forest, other)
        assert np.array_equal(forest.depths, other.depths)
        assert not any(array.flags.writeable for array in every_array(other).values())


def test_a_pickle_of_a_forest_that_has_answered_answers_again():
    forest = strategies.random_forest(n_trees=4)
    X = strategies.random_rows(forest, 20)
    before = forest.predict(X)
    again = pickle.loads(pickle.dumps(forest))
    assert np.array_equal(again.predict(X), before)


def test_a_tampered_pickle_is_checked_like_any_forest():
    forest = Forest(**two_trees())
    state = forest.__getstate__() | changed("left", 2, 6)
    with pytest.raises(InvalidForestError, match="tree 0, node 2"):
        Forest.__new__(Forest).__setstate__(state)


def test_replace_changes_only_what_is_named_and_exit_points_it():
    forest = Forest(**two_trees())
    other = forest.replace(missing_left=np.ones(8, dtype=bool), source="new")
    assert other.missing_left.all()
    assert other.source == "new"
    assert not forest.missing_left.any()
    assert same_forest(other.replace(missing_left=None, source=""), forest)
    with pytest.raises(InvalidForestError, match="tree 0, node 2: feature"):
        forest.replace(n_features=2)
    with pytest.raises(TypeError, match="colour"):
        forest.replace(colour="red")


def test_replace_does_not_answer_with_the_engine_of_the_old_forest():
    forest = strategies.random_forest(n_trees=3, task="sum score", shape="leaf")
    X = strategies.random_rows(forest, 4)
    before = forest.decision_function(X)
    doubled = forest.replace(value=2 * forest.value)
    assert np.array_equal(doubled.decision_function(X), 2 * before)


# ------------------------------------------------------------------ parts


@given(strategies.forests_and_rows(), st.data())
def test_taken_trees_contribute_what_they_contributed_before(case, data):
    forest, X = case
    index = st.integers(0, forest.n_trees - 1)
    trees = data.draw(st.lists(index, min_size=1, max_size=15), label="trees")
    part = forest.take(trees)
    assert part.n_trees == len(trees)
    assert np.array_equal(part.depths, forest.depths[trees])
    expected = reference.scores(forest, X)[:, trees]
    assert np.array_equal(reference.scores(part, X), expected)
    if forest.n_outputs == 1:
        expected = expected[:, :, 0]
    assert np.array_equal(part.scores(X), expected)
    assert np.array_equal(part.scores(X), forest.scores(X)[:, trees])


@given(strategies.forests())
def test_taking_all_trees_in_order_changes_nothing(forest):
    assert same_forest(forest.take(range(forest.n_trees)), forest)


@given(strategies.forests(), st.randoms(use_true_random=False))
def test_taking_back_a_reordering_gives_the_forest_again(forest, random):
    order = list(range(forest.n_trees))
    random.shuffle(order)
    back = np.argsort(order)
    assert same_forest(forest.take(order).take(back), forest)


def test_taken_trees_are_those_of_a_forest_that_was_checked_again():
    X, y = load_iris(return_X_y=True)
    model = GradientBoostingClassifier(n_estimators=4, random_state=0).fit(X, y)
    forest = read_model(model)
    taken = forest.take([7, 2, 5])
    again = taken.replace()
    for name, part in again.__getstate__().items():
        got = getattr(taken, name)
        assert np.array_equal(got, part), name
        if isinstance(part, np.ndarray):
            assert got.dtype == part.dtype
            assert not got.flags.writeable
    assert np.array_equal(taken.depths, again.depths)


def test_the_mean_is_over_the_trees_taken():
    forest = strategies.random_forest(n_trees=6, task="mean score")
    X = strategies.random_rows(forest, 10)
    part = forest.take([4, 1, 4])
    assert np.array_equal(
        reference.raw(part, X), part.engine.raw(part.engine.rows(X), None)
    )
    expected = forest.scores(X)[:, [4, 1, 4]].mean(axis=1)
    np.testing.assert_allclose(part.decision_function(X), expected, rtol=1e-12)


@pytest.mark.parametrize(
    "trees", [[], 1, [[0, 1]], [0.0], [True, False], ["0"], None, slice(2)]
)
def test_take_refuses_what_is_no_list_of_indices(trees):
    with pytest.raises(ValueError, match="one-dimensional array of tree indices"):
        Forest(**two_trees()).take(trees)


@pytest.mark.parametrize("trees", [[2], [0, -1], [2**40], [0, 1, 7]])
def test_take_refuses_trees_that_are_not_there(trees):
    with pytest.raises(IndexError, match="between 0 and 1"):
        Forest(**two_trees()).take(trees)


@pytest.mark.parametrize("dtype", ["uint8", "uint64", "int16", ">i4"])
def test_take_accepts_every_type_of_integer(dtype):
    forest = Forest(**two_trees())
    part = forest.take(np.array([1, 0], dtype=dtype))
    assert same_forest(part, forest.take([1, 0]))
    assert part.tree_offsets.tolist() == [0, 3, 8]
