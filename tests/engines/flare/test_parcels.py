"""Letters in parts: every letter and answer arrives whole, whatever is lost on the way."""

from hypothesis import given
from hypothesis import strategies as st

from amity.engines.flare import parcels
from amity.engines.flare.parcels import Again, Exchange, Fetch, Got, Mailbox, Part, Trouble


def carried(exchange: Exchange, mailbox: Mailbox, work, forget=()):  # type: ignore[no-untyped-def]
    """Play a whole exchange; the silo's process starts anew before the steps in `forget`."""
    sent, steps = exchange.first(), 0
    while True:
        if steps in forget:
            mailbox = Mailbox()
        reply = mailbox.take(sent, work)
        found = exchange.next(reply)
        steps += 1
        assert steps < 1000
        if isinstance(found, bytes | Trouble):
            return found, steps
        sent = found


@given(
    letter=st.binary(max_size=60),
    answer=st.binary(max_size=60),
    forget=st.sets(st.integers(0, 20), max_size=3),
)
def test_what_arrives_is_what_was_sent(letter: bytes, answer: bytes, forget: set[int]) -> None:
    usual, parcels.PART = parcels.PART, 7
    try:
        worked: list[bytes] = []

        def work(content: bytes) -> bytes:
            worked.append(content)
            return answer

        found, _ = carried(Exchange("a", letter), Mailbox(), work, forget)
        assert found == answer and set(worked) == {letter}
    finally:
        parcels.PART = usual


def test_parts_of_another_letter_are_never_mixed_in() -> None:
    box = Mailbox()
    assert box.take(Part("a", 0, 2, b"x"), lambda content: b"") == Got("a", 0)
    assert box.take(Part("b", 1, 2, b"y"), lambda content: b"") == Again("b")
    assert box.take(Fetch("a", 1), lambda content: b"") == Again("a")
    assert box.take(Part("a", 1, 2, b"z"), lambda content: content) == Part("a", 0, 1, b"xz")
    assert box.take(Part("a", 1, 2, b"z"), lambda content: content) == Again("a")  # it was taken before


def test_trouble_ends_an_exchange_in_words() -> None:
    found, _ = carried(Exchange("a", b"letter"), Mailbox(), lambda content: Trouble("its disk is full"))
    assert found == Trouble("its disk is full")


def test_only_the_last_part_waits_for_work() -> None:
    exchange = Exchange("a", b"")
    assert exchange.works(Part("a", 1, 2, b"")) and not exchange.works(Part("a", 0, 2, b""))
    assert not exchange.works(Fetch("a", 3))
