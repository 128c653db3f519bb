"""What a fitted classifier promises about its answers, in numbers and in words."""

from __future__ import annotations

from dataclasses import dataclass

from spinney.calibration.bounds import percent

KINDS = ("never", "each row", "expected", "confidence", "votes", "out of bag")


@dataclass(frozen=True)
class Promise:
    """How often answers may differ from the full ensemble, and on what that rests.

    Parameters
    ----------
    kind : str
        ``"never"``: no answer ever differs. ``"each row"``: the bound holds for every
        single row, over the random order of the trees. ``"expected"``: it holds for new
        rows on average (risk control). ``"confidence"``: it holds for new rows with a
        stated probability. ``"votes"``: it holds on average over a distribution of
        votes that was given, and the random order. ``"out of bag"``: as estimated from
        the rows that the model was trained on.
    max_disagreement : float
        The bound.
    confidence : float or None
        The probability, for ``"confidence"``.
    n_rows : int
        Calibration rows that played no part in fitting, on which it was established.
    n_disagreements : int
        How many of them the classifier answers otherwise than the full ensemble.
    """

    kind: str
    max_disagreement: float
    confidence: float | None = None
    n_rows: int = 0
    n_disagreements: int = 0

    def __str__(self) -> str:
        share = percent(self.max_disagreement)
        new = f"On new rows of the same kind, at most {share} of the answers differ"
        seen = (
            f" ({self.n_disagreements:,} of {self.n_rows:,} calibration rows did)"
            if self.n_rows
            else ""
        )
        if self.kind == "never":
            return "Every answer is that of the full ensemble."
        if self.kind == "each row":
            return (
                "For every row, the answer differs with a probability of at most "
                f"{share} over the random order of the trees."
            )
        if self.kind == "expected":
            return f"{new}, on average{seen}."
        if self.kind == "confidence":
            assert self.confidence is not None
            return f"{new}, with {percent(self.confidence)} confidence{seen}."
        if self.kind == "votes":
            return (
                f"At most {share} of the answers differ, on average over the random "
                "order of the trees and over votes as they were given."
            )
        return f"About {share} of the answers differ, as out-of-bag votes estimate it."
