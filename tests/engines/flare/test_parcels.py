"""Letters in parts: every letter and answer arrives whole, whatever is lost on the way."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amity.engines.flare import parcels
from amity.engines.flare.parcels import Again, Exchange, Fetch, Got, Mailbox, Pace, Part, Trouble
from amity.federation.transport import Letter


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
    cut=st.integers(0, 60),
    answer=st.binary(max_size=60),
    forget=st.sets(st.integers(0, 20), max_size=3),
)
def test_what_arrives_is_what_was_sent(letter: bytes, cut: int, answer: bytes, forget: set[int]) -> None:
    usual, parcels.LEAST = parcels.LEAST, 7
    try:
        worked: list[bytes] = []

        def work(content: bytes) -> bytes:
            worked.append(content)
            return answer

        found, _ = carried(Exchange("a", lambda: Letter(letter[:cut], letter[cut:])), Mailbox(), work, forget)
        assert found == answer and set(worked) == {letter}
    finally:
        parcels.LEAST = usual


def test_parts_of_another_letter_are_never_mixed_in() -> None:
    box = Mailbox()
    assert box.take(Part("a", 0, 2, 9, b"x"), lambda content: b"") == Got("a", 1)
    assert box.take(Part("b", 1, 2, 9, b"y"), lambda content: b"") == Again("b")
    assert box.take(Fetch("a", 1, 9), lambda content: b"") == Again("a")
    assert box.take(Part("a", 1, 2, 9, b"z"), lambda content: content) == Part("a", 0, 2, 0, b"xz")
    assert box.take(Part("a", 1, 2, 9, b"z"), lambda content: content) == Again("a")  # it was taken before


def test_a_silo_that_claims_to_have_got_what_was_not_sent_gets_the_letter_anew() -> None:
    exchange = Exchange("a", lambda: Letter(bytes(3 * parcels.LEAST)))
    first = exchange.first()
    assert isinstance(first, Part) and len(first.content) == parcels.LEAST
    assert exchange.next(Got("a", 7)) == first


def test_parts_grow_on_a_quick_link_and_are_small_again_on_a_slow_one() -> None:
    pace = Pace()
    sizes = [pace.size]
    for seconds in (0.1, 0.1, 0.1, 1.0, 4.0, 0.1):
        pace.took(seconds)
        sizes.append(pace.size)
    pace.broke()
    assert sizes == [size * 2**20 for size in (4, 16, 16, 16, 16, 4, 16)] and pace.size == 4 * 2**20


def test_trouble_ends_an_exchange_in_words() -> None:
    found, _ = carried(Exchange("a", lambda: Letter(b"letter")), Mailbox(), lambda content: Trouble("its disk is full"))
    assert found == Trouble("its disk is full")


def test_only_the_last_part_waits_for_work() -> None:
    exchange = Exchange("a", lambda: Letter(b""))
    assert exchange.works(Part("a", 1, 2, 9, b"z")) and not exchange.works(Part("a", 0, 2, 9, b"x"))
    assert not exchange.works(Fetch("a", 3, 9))


def test_flare_names_what_it_receives_in_a_word() -> None:
    """Its debug messages would hold all of it."""
    buffers = pytest.importorskip("nvflare.fuel.utils.buffer_list")
    from amity.engines.flare.letters import speak_shortly_of_bytes

    speak_shortly_of_bytes()
    assert f"{buffers.ConsumableBufferList([bytes(1000)] * 2)}" == "<2 buffers>"


@pytest.mark.parametrize(
    "reply", [Again("a"), Part("a", 7, 90, 0, b"x"), Part("b", 0, 9, 0, b"x"), Got("a", 3)], ids=repr
)
def test_a_silo_that_never_takes_its_letter_is_given_up(reply: parcels.Reply) -> None:
    exchange = Exchange("a", lambda: Letter(b"letter"))
    exchange.first()
    found = [exchange.next(reply) for _ in range(parcels.AGAINS + 1)]
    assert all(isinstance(one, Part) for one in found[:-2])
    assert isinstance(found[-1], Trouble) and "letter" in found[-1].words


def test_an_answer_longer_than_it_may_be_is_not_taken() -> None:
    exchange = Exchange("a", lambda: Letter(b"letter"), most=99)
    exchange.first()
    found = exchange.next(Part("a", 0, 100, 0, bytes(100)))
    assert found == Trouble("its answer has 100 bytes, more than the 99 that it may have")
    assert exchange.next(Part("a", 0, 99, 0, bytes(99))) == bytes(99)


@pytest.mark.parametrize("size", [0, 1, parcels.LEAST - 1, parcels.LEAST + 1])
def test_parts_of_an_answer_are_as_large_as_was_asked_for(size: int) -> None:
    """A byte at a time would keep a letter under way for weeks, and the round with it."""
    exchange = Exchange("a", lambda: Letter(b"letter"))
    sent = exchange.first()
    assert exchange.next(Part("a", 0, 3 * parcels.LEAST, 0, bytes(size))) == sent
    assert exchange.next(Part("a", 0, 3 * parcels.LEAST, 0, bytes(parcels.LEAST))) == Fetch(
        "a", parcels.LEAST, parcels.LEAST
    )


def test_what_a_silo_says_of_its_trouble_is_short() -> None:
    exchange = Exchange("a", lambda: Letter(b"letter"))
    exchange.first()
    found = exchange.next(Trouble("no room\n" * 100_000))
    assert isinstance(found, Trouble) and len(found.words) <= parcels.LONGEST and "\n" not in found.words
