"""What a silo answers to the questions of encrypted attention: it agrees on a key, and decrypts inner products."""

from __future__ import annotations

import torch
from torch import Tensor

from amity.contract import InputError, State
from amity.learn import boxes, ciphers
from amity.learn.padding import bytes_of, padded, tensor_of, unpadded

SECRET, PRIVATE, CLIENTS = "cipher/secret", "cipher/private", "cipher/clients"
"""Keys of a silo's state: the key that all silos have, its own for the box that it comes in, and their number."""


def answered(client: State, down: State) -> tuple[State, State]:
    """A silo's answer to a question, and its new state."""
    if "public" in down:
        private = boxes.new_private()
        return {**client, PRIVATE: tensor_of(private)}, {"public": tensor_of(boxes.public_of(private))}
    if "publics" in down:
        return client, made_for(bytes_of(client[PRIVATE]), down["publics"])
    if "box" in down:
        found = boxes.opened(bytes_of(down["box"]), bytes_of(client[PRIVATE]), bytes_of(down["by"]))
        secret = unpadded(tensor_of(found))
        return {**client, SECRET: tensor_of(secret), PRIVATE: client[PRIVATE].new_zeros(0)}, {}
    if "products" in down:
        return client, {"products": decrypted_products(client, down)}
    raise InputError("a question that is none of encrypted attention: look at who sends it")


def made_for(private: bytes, publics: Tensor) -> State:
    """New keys: those that the server may have, and the secret one in a box for each silo."""
    made = ciphers.new_keys()
    content = bytes_of(padded(made.secret, ciphers.SECRET))
    packed = [tensor_of(boxes.packed(content, private, bytes_of(public))) for public in publics]
    return {"keys": padded(made.evaluation, ciphers.EVALUATION), "boxes": torch.stack(packed)}


def decrypted_products(client: State, down: State) -> Tensor:
    """The inner products that a silo was asked for, with noise, at the places of those whom it has them with."""
    clients = int(client[CLIENTS])
    partners = [j for j in down["partners"].tolist() if j >= 0]
    if len(set(partners)) < len(partners) or any(j >= clients for j in partners):
        raise InputError("a silo is asked for one inner product with each other silo at most: look at who sends it")
    holder = ciphers.Holder(bytes_of(client[SECRET]))
    found = torch.zeros(clients, dtype=torch.float64)
    for j, block, size in zip(partners, down["products"], down["sizes"].tolist(), strict=False):
        found[j] = holder.inner_product(block, size, int(down["count"]))
    return found
