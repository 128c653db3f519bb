"""The ways in which a rule lets rows exit, as numbers for kernels and files."""

from __future__ import annotations

# Two bounds on a sum; a table by the number of votes; a bound on the lead of the best
# class; a table by the votes of the two best; bins of scores, which no kernel knows; a
# table by the votes of all classes.
BETWEEN, BY_COUNT, BY_MARGIN, BY_LEAD, BY_BIN, BY_ALL_COUNTS = 0, 1, 2, 3, 4, 5

# A table by the votes of all classes holds eight predictions of four bits in each
# number; this one is for rows that continue.
STAYS = 15

# Bounds on how far a class may be behind, beyond which its trees are not evaluated.
DROPPING = 6

# The decision for a row that does not exit: it continues to the next exit point, or it
# is evaluated by all trees in any case.
STAY, TO_THE_END = -1, -2
