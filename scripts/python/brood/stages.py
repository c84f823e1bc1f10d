"""What an agent learns from, and in which steps: rows and stages, declared as data.

An update is a list of stages. Every learner of the group runs a stage before any of them runs
the next one, and a stage may read what earlier ones of the same update gave:

    class MADDPG(brood.Agent):
        @brood.stage()
        def propose(self, batch, ctx): ...; return {"action": target_actions}

        @brood.stage(reads=["propose/action"], writes=True)
        def learn(self, batch, ctx): others = ctx.inputs["agent_1/action"]

A class with a method `learn` and no decorated one has the one stage learn(writes=True).
"""
from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Sequence, TypeVar

from .errors import Error

STAGE_NAME_MAX = 31
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*$")
RESERVED = frozenset(("act", "configure", "describe", "find", "import", "metagraph", "ping",
                      "restore", "run", "set", "shutdown", "snapshot", "build"))


class Rows(NamedTuple):
    """What a stage gets: a kind, and L, the number of consecutive steps (of episodes 0:
    env.max_steps; of a window 1, though its T comes from the configuration)."""
    kind: str
    length: int


def transitions(length: int = 1) -> Rows:
    """B rows drawn from the replay memory: single steps, or sequences of `length` steps of one
    copy. With length 1, batches have no axis L."""
    if length < 1:
        raise Error(f"transitions({length}): at least 1 expected", code="argument")
    return Rows("transitions", length)


def episodes(length: int = 0) -> Rows:
    """B whole episodes, in an axis of `length` steps (0: env.max_steps, that of the longest one);
    batch.present says where one is over."""
    if length < 0:
        raise Error(f"episodes({length}): at least 0 expected", code="argument")
    return Rows("episodes", length)


def window() -> Rows:
    """The newest rows, used once: (E copies, T steps), T being experience.update_every / E."""
    return Rows("window", 1)


@dataclass(frozen=True)
class Stage:
    """A declared stage. repeat: a number, or the name of a whole setting that gives it."""
    name: str
    writes: bool
    reads: tuple[str, ...] = ()
    runner: str = "learners"
    repeat: int | str = 1

    def text(self) -> str:
        """For people: "learn(all, writes)"."""
        who = "all" if self.runner == "learners" else self.runner
        return f"{self.name}({who}{', writes' if self.writes else ''})"

    def row(self, index: int, repeat: int) -> dict[str, Any]:
        """As the answer of `configure` lists it."""
        found = {"name": self.name, "runner": self.runner, "reads": list(self.reads),
                 "writes": self.writes}
        if repeat > 1:
            found.update(repeat_from=index, repeat=repeat)
        return found


_F = TypeVar("_F", bound=Callable[..., Any])


def stage(*, writes: bool = False, reads: Sequence[str] = (), turns: bool = False,
          repeat: int | str = 1) -> Callable[[_F], _F]:
    """Makes a method (self, batch, ctx) a stage of the updates, in the order of the class body.

    writes    it changes variables; stages without it must not
    reads     outputs of earlier stages, in ctx.inputs: "propose/action" that of every agent, as
              ctx.inputs["agent_1/action"]; "own:values/q" only its own; in a stage of turns
              "prev:NAME/output" that of the learner before it, as ctx.inputs["prev:/output"]
    turns     the learners run it one after another, in an order drawn for each update
    repeat    how often an update runs it: a number, or the name of a setting
    """
    def mark(method: _F) -> _F:
        name = method.__name__
        if not _NAME.match(name) or len(name) > STAGE_NAME_MAX or name in RESERVED:
            raise Error(f"a stage cannot be named {name}", code="argument")
        if isinstance(repeat, int) and repeat < 1:
            raise Error(f"stage {name}: repeat {repeat}: at least 1 expected", code="argument")
        setattr(method, "brood_stage", Stage(name, writes, tuple(reads),
                                             "turns" if turns else "learners", repeat))
        return method
    return mark


def stages_of(cls: type) -> tuple[Stage, ...]:
    """The stages of a class and its bases, the bases' first; a method that overrides a stage
    takes its place, also without being decorated."""
    found: dict[str, Stage] = {}
    for base in reversed(cls.__mro__):
        for method in vars(base).values():
            declared = getattr(method, "brood_stage", None)
            if isinstance(declared, Stage):
                found[declared.name] = declared
    if not found and callable(getattr(cls, "learn", None)):
        return (Stage("learn", True),)
    return tuple(found.values())
