"""The one encoding of messages, for every engine: JSON for what is small, safetensors for what is large.

What comes from elsewhere is trusted in no part: a message of an unknown kind, with other fields or of other types than
its own, cut short or with something added, is refused.

    amity/1 | length of the header | header (JSON) | tensors (safetensors)

Instead of bringing tensors, a header may name an earlier letter that has brought them: `held.py`.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any, NamedTuple, get_args

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from amity.contract import State
from amity.errors import RefusedUpload
from amity.federation.messages import (
    VERDICTS,
    Answer,
    Ask,
    Blame,
    Commit,
    Failed,
    Measured,
    Message,
    Told,
    Train,
    Upload,
)
from amity.finite import LARGEST, TOO_LARGE

KINDS: dict[str, type[Any]] = {kind.__name__: kind for kind in (*get_args(Message), *get_args(Answer))}

MAGIC = b"amity/1\n"
_TENSORS = ("down", "values")  # the fields that hold tensors
_LETTER = "letter"  # in such a field: the hash of the letter that has brought them

LONGEST_HEADER = 1 << 20  # bytes; a header holds a few numbers and words
LONGEST_TURN = 1e9  # seconds; thirty years


def encode(message: Message | Answer) -> bytes:
    """The bytes of a message: a line that says the version, a JSON header with its length, then tensors (safetensors).

    Raises TypeError or ValueError where a value is none that can be sent.
    """
    return b"".join((encoded_header(message), encoded_tensors(message)))


def encoded_header(message: Message | Answer, letter: str | None = None) -> bytes:
    """The bytes of a message without its tensors; `letter`: the hash of an earlier letter that has brought them."""
    header: dict[str, Any] = {"message": type(message).__name__}
    for name, value in message._asdict().items():
        if name in _TENSORS and value is not None:
            header[name] = {"tensors": sorted(value)} if letter is None else {_LETTER: letter}
        else:
            header[name] = value
    text = json.dumps(header, separators=(",", ":")).encode()
    return MAGIC + len(text).to_bytes(4, "big") + text


def encoded_tensors(message: Message | Answer | None) -> bytes:
    """The bytes of a message's tensors alone, or of none."""
    tensors: State = {}
    for name, value in (message._asdict() if message is not None else {}).items():
        if name in _TENSORS and value is not None:
            tensors |= {f"{name}/{key}": _sendable(key, item) for key, item in value.items()}
    return safetensors.torch.save(apart(tensors))


def digest(message: Message | Answer) -> str:
    """A hash of all that a message says, without encoding it: what is equal has the same."""
    found = hashlib.sha256(encoded_header(message))
    for name in _TENSORS:
        for key, value in sorted((getattr(message, name, None) or {}).items()):
            item = _sendable(key, value)
            found.update(f"{name}/{key}:{item.dtype}:{tuple(item.shape)}".encode())
            found.update(item.reshape(-1).view(torch.uint8).numpy().data)
    return found.hexdigest()


def _sendable(key: object, value: object) -> Tensor:
    """A tensor as it is sent: in main memory, row by row."""
    if not isinstance(key, str) or not isinstance(value, Tensor):
        raise TypeError(f"{key!r} is no name of a tensor, or is none")
    if value.layout is not torch.strided or value.is_meta or value.is_quantized or value.is_complex():
        raise ValueError(f"{key} is no dense tensor of real numbers")
    if value.requires_grad:
        raise ValueError(f"{key} still carries gradients")
    return value.cpu().contiguous()


class Unheld(RefusedUpload):
    """A message refers to tensors of an earlier letter that is not held here."""

    def __init__(self, run: str, round: int, silo: int) -> None:
        super().__init__("a message refers to a letter that is not held here: send its tensors")
        self.head = run, round, silo


Look = Callable[[str], State | None]
"""Finds the tensors of an earlier letter by its hash; None where they are not held."""


def decode(content: bytes, held: Look = lambda letter: None) -> Message | Answer:
    """The message of these bytes. Whatever is no message is refused, without being trusted in any part.

    Raises Unheld, a RefusedUpload, where it refers to tensors that `held` does not find.
    """
    try:
        if content[: len(MAGIC)] != MAGIC:
            raise ValueError("it does not begin as a message of this version")
        start = len(MAGIC) + 4
        length = int.from_bytes(content[len(MAGIC) : start], "big")
        if length > LONGEST_HEADER or start + length > len(content):
            raise ValueError("its header is cut short or too long")
        header = json.loads(content[start : start + length])
        kind = KINDS[header.pop("message")]
        loaded = safetensors.torch.load(content[start + length :])
        # Clones: what lies inside other bytes may be aligned otherwise, and sums of it then differ in the last bit.
        found = {key: loaded.pop(key).clone() for key in list(loaded)}
        return _checked(kind, header, found, held)
    except (KeyError, TypeError, ValueError, AttributeError, SafetensorError, RecursionError) as error:
        reason = f"a message cannot be read ({error})"
        raise RefusedUpload(f"{reason}: it is cut short, damaged or of another version") from None


class Title(NamedTuple):
    """What a message is, without its contents."""

    kind: str
    run: str
    round: int
    letter: str = ""  # the hash of the earlier letter whose tensors it refers to, if it does


def title(content: bytes) -> Title:
    """The title of a message, read from its header alone: its tensors are not looked at, nor is it trusted."""
    try:
        start = len(MAGIC) + 4
        header = json.loads(content[start : start + int.from_bytes(content[len(MAGIC) : start], "big")])
        tensors = header.get("down") or {}
        return Title(str(header["message"]), str(header["run"]), int(header["round"]), str(tensors.get(_LETTER, "")))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return Title("what is no message", "", 0)


_WANTED: dict[str, tuple[type, ...]] = {
    "run": (str,),
    "round": (int,),
    "silo": (int,),
    "document": (str,),
    "member": (str,),
    "summary": (str,),
    "layout": (str,),
    "asked": (int,),
    "pending": (int, type(None)),
    "examples": (int,),
    "seconds": (float, int),
    "name": (str,),
    "size": (int,),
    "group": (int, type(None)),
    "main": (float, int),
    "loss": (float, int),
    "metrics": (dict,),
    "val": (float, int, type(None)),
    "train_loss": (float, int, type(None)),
    "failed": (bool,),
    "withheld": (bool,),
    "words": (str,),
    "verdict": (str, type(None)),
    "blame": (str,),
}


def _checked(kind: type[Any], header: dict[str, Any], tensors: State, held: Look) -> Message | Answer:
    """A message of this kind, with exactly its fields, each of its type."""
    if set(header) != set(kind._fields):
        raise ValueError(f"a {kind.__name__} has the fields {', '.join(kind._fields)}")
    fields: dict[str, Any] = {}
    for name, value in sorted(header.items(), key=lambda field: field[0] in _TENSORS):  # tensors last
        if name in _TENSORS:
            fields[name] = None if value is None else _tensors(name, value, tensors, held)
            if value is not None and fields[name] is None:
                raise Unheld(fields["run"], fields["round"], fields["silo"])
            continue
        if type(value) not in _WANTED[name]:
            raise ValueError(f"{name} is no {_WANTED[name][0].__name__}")
        fields[name] = value
    if tensors:
        raise ValueError("it brings tensors that its header does not name")
    if (fields.get("verdict") or "accepted") not in VERDICTS or fields["round"] < 0 or fields["silo"] < 0:
        raise ValueError("a number or a word is out of range")
    numbers = [*fields.values(), *(fields["metrics"].values() if kind is Measured else ())]
    if any(isinstance(number, int) and abs(number) > LARGEST for number in numbers):
        raise ValueError(TOO_LARGE)
    if kind is Measured and not all(type(number) in (int, float) for number in fields["metrics"].values()):
        raise ValueError("metrics are numbers")
    if kind is Upload and not 0 <= fields["seconds"] <= LONGEST_TURN:
        raise ValueError("seconds are out of range")
    if kind is Commit and fields["verdict"] is None or kind is Failed and fields["blame"] not in get_args(Blame):
        raise ValueError("a word is out of range")
    if kind in (Train, Ask) and fields["down"] is None or kind in (Upload, Told) and fields["values"] is None:
        raise ValueError("tensors are missing")
    message: Message | Answer = kind(**fields)
    return message


def _tensors(field: str, named: dict[str, Any], brought: State, held: Look) -> State | None:
    """The tensors of a field: those that were brought, or those of an earlier letter; None where that is not held."""
    if field == "down" and _LETTER in named:
        (letter,) = named.values()
        return held(str(letter))
    return {key: brought.pop(f"{field}/{key}") for key in named["tensors"]}


def apart(tensors: State) -> State:
    """The same tensors, those that share storage with another copied: a file of tensors holds each by itself."""
    seen: set[int] = set()
    out = {}
    for key, value in tensors.items():
        place = value.untyped_storage().data_ptr()
        out[key] = value.clone() if place in seen else value
        seen.add(place)
    return out
