"""Letters as FLARE carries them: parts of our encoded messages as opaque bytes, so that nothing of FLARE's looks into
them."""

from __future__ import annotations

from contextlib import suppress

from nvflare.apis.shareable import Shareable

from amity.engines.flare.parcels import Again, Fetch, Got, Part, Reply, Sent, Trouble

LETTER = "amity_letter"  # the name of the one task there is
BEAT_TOPIC = "amity.beat"
PROCESS = "amity_process"  # the mark of the server's process, in its answer to a sign of life

_KINDS: dict[str, type[Sent | Reply]] = {kind.__name__: kind for kind in (Part, Fetch, Got, Again, Trouble)}
_TYPES: dict[str, type] = {"letter": str, "content": bytes, "words": str}
_TYPES |= {"start": int, "total": int, "most": int, "end": int}
_KIND = "amity"


def packed(value: Sent | Reply) -> Shareable:
    """What FLARE carries."""
    out = Shareable()
    out[_KIND] = type(value).__name__
    out.update(value._asdict())
    return out


def unpacked(data: Shareable) -> Sent | Reply:
    """What FLARE has carried; trouble where it is something else."""
    kind = _KINDS.get(str(data.get(_KIND)))
    if kind is None:
        return Trouble(f"it gave no answer ({data.get_return_code()})")
    fields = {name: data.get(name) for name in kind._fields}
    if any(not isinstance(value, _TYPES[name]) for name, value in fields.items()):
        return Trouble("it gave an answer that cannot be read: look at its version")
    return kind(**fields)


def forget(*carried: Shareable) -> None:
    """Drop the bytes of parts that were carried: FLARE's own books keep tasks and replies for as long as they like."""
    for data in carried:
        data.pop("content", None)


def speak_shortly_of_bytes() -> None:
    """Have FLARE name what it receives in a word, for this whole process.

    It writes all of it into a debug message, whether anybody reads that or not: 16 MB make a text of 48 million
    letters, which takes longer than all the rest of their way and keeps every other thread waiting.
    """
    with suppress(ImportError):  # another version of FLARE may have no such lists
        from nvflare.fuel.utils.buffer_list import ConsumableBufferList

        ConsumableBufferList.__repr__ = lambda self: f"<{len(self)} buffers>"
