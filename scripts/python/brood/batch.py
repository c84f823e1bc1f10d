"""The rows that a stage is given."""
from __future__ import annotations

import sys
from typing import Any, Sequence

import numpy as np

from . import devices
from .arrays import Array, aligned
from .errors import Error
from .log import Log
from .players import Player
from .protocol import ROW_NONE

# Columns whose last axis stays, even if it is 1 wide. Of all others, one of width 1 has none.
_VECTORS = frozenset(("obs", "next_obs", "action", "allowed", "next_allowed"))
JOINT = frozenset(("truncated", "first"))


def column_names(column: str, me: str, players: Sequence[Player]) -> list[str]:
    """The names in the log: "obs" is the agent's own, "*/obs" that of every agent."""
    if column in JOINT:
        return [column]
    if column.startswith("*/"):
        return [f"{p.name}/{column[2:]}" for p in players]
    return [column if "/" in column else f"{me}/{column}"]


class Batch:
    """B rows, each of L consecutive steps (the axis L is left out for transitions of length 1).

    batch["obs"]            (B, L, O) float32; of its columns, those that `reads` lists
    batch["reward"]         (B, L): a column of width 1 has no last axis, except obs, next_obs
                            and action
    batch["agent_1/obs"]    another agent's column
    batch["*/obs"]          (B, L, sum of O) of all agents side by side, in the environment's
                            order; the same as batch.all("obs")
    batch.t(...)            the same as torch tensors
    batch.choices()         (B, L) int64: the index of a one-hot action; (B, L, heads) if it has
                            several heads
    batch.weights           (B,) float32: of each row in the loss (prioritised replay); 1
    batch.present           (B, L) bool: false after the end of an episode (rows of episodes)
    batch.rows              (B, L) int64: places in the log, 0 where there is none
    len(batch)              B

    Arrays are copies, at aligned addresses. What is absent is 0.
    """

    def __init__(self, log: Log, rows: Array, weights: Array | None, me: Player,
                 players: Sequence[Player], reads: frozenset[str], keep_length: bool,
                 device: str = devices.CPU):
        """rows: (B, L) uint64. device: of the tensors of `t`."""
        self._device = device
        self._log, self._me, self._players, self._reads = log, me, players, reads
        if rows.shape[1] == 1 and not keep_length:
            rows = rows[:, 0]
        there = rows != ROW_NONE
        self.present: Array = there
        self.rows: Array = np.where(there, rows, np.uint64(0)).astype(np.int64)
        self._absent = None if there.all() else there
        log.check(self.rows)
        self.weights: Array = aligned([len(rows)])
        self.weights[...] = 1 if weights is None else weights

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, column: str) -> Array:
        names = column_names(column, self._me.name, self._players)
        if len(names) == 1:
            return self._one(names[0])
        parts = [self._one(n) for n in names]
        parts = [p if p.ndim > self.rows.ndim else p[..., None] for p in parts]
        x = aligned((*self.rows.shape, sum(p.shape[-1] for p in parts)))
        np.concatenate(parts, -1, out=x)
        return x

    def _one(self, name: str) -> Array:
        if name not in self._reads:
            raise Error(f"column {name} is not among the agent's `reads`", code="not found")
        x = self._log.gather(name, self.rows, self._absent)
        short = name.rpartition("/")[2]
        if x.dtype == np.uint8 and short in ("allowed", "next_allowed"):
            return x.view(bool)
        if x.dtype != np.float32:
            numbers = aligned(x.shape)
            numbers[...] = x
            x = numbers
        return x[..., 0] if x.shape[-1] == 1 and short not in _VECTORS else x

    def all(self, column: str) -> Array:
        """(B, L, sum of X): the column of every agent side by side."""
        return self[f"*/{column}"]

    def choices(self, column: str = "action") -> Array:
        """The chosen index of each head of an agent's discrete or hybrid action."""
        name, = column_names(column, self._me.name, self._players)
        who = next((p for p in self._players if p.name == name.rpartition("/")[0]), self._me)
        if who.action.kind == "box":
            raise Error(f"choices({column!r}): {who.name} has no discrete actions", code="state")
        x, found, at = self[name], [], 0
        for n in who.action.heads:
            found.append(x[..., at:at + n].argmax(-1))
            at += n
        return found[0] if len(found) == 1 else np.stack(found, -1)

    def t(self, column: str) -> Any:
        """batch[column] as a torch tensor on the agent's device, in memory of its own."""
        if "torch" not in sys.modules:
            raise Error("batch.t gives torch tensors, but the agent has not imported torch",
                        code="state")
        return devices.place(np.ascontiguousarray(self[column]), self._device)
