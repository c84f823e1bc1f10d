"""brood in Python: agents of one's own, environments of one's own, and a client of runs.

Agents (agent.py says how):    Agent, Act, stage, setting, transitions, episodes, window, main;
                               to subclass brood.torch, advantages and returns brood.returns
Environments:                  Env, Box, Dict, Discrete, MultiDiscrete, bridged
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
    from .client import Run as Run, attach as attach, bridged as bridged, launch as launch
    from .client import program as program, runs as runs
    from .context import Context as Context
    from .environments import Box as Box, Dict as Dict, Discrete as Discrete, Env as Env
    from .environments import MultiDiscrete as MultiDiscrete
    from .players import ImagePart as ImagePart, Player as Player, Space as Space
    from .policies import Policy as Policy, load_policies as load_policies
    from .policies import load_policy as load_policy, play as play
    from .process import main as main
    from .settings import Schedule as Schedule, setting as setting
    from .stages import Rows as Rows, episodes as episodes, stage as stage
    from .stages import transitions as transitions, window as window

_NAMES = {
    "agent": ("Act", "Agent"), "batch": ("Batch",),
    "client": ("Run", "attach", "bridged", "launch", "program", "runs", "_text"),
    "context": ("Context",), "environments": ("Box", "Dict", "Discrete", "Env", "MultiDiscrete"),
    "players": ("ImagePart", "Player", "Space"),
    "policies": ("Policy", "load_policies", "load_policy", "play"), "process": ("main",),
    "settings": ("Schedule", "setting"),
    "stages": ("Rows", "episodes", "stage", "transitions", "window"),
}
_MODULES = {name: module for module, names in _NAMES.items() for name in names}

__all__ = ["Error", *(name for name in _MODULES if not name.startswith("_"))]


def __getattr__(name: str) -> Any:
    module = _MODULES.get(name)
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


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


_startup.watch()
