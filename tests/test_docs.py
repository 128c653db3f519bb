"""Every Python example in README.md and docs runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))]
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def python_blocks(page):
    """Yield each example of a page as (number of its first line, source)."""
    text = page.read_text(encoding="utf-8")
    for match in BLOCK.finditer(text):
        yield text.count("\n", 0, match.start(1)) + 1, match[1]


def run_examples(page):
    """Run the examples of a page one after another, as a reader would."""
    names = {"__name__": "__main__"}
    for line, source in python_blocks(page):
        # Empty lines in front make a traceback name the line of the page.
        code = compile("\n" * (line - 1) + source, str(page), "exec")
        exec(code, names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_examples_run_in_the_order_in_which_they_are_read(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_examples(page)


def test_readme_has_an_example():
    assert list(python_blocks(ROOT / "README.md"))


def test_a_failing_example_is_noticed_and_its_line_is_named(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("text\n\n```python\nx = 1\n```\n\n```python\nassert x == 2\n```\n")
    with pytest.raises(AssertionError) as caught:
        run_examples(page)
    assert caught.traceback[-1].lineno + 1 == 8
