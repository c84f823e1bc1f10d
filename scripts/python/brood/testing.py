"""A stand-in for the supervisor, to try an agent without brood: the descriptors, the block, the
log and the messages are those of the real one.

    players = [testing.player("agent_0", obs=4, heads=[5])]
    log = testing.Experience(players)
    log.fill(1000, seed=1)
    with testing.Program([sys.executable, "dqn.py"], log=log) as program:
        program.configure(testing.configuration(players, settings={"double": True}))
        program.request("act", testing.act_params(players[0], copies=2, step=0, seed=1))
        program.request("learn", testing.stage_params(log, rows=64, update=0, seed=1))
        program.restart()      # as after a kill: the block stays

Errors    an answer that is an error is raised as brood.Error; one that does not come, because
          the process ended, as Ended.
"""
from __future__ import annotations

import fcntl
import os
import pathlib
import select
import subprocess
import tempfile
from types import TracebackType
from typing import Any, Mapping, Sequence

import numpy as np

from .arrays import Array
from .errors import Error
from .protocol import (DTYPES, FD_BLOCK, FD_IN, FD_LOG, FD_OUT, FD_REQUEST, NOTIFICATION, REQUEST,
                       RESPONSE, ROW_NONE, Body, FrameReader, Message, pack, pack_tensor,
                       unpack_tensor, write_all)

PACKAGE = pathlib.Path(__file__).resolve().parent
_HEADER_BYTES = 1 << 20
_MAGIC = 0x31676F6C64726F62
_FREE_FD = 40  # above all descriptors with a fixed number


class Ended(Exception):
    """The process ended before it answered; `code` as of subprocess (negative: a signal)."""

    def __init__(self, code: int, log: str):
        super().__init__(f"the program ended with {code}: {log.strip()[-300:]}")
        self.code = code


# ---- what there is to be told ----


def player(name: str, obs: int, heads: Sequence[int] = (), width: int = 0, masked: bool = False,
           uint8: bool = False, team: str = "team") -> dict[str, Any]:
    """An agent as `configure` has it: of discrete actions (heads), of a box (width), or of both
    beside each other."""
    kind = "hybrid" if heads and width else "discrete" if heads else "box"
    action: dict[str, Any] = {"kind": kind, "particle": False, "heads": list(heads),
                              "width": sum(heads) + width}
    if kind != "discrete":
        action.update(low=-1.0, high=1.0)
    if masked:
        action["masked"] = True
    found = {"name": name, "team": team, "obs": obs, "action": action}
    return {**found, "uint8": True} if uint8 else found


NETWORK = {"hidden": [16, 16], "activation": "relu"}
OPTIMIZER = {"type": "adam", "learning_rate": 0.001, "beta1": 0.9, "beta2": 0.999,
             "epsilon": 1e-8, "momentum": 0.9, "decay": 0.9}


def configuration(players: Sequence[Body], name: str = "", seed: int = 1,
                  settings: Body | None = None, restored: bool = False,
                  **config: Any) -> dict[str, Any]:
    """The params of `configure` for the agent `name` (the first). config: more of its section
    of the configuration, in place of usual values."""
    section = {"discount": 0.9, "polyak": 0.01, "actor": NETWORK, "critic": NETWORK,
               "optimizer": OPTIMIZER, "clip_norm": 0.5, "on_nonfinite": "stop",
               "settings": dict(settings or {}), **config}
    return {"role": "learner", "name": name or players[0]["name"], "seed": seed,
            "config": section, "agents": list(players), "restored": restored, "env": "testing",
            "max_steps": 25}


class Experience:
    """A log in memory: common/store/layout.h. columns: {name: width} of each player's own."""

    def __init__(self, players: Sequence[Body], columns: Mapping[str, int] | None = None):
        self.players = players
        self.columns: list[tuple[str, str, int, int]] = []  # name, dtype, width, offset
        self.row_bytes = 0
        for column in ("obs", "action", "next_obs", "reward", "terminated", "alive", "allowed",
                       "next_allowed"):
            for p in players:
                if "allowed" not in column or p["action"].get("masked"):
                    width = p["obs"] if "obs" in column else \
                        1 if column in ("reward", "terminated", "alive") else p["action"]["width"]
                    is_bytes = "allowed" in column or "obs" in column and p.get("uint8")
                    self._add(f"{p['name']}/{column}", "uint8" if is_bytes else "float32", width)
        for joint in ("truncated", "first"):
            self._add(joint, "float32", 1)
        for name, width in (columns or {}).items():
            for p in players:
                self._add(f"{p['name']}/{name}", "float32", width)
        self.row_bytes = -(-self.row_bytes // 8) * 8
        self.n_rows = 0
        self.fd = os.memfd_create("log")
        self._write_header()

    def _add(self, name: str, dtype: str, width: int) -> None:
        size = np.dtype(dtype).itemsize
        offset = -(-self.row_bytes // size) * size
        self.columns.append((name, dtype, width, offset))
        self.row_bytes = offset + size * width

    def _write_header(self) -> None:
        head = np.zeros(_HEADER_BYTES, np.uint8)
        head[:8].view("<u8")[0] = _MAGIC
        head[8:16].view("<u4")[:] = 1, len(self.columns)
        head[16:24].view("<u8")[0] = self.row_bytes
        for i, (name, dtype, width, offset) in enumerate(self.columns):
            c = head[32 + 128 * i:160 + 128 * i]
            c[:len(name)] = np.frombuffer(name.encode(), np.uint8)
            c[112:120].view("<u4")[:] = DTYPES[dtype], width
            c[120:128].view("<u8")[0] = offset
        os.pwrite(self.fd, head.tobytes(), 0)

    def append(self, values: Mapping[str, Array], n: int) -> None:
        """n rows: {column: (n, X)}; columns that are left out are 0."""
        rows = np.zeros((n, self.row_bytes), np.uint8)
        for name, dtype, width, offset in self.columns:
            if name in values:
                size = np.dtype(dtype).itemsize * width
                x = np.ascontiguousarray(values[name], dtype).reshape(n, width)
                rows[:, offset:offset + size] = x.view(np.uint8)
        os.pwrite(self.fd, rows.tobytes(), _HEADER_BYTES + self.n_rows * self.row_bytes)
        self.n_rows += n

    def fill(self, n: int, seed: int) -> None:
        """n rows of random experience."""
        rng = np.random.default_rng(seed)
        values: dict[str, Array] = {}
        for p in self.players:
            name, space = p["name"], p["action"]
            for column in ("obs", "next_obs"):
                values[f"{name}/{column}"] = rng.integers(0, 256, (n, p["obs"])) \
                    if p.get("uint8") else rng.normal(size=(n, p["obs"]))
            values[f"{name}/action"] = one_hot(rng, n, space["heads"]) if space["heads"] else \
                rng.uniform(-1, 1, (n, space["width"]))
            values[f"{name}/reward"] = rng.normal(size=n)
            values[f"{name}/terminated"] = rng.random(n) < 0.05
            values[f"{name}/alive"] = np.ones(n)
            for column in ("allowed", "next_allowed"):
                values[f"{name}/{column}"] = np.ones((n, space["width"]))
        values["truncated"] = rng.random(n) < 0.05
        for name, _, width, _ in self.columns:
            if name not in values:
                values[name] = rng.normal(size=(n, width))
        self.append(values, n)


def one_hot(rng: np.random.Generator, n: int, heads: Sequence[int]) -> Array:
    """(n, sum of heads): a random choice of each head."""
    return np.concatenate([np.eye(h, dtype=np.float32)[rng.integers(h, size=n)] for h in heads],
                          1)


def act_params(who: Body, copies: int, step: int, seed: int, mode: int = 0,
               episodes: Sequence[int] | None = None, time: int = 0,
               carry: int = 0) -> dict[str, Any]:
    """The params of `act` with random observations. episodes: of each copy, in an evaluation."""
    rng = np.random.default_rng(seed)
    obs = rng.integers(0, 256, (copies, who["obs"])).astype(np.uint8) if who.get("uint8") else \
        rng.normal(size=(copies, who["obs"])).astype(np.float32)
    body: dict[str, Any] = {"mode": mode, "step": step, "obs": pack_tensor(obs)}
    if episodes is not None:
        body["episode"] = np.array(episodes, "<u8").tobytes()
        body["time"] = np.full(copies, time, "<u8").tobytes()
    if who["action"].get("masked"):
        allowed = (rng.random((copies, who["action"]["width"])) < 0.6).astype(np.uint8)
        body["allowed"] = allowed.tobytes()
    if carry:
        body["first"] = np.full(copies, step == 0, np.uint8).tobytes()
        body["carry"] = pack_tensor(rng.normal(size=(copies, carry)).astype(np.float32))
    return body


def stage_params(log: Experience, rows: int, update: int, seed: int, length: int = 1,
                 groups: int = 1, step: int = 0, ends: bool = False,
                 inputs: Mapping[str, Array] | None = None) -> dict[str, Any]:
    """The params of a stage with random rows (groups, rows, length). ends: some of them end
    early."""
    rng = np.random.default_rng([seed, update])
    first = rng.integers(0, log.n_rows - length + 1, (groups, rows, 1)).astype(np.uint64)
    places = first + np.arange(length, dtype=np.uint64)
    if ends:
        places[:, ::2, length // 2:] = ROW_NONE
    return {"step": step, "update": update, "repeat": 0, "rows": pack_tensor(places),
            "inputs": {k: pack_tensor(v) for k, v in (inputs or {}).items()}}


# ---- the process ----


def _spare(fd: int) -> int:
    """Moves a descriptor out of the way of those with a fixed number."""
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, _FREE_FD)
    os.close(fd)
    return moved


class Program:
    """An agent's process. It is started by the first request, `describe` or `configure`, and is
    ended with the `with`.

    log         its experience
    capacity    bytes of its block, which outlives `restart`
    environment variables besides the usual ones
    directory   where it starts; "": here
    agent_exe   brood-agent, which starts it with the variables and the confinement that it has in
                a run; "": it is started as it is
    opens       with agent_exe: what `threads` and `confine` of the configuration allow, as
                `configure` has it under "program"
    within_s    how long an answer may take: Error("timeout") after that; 0: for ever
    """

    def __init__(self, command: Sequence[str], log: Experience | None = None,
                 capacity: int = 1 << 30, environment: Mapping[str, str] | None = None, *,
                 directory: str = "", agent_exe: str = "",
                 opens: Mapping[str, Any] | None = None, within_s: float = 0):
        self.command = list(command)
        self._log = log
        self._directory = directory
        self._given: Body | None = None  # what brood-agent executes
        self._within_s = within_s
        self._block = os.memfd_create("block")
        os.ftruncate(self._block, capacity)
        self._environment = {
            **os.environ, "PYTHONHASHSEED": "0", "PYTHONPATH": os.pathsep.join(
                [str(PACKAGE.parent), *filter(None, [os.environ.get("PYTHONPATH")])]),
            "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1",
            **(environment or {})}
        if agent_exe:
            self._environment = dict(os.environ)
            self._given = {"command": self.command, "directory": directory or os.getcwd(),
                           "environment": dict(environment or {}), **(opens or {})}
            self.command = [agent_exe, "agent", str(os.getpid()), "checked"]
        self._output = tempfile.TemporaryFile()  # pylint: disable=consider-using-with
        self._configuration: Body | None = None
        self.block_bytes = 0
        self.pid = 0
        self.notifications: list[Message] = []  # that came with answers
        self._last_id = 0

    def __enter__(self) -> Program:
        return self

    def __exit__(self, kind: type[BaseException] | None, e: BaseException | None,
                 where: TracebackType | None) -> None:
        self.kill()
        os.close(self._block)
        self._output.close()

    @property
    def output(self) -> str:
        """What it wrote to its standard output and error so far."""
        size = os.fstat(self._output.fileno()).st_size
        return os.pread(self._output.fileno(), size, 0).decode(errors="replace")

    def _start(self, first: Message) -> None:
        request = _spare(os.memfd_create("request"))
        write_all(request, pack(first))
        os.lseek(request, 0, os.SEEK_SET)
        to_read, self._to = (_spare(fd) for fd in os.pipe())
        self._from, to_write = (_spare(fd) for fd in os.pipe())
        given = {FD_IN: to_read, FD_OUT: to_write, FD_REQUEST: request,
                 FD_BLOCK: _spare(os.dup(self._block))}
        if self._log is not None:
            given[FD_LOG] = _spare(os.dup(self._log.fd))

        def place() -> None:
            for number, fd in given.items():
                os.dup2(fd, number)

        self._process = subprocess.Popen(  # pylint: disable=consider-using-with
            self.command, env=self._environment, stdin=subprocess.DEVNULL, stdout=self._output,
            stderr=self._output, close_fds=False, preexec_fn=place, cwd=self._directory or None)
        self.pid = self._process.pid
        for fd in given.values():
            os.close(fd)
        self._frames = FrameReader(self._read)

    def _read(self, n: int) -> bytes:
        if self._within_s > 0 and not select.select([self._from], [], [], self._within_s)[0]:
            raise Error(f"no answer within {self._within_s:g} s", code="timeout")
        return os.read(self._from, n)

    def _reap(self) -> int:
        code = self._process.wait()
        self.pid = 0
        os.close(self._to)
        os.close(self._from)
        return code

    def kill(self) -> None:
        """Ends it with SIGKILL, if it lives."""
        if self.pid:
            self._process.kill()
            self._reap()

    def request(self, method: str, params: Body | None = None) -> dict[str, Any]:
        """The result. Error, Ended."""
        self.begin(method, params)
        return self.finish()

    def begin(self, method: str, params: Body | None = None) -> None:
        """Sends a request without waiting for its answer. Error, Ended."""
        self._last_id += 1
        body = dict(params or {})
        if self._given is not None and not self.pid:
            body["program"] = self._given
        message: Message = [REQUEST, self._last_id, method, body]
        is_first = not self.pid
        if is_first and method not in ("describe", "configure"):
            raise Error(f"{method}: the program does not run")
        if is_first:
            self._start(message)
        if not is_first or self._given is not None:  # brood-agent passes the first one on
            try:
                write_all(self._to, pack(message))
            except BrokenPipeError:
                raise Ended(self._reap(), self.output) from None

    def finish(self) -> dict[str, Any]:
        """The result of the request that was begun. Error, Ended."""
        while True:
            answer = self._frames.next()
            if answer is None:
                raise Ended(self._reap(), self.output)
            if answer[0] == NOTIFICATION:
                self.notifications.append(answer)
            elif answer[0] == RESPONSE and answer[1] == self._last_id:
                if answer[2] is not None:
                    raise Error(answer[2]["message"], answer[2])
                result: dict[str, Any] = answer[3]
                return result

    def notify(self, method: str, params: Body) -> None:
        write_all(self._to, pack([NOTIFICATION, method, dict(params)]))

    def shutdown(self) -> int:
        """The exit code."""
        self.request("shutdown")
        return self._reap()

    def describe(self) -> dict[str, Any]:
        """What the program says of its algorithm; its process ends."""
        found: dict[str, Any] = self.request("describe")["algorithms"][0]
        self.kill()
        return found

    def configure(self, configuration: Body) -> dict[str, Any]:
        self.begin("configure", configuration)
        return self.configured(configuration)

    def configured(self, configuration: Body) -> dict[str, Any]:
        """The answer of a `configure` that was begun."""
        found = self.finish()
        self._configuration, self.block_bytes = configuration, found["block_bytes"]
        return found

    def begin_with(self, block: bytes, configuration: Body) -> Body:
        """Begins `configure` of a new process on this content of the block; returns what it is
        configured with."""
        os.pwrite(self._block, block, 0)
        configuration = {**configuration, "restored": True}
        self.begin("configure", configuration)
        return configuration

    def restart(self, block: bytes | None = None) -> dict[str, Any]:
        """Kills it and starts another on its block, or on this content of it."""
        assert self._configuration is not None
        self.kill()
        if block is not None:
            os.pwrite(self._block, block, 0)
        return self.configure({**self._configuration, "restored": True})

    def block(self) -> bytes:
        """A copy of its variables."""
        return os.pread(self._block, self.block_bytes, 0)

    def arrays(self, answer: Mapping[str, Any], key: str = "outputs") -> dict[str, Array]:
        """The tensors of a map in an answer."""
        return {k: unpack_tensor(v, k)[1] for k, v in answer[key].items()}
