"""Maps a descriptor's memory as an array of bytes.

The block's memfd is 16 GiB of which only written pages exist, and the log grows while it is
mapped. So both are mapped without reserving memory, and the log beyond its end, which Python's
own mmap refuses. Touching what lies beyond a file's end ends the process: callers check first.
"""
from __future__ import annotations

import ctypes
import os

import numpy as np

from .arrays import Array
from .errors import Error

_PROT_READ, _PROT_WRITE = 1, 2
_MAP_SHARED, _MAP_NORESERVE = 0x01, 0x4000
_FAILED = ctypes.c_void_p(-1).value

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mmap.restype = ctypes.c_void_p
_libc.mmap.argtypes = [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int,
                       ctypes.c_int, ctypes.c_long]


def map_shared(fd: int, size: int, writable: bool, smallest: int = 0) -> Array:
    """uint8 (size,), or half of it, and so on, down to `smallest`, where there is not enough
    address space. It stays mapped until the process ends. Error("io")."""
    protection = _PROT_READ | (_PROT_WRITE if writable else 0)
    while True:
        p = _libc.mmap(None, size, protection, _MAP_SHARED | _MAP_NORESERVE, fd, 0)
        if p not in (None, _FAILED):
            break
        why = ctypes.get_errno()
        if not smallest or size // 2 < smallest:
            raise Error(f"descriptor {fd}: {size} bytes cannot be mapped: {os.strerror(why)}",
                        code="io")
        size //= 2
    x: Array = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(p))
    if not writable:
        x.flags.writeable = False
    return x
