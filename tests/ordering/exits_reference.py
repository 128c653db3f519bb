"""Slow, obvious twins of the kernels that choose thresholds and trees.

Everything is tried: all pairs of cuts between distinct scores, all candidates.
"""

from __future__ import annotations

import itertools

import numpy as np


def cuts_between(values):
    """Return one number below all values, between each two, and above all."""
    distinct = np.unique(values)
    middles = (distinct[1:] + distinct[:-1]) / 2
    return np.concatenate([[-np.inf], middles, [np.inf]])


def best_pair(value, positive, budget, *, early_exit, split, within=None):
    """Return (decided, errors, lower cut, upper cut) of one step, by trying all.

    Most rows decided, then fewest errors, then fewest errors on the lower side; with
    "negative_first" the lower cut is as high as the budget allows, and then the upper.
    """
    cuts = cuts_between(value)
    lows = cuts if early_exit != "positive" else [-np.inf]
    highs = cuts if early_exit != "negative" else [np.inf]
    if within is not None:
        # A cut may lie on any side of a score within the limit: try beta itself too.
        if early_exit != "positive":
            lows = [cut for cut in {*lows, within} if cut <= within]
        if early_exit != "negative":
            highs = [cut for cut in {*highs, within} if cut >= within]
    best = None
    for low, high in itertools.product(lows, highs):
        if low > high:
            continue
        below, above = value < low, value > high
        low_errors = int(np.sum(below & positive))
        errors = low_errors + int(np.sum(above & ~positive))
        if errors > budget:
            continue
        n_below, decided = int(below.sum()), int(below.sum() + above.sum())
        if split == "negative_first":
            key = (n_below, decided, -errors)
        else:
            key = (decided, -errors, -low_errors)
        if best is None or key > best[0]:
            best = key, (decided, errors, low, high)
    return best[1]


def slow_qwyc(scores, beta, budget, costs, *, checks=None, base=0.0, **kinds):
    """Return (order, {step: (set of negative, set of positive rows)}), greedily."""
    n_rows, n_trees = scores.shape
    full = scores.sum(axis=1) + base
    positive = full >= beta
    order = list(range(n_trees))
    undecided = np.arange(n_rows)
    partial = np.full(n_rows, float(base))
    decided_at = {}
    for step in range(1, n_trees):
        if len(undecided) == 0:
            break
        best_ratio, best_place, best = np.inf, step - 1, None
        for place in range(step - 1, n_trees):
            tree = order[place]
            value = partial[undecided] + scores[undecided, tree]
            found = best_pair(value, positive[undecided], budget, **kinds)
            ratio = costs[tree] * len(undecided) / found[0] if found[0] > 0 else np.inf
            if ratio < best_ratio:
                best_ratio, best_place, best = ratio, place, found
        order[step - 1], order[best_place] = order[best_place], order[step - 1]
        partial += scores[:, order[step - 1]]
        if best is None or (checks is not None and step not in checks):
            continue
        _, errors, low, high = best
        value = partial[undecided]
        below, above = value < low, value > high
        decided_at[step] = set(undecided[below]), set(undecided[above])
        budget -= errors
        undecided = undecided[~(below | above)]
    return order, decided_at


def slow_thresholds(scores, order, beta, budget, *, checks=None, base=0.0, **kinds):
    """Return {step: (set of negative, set of positive rows)} along a fixed order."""
    n_rows, n_trees = scores.shape
    positive = scores.sum(axis=1) + base >= beta
    undecided = np.arange(n_rows)
    partial = np.full(n_rows, float(base))
    decided_at = {}
    for step in range(1, n_trees):
        partial += scores[:, order[step - 1]]
        if checks is not None and step not in checks:
            continue
        value = partial[undecided]
        found = best_pair(value, positive[undecided], budget, **kinds)
        _, errors, low, high = found
        below, above = value < low, value > high
        if found[0]:
            decided_at[step] = set(undecided[below]), set(undecided[above])
        budget -= errors
        undecided = undecided[~(below | above)]
    return decided_at


def decided_by(policy, table):
    """Return {step: (set of negative, set of positive rows)} of a policy."""
    decisions, n_asked = table.follow(policy)
    return {
        int(step): tuple(
            set(np.flatnonzero((n_asked == step) & (decisions == side)))
            for side in (0, 1)
        )
        for step in np.unique(n_asked)
        if step < table.n_trees
    }


def mean_cost(policy, table, costs=None):
    """Return the mean cost of the trees that a policy asks."""
    _, n_asked = table.follow(policy)
    each = np.ones(table.n_trees) if costs is None else np.asarray(costs)
    return np.concatenate([[0.0], np.cumsum(each[policy.order])])[n_asked].mean()


def slow_margin_qwyc(scores, full, budget, costs, checks):
    """Return (order, {step: set of decided rows}) for several classes, greedily."""
    n_rows, n_trees, n_classes = scores.shape
    order = list(range(n_trees))
    undecided = np.arange(n_rows)
    partial = np.zeros((n_rows, n_classes))
    decided_at = {}
    for step in range(1, n_trees):
        if len(undecided) == 0:
            break
        best_ratio, best_place, best_stops = np.inf, step - 1, None
        for place in range(step - 1, n_trees):
            tree = order[place]
            stops = best_margin_stops(
                partial[undecided] + scores[undecided, tree], full[undecided], budget
            )
            ratio = (
                costs[tree] * len(undecided) / stops.sum() if stops.any() else np.inf
            )
            if ratio < best_ratio:
                best_ratio, best_place, best_stops = ratio, place, stops
        order[step - 1], order[best_place] = order[best_place], order[step - 1]
        partial += scores[:, order[step - 1]]
        if best_stops is None or step not in checks:
            continue
        wrong = partial[undecided].argmax(axis=1) != full[undecided]
        budget -= int(np.sum(wrong & best_stops))
        decided_at[step] = set(undecided[best_stops])
        undecided = undecided[~best_stops]
    return order, decided_at


def best_margin_stops(partial, full, budget):
    """Return which rows stop with the lowest margin that the budget allows."""
    two = np.sort(partial, axis=1)[:, -2:]
    lead = two[:, 1] - two[:, 0]
    wrong = partial.argmax(axis=1) != full
    for cut in cuts_between(lead):
        stops = lead > cut
        if np.sum(stops & wrong) <= budget:
            return stops
    raise AssertionError
