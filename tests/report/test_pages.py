"""Reports as HTML, Markdown and text, whatever the labels and names hold."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import sys
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator

import spinney
from report.kinds import KINDS, LABELLED_OR_NOT, STOPPING, forest, reported, rows
from spinney.report import Report, make_report
from spinney.report.page import page_of
from spinney.report.page_stopping import _without_thresholds
from spinney.report.rendering import json_in_html
from spinney.sequential.classifier import SequentialVotingClassifier

STYLE = (
    Path(spinney.__file__)
    .parent.joinpath("report", "templates", "page.css")
    .read_text()
)
HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>"
VOID = {"meta", "input", "img", "link", "br"}


class Parsed(HTMLParser):
    """Elements, their texts, and whether they were closed in order."""

    def __init__(self, page):
        super().__init__()
        self.open, self.elements, self.problems = [], [], []
        self.text = ""
        self.feed(page)
        self.problems += [f"{name} is never closed" for name in self.open]

    def handle_starttag(self, name, attributes):
        self.elements.append((name, dict(attributes)))
        if name not in VOID:
            self.open.append(name)

    def handle_startendtag(self, name, attributes):
        self.elements.append((name, dict(attributes)))

    def handle_endtag(self, name):
        if not self.open or self.open.pop() != name:
            self.problems.append(f"{name} is closed out of order")

    def handle_data(self, data):
        if not {"script", "style"} & set(self.open):
            self.text += data

    def all(self, name):
        return [attributes for found, attributes in self.elements if found == name]


@pytest.fixture(scope="module")
def hostile():
    """A report with labels and names that would like to be code."""
    (X, y), (X_fit, _), (X_new, y_new) = rows("breast_cancer")
    labels = np.array([HOSTILE, "`a|b`*[x](javascript:alert(1)) & <b>"], dtype=object)
    model = type(forest("breast_cancer"))(21, random_state=0).fit(X, labels[y])
    quick = SequentialVotingClassifier(
        FrozenEstimator(model), voting="hard", max_disagreement=0.05, random_state=0
    ).fit(X_fit)
    return make_report(quick, X_new, labels[y_new])


@pytest.mark.parametrize(("kind", "labelled"), LABELLED_OR_NOT)
def test_html_is_well_formed_and_loads_nothing(kind, labelled):
    page = reported(kind, labelled).to_html()
    parsed = Parsed(page)
    assert parsed.problems == []
    for name in ("img", "link", "iframe", "object", "embed", "base", "form"):
        assert parsed.all(name) == []
    assert not any("src" in attributes for _, attributes in parsed.elements)
    assert not any("style" in attributes for _, attributes in parsed.elements)
    assert not any(
        name.startswith("on")
        for _, attributes in parsed.elements
        for name in attributes
    )
    links = [attributes["href"] for attributes in parsed.all("a")]
    assert links == ["#main"]
    names = [a["id"] for _, a in parsed.elements if "id" in a]
    assert len(names) == len(set(names))
    assert re.search(r"https?://|url\(|@import", page) is None
    assert "None" not in parsed.text
    assert "nan" not in parsed.text.split()


@pytest.mark.parametrize("kind", KINDS)
def test_every_figure_has_words_numbers_and_a_drawing(kind):
    page = reported(kind).to_html()
    figures = re.findall(r"<figure.*?</figure>", page, re.DOTALL)
    assert figures
    for figure in figures:
        drawing = re.search(r'<svg class="chart".*?</svg>', figure, re.DOTALL)[0]
        root = ElementTree.fromstring(drawing)
        assert root.find("title").text
        assert root.find("desc").text
        drawn = root.findall(".//rect") + root.findall("polyline")
        assert drawn
        numbers = re.findall(
            r"\b(?:x|y|cx|cy|x1|x2|y1|y2|width|height)=\"([^\"]+)\"", drawing
        )
        assert all(-20 <= float(number) <= 500 for number in numbers)
        assert "<figcaption>" in figure
        assert figure.count("<tr") >= 2


@pytest.mark.parametrize("kind", STOPPING)
def test_sliders_show_the_level_of_the_classifier_first(kind):
    page = reported(kind).to_html()
    data = re.search(
        r'<script type="application/json" id="level-data">(.*?)</script>', page
    )
    slider = json.loads(data[1])
    sweep = reported(kind)["sweep"]
    assert len(slider["levels"]) == len(sweep["points"])
    assert sweep["points"][slider["own"]]["is_own"]
    (control,) = Parsed(page).all("input")
    assert control["type"] == "range"
    assert control["value"] == str(slider["own"])
    assert control["aria-valuetext"] == slider["levels"][slider["own"]]["spoken"]
    assert any(a.get("for") == control["id"] for a in Parsed(page).all("label"))


def test_hostile_labels_are_texts_in_html(hostile):
    page = hostile.to_html()
    parsed = Parsed(page)
    assert parsed.problems == []
    assert parsed.all("img") == []
    assert len(parsed.all("script")) == 2
    assert HOSTILE not in page
    assert parsed.text.count("document.title") >= 2  # shown, as a text
    frame = hostile._repr_html_()
    assert "<script" not in frame
    assert frame.count("<") == 2


def test_hostile_names_of_features_are_texts():
    (X, y), (X_fit, y_fit), _ = rows("breast_cancer")
    names = [f"{HOSTILE}{place}" for place in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    model = type(forest("breast_cancer"))(5, random_state=0).fit(frame, y)
    pruner = spinney.FeatureCostPruner(FrozenEstimator(model), trade_off=1e-4)
    pruner.fit(pd.DataFrame(X_fit, columns=names), y_fit)
    page = make_report(pruner, frame, y).to_html()
    assert Parsed(page).problems == []
    assert HOSTILE[:20] not in page


def test_hostile_labels_do_no_harm_in_markdown_and_text(hostile):
    markdown = hostile.to_markdown()
    assert "<script" not in markdown.replace("\\<", "")
    assert re.search(r"(?<!\\)\[x", markdown) is None
    tables = [line for line in markdown.splitlines() if line.startswith("|")]
    for line in tables:
        columns = len(re.findall(r"(?<!\\)\|", line))
        assert 3 <= columns <= 7
    assert hostile.to_text().isprintable() is False  # lines
    assert all(line.isprintable() for line in hostile.to_text().splitlines())


def test_control_characters_do_not_reach_a_terminal():
    (X, y), (X_fit, _), (X_new, _) = rows("breast_cancer")
    labels = np.array(["\x1b[2Jgone", "line\nbreak"], dtype=object)
    model = type(forest("breast_cancer"))(5, random_state=0).fit(X, labels[y])
    quick = SequentialVotingClassifier(
        FrozenEstimator(model), max_disagreement=0.05, voting="hard", random_state=0
    ).fit(X_fit)
    text = make_report(quick, X_new).to_text()
    assert "\x1b" not in text
    assert "line break" in text


def test_json_in_html_cannot_end_a_script():
    text = json_in_html({"a": HOSTILE, "b": "\u2028 & <!--"})
    assert not set("<>&\u2028") & set(text)
    assert json.loads(text) == {"a": HOSTILE, "b": "\u2028 & <!--"}


def test_policy_allows_our_style_and_script_and_nothing_else():
    page = reported("soft votes").to_html()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', page)[1]
    assert "unsafe" not in policy
    assert policy.startswith("default-src &#39;none&#39;")
    blocks = re.findall(r"<(?:script|style)>(.*?)</(?:script|style)>", page, re.DOTALL)
    assert len(blocks) == 2
    for block in blocks:
        digest = base64.b64encode(hashlib.sha256(block.encode()).digest()).decode()
        assert f"sha256-{digest}" in policy


@pytest.mark.parametrize("kind", KINDS)
def test_markdown_and_text_tell_the_headline_numbers(kind):
    report = reported(kind)
    for text in (report.to_markdown(), report.to_text()):
        assert text.endswith("\n")
        assert "None" not in text
        assert report["date"][:10] in text
        assert spinney.__version__ in text
    assert max(map(len, reported("soft votes").to_text().splitlines())) <= 100
    assert repr(report) == report.to_text()


def test_the_certificate_is_a_sentence():
    certified = reported("certified votes").to_text()
    assert "with 90 %\nconfidence" in certified or "with 90 % confidence" in certified
    plain = " ".join(reported("soft votes").to_text().split())
    assert (
        "On new rows of the same kind, at most 5 % of the predictions differ" in plain
    )
    assert "on average" in plain
    assert "prove that at most" in plain


def test_predicted_classes_are_a_table():
    report = reported("soft votes")
    n_rows = report["rows"]["n_rows"]
    assert sum(one["n_full"] for one in report["classes"]) == n_rows
    assert sum(one["n_early"] for one in report["classes"]) == n_rows
    lost = sum(one["n_lost"] for one in report["classes"])
    assert lost == report["disagreement"]["n_disagreements"]
    text = report.to_text()
    assert "Predicted classes" in text
    assert "By the model" in text


def test_a_classifier_of_an_older_file_promises_nothing():
    report = Report(json.loads(reported("soft votes").to_json()))
    report["promise"] = None
    assert "There is no promise" in " ".join(report.to_text().split())


def test_the_comparison_of_accelerate_is_a_table():
    report = Report(json.loads(reported("soft votes").to_json()))
    trial = {
        "name": "all trees",
        "method": "all trees",
        "aimed_at": None,
        "disagreement": 0.0,
        "trees": 21.0,
        "microseconds_batch": 2.5,
        "microseconds_single": None,
        "kept_promise": True,
        "chosen": False,
    }
    soft = trial | {"name": "soft votes", "chosen": True, "trees": 5.25}
    broken = trial | {"name": "hard votes", "kept_promise": False}
    report["acceleration"] = {
        "trials": [trial, soft, broken],
        "n_trees": 21,
        "n_fitted": 90,
        "n_compared": 60,
        "max_disagreement": 0.02,
        "confidence": None,
        "outcome": "Chosen: soft votes.",
    }
    page = report.to_html()
    table = re.search(r'<section id="comparison".*?</section>', page, re.DOTALL)[0]
    assert re.search(r'<tr class="marked">\s*<th scope="row">soft votes', table)
    assert "breaks the bound" in table
    assert "5.25" in report.to_markdown()


def test_without_jinja2_only_html_is_missing(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    report = reported("anytime")
    with pytest.raises(ImportError, match='extra "report"'):
        report.to_html()
    with pytest.raises(ImportError, match=r"spinney\[report\]"):
        report.save(tmp_path / "page.html")
    assert list(tmp_path.iterdir()) == []
    assert report.to_markdown()
    assert report.to_text()
    assert report._repr_html_() is None


@pytest.mark.parametrize("suffix", [".html", ".md", ".txt", ".json", ".HTML"])
def test_the_suffix_says_what_is_saved(suffix, tmp_path):
    report = reported("anytime")
    path = tmp_path / f"page{suffix}"
    report.save(path)
    said = path.read_text(encoding="utf-8")
    made = {
        ".html": report.to_html,
        ".md": report.to_markdown,
        ".txt": report.to_text,
        ".json": report.to_json,
    }
    assert said == made[suffix.lower()]()


@pytest.mark.parametrize("name", ["page", "page.pdf", "page.html.gz", ".html"])
def test_other_suffixes_are_refused(name, tmp_path):
    with pytest.raises(ValueError, match=r"\.html, \.md, \.txt, \.json"):
        reported("anytime").save(tmp_path / name)
    assert list(tmp_path.iterdir()) == []


def test_saving_is_all_or_nothing(monkeypatch, tmp_path):
    report = reported("anytime")
    path = tmp_path / "page.md"
    path.write_text("what was there")

    def fail(*_):
        msg = "the disk is full"
        raise OSError(msg)

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="full"):
        report.save(str(path))
    assert path.read_text() == "what was there"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(FileNotFoundError, match="no directory"):
        report.save(tmp_path / "nowhere" / "page.md")


def variables(block):
    """Return the colours that a block of the style sets."""
    return dict(re.findall(r"--([a-z-]+): (#[0-9a-f]{6});", block))


LIGHT, DARK, PRINT = (variables(part) for part in STYLE.split(":root {")[1:])
SCHEMES = {"light": LIGHT, "dark": DARK, "print": PRINT}


def luminance(colour):
    """Return the relative luminance of a colour, as WCAG 2 defines it."""
    parts = [int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)]
    linear = [
        p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts
    ]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one, other):
    """Return the contrast ratio of two colours."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_colours_have_enough_contrast(scheme):
    colours = SCHEMES[scheme]
    assert set(colours) >= set(LIGHT)
    for ground in ("paper", "card"):
        for text in ("ink", "quiet", "accent", "second"):
            assert contrast(colours[text], colours[ground]) >= 4.5, (text, ground)
    assert contrast(colours["ink"], colours["accent-soft"]) >= 4.5
    # Lines on their own shaded areas are parts of a drawing: 3 is enough.
    assert contrast(colours["accent"], colours["accent-soft"]) >= 3.0
    assert contrast(colours["second"], colours["second-soft"]) >= 3.0


# Colours as people without red or green receptors see them (Machado, Oliveira and
# Fernandes 2009, complete deficiency), on linear light.
DEFICIENCIES = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}


def lab(colour, matrix):
    """Return a colour, seen through a deficiency, in CIE L*a*b*."""
    parts = np.array([int(colour[k : k + 2], 16) / 255 for k in (1, 3, 5)])
    linear = np.where(parts <= 0.04045, parts / 12.92, ((parts + 0.055) / 1.055) ** 2.4)
    seen = np.clip(np.array(matrix) @ linear, 0.0, 1.0)
    to_xyz = [
        [0.4124, 0.3576, 0.1805],
        [0.2126, 0.7152, 0.0722],
        [0.0193, 0.1192, 0.9505],
    ]
    xyz = np.array(to_xyz) @ seen / np.array([0.9505, 1.0, 1.089])
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("deficiency", DEFICIENCIES)
@pytest.mark.parametrize("scheme", SCHEMES)
def test_the_two_colours_of_lines_differ_for_everybody(scheme, deficiency):
    matrix = DEFICIENCIES[deficiency]
    one, other = (lab(SCHEMES[scheme][name], matrix) for name in ("accent", "second"))
    assert np.linalg.norm(one - other) >= 25.0


def test_the_page_tells_when_rows_are_decided():
    (X, y), (X_fit, _), _ = rows("iris")
    model = RandomForestClassifier(9, random_state=0).fit(X, y)
    quick = spinney.SequentialVotingClassifier(
        FrozenEstimator(model), max_disagreement=0.9, voting="soft", random_state=0
    )
    n_evaluated = quick.fit(X_fit).predict_counted(X_fit)[1]
    assert (n_evaluated == 1).all()  # the case that this test is about
    report = make_report(quick, X_fit)
    assert "No row is ever decided" not in report.to_html()
    # What is said where there is no picture of thresholds.
    words = _without_thresholds(json.loads(report.to_json()))
    assert words == "Every row is decided after 1 of 9 trees."
    # A single tree has none before it.
    model = RandomForestClassifier(1, random_state=0).fit(X, y)
    never = spinney.CascadeClassifier(FrozenEstimator(model)).fit(X_fit)
    page = make_report(never, X_fit).to_html()
    assert "No row is ever decided before the last of the 1 trees." in page


def test_a_forest_pruned_to_its_roots_is_warned_about():
    (X, y), (X_fit, y_fit), _ = rows("breast_cancer")
    inside = FrozenEstimator(RandomForestClassifier(3, random_state=0).fit(X, y))
    with pytest.warns(spinney.SpinneyWarning, match="pruned to their roots"):
        constant = spinney.FeatureCostPruner(inside, budget=0.5).fit(X_fit, y_fit)
    words = "predicts the same class for every row"
    assert words in make_report(constant, X_fit).to_html()
    assert words not in reported("pruner").to_html()


def test_a_budgeted_forest_tells_why_it_has_no_more_trees():
    (X, y), _, _ = rows("breast_cancer")
    settings = {"max_trees": 3, "random_state": 0}
    ample = spinney.BudgetedForestClassifier(budget=1e6, **settings).fit(X, y)
    between = float(np.mean(ample.mean_costs_[:2]))
    for budget, words in (
        (None, "there is no budget"),
        (1e6, "as many as max_trees allows, all within the budget"),
        (between, "one more would have exceeded the budget"),
    ):
        grown = spinney.BudgetedForestClassifier(budget=budget, **settings).fit(X, y)
        text = " ".join(make_report(grown, X, y).to_text().split())
        assert words in text


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        ({"yes": 0.01, "no": 0.002}, "1 % of “yes”, 0.2 % of “no”"),
        ({"yes": 0.01, "no": 0.01}, "1 % of the rows of each class"),
        (
            {f"class {k}": 0.001 * k for k in range(1, 9)},
            "0.1 % to 0.8 % of the rows of a class",
        ),
    ],
)
def test_bounds_of_classes_stand_at_the_top_and_among_the_facts(bounds, words):
    report = Report(json.loads(reported("soft votes").to_json()))
    report["promise"]["by_class"] = [
        {"label": label, "max_disagreement": bound, "n_rows": 9, "n_disagreements": 0}
        for label, bound in bounds.items()
    ]
    page = page_of(report)
    assert dict(page.facts)["Disagreement allowed"] == words
    assert any(f"up to {words} allowed" in tile.detail for tile in page.tiles)
