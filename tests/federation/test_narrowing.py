"""Numbers that are sent half as wide: what crosses, and what either side makes of it."""

from typing import Literal

import pytest
import torch

from amity.federation.encoding import decode, encode
from amity.federation.messages import Done, Measure, Train, Upload
from amity.federation.narrowing import narrowed, widened


def upload() -> Upload:
    values = {
        "params": torch.tensor([1.0, 1 / 3, -1e-3]),
        "sums": torch.tensor([1 / 3], dtype=torch.float64),
        "counts": torch.tensor([7]),
    }
    return Upload("run", 2, 1, values, 0.5)


@pytest.mark.parametrize(("wire", "relative"), [("float16", 2**-11), ("bfloat16", 2**-8)])
def test_floats_are_rounded_once_and_all_else_stays(wire: Literal["float16", "bfloat16"], relative: float) -> None:
    sent, plain = upload(), encode(upload())
    content = encode(narrowed(sent, wire))
    assert len(plain) - len(content) >= 3 * 2 - 8  # the header may be padded
    got = decode(content)
    assert isinstance(got, Upload)
    back = widened(got, wire)
    assert {key: value.dtype for key, value in back.values.items()} == {k: v.dtype for k, v in sent.values.items()}
    torch.testing.assert_close(back.values["params"], sent.values["params"], rtol=relative, atol=0.0)
    assert not torch.equal(back.values["params"], sent.values["params"])
    assert torch.equal(back.values["sums"], sent.values["sums"]) and torch.equal(
        back.values["counts"], torch.tensor([7])
    )
    assert encode(narrowed(back, wire)) == content  # what was sent once is sent the same way again


def test_float32_is_sent_as_it_is() -> None:
    assert narrowed(upload(), "float32") is not None and encode(narrowed(upload(), "float32")) == encode(upload())


def test_messages_without_numbers_are_left_alone() -> None:
    for message in (Done("run", 1, 0), Measure("run", 1, 0, None), Train("run", 1, 0, {})):
        assert widened(narrowed(message, "bfloat16"), "bfloat16") == message


def test_what_is_too_large_for_float16_is_seen_not_hidden() -> None:
    """Admission refuses numbers that are not finite."""
    large = Upload("run", 1, 0, {"params": torch.tensor([1e6])})
    assert not torch.isfinite(widened(narrowed(large, "float16"), "float16").values["params"]).any()
