"""Drive brood from Python: start runs, watch and steer them.

    import brood

    run = brood.launch("configs/simple_spread.yaml", name="x", seed=7)
    for event in run.subscribe():           # a dict for whatever happens
        if event["event"] == "row":
            break
    run.set({"defaults.optimizer.learning_rate": 0.001})
    run.stop()
    rows = brood.attach("x").metrics()      # a NumPy record array: rows.env_steps, ...

    policy = brood.load_policy("x@300000", "agent_0", env)  # policies.py

Needs     msgpack for what asks a live run, NumPy for `metrics` and `run`.
          `runs`, `launch`, and the status of a run that is over execute the program:
          $BROOD, or else the one of this checkout or installation, or of PATH.
Runs      are named as on the command line: a name under the runs directory ($BROOD_RUNS_DIR
          or ./runs), or a path; RUN@STEP is a checkpoint, RUN its newest one, RUN@best that of the
          best evaluation (checkpoint.keep_best).
Live      or over, or killed: `status`, `metrics`, `evaluate` and `load_policy` work with
          all of them. What steers a run needs a live one.
Errors    are brood.Error with the one line that brood gives.
Threads   a Run may be used by one thread at a time; `subscribe` has a connection of its own.
"""
from __future__ import annotations

import contextlib
import csv
import functools
import importlib
import json
import math
import os
import pathlib
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from typing import TYPE_CHECKING, Any, Iterator, Mapping, Sequence, Union

from .errors import Error
from .later import Later

if TYPE_CHECKING:
    import msgpack  # type: ignore[import-untyped,unused-ignore]
    import numpy as np
    import numpy.typing as npt
else:
    np, msgpack = Later("numpy"), Later("msgpack")

# The folder with the program and the bridge, in a checkout and in an installation.
HERE = pathlib.Path(__file__).resolve().parents[2]
Path = Union[str, "os.PathLike[str]"]


# ---- the program ----


def program() -> str:
    """The brood that is executed."""
    places = [os.environ.get("BROOD"), HERE / "brood", HERE.parent.parent / "bin" / "brood",
              shutil.which("brood")]
    for place in places:
        if place and os.access(place, os.X_OK) and os.path.isfile(place):
            return str(place)
    raise Error("there is no program brood: set $BROOD to its path")


def folder_of_scripts() -> pathlib.Path:
    """The one with pettingzoo_bridge.py, of this checkout or installation, or of the program's."""
    places = [HERE]
    with contextlib.suppress(Error):
        brood = pathlib.Path(program()).resolve()
        places += [brood.parent, brood.parent.parent / "share" / "brood"]
    for place in places:
        if (place / "pettingzoo_bridge.py").is_file():
            return place
    raise Error("pettingzoo_bridge.py is not there: set $BROOD to the path of a program brood")


def _execute(*words: str) -> list[dict[str, Any]]:
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


def runs(runs_dir: Path | None = None) -> list[dict[str, Any]]:
    """The runs, the newest first, each as `brood runs --json` prints it: run, state,
    env_steps, team_return_mean, disk_bytes, began, path, ..."""
    return [line for line in _execute("runs", *_in(runs_dir)) if "run" in line]  # no studies


def bridged(environment: Path) -> list[str]:
    """env.command for an environment in Python, as pettingzoo_bridge.py takes it: FILE.py,
    FILE.py:NAME, a module, or a name that Gymnasium knows. It is run by this Python."""
    bridge = folder_of_scripts() / "pettingzoo_bridge.py"
    return [sys.executable, str(bridge), os.fspath(environment)]


def attach(name: Path | None = None, runs_dir: Path | None = None,
           timeout_s: float = 60) -> Run:
    """A run, live or over; without a name the newest. timeout_s: how long to wait for its
    answers."""
    return Run(_find(name, runs_dir), timeout_s)


def launch(config: Path | Mapping[str, Any], name: str | None = None, seed: int | None = None,
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

DTYPES = {1: "<f4", 2: "<f8", 3: "<i4", 4: "u1", 5: "<i2", 6: "i1", 8: "<c8", 9: "<i8",
           10: "?", 17: "<u2", 18: "<c16", 19: "<f2", 22: "<u4", 23: "<u8"}
_STRING, _BFLOAT16 = 7, 14


@functools.lru_cache(1)
def _numbers() -> dict[Any, int]:
    return {np.dtype(name): number for number, name in DTYPES.items()}


def _pack_tensor(value: Any) -> list[Any]:
    x = np.asarray(value)
    if x.dtype == np.float64:
        x = x.astype("<f4")
    if x.dtype.kind in "SUO":
        return [_STRING, list(x.shape), [s.encode() if isinstance(s, str) else bytes(s)
                                         for s in x.ravel().tolist()]]
    if x.dtype not in _numbers():
        raise Error(f"a tensor of type {x.dtype} cannot be fed")
    return [_numbers()[x.dtype], list(x.shape), x.tobytes()]


def _unpack_tensor(value: Sequence[Any]) -> npt.NDArray[Any]:
    number, shape, data = value
    if number == _STRING:  # an array of bytes, as TensorFlow gives it
        strings = np.empty(len(data), object)
        strings[:] = data
        return strings.reshape(shape)
    if number == _BFLOAT16:  # which NumPy lacks: as float32
        bits = np.frombuffer(data, "<u2").astype("<u4") << 16
        return bits.view("<f4").reshape(shape)
    if number not in DTYPES:
        raise Error(f"a tensor of TensorFlow's type {number} cannot be fetched")
    return np.frombuffer(data, DTYPES[number]).reshape(shape).copy()


def tensor_name(name: str) -> str:
    return name if ":" in name else name + ":0"


class _Client:
    """A connection to a live run: msgpack-rpc (supervisor/control/README.md)."""

    def __init__(self, path: pathlib.Path, timeout_s: float | None):
        self.path, self.last_id = path, 0
        self.unpacker = msgpack.Unpacker(raw=False, max_buffer_size=1 << 27)
        self.events: list[dict[str, Any]] = []
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

    def receive(self) -> list[list[Any]]:
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

    def call(self, method: str, params: Mapping[str, Any]) -> Any:
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

    def listen(self) -> Iterator[dict[str, Any]]:
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


def _best_of(state: pathlib.Path) -> int | None:
    """The step of the best checkpoint in the section "evaluations" of a run.state
    (supervisor/save/checkpoint_format.h, supervisor/rollout/verdict.c)."""
    with open(state, "rb") as f:
        n, = struct.unpack("<12xI", f.read(16))
        for _ in range(n):
            length, = struct.unpack("<I", f.read(4))
            name = f.read(length)
            length, = struct.unpack("<Q", f.read(8))
            if name == b"evaluations":
                is_known, _, step = struct.unpack("<BdQ", f.read(length)[-17:])
                return int(step) if is_known else None
            f.seek(length + 4, os.SEEK_CUR)
    return None


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

    def status(self) -> dict[str, Any]:
        """What `brood status --json` prints: state, env_steps, exact, agents, pending, ...
        state: starting, running, paused, stopping, suspended (its supervisor was stopped by a
        signal), or not answering; of a run that is over, done, stopped, failed, cut off, killed,
        or unreadable (its journal is damaged)."""
        try:
            found: dict[str, Any] = self.call("status")
            return found
        except Error:
            return _execute("status", str(self.path))[0]

    def is_live(self) -> bool:
        try:
            _Client(self.path, self.timeout_s).socket.close()
            return True
        except Error:
            return False

    def subscribe(self) -> Iterator[dict[str, Any]]:
        """The run's events from now on, until its end: dicts with time, event, env_steps and
        what belongs to the event (supervisor/control/README.md)."""
        client = _Client(self.path, self.timeout_s)
        client.call("subscribe", {"events": True})
        return client.listen()

    def metrics(self) -> np.recarray[Any, Any]:
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
            pandas: Any = importlib.import_module("pandas")
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

    def best(self) -> int | None:
        """The step of RUN@best, as the newest checkpoint names it; None: there is none."""
        there = self.checkpoints()
        for step in reversed(there):
            with contextlib.suppress(OSError, struct.error):
                best = _best_of(self.path / "checkpoints" / str(step) / "run.state")
                return best if best in there else None
        return None

    def evaluate(self, episodes: int = 100, seed: int = 0,
                 checkpoint: int | str | None = None) -> dict[str, Any]:
        """What `brood eval --json` prints: return_mean, return_se, ... checkpoint: a step, or
        "best"."""
        words = ["--episodes", str(episodes), "--seed", str(seed)]
        words += ["--checkpoint", str(checkpoint)] if checkpoint is not None else []
        return _execute("eval", str(self.path), *words)[-1]

    # -- steering; steps are those at which it happened --

    def set(self, changes: Mapping[str, Any], at: int | None = None) -> dict[str, Any]:
        """Changes settings, {"defaults.discount": 0.9}, from the next round or step `at`.
        Returns {at, changes, waits}."""
        params: dict[str, Any] = {"changes": [_assignment(k, v) for k, v in changes.items()]}
        if at is not None:
            params["at"] = at
        found: dict[str, Any] = self.call("set", **params)
        return found

    def cancel(self, *keys: str) -> list[dict[str, Any]]:
        """Takes back changes that are not yet in force; without keys all of them."""
        found: list[dict[str, Any]] = self.call("set", cancel=list(keys))["cancelled"]
        return found

    def kill(self, agent: str) -> int:
        return int(self.call("kill", agent=agent)["env_steps"])

    def respawn(self, agent: str) -> int:
        return int(self.call("respawn", agent=agent)["env_steps"])

    def pause(self) -> int:
        return int(self.call("pause")["env_steps"])

    def continue_(self) -> int:
        return int(self.call("continue")["env_steps"])

    def checkpoint(self) -> int:
        """Writes one; returns its step when it is on the disk."""
        return int(self.call("checkpoint")["env_steps"])

    def stop(self) -> int:
        """Ends the run with a checkpoint, and returns when every agent has ended."""
        return int(self.call("stop")["env_steps"])

    def trace(self, rounds: int) -> dict[str, Any]:
        found: dict[str, Any] = self.call("trace", rounds=rounds)
        return found

    def run(self, agent: str, fetches: str | Sequence[str] = (),
            feeds: Mapping[str, Any] | None = None, targets: Sequence[str] = ()) -> Any:
        """Runs an agent's graph: the fetched array, or a list of them. `targets`, which change
        variables, only in runs without an environment."""
        names = [fetches] if isinstance(fetches, str) else list(fetches)
        answer = self.call("run", agent=agent, targets=list(targets),
                           fetches=[tensor_name(n) for n in names],
                           feeds={tensor_name(k): _pack_tensor(v)
                                  for k, v in (feeds or {}).items()})
        arrays = [_unpack_tensor(t) for t in answer["fetched"]]
        return arrays[0] if isinstance(fetches, str) else arrays

    def wait(self) -> int:
        """Waits for the run's end; its exit code (0 done, 1 failed, 4 stopped)."""
        return subprocess.run([program(), "wait", str(self.path)], stdin=subprocess.DEVNULL,
                              stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                              check=False).returncode
