"""Letters as FLARE carries them: our encoded messages as opaque bytes, so that nothing of FLARE's looks into them."""

from __future__ import annotations

from nvflare.apis.shareable import Shareable

LETTER = "amity_letter"  # the name of the one task there is
BEAT_TOPIC = "amity.beat"

_CONTENT, _TROUBLE = "content", "trouble"


def letter_of(content: bytes) -> Shareable:
    """A task's data."""
    letter = Shareable()
    letter[_CONTENT] = content
    return letter


def letter_in(data: Shareable) -> bytes:
    """The bytes in a task's data."""
    content = data.get(_CONTENT)
    return content if isinstance(content, bytes) else b""


reply_of = letter_of


def trouble_of(words: str) -> Shareable:
    """The reply of a silo whose worker gives no answer."""
    reply = Shareable()
    reply[_TROUBLE] = words
    return reply


def trouble_in(reply: Shareable) -> str | None:
    """What keeps a silo from answering; None where it has answered."""
    words = reply.get(_TROUBLE)
    if isinstance(words, str):
        return words
    if not isinstance(reply.get(_CONTENT), bytes):
        return f"it gave no answer ({reply.get_return_code()})"
    return None
