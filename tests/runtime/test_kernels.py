"""The compiled runtime gives, bit for bit, what the slow twin in `reference` gives."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference
import spinney
import strategies
from spinney import UnsupportedModelError
from spinney.runtime import Engine

WITHOUT_JIT = bool(numba.config.DISABLE_JIT)
# Around the sizes of interleaving (8), machine words (64), blocks (512 to 4,096) and
# of a last block that is too small to be worth more than row by row (48).
N_ROWS = [0, 1, 2, 7, 8, 9, 47, 48, 49, 63, 64, 65, 511, 512, 513, 559, 560]
N_ROWS += [] if WITHOUT_JIT else [2047, 2048, 2049, 4095, 4096, 4097, 4143, 4144, 5000]
MANY = 520 if WITHOUT_JIT else 9000
N_LEAVES = 40 if WITHOUT_JIT else 400


def assert_same_bits(got, expected):
    """Fail unless the two arrays are equal in type, shape and every bit."""
    assert got.dtype == expected.dtype
    assert got.shape == expected.shape
    assert got.tobytes() == expected.tobytes()


def assert_answers_as_reference(forest, X, n_jobs=None):
    """Fail unless every method of a fresh engine agrees with the reference on `X`."""
    engine = Engine(forest)
    leaves = engine.leaves(X, n_jobs)
    assert leaves.dtype == np.int32
    assert np.array_equal(leaves, reference.leaves(forest, X))
    assert_same_bits(engine.raw(X, n_jobs), reference.raw(forest, X))
    scores = reference.scores(forest, X)
    if forest.n_outputs == 1:
        scores = scores[:, :, 0]
    assert_same_bits(engine.scores(X, n_jobs), scores)
    if forest.votes_by_class:
        votes = engine.votes(X, n_jobs)
        assert votes.dtype.kind in "iu"
        assert np.array_equal(votes, reference.votes(forest, X))


def repeated(forest, n_rows, n_distinct=23, **kinds):
    """Return `n_rows` rows, few of them distinct, and which of those each row is."""
    distinct = strategies.random_rows(forest, n_distinct, **kinds)
    which = np.random.default_rng(n_rows).integers(n_distinct, size=n_rows)
    return distinct, which


# ------------------------------------------------------------------ any forest, any row


@given(strategies.forests_and_rows())
def test_every_method_agrees_with_the_reference(case):
    assert_answers_as_reference(*case)


@given(strategies.forests_and_rows())
def test_answers_are_the_winners_of_the_reference(case):
    forest, X = case
    raw = reference.raw(forest, X)
    if forest.classes is not None:
        expected = forest.classes[forest.winners(raw)]
    else:
        expected = raw[:, 0] if forest.n_outputs == 1 else raw
    assert_same_bits(forest.predict(X), expected)


@given(strategies.forests_and_rows(max_rows=80))
def test_agrees_on_more_rows_than_one_machine_word_has_bits(case):
    forest, X = case
    assert np.array_equal(Engine(forest).leaves(X, None), reference.leaves(forest, X))
    assert_same_bits(Engine(forest).raw(X, None), reference.raw(forest, X))


@given(strategies.forests(), st.booleans())
def test_never_disagrees_on_values_that_lie_on_a_threshold(forest, one_above):
    # Row i has, in every column, the i-th threshold, or the number just above it.
    finite = forest.threshold[np.isfinite(forest.threshold)][:40]
    with np.errstate(over="ignore", under="ignore"):
        if one_above:
            finite = np.nextafter(finite, np.inf)
        single = finite.astype(np.float32)
    for values in (finite, single):
        X = np.repeat(values[:, None], forest.n_features, axis=1)
        expected = reference.leaves(forest, X)
        assert np.array_equal(Engine(forest).leaves(X, None), expected)


@pytest.mark.parametrize("rule", ["truncate", "floor", "exact"])
@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_words", [0, 1, 2, 9])
def test_every_category_up_to_the_last_bit_of_a_set_agrees(rule, input_dtype, n_words):
    # One stump per pattern of bits: all, none, some; NaN goes either way.
    words = np.random.default_rng(n_words).integers(
        2**32, size=n_words, dtype=np.uint32
    )
    forest = strategies.random_forest(
        n_trees=6, n_features=1, shape="stump", input_dtype=input_dtype
    )
    inner = forest.feature >= 0
    which = np.full(forest.n_nodes, -1)
    which[inner] = [0, 0, 1, 1, 2, 2]
    left = np.zeros(forest.n_nodes, dtype=bool)
    left[inner] = [True, False] * 3
    forest = forest.replace(
        category_set=which,
        category_offsets=np.arange(4) * n_words,
        category_words=np.concatenate([~(words & 0), words & 0, words]),
        category_rule=rule,
        missing_left=left,
    )
    codes = np.arange(-2.0, 32 * n_words + 3)
    codes = np.concatenate([codes, codes + 0.5, strategies.CODES])
    codes = np.concatenate([codes, [np.nan, np.inf, -np.inf, -0.0, -1e-40]])
    for dtype in (np.float64, np.float32):
        assert_answers_as_reference(forest, codes[:, None].astype(dtype))


@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-40, 1e300])
@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
def test_rows_of_one_extreme_value_only(value, input_dtype):
    for task in strategies.TASKS:
        forest = strategies.random_forest(
            7,
            task=task,
            shape="unequal",
            depth=20,
            input_dtype=input_dtype,
            zero_is_missing=True,
            categories="floor",
        )
        for dtype in (np.float32, np.float64):
            with np.errstate(over="ignore"):
                X = np.full((3, forest.n_features), value).astype(dtype)
            assert_answers_as_reference(forest, X)


@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
@pytest.mark.parametrize("n_leaves", [2, 63, 64, 65, 128, 255, 256, 257, 300])
def test_trees_of_every_size_agree(n_leaves, input_dtype):
    # Small and large trees are laid out in different ways, the line is at 256 leaves.
    for seed, shape in enumerate(["grown", "chain"]):
        forest = strategies.random_forest(
            seed,
            n_trees=3,
            shape=shape,
            depth=n_leaves - 1,
            task="sum score",
            input_dtype=input_dtype,
            n_features=5,
        )
        assert np.sum(forest.left < 0) == 3 * n_leaves
        X = strategies.random_rows(forest, 9 if WITHOUT_JIT else 70)
        assert_answers_as_reference(forest, X)


@pytest.mark.parametrize("depth", [1, 2, 3, 5, 6, 7, 8])
@pytest.mark.parametrize("special", [False, True])
def test_balanced_trees_with_few_distinct_questions_agree(depth, special):
    # Such trees are cheapest to ask about 64 rows at once, up to 256 leaves.
    forest = strategies.random_forest(
        depth,
        n_trees=24,
        n_features=3,
        shape="balanced",
        depth=depth,
        task="sum score",
        zero_is_missing=special,
        categories="floor" if special else None,
    )
    few = np.array([-1.0, -0.0, 0.0, 0.3, np.inf])
    which = np.random.default_rng(depth).integers(len(few), size=forest.n_nodes)
    forest = forest.replace(threshold=few[which])
    X = strategies.random_rows(forest, 50 if WITHOUT_JIT else 131)
    if depth >= 2:
        assert Engine(forest).layout(np.float32).bitsliced.is_bitsliced.all()
    assert_answers_as_reference(forest, X)


def test_a_tree_too_large_for_nodes_of_eight_bytes_agrees():
    n_splits = 33_000
    forest = strategies.random_forest(
        1, n_trees=1, n_features=n_splits, depth=n_splits, task="sum score"
    )
    feature = forest.feature.copy()
    feature[feature >= 0] = np.random.default_rng(0).permutation(n_splits)
    forest = forest.replace(feature=feature)
    X = np.random.default_rng(1).normal(size=(50, n_splits))
    X[::7, ::5] = np.nan
    assert not forest.engine.is_narrow
    assert_same_bits(forest.engine.raw(X, None), reference.raw(forest, X))
    if not WITHOUT_JIT:
        for rows in (X, X.astype(np.float32)):
            assert_answers_as_reference(forest, rows)
            assert_answers_as_reference(forest.replace(input_dtype="float64"), rows)
    predict_row = forest.predictor()
    rows = X[:3].astype(np.float32)
    assert [predict_row(row) for row in rows] == forest.predict(rows).tolist()


def test_small_and_large_trees_in_one_forest_agree_and_add_up_in_their_order():
    parts = [
        strategies.random_forest(
            seed,
            n_trees=1,
            depth=depth,
            task="sum numbers",
            sum_dtype="float32",
            n_node_samples=None,
        )
        for seed, depth in enumerate([3, 300, 0, 40, 290, 1, 255, 256])
    ]
    forest = joined(parts)
    X = strategies.random_rows(forest, 9 if WITHOUT_JIT else 130)
    assert_answers_as_reference(forest, X)
    order = [4, 0, 1, 7, 6, 2, 2, 5]
    assert_answers_as_reference(forest.take(order), X)


def joined(forests):
    """Return one forest of the trees of several, all alike but for their trees."""
    starts = np.cumsum([0] + [forest.n_nodes for forest in forests])
    changes = {
        name: np.concatenate([getattr(forest, name) for forest in forests])
        for name in ("feature", "threshold", "value", "missing_left")
    }
    for name in ("left", "right"):
        changes[name] = np.concatenate(
            [
                np.where(getattr(forest, name) < 0, -1, getattr(forest, name) + start)
                for forest, start in zip(forests, starts[:-1], strict=True)
            ]
        )
    changes["tree_offsets"] = np.concatenate(
        [[0]]
        + [
            forest.tree_offsets[1:] + start
            for forest, start in zip(forests, starts[:-1], strict=True)
        ]
    )
    return forests[0].replace(**changes)


@pytest.mark.parametrize("depth", [15, 16, 17, 18, 19, 24, 25, 33, 60, 256, 500])
@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
def test_rows_arrive_at_every_leaf_however_deep(depth, input_dtype):
    # A column for each split, so that every leaf can be reached: row i turns off the
    # spine at level i, or where a NaN leads it off before that.
    forest = strategies.random_forest(
        depth, n_trees=1, shape="chain", depth=depth, input_dtype=input_dtype
    )
    X = np.zeros((depth + 1, depth), dtype=np.float32)
    feature = np.full(forest.n_nodes, -1)
    node = 0
    for level in range(depth):
        left, right = forest.left[node], forest.right[node]
        spine_left = forest.feature[left] >= 0
        feature[node] = level
        X[:, level] = -1 if spine_left else 1
        X[level, level] *= -1
        node = left if spine_left else right
    forest = forest.replace(
        feature=feature, n_features=depth, threshold=np.zeros(forest.n_nodes)
    )
    assert len(np.unique(reference.leaves(forest, X))) == depth + 1
    with_nan = X.copy()
    with_nan[np.arange(depth + 1), np.arange(depth + 1) * 7 % depth] = np.nan
    for rows in (X, with_nan, X[::-1][:5], with_nan[::-1][:5]):
        assert_answers_as_reference(forest, rows)
        predict_row = forest.predictor()
        rows = np.ascontiguousarray(rows[-20:])
        assert [predict_row(row) for row in rows] == forest.predict(rows).tolist()


def test_a_chain_of_many_thousand_levels_agrees():
    forest = strategies.random_forest(3, n_trees=2, shape="chain", depth=5000)
    assert_answers_as_reference(forest, strategies.random_rows(forest, 6))


@pytest.mark.parametrize("n_features", [255, 256, 257, 65_535, 65_537, 1_000_003])
def test_many_columns_agree(n_features):
    for seed, shape in enumerate(["balanced", "grown"]):
        forest = strategies.random_forest(
            seed, n_trees=2, n_features=n_features, shape=shape, depth=N_LEAVES
        )
        # The last column, too, must be asked for.
        feature = forest.feature.copy()
        feature[0] = n_features - 1
        forest = forest.replace(feature=feature)
        X = strategies.random_rows(forest, 2, dtype=np.float32)
        assert_answers_as_reference(forest, X)


def test_many_classes_agree():
    forest = strategies.random_forest(
        2, n_trees=9, task="mean classes", n_outputs=300, depth=30
    )
    assert_answers_as_reference(forest, strategies.random_rows(forest, 12))


def test_many_trees_agree():
    forest = strategies.random_forest(
        4, n_trees=60 if WITHOUT_JIT else 700, depth=7, task="sum score"
    )
    assert_answers_as_reference(forest, strategies.random_rows(forest, 9))


def test_outputs_that_no_tree_adds_to_keep_their_base_score():
    forest = strategies.random_forest(
        n_trees=4, task="sum by class", n_outputs=5, base_score=np.arange(5) / 7
    ).replace(tree_output=[1, 1, 3, 1])
    X = strategies.random_rows(forest, 9)
    assert_answers_as_reference(forest, X)
    raw = forest.decision_function(X)
    assert_same_bits(raw[:, [0, 2, 4]], np.tile(np.array([0, 2, 4]) / 7, (9, 1)))


def test_a_forest_of_single_leaves_answers_with_its_values():
    for task in strategies.TASKS:
        forest = strategies.random_forest(n_trees=5, shape="leaf", task=task)
        assert_answers_as_reference(forest, strategies.random_rows(forest, 70))


@pytest.mark.parametrize("depths", [(3, 0), (0, 3), (9, 0, 9), (0, 0, 300, 0, 1)])
def test_single_leaves_among_other_trees_agree(depths):
    forest = joined(
        [
            strategies.random_forest(
                seed, n_trees=1, depth=depth, task="sum score", n_node_samples=None
            )
            for seed, depth in enumerate(depths)
        ]
    )
    assert forest.depths[depths.index(0)] == 0
    assert_answers_as_reference(forest, strategies.random_rows(forest, 64))


def test_a_forest_of_one_class_always_answers_with_it():
    for aggregation in ("vote", "mean"):
        forest = strategies.random_forest(task="vote", n_outputs=1).replace(
            aggregation=aggregation, classes=["only"]
        )
        X = strategies.random_rows(forest, 5)
        assert forest.predict(X).tolist() == ["only"] * 5
        assert forest.votes(X).tolist() == [[0] * forest.n_trees] * 5
        assert forest.predict_proba(X).shape == (5, 1)


def test_votes_of_trees_that_only_add_are_refused():
    forest = strategies.random_forest(task="sum classes")
    with pytest.raises(UnsupportedModelError, match="do not vote"):
        forest.votes(strategies.random_rows(forest, 3))


def test_a_tie_among_votes_goes_to_the_lowest_index():
    forest = strategies.random_forest(n_trees=2, shape="leaf", n_outputs=3)
    forest = forest.replace(value=[[0.0, 0.2, 0.2], [0.0, 0.0, 0.9]])
    X = np.zeros((1, forest.n_features))
    assert forest.votes(X).tolist() == [[1, 2]]
    assert forest.predict_proba(X).tolist() == [[0.0, 0.5, 0.5]]
    assert forest.predict(X).tolist() == [forest.classes_[1]]


# ------------------------------------------------------------------ batches


@pytest.fixture(
    scope="module", params=["small trees", "large trees", "wide", "special"]
)
def batch_forest(request):
    """A forest for each way in which rows are walked."""
    if request.param == "small trees":
        return strategies.random_forest(11, n_trees=4, depth=9, task="sum score")
    if request.param == "large trees":
        return strategies.random_forest(
            12, n_trees=3, depth=N_LEAVES, task="mean classes", input_dtype="float64"
        )
    if request.param == "wide":
        return strategies.random_forest(
            14, n_trees=4, n_features=150, depth=120, task="sum by class"
        )
    return strategies.random_forest(
        13, n_trees=4, depth=12, zero_is_missing=True, categories="truncate"
    )


@pytest.mark.parametrize("n_rows", N_ROWS)
def test_batches_of_every_size_agree(batch_forest, n_rows):
    distinct, which = repeated(batch_forest, n_rows)
    X = distinct[which]
    assert len(X) == n_rows
    engine = batch_forest.engine
    expected = reference.leaves(batch_forest, distinct)
    assert_same_bits(engine.leaves(X, None), expected[which])
    expected = reference.raw(batch_forest, distinct)
    assert_same_bits(engine.raw(X, None), expected[which])
    scores = reference.scores(batch_forest, distinct)
    got = engine.scores(X, None)
    assert_same_bits(got.reshape(n_rows, *scores.shape[1:]), scores[which])
    if batch_forest.votes_by_class:
        expected = reference.votes(batch_forest, distinct)
        assert np.array_equal(engine.votes(X, None), expected[which])


@pytest.mark.parametrize("place", [0, 1, MANY // 2, MANY - 1])
def test_a_single_missing_value_late_in_a_batch_is_seen(batch_forest, place):
    distinct, which = repeated(batch_forest, MANY, missing=False)
    X = distinct[which]
    asked = batch_forest.feature[0]
    X[place, asked] = np.nan
    expected = reference.leaves(batch_forest, distinct)[which]
    expected[place] = reference.leaves(batch_forest, X[place : place + 1])[0]
    assert_same_bits(batch_forest.leaves(X), expected)
    expected = reference.raw(batch_forest, distinct)[which]
    expected[place] = reference.raw(batch_forest, X[place : place + 1])[0]
    assert_same_bits(batch_forest.engine.raw(X, None), expected)


@pytest.mark.parametrize("n_rows", [1, 70, MANY])
def test_any_number_of_threads_gives_the_same_answers(batch_forest, n_rows):
    distinct, which = repeated(batch_forest, n_rows)
    X = distinct[which]
    for method in ("predict", "predict_proba", "decision_function", "scores", "leaves"):
        ask = getattr(batch_forest, method)
        alone = ask(X)
        for n_jobs in (2, -1) if WITHOUT_JIT else (1, 2, 3, -1):
            assert_same_bits(ask(X, n_jobs=n_jobs), alone)
    expected = reference.raw(batch_forest, distinct)[which]
    assert_same_bits(batch_forest.engine.raw(X, 2), expected)


def test_zero_threads_are_refused():
    forest = strategies.random_forest()
    with pytest.raises(ValueError, match="n_jobs"):
        forest.predict(np.zeros((1000, forest.n_features)), n_jobs=0)


# ------------------------------------------------------------------ arrays as they come


def as_fortran(X):
    return np.asfortranarray(X)


def as_strided(X):
    wide = np.full((2 * len(X), 3 * X.shape[1]), 77, dtype=X.dtype)
    wide[::2, 1::3] = X
    return wide[::2, 1::3]


def as_reversed(X):
    return np.ascontiguousarray(X[::-1, ::-1])[::-1, ::-1]


def as_read_only(X):
    X = X.copy()
    X.flags.writeable = False
    return X


def as_big_endian(X):
    return X.astype(X.dtype.newbyteorder(">"))


def as_unaligned(X):
    raw = bytearray(X.nbytes + 1)
    unaligned = np.frombuffer(raw, dtype=X.dtype, offset=1, count=X.size)
    unaligned = unaligned.reshape(X.shape)
    unaligned[...] = X
    return unaligned


def as_lists(X):
    return X.tolist()


@pytest.mark.parametrize(
    "form",
    [
        as_fortran,
        as_strided,
        as_reversed,
        as_read_only,
        as_big_endian,
        as_unaligned,
        as_lists,
    ],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
def test_any_form_of_array_is_read_right_and_left_alone(form, dtype, input_dtype):
    for depth in (8, N_LEAVES):
        forest = strategies.random_forest(
            5, n_trees=3, depth=depth, task="mean classes", input_dtype=input_dtype
        )
        X = strategies.random_rows(forest, 70, dtype=dtype)
        formed = form(X)
        before = formed.tobytes() if isinstance(formed, np.ndarray) else str(formed)
        assert_same_bits(forest.leaves(formed), reference.leaves(forest, X))
        assert_same_bits(forest.engine.raw(formed, 2), reference.raw(forest, X))
        assert_same_bits(forest.engine.scores(formed, 2), reference.scores(forest, X))
        assert np.array_equal(forest.votes(formed), reference.votes(forest, X))
        after = formed.tobytes() if isinstance(formed, np.ndarray) else str(formed)
        assert before == after


@pytest.mark.parametrize("dtype", ["int8", "uint64", "int64", "bool", "float16"])
@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
def test_integers_flags_and_half_floats_are_read_as_numbers(dtype, input_dtype):
    forest = strategies.random_forest(5, input_dtype=input_dtype)
    X = np.random.default_rng(0).integers(0, 3, size=(30, 4)).astype(dtype)
    expected = reference.raw(forest, X.astype(np.float64))
    assert_same_bits(forest.engine.raw(X, None), expected)


def test_wrong_rows_are_refused_with_a_hint():
    forest = strategies.random_forest(n_features=4)
    with pytest.raises(ValueError, match="3 features, but the forest was trained on 4"):
        forest.predict(np.zeros((2, 3)))
    with pytest.raises(ValueError, match=r"X.reshape\(1, -1\)"):
        forest.predict(np.zeros(4))
    with pytest.raises(TypeError, match="real numbers"):
        forest.predict(np.zeros((2, 4), dtype=complex))


def test_answers_belong_to_the_caller():
    # Writing into what came out of one call must not show in the next.
    forest = strategies.random_forest(task="mean classes")
    X = strategies.random_rows(forest, 5)
    for method in ("predict_proba", "scores", "votes", "leaves", "predict"):
        first = getattr(forest, method)(X)
        kept = first.copy()
        assert first.flags.writeable
        first[...] = first.flat[0]
        assert_same_bits(getattr(forest, method)(X), kept)


# ------------------------------------------------------------------ many callers


def test_eight_threads_may_ask_one_fresh_forest_at_once():
    for seed in range(3):
        forest = strategies.random_forest(seed, n_trees=6, depth=20, shape="unequal")
        X = strategies.random_rows(forest, 300 if WITHOUT_JIT else 3000)
        expected = Engine(forest).raw(X, None)
        ready = threading.Barrier(8)

        def ask(which, forest=forest, X=X, ready=ready):
            ready.wait()
            engine = forest.engine
            part = X[which::8]
            return engine, [engine.raw(part, 1 + which % 2) for _ in range(3)]

        with ThreadPoolExecutor(8) as pool:
            answers = list(pool.map(ask, range(8)))
        for which, (engine, repeated_answers) in enumerate(answers):
            assert engine is forest.engine
            for raw in repeated_answers:
                assert_same_bits(raw, expected[which::8])


def test_eight_threads_may_share_one_predictor():
    forest = strategies.random_forest(1, n_trees=6, depth=20, task="sum classes")
    X = strategies.random_rows(forest, 80, dtype=np.float32)
    expected = forest.predict(X).tolist()
    predict_row = forest.predictor()
    ready = threading.Barrier(8)

    def ask(_):
        ready.wait()
        return [predict_row(row) for row in X]

    with ThreadPoolExecutor(8) as pool:
        for answers in pool.map(ask, range(8)):
            assert list(answers) == expected


# ------------------------------------------------------------------ one row at a time


@given(strategies.forests_and_rows())
def test_the_predictor_answers_as_predict_does(case):
    forest, X = case
    if forest.input_dtype == "float32":
        X = reference.rounded_rows(forest, X)
    expected = forest.predict(X)
    predict_row = forest.predictor()
    for row, answer in zip(X, expected, strict=True):
        assert np.array_equal(predict_row(row), answer)


@given(strategies.forests_and_rows(tasks=["sum score", "sum classes", "mean classes"]))
def test_the_predictor_takes_float32_rows_of_every_forest(case):
    forest, X = case
    with np.errstate(over="ignore", under="ignore"):
        X = X.astype(np.float32)
    predict_row = forest.predictor()
    assert [predict_row(row) for row in X] == forest.predict(X).tolist()


@pytest.mark.parametrize("threshold", [0.7, 0.1, -0.7, 1e-300, -1e-300])
@pytest.mark.parametrize("sum_dtype", ["float32", "float64"])
def test_a_score_on_the_decision_threshold_is_decided_alike(threshold, sum_dtype):
    forest = strategies.random_forest(
        n_trees=1,
        shape="leaf",
        task="sum score",
        sum_dtype=sum_dtype,
        decision_threshold=threshold,
    )
    row = np.zeros((1, forest.n_features), dtype=np.float32)
    rounded = float(np.dtype(sum_dtype).type(threshold))
    for value in (rounded, np.nextafter(rounded, 1), np.nextafter(rounded, -1)):
        leaf = forest.replace(value=[value])
        assert leaf.predictor()(row[0]) == leaf.predict(row)[0]


@pytest.mark.parametrize("link", ["identity", "softmax", "logistic", "logistic_each"])
@pytest.mark.parametrize("sum_dtype", ["float32", "float64"])
def test_near_ties_of_probabilities_are_decided_alike(link, sum_dtype):
    # Scores that differ by little have equal probabilities, and then the first wins.
    row = np.zeros((1, 4), dtype=np.float32)
    for distance in (0.0, 1e-17, 1e-9, 1e-7, 9e-4, 1.1e-3, 0.5):
        for start in (0.0, 1.0, 18.0, 40.0, -80.0):
            forest = strategies.random_forest(
                n_trees=1,
                shape="leaf",
                task="sum classes",
                link=link,
                decides_by="probability",
                sum_dtype=sum_dtype,
            ).replace(value=[[start, start + distance, start]])
            assert forest.predictor()(row[0]) == forest.predict(row)[0]


def test_the_predictor_answers_with_a_single_label_or_number():
    for task in strategies.TASKS:
        forest = strategies.random_forest(task=task)
        row = np.zeros(forest.n_features, dtype=np.float32)
        answer = forest.predictor()(row)
        assert np.shape(answer) == np.shape(forest.predict(row[None])[0])


def test_the_predictor_reads_a_read_only_row():
    forest = strategies.random_forest()
    X = as_read_only(strategies.random_rows(forest, 5, dtype=np.float32))
    predict_row = forest.predictor()
    assert [predict_row(row) for row in X] == forest.predict(X).tolist()


@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "form",
    [as_strided, as_reversed, as_read_only, as_big_endian, as_unaligned, as_lists],
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, np.int32])
def test_the_predictor_takes_any_row_that_predict_takes(form, dtype, input_dtype):
    forest = strategies.random_forest(n_features=4, input_dtype=input_dtype, depth=20)
    X = np.random.default_rng(0).normal(size=(9, 4)).astype(dtype)
    predict_row = forest.predictor()
    assert [predict_row(row) for row in form(X)] == forest.predict(X).tolist()


@pytest.mark.parametrize("input_dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "row",
    [
        np.zeros(3, dtype=np.float32),
        np.zeros(5, dtype=np.float32),
        np.zeros(3),
        np.zeros(0, dtype=np.float32),
        np.zeros((1, 4), dtype=np.float32),
        np.zeros((4, 1)),
        np.float32(0),
        [0.0, 0.0, 0.0],
        None,
    ],
    ids=lambda row: f"{type(row).__name__} {np.shape(row)} {np.asarray(row).dtype}",
)
def test_the_predictor_refuses_what_is_not_one_row(row, input_dtype):
    for task in ("vote", "sum numbers"):
        forest = strategies.random_forest(
            task=task, n_features=4, input_dtype=input_dtype
        )
        with pytest.raises(ValueError, match="one row of 4 numbers, got shape"):
            forest.predictor()(row)


@pytest.mark.parametrize(
    "row", [np.zeros(4, dtype=complex), np.array(["a", "b", "c", "d"]), ["1"] * 4]
)
def test_the_predictor_refuses_what_are_no_numbers(row):
    forest = strategies.random_forest(n_features=4)
    with pytest.raises(TypeError, match="real numbers"):
        forest.predictor()(row)


# ------------------------------------------------------------------ a trained model


def test_a_trained_forest_answers_as_its_library(cancer_model):
    model, X = cancer_model
    forest = spinney.read_model(model)
    assert np.array_equal(forest.predict(X), model.predict(X))
    assert_same_bits(forest.predict_proba(X, n_jobs=2), model.predict_proba(X))
    X32 = X.astype(np.float32)
    assert_answers_as_reference(forest, X32[:40])
    predict_row = forest.predictor()
    assert [predict_row(row) for row in X32[:200]] == model.predict(X[:200]).tolist()
