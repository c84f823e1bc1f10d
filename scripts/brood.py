"""Drive brood from Python: start runs, watch and steer them, and play their policies.

    import brood                            # this file's folder is on sys.path

    run = brood.launch("configs/simple_spread.yaml", name="x", seed=7)
    for event in run.subscribe():           # a dict for whatever happens
        if event["event"] == "row":
            break
    run.set({"defaults.optimizer.learning_rate": 0.001})
    run.stop()
    rows = brood.attach("x").metrics()      # a NumPy record array: rows.env_steps, ...

    policy = brood.load_policy("x@300000", "agent_0", env)
    action = policy(observation, mask)      # of a PettingZoo or Gymnasium environment

Needs     Python 3.10, NumPy and msgpack (Debian: python3-numpy, python3-msgpack). Policies
          are read from the checkpoint's own files and computed in NumPy, without brood; for
          an environment's spaces, and whole episodes, pettingzoo_bridge.py and
          bridge_spaces.py must be in this folder.
          `runs`, `launch`, and the status of a run that is over execute the program:
          $BROOD, or else the one of this checkout or installation, or of PATH.
Runs      are named as on the command line: a name under the runs directory ($BROOD_RUNS_DIR
          or ./runs), or a path; RUN@STEP is a checkpoint, RUN its newest one.
Live      or over, or killed: `status`, `metrics`, `evaluate` and `load_policy` work with
          all of them. What steers a run needs a live one.
Errors    are brood.Error with the one line that brood gives.
Threads   a Run may be used by one thread at a time; `subscribe` has a connection of its own.
"""
from __future__ import annotations

import contextlib
import csv
import json
import math
import os
import pathlib
import random
import re
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from typing import Any, Iterator, Mapping, Sequence, Union

import msgpack
import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
Path = Union[str, "os.PathLike[str]"]


class Error(Exception):
    """What brood refused, in one line. `details` has what it names besides: code, file,
    line, key, agent, tensor, cause."""

    def __init__(self, message: str, details: Mapping[str, Any] | None = None):
        super().__init__(message)
        self.details = dict(details or {})


# ---- the program ----


def program() -> str:
    """The brood that is executed."""
    places = [os.environ.get("BROOD"), HERE / "brood", HERE.parent.parent / "bin" / "brood",
              shutil.which("brood")]
    for place in places:
        if place and os.access(place, os.X_OK) and os.path.isfile(place):
            return str(place)
    raise Error("there is no program brood: set $BROOD to its path")


def _execute(*words: str) -> list[dict]:
    """The objects that a command prints with --json."""
    p = subprocess.run([program(), words[0], "--json", *words[1:]], stdin=subprocess.DEVNULL,
                       capture_output=True, text=True, check=False)
    if p.returncode != 0:
        head = f"brood {words[0]}: "
        lines = p.stderr.strip().splitlines() or [f"{head}exit code {p.returncode}"]
        line = next((x for x in lines if x.startswith(head)), lines[-1])
        raise Error(line.removeprefix(head), {"code": p.returncode})
    return [json.loads(line) for line in p.stdout.splitlines() if line.startswith("{")]


def _in(runs_dir: Path | None) -> list[str]:
    return [] if runs_dir is None else ["--runs-dir", os.fspath(runs_dir)]


def _find(name: Path | None, runs_dir: Path | None) -> pathlib.Path:
    """The folder of a run; without a name, of the newest."""
    base = pathlib.Path(runs_dir or os.environ.get("BROOD_RUNS_DIR") or "runs")
    if name is None:
        found = runs(runs_dir)
        if not found:
            raise Error(f"there is no run in {base}")
        return pathlib.Path(found[0]["path"])
    for path in (base / name, pathlib.Path(name)):
        if (path / "config.yaml").is_file():
            return path
    raise Error(f"there is no run {os.fspath(name)} in {base}")


def _text(value: Any, inside: bool = False, none: str = "none") -> str:
    """A value as a configuration file has it. none: what None becomes; in an environment's
    params, which are YAML's own values, null."""
    if isinstance(value, (np.generic, np.ndarray)):
        value = value.tolist()
    if value is None:
        return none
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{k}: {_text(v, True, '~' if k == 'params' else none)}"
                               for k, v in value.items()) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_text(v, True, none) for v in value) + "]"
    if isinstance(value, str) and not inside:
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    return json.dumps(value, ensure_ascii=False)


def _assignment(key: str, value: Any) -> str:
    if f"{key}.".startswith("env.params."):
        return f"{key}={_text(value, inside=True, none='~')}"
    return f"{key}={_text(value)}"


def runs(runs_dir: Path | None = None) -> list[dict]:
    """The runs, the newest first, each as `brood runs --json` prints it: run, state,
    env_steps, team_return_mean, disk_bytes, began, path, ..."""
    return _execute("runs", *_in(runs_dir))


def bridged(environment: Path) -> list[str]:
    """env.command for an environment in Python, as pettingzoo_bridge.py takes it: FILE.py,
    FILE.py:NAME, a module, or a name that Gymnasium knows. It is run by this Python."""
    return [sys.executable, str(HERE / "pettingzoo_bridge.py"), os.fspath(environment)]


def attach(name: Path | None = None, runs_dir: Path | None = None,
           timeout_s: float = 60) -> Run:
    """A run, live or over; without a name the newest. timeout_s: how long to wait for its
    answers."""
    return Run(_find(name, runs_dir), timeout_s)


def launch(config: Path | Mapping, name: str | None = None, seed: int | None = None,
           runs_dir: Path | None = None, force: bool = False, **settings: Any) -> Run:
    """Starts a run in the background, and returns it after its first round. config: a file,
    or what stands in one as nested dicts. settings: values by their keys, as in
    launch(file, **{"run.env_steps": 100000, "defaults.actor.hidden": [32]}); None for a
    single "env.params.KEY" leaves that parameter out."""
    words = [*_in(runs_dir), *(["--force"] if force else [])]
    words += ["--name", name] if name is not None else []
    words += ["--seed", str(seed)] if seed is not None else []
    for key, value in settings.items():
        words += ["--set", _assignment(key, value)]
    with tempfile.TemporaryDirectory() as folder:
        if isinstance(config, Mapping):
            file = pathlib.Path(folder) / "config.yaml"
            file.write_text(_text(config) + "\n", encoding="utf-8")
            config = file
        events = _execute("run", *words, "--detach", os.fspath(config))
    return attach(next(e["path"] for e in events if "path" in e))


# ---- the control socket ----

_DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 4: "u1", 5: "<i2", 6: "i1", 8: "<c8", 9: "<i8",
           10: "?", 17: "<u2", 18: "<c16", 19: "<f2", 22: "<u4", 23: "<u8"}
_STRING, _BFLOAT16 = 7, 14
_NUMBERS = {np.dtype(name): number for number, name in _DTYPES.items()}


def _pack_tensor(value: Any) -> list:
    x = np.asarray(value)
    if x.dtype == np.float64:
        x = x.astype("<f4")
    if x.dtype.kind in "SUO":
        return [_STRING, list(x.shape), [s.encode() if isinstance(s, str) else bytes(s)
                                         for s in x.ravel().tolist()]]
    if x.dtype not in _NUMBERS:
        raise Error(f"a tensor of type {x.dtype} cannot be fed")
    return [_NUMBERS[x.dtype], list(x.shape), x.tobytes()]


def _unpack_tensor(value: Sequence) -> np.ndarray:
    number, shape, data = value
    if number == _STRING:  # an array of bytes, as TensorFlow gives it
        strings = np.empty(len(data), object)
        strings[:] = data
        return strings.reshape(shape)
    if number == _BFLOAT16:  # which NumPy lacks: as float32
        bits = np.frombuffer(data, "<u2").astype("<u4") << 16
        return bits.view("<f4").reshape(shape)
    if number not in _DTYPES:
        raise Error(f"a tensor of TensorFlow's type {number} cannot be fetched")
    return np.frombuffer(data, _DTYPES[number]).reshape(shape).copy()


def _tensor_name(name: str) -> str:
    return name if ":" in name else name + ":0"


class _Client:
    """A connection to a live run: msgpack-rpc (supervisor/control/README.md)."""

    def __init__(self, path: pathlib.Path, timeout_s: float | None):
        self.path, self.last_id = path, 0
        self.unpacker = msgpack.Unpacker(raw=False, max_buffer_size=1 << 27)
        self.events: list[dict] = []
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.settimeout(timeout_s)
        folder = None
        try:
            # A socket's path is limited to 107 bytes; one through a descriptor is short.
            folder = os.open(path, os.O_PATH | os.O_DIRECTORY)
            self.socket.connect(f"/proc/self/fd/{folder}/control.sock")
        except OSError as e:
            self.socket.close()
            if isinstance(e, (FileNotFoundError, ConnectionRefusedError)):
                raise Error(f"{path} is not running") from None
            raise Error(f"{path}: {e.strerror or e}") from None
        finally:
            if folder is not None:
                os.close(folder)

    def receive(self) -> list[list]:
        """The next messages; none at the run's end."""
        while True:
            try:
                data = self.socket.recv(1 << 16)
            except TimeoutError:
                raise Error(f"{self.path} does not answer") from None
            except ConnectionError:
                data = b""
            self.unpacker.feed(data)
            if messages := list(self.unpacker):
                return messages
            if not data:
                return []

    def call(self, method: str, params: Mapping) -> Any:
        self.last_id += 1
        answer = None
        try:
            self.socket.sendall(msgpack.packb([0, self.last_id, method, params]))
        except ConnectionError:
            raise Error(f"{self.path}: the run ended") from None
        except TimeoutError:
            raise Error(f"{self.path} does not answer") from None
        while answer is None:
            messages = self.receive()
            if not messages:
                raise Error(f"{self.path}: the run ended")
            for m in messages:
                if m[0] == 1 and m[1] == self.last_id:
                    answer = m
                elif m[0] == 2 and m[1] == "event":
                    self.events.append(m[2])
                elif m[0] == 2 and m[1] == "error":
                    raise Error(m[2]["message"])
        _, _, error, result = answer
        if error is not None:
            raise Error(error["message"], error)
        return result

    def listen(self) -> Iterator[dict]:
        """The events, until the run ends."""
        self.socket.settimeout(None)
        with self.socket:
            while True:
                yield from self.events
                messages = self.receive()
                for m in messages:
                    if m[0] == 2 and m[1] == "error":
                        raise Error(m[2]["message"])
                if not messages:
                    return
                self.events = [m[2] for m in messages if m[0] == 2 and m[1] == "event"]


class Run:
    """A run, by its folder. A connection to it is made when it is needed."""

    def __init__(self, path: Path, timeout_s: float = 60):
        self.path = pathlib.Path(path).absolute()
        self.name = self.path.name
        self.timeout_s = timeout_s
        self._client: _Client | None = None

    def __repr__(self) -> str:
        return f"brood.Run({str(self.path)!r})"

    def call(self, method: str, **params: Any) -> Any:
        """Any method of the control socket, with its params."""
        try:
            if self._client is None:
                self._client = _Client(self.path, self.timeout_s)
            return self._client.call(method, params)
        except Error as e:
            if not e.details:  # not the run's own answer: what follows would be out of step
                self.close()
            raise

    def close(self) -> None:
        """Ends the connection, not the run."""
        if self._client is not None:
            self._client.socket.close()
        self._client = None

    # -- watching --

    def status(self) -> dict:
        """What `brood status --json` prints: state, env_steps, exact, agents, pending, ...
        state: starting, running, paused, stopping, or not answering; of a run that is over,
        done, stopped, failed, cut off, killed, or unreadable (its journal is damaged)."""
        try:
            return self.call("status")
        except Error:
            return _execute("status", str(self.path))[0]

    def is_live(self) -> bool:
        try:
            _Client(self.path, self.timeout_s).socket.close()
            return True
        except Error:
            return False

    def subscribe(self) -> Iterator[dict]:
        """The run's events from now on, until its end: dicts with time, event, env_steps and
        what belongs to the event (supervisor/control/README.md)."""
        client = _Client(self.path, self.timeout_s)
        client.call("subscribe", {"events": True})
        return client.listen()

    def metrics(self) -> np.recarray:
        """metrics/progress.csv so far. env_steps and episodes are whole numbers; what a row
        does not have is NaN. Columns: rows["rollout/return/agent_0"], rows.env_steps."""
        file = self.path / "metrics" / "progress.csv"
        text = file.read_text(encoding="utf-8") if file.exists() else ""
        # A live run may be in the middle of its last line.
        lines = text[:text.rfind("\n") + 1].splitlines() or ["env_steps,episodes"]
        names, *rows = csv.reader(lines)
        columns = [(n, "i8" if n in ("env_steps", "episodes") else "f8") for n in names]
        values = [tuple(int(x) if t == "i8" else float(x or "nan")
                        for x, (_, t) in zip(row, columns)) for row in rows]
        return np.array(values, columns).view(np.recarray)

    def frame(self) -> Any:
        """The same as a pandas DataFrame, with env_steps as its index."""
        try:
            import pandas  # pylint: disable=import-outside-toplevel
        except ImportError:
            raise Error("run.frame() needs pandas; run.metrics() does not") from None
        return pandas.DataFrame.from_records(self.metrics()).set_index("env_steps")

    def logs(self, agent: str | None = None, n_bytes: int = 1 << 16) -> str:
        """The newest lines of the journal, or of the log of an agent or of "supervisor"."""
        name = "journal" if agent is None else f"logs/{agent}.log"
        try:
            with open(self.path / name, "rb") as f:
                f.seek(max(0, os.fstat(f.fileno()).st_size - n_bytes))
                return f.read().decode(errors="replace")
        except FileNotFoundError:
            raise Error(f"there is no {self.path / name}") from None

    def checkpoints(self) -> list[int]:
        """The steps of the complete ones."""
        return sorted(int(p.parent.name) for p in self.path.glob("checkpoints/*/run.state")
                      if p.parent.name.isdigit())

    def evaluate(self, episodes: int = 100, seed: int = 0,
                 checkpoint: int | None = None) -> dict:
        """What `brood eval --json` prints: return_mean, return_se, ..."""
        words = ["--episodes", str(episodes), "--seed", str(seed)]
        words += ["--checkpoint", str(checkpoint)] if checkpoint is not None else []
        return _execute("eval", str(self.path), *words)[-1]

    # -- steering; steps are those at which it happened --

    def set(self, changes: Mapping[str, Any], at: int | None = None) -> dict:
        """Changes settings, {"defaults.discount": 0.9}, from the next round or step `at`.
        Returns {at, changes, waits}."""
        params: dict = {"changes": [_assignment(k, v) for k, v in changes.items()]}
        if at is not None:
            params["at"] = at
        return self.call("set", **params)

    def cancel(self, *keys: str) -> list[dict]:
        """Takes back changes that are not yet in force; without keys all of them."""
        return self.call("set", cancel=list(keys))["cancelled"]

    def kill(self, agent: str) -> int:
        return self.call("kill", agent=agent)["env_steps"]

    def respawn(self, agent: str) -> int:
        return self.call("respawn", agent=agent)["env_steps"]

    def pause(self) -> int:
        return self.call("pause")["env_steps"]

    def continue_(self) -> int:
        return self.call("continue")["env_steps"]

    def checkpoint(self) -> int:
        """Writes one; returns its step when it is on the disk."""
        return self.call("checkpoint")["env_steps"]

    def stop(self) -> int:
        """Ends the run with a checkpoint, and returns when every agent has ended."""
        return self.call("stop")["env_steps"]

    def trace(self, rounds: int) -> dict:
        return self.call("trace", rounds=rounds)

    def run(self, agent: str, fetches: str | Sequence[str] = (),
            feeds: Mapping[str, Any] | None = None, targets: Sequence[str] = ()) -> Any:
        """Runs an agent's graph: the fetched array, or a list of them. `targets`, which change
        variables, only in runs without an environment."""
        names = [fetches] if isinstance(fetches, str) else list(fetches)
        answer = self.call("run", agent=agent, targets=list(targets),
                           fetches=[_tensor_name(n) for n in names],
                           feeds={_tensor_name(k): _pack_tensor(v)
                                  for k, v in (feeds or {}).items()})
        arrays = [_unpack_tensor(t) for t in answer["fetched"]]
        return arrays[0] if isinstance(fetches, str) else arrays

    def wait(self) -> int:
        """Waits for the run's end; its exit code (0 done, 1 failed, 4 stopped)."""
        return subprocess.run([program(), "wait", str(self.path)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              check=False).returncode


# ---- TensorFlow's files ----


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _fields(message: bytes) -> dict[int, list]:
    """A protocol buffer's values by their numbers: whole numbers, or bytes."""
    found: dict[int, list] = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        if kind == 0:
            value, at = _varint(message, at)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                size, at = _varint(message, at)
            value, at = message[at:at + size], at + size
        found.setdefault(tag >> 3, []).append(value)
    return found


def _shape(message: bytes) -> list[int]:
    sizes = [_fields(d).get(1, [0])[0] for d in _fields(message).get(2, [])]
    return [n - (1 << 64) if n >> 63 else n for n in sizes]


def _crc_table() -> list[int]:
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82f63b78 if i & 1 else 0)
        table.append(i)
    return table


_CRC = _crc_table()


def _masked_crc32c(data: bytes) -> int:
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 255]
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


class _Bundle:
    """The tensors of a checkpoint (common/ckpt/bundle.h), read when they are asked for."""

    def __init__(self, prefix: pathlib.Path):
        self.prefix = prefix
        index = pathlib.Path(f"{prefix}.index").read_bytes()
        at = _varint(index, _varint(index, len(index) - 48)[1])[1]  # behind the metaindex's
        self.entries: dict[str, dict[int, list]] = {}
        for _, handle in self._block(index, at, index):
            for key, value in self._block(handle, 0, index):
                self.entries[key.decode()] = _fields(value)
        self.shards = self.entries.pop("")[1][0]

    @staticmethod
    def _block(handle: bytes, at: int, index: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The entries of the block of a handle (common/ckpt/table.h)."""
        begin, at = _varint(handle, at)
        size, _ = _varint(handle, at)
        block = index[begin:begin + size]
        kind, crc = struct.unpack_from("<BI", index, begin + size)
        if kind != 0 or crc != _masked_crc32c(index[begin:begin + size + 1]):
            raise ValueError("a damaged or compressed index")
        n_restarts, = struct.unpack("<I", block[-4:])
        key, at = b"", 0
        while at < size - 4 - 4 * n_restarts:
            shared, at = _varint(block, at)
            own, at = _varint(block, at)
            length, at = _varint(block, at)
            key = key[:shared] + block[at:at + own]
            at += own + length
            yield key, block[at - length:at]

    def read(self, name: str) -> np.ndarray:
        entry = self.entries[name]
        dtype, begin, size, shard = (entry.get(k, [0])[0] for k in (1, 4, 5, 3))
        file = f"{self.prefix}.data-{shard:05d}-of-{self.shards:05d}"
        with open(file, "rb") as f:
            f.seek(begin)
            data = f.read(size)
        if len(data) != size or _masked_crc32c(data) != struct.unpack("<I", entry[6][0])[0]:
            raise ValueError(f"{name} is damaged")
        return np.frombuffer(data, _DTYPES[dtype]).reshape(_shape(entry.get(2, [b""])[0]))


class _Node:
    """An operation of a graph: op, inputs, attributes (still encoded)."""

    def __init__(self, f: Mapping[int, list]):
        self.op = f[2][0].decode()
        self.inputs = [_tensor_name(i.decode()) for i in f.get(3, []) if i[:1] != b"^"]
        self.attrs = {}
        for entry in map(_fields, f.get(5, [])):
            self.attrs[entry[1][0].decode()] = _fields(entry[2][0])

    def attr(self, name: str, number: int, default: Any) -> Any:
        return self.attrs.get(name, {}).get(number, [default])[0]


def _constant(node: _Node) -> np.ndarray:
    f = _fields(node.attr("value", 8, b""))
    dtype, shape = np.dtype(_DTYPES[f[1][0]]), _shape(f.get(2, [b""])[0])
    if f.get(4):
        return np.frombuffer(f[4][0], dtype).reshape(shape)
    packed = b"".join(x for x in f.get({1: 5, 3: 7, 9: 10}[f[1][0]], [b""])
                      if isinstance(x, bytes))
    values: list = [x for x in f.get(7, []) + f.get(10, []) if isinstance(x, int)]
    if dtype.kind == "f":
        values = list(np.frombuffer(packed, dtype))
    else:
        at = 0
        while at < len(packed):
            x, at = _varint(packed, at)
            values.append(x)
        values = [x - (1 << 64) if x >> 63 else x for x in values]
    # The last value stands for all that follow.
    n = int(np.prod(shape))
    return np.array((values + values[-1:] * n)[:n] or [0] * n, dtype).reshape(shape)


def _convolve(node: _Node, x: np.ndarray, w: np.ndarray) -> np.ndarray:
    strides = _fields(node.attr("strides", 1, b"")).get(3, [b"\1\1\1\1"])
    step = list(strides[0] if isinstance(strides[0], bytes) else strides)[1]
    if node.attr("padding", 2, b"") != b"VALID" or step > 127:
        raise Error("a convolution that is padded is not computed here")
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], (1, 2))
    return np.einsum("bijchw,hwcf->bijf", windows[:, ::step, ::step], w, optimize=True)


def _softmax(_: _Node, x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


_OPS = {
    "Add": lambda n, a, b: a + b,
    "BiasAdd": lambda n, a, b: a + b,
    "ConcatV2": lambda n, *xs: np.concatenate(xs[:-1], int(xs[-1])),
    "Const": _constant,
    "Conv2D": _convolve,
    "Elu": lambda n, x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "Identity": lambda n, x: x,
    "LeakyRelu": lambda n, x: np.where(
        x > 0, x, x * np.float32(struct.unpack("<f", n.attr("alpha", 4, b""))[0])),
    "MatMul": lambda n, a, b: np.matmul(a.T if n.attr("transpose_a", 5, 0) else a,
                                        b.T if n.attr("transpose_b", 5, 0) else b),
    "Maximum": lambda n, a, b: np.maximum(a, b),
    "Mean": lambda n, x, axes: x.mean(tuple(np.ravel(axes)), keepdims=bool(
        n.attr("keep_dims", 5, 0))),
    "Minimum": lambda n, a, b: np.minimum(a, b),
    "Mul": lambda n, a, b: a * b,
    "Neg": lambda n, x: -x,
    "RealDiv": lambda n, a, b: a / b,
    "Relu": lambda n, x: np.maximum(x, 0),
    "Reshape": lambda n, x, shape: x.reshape(shape),
    "Rsqrt": lambda n, x: 1 / np.sqrt(x),
    "Sigmoid": lambda n, x: 1 / (1 + np.exp(-x)),
    "Slice": lambda n, x, begin, size: x[tuple(
        slice(b, None if s < 0 else b + s) for b, s in zip(begin, size))],
    "Softmax": _softmax,
    "Split": lambda n, axis, x: np.split(x, n.attr("num_split", 3, 1), int(axis)),
    "SplitV": lambda n, x, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], int(axis)),
    "Square": lambda n, x: x * x,
    "Sub": lambda n, a, b: a - b,
    "Tanh": lambda n, x: np.tanh(x),
}


class _Network:
    """A part of a checkpoint's graph: run({name: array}) computes tensors from fed ones."""

    def __init__(self, prefix: pathlib.Path):
        meta = _fields(pathlib.Path(f"{prefix}.meta").read_bytes())
        self.nodes = {f[1][0].decode(): f for f in map(_fields, _fields(meta[2][0])[1])}
        self.collections = {}
        for entry in map(_fields, meta.get(4, [])):
            lists = list(_fields(entry[2][0]).values())
            items = _fields(lists[0][0]).get(1, []) if lists else []
            self.collections[entry[1][0].decode()] = items
        self.bundle = _Bundle(prefix)
        self.known: dict[str, np.ndarray] = {}  # what depends on nothing that is fed
        self.steps: dict[str, _Node] = {}  # in the order of computing

    def node(self, tensor: str) -> _Node:
        return _Node(self.nodes[tensor.split(":")[0]])

    def named(self, collection: str) -> str | None:
        items = self.collections.get(collection)
        return items[0].decode() if items else None

    def plan(self, fed: Sequence[str], wanted: Sequence[str]) -> None:
        self.fed = {x.split(":")[0] for x in fed}
        self.wanted = list(wanted)
        for name in wanted:
            self._add(name.split(":")[0])

    def _add(self, name: str) -> bool:
        """Whether the operation depends on something fed."""
        if name in self.known:
            return False
        if name in self.fed or name in self.steps:
            return True
        node = self.node(name)
        if node.op in ("VariableV2", "Variable"):
            self.known[name] = self.bundle.read(name)
            return False
        if node.op not in _OPS:
            raise Error(f"its policy has the operation {name} ({node.op}), which is not "
                        "computed here")
        depends = [self._add(i.split(":")[0]) for i in node.inputs]
        if not any(depends):
            self.known[name] = self._compute(node, self.known)
            return False
        self.steps[name] = node
        return True

    @staticmethod
    def _compute(node: _Node, values: Mapping[str, Any]) -> Any:
        inputs = []
        for tensor in node.inputs:
            name, _, index = tensor.partition(":")
            x = values[name]
            inputs.append(x[int(index)] if isinstance(x, list) else x)
        return _OPS[node.op](node, *inputs)

    def run(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        values: dict[str, Any] = dict(self.known)
        values.update((k.split(":")[0], v) for k, v in feeds.items())
        with np.errstate(over="ignore"):
            for name, node in self.steps.items():
                values[name] = self._compute(node, values)
        return [values[name.split(":")[0]] for name in self.wanted]


# ---- policies ----

# These give a score to each combination of an action's parts, others to each part's choices.
# The graph says so by the collection policy/combinations, but not that of a recurrent policy,
# nor one of an older checkpoint.
_OF_COMBINATIONS = ("iql", "vdn", "qmix", "isac", "masac")
_WITHOUT_POLICY = ("random", "heuristic", "noop", "critic", "graph")


def _outline(text: str) -> dict:
    """The keys of a run's config.yaml, nested; values are texts."""
    root: dict = {}
    stack = [(-1, root)]
    for line in text.splitlines():
        if not (m := re.match(r"( *)([^\s#:-][^:]*):(?:\s+(.*))?$", line)):
            continue
        indent, key, value = len(m[1]), m[2], m[3]
        while stack[-1][0] >= indent:
            stack.pop()
        stack[-1][1][key] = value if value and value != "{}" else {}
        if isinstance(stack[-1][1][key], dict):
            stack.append((indent, stack[-1][1][key]))
    return root


def _setting(config: Mapping, agent: str, *keys: str) -> Any:
    """A setting of an agent, or else the one under defaults."""
    for place in (config.get("agents", {}).get(agent, {}), config.get("defaults", {})):
        for key in keys:
            place = place.get(key) if isinstance(place, Mapping) else None
        if place is not None:
            return place
    return None


def _team(name: str) -> str:
    """common/config/team_name.h"""
    return re.sub(r"(?<=.)_?\d+$", "", name)


class Policy:
    """A trained agent's greedy policy, as `brood eval` plays it.

    policy(observation, mask)  an action: of the environment's space if it was loaded for one,
                               otherwise the index of the best score, or an array. mask: 1
                               for each choice that is possible; may also stand in the
                               observation, as {"observation": ..., "action_mask": ...}
    policy.scores(rows)        what the network gives for rows (B, O): scores or actions
    policy.reset()             at the begin of an episode, for policies with a memory
    """

    def __init__(self, network: _Network, agent: str, inputs: dict[str, Any]):
        self.agent = agent
        self._network, self._inputs = network, inputs
        self._sees = self._acts = None
        self._carry_name = inputs["carry"]
        self.is_scores: bool = inputs["is_scores"]
        self.reset()

    def reset(self) -> None:
        self._carry = self._last = None

    def _bind(self, sees: Any, acts: Any) -> None:
        """Converts by the bridge's spaces (bridge_spaces.py)."""
        self._sees, self._acts = sees, acts
        width = self._inputs["width"]
        extra = len(self._inputs["id"]) + (acts.width if self._inputs["last_action"] else 0)
        if width != sees.width + extra:
            raise Error(f"{self.agent}: the policy sees {width - extra} numbers, the "
                        f"environment shows {sees.width}")
        if self.is_scores != (acts.described["kind"] == "discrete"):
            raise Error(f"{self.agent}: a policy of "
                        f"{'discrete' if self.is_scores else 'continuous'} actions, but "
                        f"those of the environment are {acts.kind}")
        heads = acts.described["heads"]
        n = self._run(np.zeros((1, width), "f4")).shape[1]
        all_heads = int(np.prod(heads))
        if self.is_scores and n == all_heads != acts.width:
            self._inputs["combinations"] = True  # an older checkpoint of a frozen policy
        expected = all_heads if self._inputs["combinations"] else acts.width
        if n != expected:
            raise Error(f"{self.agent}: the policy gives {n} numbers for an action, the "
                        f"environment expects {expected}")
        self.reset()

    def scores(self, observations: Any) -> np.ndarray:
        x = np.atleast_2d(np.asarray(observations, "f4"))
        if self._inputs["last_action"]:
            last = np.zeros((len(x), self._acts.width), "f4")
            if self._last is not None:
                last[:] = self._last
            x = np.concatenate([x, last], 1)
        if len(self._inputs["id"]):
            x = np.concatenate([x, np.tile(self._inputs["id"], (len(x), 1))], 1)
        return self._run(x.astype("f4"))

    def _run(self, x: np.ndarray) -> np.ndarray:
        """The network's output for rows that already have the inputs behind the observation:
        the last action and the agent's id, where the network has them."""
        feeds = {self._inputs["observation"]: x}
        if x.shape[1] != self._inputs["width"]:
            raise Error(f"{self.agent}: an observation of {x.shape[1]} numbers, the policy "
                        f"sees {self._inputs['width']}")
        if self._carry_name is None:
            return self._network.run(feeds)[0]
        if self._carry is None or len(self._carry) != len(x):
            self._carry = np.zeros((len(x), self._inputs["units"]), "f4")
        feeds[self._carry_name] = self._carry
        result, self._carry = self._network.run(feeds)
        return result

    def row(self, observation: np.ndarray, mask: bytes | Sequence | None) -> np.ndarray:
        """An action as brood has it: one-hot for each part of it, or its numbers."""
        x = self.scores(observation)[0]
        if not self.is_scores:
            return x
        heads = self._acts.described["heads"] if self._acts else [len(x)]
        allowed = np.ones(sum(heads), bool) if mask is None else \
            np.array(list(mask), bool).ravel()
        if len(allowed) != sum(heads):
            raise Error(f"{self.agent}: a mask of {len(allowed)} for an action with "
                        f"{sum(heads)} choices")
        masks = np.split(allowed, np.cumsum(heads)[:-1])
        masks = [m if m.any() else ~m for m in masks]  # of which nothing is allowed: all
        if self._inputs["combinations"] and len(heads) > 1:
            # The first part's number changes fastest.
            grid = masks[0]
            for m in masks[1:]:
                grid = np.logical_and.outer(m, grid)
            best = np.unravel_index(np.argmax(np.where(grid.ravel(), x, -np.inf)), grid.shape)
            choices = best[::-1]
        else:
            parts = np.split(x, np.cumsum(heads)[:-1])
            choices = [np.argmax(np.where(m, p, -np.inf)) for m, p in zip(masks, parts)]
        action = np.concatenate([np.arange(n) == c for n, c in zip(heads, choices)])
        self._last = action.astype("f4")
        return self._last

    def __call__(self, observation: Any, mask: Any = None) -> Any:
        if isinstance(observation, Mapping) and "action_mask" in observation:
            mask = observation["action_mask"] if mask is None else mask
            if self._sees is None:
                observation = observation["observation"]
        if self._sees is None:
            row = self.row(np.ravel(np.asarray(observation, "f4")), mask)
            return int(np.argmax(row)) if self.is_scores else row
        with _refusals():
            if mask is not None and self.is_scores:
                mask = self._acts.mask(mask)
            x = _numbers(self._sees, self._sees.encode(observation))
            return self._acts.decode(self.row(x, mask).tolist())


def _numbers(sees: Any, encoded: bytes) -> np.ndarray:
    """An observation that the bridge encoded."""
    return np.frombuffer(encoded, "u1" if sees.u8 else "<f4")


def _inputs_of(network: _Network, config: Mapping, agent: str) -> dict:
    """Which tensors are the policy's, and what it sees besides the observation."""
    observation = network.named("policy/observation")
    scores = network.named("policy/logits")
    wanted, carry, units = scores or network.named("policy/action"), None, 0
    if wanted is None and f"{agent}/q" in network.nodes:  # it has more inputs
        observation, wanted, scores = f"{agent}/observation:0", f"{agent}/q:0", "q"
        if f"{agent}/carry" in network.nodes:
            carry = f"{agent}/carry:0"
            units = _shape(network.node(carry).attr("shape", 7, b""))[1]
    if observation is None or wanted is None:
        raise Error(f"{agent} has no policy to load: its graph does not name one")
    outputs = [wanted]
    if carry is not None:  # the state is what the last layer, behind Identity, sees
        layer = network.node(network.node(network.node(wanted).inputs[0]).inputs[0])
        outputs.append(layer.inputs[0])
    network.plan([observation] + ([carry] if carry else []), outputs)
    inputs = {"observation": observation, "carry": carry, "units": units, "id": [],
              "is_scores": scores is not None, "last_action": False,
              "width": _shape(network.node(observation).attr("shape", 7, b""))[1],
              "combinations": scores is not None and
              (network.named("policy/combinations") is not None or
               _setting(config, agent, "algorithm") in _OF_COMBINATIONS)}
    if _setting(config, agent, "settings", "agent_id") == "true":
        everyone = config["env"].get("teams") == "all"
        team = [a for a in config["agents"] if everyone or _team(a) == _team(agent)]
        inputs["id"] = [float(a == agent) for a in team]
    inputs["last_action"] = _setting(config, agent, "settings", "last_action") == "true"
    return inputs


def _place(run: Path | Run, runs_dir: Path | None) -> tuple[pathlib.Path, dict]:
    """The folder of the checkpoint RUN@STEP, or the newest of RUN, and the configuration."""
    step: int | None = None
    if not isinstance(run, Run):
        if m := re.fullmatch(r"(.+)@(\d+)", os.fspath(run)):
            run, step = m[1], int(m[2])
        run = attach(run, runs_dir)
    there = run.checkpoints()
    if not there or step is not None and step not in there:
        which = "checkpoint" if step is None else f"checkpoint {step}"
        raise Error(f"there is no {which} in {run.path}" +
                    (f"; there are: {', '.join(map(str, there))}" if there else ""))
    step = there[-1] if step is None else step
    return (run.path / "checkpoints" / str(step),
            _outline((run.path / "config.yaml").read_text(encoding="utf-8")))


def _load(folder: pathlib.Path, config: Mapping, agent: str, game: Any) -> Policy:
    """game: a parallel environment, or None."""
    if agent not in config["agents"]:
        raise Error(f"there is no agent {agent}; there are: {', '.join(config['agents'])}")
    prefix = folder / agent / f"model.ckpt-{folder.name}"
    if (algorithm := _setting(config, agent, "algorithm")) in _WITHOUT_POLICY:
        raise Error(f"{prefix}: {agent} has no policy to load: its algorithm is {algorithm}")
    try:
        network = _Network(prefix)
        policy = Policy(network, agent, _inputs_of(network, config, agent))
    except (ValueError, KeyError, IndexError, struct.error, OSError) as e:
        raise Error(f"{prefix}: cannot be read: {type(e).__name__} {e}") from None
    except Error as e:
        raise Error(f"{prefix}: {e}") from None
    if game is not None:
        index = _names(game)
        if agent not in index:
            raise Error(f"the environment has no agent {agent}; there are: {', '.join(index)}")
        _bind(policy, game, game.possible_agents[index.index(agent)])
    elif policy._inputs["last_action"]:
        raise Error(f"{agent}: its policy sees its last action: give the environment, too")
    return policy


def load_policy(run: Path | Run, agent: str, env: Any = None,
                runs_dir: Path | None = None) -> Policy:
    """The policy of an agent, from the checkpoint RUN@STEP or the newest of RUN. env: a
    PettingZoo or Gymnasium environment whose agent of that name it is to play; without one
    the policy takes plain vectors. Refused are agents without a network of their own, and
    spaces that do not fit."""
    return _load(*_place(run, runs_dir), agent, None if env is None else _parallel(env))


def _bridge() -> Any:
    """pettingzoo_bridge.py, which knows how environments look."""
    if str(HERE) not in sys.path:
        sys.path.append(str(HERE))
    import pettingzoo_bridge  # pylint: disable=import-outside-toplevel
    return pettingzoo_bridge


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    """What the bridge refuses is an Error."""
    try:
        yield
    except _bridge().Refused as e:
        raise Error(str(e)) from None


def _parallel(env: Any) -> Any:
    with _refusals():
        return _bridge().as_parallel(env)


def _names(game: Any) -> list[str]:
    with _refusals():
        return _bridge().names_of(game.possible_agents)


def _bind(policy: Policy, game: Any, agent: Any) -> None:
    bridge = _bridge()
    with _refusals():
        sees = bridge.observation_of(bridge.space_of(game, "observation_space", agent),
                                     str(agent))
        acts = bridge.Action(bridge.space_of(game, "action_space", agent), str(agent))
    policy._bind(sees, acts)


def load_policies(run: Path | Run, env: Any, runs_dir: Path | None = None
                  ) -> dict[str, Policy]:
    """The policies of all agents of an environment, by name, from the same checkpoint."""
    game, place = _parallel(env), _place(run, runs_dir)
    return {name: _load(*place, name, game) for name in _names(game)}


def play(env: Any, policies: Mapping[str, Policy], episodes: int = 1, seed: int = 0,
         max_steps: int = 0) -> dict[str, np.ndarray]:
    """Plays episodes with seeds seed, seed + 1, ... in an environment of any kind that the
    bridge accepts, and returns each agent's undiscounted return of each episode. max_steps:
    the longest episode, 0: without limit."""
    bridge = _bridge()
    with _refusals():
        game = bridge.Game(lambda: env, {})
        copy = game.new_copy()
        names = bridge.names_of(game.agents)
        returns = np.zeros((episodes, len(names)))
        for k in range(episodes):
            seen, present, masks = copy.reset(seed + k)
            for policy in policies.values():
                policy.reset()
            steps = 0
            while any(present) and (max_steps == 0 or steps < max_steps):
                rows = []
                for i, name in enumerate(names):
                    if not present[i]:
                        rows.append([0.0] * game.actions[i].width)
                        continue
                    x = _numbers(game.observations[i], seen[i])
                    mask = masks[i] if masks and policies[name].is_scores else None
                    rows.append(policies[name].row(x, mask).tolist())
                seen, present, masks, reward, _ = copy.step(rows)
                returns[k] += reward
                steps += 1
    return dict(zip(names, returns.T))


# ---- writing environments ----


class Box:
    """Arrays of numbers from low to high."""

    def __init__(self, low: Any, high: Any, shape: Sequence[int], dtype: Any = np.float32):
        self.low, self.high = np.full(shape, low, dtype), np.full(shape, high, dtype)
        self.shape, self.dtype = tuple(shape), np.dtype(dtype)


class Discrete:
    """Whole numbers from start on, n of them."""

    def __init__(self, n: int, start: int = 0):
        self.n, self.start, self.shape = n, start, ()


class MultiDiscrete:
    """A whole number from 0 on for each part; nvec: how many."""

    def __init__(self, nvec: Sequence[int]):
        self.nvec = np.array(nvec)
        self.shape, self.dtype = self.nvec.shape, np.dtype(np.int64)


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
    self.agents are those that are in the episode, self.time the steps since it began.

        brood.launch({"env": {"command": brood.bridged("my_env.py:MyEnv")}})
    """

    metadata: dict = {"name": "brood_env"}
    possible_agents: Sequence[str]
    observations: Any
    actions: Any
    max_steps = 0

    def begin(self) -> Mapping[str, Any]:
        raise NotImplementedError

    def act(self, actions: Mapping[str, Any]) -> tuple[Mapping, Mapping, Any]:
        raise NotImplementedError

    def masks(self) -> Mapping[str, Any]:
        return {}

    def observation_space(self, agent: str) -> Any:
        return self.observations[agent] if isinstance(self.observations, dict) \
            else self.observations

    def action_space(self, agent: str) -> Any:
        return self.actions[agent] if isinstance(self.actions, dict) else self.actions

    def _infos(self, agents: Sequence[str]) -> dict:
        masks = self.masks()
        return {a: {"action_mask": masks[a]} if a in masks else {} for a in agents}

    def reset(self, seed: int | None = None, options: Any = None) -> tuple[dict, dict]:
        self.draw, self.time = random.Random(seed), 0
        self.agents = list(self.possible_agents)
        seen = dict(self.begin())
        return seen, self._infos(self.agents)

    def step(self, actions: Mapping[str, Any]) -> tuple[dict, dict, dict, dict, dict]:
        acted = self.agents
        seen, rewards, over = self.act(actions)
        self.time += 1
        ends = {a: bool(over.get(a, False)) if isinstance(over, Mapping) else bool(over)
                for a in acted}
        cut = 0 < self.max_steps <= self.time
        self.agents = [a for a in acted if not ends[a] and not cut]
        return (dict(seen), dict(rewards), ends, {a: cut and not ends[a] for a in acted},
                self._infos(acted))

    def close(self) -> None:
        pass
