"""The fence behind which an agent is built and computes.

brood-agent starts a program so that it can change no files. When its modules are imported, before
`build`, a filter on system calls is added, for good: no files are opened for writing, no threads
and processes started, nothing is connected, no signals reach others. Reading files, memory, time
and what is open stay, and what the key `confine` of the configuration opens. What is refused fails
as PermissionError; nothing is killed.

The filter is made by brood (common/confine) and is handed over in BROOD_FENCE: instructions of
seccomp as hexadecimal digits, in which a comparison with _PID_PLACE stands for one with the pid.
Without the variable, on other machines and older kernels, there is no fence: `brood version` says
what the kernel supports.
"""
from __future__ import annotations

import ctypes
import os
import platform
import struct
import sys

_PID_PLACE = 0x7FFFFFFF
_CALLS = {"x86_64": 317, "aarch64": 277}  # seccomp's number
_SET_MODE_FILTER = 1
_ALL_THREADS, _SPECULATE = 1, 4
_INSTRUCTION = struct.Struct("=HBBI")  # code, jump if true, jump if false, value
_JUMP_IF_EQUAL = 0x15

HINT = ("an agent cannot write files, start threads or processes, or connect to anything, unless "
        "the key `confine` of the configuration allows it")

_is_tight = False


class _Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("code", ctypes.c_char_p)]


def filter_of(text: str, pid: int) -> bytes:
    """The instructions for the process pid. ValueError."""
    code = bytes.fromhex(text)
    if len(code) % _INSTRUCTION.size != 0:
        raise ValueError(f"{len(code)} bytes are no instructions")
    return b"".join(
        _INSTRUCTION.pack(op, yes, no, pid if op == _JUMP_IF_EQUAL and k == _PID_PLACE else k)
        for op, yes, no, k in _INSTRUCTION.iter_unpack(code))


def tighten() -> None:
    """Installs the fence for all threads of this process, once. Says so in the log if it is
    impossible."""
    global _is_tight
    text, number = os.environ.get("BROOD_FENCE", ""), _CALLS.get(platform.machine())
    if _is_tight or not text or number is None:
        return
    try:
        code = filter_of(text, os.getpid())
    except ValueError as e:
        print(f"no fence around the agent: BROOD_FENCE: {e}", file=sys.stderr)
        return
    libc = ctypes.CDLL(None, use_errno=True)
    program = _Program(len(code) // _INSTRUCTION.size, code)
    failed = libc.syscall(number, _SET_MODE_FILTER, _ALL_THREADS | _SPECULATE,
                          ctypes.byref(program))
    if failed:
        why = os.strerror(ctypes.get_errno()) if failed < 0 else f"thread {failed} refuses"
        print(f"no fence around the agent: seccomp: {why}", file=sys.stderr)
        return
    _is_tight = True


def is_refusal(e: BaseException) -> bool:
    """Whether the fence may be the cause of an exception."""
    return _is_tight and (isinstance(e, PermissionError) or isinstance(e, RuntimeError) and
                          "start new thread" in str(e))
