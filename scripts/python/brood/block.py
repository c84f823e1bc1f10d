"""The block: an agent's variables, in memory that the supervisor shares.

All that lives longer than a request is here, and nothing else survives: a process that takes
over from a killed one finds the block as it was. Variables lie one after the other in the order
in which they were added, each at a multiple of 64 bytes; so the same `build` finds them again.

Owns      nothing: the memory belongs to its maker, the arrays of variables are views of it.
Names     "agent_0/q/weight". A checkpoint has the variables of collection VARIABLES by these
          names; those of HYPERPARAMETERS are the settings that can change during a run.
"""
from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from .arrays import Array, address_of
from .errors import Error
from .protocol import BFLOAT16, DTYPES

ALIGN = 64
VARIABLES = "variables"
HYPERPARAMETERS = "hyperparameters"


@dataclass(frozen=True)
class Variable:
    """One variable. array: a view of the block; of a bfloat16 its bits, as uint16."""
    name: str
    dtype: int
    offset: int
    collection: str
    array: Array

    @property
    def address(self) -> int:
        return address_of(self.array)

    @property
    def n_bytes(self) -> int:
        return int(self.array.nbytes)

    def row(self) -> list[Any]:
        """As the answer of `configure` lists it."""
        return [self.name, self.dtype, list(self.array.shape), self.offset, self.collection]


class Block:
    """Variables in `memory`, uint8 (capacity,). restored: they have their values already."""

    def __init__(self, memory: Array, restored: bool):
        self.memory = memory
        self.restored = restored
        self.n_bytes = 0
        self.variables: dict[str, Variable] = {}

    def add(self, name: str, value: npt.ArrayLike, collection: str = VARIABLES,
            bfloat16: bool = False) -> Variable:
        """Places a variable. If the block is restored it keeps the value that it has there,
        otherwise it gets this one. Errors: "exists", "dtype", "limit"."""
        first = np.asarray(value)
        number = BFLOAT16 if bfloat16 else DTYPES.get(first.dtype.name, 0)
        if name in self.variables:
            raise Error(f"two variables have the name {name}", code="exists")
        if number == 0:
            raise Error(f"{name}: a variable of type {first.dtype}; expected one of "
                        f"{', '.join(DTYPES)}", code="dtype")
        begin, end = self.n_bytes, self.n_bytes + first.nbytes
        if end > len(self.memory):
            raise Error(f"{name}: no room in the block for {first.nbytes} bytes more "
                        f"({len(self.memory)} is the most)", code="limit")
        array = self.memory[begin:end].view(first.dtype).reshape(first.shape)
        if not self.restored:
            array[...] = first
        self.n_bytes = -(-end // ALIGN) * ALIGN
        found = Variable(name, number, begin, collection, array)
        self.variables[name] = found
        return found

    @property
    def content(self) -> Array:
        """All variables: uint8 (n_bytes,), a view."""
        return self.memory[:self.n_bytes]

    def holds(self, address: int) -> bool:
        begin = address_of(self.memory)
        return begin <= address < begin + self.n_bytes

    def changed(self, before: Array) -> list[str]:
        """The names of the variables whose bytes differ from those in `before`, an earlier or
        another content."""
        if len(before) == self.n_bytes and np.array_equal(self.content, before):
            return []
        return [v.name for v in self.variables.values()
                if not np.array_equal(self.memory[v.offset:v.offset + v.n_bytes],
                                      before[v.offset:v.offset + v.n_bytes])]

    def first_not_finite(self) -> str:
        """The name of the first variable with a NaN or an infinity, or ""."""
        halves = any(v.n_bytes and v.array.dtype.itemsize < 4 and v.array.dtype.kind != "b"
                     for v in self.variables.values())
        # Also of a double that is not finite, the upper half is none as a float.
        if not halves and np.isfinite(self.content.view(np.float32)).all():
            return ""
        for v in self.variables.values():
            x = v.array
            if v.dtype == BFLOAT16:
                x = (x.astype(np.uint32) << np.uint32(16)).view(np.float32)
            if x.dtype.kind == "f" and not np.isfinite(x).all():
                return v.name
        return ""
