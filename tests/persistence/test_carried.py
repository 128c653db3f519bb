"""Steps that skops carries: only on request, and only of types that are trusted."""

from __future__ import annotations

import io as streams
import json
import os
import sys
import zipfile
from importlib.metadata import version

import numpy as np
import pytest
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.decomposition import PCA
from sklearn.ensemble import RandomForestClassifier, VotingClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

import spinney
from spinney import FormatError
from spinney.persistence.container import Contents, decode, encode

skops_io = pytest.importorskip("skops.io")
OLDER_SKOPS = version("skops").split(".") < ["0", "15"]

HERE = __name__
RNG = np.random.default_rng(0)
X = RNG.normal(size=(400, 5))
Y = (X[:, 0] + X[:, 1] ** 2 > 0.5).astype(int)


class Doubler(TransformerMixin, BaseEstimator):
    """A step that neither spinney nor skops knows."""

    def fit(self, X, y=None):
        self.factor_, self.n_features_in_ = 2.0, X.shape[1]
        return self

    def transform(self, X):
        return np.asarray(X) * self.factor_


class Shifter(Doubler):
    def transform(self, X):
        return np.asarray(X) + self.factor_


def cubed(X):
    return np.asarray(X) ** 3


def pipeline(*steps):
    forest = RandomForestClassifier(10, max_depth=4, random_state=0)
    return make_pipeline(*steps, forest).fit(X, Y)


def saved(tmp_path, *steps):
    path = tmp_path / "fast.spinney"
    fast = spinney.accelerate(pipeline(*steps))
    spinney.save(fast, path, unknown_steps="skops")
    return fast, path


@pytest.mark.parametrize(
    ("steps", "types"),
    [
        ([PCA(3)], []),
        ([StandardScaler(), Doubler()], [f"{HERE}.Doubler"]),
        ([Doubler(), PCA(4), Shifter()], [f"{HERE}.Doubler", f"{HERE}.Shifter"]),
        ([make_pipeline(StandardScaler(), Doubler())], [f"{HERE}.Doubler"]),
        ([FunctionTransformer(cubed)], [f"{HERE}.cubed"]),
    ],
)
def test_carried_steps_answer_as_before_once_their_types_are_trusted(
    steps, types, tmp_path
):
    fast, path = saved(tmp_path, *steps)
    with pytest.raises(FormatError, match="trusted") as caught:
        spinney.load(path)
    wanted = ", ".join(repr(one) for one in types)
    assert f"spinney.load(path, trusted=[{wanted}])" in str(caught.value)
    again = spinney.load(path, trusted=types)
    np.testing.assert_array_equal(again.predict_proba(X), fast.predict_proba(X))
    assert again.predictor()(X[0]) == fast.predictor()(X[0])


@pytest.mark.parametrize(
    "kind", [spinney.SequentialVotingClassifier, spinney.CascadeClassifier]
)
def test_early_exit_with_a_carried_step(kind, tmp_path):
    model = kind(FrozenEstimator(pipeline(Doubler())), max_disagreement=0.2)
    model.fit(X, Y)
    path = tmp_path / "early.spinney"
    spinney.save(model, path, unknown_steps="skops")
    again = spinney.load(path, trusted=[f"{HERE}.Doubler"])
    for before, after in zip(
        model.predict_counted(X), again.predict_counted(X), strict=True
    ):
        np.testing.assert_array_equal(before, after)


def test_a_member_of_a_vote_is_carried(tmp_path):
    members = [
        ("trees", RandomForestClassifier(5, max_depth=3, random_state=0)),
        ("inner", pipeline(Doubler())),
        ("near", KNeighborsClassifier(3)),
    ]
    model = VotingClassifier(members, voting="soft").fit(X, Y)
    fast = spinney.accelerate(model)
    path = tmp_path / "vote.spinney"
    with pytest.raises(TypeError, match="unknown_steps"):
        spinney.save(fast, path)
    spinney.save(fast, path, unknown_steps="skops")
    with pytest.raises(FormatError) as caught:
        spinney.load(path, trusted=[])
    assert f"{HERE}.Doubler" in str(caught.value)
    types = skops_types(path)
    again = spinney.load(path, trusted=types)
    np.testing.assert_array_equal(again.predict_proba(X), model.predict_proba(X))


def skops_types(path):
    arrays = decode(np.frombuffer(path.read_bytes(), np.uint8), "it").arrays
    parts = [value.tobytes() for key, value in arrays.items() if "_skops" in key]
    assert parts
    return sorted(
        {one for part in parts for one in skops_io.get_untrusted_types(data=part)}
    )


def test_only_the_types_named_are_loaded(tmp_path):
    _, path = saved(tmp_path, Doubler(), Shifter())
    with pytest.raises(FormatError, match="not trusted") as caught:
        spinney.load(path, trusted=[f"{HERE}.Doubler"])
    reason, hint = str(caught.value).split("Hint")
    assert "Shifter" in reason
    assert "Doubler" not in reason
    assert "Doubler" in hint
    with pytest.raises(FormatError, match="not trusted"):
        spinney.load(path, trusted=["*", HERE, "Doubler", "Shifter"])


def test_nothing_is_carried_without_a_request(tmp_path):
    fast = spinney.accelerate(pipeline(Doubler()))
    path = tmp_path / "fast.spinney"
    with pytest.raises(TypeError, match=r'unknown_steps="skops"'):
        spinney.save(fast, path)
    assert not path.exists()
    # What is known is no matter of skops, so the file takes no trust.
    spinney.save(
        spinney.accelerate(pipeline(StandardScaler())), path, unknown_steps="skops"
    )
    spinney.load(path)


def test_what_skops_cannot_find_again_is_refused_on_saving(tmp_path):
    class Local(Doubler):
        pass

    for step in (Local(), FunctionTransformer(lambda rows: rows)):
        with pytest.raises(TypeError, match="skops cannot store"):
            saved(tmp_path, step)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("trusted", [True, "a.Type", [Doubler], 3])
def test_trusted_must_be_names(trusted, tmp_path):
    _, path = saved(tmp_path, Doubler())
    with pytest.raises(TypeError, match="list of names"):
        spinney.load(path, trusted=trusted)


def test_unknown_steps_must_be_known(tmp_path):
    with pytest.raises(ValueError, match="unknown_steps must be one of"):
        spinney.save(spinney.accelerate(pipeline()), tmp_path / "a", unknown_steps="no")


def test_without_skops_the_error_names_the_extra(tmp_path, monkeypatch):
    fast, path = saved(tmp_path, Doubler())
    monkeypatch.setitem(sys.modules, "skops", None)
    with pytest.raises(ImportError, match=r"spinney\[skops\]"):
        spinney.load(path, trusted=[f"{HERE}.Doubler"])
    with pytest.raises(ImportError, match=r"spinney\[skops\]"):
        spinney.save(fast, path, unknown_steps="skops")


def test_a_version_of_skops_that_can_be_deceived_is_refused(tmp_path, monkeypatch):
    _, path = saved(tmp_path, PCA(2))
    monkeypatch.setattr("skops.__version__", "0.11.0")
    with pytest.raises(ImportError, match=r"0\.12 or newer"):
        spinney.load(path, trusted=[])


def with_bytes(path, content):
    """Put other bytes where the carried step was."""
    contents = decode(np.frombuffer(path.read_bytes(), np.uint8), "it")
    arrays = dict(contents.arrays)
    [key] = [key for key in arrays if "_skops" in key]
    arrays[key] = content
    path.write_bytes(b"".join(encode(Contents(contents[0], contents[1], arrays))))


def rezipped(content, compression=zipfile.ZIP_STORED, edit=lambda schema: schema):
    """Return an archive of skops with another schema."""
    out = streams.BytesIO()
    with (
        zipfile.ZipFile(streams.BytesIO(content)) as old,
        zipfile.ZipFile(out, "w", compression) as new,
    ):
        for name in old.namelist():
            member = old.read(name)
            if name == "schema.json":
                member = json.dumps(edit(json.loads(member))).encode()
            new.writestr(name, member)
    return np.frombuffer(out.getvalue(), np.uint8)


def reduced(schema):
    return schema | {"__loader__": "ReduceNode", "__module__": "os"}


def function(schema):
    return {
        "__class__": "system",
        "__module__": "os",
        "__loader__": "FunctionNode",
        "content": "touch harm",
        "protocol": schema["protocol"],
    }


def deep(schema):
    for _ in range(300):
        schema = {"__loader__": "ListNode", "content": [schema]}
    return schema


@pytest.mark.parametrize(
    "forge",
    [
        lambda good: np.zeros(0, np.uint8),
        lambda good: np.frombuffer(b"PK no archive", np.uint8),
        lambda good: np.frombuffer(good[: len(good) // 2], np.uint8),
        lambda good: np.zeros((2, 2), np.uint8),
        lambda good: np.frombuffer(good + b"\0" * (-len(good) % 8), np.float64),
        lambda good: rezipped(good, zipfile.ZIP_DEFLATED),
        lambda good: rezipped(good, edit=lambda schema: []),
        lambda good: rezipped(good, edit=lambda schema: {}),
        pytest.param(
            lambda good: rezipped(good, edit=lambda schema: schema | {"protocol": 99}),
            marks=pytest.mark.skipif(
                OLDER_SKOPS, reason="before 0.15, skops reads what is newer than itself"
            ),
        ),
        lambda good: rezipped(good, edit=lambda schema: schema | {"content": 3}),
        lambda good: rezipped(good, edit=reduced),
        lambda good: rezipped(good, edit=function),
        lambda good: rezipped(good, edit=deep),
    ],
)
def test_forged_bytes_are_refused_and_run_nothing(forge, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(os, "system", lambda *_: pytest.fail("code was run"))
    _, path = saved(tmp_path, Doubler())
    arrays = decode(np.frombuffer(path.read_bytes(), np.uint8), "it").arrays
    [good] = [value.tobytes() for key, value in arrays.items() if "_skops" in key]
    with_bytes(path, forge(good))
    for trusted in (None, [], [f"{HERE}.Doubler"]):
        with pytest.raises(FormatError):
            spinney.load(path, trusted=trusted)
