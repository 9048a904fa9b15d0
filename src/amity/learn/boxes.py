"""Boxes that one silo packs for another, and that whoever carries them cannot open.

Each silo draws a pair of keys (X25519) and tells the public one. From its own private key and the other's public key
either side derives the same secret, which encrypts and authenticates one box (HKDF with SHA-256, ChaCha20-Poly1305).

That holds against a carrier who reads along. One who puts public keys of its own in place of the silos' could open
boxes: nothing here says whose a public key is.
"""

from __future__ import annotations

from amity.errors import InputError

PUBLIC = 32
PRIVATE = 32
TAG = 16
"""Bytes by which a box is longer than what is in it."""

_PURPOSE = b"amity encrypted attention 1"


def new_private() -> bytes:
    """A private key, from the operating system's randomness."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.generate().private_bytes_raw()


def public_of(private: bytes) -> bytes:
    """The public key that belongs to a private one."""
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def packed(content: bytes, private: bytes, to: bytes) -> bytes:
    """A box for whoever has the private key of this public one."""
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    # Both private keys are new in every run and pack one box for each other at most: the nonce never comes twice.
    return ChaCha20Poly1305(_shared(private, to, public_of(private), to)).encrypt(bytes(12), content, None)


def opened(box: bytes, private: bytes, by: bytes) -> bytes:
    """What is in a box that the owner of a public key has packed; InputError where it was not packed for this silo."""
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

    try:
        return ChaCha20Poly1305(_shared(private, by, by, public_of(private))).decrypt(bytes(12), box, None)
    except InvalidTag:
        raise InputError("a box with the key was changed or is another silo's: begin the run anew") from None


def _shared(private: bytes, public: bytes, sender: bytes, receiver: bytes) -> bytes:
    from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    try:
        secret = X25519PrivateKey.from_private_bytes(private).exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:
        raise InputError("a public key is none: begin the run anew") from None
    return HKDF(SHA256(), 32, None, _PURPOSE + sender + receiver).derive(secret)
