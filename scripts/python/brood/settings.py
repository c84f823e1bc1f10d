"""Settings: those that an agent declares for itself, and those that can change during a run.

    class DQN(brood.Agent):
        epsilon = brood.setting("1 to 0.05 over 60000", doc="how often it explores",
                                min=0, max=1, live=True)
        double = brood.setting(True, doc="the choice is the network's, the value the target's")
        live = ("discount", "optimizer.learning_rate")

A declared setting is a key under `settings` of the agent's section of the configuration file;
`brood check`, `set`, sweeps and completion know it with its range and its help. The agent reads
it as an attribute, self.double, or, where it depends on the step, with ctx.value("epsilon").

Live      settings are variables of the block: `brood set` changes them in a running agent. A
          change of any other setting needs a new run.
"""
from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from typing import Any, Sequence

import numpy as np

from .arrays import Array
from .block import HYPERPARAMETERS, Block, Variable
from .errors import Error, one_line
from .protocol import Body

MAX_SETTINGS = 64
MAX_TEXT_BYTES = 1024
_SCHEDULE = re.compile(r"\s*(\S+)\s+to\s+(\S+)\s+over\s+(\S+)\s*$")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*$")
ENDS = ("", ".to", ".over")  # of a schedule's keys, by the place of the number


@dataclass(frozen=True)
class Schedule:
    """A number that may depend on the environment's step: linear from `start` to `to` over the
    first `over` steps, then constant; over 0: always `start`."""
    start: float
    to: float
    over: float = 0.0

    def at(self, step: int) -> float:
        if self.over <= 0:
            return self.start
        if step >= self.over:
            return self.to
        return self.start + (self.to - self.start) * (step / self.over)

    @classmethod
    def of(cls, value: Any) -> Schedule:
        """From a number, [start, to, over], or "1 to 0.05 over 60000". ValueError."""
        if isinstance(value, Schedule):
            return value
        if isinstance(value, str):
            found = _SCHEDULE.match(value)
            value = [float(x) for x in found.groups()] if found else float(value)
        if isinstance(value, (list, tuple)):
            start, to, over = (float(x) for x in value)
            return cls(start, to, over)
        if isinstance(value, bool):
            raise ValueError
        return cls(float(value), float(value))

    def text(self) -> str:
        if self.over <= 0:
            return repr(self.start)
        return f"{self.start!r} to {self.to!r} over {self.over:.15g}"


class Setting:
    """A declared setting; see `setting`. As an attribute of an agent it is its value."""

    def __init__(self, default: Any, doc: str, least: float | None, most: float | None,
                 choices: Sequence[str], live: bool, schedule: bool):
        self.key = ""
        self.default, self.doc, self.min, self.max = default, doc, least, most
        self.choices, self.live = tuple(choices), live
        self.type = "schedule" if schedule else self._type_of(default)

    def _type_of(self, default: Any) -> str:
        if self.choices:
            return "choice"
        kinds = {bool: "flag", int: "whole", float: "real", type(None): "real_or_none",
                 str: "text"}
        return kinds.get(type(default), "")

    def __set_name__(self, owner: type, name: str) -> None:
        self.key = name

    def check_declaration(self, owner: type) -> None:
        """Error("argument"). Not in __set_name__: Python hides what is raised there."""
        where = f"{owner.__name__}.{self.key}"
        if not _NAME.match(self.key):
            raise Error(f"{where}: a setting's name has letters, digits and _", code="argument")
        if self.type == "":
            raise Error(f"{where}: the default {self.default!r} is no setting: a number, a bool, "
                        "a string or None expected", code="argument")
        if self.type == "choice" and self.default not in self.choices:
            raise Error(f"{where}: the default {self.default!r} is not one of its choices",
                        code="argument")
        if self.live and self.type in ("text", "choice", "flag", "whole"):
            raise Error(f"{where}: only a real number can be live", code="argument")
        for text in (self.doc, *self.choices):
            if len(text.encode()) > MAX_TEXT_BYTES or text != one_line(text, MAX_TEXT_BYTES):
                raise Error(f"{where}: one line of at most {MAX_TEXT_BYTES} bytes expected as "
                            "its help", code="argument")
        try:
            self.check(self.default)
        except Error as e:
            raise Error(f"{where}: the default: {e}", code="argument") from None

    def __get__(self, agent: Any, owner: type | None = None) -> Any:
        return self if agent is None else agent._runtime.values.own(self)

    def __set__(self, agent: Any, value: Any) -> None:
        raise Error(f"self.{self.key} is a setting: its value comes from the configuration",
                    code="state")

    def check(self, value: Any) -> Any:
        """The value as the agent sees it. Error("config")."""
        key = f"settings.{self.key}"
        try:
            if self.type == "schedule":
                value = Schedule.of(value)
                numbers = [value.start, value.to]
            elif self.type in ("whole", "real", "real_or_none"):
                if self.type == "real_or_none" and (value is None or value == 0):
                    return None  # 0 is how messages say "none"
                if isinstance(value, bool) or self.type == "whole" and value != int(value):
                    raise ValueError
                value = int(value) if self.type == "whole" else float(value)
                numbers = [value]
            else:
                kind = bool if self.type == "flag" else str
                if not isinstance(value, kind) or self.choices and value not in self.choices:
                    raise ValueError
                return value
        except (ValueError, TypeError, OverflowError):
            raise Error(f"{key}: {self.expected()} expected, found {value!r}", code="config",
                        key=key) from None
        for x in numbers:
            if not math.isfinite(x) or self.min is not None and x < self.min or \
                    self.max is not None and x > self.max:
                raise Error(f"{key}: {x!r} is not within its range", code="config", key=key)
        return value

    def expected(self) -> str:
        return {"whole": "a whole number", "real": "a number", "schedule": "a number or a "
                "schedule", "real_or_none": "a number or none", "flag": "true or false",
                "choice": " or ".join(self.choices)}.get(self.type, "a text")

    def described(self, live: bool) -> dict[str, Any]:
        """As the answer of `describe` has it."""
        found: dict[str, Any] = {"key": self.key, "type": self.type, "doc": self.doc}
        if self.type == "schedule":
            found["default"] = Schedule.of(self.default).text()
        elif self.type == "real_or_none" and self.default is None:
            found["default"] = "none"
        elif self.type == "choice":
            found["default"] = self.default
        elif self.type != "text":
            found["default"] = json.dumps(self.default)
        if self.min is not None:
            found["min"] = float(self.min)
        if self.max is not None:
            found["max"] = float(self.max)
        if self.choices:
            found["names"] = list(self.choices)
        if live:
            found["change"] = "setting"
        return found


def setting(default: Any, doc: str = "", *, min: float | None = None,
            max: float | None = None, choices: Sequence[str] = (), live: bool = False,
            schedule: bool = False) -> Any:
    """Declares a setting, as a class attribute of an agent.

    default   a float: a real number; an int: a whole one; None: a real number above 0 or "none"; a
              bool; a string: a text, or one of `choices`; with `schedule`, or as a text
              "1 to 0.05 over 60000" with schedule=True, a number that may follow the step
    doc       one line of help
    min, max  its range, both included
    live      `brood set` may change it during a run (real numbers and schedules)
    """
    if isinstance(default, str) and not choices and not schedule:
        schedule = _SCHEDULE.match(default) is not None
    return Setting(default, doc, min, max, choices, live, schedule)


def declared(cls: type) -> dict[str, Setting]:
    """The settings of a class and its bases by key, the bases' first. Error("argument")."""
    found: dict[str, Setting] = {}
    for base in reversed(cls.__mro__):
        for name, value in vars(base).items():
            if isinstance(value, Setting):
                value.check_declaration(cls)
                found[name] = value
            elif name in found and not name.startswith("__"):
                del found[name]  # a subclass made it a constant
    if len(found) > MAX_SETTINGS:
        raise Error(f"{cls.__name__} has {len(found)} settings; {MAX_SETTINGS} are the most",
                    code="limit")
    return found


def live_keys(cls: type, own: Body) -> tuple[str, ...]:
    """The keys of settings that are live, "epsilon" for "settings.epsilon", each once."""
    listed: Any = getattr(cls, "live", ())
    if isinstance(listed, str) or not all(isinstance(k, str) for k in listed):
        raise Error(f"{cls.__name__}.live: keys such as (\"discount\",) expected",
                    code="argument")
    keys = [k.removeprefix("settings.") for k in listed]
    for k in keys:
        if k in own and own[k].type not in ("real", "real_or_none", "schedule"):
            raise Error(f"{cls.__name__}.live: {k} is a {own[k].type}; only a real number can be "
                        "live", code="argument")
    return tuple(dict.fromkeys(keys + [k for k, s in own.items() if s.live]))


def frozen(value: Any) -> Any:
    """A section of the configuration that cannot be changed by accident: lists become tuples."""
    if isinstance(value, dict):
        return Section({k: frozen(v) for k, v in value.items()})
    return tuple(frozen(v) for v in value) if isinstance(value, list) else value


class Section(dict[str, Any]):
    """A section of the configuration, read-only; `["actor"]["hidden"]`."""

    def _refuse(self, *args: Any, **more: Any) -> Any:
        raise Error("the configuration cannot be changed by the agent", code="state")

    __setitem__ = __delitem__ = update = pop = popitem = clear = setdefault = _refuse

    def find(self, key: str) -> Any:
        """The value of "actor.optimizer.type", or None."""
        at: Any = self
        for part in key.split("."):
            at = at.get(part) if isinstance(at, dict) else None
        return at


class Values:
    """The settings of one agent: fixed ones from its configuration, live ones in its block."""

    def __init__(self, cls: type, config: Section, agent: str, block: Block):
        self._config, self._cls = config, cls
        self._own = declared(cls)
        given = config.get("settings") or {}
        self._fixed = {k: s.check(given[k] if k in given else s.default)
                       for k, s in self._own.items()}
        self._live: dict[str, tuple[Array, ...]] = {}
        for key in live_keys(cls, self._own):
            path = f"{agent}/hyperparameters/{self.full(key).replace('.', '/')}"
            self._live[key] = tuple(v.array for v in self._variables(key, path, block))

    def full(self, key: str) -> str:
        """The key within the agent's section: "settings.epsilon" for "epsilon"."""
        return f"settings.{key}" if key in self._own else key

    def _variables(self, key: str, path: str, block: Block) -> list[Variable]:
        value = self._fixed[key] if key in self._own else self._config.find(key)
        try:
            schedule = Schedule.of(0.0 if value is None and key in self._own else value)
        except (ValueError, TypeError):
            raise Error(f"{self._cls.__name__}.live: the agent's configuration has no number "
                        f"{key}", code="config", key=key) from None
        return [block.add(path + end.replace(".", "/"), np.float32(x), HYPERPARAMETERS)
                for x, end in zip((schedule.start, schedule.to, schedule.over), ENDS)]

    def own(self, s: Setting) -> Any:
        """What the attribute of a declared setting gives."""
        value = self._schedule(s.key)
        if value is None:
            return self._fixed[s.key]
        if value.over > 0:
            raise Error(f"self.{s.key} depends on the step: read ctx.value(\"{s.key}\")",
                        code="state")
        return None if s.type == "real_or_none" and value.start == 0 else value.start

    def _schedule(self, key: str) -> Schedule | None:
        if key in self._live:
            return Schedule(*(float(x) for x in self._live[key]))
        value = self._fixed.get(key)
        return value if isinstance(value, Schedule) else None

    def value(self, key: str, step: int) -> float:
        """The number in force at that step. `key`: of a declared setting, or any number of the
        agent's section ("discount"). Error("not found")."""
        key = key.removeprefix("settings.")
        schedule = self._schedule(key)
        if schedule is None:
            found = self._fixed[key] if key in self._own else self._config.find(key)
            try:
                schedule = Schedule.of(found)
            except (ValueError, TypeError):
                raise Error(f"ctx.value(\"{key}\"): the agent's configuration has no such number",
                            code="not found", key=key) from None
        return schedule.at(step)

    def is_live(self, key: str) -> bool:
        return key in self._live

    def set(self, changes: Body) -> None:
        """A request `set`: all of its changes, or none. Error("not found")."""
        places: list[tuple[Array, float]] = []
        for key, value in changes.items():
            end = next((i for i in (1, 2) if key.endswith(ENDS[i])), 0)
            base = key[:-len(ENDS[end])] if end else key
            short = base.removeprefix("settings.")
            if short not in self._live or self.full(short) != base:
                raise Error(f"{key} cannot be changed while the agent runs: it is not among its "
                            "live settings", code="not found", key=key)
            if isinstance(value, bool) or not isinstance(value, (int, float)):
                raise Error(f"{key}: a number expected, found {value!r}", code="config", key=key)
            if not math.isfinite(np.float32(value)):
                raise Error(f"{key}: a finite number expected", code="argument", key=key)
            places.append((self._live[short][end], float(value)))
        for place, x in places:
            place[...] = np.float32(x)
