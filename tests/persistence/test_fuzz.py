"""Files that were cut, damaged or forged: refused, or loaded as a valid forest.

Damaged files keep their old checksum and must never load. Forged files are signed
anew with a correct one; those that load must hold a forest that can be walked.
"""

from __future__ import annotations

import json
import time
import tracemalloc

import numpy as np
import pytest

import reference
import spinney
from forging import (
    ITEM_SIZES,
    ODD_SETTINGS,
    join,
    put_odd_number,
    sign,
    split,
    with_arrays,
    with_settings,
)
from spinney import FormatError
from strategies import random_forest


def small_forests():
    """Return forests that together have all there is to have."""
    full = random_forest(
        3,
        n_trees=3,
        depth=3,
        task="sum by class",
        categories="exact",
        zero_is_missing=True,
        feature_names=["a", "ß", "", "日本"],
        source="full",
    )
    return [
        random_forest(1, n_trees=1, shape="stump", n_features=1),
        random_forest(2, n_trees=3, shape="unequal", classes=["no", "yes", "maybe"]),
        full.replace(n_node_samples=np.arange(full.n_nodes, dtype=float)),
        random_forest(4, n_trees=2, depth=3, task="mean numbers"),
    ]


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    return tmp_path_factory.mktemp("fuzz") / "forged.spinney"


@pytest.fixture(scope="module")
def originals(path):
    """The bytes of some small files."""
    blobs = []
    for forest in small_forests():
        spinney.save(forest, path)
        blobs.append(path.read_bytes())
    return blobs


# ------------------------------------------------------------------ judging


def assert_walkable(forest):
    """Assert that rows get through `forest`, without a look at spinney's own checks."""
    seen = set()
    for tree in range(forest.n_trees):
        start, end = map(int, forest.tree_offsets[tree : tree + 2])
        todo = [start]
        while todo:
            node = todo.pop()
            assert start <= node < end
            assert node not in seen
            seen.add(node)
            if forest.feature[node] >= 0:
                assert forest.feature[node] < forest.n_features
                todo += [int(forest.left[node]), int(forest.right[node])]
    assert len(seen) == forest.n_nodes
    for flags in (forest.missing_left, forest.zero_is_missing):
        assert flags is None or set(flags.view(np.uint8).tolist()) <= {0, 1}
    if forest.n_features <= 1_000:
        X = np.zeros((3, forest.n_features))
        X[1], X[2] = np.nan, 33.0
        with np.errstate(all="ignore"):
            raw = reference.raw(forest, X)
            assert raw.shape == (3, forest.n_outputs)
            if forest.classes is not None:
                assert len(forest.classes[forest.winners(raw)].tolist()) == 3


def loads(path, blob):
    """Whether a forged file loads; if so it must hold a valid forest."""
    path.unlink(missing_ok=True)
    path.write_bytes(blob)
    started = time.process_time()
    try:
        forest = spinney.load(path)
    except FormatError as error:
        forest, message = None, str(error)
    assert time.process_time() - started < 5
    if forest is None:
        assert len(message) < 2_000
        return False
    assert_walkable(forest)
    return True


# ------------------------------------------------------------------ damage


def test_no_cut_file_loads(path, originals):
    for length in range(len(originals[0])):
        assert not loads(path, originals[0][:length])
    rng = np.random.default_rng(0)
    for blob in originals[1:]:
        for length in rng.integers(len(blob), size=50):
            assert not loads(path, blob[:length])


def test_no_file_with_a_flipped_bit_loads(path, originals):
    rng = np.random.default_rng(1)
    for position in range(len(originals[0])):
        damaged = bytearray(originals[0])
        damaged[position] ^= 1 << int(rng.integers(8))
        assert not loads(path, bytes(damaged))
    for blob in originals[1:]:
        for position in rng.integers(len(blob), size=100):
            damaged = bytearray(blob)
            damaged[position] ^= int(rng.integers(1, 256))
            assert not loads(path, bytes(damaged))


def test_no_file_with_lost_added_or_moved_bytes_loads(path, originals):
    rng = np.random.default_rng(2)
    for blob in originals:
        for _ in range(30):
            a, b, c = sorted(rng.integers(len(blob) + 1, size=3))
            noise = rng.bytes(int(rng.integers(1, 20)))
            for damaged in (
                blob[:a] + blob[b:],
                blob[:a] + noise + blob[a:],
                blob[:a] + blob[b:c] + blob[a:b] + blob[c:],
                blob[:a] + bytes(b - a) + blob[b:],
                blob + noise,
            ):
                if damaged != blob:
                    assert not loads(path, damaged)


# ------------------------------------------------------------------ forgery


def test_forging_without_a_change_still_loads(path, originals):
    # Otherwise the forged files below would be refused for how they were made.
    for blob in originals:
        assert join(*split(blob)) == blob
        assert with_arrays(blob, lambda arrays: None) == blob
        assert loads(path, with_settings(blob, lambda settings: None))


def test_signed_random_changes_are_refused_or_give_a_valid_forest(path, originals):
    rng = np.random.default_rng(3)
    n_loaded = 0
    for blob in originals:
        body_at = 8 + int.from_bytes(blob[:8], "little")
        for trial in range(150):
            forged = bytearray(blob)
            # Half of them in the header; the checksum is put right afterwards.
            low, high = (8, body_at) if trial % 2 else (body_at, len(blob))
            for position in rng.integers(low, high, size=rng.integers(1, 4)):
                forged[position] = int(rng.integers(256))
            n_loaded += loads(path, sign(bytes(forged)))
    assert n_loaded > 20  # the forgery did get past the checksum


def test_signed_odd_numbers_are_refused_or_give_a_valid_forest(path, originals):
    rng = np.random.default_rng(4)
    n_loaded = n_refused = 0
    for blob in originals:
        names = sorted(set(split(blob)[0]) - {"__metadata__"})
        for name in names:
            for _ in range(12):
                change = put_odd_number(name, rng)
                loaded = loads(path, with_arrays(blob, change))
                n_loaded += loaded
                n_refused += not loaded
    assert n_loaded > 20
    assert n_refused > 100


def test_children_that_make_a_cycle_are_refused(path, originals):
    header, _ = split(originals[2])
    n_nodes = header["left"]["shape"][0]
    for node in range(n_nodes):
        for target in range(n_nodes):
            for side in ("left", "right"):
                changed = []

                def change(arrays, node=node, target=target, side=side, log=changed):
                    array = arrays[side][1]
                    log.append(array[node] != target)
                    array[node] = target

                # One wrong edge: some node then has two parents or none.
                blob = with_arrays(originals[2], change)
                assert loads(path, blob) is not changed[0]


def test_two_nodes_that_only_reach_each_other_are_refused(path, originals):
    spinney.save(random_forest(0, n_trees=1, shape="balanced", depth=3), path)
    blob = path.read_bytes()

    def change(arrays):
        left, right = arrays["left"][1], arrays["right"][1]
        inner = np.flatnonzero(left[1:] >= 0) + 1  # the root stays
        above = next(node for node in inner if left[left[node]] >= 0)
        # Every node keeps exactly one parent, but the subtree comes loose.
        parent = int(np.flatnonzero((left == above) | (right == above))[0])
        side = left if left[parent] == above else right
        side[parent], left[above] = left[above], above

    assert not loads(path, with_arrays(blob, change))


@pytest.mark.parametrize("code", sorted(ITEM_SIZES))
def test_arrays_of_other_types_and_shapes_are_refused(code, path, originals):
    header, _ = split(originals[2])
    for name in sorted(set(header) - {"__metadata__"}):
        if code == header[name]["dtype"]:
            shapes = ((-1, 1, 1), (1, -1), ())
        elif name == "classes":  # may have any of the types
            continue
        else:
            shapes = ((-1,), (-1, 1))
        for shape in shapes:

            def change(arrays, name=name, shape=shape):
                array = arrays[name][1]
                if shape == ():
                    arrays[name] = (code, array.reshape(-1)[:1].reshape(()))
                elif code == arrays[name][0]:
                    arrays[name] = (code, array.reshape(shape))
                else:
                    dtype = f"<{code[0].lower()}{ITEM_SIZES[code]}"
                    dtype = "?" if code == "BOOL" else dtype
                    values = np.ones(array.size).astype(dtype)
                    arrays[name] = (code, values.reshape(shape))

            assert not loads(path, with_arrays(originals[2], change))


def test_missing_arrays_and_settings_are_refused(path, originals):
    optional = {"zero_is_missing", "tree_output", "n_node_samples", "classes"}
    for blob in originals:
        header, _ = split(blob)
        for name in set(header) - {"__metadata__"} - optional:
            assert not loads(
                path, with_arrays(blob, lambda arrays, n=name: arrays.pop(n))
            )
        for name in json.loads(header["__metadata__"]["settings"]):
            forged = with_settings(blob, lambda settings, n=name: settings.pop(n) and 0)
            assert not loads(path, forged)
        for name in header["__metadata__"]:
            changed = {**header, "__metadata__": dict(header["__metadata__"])}
            del changed["__metadata__"][name]
            assert not loads(path, join(changed, split(blob)[1]))


def test_odd_settings_are_refused_or_give_a_valid_forest(path, originals):
    n_loaded = 0
    for blob in originals:
        settings = json.loads(split(blob)[0]["__metadata__"]["settings"])
        for name in settings:
            for value in ODD_SETTINGS:
                forged = with_settings(
                    blob, lambda s, n=name, v=value: s.update({n: v})
                )
                loaded = loads(path, forged)
                assert not loaded or type(value) is type(settings[name])
                n_loaded += loaded
    assert n_loaded > 20


def test_unknown_settings_arrays_metadata_and_kinds_are_refused(path, originals):
    for blob in originals:
        assert not loads(path, with_settings(blob, lambda s: s.update(extra=1)))
        forged = with_arrays(blob, lambda a: a.update(extra=("F64", np.zeros(3))))
        assert not loads(path, forged)
        header, body = split(blob)
        header["__metadata__"]["note"] = "x"
        assert not loads(path, join(header, body))
        for kind in ("", "Forest", "spinney.forest.Forest", "os.system", "forest\0"):
            header, body = split(blob)
            header["__metadata__"]["kind"] = kind
            assert not loads(path, join(header, body))


def forge_setting_text(text):
    return lambda blob: with_settings(blob, lambda settings: text)


def forge_header(**changes):
    """Forge the entry of `left` in the header."""

    def forged(blob):
        header, body = split(blob)
        header["left"] |= changes
        return join(header, body)

    return forged


def forge_text(old, new):
    """Forge the text of the header, where `old` occurs first."""

    def forged(blob):
        header = json.dumps(split(blob)[0], separators=(",", ":"))
        assert old in header
        return join(header.replace(old, new, 1), split(blob)[1])

    return forged


def claim_length(length):
    return lambda blob: length.to_bytes(8, "little") + blob[8:]


def swap_two(blob):
    # The same bytes twice: `right` read from where `left` is.
    header, body = split(blob)
    header["right"]["data_offsets"] = header["left"]["data_offsets"]
    return join(header, body)


def shift_data(blob):
    # A header that is no multiple of 8 bytes would put every number out of line.
    header, body = split(blob)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8 + 1)
    return sign(len(text).to_bytes(8, "little") + text + body)


def narrow_first(blob):
    # Flags in front of the numbers: offsets fit, but the numbers lie out of line.
    header, body = split(blob)
    metadata = {"__metadata__": header.pop("__metadata__")}
    flags = header.pop("missing_left")
    start, end = flags["data_offsets"]
    size = end - start
    flags["data_offsets"] = [0, size]
    for entry in header.values():
        if entry["data_offsets"][0] < start:
            entry["data_offsets"] = [place + size for place in entry["data_offsets"]]
    body = body[start:end] + body[:start] + body[end:]
    return join(metadata | {"missing_left": flags} | header, body)


def leave_gap(blob):
    header, body = split(blob)
    last = max(header.values(), key=lambda entry: entry.get("data_offsets", [0])[0])
    last["data_offsets"] = [place + 8 for place in last["data_offsets"]]
    size = last["data_offsets"][1] - last["data_offsets"][0]
    return join(header, body[:-size] + bytes(8) + body[-size:])


def far_apart(blob):
    def change(arrays):
        arrays["category_words"] = ("U32", np.zeros((0, 2**40), np.uint32))

    return with_arrays(blob, change)


FORGERIES = {
    "header beyond the end": claim_length(10**6),
    "header of 2**63 bytes": claim_length(2**63),
    "header of 2**64 - 1 bytes": claim_length(2**64 - 1),
    "header of no bytes": claim_length(0),
    "header over the limit": lambda blob: with_settings(
        blob, lambda settings: settings.update(source="x" * 2**20)
    ),
    "header without metadata": lambda blob: join(
        '{"checksum":"' + "0" * 64 + '"}', b""
    ),
    "metadata that is a list": forge_text(
        '"__metadata__":{', '"__metadata__":[],"x":{'
    ),
    "metadata that is a number": forge_text('"kind":"forest"', '"kind":1'),
    "format of zero": forge_text('_format":"1"', '_format":"0"'),
    "format with blanks": forge_text('_format":"1"', '_format":" 1"'),
    "format of other digits": forge_text('_format":"1"', '_format":"\\u0661"'),
    "format that is a number": forge_text('_format":"1"', '_format":1'),
    "format of many digits": forge_text('_format":"1"', f'_format":"{"9" * 9_999}"'),
    "the same array twice": forge_text(
        '"left":', '"left":{"dtype":"I32","shape":[0],"data_offsets":[0,0]},"left":'
    ),
    "the same metadata twice": forge_text('"kind":', '"kind":"forest","kind":'),
    "checksum in another place": forge_text('{"checksum"', '{ "checksum"'),
    "blanks in the header": forge_text('"left":', '"left": '),
    "a shape written as 1e1": forge_text('"shape":[', '"shape":[1e1,'),
    "nested lists in the header": forge_text('"shape":[', f'"shape":{"[" * 200_000}'),
    "nested objects in the header": forge_text("{", '{"a":' * 150_000),
    "unfinished text of escapes": forge_text('"left":', '"' + '\\"' * 400_000),
    "very many empty lists": forge_text('"shape":[', f'"shape":[{"[]," * 100_000}'),
    "nested lists in the settings": forge_setting_text("[" * 500_000),
    "nested objects in the settings": forge_setting_text('{"a":' * 100_000),
    "settings that are a list": forge_setting_text("[]"),
    "settings that are no JSON": forge_setting_text("import os"),
    "settings with NaN": forge_text('\\"link_scale\\":1.0', '\\"link_scale\\":NaN'),
    "settings with Infinity": forge_text(
        '\\"link_scale\\":1.0', '\\"link_scale\\":Infinity'
    ),
    "settings beyond floats": forge_text(
        '\\"link_scale\\":1.0', '\\"link_scale\\":1e999'
    ),
    "settings with endless digits": forge_text(
        '\\"n_features\\":4', f'\\"n_features\\":{"9" * 100_000}'
    ),
    "the same setting twice": forge_text(
        '\\"n_features\\":4', '\\"n_features\\":4,\\"n_features\\":4'
    ),
    "unknown type": forge_header(dtype="I33"),
    "type that is a list": forge_header(dtype=["I32"]),
    "no type": forge_header(dtype=None),
    "brain float": forge_header(dtype="BF16"),
    "huge shape": forge_header(shape=[2**40]),
    "shape that overflows": forge_header(shape=[2**32, 2**32]),
    "shape that overflows to the right size": forge_header(shape=[2**62 + 1, 4]),
    "negative shape": forge_header(shape=[-1]),
    "two negative sizes": forge_header(shape=[-3, -7]),
    "shape of floats": forge_header(shape=[21.0]),
    "shape of flags": forge_header(shape=[True, 21]),
    "shape of a thousand axes": forge_header(shape=[1] * 1_000),
    "shape that is a number": forge_header(shape=21),
    "empty array with a huge axis": far_apart,
    "offsets beyond the end": forge_header(data_offsets=[0, 2**60]),
    "negative offsets": forge_header(data_offsets=[-84, 0]),
    "offsets the wrong way round": forge_header(data_offsets=[84, 0]),
    "offsets that are texts": forge_header(data_offsets=["0", "84"]),
    "no offsets": forge_header(data_offsets=None),
    "an entry too many": forge_header(extra=1),
    "overlapping arrays": swap_two,
    "a gap between arrays": leave_gap,
    "numbers out of line": narrow_first,
    "data out of line": shift_data,
    "bytes after the end": lambda blob: sign(blob + b"\0"),
    "a byte too few": lambda blob: sign(blob[:-1]),
    "no data": lambda blob: sign(blob[: 8 + int.from_bytes(blob[:8], "little")]),
    "an entry that is a list": forge_text('"left":{', '"left":[],"x":{'),
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_forged_headers_are_refused_at_once_and_without_much_memory(
    forgery, path, originals
):
    blob = FORGERIES[forgery](originals[2])
    assert blob != originals[2]
    tracemalloc.start()
    started = time.perf_counter()
    try:
        assert not loads(path, blob)
        assert tracemalloc.get_traced_memory()[1] < 64 * 2**20
    finally:
        tracemalloc.stop()
    assert time.perf_counter() - started < 10


def test_numbers_of_features_and_outputs_beyond_all_models_are_refused(path, originals):
    for n_features in (2**31, 2**63, 10**30):
        forged = with_settings(
            originals[0], lambda settings, n=n_features: settings.update(n_features=n)
        )
        assert not loads(path, forged)
    for n_outputs in (2**20 + 1, 2**31, 10**30):
        forged = with_settings(
            originals[2], lambda settings, n=n_outputs: settings.update(n_outputs=n)
        )
        assert not loads(path, forged)


def test_flags_other_than_0_and_1_are_refused(path, originals):
    for name in ("missing_left", "zero_is_missing"):
        for byte in (2, 128, 255):

            def change(arrays, name=name, byte=byte):
                arrays[name][1].view(np.uint8)[-1] = byte

            assert not loads(path, with_arrays(originals[2], change))


def test_odd_texts_are_refused(path, originals):
    def letters(codes):
        return lambda arrays: arrays.update(classes_text=("U32", codes))

    for codes in (
        np.full((3, 2), 0xD800, np.uint32),
        np.full((3, 2), 0x110000, np.uint32),
        np.full((3, 2), 2**32 - 1, np.uint32),
        np.zeros((3, 0), np.uint32),
        np.zeros((0, 3), np.uint32),
        np.full(3, 97, np.uint32),
    ):
        assert not loads(path, with_arrays(originals[1], letters(codes)))

    def both(arrays):
        arrays["classes"] = ("I64", np.arange(3))

    assert not loads(path, with_arrays(originals[1], both))

    def names(ends, letters=b"abcd"):
        def change(arrays):
            arrays["feature_names_ends"] = ("I64", np.array(ends, np.int64))
            arrays["feature_names_utf8"] = ("U8", np.frombuffer(letters, np.uint8))

        return with_arrays(originals[2], change)

    assert loads(path, names([1, 2, 3, 4]))
    assert not loads(path, names([1, 2, 3, 5]))
    assert not loads(path, names([1, 2, 3, 3]))
    assert not loads(path, names([1, 3, 2, 4]))
    assert not loads(path, names([-1, 2, 3, 4]))
    assert not loads(path, names([-(2**63), 2**63 - 1, 3, 4]))
    assert not loads(path, names([1, 2, 4]))
    assert not loads(path, names([]))
    assert not loads(path, names([], b""))
    assert not loads(path, names([1, 2, 3, 4], b"ab\xff\xfe"))
    assert not loads(path, names([1, 2, 3, 4], "aßb".encode()))  # cut in a letter


def test_a_chain_of_nodes_beyond_the_depth_limit_is_refused_in_a_moment(
    path, originals
):
    n_nodes = 400_001
    node = np.arange(n_nodes)
    inner = (node % 2 == 0) & (node < n_nodes - 1)

    def change(arrays):
        arrays["tree_offsets"] = ("I64", np.array([0, n_nodes]))
        arrays["feature"] = ("I32", np.where(inner, 0, -1).astype(np.int32))
        arrays["left"] = ("I32", np.where(inner, node + 1, -1).astype(np.int32))
        arrays["right"] = ("I32", np.where(inner, node + 2, -1).astype(np.int32))
        arrays["threshold"] = ("F64", np.zeros(n_nodes))
        arrays["missing_left"] = ("BOOL", np.zeros(n_nodes, bool))
        arrays["value"] = ("F64", np.zeros((n_nodes, arrays["value"][1].shape[1])))

    path.write_bytes(with_arrays(originals[0], change))
    started = time.perf_counter()
    with pytest.raises(FormatError, match="levels"):
        spinney.load(path)
    assert time.perf_counter() - started < 5
