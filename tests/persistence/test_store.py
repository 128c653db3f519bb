"""Saving and loading: round trips, messages, and files that are always whole."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import mmap
import os
import pickle
import signal
import stat
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import safetensors
import safetensors.numpy
from hypothesis import given

import reference
import spinney
from spinney import FormatError
from spinney.persistence import container
from spinney.persistence.fields import forest_from_parts, forest_to_parts
from spinney.persistence.kinds import KINDS
from strategies import forests, random_forest, random_rows

posix_only = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


def assert_same(one, other):
    """Assert that two forests are equal, bit for bit and type for type."""
    for field in dataclasses.fields(spinney.Forest):
        a, b = getattr(one, field.name), getattr(other, field.name)
        assert type(a) is type(b), field.name
        if isinstance(a, np.ndarray):
            assert a.dtype == b.dtype, field.name
            assert a.shape == b.shape, field.name
            assert a.tobytes() == b.tobytes(), field.name
        else:
            assert a == b, field.name


def round_trip(forest, folder):
    path = folder / "round_trip.spinney"
    spinney.save(forest, path)
    return spinney.load(path)


def full_forest(**changes):
    """Return a forest that has all there is to have."""
    arguments = {
        "task": "sum by class",
        "categories": "floor",
        "zero_is_missing": True,
        "base_score": [0.1, -0.0, 1e300],
        "base_added": "last",
        "link": "softmax",
        "link_scale": 0.1,
        "model_predicts": "probability",
        "decides_by": "probability",
        "input_dtype": "float64",
        "sum_dtype": "float32",
        "feature_names": ["Länge", "", "two\nlines", "日本\0"],
        "unseen_category": "error",
        "missing_value": -999.0,
        "absent": "missing",
        "source": 'über "quotes" \\ and 🌲',
    }
    forest = random_forest(3, **(arguments | changes))
    return forest.replace(
        n_node_samples=np.arange(forest.n_nodes) / 3,
        categories=[None, ["b\0", "", "日本"], [-3, 2**63 - 1], [False, True]],
    )


# ------------------------------------------------------------------ round trips


@given(forest=forests())
def test_every_forest_comes_back_bit_for_bit(forest, folder):
    assert_same(forest, round_trip(forest, folder))


def test_all_optional_parts_come_back_bit_for_bit(tmp_path):
    forest = full_forest()
    missing = {
        field.name
        for field in dataclasses.fields(forest)
        if getattr(forest, field.name) is None
    }
    # Curves are for two classes and a single score, encoders for float32 rows without
    # codes; `tests/readers/test_catboost_categories.py` saves them.
    assert missing == {"curve", "encoder"}
    assert_same(forest, round_trip(forest, tmp_path))


def test_a_loaded_model_answers_as_the_original(cancer_model, tmp_path):
    model, X = cancer_model
    loaded = round_trip(spinney.read_model(model), tmp_path)
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))
    np.testing.assert_array_equal(
        loaded.winners(reference.raw(loaded, X[:20])), model.predict(X[:20])
    )


@pytest.mark.parametrize(
    "labels",
    [
        np.array([3, -1, 7]),
        np.array([0, 2**64 - 1, 5], dtype=np.uint64),
        np.array([1, 2, 3], dtype=np.int8),
        np.array([1, 2, 3], dtype=np.uint16),
        np.array([0.1, -0.0, np.inf]),
        np.array([0.1, 2, 3], dtype=np.float32),
        np.array([0.5, 2, 3], dtype=np.float16),
        np.array([False, True, False]),
        np.array(["no", "ja", "🌲 oui"]),
        np.array(["", "a", "a\0b"], dtype="<U17"),
    ],
    ids=lambda labels: labels.dtype.name,
)
def test_class_labels_keep_their_type(labels, tmp_path):
    forest = random_forest(classes=labels)
    loaded = round_trip(forest, tmp_path)
    assert loaded.classes.dtype == labels.dtype
    assert loaded.classes.tobytes() == labels.tobytes()


def test_python_texts_as_class_labels_stay_python_texts(tmp_path):
    labels = np.array(["short", "a longer one", ""], dtype=object)
    loaded = round_trip(random_forest(classes=labels), tmp_path)
    assert loaded.classes.dtype == np.dtype(object)
    assert loaded.classes.tolist() == labels.tolist()
    assert {type(label) for label in loaded.classes} == {str}


def test_labels_of_the_other_byte_order_come_back_with_equal_values(tmp_path):
    for labels in (np.array([1, 256, 3], dtype=">i4"), np.array(list("abc"), ">U2")):
        loaded = round_trip(random_forest(classes=labels), tmp_path)
        assert loaded.classes.dtype == labels.dtype.newbyteorder("=")
        np.testing.assert_array_equal(loaded.classes, labels)


@pytest.mark.parametrize(
    ("labels", "error", "match"),
    [
        (np.array(["2020-01-01"] * 3, "M8[D]"), TypeError, "datetime64"),
        (np.array([b"a", b"b", b"c"]), TypeError, "dtype"),
        (np.array([1j, 2, 3]), TypeError, "complex128"),
        (np.array([1, 2, 3], np.longdouble), TypeError, "dtype"),
        (np.array(["a", 1, None], object), TypeError, "object 1 of type int"),
        (np.array([1, 2, 3], object), TypeError, "Convert the labels"),
        (np.array(["a", "b", "c\0"], object), ValueError, "null characters"),
        (np.array(["a", "b", "\ud800"]), ValueError, "Unicode"),
    ],
)
def test_labels_that_cannot_be_kept_are_refused_before_writing(
    labels, error, match, tmp_path
):
    with pytest.raises(error, match=match):
        spinney.save(random_forest(classes=labels), tmp_path / "model.spinney")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "changes",
    [{"source": "\udcff"}, {"feature_names": ["a", "b", "c", "\udcff"]}],
)
def test_texts_that_are_no_unicode_are_refused_before_writing(changes, tmp_path):
    with pytest.raises((TypeError, ValueError), match="Unicode"):
        spinney.save(random_forest(**changes), tmp_path / "model.spinney")
    assert list(tmp_path.iterdir()) == []


def test_settings_beyond_the_limit_of_the_header_are_refused_on_saving(tmp_path):
    with pytest.raises(ValueError, match="limit"):
        spinney.save(random_forest(source="x" * 2**20), tmp_path / "model.spinney")
    assert list(tmp_path.iterdir()) == []


def test_many_long_feature_names_are_no_problem(tmp_path):
    names = [f"{column}_{'x' * (column % 90)}" for column in range(50_000)]
    forest = random_forest(n_features=len(names), feature_names=names)
    assert round_trip(forest, tmp_path).feature_names == tuple(names)


def test_objects_of_other_types_are_refused_with_a_list_of_those_that_can_be_saved(
    tmp_path,
):
    class Subclass(spinney.Forest):
        pass

    forest = random_forest()
    for obj in ({"a": 1}, None, Subclass(**forest.__getstate__())):
        with pytest.raises(TypeError, match=r"of these types: .*Forest"):
            spinney.save(obj, tmp_path / "model.spinney")
    assert list(tmp_path.iterdir()) == []


# ------------------------------------------------------------------ the format


@pytest.mark.parametrize(("kind", "entry"), KINDS.items())
def test_the_table_of_kinds_names_every_class_where_it_is(kind, entry):
    module, _, name = entry.partition(":")
    cls = getattr(importlib.import_module(module), name)
    # Saving compares the two, so a class that moves must move in the table too.
    assert f"{cls.__module__}:{cls.__qualname__}" == entry
    if kind != "forest":
        assert callable(cls.__spinney_save__)
        assert callable(cls.__spinney_load__)


def test_every_class_that_can_be_saved_is_in_the_table():
    known = {
        name
        for name in spinney.__all__
        if hasattr(getattr(spinney, name), "__spinney_save__")
    }
    assert known | {"Forest"} == {entry.partition(":")[2] for entry in KINDS.values()}


def test_a_forest_is_saved_and_loaded_without_the_rooms(tmp_path):
    spinney.save(full_forest(), tmp_path / "forest")
    code = f"""
    import sys
    from spinney.persistence import load, save
    before = set(sys.modules)
    save(load({str(tmp_path / "forest")!r}), {str(tmp_path / "again")!r})
    print(*sorted(n for n in set(sys.modules) - before if n.startswith("spinney")))
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split() == []


def test_saving_the_same_forest_gives_the_same_bytes(tmp_path):
    spinney.save(full_forest(), tmp_path / "a")
    spinney.save(spinney.load(tmp_path / "a"), tmp_path / "b")
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_a_threshold_that_never_had_an_effect_does_not_hurt(tmp_path):
    forest = full_forest()
    settings, arrays = forest_to_parts(forest)
    settings["decision_threshold"] = 5e-324
    assert forest_from_parts(settings, arrays).decision_threshold == 0.0


def test_the_file_is_what_the_document_says(tmp_path):
    # Written out by hand after docs/format.md: a stump with two classes.
    settings = (
        '{"aggregation":"vote","base_added":"first","category_rule":"exact",'
        '"decides_by":"raw","decision_threshold":0.0,"input_dtype":"float32",'
        '"link":"identity","link_scale":1.0,"n_features":2,"n_outputs":2,"source":"",'
        '"sum_dtype":"float64"}'
    )
    metadata = {
        "checksum": "0" * 64,
        "kind": "forest",
        "settings": settings,
        "spinney_format": "1",
        "spinney_version": spinney.__version__,
    }
    arrays = {
        "base_score": np.array([0.0, 0.0]),
        "threshold": np.array([0.5, 0.0, 0.0]),
        "tree_offsets": np.array([0, 3]),
        "value": np.array([[0.5, 0.5], [1.0, 0.0], [0.0, 1.0]]),
        "classes_text": np.array([[ord("n"), ord("o")], [ord("y"), 0]], np.uint32),
        "feature": np.array([1, -1, -1], np.int32),
        "left": np.array([1, -1, -1], np.int32),
        "right": np.array([2, -1, -1], np.int32),
        "missing_left": np.array([True, False, False]),
    }
    codes = {"float64": "F64", "int64": "I64", "int32": "I32", "uint32": "U32"}
    codes["bool"] = "BOOL"
    header, end = {"__metadata__": metadata}, 0
    for name, array in arrays.items():
        start, end = end, end + array.nbytes
        header[name] = {"dtype": codes[array.dtype.name], "shape": list(array.shape)}
        header[name]["data_offsets"] = [start, end]
    text = json.dumps(header, separators=(",", ":"))
    text += " " * (-len(text) % 8)
    start = len(text).to_bytes(8, "little")
    body = b"".join(array.tobytes() for array in arrays.values())
    digest = hashlib.sha256(start + text.encode() + body).hexdigest()
    written = start + text.replace("0" * 64, digest, 1).encode() + body

    (tmp_path / "by_hand").write_bytes(written)
    forest = spinney.load(tmp_path / "by_hand")
    assert reference.raw(forest, [[0, 0.5], [0, 0.6], [0, np.nan]]).tolist() == [
        [1, 0],
        [0, 1],
        [1, 0],
    ]
    assert forest.classes.tolist() == ["no", "y"]
    spinney.save(forest, tmp_path / "by_spinney")
    assert (tmp_path / "by_spinney").read_bytes() == written


@given(forest=forests(max_trees=3, max_depth=4))
def test_the_safetensors_library_reads_the_file(forest, folder):
    path = folder / "for_others.safetensors"
    spinney.save(forest, path)
    tensors = safetensors.numpy.load_file(path)
    for name in ("threshold", "left", "missing_left", "value"):
        np.testing.assert_array_equal(tensors[name], getattr(forest, name))
    with safetensors.safe_open(path, "np") as file:
        metadata = file.metadata()
    assert metadata["kind"] == "forest"
    assert metadata["spinney_format"] == "1"
    assert json.loads(metadata["settings"])["n_features"] == forest.n_features


def test_arrays_stay_in_the_mapped_file(tmp_path):
    loaded = round_trip(full_forest(), tmp_path)
    for name in (*spinney.forest.ARRAYS, "base_score"):
        array = getattr(loaded, name)
        assert array.flags.aligned, name
        assert not array.flags.writeable, name
        while isinstance(array, np.ndarray):
            assert not array.flags.owndata, name
            array = array.base
        assert isinstance(array.obj, mmap.mmap), name


def test_a_loaded_forest_can_be_pickled(tmp_path):
    loaded = round_trip(full_forest(), tmp_path)
    assert_same(loaded, pickle.loads(pickle.dumps(loaded)))


# ------------------------------------------------------------------ loading


def load_error(path, error=FormatError):
    with pytest.raises(error) as caught:
        spinney.load(path)
    assert repr(str(path)) in str(caught.value)
    return str(caught.value)


def test_what_is_no_spinney_file_is_named(tmp_path):
    path = tmp_path / "model.spinney"
    assert "There is no file" in load_error(path, FileNotFoundError)
    assert "There is no file" in load_error("x\0y", FileNotFoundError)
    assert "is a directory" in load_error(tmp_path, IsADirectoryError)
    path.write_bytes(b"")
    assert "is empty" in load_error(path)
    for content in (b"tree\nversion=v4\n", b"\0" * 100, b"{}", b'{"learner":{}}'):
        path.write_bytes(content)
        assert "not written by spinney.save" in load_error(path)
    for protocol in range(2, 6):
        path.write_bytes(pickle.dumps({"a": np.arange(9)}, protocol))
        message = load_error(path)
        assert "pickle" in message
        assert "read_model" in message


@pytest.mark.parametrize("metadata", [None, {"format": "pt"}])
def test_a_safetensors_file_of_somebody_else_is_named_as_such(metadata, tmp_path):
    path = tmp_path / "weights.safetensors"
    safetensors.numpy.save_file({"weight": np.zeros(3)}, path, metadata)
    assert "spinney.save did not write it" in load_error(path)


def test_a_spinney_file_rewritten_by_the_safetensors_library_is_refused(tmp_path):
    path = tmp_path / "model.spinney"
    spinney.save(full_forest(), path)
    with safetensors.safe_open(path, "np") as file:
        metadata = file.metadata()
    tensors = safetensors.numpy.load_file(path)
    safetensors.numpy.save_file(tensors, path, metadata)
    assert "checksum" in load_error(path)


def test_a_newer_format_asks_for_an_upgrade(tmp_path, monkeypatch):
    path = tmp_path / "model.spinney"
    with monkeypatch.context() as patch:
        patch.setattr(container, "FORMAT", 4)
        spinney.save(random_forest(), path)
    assert load_error(path) == (
        f"{str(path)!r} has format 4, this spinney ({spinney.__version__}) reads "
        "format 1.\nHint: upgrade spinney."
    )
    monkeypatch.setattr(container, "FORMAT", 3)
    assert "reads formats 1 to 3" in load_error(path)


@posix_only
def test_a_pipe_or_device_is_refused_without_waiting(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    assert "pipe" in load_error(tmp_path / "pipe")
    assert "device" in load_error("/dev/zero")
    with pytest.raises(OSError, match="pipe"):
        spinney.save(random_forest(), tmp_path / "pipe")
    assert stat.S_ISFIFO(os.stat(tmp_path / "pipe").st_mode)


def test_paths_must_be_texts():
    for path in (None, 3, b"model.spinney"):
        with pytest.raises(TypeError, match="path must be"):
            spinney.load(path)
        with pytest.raises(TypeError, match="path must be"):
            spinney.save(random_forest(), path)


@posix_only
def test_a_loaded_forest_outlives_the_replacement_of_its_file(tmp_path):
    path = tmp_path / "model.spinney"
    old, new = full_forest(), random_forest(9)
    spinney.save(old, path)
    loaded = spinney.load(path)
    spinney.save(new, path)
    assert_same(loaded, old)
    again = spinney.load(path)
    spinney.save(again, path)  # onto the very file that it is mapped from
    path.unlink()
    assert_same(again, new)


# ------------------------------------------------------------------ saving


def test_where_nothing_can_be_saved_the_error_says_why(tmp_path, monkeypatch):
    forest = random_forest()
    with pytest.raises(IsADirectoryError, match="Pass the name of a file"):
        spinney.save(forest, tmp_path)
    with pytest.raises(FileNotFoundError, match="There is no directory"):
        spinney.save(forest, tmp_path / "missing" / "model.spinney")
    (tmp_path / "file").touch()
    with pytest.raises(FileNotFoundError, match="There is no directory"):
        spinney.save(forest, tmp_path / "file" / "model.spinney")

    # The tests may run as root, whom permissions do not stop.
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patch:
        opener = "spinney.persistence.atomic_write.open"
        patch.setattr(opener, refuse, raising=False)
        with pytest.raises(PermissionError, match="make a file in the directory"):
            spinney.save(forest, tmp_path / "model.spinney")
    with monkeypatch.context() as patch:
        patch.setattr(os, "access", lambda *_: False)
        with pytest.raises(PermissionError, match="make the file writable"):
            spinney.save(forest, tmp_path / "file")
    assert [path.name for path in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b""


@pytest.mark.parametrize("function", ["fsync", "replace"])
@pytest.mark.parametrize("error", [OSError("disk full"), KeyboardInterrupt()])
def test_an_error_while_saving_leaves_the_old_file_and_nothing_else(
    function, error, tmp_path, monkeypatch
):
    path = tmp_path / "model.spinney"
    old = random_forest(1)
    spinney.save(old, path)

    def fail(*_):
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, function, fail)
        with pytest.raises(type(error)):
            spinney.save(random_forest(2), path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.spinney"]
    assert_same(spinney.load(path), old)


@posix_only
def test_a_full_disk_leaves_the_old_file_and_nothing_else(tmp_path):
    resource = pytest.importorskip("resource")
    path = tmp_path / "model.spinney"
    old = random_forest(1)
    spinney.save(old, path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, limits[1]))
    try:
        with pytest.raises(OSError, match="File too large"):
            spinney.save(random_forest(2, n_trees=50), path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.spinney"]
    assert_same(spinney.load(path), old)


KILLED_WHILE_SAVING = """
import os, signal, sys
import spinney
from spinney.persistence import store

def die(*_):
    os.kill(os.getpid(), signal.SIGKILL)

def dying(chunks, after):
    for number, chunk in enumerate(chunks):
        if number == after:
            die()
        yield chunk

def save_until(point):
    if point == "replaced":
        replace = os.replace
        os.replace = lambda *paths: (replace(*paths), die())
    elif point in ("fsync", "replace"):
        setattr(os, point, die)
    else:
        write, after = store.write_atomically, int(point)
        store.write_atomically = lambda path, chunks: write(path, dying(chunks, after))
    spinney.save(forest, point + "/model.spinney")

forest = spinney.load("new.spinney")
for point in sys.argv[1:]:
    child = os.fork()  # quicker than a new process, and as easily killed
    if child == 0:
        save_until(point)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@posix_only
def test_a_process_killed_while_saving_leaves_a_whole_file(tmp_path):
    old = random_forest(1)
    # Large enough that parts of it have reached the disk by the fifth array.
    new = random_forest(2, n_trees=300, depth=40)
    spinney.save(new, tmp_path / "new.spinney")
    points = ["0", "5", "fsync", "replace", "replaced"]
    for point in points:
        (tmp_path / point).mkdir()
        spinney.save(old, tmp_path / point / "model.spinney")
    done = subprocess.run(
        [sys.executable, "-c", KILLED_WHILE_SAVING, *points],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, sys.path))},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.stdout.split() == [str(-signal.SIGKILL)] * len(points), done.stderr
    for point in points:
        after, left = old, {".spinney", ".partial"}
        if point == "replaced":
            after, left = new, {".spinney"}
        assert_same(spinney.load(tmp_path / point / "model.spinney"), after)
        assert {entry.suffix for entry in (tmp_path / point).iterdir()} == left


def test_readers_see_a_whole_file_while_several_threads_save(tmp_path):
    path = tmp_path / "model.spinney"
    # Different sizes, so that a mixture would be noticed even without a checksum.
    several = [random_forest(seed, n_trees=5 + seed) for seed in range(4)]
    spinney.save(several[0], path)
    problems = []

    def save_often(forest):
        try:
            for _ in range(15):
                spinney.save(forest, path)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=save_often, args=(one,)) for one in several]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        loaded = spinney.load(path)
        assert_same(loaded, several[loaded.n_trees - 5])
    for thread in threads:
        thread.join()
    assert problems == []
    assert [entry.name for entry in tmp_path.iterdir()] == ["model.spinney"]


@posix_only
def test_permissions_follow_the_umask_or_the_file_that_is_replaced(tmp_path):
    path = tmp_path / "model.spinney"
    for umask, expected in ((0o022, 0o644), (0o077, 0o600), (0o002, 0o664)):
        before = os.umask(umask)
        try:
            spinney.save(random_forest(), path)
        finally:
            os.umask(before)
        assert stat.S_IMODE(path.stat().st_mode) == expected
        path.unlink()
    spinney.save(random_forest(), path)
    path.chmod(0o640)
    spinney.save(random_forest(1), path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


@posix_only
def test_a_symbolic_link_stays_and_its_target_is_replaced(tmp_path):
    (tmp_path / "models").mkdir()
    target = tmp_path / "models" / "v1.spinney"
    link = tmp_path / "current.spinney"
    link.symlink_to("models/v1.spinney")
    for seed in range(2):  # the link points to nothing, then to a file
        forest = random_forest(seed)
        spinney.save(forest, link)
        assert link.is_symlink()
        assert not target.is_symlink()
        assert_same(spinney.load(target), forest)
        assert_same(spinney.load(link), forest)
    (tmp_path / "circle").symlink_to("circle")
    with pytest.raises(OSError, match="symbolic link"):
        spinney.save(random_forest(), tmp_path / "circle")
    assert (tmp_path / "circle").is_symlink()


def test_read_model_reads_saved_forests(tmp_path):
    path = tmp_path / "model.spinney"
    forest = random_forest()
    spinney.save(forest, path)
    assert_same(spinney.read_model(path), forest)
    rows = random_rows(forest, 5)
    np.testing.assert_array_equal(
        reference.raw(spinney.read_model(path), rows), reference.raw(forest, rows)
    )
