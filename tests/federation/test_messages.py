"""Messages: what is encoded comes back, and whatever is no message is refused, in one way."""

from __future__ import annotations

import json
import math
import struct
from typing import Any, get_args

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small import same

from amity.errors import RefusedUpload
from amity.federation.encoding import KINDS, LONGEST_HEADER, LONGEST_TURN, MAGIC, decode, digest, encode
from amity.federation.messages import (
    VERDICTS,
    Answer,
    Ask,
    Commit,
    Declined,
    Describe,
    Described,
    Done,
    Failed,
    Finish,
    Forgotten,
    Hello,
    Joined,
    Keep,
    Left,
    Measure,
    Measured,
    Message,
    Propose,
    Standing,
    Summarise,
    Summarised,
    Told,
    Train,
    Upload,
)

DTYPES = [torch.float64, torch.float32, torch.int64, torch.bool, torch.float16]


@st.composite
def states(draw: Any) -> dict[str, torch.Tensor]:
    out = {}
    for key in draw(st.lists(st.text(min_size=1, max_size=8), unique=True, max_size=3)):
        shape = draw(st.lists(st.integers(0, 3), max_size=3))
        numbers = torch.randn(shape, generator=torch.Generator().manual_seed(draw(st.integers(0, 9))))
        out[key] = (numbers * 4).to(draw(st.sampled_from(DTYPES)))
    return out


names = st.text(max_size=12)
whole = st.integers(0, 2**31)
numbers = st.floats(allow_nan=True, allow_infinity=True)
maybe = st.none() | numbers
head = (names, whole, whole)
MESSAGES = {
    Summarise: st.builds(Summarise, *head, names),
    Summarised: st.builds(Summarised, *head, names),
    Describe: st.builds(Describe, *head, names),
    Described: st.builds(Described, *head, names),
    Propose: st.builds(Propose, *head, names),
    Hello: st.builds(Hello, *head, whole, st.none() | st.sampled_from(VERDICTS)),
    Train: st.builds(Train, *head, states()),
    Ask: st.builds(Ask, *head, states()),
    Told: st.builds(Told, *head, states()),
    Commit: st.builds(Commit, *head, st.sampled_from(VERDICTS)),
    Measure: st.builds(Measure, *head, st.none() | states()),
    Keep: st.builds(Keep, *head, st.none() | states()),
    Joined: st.builds(Joined, *head, names, whole, st.none() | whole),
    Standing: st.builds(Standing, *head, st.none() | whole, names),
    Upload: st.builds(Upload, *head, states(), st.floats(0, LONGEST_TURN)),
    Measured: st.builds(
        Measured, *head, whole, numbers, numbers, st.dictionaries(names, numbers), maybe, maybe, st.booleans()
    ),
    Finish: st.builds(Finish, *head),
    Done: st.builds(Done, *head),
    Declined: st.builds(Declined, *head, names),
    Left: st.builds(Left, *head),
    Forgotten: st.builds(Forgotten, *head),
    Failed: st.builds(Failed, *head, st.sampled_from(["input", "code", "upload"]), names),
}
messages = st.one_of(*MESSAGES.values())


def alike(one: Any, other: Any) -> bool:
    """NaN is NaN, tensors are compared to the last bit."""
    if isinstance(one, dict) and any(isinstance(value, torch.Tensor) for value in one.values()):
        return same(one, other)
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return bool(one == other) and type(one) is type(other)


def test_every_kind_is_tried() -> None:
    assert set(MESSAGES) == set(KINDS.values()) == {*get_args(Message), *get_args(Answer)}


@given(messages, messages)
def test_messages_have_the_same_digest_if_they_are_the_same(one: Any, other: Any) -> None:
    assert digest(one) == digest(decode(encode(one)))
    assert (digest(one) == digest(other)) == (encode(one) == encode(other))


@given(messages)
def test_a_message_comes_back_as_it_was(message: Any) -> None:
    back = decode(encode(message))
    assert type(back) is type(message)
    assert all(alike(a, b) for a, b in zip(message, back, strict=True)), (message, back)


def refused_or_message(content: bytes) -> None:
    """Nothing else may come out, whatever comes in."""
    try:
        found = decode(content)
    except RefusedUpload as error:
        assert "\n" not in str(error) and str(error).startswith("a message cannot be read (")
    else:
        assert type(found) in KINDS.values()


@given(st.binary(max_size=200))
def test_random_bytes_are_refused(content: bytes) -> None:
    for bytes_ in (content, MAGIC + content, MAGIC + struct.pack(">I", len(content)) + content):
        with pytest.raises(RefusedUpload):
            decode(bytes_)


@given(messages, st.data())
def test_a_message_that_is_cut_short_is_refused(message: Any, data: Any) -> None:
    content = encode(message)
    with pytest.raises(RefusedUpload):
        decode(content[: data.draw(st.integers(0, len(content) - 1))])


@given(messages, st.data())
def test_a_flipped_bit_gives_a_message_or_a_refusal(message: Any, data: Any) -> None:
    """In a number or a name it is another message, which admission looks at; elsewhere it is none."""
    content = bytearray(encode(message))
    for place in data.draw(st.lists(st.integers(0, 8 * len(content) - 1), min_size=1, max_size=3)):
        content[place // 8] ^= 1 << place % 8
    refused_or_message(bytes(content))


@given(st.recursive(st.none() | st.booleans() | numbers | names, lambda x: st.lists(x) | st.dictionaries(names, x)))
def test_any_json_as_header_is_refused(header: Any) -> None:
    text = json.dumps(header).encode()
    with pytest.raises(RefusedUpload):
        decode(MAGIC + struct.pack(">I", len(text)) + text)


def header_of(**changes: Any) -> bytes:
    """A commit with other fields."""
    fields = {"message": "Commit", "run": "r", "round": 1, "silo": 0, "verdict": "accepted", **changes}
    text = json.dumps({key: value for key, value in fields.items() if value != "leave out"}).encode()
    return MAGIC + struct.pack(">I", len(text)) + text + (8).to_bytes(8, "little") + b"{}      "


def test_the_header_is_checked_field_by_field() -> None:
    assert decode(header_of()) == Commit("r", 1, 0, "accepted")
    wrong: list[dict[str, Any]] = [
        {"message": "Commits"},
        {"message": ["Commit"]},
        {"message": {}},
        {"run": 3},
        {"round": 1.0},
        {"round": True},
        {"round": -1},
        {"silo": -1},
        {"silo": "0"},
        {"verdict": "perhaps"},
        {"verdict": None},
        {"more": 1},
        {"run": "leave out"},
    ]
    for changes in wrong:
        with pytest.raises(RefusedUpload):
            decode(header_of(**changes))


@pytest.mark.parametrize(
    "answer",
    [
        Measured("r", 1, 0, 10**400, 1.0, 1.0, {}),
        Measured("r", 1, 0, 5, 10**400, 1.0, {}),
        Measured("r", 1, 0, 5, 1.0, 1.0, {"auroc": -(10**400)}),
        Measured("r", 1, 0, 5, 1.0, 1.0, {"auroc": True}),
        Standing("r", 2**63, 0),
        Upload("r", 1, 0, {}, 10**400),
        Upload("r", 1, 0, {}, -1.0),
        Upload("r", 1, 0, {}, math.inf),
        Upload("r", 1, 0, {}, math.nan),
    ],
    ids=str,
)
def test_numbers_that_nothing_can_be_made_of_are_refused(answer: Any) -> None:
    """JSON has whole numbers without an end, and whoever makes a float of one fails."""
    with pytest.raises(RefusedUpload, match="19 digits|out of range|metrics are numbers"):
        decode(encode(answer))


def test_a_failure_blames_something_that_is_known() -> None:
    content = encode(Failed("r", 1, 0, "code", "words")).replace(b'"code"', b'"luck"')
    with pytest.raises(RefusedUpload, match="out of range"):
        decode(content)


def test_a_header_that_claims_to_be_huge_is_refused_before_it_is_read() -> None:
    with pytest.raises(RefusedUpload, match="too long"):
        decode(MAGIC + struct.pack(">I", LONGEST_HEADER + 1) + b" " * 100)
    deep = b"[" * 100_000
    with pytest.raises(RefusedUpload):
        decode(MAGIC + struct.pack(">I", len(deep)) + deep)


@pytest.mark.parametrize(
    "value",
    [
        torch.zeros(2).to_sparse(),
        torch.zeros(2, device="meta"),
        torch.zeros(2, dtype=torch.complex128),
        torch.zeros(2, requires_grad=True),
        [0.0],
        None,
    ],
)
def test_what_cannot_be_sent_is_said_by_the_sender(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        encode(Upload("r", 1, 0, {"params": value}))


@pytest.mark.parametrize("values", [[], [("params", torch.zeros(1))], {7: torch.zeros(1)}, "params", 3])
def test_what_is_no_state_cannot_be_sent(values: Any) -> None:
    with pytest.raises((TypeError, ValueError, AttributeError)):
        encode(Upload("r", 1, 0, values))


def test_tensors_that_share_storage_are_sent_by_themselves() -> None:
    whole_ = torch.arange(6.0)
    back = decode(encode(Upload("r", 1, 0, {"a": whole_[:3], "b": whole_[2:], "c": whole_.view(2, 3).T})))
    assert isinstance(back, Upload)
    assert same(back.values, {"a": whole_[:3], "b": whole_[2:], "c": whole_.view(2, 3).T})
