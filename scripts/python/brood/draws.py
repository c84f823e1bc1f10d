"""Random numbers that have no state: each is a function of its purpose (common/rng/rng.h).

A draw is identified by a key, made of the run's seed, the agent's name and a purpose ("act",
"stage learn"), and a counter (the environment's step, the update). Its elements are numbered;
element i of a draw is the same however many are asked for. So a process that answers a request
again, after a kill, draws the same numbers.

Bits      uniforms are those of brood's own agents. Normals and Gumbels use the same bits of
          Philox as theirs, and differ in the last digit where NumPy's log and cos do.
Source    Philox 4x32-10: Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
          1, 2, 3", SC 2011.
"""
from __future__ import annotations

import functools
from typing import Sequence

import numpy as np

from .arrays import Array

_M32, _M64 = 0xFFFFFFFF, 0xFFFFFFFFFFFFFFFF
_MUL0, _MUL1 = 0xD2511F53, 0xCD9E8D57
_FEW_BLOCKS = 12  # up to so many are faster in Python's own numbers


@functools.lru_cache(256)
def key_of(seed: int, name: str, purpose: str) -> int:
    """The 64-bit key of a purpose's draws: rng_key_make."""
    h = 0xCBF29CE484222325
    for byte in seed.to_bytes(8, "little") + name.encode() + b"\0" + purpose.encode() + b"\0":
        h = (h ^ byte) * 0x100000001B3 & _M64
    h = (h ^ h >> 33) * 0xFF51AFD7ED558CCD & _M64
    h = (h ^ h >> 33) * 0xC4CEB9FE1A85EC53 & _M64
    return h ^ h >> 33


@functools.lru_cache(256)
def _round_keys(key: int) -> tuple[tuple[int, int], ...]:
    return tuple(((key + i * 0x9E3779B9) & _M32, ((key >> 32) + i * 0xBB67AE85) & _M32)
                 for i in range(10))


def one_block(key: int, counter: int, block: int) -> tuple[int, int, int, int]:
    """Four words of 32 bits: rng_block."""
    c0, c1, c2, c3 = block & _M32, block >> 32, counter & _M32, counter >> 32
    for k0, k1 in _round_keys(key):
        p0, p1 = _MUL0 * c0, _MUL1 * c2
        c0, c1, c2, c3 = (p1 >> 32) ^ c1 ^ k0, p1 & _M32, (p0 >> 32) ^ c3 ^ k1, p0 & _M32
    return c0, c1, c2, c3


def blocks(key: int, counter: Array, block: Array) -> Array:
    """The same for arrays of uint64 of one shape: uint32 (..., 4)."""
    mask, shift = np.uint64(_M32), np.uint64(32)
    c0, c1, c2, c3 = block & mask, block >> shift, counter & mask, counter >> shift
    for k0, k1 in _round_keys(key):
        p0, p1 = c0 * np.uint64(_MUL0), c2 * np.uint64(_MUL1)
        c0, c1, c2, c3 = ((p1 >> shift) ^ c1 ^ np.uint64(k0), p1 & mask,
                          (p0 >> shift) ^ c3 ^ np.uint64(k1), p0 & mask)
    return np.stack([c0, c1, c2, c3], -1).astype(np.uint32)


def words(key: int, counter: Sequence[int], first: Sequence[int], width: int) -> Array:
    """uint32 (n, width): row r has the words first[r] .. first[r] + width - 1 of the draw with
    counter[r]."""
    n = len(counter)
    begin = [f // 4 for f in first]
    spans = [(f + width + 3) // 4 - b for f, b in zip(first, begin)]
    most = max(spans, default=0)
    if n * most <= _FEW_BLOCKS:
        rows = [[w for b in range(begin[r], begin[r] + spans[r])
                 for w in one_block(key, counter[r], b & _M64)][first[r] % 4:][:width]
                for r in range(n)]
        return np.array(rows, np.uint32).reshape(n, width)
    c = np.array(counter, np.uint64)[:, None]
    b = np.array(begin, np.uint64)[:, None] + np.arange(most, dtype=np.uint64)
    w = blocks(key, np.broadcast_to(c, b.shape), b).reshape(n, 4 * most)
    if not any(f % 4 for f in first):
        return w[:, :width]
    at = np.array([f % 4 for f in first])[:, None] + np.arange(width)
    return np.take_along_axis(w, at, 1)


def _open_unit(w: Array) -> Array:
    """float64 in (0, 1): the middles of 2^23 equal parts."""
    return ((w >> np.uint32(9)).astype(np.float64) + 0.5) * 2.0**-23


def uniform(key: int, counter: Sequence[int], first: Sequence[int], width: int) -> Array:
    """float32 (n, width) in [0, 1): rng_uniform_rows_f32."""
    w = words(key, counter, first, width)
    return (w >> np.uint32(8)).astype(np.float32) * np.float32(2.0**-24)


def gumbel(key: int, counter: Sequence[int], first: Sequence[int], width: int) -> Array:
    """float32 (n, width): -log(-log(u)), always finite."""
    x: Array = -np.log(-np.log(_open_unit(words(key, counter, first, width))))
    return x.astype(np.float32)


def normal(key: int, counter: Sequence[int], first: Sequence[int], width: int) -> Array:
    """float32 (n, width): Box and Muller 1958; elements 2j and 2j + 1 are r cos(a) and
    r sin(a), with r from word 2j and a from word 2j + 1."""
    skip = [f % 2 for f in first]
    even = width + max(skip, default=0)
    even += even % 2
    w = words(key, counter, [f - s for f, s in zip(first, skip)], even)
    r = np.sqrt(-2.0 * np.log(_open_unit(w[:, ::2])))
    angle = (w[:, 1::2] >> np.uint32(8)).astype(np.float64) * (2.0 * np.pi * 2.0**-24)
    x = np.stack([r * np.cos(angle), r * np.sin(angle)], -1).reshape(len(w), even)
    if any(skip):
        x = np.take_along_axis(x, np.array(skip)[:, None] + np.arange(width), 1)
    return x[:, :width].astype(np.float32)
