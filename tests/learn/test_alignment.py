"""The address at which numbers lie changes no result: a model in a row of a matrix and in a message is one model."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor
from torch.nn.functional import conv2d, linear

import amity  # noqa: F401  # sets what MKL rounds by, before the first product

PRODUCTS: dict[str, Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]] = {
    "linear": lambda a, b, v, w: linear(a, b, w),
    "matrix by matrix": lambda a, b, v, w: a @ b.t(),
    "matrix by vector": lambda a, b, v, w: a @ v,
    "vector by matrix": lambda a, b, v, w: w @ b,
    "gradient": lambda a, b, v, w: (a @ b.t()).t() @ a,
    "stacked": lambda a, b, v, w: torch.bmm(a[None], b.t()[None]),
    "sum": lambda a, b, v, w: a.sum(),
    "mean of rows": lambda a, b, v, w: a.mean(dim=0),
    "norm": lambda a, b, v, w: a.norm(),
    "convolution": lambda a, b, v, w: conv2d(a[None, None], b[None, None, :1, :1]),
}


def placed(numbers: Tensor, offset: int) -> Tensor:
    """Return a copy that begins `offset` numbers behind an address that all vector units like."""
    room = torch.empty(numbers.numel() + 16, dtype=numbers.dtype)
    copy = room[offset : offset + numbers.numel()].view(numbers.shape)
    return copy.copy_(numbers)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
@pytest.mark.parametrize("product", PRODUCTS)
def test_results_do_not_depend_on_where_numbers_lie(product: str, dtype: torch.dtype) -> None:
    draw = torch.Generator().manual_seed(0)
    for _ in range(100):
        rows, depth, columns = (int(size) for size in torch.randint(1, 40, (3,), generator=draw))
        shapes = [(rows, depth), (columns, depth), (depth,), (columns,)]
        operands = [torch.randn(*shape, dtype=dtype, generator=draw) for shape in shapes]
        expected = PRODUCTS[product](*(placed(one, 0) for one in operands))
        for offset in range(1, 9):
            got = PRODUCTS[product](*(placed(one, offset * (place + 1) % 16) for place, one in enumerate(operands)))
            assert torch.equal(expected, got), f"{product} of {rows} x {depth} x {columns} at offset {offset}"
