"""Reports in a real browser: they show, react, and ask for nothing."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.frozen import FrozenEstimator

from report.browser import Browser, find_browser
from report.kinds import BOUNDED, STOPPING, forest, reported, rows
from spinney.report import Report, make_report
from spinney.sequential.classifier import SequentialVotingClassifier

SHOWN = ("soft votes", "fan", "hard votes of several", "thresholds", "all trees")
SHOWN += (*BOUNDED, "anytime", "pruner", "budgeted")
EARLY = ["promise", "classes", "levels", "work", "decisions", "probabilities"]
SECTIONS = {
    "soft votes": [*EARLY, "about"],
    "fan": [*EARLY, "about"],
    "hard votes of several": [*EARLY, "about"],
    "thresholds": [*EARLY, "about"],
    **{kind: [*EARLY, "comparison", "about"] for kind in BOUNDED},
    "all trees": ["promise", "decisions", "about"],
    "anytime": ["curve", "promise", "about"],
    "pruner": ["frontier", "features", "promise", "about"],
    "budgeted": ["cost", "features", "promise", "about"],
}
HOSTILE = "</script><script>document.title='taken'</script><img src=x onerror=alert(1)>"


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    path = find_browser()
    if path is None:
        pytest.skip("there is no Chromium on the path")
    with Browser(path, tmp_path_factory.mktemp("profile")) as opened:
        yield opened


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """Return the path of the page of a kind, made on first use."""
    folder = tmp_path_factory.mktemp("pages")

    def page(kind):
        path = folder / f"{kind.replace(' ', '-')}.html"
        if not path.exists():
            reported(kind).save(path)
        return path

    return page


def text_of(browser, identity):
    return browser.run(f"document.getElementById('{identity}').textContent")


@pytest.mark.parametrize("kind", SHOWN)
def test_pages_show_everything_and_complain_about_nothing(browser, pages, kind):
    page = pages(kind)
    browser.open(page)
    found = browser.run("[...document.querySelectorAll('section')].map(s => s.id)")
    assert found == SECTIONS[kind]
    drawn = browser.run(
        """[...document.querySelectorAll('.chart')].map(chart => {
            const frame = chart.getBoundingClientRect();
            const shapes = [...chart.querySelectorAll('rect, polyline')];
            const seen = shapes.filter(s => {
                const box = s.getBoundingClientRect();
                return box.width + box.height > 5;
            });
            return [frame.width > 200, frame.height > 100, seen.length > 0];
        })"""
    )
    assert drawn
    assert all(all(one) for one in drawn)
    assert browser.complaints() == []
    assert browser.requests() == [page.as_uri()]


@pytest.mark.parametrize("kind", SHOWN)
def test_pages_fit_a_phone(browser, pages, kind):
    browser.open(pages(kind), width=360, height=740)
    wide, outside = browser.run(
        """[document.documentElement.scrollWidth,
            [...document.querySelectorAll('main *, header *')].filter(e =>
                !e.closest('.scroll') && e.getBoundingClientRect().right > 360.5
            ).map(e => e.tagName)]"""
    )
    assert wide <= 360
    assert outside == []
    smallest = browser.run(
        """Math.min(...[...document.querySelectorAll('.chart text')].map(t =>
            parseFloat(getComputedStyle(t).fontSize)
            * t.ownerSVGElement.getBoundingClientRect().width / 440))"""
    )
    assert smallest >= 10.0  # pixels, of the letters in drawings


@pytest.mark.parametrize("kind", [kind for kind in SHOWN if kind in STOPPING])
def test_letters_in_drawings_do_not_run_into_one_another(browser, pages, kind):
    for width in (360, 1200):
        browser.open(pages(kind), width=width)
        overlaps = browser.run(
            """[...document.querySelectorAll('.chart')].flatMap(chart => {
                const boxes = [...chart.querySelectorAll('.tick, .title')]
                    .map(t => [t.textContent, t.getBoundingClientRect()]);
                return boxes.flatMap(([a, one], k) => boxes.slice(k + 1)
                    .filter(([b, two]) => one.right > two.left + 1
                        && two.right > one.left + 1 && one.bottom > two.top + 3
                        && two.bottom > one.top + 3)
                    .map(([b]) => a + ' / ' + b));
            })"""
        )
        assert overlaps == []


def test_the_slider_answers_to_keys_and_to_the_mouse(browser, pages):
    report = reported("soft votes")
    points = report["sweep"]["points"]
    own = next(k for k, point in enumerate(points) if point["is_own"])
    browser.open(pages("soft votes"), height=4000)
    shown = [text_of(browser, "level-trees")]
    marks = [browser.run("document.getElementById('sweep-mark').getAttribute('cx')")]
    assert browser.run("document.getElementById('level').value") == str(own)
    assert browser.run("document.getElementById('level-own').hidden") is False
    browser.run("document.getElementById('level').focus()")
    browser.press("ArrowRight", 39)
    assert browser.run("document.getElementById('level').value") == str(own + 1)
    assert browser.run("document.getElementById('level-own').hidden") is True
    shown.append(text_of(browser, "level-trees"))
    marks.append(
        browser.run("document.getElementById('sweep-mark').getAttribute('cx')")
    )
    browser.press("End", 35)
    shown.append(text_of(browser, "level-trees"))
    last = points[-1]
    assert text_of(browser, "level-differing") == (
        f"{last['n_disagreements']} of {report['sweep']['n_measured']} rows"
    )
    spoken = browser.run("document.getElementById('level').ariaValueText")
    spoken = spoken or browser.run(
        "document.getElementById('level').getAttribute('aria-valuetext')"
    )
    assert spoken.startswith("20 % allowed") or "allowed" in spoken
    box = browser.run(
        """(r => [r.left, r.top + r.height / 2])
        (document.getElementById('level').getBoundingClientRect())"""
    )
    browser.click(box[0] + 4, box[1])
    assert browser.run("document.getElementById('level').value") == "0"
    assert text_of(browser, "level-text") == "0\u00a0%"
    assert len(set(shown)) >= 2
    assert len(set(marks)) == 2
    assert browser.complaints() == []


@pytest.mark.parametrize("kind", [kind for kind in SHOWN if kind in STOPPING])
def test_the_slider_begins_with_the_numbers_at_the_top(browser, pages, kind):
    browser.open(pages(kind))
    tiles = browser.run(
        "[...document.querySelectorAll('.tiles .value')].map(e => e.textContent)"
    )
    assert text_of(browser, "level-trees").split()[0] == tiles[0]
    assert text_of(browser, "level-disagreement") == tiles[1]
    assert browser.run("document.getElementById('level-own').hidden") is False
    # And so does the ring in the chart: on a dot of the line that was measured.
    ring, dots = browser.run(
        """[['cx', 'cy'].map(
                a => document.getElementById('sweep-mark').getAttribute(a)),
            [...document.querySelectorAll('#figure-sweep .dots circle')].map(
                c => ['cx', 'cy'].map(a => c.getAttribute(a)))]"""
    )
    assert [float(one) for one in ring] in [[float(v) for v in dot] for dot in dots]


def table_of(browser, section):
    """Return the cells of the table of a section, row by row."""
    return browser.run(
        f"""[...document.querySelectorAll('#{section} tbody tr')].map(row =>
            [...row.children].map(cell => cell.innerText.replace('\u00a0', ' ')))"""
    )


def test_the_page_says_which_promise_holds(browser, pages):
    browser.open(pages("per class"))
    bounds = table_of(browser, "promise")
    assert [row[1] for row in bounds] == ["5 %", "2 %"]
    assert all(
        name in row[0] for name, row in zip(("fraud", "ok"), bounds, strict=True)
    )
    report = reported("per class")
    before = [str(f"{one['n_full']:,}") for one in report["classes"]]
    assert [row[1] for row in table_of(browser, "classes")] == before
    assert text_of(browser, "level-extra-detail").startswith("“")

    browser.open(pages("accuracy loss"))
    ((what, bound, _, how),) = table_of(browser, "promise")
    assert (what, bound) == ("Additional errors, among all rows", "2 %")
    assert "on average" in how
    label = browser.run("document.querySelector('label[for=level]').textContent")
    assert label == "Additional errors allowed"
    assert text_of(browser, "level-extra").endswith("%")

    browser.open(pages("threshold"))
    said = text_of(browser, "promise")
    assert "at the threshold 0.2" in said
    probabilities = {row[0] for row in table_of(browser, "probabilities")}
    assert "Area under the ROC curve" in probabilities


def test_the_page_compares_with_the_original_and_warns_of_lost_classes(
    browser, tmp_path
):
    report = dict(reported("thresholds"))
    lost = [{"label": "rare", "n_full": 7, "n_early": 0, "n_lost": 7}]
    report["classes"] = [*report["classes"], *lost]
    path = tmp_path / "page.html"
    Report(report).save(path)
    browser.open(path, width=390)
    assert "the model's own predict" in text_of(browser, "main")
    warning = browser.run("document.querySelector('#classes .warning').innerText")
    assert "no longer predicted at all: “rare”" in warning
    assert browser.run("document.querySelector('#promise .warning')") is None


def test_everything_can_be_reached_by_keys_and_shows_where_it_is(browser, pages):
    browser.open(pages("soft votes"))
    reached = []
    for _ in range(40):
        browser.press("Tab", 9)
        reached.append(
            browser.run(
                """(e => [e.tagName, getComputedStyle(e).outlineStyle])
                (document.activeElement)"""
            )
        )
        if reached[-1][0] == "BODY":
            break
    names = [name for name, _ in reached]
    assert names[0] == "A"
    assert names.count("SUMMARY") == 4
    assert "INPUT" in names
    assert all(style != "none" for name, style in reached if name != "BODY")
    # A table is folded out with the keyboard.
    browser.run("document.querySelector('summary').focus()")
    browser.press("Enter", 13)
    browser.send(
        "Input.dispatchKeyEvent", type="char", text="\r", windowsVirtualKeyCode=13
    )
    assert browser.run("document.querySelector('details').open") is True


def test_dark_and_light_differ_and_follow_the_reader(browser, pages):
    grounds = {}
    for scheme in ("light", "dark"):
        browser.open(pages("soft votes"), scheme=scheme)
        grounds[scheme] = browser.run(
            """[getComputedStyle(document.body).backgroundColor,
                getComputedStyle(document.querySelector('.bars')).fill]"""
        )
    assert grounds["light"] != grounds["dark"]
    shades = {
        scheme: sum(map(int, ground[0][4:-1].split(",")))
        for scheme, ground in grounds.items()
    }
    assert shades["dark"] < 150 < 600 < shades["light"]


@pytest.mark.parametrize("kind", ["soft votes", "pruner"])
def test_pages_can_be_printed(browser, pages, kind):
    browser.open(pages(kind), scheme="dark")
    printed = browser.pdf()
    assert printed.startswith(b"%PDF")
    assert len(printed) > 10_000
    browser.emulate("dark", media="print")
    ground = browser.run("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(255, 255, 255)"
    browser.emulate("light")
    assert browser.complaints() == []


def test_hostile_labels_do_nothing(browser, tmp_path):
    (X, y), (X_fit, _), (X_new, y_new) = rows("breast_cancer")
    labels = np.array([HOSTILE, "b" * 300], dtype=object)
    model = type(forest("breast_cancer"))(21, random_state=0).fit(X, labels[y])
    quick = SequentialVotingClassifier(
        FrozenEstimator(model), voting="hard", max_disagreement=0.05, random_state=0
    ).fit(X_fit)
    path = tmp_path / "page.html"
    make_report(quick, X_new, labels[y_new]).save(path)
    browser.open(path, width=360)
    assert browser.run("document.title") == "Early exit by votes · spinney"
    assert browser.run("document.images.length") == 0
    assert "onerror" in browser.run("document.body.textContent")
    assert browser.run("document.documentElement.scrollWidth") <= 360
    assert browser.complaints() == []


def test_the_policy_stops_what_would_slip_in(browser, pages, tmp_path):
    page = pages("all trees").read_text(encoding="utf-8")
    path = tmp_path / "page.html"
    bad = "<script>document.title='taken'</script><img src='http://127.0.0.1:9/x.png'>"
    path.write_text(page.replace("</main>", f"{bad}</main>"), encoding="utf-8")
    browser.open(path)
    assert browser.run("document.title") == "All trees evaluated · spinney"
    assert len(browser.complaints()) >= 2
