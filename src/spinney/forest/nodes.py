"""Numbers that nodes are written with; kernels take them from here."""

from __future__ import annotations

import numpy as np

# The feature and the children of a leaf.
LEAF = -1

# Values this close to zero count as zero where zero means "missing" (LightGBM's
# constant, a float32, as the double it is compared as).
ZERO_BAND = float(np.float32(1e-35))
