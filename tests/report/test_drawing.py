"""Axes, ticks and numbers as they are written."""

from __future__ import annotations

import math
import xml.etree.ElementTree as ElementTree

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.base.wording import number, percent, ratio, times
from spinney.report.drawing import Axis, Bars, Chart, Line, Mark, Rule, linear, ticks
from spinney.report.histograms import of_counts, of_numbers

numbers = st.floats(-1e9, 1e9, allow_nan=False)


@given(numbers, st.floats(1e-6, 1e9))
def test_ticks_are_round_few_and_inside(low, length):
    high = low + length
    found = ticks(low, high)
    slack = 1e-6 * max(abs(low), abs(high), length)
    assert len(found) <= 6
    assert all(low - slack <= tick <= high + slack for tick in found)
    if length > 1e-6 * max(abs(low), abs(high)):
        assert len(found) >= 2
        steps = np.diff(found)
        assert np.allclose(steps, steps[0], rtol=1e-3)


def test_ticks_of_usual_ranges():
    assert ticks(0, 100) == [0, 20, 40, 60, 80, 100]
    assert ticks(0, 0.5, 4) == [0, 0.2, 0.4]
    assert ticks(3, 3) == [3]


@given(numbers, numbers)
def test_an_axis_is_never_of_length_zero(low, high):
    low, high = sorted((low, high))
    axis = linear("", low, high)
    assert axis.high > axis.low
    assert 0.0 <= axis.position(low) <= 1.0
    assert axis.ticks()


def test_a_logarithmic_axis_has_a_place_for_zero():
    axis = Axis("", 0.00005, 0.1, percent, is_log=True, with_zero=True)
    texts = [text for _, text in axis.ticks()]
    assert texts == ["0", "0.01 %", "0.1 %", "1 %", "10 %"]
    assert axis.position(0.0) == 0.0
    assert axis.position(0.1) == pytest.approx(1.0)
    places = [axis.position(10.0**-k) for k in (4, 3, 2, 1)]
    assert np.allclose(np.diff(places), np.diff(places)[0])


@given(st.floats(1e-6, 1e6), st.floats(1.01, 1e9))
def test_a_logarithmic_axis_has_few_ticks_inside(low, factor):
    axis = Axis("", low, low * factor, str, is_log=True)
    assert len(axis.ticks()) <= 12
    for value, _ in axis.ticks():
        assert -1e-6 <= axis.position(value) <= 1 + 1e-6


def test_a_drawing_is_xml_that_keeps_names_as_texts():
    chart = Chart(
        linear("<x> & 'y'", 0, 10),
        linear("y", 0, 1),
        [
            Bars([(0, 5, 0.5), (5, 10, 0.0)]),
            Line([(0, 0), (10, 1)], dots=True, label="</svg>"),
            Rule(3, "<b>"),
            Rule(0.5, '"', upright=False),
            Mark(9, 0.9, "a & b", identity='m"'),
        ],
    )
    root = ElementTree.fromstring(chart.svg("n", "<title>", "a < b"))
    texts = [element.text for element in root.iter("text")]
    assert {"<x> & 'y'", "<b>", '"', "a & b"} <= set(texts)
    assert root.find("title").text == "<title>"
    assert len(root.findall(".//rect")) == 1
    assert chart.legend == [("line", "first", "</svg>")]


def test_bars_are_as_high_as_they_should():
    chart = Chart(linear("", 0, 2), linear("", 0, 1), [Bars([(0, 1, 0.5), (1, 2, 1)])])
    root = ElementTree.fromstring(chart.svg("n", "t", "d"))
    low, high = (float(bar.get("height")) for bar in root.findall(".//rect"))
    assert high == pytest.approx(2 * low, abs=0.2)


@pytest.mark.parametrize(
    ("share", "text"),
    [
        (0.0, "0 %"),
        (1.0, "100 %"),
        (0.00083, "0.083 %"),
        (0.0001, "0.01 %"),
        (0.12345, "12.3 %"),
        (0.99996, "100 %"),
        (1e-12, "almost 0 %"),
        (None, "–"),
    ],
)
def test_shares_in_words(share, text):
    assert percent(share) == text


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (12.44, "12.4"),
        (1234.5, "1,230"),
        (9.996, "10"),
        (-0.5, "−0.5"),
        (1e-5, "0.00001"),
        (123456, "123,000"),
        (None, "–"),
    ],
)
def test_numbers_in_words(value, text):
    assert number(value) == text


def test_factors_and_quotients():
    assert times(3.456) == "3.5 ×"
    assert times(200.0) == "200 ×"
    assert times(None) == "–"
    assert ratio(3.0, 2.0) == 1.5
    assert ratio(3.0, 0.0) is None
    assert ratio(None, 2.0) is None


@given(st.floats(-1e12, 1e12).filter(lambda value: abs(value) > 1e-9))
def test_numbers_keep_three_digits(value):
    shown = float(number(value).replace(",", "").replace("−", "-"))
    assert math.isclose(shown, value, rel_tol=0.0051)


@given(st.integers(1, 400), st.integers(0, 1), st.integers(0, 10_000))
def test_every_row_is_in_one_bin_of_whole_numbers(largest, least, seed):
    drawn = np.random.default_rng(seed).integers(least, largest + 1, size=50)
    found = of_counts(drawn, largest, least)
    assert len(found["rows"]) == len(found["first"]) <= 50
    assert found["first"][0] == least
    assert found["last"][-1] == largest
    inside = (drawn[:, None] >= found["first"]) & (drawn[:, None] <= found["last"])
    assert (inside.sum(axis=1) == 1).all()
    np.testing.assert_array_equal(inside.sum(axis=0), found["rows"])


def test_numbers_that_are_all_alike_have_a_bin_in_the_middle():
    found = of_numbers(np.full(10_000, 3.0))
    assert found["rows"].tolist() == [0, 0, 10_000, 0, 0]
    assert of_numbers(np.array([np.nan, 1.0, np.inf]))["rows"].sum() == 1
