"""Watches what an agent's methods do besides computing, for `brood agent-check` (check.py).

With BROOD_WATCH=1 in the environment a process notifies the supervisor once of each of these, with
the line of the agent's own code from which it comes:

    time, entropy, process id, id, environment, reads   what an answer must not depend on
    global              a method changed a global variable or an attribute of the class
    argument            a method changed what it was given in place
    writes, process, thread, network    what an agent cannot or must not do

It sees calls from Python: those that C code makes inside itself, it does not.
"""
from __future__ import annotations

import _collections_abc
import builtins
import contextlib
import datetime
import functools
import hashlib
import os
import sys
import time
import types
from typing import Any, Callable, Iterator, Mapping, TypeVar

import numpy as np

from .protocol import NOTIFICATION
from .startup import is_own

_R = TypeVar("_R")
Caller = Callable[..., Any]

_CALLS: dict[Any, tuple[str, str]] = {
    **{f: ("time", f"time.{f.__name__}") for f in (
        time.time, time.time_ns, time.monotonic, time.monotonic_ns, time.perf_counter,
        time.perf_counter_ns, time.process_time, time.process_time_ns)},
    datetime.datetime.now: ("time", "datetime.now"),
    datetime.datetime.utcnow: ("time", "datetime.utcnow"),
    datetime.date.today: ("time", "date.today"),
    os.urandom: ("entropy", "the machine's random numbers"),
    os.getpid: ("process id", "os.getpid"),
    builtins.id: ("id", "id"),
}
_THREADS = frozenset(("start_new_thread", "start_new", "start_joinable_thread"))
_EVENTS = {
    **dict.fromkeys(("subprocess.Popen", "os.system", "os.fork", "os.forkpty", "os.exec",
                     "os.posix_spawn", "os.spawn"), "process"),
    **dict.fromkeys(("os.remove", "os.rename", "os.mkdir", "os.rmdir", "os.truncate", "os.link",
                     "os.symlink", "os.chmod"), "writes"),
    **dict.fromkeys(("socket.connect", "socket.bind"), "network"),
}
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_MAPPINGS = frozenset((os.__file__, _collections_abc.__file__, "<frozen os>",
                       "<frozen _collections_abc>"))
_ENVIRON = type(os.environ).__getitem__.__code__
_MOST_BYTES, _MOST_ITEMS, _DEPTH = 16 << 20, 1000, 4

_HERE = os.path.dirname(os.path.abspath(__file__)) + os.sep

_told: set[tuple[str, str, int]] = set()
_current: list[Watcher] = []  # the innermost last; a fresh object's within a used one's
_is_hooked = False


_own = functools.lru_cache(1000)(is_own)


def _own_frame(frame: types.FrameType | None) -> types.FrameType | None:
    """The innermost frame of the user's own files; None for what this package does for them."""
    while frame is not None and not _own(frame.f_code.co_filename):
        if frame.f_code.co_filename.startswith(_HERE):
            return None
        frame = frame.f_back
    return frame


def fingerprint(x: Any, depth: int = _DEPTH) -> str:
    """A text that differs if plain data does; of everything else its type."""
    if x is None or isinstance(x, (bool, int, float, complex, str, bytes)):
        return repr(x) if not isinstance(x, (str, bytes)) or len(x) < 100 else \
            f"{type(x).__name__} {len(x)} {hash(x)}"
    if isinstance(x, np.ndarray) and x.nbytes <= _MOST_BYTES and x.dtype != object:
        return f"{x.dtype} {x.shape} {hashlib.sha256(np.ascontiguousarray(x).data).hexdigest()}"
    if isinstance(x, np.random.Generator):
        return repr(x.bit_generator.state)
    if type(x).__module__ == "itertools" or isinstance(x, (range, np.generic)):
        return repr(x)
    if isinstance(x, (list, tuple, set, frozenset, dict)):
        if depth == 0:
            return f"{type(x).__name__} {len(x)}"
        items = x.items() if isinstance(x, dict) else x
        parts = [fingerprint(i, depth - 1) for _, i in zip(range(_MOST_ITEMS), items)]
        if isinstance(x, (set, frozenset)):
            parts.sort()
        return f"{type(x).__name__} {len(x)} {parts}"
    if type(x).__module__ == "torch" and hasattr(x, "detach") and hasattr(x, "_version"):
        return f"tensor {x.data_ptr()} {x._version}"
    return type(x).__name__


def _globals(cls: type) -> dict[tuple[str, str], str]:
    """(file, name) -> fingerprint of the user's global variables and class attributes."""
    found: dict[tuple[str, str], str] = {}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        # Modules that libraries make up have names such as "_ops.py".
        if isinstance(file, str) and os.path.isabs(file) and _own(file):
            for name, x in list(vars(module).items()):
                if not name.startswith("__") and not isinstance(x, _OPAQUE):
                    found[os.path.basename(file), name] = fingerprint(x)
    for base in cls.__mro__:
        file = getattr(sys.modules.get(base.__module__), "__file__", None)
        if isinstance(file, str) and _own(file):
            for name, x in list(vars(base).items()):
                if not name.startswith("_") and not callable(x):
                    found[os.path.basename(file), f"{base.__name__}.{name}"] = fingerprint(x)
    return found


_OPAQUE = (type, types.ModuleType, types.FunctionType, types.BuiltinFunctionType)


def _arguments(arguments: tuple[Any, ...]) -> dict[str, Any]:
    """The arrays that a method is given: observations, and those of a context and a batch."""
    found: dict[str, Any] = {}
    for x in arguments:
        if isinstance(x, np.ndarray):
            found["obs"] = x
        for name in ("allowed", "carry", "begins", "weights", "rows", "present"):
            value = getattr(x, name, None)
            if isinstance(value, np.ndarray):
                found[f"{'batch' if hasattr(x, 'choices') else 'ctx'}.{name}"] = value
        inputs = getattr(x, "inputs", None)
        if isinstance(inputs, Mapping):
            found.update((f"ctx.inputs[{k!r}]", v) for k, v in inputs.items())
    return found


class Watcher:
    """Calls methods of objects of a class."""

    def __init__(self, cls: type, send: Callable[[list[Any]], None]):
        self._cls, self._send = cls, send
        self._method = ""

    def __call__(self, name: str, function: Callable[..., _R], *arguments: Any) -> _R:
        self._method = name
        given = _arguments(arguments)
        before = {k: x.copy() for k, x in given.items()}
        variables = _globals(self._cls)
        with self._watched():
            result = function(*arguments)
        for k, x in given.items():
            if x.tobytes() != before[k].tobytes():
                self._tell("argument", f"changes {k} in place", *self._definition(function))
        for (file, variable), text in _globals(self._cls).items():
            if variables.get((file, variable), text) != text:
                self._tell("global", f"changes the global variable {variable} of {file}",
                           *self._definition(function))
        return result

    @contextlib.contextmanager
    def _watched(self) -> Iterator[None]:
        _hook()
        outer = sys.getprofile()
        _current.append(self)
        sys.setprofile(self._profile)
        try:
            yield
        finally:
            sys.setprofile(outer)
            _current.remove(self)

    @staticmethod
    def _definition(function: Callable[..., Any]) -> tuple[str, int]:
        code = getattr(function, "__code__", None)
        return (code.co_filename, code.co_firstlineno) if code is not None else ("", 0)

    def _profile(self, frame: types.FrameType, event: str, called: Any) -> None:
        if event == "c_call":
            try:
                kind, text = _CALLS.get(called, ("", ""))
            except TypeError:  # a bound method of what has no hash
                return
            if kind in ("id", "process id", "time") and not _own(frame.f_code.co_filename):
                return  # a library's own use of it
            if not kind and getattr(called, "__name__", "") in _THREADS:
                kind, text = "thread", "starts a thread"
            if kind:
                self._found(kind, text if kind == "thread" else f"calls {text}"
                            if kind != "entropy" else f"takes {text}", frame)
        elif event == "call" and frame.f_code is _ENVIRON:
            at = frame.f_back
            while at is not None and at.f_code.co_filename in _MAPPINGS:
                at = at.f_back
            if at is not None and _own(at.f_code.co_filename):
                name = frame.f_locals.get("key")
                self._found("environment", f"reads the environment variable {name}", at)

    def _found(self, kind: str, text: str, frame: types.FrameType | None) -> None:
        own = _own_frame(frame)
        if own is not None:
            self._tell(kind, text, own.f_code.co_filename, own.f_lineno)

    def _tell(self, kind: str, text: str, file: str, line: int) -> None:
        if (text, file, line) in _told:
            return
        _told.add((text, file, line))
        self._send([NOTIFICATION, "watch", {"kind": kind, "text": text, "method": self._method,
                                            "file": os.path.basename(file), "line": line}])

    def audit(self, event: str, arguments: tuple[Any, ...]) -> None:
        kind = _EVENTS.get(event, "")
        if event == "open":
            path, _, flags = arguments
            writes = isinstance(flags, int) and flags & _WRITING
            kind, text = ("writes", "writes") if writes else ("reads", "reads")
            text = f"{text} {os.fsdecode(path) if isinstance(path, (str, bytes)) else 'a file'}"
            if path == os.devnull:
                return
        elif kind:
            what = arguments[0] if arguments and isinstance(arguments[0], (str, bytes)) else ""
            text = {"process": "starts the process", "writes": f"{event} of",
                    "network": "uses the network"}[kind]
            text = f"{text} {os.fsdecode(what)}".rstrip()
        else:
            return
        frame: types.FrameType | None = sys._getframe(2)
        at = frame
        while at is not None and not _own(at.f_code.co_filename):
            if "importlib" in at.f_code.co_filename:
                return  # a module that is imported when it is first used
            at = at.f_back
        self._found(kind, text, frame)


def _audit(event: str, arguments: tuple[Any, ...]) -> None:
    if _current and (event == "open" or event in _EVENTS):
        watcher = _current.pop()  # what this does is not watched
        try:
            watcher.audit(event, arguments)
        finally:
            _current.append(watcher)


def _hook() -> None:
    global _is_hooked
    if not _is_hooked:
        _is_hooked = True
        sys.addaudithook(_audit)


def _call(name: str, function: Callable[..., _R], *arguments: Any) -> _R:
    return function(*arguments)


def caller(cls: type, send: Callable[[list[Any]], None]) -> Caller:
    """(name, function, *arguments) -> its result: how methods of the class are called."""
    return Watcher(cls, send) if os.environ.get("BROOD_WATCH") == "1" else _call
