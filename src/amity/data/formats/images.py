"""Image files, one folder per class: PNG or JPEG, all of one size."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from amity.contract import InputError
from amity.data.formats.content import AGAIN, unreadable
from amity.data.formats.part import Part
from amity.data.memory import NUMBER, MemoryBudget

SUFFIXES = (".png", ".jpg", ".jpeg")
_GREY = ("1", "L", "LA", "I;16", "I")


def read(folder: Path, classes: Sequence[Path], budget: MemoryBudget) -> Part:
    """Return all images of these class folders. Grey ones have one channel, or three if others are in colour."""
    for place in classes:
        if not place.is_dir():
            raise InputError(f"{place} must be a folder with the images of one class, it is a file: move it elsewhere")
    paths = [path for place in classes for path in listed(place)]
    if not paths:
        raise InputError(f"{folder} must hold images in one folder per class, found none: add some")
    return Part(pixels(folder, paths, budget), np.array([path.parent.name for path in paths]), str(folder), named=True)


def pixels(folder: Path, paths: Sequence[Path], budget: MemoryBudget) -> Tensor:
    """Return the pixels of these images of a folder.  # [n, channels, height, width] uint8"""
    try:
        from PIL import Image
    except ImportError:
        raise InputError(f"{folder} needs Pillow to be read, which is not there: pip install 'amity[images]'") from None
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Image.DecompressionBombWarning)  # `_weigh` refuses what it warns of
        opened = [_open(path, Image, budget) for path in paths]
    colour = any(array.ndim == 3 for array in opened)
    grey = sum(array.size for array in opened if array.ndim == 2)
    budget.take(2 * NUMBER * grey * colour, folder)
    images = [np.repeat(array[..., None], 3, axis=2) if colour and array.ndim == 2 else array for array in opened]
    for path, image in zip(paths, images, strict=True):
        if image.shape != images[0].shape:
            size, first = (f"{shape[1]}x{shape[0]}" for shape in (image.shape, images[0].shape))
            raise InputError(f"{path} must have {first} pixels as {paths[0].name}, found {size}: resize it")
    x = torch.from_numpy(np.stack(images))  # [n, H, W] or [n, H, W, 3]
    return (x.permute(0, 3, 1, 2) if colour else x.unsqueeze(1)).contiguous()


def listed(folder: Path) -> list[Path]:
    """Return the images of one class in the order of their names; refuse a folder that holds anything else."""
    paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
    for path in paths:
        if path.suffix.lower() not in SUFFIXES or not path.is_file():
            raise InputError(f"{path} must be a PNG or JPEG image of class {folder.name!r}: move it elsewhere")
    return paths


def _weigh(path: Path, picture: Any, most: int | None, budget: MemoryBudget) -> None:
    """Take the memory for an image before it is unpacked, by the size in its header; refuse one that is too large."""
    width, height = picture.size
    if most is not None and width * height > most:
        raise InputError(f"{path} must have at most {most:,} pixels, found {width:,} x {height:,}: resize it")
    budget.take(NUMBER * width * height * (1 if picture.mode in _GREY else 3), path)


def _open(path: Path, image: Any, budget: MemoryBudget) -> np.ndarray[Any, np.dtype[np.uint8]]:
    """Return the pixels of an image: [H, W], or [H, W, 3] in colour."""
    try:
        with image.open(path) as picture:
            _weigh(path, picture, image.MAX_IMAGE_PIXELS, budget)
            if picture.mode.startswith("I"):  # 16 bits: a conversion would cut, not scale
                return (np.asarray(picture).astype(np.int64) >> 8).clip(0, 255).astype(np.uint8)
            return np.asarray(picture.convert("L" if picture.mode in _GREY else "RGB"))
    except InputError:
        raise
    except PermissionError as error:
        raise unreadable(path, error) from error
    except image.DecompressionBombError as error:
        reason = str(error).split(",")[0]
        raise InputError(f"{path} must have at most {image.MAX_IMAGE_PIXELS:,} pixels ({reason}): resize it") from error
    except (OSError, SyntaxError, ValueError, MemoryError) as error:  # a part may claim to have gigabytes
        reason = (str(error) or "out of memory").splitlines()[0]
        raise InputError(f"{path} is not a whole PNG or JPEG image ({reason}): {AGAIN}") from error
