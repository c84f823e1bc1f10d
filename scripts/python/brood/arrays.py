"""Arrays of NumPy, at addresses that suit every library."""
from __future__ import annotations

import math
from typing import Any, Sequence

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]


def address_of(x: Array) -> int:
    """Where it begins; x.ctypes.data is slow."""
    return int(x.__array_interface__["data"][0])


def aligned(shape: Sequence[int], dtype: npt.DTypeLike = np.float32) -> Array:
    """An array, not initialised, that begins at a multiple of 64 bytes. Libraries may add in
    another order at another alignment; so what a request computes with is always aligned."""
    kind = np.dtype(dtype)
    size = kind.itemsize * math.prod(shape)
    raw = np.empty(size + 64, np.uint8)
    at = -address_of(raw) % 64
    return raw[at:at + size].view(kind).reshape(tuple(shape))
