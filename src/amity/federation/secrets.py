"""A silo's own secret: randomness that nobody else can predict.

The keyed streams of a run (`learn/streams.py`) are public: whoever knows the seed knows every draw, which is what makes
a run repeatable. Sampling and noise that are to protect a silo's examples must not be known to the server. They come
from here: a key that a silo draws for itself, keeps in its own folder and never sends.
"""

from __future__ import annotations

import hashlib
import hmac
import os
import secrets
from pathlib import Path

from torch import Generator

from amity.learn.secret_numbers import SecretNumbers

BYTES = 32


class Secret:
    """A silo's key, and the streams of random numbers that follow from it."""

    def __init__(self, key: bytes) -> None:
        self._key = key

    @classmethod
    def fresh(cls) -> Secret:
        """A secret from the operating system's randomness: new every time."""
        return cls(secrets.token_bytes(BYTES))

    @classmethod
    def kept_in(cls, file: Path) -> Secret:
        """The secret in a file that its owner alone may read; the first call makes it."""
        try:
            handle = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        except FileExistsError:
            return cls(file.read_bytes())
        with os.fdopen(handle, "wb") as out:
            key = secrets.token_bytes(BYTES)
            out.write(key)
            out.flush()
            os.fsync(out.fileno())
        return cls(key)

    def stream(self, role: str, round: int, epoch: int = 0) -> Generator:
        """Random numbers for this purpose in this round: the same when asked again, unknown to everybody else."""
        digest = hmac.new(self._key, f"{role}/{round}/{epoch}".encode(), hashlib.sha256).digest()
        return Generator().manual_seed(int.from_bytes(digest[:8], "big") >> 1)

    def numbers(self, role: str) -> SecretNumbers:
        """Random numbers that were never drawn before, also at a silo that takes a lost turn again.

        Whoever had two sums with the same noise could take it away.
        """
        once = secrets.token_bytes(BYTES)
        return SecretNumbers(hmac.new(self._key, role.encode() + once, hashlib.sha256).digest())

    def __repr__(self) -> str:
        return "Secret(...)"  # never in a log
