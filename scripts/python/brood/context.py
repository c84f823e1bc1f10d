"""What else a request says, and its random numbers."""
from __future__ import annotations

import math
from typing import Callable, Mapping, Sequence

import numpy as np

from . import draws
from .arrays import Array
from .settings import Values

_Draw = Callable[[int, Sequence[int], Sequence[int], int], Array]


class Draws:
    """The keyed draws of one request: the key's parts, and of each copy (or row) the counter
    and the index, in units of a draw's width, at which its elements begin."""

    def __init__(self, seed: int, name: str, purpose: str, counter: Sequence[int],
                 place: Sequence[int], per_copy: bool):
        self.seed, self.name, self.purpose = seed, name, purpose
        self.counter, self.place, self.per_copy = counter, place, per_copy
        self._taken = 0

    def key(self) -> int:
        """The key of the request's next draw: each has one of its own."""
        taken, self._taken = self._taken, self._taken + 1
        purpose = f"{self.purpose}/{taken}" if taken else self.purpose
        return draws.key_of(self.seed, self.name, purpose)

    def take(self, draw: _Draw, shape: Sequence[int]) -> Array:
        width = math.prod(shape)
        first = [p * width for p in self.place]
        x = draw(self.key(), self.counter, first, width)
        return x.reshape((len(self.counter), *shape) if self.per_copy else tuple(shape))

    def request_seed(self) -> int:
        """64 bits that belong to this request alone."""
        w = draws.one_block(draws.key_of(self.seed, self.name, f"{self.purpose}/generators"),
                            self.counter[0], self.place[0])
        return w[1] << 32 | w[0]


class Context:
    """What a request says besides observations or rows.

    step      the environment's step; of copy 0, in `act` (copy e is at step + e)
    update    the number of the update, and `repeat` that of the stage within it
    mode      of `act`: "explore" (training), "sample" (the policy as it is), "greedy"
    evaluates in an evaluation
    allowed   (E, U) bool or None: which entries of a one-hot action may be chosen; where a head
              has none, all of its entries may
    begins    (E,) bool or None: an episode begins (agents with a carry)
    carry     (E, H) float32 or None: what the agent gave with the step before; 0 at first
    inputs    of a stage: {"agent_1/action": array}, as its `reads` say

    Random numbers are functions of the run's seed, the agent's name and the request; so they
    are the same when a request is answered again after a kill. In an evaluation they depend on
    the episode and its time, not on the other copies. The global generators of random, NumPy and
    torch are seeded before each request, too.
    """

    def __init__(self, values: Values, draws_: Draws, send: Callable[[list[object]], None]):
        self._values, self._draws, self._send = values, draws_, send
        self._rng: np.random.Generator | None = None
        self.step = 0
        self.update = 0
        self.repeat = 0
        self.mode = "sample"
        self.evaluates = False
        self.allowed: Array | None = None
        self.begins: Array | None = None
        self.carry: Array | None = None
        self.inputs: Mapping[str, Array] = {}

    def value(self, key: str) -> float:
        """A number of the configuration in force at this step: "discount", "epsilon" for
        settings.epsilon, "optimizer.learning_rate"; 0 for "none". Live settings and schedules
        are read so."""
        return self._values.value(key, self.step)

    def uniform(self, *shape: int) -> Array:
        """float32 in [0, 1): in `act` (E, *shape), each copy having draws of its own; in a stage
        of that shape."""
        return self._draws.take(draws.uniform, shape)

    def normal(self, *shape: int) -> Array:
        """The same with a mean of 0 and a deviation of 1."""
        return self._draws.take(draws.normal, shape)

    def gumbel(self, *shape: int) -> Array:
        """The same: -log(-log(u)); argmax(logits + gumbel) samples a category."""
        return self._draws.take(draws.gumbel, shape)

    @property
    def rng(self) -> np.random.Generator:
        """NumPy's generator with the request's key, for all else: permutations, choices. In
        `act` its draws are those of the whole request, not of a copy."""
        if self._rng is None:
            self._rng = np.random.Generator(np.random.Philox(key=self._draws.request_seed()))
        return self._rng

    def progress(self) -> None:
        """A sign of life. A request that takes longer than the configuration's respond_within
        needs one now and then, or the supervisor ends the process as one that hangs."""
        self._send([2, "progress", {}])
