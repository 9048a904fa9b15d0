"""Modules as flat vectors, and the algebra of many models at once.

A federation of m models is a matrix W [m, d]. Everything that looks at pairs of models goes through one Gram
matrix, and everything that mixes models through one matrix product; both are streamed over blocks of columns in
float64, so that beyond W they need O(m^2 + m * block) memory. A block is converted once, into a buffer that is used
again, and multiplied while it is still in the cache.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor, nn

from amity.contract import Model
from amity.learn.rows import new_rows

_BLOCK_NUMBERS = 1 << 19  # in one block of columns: 4 MiB of float64, still in the cache when it is multiplied
_PARTS = 8  # of the columns, for threads
_STRIPS = 4  # of the rows of a Gram matrix

T = TypeVar("T")


class Slot(NamedTuple):
    """Where one tensor of a module lies in the flat vector."""

    name: str
    shape: torch.Size
    start: int

    def view(self, flat: Tensor) -> Tensor:
        """This slot of the vector, shaped like the module's tensor.

        Convolution weights [out, in, h, w] lie channels-last (out, h, w, in) inside the vector: the order that the
        convolution kernels read. It is the same for all clients and undone on export.
        """
        part = flat[self.start : self.start + self.shape.numel()]
        if len(self.shape) != 4:
            return part.view(self.shape)
        out, inner, height, width = self.shape
        return part.view(out, height, width, inner).permute(0, 3, 1, 2)


class Layout(NamedTuple):
    """The fixed order of a module's trainable parameters, float buffers and integer counters."""

    params: tuple[Slot, ...]
    buffers: tuple[Slot, ...]
    counts: tuple[Slot, ...]

    @staticmethod
    def of(module: nn.Module) -> Layout:
        buffers = dict(module.named_buffers())
        return Layout(
            _slots({name: p for name, p in module.named_parameters() if p.requires_grad}),
            _slots({name: b for name, b in buffers.items() if b.is_floating_point()}),
            _slots({name: b for name, b in buffers.items() if not b.is_floating_point()}),
        )

    def flatten(self, tensors: dict[str, Tensor], dtype: torch.dtype) -> Model:
        """One model from a module's named tensors."""
        return {
            "params": _flatten(self.params, tensors, dtype),
            "buffers": _flatten(self.buffers, tensors, dtype),
            "counts": _flatten(self.counts, tensors, torch.int64),
        }

    def tensors(self, model: Model) -> dict[str, Tensor]:
        """The named tensors of a model, in the module's own shapes and memory order."""
        slots = zip(("params", "buffers", "counts"), self, strict=True)
        return {s.name: s.view(model[key]).contiguous() for key, part in slots for s in part}


def _slots(tensors: dict[str, Tensor]) -> tuple[Slot, ...]:
    out, start = [], 0
    for name, tensor in tensors.items():
        out.append(Slot(name, tensor.shape, start))
        start += tensor.numel()
    return tuple(out)


def length(slots: tuple[Slot, ...]) -> int:
    return slots[-1].start + slots[-1].shape.numel() if slots else 0


def _flatten(slots: tuple[Slot, ...], tensors: dict[str, Tensor], dtype: torch.dtype) -> Tensor:
    flat = torch.zeros(length(slots), dtype=dtype)
    for slot in slots:
        slot.view(flat).copy_(tensors[slot.name].detach())
    return flat


def _in_parts(work: Callable[[range], T], matrix: Tensor) -> list[T]:
    """What `work` makes of each part of the columns, on as many threads as torch would use here.

    Each thread computes alone, since blocks are too small to be worth sharing. How the columns are divided does not
    depend on the number of threads, so the results do not.
    """
    columns = matrix.shape[1]
    size = columns if matrix.numel() <= _PARTS * _BLOCK_NUMBERS else -(-columns // _PARTS)
    parts = [range(start, min(start + size, columns)) for start in range(0, columns, max(1, size))]
    threads = min(len(parts), torch.get_num_threads()) if matrix.device.type == "cpu" else 1
    if threads <= 1:
        return [work(part) for part in parts]
    with ThreadPoolExecutor(threads, "amity-server", torch.set_num_threads, (1,)) as pool:
        return list(pool.map(work, parts))


def _blocks(matrix: Tensor, index: Tensor | None, columns: range) -> Iterator[tuple[slice, Tensor]]:
    """Blocks of columns in float64, of all rows or of those indexed. Each is overwritten by the next."""
    count = len(matrix) if index is None else len(index)
    step = max(1, min(len(columns), _BLOCK_NUMBERS // max(1, count)))
    wide = matrix.new_empty(count * step, dtype=torch.float64)
    picked = matrix.new_empty(0 if index is None else count * step)
    for start in columns[::step]:
        part = slice(start, min(start + step, columns.stop))
        shape = count, part.stop - start
        block = matrix[:, part]
        if index is not None:
            block = torch.index_select(block, 0, index.to(matrix.device), out=_front(picked, shape))
        yield part, _front(wide, shape).copy_(block)


def _front(buffer: Tensor, shape: tuple[int, int]) -> Tensor:
    return buffer[: shape[0] * shape[1]].view(shape)


def distance(one: Tensor, other: Tensor) -> float:
    """|a - b| of two tensors of one shape, summed in float64 block by block: no difference of all is ever in memory.

    >>> distance(torch.tensor([1.0, 2.0]), torch.tensor([4.0, 6.0]))
    5.0
    """
    pairs = zip(one.reshape(-1).split(_BLOCK_NUMBERS >> 3), other.reshape(-1).split(_BLOCK_NUMBERS >> 3), strict=True)
    lengths = [torch.linalg.vector_norm(a - b, dtype=torch.float64) for a, b in pairs]
    return float(torch.linalg.vector_norm(torch.stack(lengths))) if lengths else 0.0


def gram(matrix: Tensor, index: Tensor | None = None, *, origin: Tensor | None = None, centred: bool = False) -> Tensor:
    """Inner products of the (indexed) rows, less an origin or less their mean, in float64; symmetric.  # [n, n]"""
    return _products(matrix, index, None, origin, centred)[0]


def _products(
    matrix: Tensor, index: Tensor | None, some: Tensor | None, origin: Tensor | None, centred: bool
) -> tuple[Tensor, Tensor]:
    """<w_i, w_j> for i in `some` or all of the (indexed) rows and every j, and the squares |w_j|^2.  # [s, n], [n]"""
    count = len(matrix) if index is None else len(index)

    def of(columns: range) -> tuple[Tensor, Tensor]:
        out = matrix.new_zeros(count if some is None else len(some), count, dtype=torch.float64)
        squares = matrix.new_zeros(count, dtype=torch.float64)
        for part, block in _blocks(matrix, index, columns):
            if origin is not None:
                block -= origin[part].double()
            if centred:
                block -= block.mean(0)
            if some is None:
                _add_lower(out, block)
            else:
                out.addmm_(block[some], block.T)
                squares += torch.linalg.vecdot(block, block)
        return out, squares

    sums = _in_parts(of, matrix) or [of(range(0))]
    out, squares = (functools.reduce(torch.add, each) for each in zip(*sums, strict=True))
    if some is None:
        out = _mirrored(out)
        squares = out.diagonal()
    return out, squares


def _add_lower(out: Tensor, block: Tensor) -> None:
    """out += block block^T on and below the diagonal, in strips of rows: 5/8 of the whole product."""
    strip = max(1, -(-len(block) // _STRIPS))
    for start in range(0, len(block), strip):
        stop = start + strip
        out[start:stop, :stop].addmm_(block[start:stop], block[:stop].T)


def _mirrored(lower: Tensor) -> Tensor:
    """The symmetric matrix with this lower triangle: a threshold must not see (i, j) and (j, i) rounded apart."""
    return lower.tril() + lower.tril(-1).T


def squared_distances(matrix: Tensor, index: Tensor | None = None, *, some: Tensor | None = None) -> Tensor:
    """d_ij^2 of the (indexed) rows, diagonal exactly 0; for i in `some` only.  # [n, n] or [s, n]

    The mean row is subtracted first: distances do not change, and models that are close to each other but far
    from the origin keep their distance. Where squares overflow, the distance is infinite.
    """
    products, squares = _products(matrix, index, some, None, centred=True)
    own = squares if some is None else squares[some]
    pairs = (own[:, None] + squares[None, :] - 2 * products).nan_to_num_(nan=torch.inf, posinf=torch.inf)
    return _on_diagonal(pairs.clamp_(min=0), some, 0)


def cosines(
    matrix: Tensor,
    index: Tensor | None = None,
    *,
    some: Tensor | None = None,
    origin: Tensor | None = None,
    eps: float = 1e-12,
) -> Tensor:
    """Cosines of the (indexed) rows, seen from an origin, for i in `some` only.  # [n, n] or [s, n]

    0 for a row shorter than eps, or so long that its square overflows; diagonal exactly 1.
    """
    products, squares = _products(matrix, index, some, origin, centred=False)
    norms = squares.sqrt()
    own = norms if some is None else norms[some]
    scale = own[:, None] * norms[None, :]
    short = ~_usable(own, eps)[:, None] | ~_usable(norms, eps)[None, :]
    out = torch.where(short, torch.zeros_like(products), products / scale.masked_fill(short, 1.0))
    return _on_diagonal(out.clamp_(-1, 1), some, 1)


def _usable(norms: Tensor, eps: float) -> Tensor:
    return (norms >= eps) & norms.isfinite()


def _on_diagonal(pairs: Tensor, some: Tensor | None, value: float) -> Tensor:
    """Pairs of a row with itself get their exact value; those within `some` are made symmetric."""
    if some is None:
        return pairs.fill_diagonal_(value)
    pairs[:, some] = _mirrored(pairs[:, some]).fill_diagonal_(value)
    return pairs


def mix(weights: Tensor, matrix: Tensor, index: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """weights @ matrix over the (indexed) rows, summed in float64, in the matrix' own type.  # [r, d]"""
    weights = weights.to(matrix.device, torch.float64)
    into = new_rows(matrix, len(weights)) if out is None else out

    def fill(columns: range) -> None:
        sums = weights.new_empty(0)
        for part, block in _blocks(matrix, index, columns):
            shape = len(weights), block.shape[1]
            sums = sums if len(sums) else weights.new_empty(shape[0] * shape[1])  # the first block is the largest
            into[:, part] = torch.mm(weights, block, out=_front(sums, shape))

    _in_parts(fill, matrix)
    return into


def by_columns(matrix: Tensor, rule: Callable[[Tensor], Tensor]) -> Tensor:
    """One number per column: what a rule makes of blocks of columns, [n, b] -> [b], in the matrix' own type.  # [d]"""
    into = matrix.new_empty(matrix.shape[1])

    def fill(columns: range) -> None:
        for part, block in _blocks(matrix, None, columns):
            into[part] = rule(block)

    _in_parts(fill, matrix)
    return into


def largest(weights: Tensor, counts: Tensor, index: Tensor | None = None) -> Tensor:
    """Per row the largest counter among the models that have a weight in it.  # [r, c]"""
    chosen = counts if index is None else counts[index]
    present = weights.to(counts.device) != 0
    masked = torch.where(present[:, :, None], chosen[None], torch.iinfo(counts.dtype).min)
    return masked.amax(1)


def mix_models(weights: Tensor, models: Model, index: Tensor | None = None) -> Model:
    """Rows of mixed models: parameters and float buffers by weight, counters by their maximum.

    Buffers follow only a row that is non-negative and sums to 1: any other could give a negative variance.
    """
    return {
        "params": mix(weights, models["params"], index),
        "buffers": mix(weights, models["buffers"], index),
        "counts": largest(weights, models["counts"], index),
    }


def weighted_mean(models: Model, weights: Tensor) -> Model:
    """One model: the mean over the leading axis, weights renormalised over those present.

    Where all weights are 0, as those of silos without data, all count alike.
    """
    share = weights.double() if weights.any() else torch.ones_like(weights, dtype=torch.float64)
    share = share / share.sum()
    return {key: value[0] for key, value in mix_models(share[None], models).items()}
