"""The process of an agent: it reads requests from a pipe and writes answers to another.

brood-agent starts the program, with the descriptors of protocol.py, and has said `hello`. The
first request is in a memfd, so that it is complete before the program runs: `describe`, which
is answered from the class alone, `configure`, or `prepare` (prepared.py). Standard output and
error are the agent's log.
"""
from __future__ import annotations

import contextlib
import faulthandler
import os
import sys
import time
import traceback
from typing import Any

from . import confine, devices, prepared
from .agent import Agent
from .describe import describe
from .errors import CODES, Error, one_line
from .identity import check_same
from .memory import map_shared
from .protocol import (EXIT_DONE, EXIT_NO_RESPAWN, EXIT_TRY_LATER, FD_BLOCK, FD_IN, FD_OUT,
                       FD_REQUEST, NOTIFICATION, RESPONSE, Body, FrameReader, Message, error_map,
                       pack, write_all)
from .runtime import Runtime
from .selfcheck import SelfCheck, place_of_method
from .stages import stages_of
from .startup import place_of, spot_of


def spot_map(e: BaseException, code: int) -> dict[str, Any]:
    """Where the agent's own code failed, as an error has it. Of another error, the supervisor knows
    the place: in the configuration."""
    file, line, _ = spot_of(e) if code == CODES["agent"] else ("", 0, "")
    return {"file": file, "line": line} if file else {}


class Process:
    """Answers messages with bytes for the pipe; the loop is `serve`."""

    def __init__(self, cls: type[Agent]):
        self._cls = cls
        self._check: SelfCheck | None = None
        self._is_traced = False
        self.is_done = False

    def send(self, message: Message) -> None:
        write_all(FD_OUT, pack(message))

    def configure(self, body: Body) -> dict[str, Any]:
        if self._check is not None:
            raise Error("it is configured already", code="state")
        program = body.get("program")
        is_exact = True
        if isinstance(program, dict):
            check_same(program.get("identity") or [], devices.device_of(body))
            is_exact = not program.get("inexact")
        torch: Any = sys.modules.get("torch")
        if torch is not None:
            torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "1")))
            with contextlib.suppress(RuntimeError):  # too late, if it has computed already
                torch.set_num_interop_threads(1)
            # the usual call imports for 2 s
            torch.set_deterministic_debug_mode("error" if is_exact else "warn")
        memory = map_shared(FD_BLOCK, os.fstat(FD_BLOCK).st_size, True)
        confine.tighten()
        devices.begin(devices.device_of(body))
        runtime = Runtime(self._cls, body, memory, bool(body.get("restored")), self.send)
        self._check = SelfCheck(runtime, is_exact=is_exact)
        return runtime.configured()

    def handle(self, method: str, body: Body) -> dict[str, Any]:
        if method == "describe":
            return describe(self._cls, devices.device_of(body))
        if method == "configure":
            return self.configure(body)
        if method == "shutdown":
            self.is_done = True
            return {}
        if self._check is None:
            if method == "ping":
                return {}
            raise Error(f"{method}: it is not configured yet", code="state")
        return self._check.handle(method, body)

    def respond(self, number: int, method: str, body: Body) -> Message:
        """The response to a request. MemoryError ends the process."""
        try:
            return [RESPONSE, number, None, self.handle(method, body)]
        except MemoryError:
            raise
        except Error as e:
            print(f"{method}: {e}", file=sys.stderr)
            if e.__cause__ is not None:
                traceback.print_exc()
            elif ".py:" not in str(e):
                where = place_of(e) or self._place_of_method(method)
                if where:
                    e.args = (f"{e} ({where})",)
            return [RESPONSE, number, error_map(e) | spot_map(e, e.code), None]
        except (Exception, SystemExit) as e:
            if _is_out_of_memory(e):
                raise MemoryError from e
            traceback.print_exc()
            where = place_of(e)
            text = one_line(f"{type(e).__name__}: {e}", 300) + (f" ({where})" if where else "")
            if confine.is_refusal(e):
                text += f": {confine.HINT}"
            code = CODES["agent"]
            return [RESPONSE, number, {"code": code, "message": text} | spot_map(e, code), None]

    def _place_of_method(self, method: str) -> str:
        """For an error in what a method returned."""
        if method != "act" and not any(s.name == method for s in stages_of(self._cls)):
            return ""
        return place_of_method(self._cls, method).partition("(")[2].rstrip(")")

    def serve(self) -> int:
        """Until the supervisor closes the pipe or says `shutdown`; the exit code."""
        for fd in range(FD_IN, FD_REQUEST + 1):  # not for what the agent's code starts
            with contextlib.suppress(OSError):
                os.set_inheritable(fd, False)
        first = FrameReader(_from_start(FD_REQUEST))
        message = first.next()
        requests = FrameReader.of(FD_IN)
        if message is not None and prepared.is_asked_for(message):
            prepared.serve(message, first.next())
            message = requests.next()
        while message is not None:
            if message[0] == NOTIFICATION:
                if message[1] == "trace":
                    self._is_traced = bool(message[2].get("on"))
            elif message[0] != RESPONSE:
                self._answer(*message[1:])
                if self.is_done:
                    break
            message = requests.next()
        return EXIT_DONE

    def _answer(self, number: int, method: str, body: Body) -> None:
        began = time.monotonic_ns()
        response = self.respond(number, method, body)
        ended = time.monotonic_ns()
        try:
            data = pack(response)
        except (Error, TypeError, ValueError, OverflowError) as e:
            data = pack([RESPONSE, number, error_map(Error(f"{method}: its answer cannot be "
                                                           f"sent: {e}")), None])
        write_all(FD_OUT, data)
        sys.stdout.flush()
        sys.stderr.flush()
        if self._is_traced:
            self.send([NOTIFICATION, "span", {"id": number, "method": method, "began": began,
                                              "ended": ended}])


def _is_out_of_memory(e: BaseException) -> bool:
    """torch has errors of its own for that."""
    return type(e).__name__ == "OutOfMemoryError" or isinstance(e, RuntimeError) and \
        "not enough memory" in str(e)


def _from_start(fd: int) -> Any:
    """Reads a file from its beginning, wherever its offset is."""
    at = 0

    def read(n: int) -> bytes:
        nonlocal at
        data = os.pread(fd, n, at)
        at += len(data)
        return data
    return read


def main(cls: type[Agent]) -> None:
    """Serves the supervisor's requests with agents of that class, and ends the process: call it
    last, under `if __name__ == "__main__"`. Started by hand it says how it is started."""
    if not isinstance(cls, type) or not issubclass(cls, Agent):
        raise Error(f"brood.main: a class derived from brood.Agent expected, found {cls!r}")
    try:
        os.fstat(FD_REQUEST), os.fstat(FD_OUT)
    except OSError:
        file = os.path.basename(sys.argv[0])
        sys.exit(f"{file}: this is an agent of brood, which starts it: write `algorithm: "
                 f"program` and `command: [python3, {file}]` in a configuration")
    faulthandler.enable()  # the log of a process that dies by a signal says in which line
    try:
        code = Process(cls).serve()
    except BrokenPipeError:
        code = EXIT_DONE
    except Error as e:
        print(f"a malformed message: {e}", file=sys.stderr)
        code = EXIT_NO_RESPAWN
    except MemoryError:
        print("not enough memory", file=sys.stderr)
        code = EXIT_TRY_LATER
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # torch's own end takes a while, and nothing is left to be done
