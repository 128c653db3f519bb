"""A file is written whole or not at all, whenever the writing is interrupted."""

from __future__ import annotations

import pytest

from spinney.persistence import atomic_write
from spinney.persistence.atomic_write import write_atomically


def test_an_interruption_as_the_file_is_made_leaves_nothing_behind(
    tmp_path, monkeypatch
):
    # Python handles a signal when the call in which it came has returned: the file is
    # there by then, its name not yet bound to anything.
    def interrupted(*arguments):
        open(*arguments).close()
        raise KeyboardInterrupt

    path = tmp_path / "answers.csv"
    path.write_text("old")
    with monkeypatch.context() as patch:
        patch.setattr(atomic_write, "open", interrupted, raising=False)
        with pytest.raises(KeyboardInterrupt):
            write_atomically(str(path), [b"new"])
    assert [entry.name for entry in tmp_path.iterdir()] == ["answers.csv"]
    assert path.read_text() == "old"


def test_an_interruption_between_two_chunks_leaves_nothing_behind(tmp_path):
    def chunks():
        yield b"new"
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        write_atomically(str(tmp_path / "answers.csv"), chunks())
    assert list(tmp_path.iterdir()) == []


def test_a_file_gets_the_permissions_that_any_new_file_gets(tmp_path):
    (tmp_path / "plain").touch()
    write_atomically(str(tmp_path / "ours"), [b"new"])
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "plain").stat().st_mode
