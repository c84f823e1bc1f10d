"""One agent on one block: it answers requests. It knows nothing of pipes.

Two of them answer the same request with the same bytes if their blocks are equal; that is what
the self-check (selfcheck.py) compares.
"""
from __future__ import annotations

import math
import random
import sys
from typing import TYPE_CHECKING, Any, Callable, Mapping

import numpy as np

from . import devices, watch
from .agent import Act, Agent
from .answers import checked_act, stage_answer
from .arrays import Array, aligned
from .batch import Batch, column_names
from .block import Block
from .context import Context, Draws
from .describe import check_class
from .errors import CODES, Error
from .log import Log
from .players import player_of
from .protocol import (FD_LOG, MODES, Body, Message, mapping, pack_tensor, tensor, unpack_tensor,
                       whole)
from .settings import Section, Values, frozen
from .stages import Stage, stages_of

if TYPE_CHECKING:
    from .torch_state import TorchState

Send = Callable[[Message], None]


def seed_generators(seed: int, device: str = devices.CPU) -> None:
    """Those of random, NumPy and, if it is imported, torch."""
    random.seed(seed)
    np.random.seed(seed & 0xFFFFFFFF)
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.default_generator.manual_seed(seed & 0x7FFFFFFFFFFFFFFF)
        devices.seed(device, seed & 0x7FFFFFFFFFFFFFFF)
        torch.set_grad_enabled(True)  # an earlier request may have switched it off


class Runtime:
    """Builds the agent. configuration: the params of `configure`. memory: the block's, uint8.
    send: for notifications. open_log: called at the first request with rows."""

    def __init__(self, cls: type[Agent], configuration: Body, memory: Array, restored: bool,
                 send: Send, open_log: Callable[[], Log] = lambda: Log(FD_LOG)):
        check_class(cls)
        if configuration.get("role") != "learner":
            raise Error(f"role {configuration.get('role')}: a program can only be a learner",
                        code="unsupported")
        if "share" in configuration:
            raise Error("a program cannot share parameters with other agents",
                        code="unsupported", key="share")
        self.cls, self.configuration, self.send = cls, configuration, send
        self.device = devices.device_of(configuration)
        self._open_log = open_log
        self._log: Log | None = None
        self._watched = watch.caller(cls, send)
        self.name, self.seed = str(configuration.get("name")), whole(configuration, "seed")
        self.players = tuple(player_of(p) for p in configuration.get("agents", ()))
        names = [p.name for p in self.players]
        if self.name not in names:
            raise Error(f"agents: {self.name} is not among them", code="protocol")
        self.index = names.index(self.name)
        self.me = self.players[self.index]
        section = frozen(dict(mapping(configuration, "config")))
        self.settings: Section = section
        self.block = Block(memory, restored)
        self.values = Values(cls, section, self.name, self.block)
        self._torch: TorchState | None = None
        self.stages = stages_of(cls)
        self.repeats = {s.name: self._repeats(s) for s in self.stages}
        self.reads = self._find_reads()
        self.agent = self._build()

    def _call(self, name: str, method: Callable[..., Any], *args: Any) -> Any:
        with devices.default(self.device):
            return self._watched(name, method, *args)

    # ---- configure ----

    def _build(self) -> Agent:
        agent = self.cls.__new__(self.cls)
        agent._runtime = self
        agent.me, agent.players, agent.settings = self.me, self.players, self.settings
        agent.name, agent.seed = self.name, self.seed
        agent.env = str(self.configuration.get("env", ""))
        agent.max_steps = whole(self.configuration, "max_steps")
        agent.device = self.device
        self.is_building = True
        self._seed(Draws(self.seed, self.name, "init", [0], [0], False))
        agent.__init__()  # type: ignore[misc]
        self._call("build", agent.build)
        self.is_building = False
        if self._torch is not None:
            self._torch.check_tracked(agent)
        elif "torch" in sys.modules:
            from .torch_state import check_tracked
            check_tracked(agent)
        return agent

    def _repeats(self, s: Stage) -> int:
        n: Any = s.repeat
        if isinstance(n, str):
            given = mapping(self.settings, "settings").get(n)
            own = getattr(self.cls, n, None)
            n = given if given is not None else getattr(own, "default", own)
        if not isinstance(n, int) or n < 1:
            raise Error(f"stage {s.name}: repeat is {s.repeat!r}: a whole number, or the name of "
                        "a whole setting, at least 1, expected", code="argument")
        return n

    def _find_reads(self) -> list[str]:
        columns = [*self.cls.reads, "next_obs", "alive", "terminated"]  # as `propose` needs
        if self.me.action.masked:
            columns += ["allowed", "next_allowed"]
        return list(dict.fromkeys(n for c in columns
                                  for n in column_names(c, self.name, self.players)))

    def _rows(self) -> dict[str, Any]:
        kind, length = self.cls.rows
        if kind == "episodes" and length == 0:
            length = whole(self.configuration, "max_steps")
            if length == 0:
                raise Error(f"{self.cls.__name__}.rows: episodes of this environment have no "
                            "limit: set env.max_steps, or brood.episodes(n)", code="config")
        return {"kind": kind, "length": length}

    def configured(self) -> dict[str, Any]:
        """The answer of `configure`."""
        torch: Any = sys.modules.get("torch")
        return {"variables": [v.row() for v in self.block.variables.values()],
                "block_bytes": self.block.n_bytes,
                "stages": [s.row(i, self.repeats[s.name]) for i, s in enumerate(self.stages)],
                "carry": self.cls.carry,
                "columns": [{"name": n, "elements": x} for n, x in self.cls.columns.items()],
                "reads": self.reads, "rows": self._rows(), "proposes": True,
                "portable": False,
                "because": f"PyTorch {torch.__version__}" if torch is not None
                else f"NumPy {np.__version__}"}

    # ---- what the agent calls ----

    def add_variable(self, name: str, value: Any) -> Array:
        self.must_be_building(f"variable({name!r})")
        return self.block.add(f"{self.name}/{name}", value).array

    def torch_state(self) -> TorchState:
        self.must_be_building("track and optimizer")
        if self._torch is None:
            if "torch" not in sys.modules:
                raise Error("track and optimizer are for torch, which the agent has not "
                            "imported; for arrays of NumPy: self.variable(name, value)",
                            code="state")
            from .torch_state import TorchState
            self._torch = TorchState(self.name, self.block, self.settings, self.values,
                                     self.device)
        return self._torch

    def must_be_building(self, what: str) -> None:
        if not self.is_building:
            raise Error(f"{what}: variables are made in `build` alone: a process that replaces "
                        "this one has only `build` to make the same", code="state")

    def check_places(self) -> None:
        """Error("state") if a tracked tensor is not in the block any more."""
        if self._torch is not None:
            self._torch.check_places()

    def copy_to_block(self) -> None:
        """What a request should not have changed on a device shows in the block then."""
        if self._torch is not None:
            self._torch.copy_to_block()

    # ---- requests ----

    def stage(self, method: str) -> Stage | None:
        """The stage of that name; every agent that acts answers `propose`."""
        found = next((s for s in self.stages if s.name == method), None)
        return Stage("propose", False) if found is None and method == "propose" else found

    def writes(self, method: str) -> bool:
        """Whether a request of that method may change the block."""
        s = self.stage(method)
        return method in ("set", "restore") or s is not None and s.writes

    def handle(self, method: str, body: Body) -> dict[str, Any]:
        if method == "act":
            return self.act(body)
        s = self.stage(method)
        if s is not None:
            return self.run_stage(s, body)
        if method == "set":
            self.values.set(mapping(body, "changes"))
            return {}
        if method == "restore":
            return self.restore(body)
        if method == "snapshot":
            return {"block": self.block.content.tobytes()}
        if method in ("ping", "metagraph"):
            return {}
        if method == "find":
            return {"missing": [f"{name}: a program has no graph"
                                for name in body.get("fetches", ())]}
        if method == "run":
            return {"refused": {"code": CODES["unsupported"],
                                "message": f"{self.name} is a program: it has no graph"}}
        raise Error(f"there is no method {method}", code="not found")

    def _seed(self, d: Draws) -> None:
        seed_generators(d.request_seed(), self.device)

    # ---- act ----

    def act(self, body: Body) -> dict[str, Any]:
        """The last bits of a row of a product depend on the number of rows. So that those of an
        evaluation do not depend on the number of its copies, each acts alone."""
        obs = tensor(body, "obs", "uint8" if self.me.uint8 else "float32", 2)
        if obs.shape[0] < 1 or obs.shape[1] != self.me.obs:
            raise Error(f"obs: (E, {self.me.obs}) expected, found {list(obs.shape)}",
                        code="shape")
        n = len(obs)
        if "episode" in body and n > 1:
            answers = [self._act(body, obs, slice(e, e + 1)) for e in range(n)]
        else:
            answers = [self._act(body, obs, slice(0, n))]
        answer: dict[str, Any] = {"actions": pack_tensor(np.concatenate(
            [a.actions for a in answers]))}
        if self.cls.carry:
            answer["carry"] = pack_tensor(np.concatenate([a.carry for a in answers]))
        if self.cls.columns and "episode" not in body:
            answer["columns"] = {k: pack_tensor(x) for k, x in answers[0].columns.items()}
        if "fetches" in body:
            answer["fetched"] = []
        return answer

    def _act(self, body: Body, all_obs: Array, copies: slice) -> Act:
        """The checked answer of some of the request's copies."""
        n, width = len(all_obs), self.me.action.width
        obs = aligned(all_obs[copies].shape)
        obs[...] = all_obs[copies]
        ctx = Context(self.values, self._act_draws(body, n, copies), self.send)
        ctx.step, ctx.mode = whole(body, "step"), MODES[min(whole(body, "mode"), 2)]
        ctx.evaluates = "episode" in body
        if "allowed" in body:
            ctx.allowed = self._bytes(body, "allowed", (n, width))[copies]
        if self.cls.carry:
            ctx.begins = self._bytes(body, "first", (n,))[copies] if "first" in body else \
                np.zeros(n, bool)[copies]
            carry = tensor(body, "carry", "float32", 2)
            if carry.shape != (n, self.cls.carry):
                raise Error(f"carry: ({n}, {self.cls.carry}) expected", code="shape")
            ctx.carry = aligned((len(obs), self.cls.carry))
            ctx.carry[...] = carry[copies]
            ctx.carry[ctx.begins] = 0
        self._seed(ctx._draws)
        return self._checked(self._call("act", self.agent.act, obs, ctx), len(obs), ctx)

    def _checked(self, answer: Any, n: int, ctx: Context) -> Act:
        return checked_act(answer, n, self.me.action, self.cls.carry,
                           {} if ctx.evaluates else self.cls.columns, ctx.allowed)

    def _act_draws(self, body: Body, n: int, copies: slice) -> Draws:
        if "episode" not in body:
            step = whole(body, "step")
            return Draws(self.seed, self.name, "act", [step + e for e in range(n)], [0] * n, True)
        parts: list[list[int]] = []
        for key in ("episode", "time"):
            data = body.get(key)
            if not isinstance(data, bytes) or len(data) != 8 * n:
                raise Error(f"{key}: {n} numbers expected", code="protocol")
            parts.append([int(x) for x in np.frombuffer(data, "<u8")[copies]])
        return Draws(whole(body, "seed", self.seed), self.name, "evaluate", parts[0], parts[1],
                     True)

    @staticmethod
    def _bytes(body: Body, key: str, shape: tuple[int, ...]) -> Array:
        data = body.get(key)
        if not isinstance(data, bytes) or len(data) != math.prod(shape):
            raise Error(f"{key}: {shape} bytes expected", code="protocol")
        return np.frombuffer(data, np.uint8).reshape(shape).astype(bool)

    # ---- stages ----

    def log(self) -> Log:
        """The experience log, opened when it is first used."""
        if self._log is None:
            self._log = self._open_log()
        return self._log

    def run_stage(self, s: Stage, body: Body) -> dict[str, Any]:
        group = body.get("group", "")
        is_own = not group and hasattr(self.cls, s.name)
        method = getattr(self.agent, s.name) if is_own else self._propose
        rows = tensor(body, "rows", "uint64", 3)
        n_groups, n_rows, length = rows.shape
        weights = tensor(body, "weights", "float32", 2) if "weights" in body else None
        if weights is not None and weights.shape != (n_groups, n_rows):
            raise Error(f"weights: ({n_groups}, {n_rows}) expected", code="shape")
        inputs = {k: unpack_tensor(v, k)[1] for k, v in mapping(body, "inputs").items()}
        mine = self.index if n_groups == len(self.players) and n_groups > 1 else 0
        keep_length = self.cls.rows.kind != "transitions"
        if self._torch is not None:
            self._torch.begin_stage(whole(body, "step"))
        results: list[Mapping[str, Any]] = []
        for g in [mine] if s.writes else range(n_groups):
            ctx = self._stage_context(s, body, f"/{group}" if group else "", g)
            ctx.inputs = {k: self._input(x, g, n_groups) for k, x in inputs.items()}
            batch = Batch(self.log(), rows[g], None if weights is None else weights[g], self.me,
                          self.players, frozenset(self.reads), keep_length, self.device)
            self._seed(ctx._draws)
            result = self._call(s.name, method, batch, ctx)
            if result is not None and not isinstance(result, Mapping):
                raise Error(f"{s.name} returned a {type(result).__name__}; a dict of outputs and "
                            "scalars, or None, expected", code="argument")
            results.append(result or {})
        if s.writes and self._torch is not None:
            self._torch.end_writing()
        if not is_own:
            n_rows *= length
        answer = stage_answer(results, s.name, n_rows, 0 if s.writes else mine)
        if s.writes and self.settings.get("on_nonfinite", "stop") == "stop":
            self._check_finite(answer["scalars"], s)
        if "fetches" in body:
            answer["fetched"] = []
        return answer

    def _check_finite(self, scalars: Mapping[str, float], s: Stage) -> None:
        bad = next((k for k, x in scalars.items() if not math.isfinite(x)), "") or \
            self.block.first_not_finite()
        if bad:
            raise Error(f"agent {self.name}, stage {s.name}: {bad} is not finite",
                        code="nonfinite")

    def _stage_context(self, s: Stage, body: Body, group: str, g: int) -> Context:
        """For group g of the rows, whose draws begin behind those of the groups before it."""
        update, repeat = whole(body, "update"), whole(body, "repeat")
        counter = (update * self.repeats.get(s.name, 1) + repeat) & (2**64 - 1)
        d = Draws(self.seed, self.name, f"stage {s.name}{group}", [counter], [g], False)
        ctx = Context(self.values, d, self.send)
        ctx.step, ctx.update, ctx.repeat = whole(body, "step"), update, repeat
        return ctx

    @staticmethod
    def _input(x: Array, g: int, n_groups: int) -> Array:
        """Of group g, at an aligned address."""
        part = x[g] if x.ndim > 0 and len(x) == n_groups else x
        copy = aligned(part.shape, part.dtype)
        copy[...] = part
        return copy

    def _propose(self, batch: Batch, ctx: Context) -> dict[str, Any]:
        """The stage `propose` of an agent that has none: what `act` chooses at the rows' next
        observations, as at the beginning of an episode; 0 where the agent is not there any
        more. Each step of a row is a row of its own, (B * L, U), and row i of all groups draws
        elements i * width on."""
        me, n, d = self.me, batch.rows.size, ctx._draws
        begin = d.place[0] * n
        draws_ = Draws(d.seed, d.name, d.purpose, list(d.counter) * n,
                       list(range(begin, begin + n)), True)
        inner = Context(self.values, draws_, self.send)
        inner.step, inner.update, inner.repeat = ctx.step, ctx.update, ctx.repeat
        inner.evaluates = True  # the columns of its answer are not used
        obs = batch["next_obs"].reshape(n, me.obs)
        if me.action.masked:
            inner.allowed = batch["next_allowed"].reshape(n, me.action.width)
        if self.cls.carry:
            inner.begins = np.ones(n, bool)
            inner.carry = aligned((n, self.cls.carry))
            inner.carry[...] = 0
        chosen = self._call("act", self.agent.act, obs, inner)
        actions = self._checked(chosen, n, inner).actions.copy()
        gone = (batch["alive"] == 0) | (batch["terminated"] == 1) | ~batch.present
        actions[gone.reshape(n)] = 0
        return {"action": actions}

    # ---- other requests ----

    def restore(self, body: Body) -> dict[str, Any]:
        """All of it, or nothing. Errors: "not found", "shape"."""
        values: list[tuple[Array, Array]] = []
        for name, value in mapping(body, "values").items():
            number, x = unpack_tensor(value, name)
            v = self.block.variables.get(name)
            if v is None:
                raise Error(f"{self.name} has no variable {name}", code="not found")
            if v.dtype != number or v.array.shape != x.shape:
                raise Error(f"{name}: a tensor like {v.array.dtype} {list(v.array.shape)} "
                            "expected", code="shape")
            values.append((v.array, x))
        if "block" in body:
            content = body["block"]
            if not isinstance(content, bytes) or len(content) != self.block.n_bytes:
                raise Error(f"block: {self.block.n_bytes} bytes expected", code="shape")
            self.block.content[...] = np.frombuffer(content, np.uint8)
        for place, x in values:
            place[...] = x
        if self._torch is not None:
            self._torch.take_block()
        return {}
