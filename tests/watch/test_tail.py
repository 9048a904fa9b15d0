"""Files that grow while they are read."""

from __future__ import annotations

from pathlib import Path

from amity.watch.tail import LineTail, Tail, last_lines


def add(path: Path, content: bytes) -> None:
    with path.open("ab") as file:
        file.write(content)


def test_each_look_gives_what_is_new(tmp_path: Path) -> None:
    file = tmp_path / "log"
    tail = LineTail(file)
    assert tail.look() == (False, [])  # it is not there yet
    add(file, b"one\ntw")
    assert tail.look() == (False, [b"one"])
    assert tail.look() == (False, [])
    add(file, b"o\nthree\n")
    assert tail.look() == (False, [b"two", b"three"])
    assert tail.look() == (False, [])


def test_a_file_that_was_cut_begins_anew(tmp_path: Path) -> None:
    file = tmp_path / "log"
    tail = LineTail(file)
    add(file, b"one\ntwo\nthree\n")
    tail.look()
    file.write_bytes(b"one\ntwo\n")
    assert tail.look() == (True, [b"one", b"two"])


def test_a_file_that_was_cut_and_has_grown_again_begins_anew(tmp_path: Path) -> None:
    """A run that is resumed between two looks: the file is longer than before, and not the one that was read."""
    file = tmp_path / "log"
    tail = LineTail(file)
    add(file, b"one\ntwo\n")
    tail.look()
    file.write_bytes(b"one\n2222\nthree\n")
    assert tail.look() == (True, [b"one", b"2222", b"three"])


def test_a_file_that_was_removed_is_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "log"
    tail = LineTail(file)
    add(file, b"one\n")
    tail.look()
    file.unlink()
    assert tail.look() == (True, [])
    add(file, b"two\n")
    assert tail.look() == (False, [b"two"])


def test_only_the_end_of_an_old_file_is_read(tmp_path: Path) -> None:
    file = tmp_path / "log"
    add(file, b'{"a": 1}\n' * 100)
    tail = LineTail(file, most=22)  # two lines, and the end of one
    assert tail.look() == (False, [b'{"a": 1}'] * 2)
    add(file, b'{"b": 2}\n')
    assert tail.look() == (False, [b'{"b": 2}'])


def test_pieces_that_are_not_complete_are_taken_back(tmp_path: Path) -> None:
    file = tmp_path / "parts"
    tail = Tail(file)
    add(file, b"abcde")
    assert tail.look().content == b"abcde"
    tail.take_back(1)
    add(file, b"f")
    assert tail.look() == (False, b"ef")


def test_last_lines_of_a_log(tmp_path: Path) -> None:
    file = tmp_path / "log"
    assert last_lines(file, 3) == []
    add(file, b"".join(b"line %d \xff\n" % number for number in range(5000)))
    assert last_lines(file, 2) == ["line 4998 \ufffd", "line 4999 \ufffd"]
