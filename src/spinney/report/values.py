"""Values that JSON can hold."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

# Labels and names longer than this are cut.
LONGEST_TEXT = 80


def text_of(value: Any) -> str:
    """Return a label or a name as a text of bounded length."""
    text = str(value)
    return text if len(text) <= LONGEST_TEXT else text[: LONGEST_TEXT - 1] + "…"


def plain(value: Any) -> Any:
    """Return a value as JSON has it: NaN and infinities as None, arrays as lists."""
    if isinstance(value, dict):
        return {str(key): plain(one) for key, one in value.items()}
    if isinstance(value, np.ndarray):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(one) for one in value]
    if isinstance(value, np.generic):
        value = value.item()
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
