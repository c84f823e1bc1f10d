"""Environments of one's own, in few lines.

    class Meeting(brood.Env): ...

    brood.launch({"env": {"command": brood.bridged("meeting.py:Meeting")}})
"""
from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any, Mapping, Sequence

from .later import Later

if TYPE_CHECKING:
    import numpy as np
else:
    np = Later("numpy")


_ByAgent = dict[str, Any]


class Box:
    """Arrays of numbers from low to high."""

    def __init__(self, low: Any, high: Any, shape: Sequence[int], dtype: Any = "float32"):
        self.low, self.high = np.full(shape, low, dtype), np.full(shape, high, dtype)
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)

    def __repr__(self) -> str:
        return f"Box({self.low.min()}, {self.high.max()}, {self.shape}, {self.dtype})"


class Discrete:
    """Whole numbers from start on, n of them."""

    def __init__(self, n: int, start: int = 0):
        self.n, self.start, self.shape = n, start, ()

    def __repr__(self) -> str:
        return f"Discrete({self.n}{f', start={self.start}' if self.start else ''})"


class MultiDiscrete:
    """A whole number from 0 on for each part; nvec: how many."""

    def __init__(self, nvec: Sequence[int]):
        self.nvec = np.array(nvec)
        self.shape, self.dtype = self.nvec.shape, np.dtype(np.int64)

    def __repr__(self) -> str:
        return f"MultiDiscrete({self.nvec.tolist()})"


class Dict:
    """A value for each name: an observation in parts; as actions, of choices and numbers:
    {"goal": 2, "to": array}."""

    def __init__(self, spaces: Mapping[str, Any]):
        self.spaces = dict(spaces)

    def __repr__(self) -> str:
        return f"Dict({', '.join(f'{name!r}: {space!r}' for name, space in self.spaces.items())})"


class Env:
    """An environment in few lines, with the interface of PettingZoo's parallel ones.

    A subclass sets
        possible_agents    names; those of a team are equal but for a number at their end
        observations       a space for all agents, or one for each: {agent: space}
        actions            the same
        max_steps          of an episode, after which it is truncated; 0: no limit
    and defines
        begin()            starts an episode, and returns {agent: observation}. All that is
                           drawn comes from self.draw, a random.Random with the episode's seed
        act(actions)       {agent: action} to observations, rewards, and who has ended: True
                           or False for all, or {agent: True}
        masks()            if not every action is always possible: {agent: [1, 0, ...]}
        metrics()          of the step just made: {name: number} for env.metrics
    metadata["entities"] may name what env.observe: entities shows (pettingzoo_bridge.py).
    self.agents are those that are in the episode, self.time the steps since it began.

        brood.launch({"env": {"command": brood.bridged("my_env.py:MyEnv")}})
    """

    metadata: dict[str, Any] = {"name": "brood_env"}
    possible_agents: Sequence[str]
    observations: Any
    actions: Any
    max_steps = 0

    def begin(self) -> Mapping[str, Any]:
        raise NotImplementedError

    def act(self, actions: Mapping[str, Any]
            ) -> tuple[Mapping[str, Any], Mapping[str, float], Any]:
        raise NotImplementedError

    def masks(self) -> Mapping[str, Any]:
        return {}

    def metrics(self) -> Mapping[str, float]:
        return {}

    def observation_space(self, agent: str) -> Any:
        return self.observations[agent] if isinstance(self.observations, dict) \
            else self.observations

    def action_space(self, agent: str) -> Any:
        return self.actions[agent] if isinstance(self.actions, dict) else self.actions

    def _infos(self, agents: Sequence[str], metrics: Mapping[str, float] = {}) -> dict[str, Any]:
        masks = self.masks()
        return {a: {**metrics, "action_mask": masks[a]} if a in masks else {**metrics}
                for a in agents}

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[_ByAgent, _ByAgent]:
        self.draw, self.time = random.Random(seed), 0
        self.agents = list(self.possible_agents)
        seen = dict(self.begin())
        return seen, self._infos(self.agents)

    def step(self, actions: Mapping[str, Any]
             ) -> tuple[_ByAgent, _ByAgent, dict[str, bool], dict[str, bool], _ByAgent]:
        acted = self.agents
        seen, rewards, over = self.act(actions)
        self.time += 1
        ends = {a: bool(over.get(a, False)) if isinstance(over, Mapping) else bool(over)
                for a in acted}
        cut = 0 < self.max_steps <= self.time
        self.agents = [a for a in acted if not ends[a] and not cut]
        return (dict(seen), dict(rewards), ends, {a: cut and not ends[a] for a in acted},
                self._infos(acted, self.metrics()))

    def close(self) -> None:
        pass
