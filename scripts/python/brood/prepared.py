"""A prepared process: it has imported what the program needs, and forks the program's agents.

The rule "all that an agent computes with begins after the fork" is kept by what this process is:
one thread, and nothing built. Threads, generators, devices and sessions that a module makes when
it is imported would be shared or lost by a fork; more threads than one are seen, and refused: the
agents are then executed one by one. CUDA, too, must not be touched before the fork.

The messages are those of common/msg/prepared_msg.h.
"""
from __future__ import annotations

import contextlib
import ctypes
import gc
import os
import signal
import socket
import struct
import sys
import time
from typing import Any

from . import devices
from .errors import Error
from .identity import identity
from .protocol import (FD_BLOCK, FD_IN, FD_LOG, FD_OUT, FD_SHARED, NOTIFICATION, REQUEST,
                       RESPONSE, Message, error_map, pack, write_all)

_FAILED, _BORN = b"\0", b"\1"
_TARGETS = (1, FD_IN, FD_OUT, FD_BLOCK, FD_LOG)  # in the order in which they are sent
_PR_SET_PDEATHSIG = 1
_ADOPTED_WITHIN_S = 30


def is_asked_for(first: Message | None) -> bool:
    """Whether the first message is what brood-agent said of itself: the request `prepare`
    follows. Otherwise it is an agent's own first request."""
    return first is not None and first[0] == NOTIFICATION and first[1] == "hello"


def _refusal() -> str:
    n = len(os.listdir("/proc/self/task"))
    if n > 1:
        return f"it has {n} threads after its imports"
    return "it has used CUDA during its imports" if devices.used_before_fork() else ""


def _import_late() -> None:
    """What torch imports with the first optimiser only takes 2 s more."""
    torch: Any = sys.modules.get("torch")
    if torch is not None:
        torch.set_num_threads(1)
        torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], 0.1)


def serve(hello: Message, request: Message | None) -> None:
    """Answers `prepare` and forks until the supervisor is gone. Returns in each agent's process,
    where the agent's descriptors are in place and hello is said."""
    if request is None or request[0] != REQUEST or request[2] != "prepare":
        raise Error("prepare expected", code="protocol")
    libc = ctypes.CDLL(None, use_errno=True)
    _import_late()
    why = _refusal()
    if why:
        write_all(FD_OUT, pack([RESPONSE, request[1], error_map(Error(why, code="state")), None]))
        os._exit(0)
    connection = socket.socket(fileno=FD_SHARED)
    identity()  # the agents compare it
    gc.collect()
    gc.freeze()  # the collector does not touch, and so does not copy, what all share
    write_all(FD_OUT, pack([RESPONSE, request[1], None, {}]))
    while True:
        data, fds, _, _ = socket.recv_fds(connection, 8, 16)
        if not data:
            os._exit(0)
        supervisor, _ = struct.unpack("=II", data)
        sys.stdout.flush()
        sys.stderr.flush()
        child = _fork(connection)
        if child == 0:
            if _fork(connection) == 0 and _report(connection, _BORN):
                break
            _wait_until_known(connection)
        for fd in fds:
            os.close(fd)
        if child > 0:
            os.waitpid(child, 0)
        else:
            connection.recv(1)
    connection.detach()
    _begin(fds, supervisor, libc)
    _say_hello(hello)


def _report(connection: socket.socket, what: bytes) -> bool:
    try:
        connection.send(what)
    except OSError:  # the supervisor is gone
        os._exit(0)
    return True


def _fork(connection: socket.socket) -> int:
    """As os.fork; -1 after a failure, of which the supervisor knows."""
    try:
        return os.fork()
    except OSError as e:
        print(f"cannot fork: {e}", file=sys.stderr, flush=True)
        _report(connection, _FAILED)
        return -1


def _wait_until_known(connection: socket.socket) -> None:
    """In the process between: ends it when the supervisor knows the new process, if there is
    one."""
    with contextlib.suppress(OSError):
        connection.recv(1)
    os._exit(0)


def _begin(fds: list[int], supervisor: int, libc: ctypes.CDLL) -> None:
    """Takes the place of an agent below the supervisor."""
    for i, fd in enumerate(fds):  # out of the way of the targets
        if fd <= max(_TARGETS):
            fds[i] = os.dup(fd)
            while fds[i] <= max(_TARGETS):
                fds[i] = os.dup(fds[i])
    for fd, target in zip(fds, _TARGETS):
        os.dup2(fd, target, inheritable=False)
    os.dup2(fds[0], 1)
    os.dup2(fds[0], 2)
    os.closerange(max(_TARGETS) + 1, max(fds) + 1)
    os.setsid()
    deadline = time.monotonic() + _ADOPTED_WITHIN_S
    while os.getppid() != supervisor:
        if time.monotonic() > deadline:
            os._exit(0)
        time.sleep(0.0002)
    libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != supervisor:  # it has died meanwhile
        os._exit(0)


def _say_hello(hello: Message) -> None:
    write_all(FD_OUT, pack([NOTIFICATION, "hello", {**hello[2], "pid": os.getpid()}]))
