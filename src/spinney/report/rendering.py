"""A page as HTML, with everything in it."""

from __future__ import annotations

import base64
import hashlib
import json
from importlib.resources import files
from typing import Any

from spinney.report.contents import Page


def html_of(page: Page) -> str:
    """Return a page as one HTML document that loads nothing.

    Parameters
    ----------
    page : Page
        The page.
    """
    try:
        import jinja2
        from markupsafe import Markup
    except ImportError as error:
        msg = (
            "An HTML report needs jinja2, which is not installed. Install the extra "
            '"report": python -m pip install "spinney[report]"; or save the report as '
            ".md, .txt or .json."
        )
        raise ImportError(msg) from error

    environment = jinja2.Environment(
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
        loader=jinja2.FunctionLoader(_asset),
    )
    # A number and its unit stay on one line.
    environment.filters["tied"] = _tied
    style, script = _asset("page.css"), _asset("page.js")
    return environment.get_template("page.html.j2").render(
        page=page,
        style=Markup(style),
        script=Markup(script),
        policy=_policy(style, script),
        drawings={
            figure.name: Markup(
                figure.chart.svg(figure.name, figure.title, figure.caption)
            )
            for section in page.sections
            for figure in section.figures
        },
        embedded=lambda value: Markup(json_in_html(value)),
    )


def json_in_html(value: Any) -> str:
    """Return JSON that may stand in a script element whatever texts it holds.

    Parameters
    ----------
    value : object
        What JSON can hold.
    """
    text = json.dumps(value, ensure_ascii=True, allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text


def _asset(name: str) -> str:
    return (files("spinney.report") / "templates" / name).read_text(encoding="utf-8")


def _policy(style: str, script: str) -> str:
    """Return a policy by which a browser runs our style and script only."""
    return (
        "default-src 'none'; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'; "
        "base-uri 'none'; form-action 'none'"
    )


def _digest(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return "sha256-" + base64.b64encode(digest).decode("ascii")


def _tied(text: str) -> str:
    for unit in ("%", "×", "µs"):
        text = text.replace(f" {unit}", f"\u00a0{unit}")
    return text
