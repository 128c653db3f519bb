"""Integer arithmetic: lossless comparisons, a bound on every sum, proven answers."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

import datasets
import spinney
from export.native import Native, few_examples
from export.test_exact import CLASSIFIERS, VOTERS, random_rule
from report.kinds import KINDS, fitted
from spinney.export import certification
from spinney.export.inputs import make_slots
from spinney.export.program import make_program
from spinney.export.quantisation import WIDTHS, quantise
from spinney.export.simulation import early_answers
from spinney.runtime.scoring import scoring_forest
from strategies import forests, random_forest, random_rows

layouts = st.sampled_from(["fast", "packed"])
widths = st.sampled_from(WIDTHS)
seeds = st.integers(0, 99)


def only(width):
    """Let only one width be tried."""
    patch = pytest.MonkeyPatch()
    patch.setattr(certification, "WIDTHS", (width,))
    return patch


# ------------------------------------------------------------------ the code


@few_examples
@given(
    forest=forests(tasks=CLASSIFIERS),
    layout=layouts,
    width=widths,
    has_rule=st.booleans(),
    seed=seeds,
)
def test_code_answers_as_the_simulation(
    forest, layout, width, has_rule, seed, tmp_path_factory
):
    rule = random_rule(forest, "soft", seed) if has_rule else None
    program = make_program(forest, rule)
    rows = forest.engine.rows(random_rows(forest, 300, seed))
    patch = only(width)
    try:
        native = Native(
            program,
            tmp_path_factory.mktemp("c"),
            layout=layout,
            arithmetic="integer",
            X=rows,
        )
    finally:
        patch.undo()
    sums = quantise(program, width).sums
    classes, counts = early_answers(program.ordered, sums, rows, program.n_classes)
    found, found_counts = native.counted(rows)
    assert np.array_equal(found, classes)
    assert np.array_equal(found_counts, counts)
    full = forest.winners(forest.engine.raw(rows))
    assert native.report.widths[0].n_disagreements == (classes != full).sum()


@few_examples
@given(forest=forests(tasks=VOTERS), layout=layouts, seed=seeds)
def test_votes_lose_nothing(forest, layout, seed, tmp_path_factory):
    from spinney.runtime import EarlyExitEngine

    rule = random_rule(forest, "hard", seed)
    rows = forest.engine.rows(random_rows(forest, 300, seed))
    native = Native(
        make_program(forest, rule),
        tmp_path_factory.mktemp("c"),
        layout=layout,
        arithmetic="integer",
        X=rows,
    )
    classes, counts = EarlyExitEngine(forest, rule).evaluate(rows)
    found, found_counts = native.counted(rows)
    assert np.array_equal(found, classes)
    assert np.array_equal(found_counts, counts)


@pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if kind not in ("called voters", "fan")],
)
def test_every_kind_of_classifier(kind, tmp_path):
    classifier, _, X, _ = fitted(kind)
    # Other promises than one on all rows do not carry over to integers.
    bound = {"max_disagreement": 0.02} if kind in ("per class", "accuracy loss") else {}
    native = Native(classifier, tmp_path, arithmetic="integer", X=X, **bound)
    classes, counts = native.counted(X)
    differ = classifier.classes_[classes] != classifier.predict(X)
    assert differ.mean() <= 0.02
    if hasattr(classifier, "predict_counted"):
        # Bounds are only ever moved out, so that no row leaves much earlier.
        assert counts.mean() >= classifier.predict_counted(X)[1].mean() - 0.5
    # A float is taken apart once, when a row is loaded; nothing else knows floats.
    code = re.sub(r"/\*.*?\*/", "", native.source.code, flags=re.DOTALL)
    assert "double" not in code
    rest = code[code.index("m_load(const float *row") :]
    assert "float" not in rest.replace("const float *row", "").replace(
        "const float x = p->fetch", ""
    )


# ------------------------------------------------------------------ the bound


@given(
    forest=forests(tasks=CLASSIFIERS),
    width=widths,
    seed=seeds,
)
def test_no_sum_is_off_by_more_than_the_bound(forest, width, seed):
    rule = random_rule(forest, "soft", seed)
    program = make_program(forest, rule)
    made = quantise(program, width)
    ordered, scoring = program.ordered, scoring_forest(forest, "soft")
    if program.rule is None:
        return
    scoring = scoring.take(program.rule.order)
    rows = forest.engine.rows(random_rows(forest, 100, seed))
    leaves = ordered.engine.leaves(rows)
    values = np.asarray(made.sums.values, dtype=np.float64)[leaves]
    exact = scoring.value[leaves]
    if scoring.tree_output is not None:
        adds_to = scoring.tree_output[:, None] == np.arange(scoring.n_outputs)
        off = np.abs((values / made.scale - exact)[:, :, 0] @ adds_to)
    else:
        off = np.abs(values.sum(axis=1) / made.scale - exact.sum(axis=1))
    assert off.max(initial=0.0) <= made.error
    # Sums never leave their type.
    limit = 2**15 if made.sums.ctype == "int16_t" else 2**31
    start = np.abs(np.asarray(made.sums.start)).max()
    assert np.abs(np.cumsum(np.abs(values), axis=1)).max(initial=0) + start < limit / 2


@given(forest=forests(tasks=("sum by class",)), width=widths, seed=seeds)
def test_a_class_is_dropped_only_where_the_exact_sum_is_behind(forest, width, seed):
    """By more than the exact lead of the class that is in front after rounding."""
    program = make_program(forest, random_rule(forest, "soft", seed))
    rule, scoring = program.rule, program.scoring
    if rule is None or rule.leads is None or not len(rule.exit_points):
        return
    sums = quantise(program, width).sums
    n = scoring.n_outputs
    bounds = sums.bounds.reshape(-1, n, n)
    rows = forest.engine.rows(random_rows(forest, 100, seed))
    leaves = program.ordered.engine.leaves(rows)
    adds_to = (scoring.tree_output[:, None] == np.arange(n)).astype(np.float64)
    for k, point in enumerate(rule.exit_points):
        some = leaves[:, :point]
        rounded = sums.start + sums.values[some][:, :, 0] @ adds_to[:point]
        exact = scoring.base_score + scoring.value[some][:, :, 0] @ adds_to[:point]
        front = rounded.argmax(axis=1)
        each = np.arange(len(rows))
        behind = rounded[each, front][:, None] - rounded > bounds[k][front]
        ahead = exact[each, front][:, None] - exact > rule.leads[k][front]
        assert (ahead | ~behind)[np.arange(n) != front[:, None]].all()


@given(forest=forests(tasks=("sum score", "mean classes")), width=widths, seed=seeds)
def test_a_row_leaves_only_where_the_exact_sum_lets_it(forest, width, seed):
    rule = random_rule(forest, "soft", seed)
    program = make_program(forest, rule)
    if program.scoring is None:
        return
    sums = quantise(program, width).sums
    rows = forest.engine.rows(random_rows(forest, 100, seed))
    classes, counts = early_answers(program.ordered, sums, rows, program.n_classes)
    exact = program.scoring.value[program.ordered.engine.leaves(rows)]
    partial = program.scoring.base_score + np.cumsum(exact, axis=1)
    for row in np.flatnonzero(counts < forest.n_trees):
        k = int(np.searchsorted(rule.exit_points, counts[row]))
        total = partial[row, counts[row] - 1][None]
        assert rule.decide(k, total)[0] == classes[row]


# ------------------------------------------------------------------ certification


def test_the_narrowest_width_that_keeps_the_bound_is_taken(tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(9000, 6)).astype(np.float32)
    y = (X[:, 0] + X[:, 1] * X[:, 2] > 0).astype(int)
    model = RandomForestClassifier(40, max_depth=7, random_state=0)
    forest = spinney.read_model(model.fit(X[:3000], y[:3000]))
    path = tmp_path / "m.c"
    loose = spinney.export_c(
        forest, path, arithmetic="integer", X=X[3000:], max_disagreement=0.05
    )
    assert loose.width == 8
    assert [one.width for one in loose.widths] == [32, 16, 8]
    assert loose.is_proven
    tight = spinney.export_c(
        forest, path, arithmetic="integer", X=X[3000:], max_disagreement=0.0002
    )
    assert tight.width in (16, 32)
    assert tight.flash_bytes > loose.flash_bytes
    by_width = {one.width: one for one in loose.widths}
    assert by_width[8].flash_bytes == loose.flash_bytes
    assert by_width[8].max_error > by_width[16].max_error > by_width[32].max_error
    for one in loose.widths:
        assert one.bound >= (one.n_disagreements + 1) / (one.n_rows + 1)
    # With a confidence the same rows prove less.
    sure = spinney.export_c(
        forest,
        path,
        arithmetic="integer",
        X=X[3000:],
        max_disagreement=0.05,
        confidence=0.95,
    )
    assert sure.widths[0].bound > loose.widths[0].bound
    assert "95 % confidence" in str(sure)


def test_too_few_rows_prove_nothing_and_the_file_says_so(tmp_path):
    classifier, _, X, _ = fitted("soft votes")
    path = tmp_path / "m.c"
    with pytest.warns(spinney.SpinneyWarning, match="At least 999 rows"):
        report = spinney.export_c(
            classifier, path, arithmetic="integer", X=X, max_disagreement=0.001
        )
    assert report.is_proven is False
    assert report.width == 32
    assert "No bound is proven" in path.read_text()
    assert "Not proven" in str(report)


def test_the_bound_of_the_classifier_is_the_default(tmp_path):
    X, y = datasets.bundled("breast_cancer")
    model = RandomForestClassifier(15, random_state=0).fit(X[:200], y[:200])
    classifier = spinney.SequentialVotingClassifier(
        FrozenEstimator(model), max_disagreement=0.05, random_state=0
    ).fit(X[200:400])
    report = spinney.export_c(
        classifier, tmp_path / "m.c", arithmetic="integer", X=X[400:]
    )
    assert report.max_disagreement == 0.05
    assert report.confidence is None


# ------------------------------------------------------------------ integer rows


@few_examples
@given(
    forest=forests(tasks=("vote", "mean classes", "sum score")),
    layout=layouts,
    input_type=st.sampled_from(["int8", "int16", "int32"]),
    scale=st.sampled_from([1.0, 0.01, 0.37, 1000.0]),
    seed=seeds,
)
def test_integer_rows_compare_without_loss(
    forest, layout, input_type, scale, seed, tmp_path_factory
):
    if forest.category_set is not None:
        scale = 1.0
    limits = np.iinfo(input_type)
    rng = np.random.default_rng(seed)
    shape = (400, forest.n_features)
    with np.errstate(over="ignore"):
        near = np.rint(random_rows(forest, 400, seed, missing=False) / scale)
    near += rng.integers(-1, 2, size=shape)
    anything = rng.integers(limits.min, limits.max, size=shape, endpoint=True)
    near = np.where(np.abs(near) < 2**31, near, anything)
    integers = np.clip(near, limits.min, limits.max).astype(input_type)
    integers[rng.random(shape) < 0.2] = limits.min
    integers[rng.random(shape) < 0.2] = limits.max
    integers[rng.random(shape) < 0.1] = 0
    rows = forest.engine.rows((integers * scale).astype(forest.input_dtype))
    native = Native(
        forest,
        tmp_path_factory.mktemp("c"),
        layout=layout,
        input_type=input_type,
        input_scale=scale,
    )
    expected = forest.winners(forest.engine.raw(rows))
    assert np.array_equal(native.counted(integers)[0], expected)


def test_float32_rows_for_a_model_that_compares_float64(tmp_path):
    forest = random_forest(3, task="sum score", n_trees=9, input_dtype="float64")
    native = Native(forest, tmp_path, input_type="float32")
    rows = random_rows(forest, 500, dtype=np.float32)
    expected = forest.winners(forest.engine.raw(forest.engine.rows(rows)))
    assert np.array_equal(native.counted(rows)[0], expected)


def test_thresholds_of_integers_are_the_last_that_go_left():
    forest = random_forest(1, n_trees=3, depth=5, n_features=3)
    slots = make_slots(forest, "int16", 0.25)
    inner = np.flatnonzero(forest.feature >= 0)
    everything = np.arange(-(2**15), 2**15)
    stands_for = (everything * 0.25).astype(np.float32)
    for node in inner:
        goes_left = stands_for <= forest.threshold[node]
        swapped = slots.left[node] != forest.left[node]
        keys = everything + 2**15
        assert np.array_equal((keys <= slots.key[node]) != swapped, goes_left)
