"""Samples of rows in parts: uniform, in one pass, the same again."""

from __future__ import annotations

from itertools import combinations

import numpy as np
from scipy.stats import chisquare

from spinney.integrations.sampling import (
    draw_from_part,
    merge_draws,
    merged_in_steps,
)


def drawn(parts, n_rows, seed):
    """Return the numbers in a sample of parts, as an engine draws them."""
    draws = [
        draw_from_part(part, number, seed, n_rows) for number, part in enumerate(parts)
    ]
    merged = merged_in_steps(draws, lambda some: merge_draws(some, n_rows), fan_in=2)
    return merged[1][:, 0]


def test_every_set_of_rows_is_equally_likely():
    numbers = np.arange(7)[:, None]
    parts = [numbers[:1], numbers[1:1], numbers[1:5], numbers[5:]]
    counts = dict.fromkeys(combinations(range(7), 3), 0)
    for seed in range(7000):
        counts[tuple(sorted(drawn(parts, 3, seed).tolist()))] += 1
    # 35 sets, 200 times each.
    assert chisquare(list(counts.values())).pvalue > 1e-4


def test_the_order_says_nothing_about_the_part():
    numbers = np.arange(6)[:, None]
    first = [drawn([numbers[:3], numbers[3:]], 6, seed)[0] for seed in range(6000)]
    assert chisquare(np.bincount(first, minlength=6)).pvalue > 1e-4


def test_parts_computed_again_give_the_same_rows():
    numbers = np.arange(1000)[:, None]
    one = draw_from_part(numbers, 3, 17, 10)
    again = draw_from_part(numbers, 3, 17, 10)
    assert (one[1] == again[1]).all()
    other = draw_from_part(numbers, 4, 17, 10)
    assert not np.array_equal(one[1], other[1])


def test_parts_may_be_put_together_in_any_order():
    numbers = np.arange(200)[:, None]
    draws = [draw_from_part(numbers[k::4], k, 5, 20) for k in range(4)]
    there = merge_draws(draws, 20)[1]
    back = merge_draws(draws[::-1], 20)[1]
    assert (there == back).all()
