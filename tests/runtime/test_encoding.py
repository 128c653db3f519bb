"""Texts are hashed and statistics looked up as by slow and obvious twins."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from spinney.forest.encoder import ABOVE, EQUAL, MULTIPLIER, VALUE, Encoder
from spinney.runtime import city_hash
from spinney.runtime.city_hash import category_hash, category_hashes
from spinney.runtime.encoding import encode_plainly, tables_of
from spinney.runtime.encoding_kernels import encode_rows

WORD = 2**64 - 1


@pytest.fixture(autouse=True)
def _wrapping():
    """Let plain Python wrap around as compiled code does, where nothing is compiled."""
    with np.errstate(over="ignore"):
        yield


def signed(hashes):
    return np.asarray(hashes, dtype=np.uint64).view(np.int64).tolist()


def test_hashes_are_those_of_the_library(tmp_path, monkeypatch):
    catboost = pytest.importorskip("catboost")
    letters = "abcdefghijklmnopqrstuvwxyz0123456789-é"
    rng = np.random.default_rng(0)
    lengths = [*range(70), 127, 128, 129, 191, 192, 193, 300, 1000]
    texts = ["".join(rng.choice(list(letters), n)) for n in lengths]
    X = np.array([[text] for text in texts * 2], dtype=object)
    y = np.arange(len(X)) % 2
    pool = catboost.Pool(X, y, cat_features=[0])
    model = catboost.CatBoostClassifier(
        iterations=1, verbose=False, allow_writing_files=False, one_hot_max_size=1
    )
    # Code for the model lists the hash of every category of the pool.
    model.fit(pool).save_model(str(tmp_path / "m.py"), format="python", pool=pool)
    code = (tmp_path / "m.py").read_text(encoding="utf-8")
    listed = re.findall(r'^    "(.*)": (-?\d+),$', code, re.MULTILINE)
    wanted = {eval(f'b"{text}"'): int(number) for text, number in listed}
    assert len(wanted) == len(set(texts))
    assert signed([category_hash(text) for text in wanted]) == list(wanted.values())
    monkeypatch.setattr(city_hash, "MIN_AT_ONCE", 1)
    assert signed(category_hashes(list(wanted))) == list(wanted.values())


def test_no_texts_and_an_empty_text():
    assert category_hashes([]).shape == (0,)
    assert signed(category_hashes([b""])) == [0x2F90404F]


@given(texts=st.lists(st.binary(max_size=200), max_size=40), length=st.integers(0, 80))
def test_many_texts_have_the_hashes_of_single_ones(texts, length):
    # Cut to the same length, so that some are hashed at once.
    texts += [text[:length] for text in texts] * 5
    wanted = [category_hash(text) for text in texts]
    assert category_hashes(texts).tolist() == wanted


# ---------------------------------------------------------------- looking up


def encoded_by_hand(encoder, numbers, hashes):
    """The obvious twin: Python integers, one key after another."""
    lines, columns = [], encoder.category_columns.tolist()
    for row, own in zip(numbers, hashes, strict=True):
        line = list(row)
        at = 0
        for p in range(encoder.n_projections):
            key = 0
            for q in range(encoder.part_offsets[p], encoder.part_offsets[p + 1]):
                kind, column = encoder.part_kind[q], int(encoder.part_column[q])
                if kind == ABOVE:
                    x = row[column]
                    part = int(x > encoder.part_border[q])
                    if np.isnan(x):
                        part = int(encoder.part_missing_above[q])
                else:
                    part = int(own[columns.index(column)])
                    if kind == EQUAL:
                        part = int(part == int(encoder.part_hash[q]) & WORD)
                key = MULTIPLIER * (key + MULTIPLIER * part) & WORD
            begin, end = encoder.key_offsets[p : p + 2].tolist()
            keys = encoder.keys[begin:end].tolist()
            width = int(encoder.widths[p])
            which = keys.index(key) if key in keys else len(keys)
            line += encoder.lines[
                at + which * width : at + (which + 1) * width
            ].tolist()
            at += (len(keys) + 1) * width
        lines.append(line)
    return np.array(lines, dtype=np.float32)


def key_of(parts):
    key = 0
    for part in parts:
        key = MULTIPLIER * (key + MULTIPLIER * part) & WORD
    return key


@st.composite
def encoders(draw):
    """Draw an encoder of rows of five columns, two of them categories, and rows."""
    seed = draw(st.integers(0, 2**32 - 1))
    rng = np.random.default_rng(seed)
    n_rows = draw(st.integers(0, 12))
    # Few different values, so that some are found.
    pool = np.array([1, -1, 5, 2**31 - 1, -(2**31), 77], dtype=np.int64)
    hashes = rng.choice(pool, (n_rows, 2)).view(np.uint64)
    numbers = rng.choice(
        np.array([0.0, -0.0, 0.5, np.nan, np.inf, -np.inf], np.float32), (n_rows, 5)
    )
    category_columns = [1, 3]
    offsets, flat, keys, widths = [0], [], [], []
    for _ in range(draw(st.integers(0, 4))):
        n_parts = int(rng.integers(1, 4))
        for _ in range(n_parts):
            kind = int(rng.integers(0, 3))
            column = rng.choice([0, 2, 4] if kind == ABOVE else category_columns)
            border = rng.choice([0.0, 0.5, -0.5])
            flat.append((kind, column, border, rng.random() < 0.5, rng.choice(pool)))
        offsets.append(len(flat))
        known = {int(key) for key in rng.integers(0, 2**63, rng.integers(0, 4))}
        for _ in range(int(rng.integers(0, 30))):
            some = [
                int(rng.choice(pool)) & WORD if part[0] == VALUE else rng.integers(2)
                for part in flat[offsets[-2] :]
            ]
            known.add(key_of(map(int, some)))
        keys.append(sorted(known))
        widths.append(int(rng.integers(1, 4)))
    size = sum(
        (len(each) + 1) * width for each, width in zip(keys, widths, strict=True)
    )
    return (
        Encoder(
            category_columns=category_columns,
            part_offsets=offsets,
            part_kind=np.array([part[0] for part in flat], dtype=np.uint8),
            part_column=np.array([part[1] for part in flat], dtype=np.int32),
            part_border=np.array([part[2] for part in flat], dtype=np.float32),
            part_missing_above=np.array([part[3] for part in flat], dtype=bool),
            part_hash=np.array([part[4] for part in flat], dtype=np.int32),
            key_offsets=np.cumsum([0, *map(len, keys)]),
            keys=np.array([key for each in keys for key in each], dtype=np.uint64),
            widths=np.array(widths, dtype=np.int64),
            lines=rng.normal(size=size).astype(np.float32),
        ),
        numbers,
        hashes,
    )


def encoded(encoder, numbers, hashes):
    wide = np.empty((len(numbers), 5 + encoder.n_added), dtype=np.float32)
    numbers.flags.writeable = hashes.flags.writeable = False
    encode_rows(numbers, hashes, tables_of(encoder), wide)
    return wide


@given(drawn=encoders())
def test_rows_are_encoded_as_by_hand(drawn):
    encoder, numbers, hashes = drawn
    wide = encoded(encoder, numbers, hashes)
    by_hand = encoded_by_hand(encoder, numbers, hashes)
    assert np.array_equal(wide, by_hand.reshape(wide.shape), equal_nan=True)
    plain = np.empty_like(wide)
    encode_plainly(numbers, hashes, encoder, plain)
    assert np.array_equal(wide, plain, equal_nan=True)


def test_keys_that_collide_are_told_apart():
    # All keys have the same low bits, so all searches begin at the same slot.
    keys = (np.arange(1, 33, dtype=np.uint64) << np.uint64(32)) | np.arange(
        1, 33, dtype=np.uint64
    )
    inverse = pow(MULTIPLIER, -1, 2**64)
    # The sign-extended hashes of which these are the keys need not be hashes at all.
    hashes = np.array(
        [[int(key) * inverse * inverse & WORD] for key in keys], dtype=np.uint64
    )
    encoder = Encoder(
        category_columns=[0],
        part_offsets=[0, 1],
        part_kind=[VALUE],
        part_column=[0],
        part_border=[0.0],
        part_missing_above=[False],
        part_hash=[0],
        key_offsets=[0, len(keys)],
        keys=keys,
        widths=[1],
        lines=np.arange(33, dtype=np.float32),
    )
    numbers = np.zeros((len(keys), 5), dtype=np.float32)
    assert encoded(encoder, numbers, hashes)[:, 5].tolist() == list(range(32))
