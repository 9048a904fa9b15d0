"""Numbers that can be computed with but not read: CKKS, by TenSEAL's interface to Microsoft SEAL.

    silos     have the secret key: they encrypt vectors, and decrypt inner products and mixtures
    server    has keys for evaluation alone, with which nothing can be decrypted

Parameters. Polynomials of degree 8192 over three primes of 60 bits, one of them for the switching of keys: 180 bits,
where the homomorphic encryption standard allows 218 at 128 bits of security against classical attacks. Numbers are
scaled by 2^50. One product of two vectors has the scale 2^100 under 120 bits, which leaves room for inner products up
to 2^18. Vectors are encrypted by the secret key and not by a public one: the error is about 2^7 times smaller, and a
letter half as long, as half of a fresh ciphertext is random and can be sent as its seed.

An inner product sums the blocks of both vectors first, then all places of the one block that is left: whoever decrypts
it gets one number and no partial sums. It comes out with an error that depends on the key, so it is returned only after
noise has been added to it that hides the error, FLOOD times as large (Li and Micciancio, EUROCRYPT 2021, have the
attack; Li, Micciancio, Schultz and Sorrell, CRYPTO 2022, the remedy). docs/encrypted.md says what follows.

TenSEAL is an extra (`amity[encrypted]`), and is imported here alone. Only SEAL's own format is read, which checks what
it reads: no pickle.
"""

from __future__ import annotations

import functools
import importlib.util
import math
import secrets
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from amity.errors import InputError
from amity.learn.padding import HEAD, padded, unpadded
from amity.learn.passage import Passage

DEGREE = 8192
PRIMES = (60, 60, 60)
SCALE = 2.0**50
SLOTS = DEGREE // 2
"""Numbers in one block."""

GENERATOR = 3
"""Its powers, modulo twice the degree, are the automorphisms that turn the places of a block, in SEAL."""

ERROR = 300 / SCALE
"""The deviation of the error in one encrypted number, and a little more: sqrt(8192 / 2) times 3.2, with rounding."""

FLOOD = 2.0**20
"""How many times larger the noise on a decrypted inner product is than its error."""

GRAINS = 6
"""A decrypted inner product is rounded to so many binary digits below the deviation of its noise."""

LONGEST = 2.0**9
"""The longest vector whose inner products are sure to have room: |x|^2 <= 2^18."""

LEAST = 2.0**-45
"""A weight below this is rounded to 0, which no encrypted number may be multiplied by: it would be plain to see."""

LARGEST = 2.0**18
"""The largest number that is sure to have room in a mixture."""

_ROOM = 512  # bytes that SEAL's format may take beside the numbers
SEALED = DEGREE * 2 * 8 + _ROOM + HEAD  # a fresh block: one polynomial over two primes, the other one as a seed
MIXED = DEGREE * 2 * 8 + _ROOM + HEAD  # a mixed block: two polynomials over one prime
PRODUCT = DEGREE * 4 * 8 + _ROOM + HEAD  # an inner product: two polynomials over two primes

_KEY = DEGREE * len(PRIMES) * 8  # a polynomial over all primes
SECRET = _KEY + _ROOM + HEAD
EVALUATION = 4 * _KEY * DEGREE.bit_length() + (1 << 16)  # one key for products, and one for each rotation


class Damaged(InputError):
    """Bytes that are no ciphertext of the kind that is expected."""

    def __init__(self, why: str) -> None:
        super().__init__(f"what is encrypted cannot be used, {why}: look at who sends it")


class Keys(NamedTuple):
    """What a silo makes for all: the secret key, and the keys that the server computes with."""

    secret: bytes
    evaluation: bytes


def require_tenseal() -> None:
    """Refuse to go on where TenSEAL or what silos agree on a key with is not installed."""
    for name in ("tenseal", "cryptography"):
        if importlib.util.find_spec(name) is None:
            raise InputError(f"encrypted needs {name}, it is not installed: pip install 'amity[encrypted]'")


def blocks_of(count: int) -> int:
    """How many blocks so many numbers take."""
    return -(-count // SLOTS)


def new_keys() -> Keys:
    """New keys, from the operating system's randomness."""
    seal = _seal()
    maker = seal.api.KeyGenerator(seal.context)
    relinearise, rotate = seal.api.RelinKeys(), seal.api.GaloisKeys()
    maker.create_relin_keys(relinearise)
    maker.create_galois_keys([pow(GENERATOR, step, 2 * DEGREE) for step in _steps()], rotate)
    parts = [_written(relinearise), _written(rotate)]
    return Keys(_written(maker.secret_key()), len(parts[0]).to_bytes(HEAD, "big") + b"".join(parts))


class Holder:
    """Whoever has the secret key: a silo."""

    def __init__(self, secret: bytes) -> None:
        seal = self._seal = _seal()
        key = seal.api.SecretKey()
        _read(key, secret)
        self._encryptor = seal.api.Encryptor(seal.context, key)
        self._decryptor = seal.api.Decryptor(seal.context, key)

    def encrypted(self, numbers: Tensor) -> Tensor:
        """A vector, encrypted block by block.  # [n] -> [blocks, SEALED] uint8"""
        seal = self._seal
        rows = []
        for block in numbers.double().split(SLOTS) if len(numbers) else ():
            plain = seal.api.Plaintext()
            seal.encoder.encode(block.tolist(), SCALE, plain)
            rows.append(padded(_written(self._encryptor.encrypt_symmetric(plain)), SEALED))
        return torch.stack(rows) if rows else torch.zeros(0, SEALED, dtype=torch.uint8)

    def decrypted(self, blocks: Tensor, count: int) -> Tensor:
        """The numbers of a mixture.  # [blocks, MIXED] -> [n] float64"""
        nothing = np.zeros(SLOTS)  # of which no silo has a part
        parts = [self._numbers(row, _mixed(self._seal)) if row[:HEAD].any() else nothing for row in blocks]
        return torch.from_numpy(np.concatenate([*parts, nothing])[:count])

    def inner_product(self, block: Tensor, size: float, count: int) -> float:
        """An inner product of two vectors of so many numbers, with noise that hides its error. `size`: |x| + |y|."""
        found = float(self._numbers(block, _product(self._seal))[0])
        error = ERROR * (size + ERROR * math.sqrt(count))
        noisy = found + secrets.SystemRandom().gauss(0.0, FLOOD * error)
        grain = 2.0 ** (math.floor(math.log2(FLOOD * error)) - GRAINS)
        return round(noisy / grain) * grain  # the last digits of a sum of floats could tell what was added to what

    def _numbers(self, row: Tensor, form: Form) -> Any:
        seal = self._seal
        plain = seal.api.Plaintext()
        self._decryptor.decrypt(_taken(row, form), plain)
        return np.asarray(seal.encoder.decode_double(plain))


class Evaluator:
    """Whoever computes with what it cannot read: the server."""

    def __init__(self, evaluation: bytes) -> None:
        seal = self._seal = _seal()
        self._relinearise, self._rotate = seal.api.RelinKeys(), seal.api.GaloisKeys()
        length = int.from_bytes(evaluation[:HEAD], "big")  # of the first of two parts
        _read(self._relinearise, evaluation[HEAD : HEAD + length])
        _read(self._rotate, evaluation[HEAD + length :])

    def inner_product(self, one: Sequence[Any], other: Sequence[Any]) -> Tensor:
        """The inner product of two vectors, of which only the sum can be decrypted.  # [PRODUCT] uint8"""
        seal, do = self._seal, self._seal.evaluator
        total: Any = None
        for a, b in zip(one, other, strict=True):
            product = seal.api.Ciphertext()
            do.multiply(a, b, product)
            if total is None:
                total = product
            else:
                do.add_inplace(total, product)
        do.relinearize_inplace(total, self._relinearise)
        for step in _steps():
            turned = seal.api.Ciphertext()
            do.rotate_vector(total, step, self._rotate, turned)
            do.add_inplace(total, turned)
        return padded(_written(total), PRODUCT)

    def mixture(self, weights: Mapping[int, float], vectors: Mapping[int, Sequence[Any]]) -> Tensor:
        """The vectors' sum by weight.  # [blocks, MIXED] uint8"""
        seal, do = self._seal, self._seal.evaluator
        factors = {}
        for key, weight in weights.items():
            if abs(weight) > LEAST:
                factors[key] = seal.api.Plaintext()
                seal.encoder.encode(float(weight), SCALE, factors[key])
        rows = []
        for at in range(min(map(len, vectors.values()), default=0)):
            total: Any = None
            for key, factor in factors.items():
                part = seal.api.Ciphertext()
                do.multiply_plain(vectors[key][at], factor, part)
                if total is None:
                    total = part
                else:
                    do.add_inplace(total, part)
            if total is not None:
                do.rescale_to_next_inplace(total)
            rows.append(padded(b"" if total is None else _written(total), MIXED))
        return torch.stack(rows) if rows else torch.zeros(0, MIXED, dtype=torch.uint8)


def loaded(blocks: Tensor) -> list[Any]:
    """Encrypted blocks, ready to be computed with; Damaged where one is none.  # [blocks, SEALED] uint8"""
    form = _fresh(_seal())
    return [_taken(row, form) for row in blocks]


class Form(NamedTuple):
    """What a ciphertext must be."""

    level: Any
    scale: float


class _Seal(NamedTuple):
    """SEAL with our parameters."""

    api: Any
    context: Any
    encoder: Any
    evaluator: Any


@functools.cache
def _seal() -> _Seal:
    require_tenseal()
    from tenseal import sealapi as api

    parameters = api.EncryptionParameters(api.SCHEME_TYPE.CKKS)
    parameters.set_poly_modulus_degree(DEGREE)
    parameters.set_coeff_modulus(api.CoeffModulus.Create(DEGREE, list(PRIMES)))
    context = api.SEALContext(parameters, True, api.SEC_LEVEL_TYPE.TC128)
    return _Seal(api, context, api.CKKSEncoder(context), api.Evaluator(context))


def _fresh(seal: _Seal) -> Form:
    return Form(seal.context.first_parms_id(), SCALE)


def _product(seal: _Seal) -> Form:
    return Form(seal.context.first_parms_id(), SCALE * SCALE)


def _mixed(seal: _Seal) -> Form:
    primes = seal.context.first_context_data().parms().coeff_modulus()
    return Form(seal.context.last_parms_id(), SCALE * SCALE / primes[-1].value())


def _steps() -> Sequence[int]:
    """The rotations that add up all places of a block."""
    return [1 << power for power in range(SLOTS.bit_length() - 1)]


def _taken(row: Tensor, form: Form) -> Any:
    """The ciphertext in a row; Damaged where it is not one of this form."""
    seal = _seal()
    try:
        content = unpadded(row)
    except ValueError as error:
        raise Damaged(str(error)) from None
    found = seal.api.Ciphertext()
    _read(found, content)
    right = found.size() == 2 and found.is_ntt_form() and list(found.parms_id()) == list(form.level)
    if not right or not math.isclose(found.scale, form.scale, rel_tol=1e-9):
        raise Damaged("it is of another form")
    return found


def _written(value: Any) -> bytes:
    """What SEAL writes for a value. Its interface writes files: this one is in memory where the system has such."""
    with Passage() as file:
        value.save(file.name)
        return file.content()


def _read(value: Any, content: bytes) -> None:
    """Let SEAL read a value, which checks it."""
    with Passage(content) as file:
        try:
            value.load(_seal().context, file.name)
        except (RuntimeError, ValueError, IndexError, MemoryError, OverflowError) as error:
            words = str(error).partition("\n")[0] or type(error).__name__
            raise Damaged(f"it cannot be read ({words})") from None
