"""Charts as SVG: colours come from the style of the page, numbers from here.

All are drawn in a frame of 440 by 296 and scale with the page; the style makes the
letters larger where the frame is shown small.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from html import escape

WIDTH, HEIGHT = 440.0, 296.0
LEFT, RIGHT, TOP, BOTTOM = 68.0, 12.0, 40.0, 50.0

Write = Callable[[float], str]


def ticks(low: float, high: float, most: int = 5) -> list[float]:
    """Return round numbers from `low` to `high`, at most about `most` of them.

    Parameters
    ----------
    low, high : float
        The range.
    most : int, default=5
        How many there is room for.
    """
    if not high > low:
        return [low]
    rough = (high - low) / most
    unit = 10.0 ** math.floor(math.log10(rough))
    step = next(unit * k for k in (1, 2, 2.5, 5, 10) if unit * k >= rough * (1 - 1e-9))
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [round(k * step, 12) + 0.0 for k in range(first, last + 1)]


@dataclass(frozen=True)
class Axis:
    """One direction of a chart.

    Parameters
    ----------
    label : str
        What is measured, with its unit.
    low, high : float
        The range shown.
    write : callable
        Makes the text of a tick.
    most : int
        Ticks that there is room for.
    is_log : bool
        Whether equal steps are equal factors. `low` is then above zero.
    with_zero : bool
        On such an axis: whether `low` stands for zero, and is called so.
    """

    label: str
    low: float
    high: float
    write: Write
    most: int = 5
    is_log: bool = False
    with_zero: bool = False

    def position(self, value: float) -> float:
        """Return where a number is, from 0 to 1."""
        low, high = self.low, self.high
        if self.is_log:
            value = math.log10(max(value, low))
            low, high = math.log10(low), math.log10(high)
        return min(max((value - low) / (high - low), -0.02), 1.02)

    def ticks(self) -> list[tuple[float, str]]:
        """Return numbers to write at the axis, with their texts."""
        if not self.is_log:
            return [(t, self.write(t)) for t in ticks(self.low, self.high, self.most)]
        # The number that stands for zero has some room to itself.
        low = self.low * (2.0 if self.with_zero else 1.0)
        shown: list[float] = []
        for digits in ((1,), (1, 3), (1, 2, 5)):
            finer = [
                float(f"{digit}e{power}")
                for power in range(
                    math.floor(math.log10(low)), math.ceil(math.log10(self.high)) + 1
                )
                for digit in digits
                if low * (1 - 1e-9) <= float(f"{digit}e{power}") <= self.high
            ]
            if len(finer) > self.most and shown:
                break
            shown = finer
        named = [(value, self.write(value)) for value in shown]
        return [(self.low, "0"), *named] if self.with_zero else named


def linear(
    label: str, low: float, high: float, write: Write | None = None, most: int = 5
) -> Axis:
    """Return an axis with equal steps, never of length zero.

    Parameters
    ----------
    label : str
        What is measured, with its unit.
    low, high : float
        The range shown.
    write : callable, optional
        Makes the text of a tick.
    most : int, default=5
        Ticks that there is room for.
    """
    if not high > low:
        pad = max(abs(low), 1.0) / 2
        low, high = (low, low + 2 * pad) if low == 0 else (low - pad, high + pad)
    return Axis(label, low, high, write or _plain, most=most)


@dataclass(frozen=True)
class Bars:
    """A bar for each bin: ``(start, end, height)``, of a style named `style`."""

    bars: Sequence[tuple[float, float, float]]
    style: str = "first"


@dataclass(frozen=True)
class Line:
    """A line through points, perhaps with a dot at each, or in steps.

    Parameters
    ----------
    points : sequence of (float, float)
        The points.
    style : {"first", "second", "quiet"}
        Which colour and stroke.
    dots : bool
        Whether to draw a dot at each point.
    label : str
        A name for the legend.
    """

    points: Sequence[tuple[float, float]]
    style: str = "first"
    dots: bool = False
    label: str = ""


@dataclass(frozen=True)
class Band:
    """An area between two lines: ``(x, low, high)``; with a name for the legend."""

    points: Sequence[tuple[float, float, float]]
    style: str = "first"
    label: str = ""


@dataclass(frozen=True)
class Rule:
    """A thin line across the chart, at a number of one axis, with a name beside it.

    Parameters
    ----------
    at : float
        The number.
    label : str
        The name.
    upright : bool
        Whether the number is one of the horizontal axis.
    is_named_first : bool
        Whether the name of a level line is at its beginning, not at its end.
    """

    at: float
    label: str
    upright: bool = True
    is_named_first: bool = False


@dataclass(frozen=True)
class Mark:
    """A point that is set apart; with an `identity` a script can move it."""

    x: float
    y: float
    label: str = ""
    identity: str = ""


Shape = Bars | Line | Band | Rule | Mark


@dataclass(frozen=True)
class Chart:
    """Axes with shapes between them.

    Parameters
    ----------
    x, y : Axis
        The axes.
    shapes : list
        Bars, lines, bands, rules and marks, drawn in this order.
    """

    x: Axis
    y: Axis
    shapes: list[Shape] = field(default_factory=list)

    def at_x(self, value: float) -> float:
        """Return where a number of the horizontal axis is drawn."""
        return LEFT + self.x.position(value) * (WIDTH - LEFT - RIGHT)

    def at_y(self, value: float) -> float:
        """Return where a number of the vertical axis is drawn."""
        return HEIGHT - BOTTOM - self.y.position(value) * (HEIGHT - TOP - BOTTOM)

    @property
    def legend(self) -> list[tuple[str, str, str]]:
        """Shape, style and name of what has a name."""
        return [
            (type(shape).__name__.lower(), shape.style, shape.label)
            for shape in self.shapes
            if isinstance(shape, (Line, Band)) and shape.label
        ]

    def svg(self, name: str, title: str, description: str) -> str:
        """Return the chart as an SVG element.

        Parameters
        ----------
        name : str
            Unique on the page.
        title, description : str
            Text for screen readers.
        """
        draw = {
            Bars: self._bars,
            Line: self._line,
            Band: self._band,
            Rule: self._rule,
            Mark: self._mark,
        }
        parts = [
            f'<svg class="chart" viewBox="0 0 {WIDTH:g} {HEIGHT:g}" role="img" '
            f'aria-labelledby="{escape(name)}-title {escape(name)}-description">',
            f'<title id="{escape(name)}-title">{escape(title)}</title>',
            f'<desc id="{escape(name)}-description">{escape(description)}</desc>',
            *self._axes(),
            *(draw[type(shape)](shape) for shape in self.shapes),  # type: ignore[operator]
            "</svg>",
        ]
        return "\n".join(parts)

    def _axes(self) -> list[str]:
        bottom = HEIGHT - BOTTOM
        parts = []
        for value, text in self.y.ticks():
            y = _n(self.at_y(value))
            parts.append(
                f'<line class="grid" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" '
                f'y1="{y}" y2="{y}"/>'
                f'<text class="tick end" x="{LEFT - 8:g}" y="{y}" dy="0.35em">'
                f"{escape(text)}</text>"
            )
        for value, text in self.x.ticks():
            x = _n(self.at_x(value))
            parts.append(
                f'<line class="nib" x1="{x}" x2="{x}" y1="{bottom:g}" '
                f'y2="{bottom + 4:g}"/>'
                f'<text class="tick middle" x="{x}" y="{bottom + 19:g}">'
                f"{escape(text)}</text>"
            )
        parts.append(
            f'<line class="axis" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" '
            f'y1="{bottom:g}" y2="{bottom:g}"/>'
        )
        middle = (LEFT + WIDTH - RIGHT) / 2
        parts.append(
            f'<text class="title middle" x="{middle:g}" y="{HEIGHT - 8:g}">'
            f"{escape(self.x.label)}</text>"
            f'<text class="title" x="2" y="14">{escape(self.y.label)}</text>'
        )
        return parts

    def _bars(self, shape: Bars) -> str:
        bottom = HEIGHT - BOTTOM
        parts = []
        for start, end, height in shape.bars:
            if height <= 0:
                continue
            left, right = self.at_x(start), self.at_x(end)
            gap = min(1.0, (right - left) / 6)
            # A single row among thousands still leaves a trace.
            tall = max(bottom - self.at_y(height), 0.8)
            parts.append(
                f'<rect x="{_n(left + gap / 2)}" y="{_n(bottom - tall)}" '
                f'width="{_n(max(right - left - gap, 0.5))}" height="{_n(tall)}"/>'
            )
        return f'<g class="bars {shape.style}">{"".join(parts)}</g>'

    def _line(self, shape: Line) -> str:
        at = [(_n(self.at_x(x)), _n(self.at_y(y))) for x, y in shape.points]
        path = " ".join(f"{x},{y}" for x, y in at)
        drawn = f'<polyline class="line {shape.style}" points="{path}"/>'
        if shape.dots:
            dots = "".join(f'<circle cx="{x}" cy="{y}" r="3"/>' for x, y in at)
            drawn += f'<g class="dots {shape.style}">{dots}</g>'
        return drawn

    def _band(self, shape: Band) -> str:
        over = [(self.at_x(x), self.at_y(high)) for x, _, high in shape.points]
        under = [(self.at_x(x), self.at_y(low)) for x, low, _ in shape.points]
        path = " ".join(f"{_n(x)},{_n(y)}" for x, y in over + under[::-1])
        return f'<polygon class="band {shape.style}" points="{path}"/>'

    def _rule(self, shape: Rule) -> str:
        label = escape(shape.label)
        if not shape.upright:
            y = self.at_y(shape.at)
            side, x = ("end", WIDTH - RIGHT - 2)
            if shape.is_named_first:
                side, x = ("start", LEFT + 6)
            return (
                f'<line class="rule" x1="{LEFT:g}" x2="{WIDTH - RIGHT:g}" '
                f'y1="{_n(y)}" y2="{_n(y)}"/>'
                f'<text class="note {side}" x="{x:g}" y="{_n(y - 6)}">{label}</text>'
            )
        x = self.at_x(shape.at)
        # The name goes to where there is more room.
        late = x > (LEFT + WIDTH - RIGHT) / 2
        side, away = ("end", -6) if late else ("start", 6)
        return (
            f'<line class="rule" x1="{_n(x)}" x2="{_n(x)}" y1="{TOP - 8:g}" '
            f'y2="{HEIGHT - BOTTOM:g}"/>'
            f'<text class="note {side}" x="{_n(x + away)}" y="{TOP + 4:g}">'
            f"{label}</text>"
        )

    def _mark(self, shape: Mark) -> str:
        x, y = self.at_x(shape.x), self.at_y(shape.y)
        late = x > 0.55 * WIDTH
        side, away = ("end", -11) if late else ("start", 11)
        identity = f' id="{escape(shape.identity)}"' if shape.identity else ""
        drawn = f'<circle class="mark"{identity} cx="{_n(x)}" cy="{_n(y)}" r="6.5"/>'
        if shape.label:
            up = -10 if y > TOP + 24 else 20
            drawn += (
                f'<text class="note {side}" x="{_n(x + away)}" y="{_n(y + up)}">'
                f"{escape(shape.label)}</text>"
            )
        return drawn


def _plain(value: float) -> str:
    """Return a number as it is, with a proper sign."""
    return f"{value:,g}".replace("-", "−")


def _n(value: float) -> str:
    """Return a coordinate, to a tenth."""
    return f"{value:.1f}".removesuffix(".0")


def spread(last: int, most: int) -> list[int]:
    """Return whole numbers from 0 to `last`, evenly spread, at most `most` of them.

    Parameters
    ----------
    last : int
        The last of them.
    most : int
        How many there may be.
    """
    if last < most:
        return list(range(last + 1))
    return [round(k * last / (most - 1)) for k in range(most)]
