"""Boxes: whoever they are packed for opens them, and nobody else."""

from __future__ import annotations

import pytest

from amity.contract import InputError
from amity.learn.boxes import PUBLIC, TAG, new_private, opened, packed, public_of


def test_a_box_is_opened_by_whoever_it_was_packed_for() -> None:
    one, other = new_private(), new_private()
    box = packed(b"the key", one, public_of(other))
    assert opened(box, other, public_of(one)) == b"the key"
    assert len(box) == len(b"the key") + TAG and b"the key" not in box and len(public_of(one)) == PUBLIC
    own = packed(b"mine", one, public_of(one))
    assert opened(own, one, public_of(one)) == b"mine"


def test_nobody_else_opens_it() -> None:
    one, other, carrier = new_private(), new_private(), new_private()
    box = packed(b"the key", one, public_of(other))
    with pytest.raises(InputError, match="was changed or is another silo's"):
        opened(box, carrier, public_of(one))
    with pytest.raises(InputError, match="was changed"):
        opened(box, other, public_of(carrier))
    for at in range(len(box)):
        with pytest.raises(InputError, match="was changed"):
            opened(box[:at] + bytes([box[at] ^ 1]) + box[at + 1 :], other, public_of(one))


def test_a_public_key_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match="a public key is none"):
        packed(b"the key", new_private(), bytes(PUBLIC))
