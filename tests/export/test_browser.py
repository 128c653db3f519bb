"""The example page in a headless Chromium: answers, trees and curve are Python's."""

from __future__ import annotations

import runpy
import time
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from export.native import need
from report.browser import Browser, find_browser

pytestmark = pytest.mark.targets
EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.fixture(scope="module")
def example():
    need("clang")
    need("wasm-ld")
    names = runpy.run_path(str(EXAMPLES / "forest_in_the_browser.py"))
    early, steps, X = names["fitted"]()
    return early, steps, X, names["page"](early, steps, X)[0]


@pytest.fixture
def browser(tmp_path):
    path = find_browser()
    if path is None:
        pytest.skip("no Chromium is installed")
    with Browser(path, tmp_path / "profile") as browser:
        yield browser


def wait_until(browser, expression):
    for _ in range(100):
        if browser.run(expression):
            return
        time.sleep(0.05)
    msg = f"{expression} did not come true"
    raise AssertionError(msg)


def test_sliders_move_the_answer_as_in_python(example, browser, tmp_path):
    early, steps, X, page = example
    path = tmp_path / "page.html"
    path.write_text(page, encoding="utf-8")
    browser.open(path, width=1000, height=760)
    wait_until(browser, "document.body.dataset.ready === 'yes'")
    low, high = np.quantile(X, [0.01, 0.99], axis=0)
    rng = np.random.default_rng(0)
    seen = set()
    for _ in range(25):
        for i, value in enumerate(rng.uniform(low, high)):
            browser.run(f"document.getElementById('feature-{i}').value = {value}")
        browser.run(
            "document.getElementById('feature-0').dispatchEvent(new Event('input'))"
        )
        # A slider has steps: what it shows is what was asked.
        row = browser.run(
            "[...document.querySelectorAll('input')].map(slider => +slider.value)"
        )
        row = np.array([row], dtype=np.float32)
        labels, counts = early.predict_counted(row)
        assert browser.run("document.getElementById('answer').textContent") == labels[0]
        note = browser.run("document.getElementById('trees-note').textContent")
        assert note.startswith(f"{counts[0]} of {early.forest_.n_trees} trees")
        assert (
            browser.run("document.querySelectorAll('.trees .on').length") == counts[0]
        )
        answers = [steps.predict(row, max_steps=k)[0] for k in range(201)]
        changes = sum(a != b for a, b in pairwise(answers))
        assert browser.run("document.querySelectorAll('.run').length") == changes + 1
        seen.add(labels[0])
    assert len(seen) == 2
    assert browser.complaints() == []
    assert all(url.startswith(("file:", "data:")) for url in browser.requests())
    picture = browser.screenshot()
    assert picture.startswith(b"\x89PNG")
    assert len(picture) > 10_000
