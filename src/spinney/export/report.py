"""What an export has written, and what it takes on the device."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from spinney.base.wording import in_columns, percent
from spinney.export.certification import WidthTried


@dataclass(frozen=True)
class ExportReport:
    """What :func:`spinney.export_c` has written.

    Parameters
    ----------
    source, header : str
        The files.
    name : str
        Prefix of all names in them.
    arithmetic : {"exact", "integer"}
        The arithmetic of sums.
    layout : {"fast", "packed"}
        How the trees are written.
    flash_bytes : int
        Bytes of all tables; the code itself comes on top, one to three kilobytes on
        most processors.
    ram_bytes : int
        Bytes on the stack for one prediction, all tables being constant.
    state_bytes : int
        Bytes of the state of an anytime classifier, before alignment; 0 for others.
    max_steps : int
        Comparisons of one prediction in the worst case.
    width : int or None
        Bits of a leaf value in integer arithmetic.
    max_error : float
        Proven bound on the error of integer sums, in the unit of the scores.
    max_disagreement : float or None
        The bound that was to be kept, against the model itself.
    confidence : float or None
        Its confidence; None if it holds in expectation.
    is_proven : bool or None
        Whether the rows have proven it; None in exact arithmetic, where the promise of
        the classifier stands as it is.
    widths : tuple of WidthTried
        Measurements of each width that was tried.
    """

    source: str
    header: str
    name: str
    arithmetic: str
    layout: str
    flash_bytes: int
    ram_bytes: int
    state_bytes: int
    max_steps: int
    width: int | None
    max_error: float
    max_disagreement: float | None
    confidence: float | None
    is_proven: bool | None
    widths: tuple[WidthTried, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the report as plain values that JSON can hold.

        Returns
        -------
        parts : dict
            The fields.
        """
        return asdict(self)

    def __str__(self) -> str:
        lines = [
            f"{self.source} and {self.header}: {self.arithmetic} arithmetic, "
            f"{self.layout} tables",
            f"flash: {self.flash_bytes:,} bytes of tables, and the code",
            f"RAM:   {self.ram_bytes:,} bytes on the stack"
            + (f", {self.state_bytes:,} for a state" if self.state_bytes else ""),
            f"worst case: {self.max_steps:,} comparisons",
        ]
        if self.widths:
            cells = [("leaf values", "flash", "differ", "at most", "off by", "trees")]
            cells += [
                (
                    f"{one.width} bits",
                    f"{one.flash_bytes:,}",
                    f"{one.n_disagreements:,} of {one.n_rows:,}",
                    percent(one.bound) + ("" if one.is_proven else " (too many)"),
                    f"{one.max_error:.2g}",
                    f"{one.mean_trees:.1f}",
                )
                for one in self.widths
            ]
            lines += ["", in_columns(cells, left=(0,)), "", self.outcome]
        return "\n".join(lines)

    @property
    def outcome(self) -> str:
        """What is proven about integer arithmetic, in a sentence; empty for exact."""
        if self.is_proven is None:
            return ""
        share = percent(self.max_disagreement)
        if not self.is_proven:
            return (
                "Not proven: the rows given do not show that the prediction differs "
                f"from the model's on at most {share} of new rows."
            )
        how = (
            "in expectation"
            if self.confidence is None
            else f"with {percent(self.confidence)} confidence"
        )
        return (
            f"{self.width} bits: on at most {share} of new rows the prediction differs "
            f"from the model's, {how}."
        )
