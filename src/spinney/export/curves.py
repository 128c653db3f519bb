"""Calibration curves behind the trees: probabilities as scikit-learn makes them."""

from __future__ import annotations

from spinney.export.c_text import Tables, fill, number
from spinney.forest.curves import SMALLEST_SHARE, Curve

CURVE = """
/* The calibrated probabilities of both classes. */
static void P_curve($kind x, double *both) {
$body    both[0] = both[0] > 1.0 ? 1.0 : both[0];
    both[1] = both[1] > 1.0 ? 1.0 : both[1];
}
"""
SIGMOID = """    both[1] = 1.0 / (1.0 + exp($slope * (double)x + $intercept));
    both[0] = 1.0 - both[1];
"""
# Constant outside of the corners, linear between two of them.
ISOTONIC = """    const $corner score = ($corner)x;
    size_t low = 0, high = $last;
    if (score <= P_curve_x[0]) {
        high = 0;
    } else if (score >= P_curve_x[$last]) {
        low = $last;
    }
    while (low + 1 < high) {
        const size_t middle = (low + high) / 2;
        if (P_curve_x[middle] < score) {
            low = middle;
        } else {
            high = middle;
        }
    }
    both[1] = P_curve_y[low];
    if (low < high) {
        const $corner rise = P_curve_y[high] - P_curve_y[low];
        const $corner slope = rise / (P_curve_x[high] - P_curve_x[low]);
        both[1] = slope * (score - P_curve_x[low]) + P_curve_y[low];
    }
    both[0] = 1.0 - both[1];
"""
CONSTANT = """    (void)x;
    both[1] = $y;
    both[0] = 1.0 - both[1];
"""
TEMPERATURE = """    double sum;
    both[0] = $inverse * $negative;
    both[1] = $inverse * $positive;
    if (both[0] > both[1]) {
        both[1] = exp(both[1] - both[0]);
        both[0] = 1.0;
    } else {
        both[0] = exp(both[0] - both[1]);
        both[1] = 1.0;
    }
    sum = both[0] + both[1];
    both[0] /= sum;
    both[1] /= sum;
"""


def curve_source(curve: Curve, kind: str, tables: Tables) -> str:
    """Return the function from a score to two probabilities.

    Parameters
    ----------
    curve : Curve
        The curve.
    kind : {"float", "double"}
        Type of a score.
    tables : Tables
        Added to: the corners of an isotonic curve.
    """
    y = curve.y.astype(float).tolist()
    if curve.kind == "sigmoid":
        slope, intercept = (number(value, "double") for value in y)
        body = fill(SIGMOID, slope=slope, intercept=intercept)
    elif curve.kind == "temperature":
        negative, positive = "-(double)x", "(double)x"
        if curve.of == "probability":
            least = number(SMALLEST_SHARE, "double")
            negative = f"log(1.0 - (double)x + {least})"
            positive = f"log((double)x + {least})"
        body = fill(
            TEMPERATURE,
            inverse=number(y[0], "double"),
            negative=negative,
            positive=positive,
        )
    elif len(y) == 1:
        body = fill(CONSTANT, y=number(y[0], "double"))
    else:
        corner = "float" if curve.x.dtype.itemsize == 4 else "double"
        tables.add("P_curve_x", curve.x, corner, "corners of the curve")
        tables.add("P_curve_y", curve.y, corner)
        body = fill(ISOTONIC, corner=corner, last=len(y) - 1)
    return fill(CURVE, kind=kind, body=body)
