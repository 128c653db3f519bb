"""From a forest or a fitted classifier to a C file and its header."""

from __future__ import annotations

import os
import re
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from spinney._version import __version__
from spinney.base.identifiers import checked_identifier
from spinney.base.wording import percent
from spinney.calibration.bounds import check_confidence, check_max_disagreement
from spinney.errors import InvalidArgumentError, SpinneyWarning
from spinney.export.certification import DEFAULT_BOUND, WidthTried, narrowest
from spinney.export.inputs import INTEGERS, Slots, make_slots
from spinney.export.program import Program, program_of
from spinney.export.quantisation import Quantised, refuse_integer
from spinney.export.report import ExportReport
from spinney.export.source import LAYOUTS, Source, Writer
from spinney.forest.blocks import BlockedRows
from spinney.persistence.atomic_write import plain_system_errors, write_together

ARITHMETICS = ("exact", "integer")
# What may stand in an #include: a ? could begin a trigraph.
FILE_NAME = re.compile(r"[^\"'?\\\x00-\x1f\x7f-\U0010ffff]+")


def export_c(
    obj: Any,
    path: str | os.PathLike[str],
    *,
    name: str | None = None,
    arithmetic: str = "exact",
    X: Any = None,
    input_type: str | None = None,
    input_scale: ArrayLike = 1.0,
    layout: str | None = None,
    max_disagreement: float | None = None,
    confidence: float | None = None,
) -> ExportReport:
    """Write a forest or a fitted classifier as one C file, with a header beside it.

    The code is C99 and needs no library. It does not allocate memory or recurse, and
    has no state of its own; tables are constant. It exits early where the classifier
    does, takes single steps for anytime classifiers, and fetches features on demand for
    pruned ones.

    Parameters
    ----------
    obj : Forest or fitted classifier of spinney
        What to export. A model that wraps preprocessing, or voters that are not trees,
        cannot be.
    path : str or path
        The C file; its name ends with ``.c``. The header has the same name with ``.h``.
    name : str, default=None
        Prefix of all names in the file; by default the name of the file.
    arithmetic : {"exact", "integer"}, default="exact"
        Exact: every prediction is the one that Python makes, with sums of the same type
        in the same order. Integer: no floating point after the input; leaf values are
        integers of 8, 16 or 32 bits, the narrowest that `X` proves to keep the bound.
    X : array-like of shape (n_rows, n_features), default=None
        For integer arithmetic: rows that were used for nothing else, neither in
        training nor in `fit`. No labels are needed.
    input_type : {None, "float32", "float64", "int8", "int16", "int32"}, default=None
        Type of the numbers of a row. None is the type that the model compares in;
        integers are for sensors that deliver them. All comparisons are lossless.
    input_scale : float or array-like of shape (n_features,), default=1.0
        What one unit of an integer stands for.
    layout : {None, "fast", "packed"}, default=None
        How the trees are written: two words per node, for servers, or only the bits
        that they need, for small devices. None is fast for exact and packed for integer
        arithmetic. On a server integer code with the fast layout takes a half to a
        sixth of the time.
    max_disagreement : float, default=None
        For integer arithmetic: the share of new rows on which the prediction may differ
        from the model's. None is the bound of the classifier, or 0.001 for what has
        none.
    confidence : float, default=None
        For integer arithmetic: the confidence with which the bound is to hold. None is
        that of the classifier; without one the bound holds in expectation.

    Returns
    -------
    report : ExportReport
        What was written, its size, and the measurements of each width.

    Raises
    ------
    InvalidArgumentError
        If an argument is invalid. Nothing is written then.
    UnsupportedModelError
        If `obj` cannot be exported.

    Warns
    -----
    SpinneyWarning
        If the rows do not prove the bound in integer arithmetic, even with 32 bits. The
        files are written nevertheless, and state this.

    See Also
    --------
    spinney.compile : The same code as a Python object.

    Notes
    -----
    A bound on what, in integer arithmetic: on the share of rows whose prediction
    differs from the original model's, early exit and rounding taken together. It is
    established on `X` after rounding, width by width from 32 bits down, until one
    fails. Over which randomness: without `confidence` it holds on average over the draw
    of `X` and of new rows of the same kind. What would invalidate it: rows that were
    used in training or fitting, dependent rows, new rows from another distribution.

    Examples
    --------
    >>> import os, tempfile
    >>> import spinney
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.ensemble import RandomForestClassifier
    >>> X, y = load_iris(return_X_y=True)
    >>> model = RandomForestClassifier(10, random_state=0).fit(X, y)
    >>> forest = spinney.read_model(model)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     report = spinney.export_c(forest, os.path.join(folder, "iris.c"))
    ...     sorted(os.listdir(folder))
    ['iris.c', 'iris.h']
    >>> report.max_steps
    57
    """
    if not isinstance(path, (str, os.PathLike)):
        msg = f"path must be a str or a pathlib.Path, got {path!r}."
        raise InvalidArgumentError(msg)
    with plain_system_errors(str(path)):
        source_path, header_path = _checked_paths(path)
    prefix = checked_identifier(name, source_path)
    source, report = make_source(
        program_of(obj),
        prefix,
        header_path.name,
        arithmetic=arithmetic,
        X=X,
        input_type=input_type,
        input_scale=input_scale,
        layout=layout,
        max_disagreement=max_disagreement,
        confidence=confidence,
        paths=(str(source_path), str(header_path)),
    )
    write_together(
        {
            str(source_path): [source.code.encode("ascii")],
            str(header_path): [source.header.encode("ascii")],
        }
    )
    return report


def make_source(
    program: Program,
    name: str,
    header: str,
    *,
    arithmetic: str = "exact",
    X: Any = None,
    input_type: str | None = None,
    input_scale: ArrayLike = 1.0,
    layout: str | None = None,
    max_disagreement: float | None = None,
    confidence: float | None = None,
    paths: tuple[str, str] = ("", ""),
) -> tuple[Source, ExportReport]:
    """Return the text of the two files, without writing them.

    Parameters
    ----------
    program : Program
        What the code has to do.
    name : str
        What all names begin with.
    header : str
        Name of the header, as the C file includes it.
    arithmetic, X, input_type, input_scale, layout, max_disagreement, confidence
        As for `export_c`.
    paths : tuple of str, default=("", "")
        Where the files will be, for the report.
    """
    if arithmetic not in ARITHMETICS:
        msg = f"arithmetic must be one of {', '.join(ARITHMETICS)}, got {arithmetic!r}."
        raise InvalidArgumentError(msg)
    if layout is not None and layout not in LAYOUTS:
        msg = f"layout must be None or one of {', '.join(LAYOUTS)}, got {layout!r}."
        raise InvalidArgumentError(msg)
    is_integer = arithmetic == "integer"
    chosen = layout or ("packed" if is_integer else "fast")
    if not is_integer:
        _refuse_unused(X=X, max_disagreement=max_disagreement, confidence=confidence)
    slots = make_slots(program.ordered, input_type, input_scale)
    quantised, bound = None, program.max_disagreement
    tried: list[WidthTried] = []
    sure = program.confidence
    if is_integer:
        refuse_integer(program)
        bound, sure = _checked_bound(program, max_disagreement, confidence)
        rows = _checked_rows(program, X)
        quantised, tried = narrowest(
            program,
            rows,
            bound,
            sure,
            lambda candidate: _flash_bytes(program, slots, chosen, candidate),
        )
    writer = Writer(program, slots, chosen, quantised)
    title = f"{name}: {program.forest!r}, written by spinney {__version__}."
    notes = _notes(program, slots, quantised, tried, bound, sure)
    source = writer.write(name, header, title, notes)
    is_proven = tried[0].is_proven if tried else None
    report = ExportReport(
        *paths,
        name,
        arithmetic,
        chosen,
        source.flash_bytes,
        source.ram_bytes,
        source.state_bytes,
        source.max_steps,
        None if quantised is None else quantised.width,
        0.0 if quantised is None else quantised.error,
        bound,
        sure,
        is_proven,
        tuple(tried),
    )
    if is_proven is False:
        one = tried[0]
        needed = (
            f" At least {int(np.ceil(1 / bound)) - 1:,} rows are needed."
            if (sure is None and bound and one.n_rows + 1 < 1 / bound)
            else ""
        )
        msg = (
            f"{report.outcome} With 32-bit leaf values {one.n_disagreements:,} of "
            f"{one.n_rows:,} rows differ.{needed} Pass more rows, or a larger "
            "max_disagreement."
        )
        warnings.warn(msg, SpinneyWarning, stacklevel=3)
    return source, report


def _flash_bytes(
    program: Program, slots: Slots, layout: str, quantised: Quantised
) -> int:
    return (
        Writer(program, slots, layout, quantised).write("m", "m.h", "", []).flash_bytes
    )


def _refuse_unused(**given: Any) -> None:
    for argument, value in given.items():
        if value is not None:
            msg = (
                f"{argument} is for arithmetic='integer'; in exact arithmetic the code "
                f"predicts exactly as Python does. Leave {argument} out."
            )
            raise InvalidArgumentError(msg)


def _checked_bound(
    program: Program, max_disagreement: Any, confidence: Any
) -> tuple[float, float | None]:
    bound = max_disagreement
    if bound is None and program.has_other_bounds:
        msg = (
            "Integer arithmetic proves one bound on all rows together, and this "
            "classifier promises others, about single classes or its accuracy. Pass "
            "max_disagreement, or use arithmetic='exact', which keeps its promises."
        )
        raise InvalidArgumentError(msg)
    if bound is None:
        bound = program.max_disagreement or DEFAULT_BOUND
    bound = check_max_disagreement(bound)
    sure = program.confidence if confidence is None else confidence
    return bound, None if sure is None else check_confidence(sure)


def _checked_rows(program: Program, X: Any) -> NDArray[np.floating]:
    if X is None:
        msg = (
            "Integer arithmetic needs rows: X is missing. Pass rows that were used "
            "neither for training nor for calibration; the bound is proven on them "
            "after rounding."
        )
        raise InvalidArgumentError(msg)
    rows = program.forest.engine.rows(X)
    if isinstance(rows, BlockedRows):
        rows = rows.dense()
    if len(rows) == 0:
        msg = "X has no rows, so no bound can be proven. Pass a few thousand."
        raise InvalidArgumentError(msg)
    return rows


def _checked_paths(path: str | os.PathLike[str]) -> tuple[Path, Path]:
    source = Path(path)
    if source.is_dir():
        msg = f"{str(source)!r} is a directory. Pass the name of a C file in it."
        raise IsADirectoryError(msg)
    if source.suffix != ".c":
        msg = (
            f"path must end with .c, got {str(path)!r}: the header gets the same name "
            "with .h."
        )
        raise InvalidArgumentError(msg)
    header = source.with_suffix(".h")
    if header.is_dir():
        msg = f"{str(header)!r} is a directory, but the header would be written there."
        raise IsADirectoryError(msg)
    if not FILE_NAME.fullmatch(header.name):
        msg = (
            f"The C file includes {header.name!r} by its name, which must be ASCII "
            "without quotes, backslashes and question marks. Pass another path."
        )
        raise InvalidArgumentError(msg)
    if source.parent.exists() and not source.parent.is_dir():
        msg = f"{str(source.parent)!r} is a file, not a directory. Pass another path."
        raise NotADirectoryError(msg)
    if not source.parent.is_dir():
        msg = f"There is no directory {str(source.parent)!r}. Create it first."
        raise FileNotFoundError(msg)
    return source, header


def _notes(
    program: Program,
    slots: Slots,
    quantised: Quantised | None,
    tried: list[WidthTried],
    bound: float | None,
    confidence: float | None,
) -> list[str]:
    """Return what the head of the files says about predictions and rows."""
    notes = [program.promise]
    kind = slots.row_type
    if slots.input_type in INTEGERS:
        notes.append(f"Rows: {program.forest.n_features} numbers of type {kind}.")
    else:
        notes.append(
            f"Rows: {program.forest.n_features} numbers of type {kind}; NaN is a "
            "missing value."
        )
    if quantised is None:
        notes.append("Exact arithmetic: every prediction is the one that Python makes.")
        return notes
    notes.append(
        f"Integer arithmetic: leaf values of {quantised.width} bits, scale "
        f"{quantised.scale:.9g}; no sum is off by more than {quantised.error:.3g}."
    )
    one = next(t for t in tried if t.width == quantised.width)
    share = percent(bound)
    if one.is_proven:
        how = "in expectation" if confidence is None else f"at {percent(confidence)}"
        notes.append(
            f"Bound: at most {share} of new rows differ from the model, {how}; "
            f"{one.n_disagreements} of {one.n_rows} rows did."
        )
    else:
        notes.append(
            f"No bound is proven: {one.n_disagreements} of {one.n_rows} rows differ "
            f"from the model, which does not show at most {share}."
        )
    return notes
