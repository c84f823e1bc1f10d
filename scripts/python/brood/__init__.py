"""brood in Python: agents of one's own, environments of one's own, and a client of runs.

Agents (agent.py says how):    Agent, Act, stage, setting, transitions, episodes, window, main
Environments:                  Env, Box, Discrete, MultiDiscrete, bridged
Runs (client.py says how):     launch, attach, runs, load_policy, load_policies, play, Run

Needs     NumPy and msgpack; torch only if the agent uses it. Parts that need neither work
          without: each name is imported when it is first used.
"""
from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from . import startup as _startup
from .errors import Error

if TYPE_CHECKING:
    from .agent import Act as Act, Agent as Agent
    from .batch import Batch as Batch
    from .context import Context as Context
    from .players import Player as Player, Space as Space
    from .process import main as main
    from .settings import Schedule as Schedule, setting as setting
    from .stages import Rows as Rows, episodes as episodes, stage as stage
    from .stages import transitions as transitions, window as window

_AGENT = {"Act": "agent", "Agent": "agent", "Batch": "batch", "Context": "context",
          "Player": "players", "Space": "players", "main": "process", "Schedule": "settings",
          "setting": "settings", "Rows": "stages", "episodes": "stages", "stage": "stages",
          "transitions": "stages", "window": "stages"}

__all__ = ["Error", *_AGENT]


def __getattr__(name: str) -> Any:
    module = _AGENT.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        value = getattr(importlib.import_module(f".{module}", __name__), name)
    except ModuleNotFoundError as e:
        if e.name in _startup.INSTALL:
            raise Error(_startup.message_of(e)) from None
        raise
    globals()[name] = value
    return value


_startup.watch()
