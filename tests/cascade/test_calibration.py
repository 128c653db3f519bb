"""Sharing out rows: every part has rows of its own, or nothing is proven."""

from __future__ import annotations

import numpy as np
import pytest

from spinney.cascade.calibration import share_out


def shared_out(n_rows, *, to_prove):
    rows = np.arange(n_rows, dtype=np.float64).reshape(-1, 1)
    chance = np.random.RandomState(0)
    return share_out(
        rows, None, None, to_order=True, to_prove=to_prove, limit=100, chance=chance
    )


@pytest.mark.parametrize("n_rows", [3, 4, 50])
def test_no_row_serves_two_purposes(n_rows):
    parts = shared_out(n_rows, to_prove=True)
    taken = np.concatenate([parts.to_order, parts.to_fit, parts.to_prove])[:, 0]
    assert np.array_equal(np.sort(taken), np.arange(n_rows))


def test_too_few_rows_to_prove_anything_are_refused():
    with pytest.raises(ValueError, match="too few rows: 2"):
        shared_out(2, to_prove=True)


def test_without_a_proof_a_single_row_will_do():
    parts = shared_out(1, to_prove=False)
    assert len(parts.to_order) == len(parts.to_fit) == 1
    assert parts.to_prove is None


def test_of_many_rows_only_as_many_as_allowed_are_fitted_to():
    parts = shared_out(1000, to_prove=True)
    assert len(parts.to_order) == len(parts.to_fit) == 100
    assert len(parts.to_prove) == 400
