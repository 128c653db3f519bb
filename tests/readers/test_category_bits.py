"""Sets of categories as bits, there and back."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.errors import UnsupportedModelError
from spinney.readers.category_bits import MAX_WORDS, is_member, pack_sets


@given(st.lists(st.frozensets(st.integers(0, 200)), min_size=1, max_size=5))
def test_every_set_holds_its_own_categories_and_no_others(sets):
    packed = pack_sets([np.array(sorted(s), dtype=np.int64) for s in sets], "It")
    offsets, words = packed["category_offsets"], packed["category_words"]
    assert offsets[-1] == len(words)
    for members, start, end in zip(sets, offsets[:-1], offsets[1:], strict=True):
        known = np.arange((end - start) * 32)
        assert set(known[is_member(words[start:end], known)]) == members
        # Not a word more than the largest category needs.
        assert end - start == (max(members) // 32 + 1 if members else 0)


def test_sets_that_would_fill_the_memory_are_refused():
    with pytest.raises(UnsupportedModelError, match="This model has category sets"):
        pack_sets([np.array([MAX_WORDS * 32])], "This model")
