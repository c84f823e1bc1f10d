"""The experience log: the rows of all joint steps, as the supervisor writes them
(common/store/layout.h). It is mapped read-only.

Columns   "agent_0/obs" (O) float32 or uint8, "agent_0/action" (U) as executed, "agent_0/reward",
          "agent_0/next_obs", "agent_0/terminated", "agent_0/alive" (0 or 1), with masks
          "agent_0/allowed" and "agent_0/next_allowed" (U) uint8, what agents add
          ("agent_0/log_prob"), and of all agents "truncated" and "first" (0 or 1).
          With env.stack, obs and next_obs are (K x O): `gather` puts each together with those of
          the rows before it, which the log has once.
Values    next_obs is the last observation of an episode at its end, never the first of the
          next one. terminated: the task is over, nothing follows. truncated: a limit cut it.
Errors    "format": it is no log; "not found": a column; "limit": a row that is not there.
"""
from __future__ import annotations

import os
from typing import NamedTuple

import numpy as np

from .arrays import Array, aligned
from .errors import Error
from .memory import map_shared
from .protocol import NUMPY_TYPES

_MAGIC = 0x31676F6C64726F62
_VERSION = 1
_HEADER_BYTES = 1 << 20
_COLUMN_BYTES, _NAME_BYTES, _STACK_AT, _TYPE_AT = 128, 100, 100, 112
_MAX_COLUMNS = 8000
_MAX_ROW_BYTES = 1 << 28
_RESERVE_BYTES, _RESERVE_MIN_BYTES = 1 << 43, 64 << 20


class _Stack(NamedTuple):
    """How a column is put together."""
    n: int         # observations
    back: int      # rows to the one before of the same copy
    together: int  # elements of each that stand side by side
    earlier: str   # the column of those before


class Log:
    """The log behind a descriptor, which stays the caller's."""

    def __init__(self, fd: int):
        self._fd = fd
        head = os.pread(fd, _HEADER_BYTES, 0)
        if len(head) != _HEADER_BYTES:
            raise Error("the experience log is cut off", code="format")
        magic, = np.frombuffer(head, "<u8", 1)
        version, n = (int(x) for x in np.frombuffer(head, "<u4", 2, 8))
        self._row_bytes = int(np.frombuffer(head, "<u8", 1, 16)[0])
        if magic != _MAGIC or version != _VERSION or n > _MAX_COLUMNS or \
                not 0 < self._row_bytes <= _MAX_ROW_BYTES or self._row_bytes % 8 != 0:
            raise Error(f"descriptor {fd} is no experience log of version {_VERSION}",
                        code="format")
        self._memory = map_shared(fd, _RESERVE_BYTES, False, _RESERVE_MIN_BYTES)
        most = (len(self._memory) - _HEADER_BYTES) // self._row_bytes
        self.columns: dict[str, Array] = {}  # (rows, X), strided: only rows checked by `check`
        self._stacks: dict[str, _Stack] = {}
        for i in range(n):
            self._add_column(head[32 + _COLUMN_BYTES * i:][:_COLUMN_BYTES], most)

    def _add_column(self, column: bytes, rows: int) -> None:
        name = column[:_NAME_BYTES].split(b"\0")[0].decode(errors="replace")
        number, width = (int(x) for x in np.frombuffer(column, "<u4", 2, _TYPE_AT))
        offset = int(np.frombuffer(column, "<u8", 1, _TYPE_AT + 8)[0])
        n, back, together = (int(x) for x in np.frombuffer(column, "<u4", 3, _STACK_AT))
        kind = NUMPY_TYPES.get(number)
        if kind is None or width < 1 or offset + width * kind.itemsize > self._row_bytes:
            raise Error(f"the experience log's column {name} is malformed", code="format")
        self.columns[name] = np.ndarray(
            (rows, width), kind, self._memory.data, _HEADER_BYTES + offset,
            (self._row_bytes, kind.itemsize))
        if n > 0:
            if n < 2 or back < 1 or together < 1 or width % together != 0:
                raise Error(f"the experience log's column {name} is malformed", code="format")
            self._stacks[name] = _Stack(n, back, together, f"{name.rpartition('/')[0]}/obs")

    def check(self, rows: Array) -> None:
        """Refuses rows that are not in the file yet: touching them would end the process."""
        n = (os.fstat(self._fd).st_size - _HEADER_BYTES) // self._row_bytes
        if rows.size and int(rows.max()) >= n:
            raise Error(f"row {int(rows.max())} is not in the experience log of {n} rows",
                        code="limit")

    def gather(self, column: str, rows: Array, present: Array | None) -> Array:
        """The column in these rows, int64 of any shape: (..., X), a copy, 0 where `present`
        (bool, of the same shape) is false. The caller has called `check`."""
        there = self.columns.get(column)
        if there is None:
            raise Error(f"the experience log has no column {column}", code="not found")
        if (stack := self._stacks.get(column)) is not None:
            x = self._stacked(there, stack, column, rows)
        else:
            x = aligned((*rows.shape, there.shape[1]), there.dtype)
            x[...] = there[rows]
        if present is not None:
            x[~present] = 0
        return x

    def _stacked(self, newest: Array, stack: _Stack, column: str, rows: Array) -> Array:
        """The last observations at these rows, oldest first; the first one of an episode, or of
        the log, also in place of those before it."""
        width, earlier = newest.shape[1], self.columns[stack.earlier]
        x = aligned((*rows.shape, stack.n * width), newest.dtype)
        parts = x.reshape(*rows.shape, width // stack.together, stack.n, stack.together)
        first, at, k = self.columns["first"][:, 0], rows, stack.n - 1
        parts[..., k, :] = newest[at].reshape(*rows.shape, -1, stack.together)
        if column != stack.earlier:  # before next_obs comes the row's own obs
            k -= 1
            parts[..., k, :] = earlier[at].reshape(*rows.shape, -1, stack.together)
        for k in range(k - 1, -1, -1):
            at = np.where((first[at] == 0) & (at >= stack.back), at - stack.back, at)
            parts[..., k, :] = earlier[at].reshape(*rows.shape, -1, stack.together)
        return x
