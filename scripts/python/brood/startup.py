"""What must work before anything is imported: a program whose imports fail answers its first
request with that error, in one line. Only of the standard library, and cheap.
"""
from __future__ import annotations

import os
import stat
import sys
import traceback
from types import TracebackType

_FD_OUT, _FD_REQUEST = 4, 8
_ERR_AGENT = -5018
_EXIT_NO_RESPAWN = 100
_HERE = os.path.dirname(os.path.abspath(__file__))

INSTALL = {
    "numpy": "apt-get install python3-numpy, or pip install numpy",
    "msgpack": "apt-get install python3-msgpack, or pip install msgpack",
    "torch": "pip install torch, or apt-get install python3-torch",
}


def is_program() -> bool:
    """Whether brood-agent has started this process: it has a memfd with a request and a pipe
    for the answer."""
    try:
        return stat.S_ISFIFO(os.fstat(_FD_OUT).st_mode) and \
            os.readlink(f"/proc/self/fd/{_FD_REQUEST}").startswith("/memfd:")
    except OSError:
        return False


def is_own(filename: str) -> bool:
    """Whether a file is the user's: not of this package, of Python or of installed packages."""
    return not (filename.startswith((_HERE, "<", os.path.dirname(os.__file__))) or
                "/site-packages/" in filename or "/dist-packages/" in filename)


def spot_of(e: BaseException) -> tuple[str, int, str]:
    """("dqn.py", 34, "learn"): the innermost line of the user's own files, or ("", 0, "")."""
    if isinstance(e, SyntaxError) and e.filename:
        return os.path.basename(e.filename), e.lineno or 0, ""
    for frame in reversed(traceback.extract_tb(e.__traceback__)):
        if is_own(frame.filename):
            name = frame.name if frame.name != "<module>" else ""
            return os.path.basename(frame.filename), frame.lineno or 0, name
    return "", 0, ""


def place_of(e: BaseException) -> str:
    """"dqn.py:34 in learn", or ""."""
    file, line, name = spot_of(e)
    return f"{file}:{line}" + (f" in {name}" if name else "") if file else ""


def message_of(e: BaseException) -> str:
    """One line for people."""
    is_ours = type(e).__module__.startswith("brood.")
    text = " ".join((str(e) if is_ours else f"{type(e).__name__}: {e}").split())[:300]
    if isinstance(e, ModuleNotFoundError) and e.name in INSTALL:
        text = f"Python {sys.executable} has no module {e.name}: {INSTALL[e.name]}"
    if isinstance(e, SyntaxError):
        text = f"SyntaxError: {e.msg}"
    place = place_of(e)
    return f"{text} ({place})" if place else text


def _text(s: str) -> bytes:
    data = s.encode(errors="replace")
    return b"\xda" + len(data).to_bytes(2, "big") + data


def _request_number(frame: bytes) -> int | None:
    """That of the request [0, number, ...]."""
    if frame[4:6] != b"\x94\x00" or len(frame) < 15:
        return None
    kind = frame[6]
    size = {0xCC: 1, 0xCD: 2, 0xCE: 4, 0xCF: 8}.get(kind)
    if size is None:
        return kind if kind < 0x80 else None
    return int.from_bytes(frame[7:7 + size], "big")


def _answer(e: BaseException) -> None:
    number = _request_number(os.pread(_FD_REQUEST, 64, 0))
    if number is None:
        return
    data = b"\x94\x01\xcf" + number.to_bytes(8, "big") + \
        b"\x82" + _text("code") + b"\xd1" + _ERR_AGENT.to_bytes(2, "big", signed=True) + \
        _text("message") + _text(message_of(e)) + b"\xc0"
    os.write(_FD_OUT, len(data).to_bytes(4, "little") + data)


def _hook(kind: type[BaseException], e: BaseException, where: TracebackType | None) -> None:
    sys.__excepthook__(kind, e, where)
    sys.stderr.flush()
    try:
        _answer(e)
    except OSError:
        pass
    os._exit(_EXIT_NO_RESPAWN)


def watch() -> None:
    """From here on an exception that nothing catches is the answer of the first request, and
    the process ends with "do not start again"."""
    if is_program():
        sys.excepthook = _hook
