"""Finds state outside of the block, before a kill does.

A process that replaces a killed one builds the same object, has the block, and answers the same
requests again; so it must give the same bytes. The first requests of each method are therefore
repeated with a fresh object on a copy of the block as it was before the request. What differs is
an error: the method with its file and line, the request, the first tensor that differs, and the
attribute that holds other values in the used object than in the fresh one. Attributes that
differ without consequences so far are named once in the agent's log.

Checked   build       gives the same variables and first values when it is repeated
          act, stages give the same answer and the same block
          act, stages without writes=True leave the block as it is
Not seen  what begins to differ later: state that only matters after hundreds of updates, or on
          another machine. BROOD_SELF_CHECK is the number of requests of each method (3; 0:
          none), and BROOD_CHECK_PURE=1 compares the block after every pure request.
Reported  with `exact: reported` the first difference is a line in the agent's log, and the end
          of the check.
"""
from __future__ import annotations

import inspect
import os
import sys
import threading
from typing import Any

import numpy as np

from .arrays import Array, aligned
from .attributes import Difference, differences
from .errors import Error, one_line
from .protocol import NOTIFICATION, Body
from .runtime import Runtime
from .startup import place_of

REQUESTS = 3


def place_of_method(cls: type, name: str) -> str:
    """"learn (dqn.py:52)"."""
    code = getattr(inspect.unwrap(getattr(cls, name)), "__code__", None)
    if code is None:
        return name
    return f"{name} ({os.path.basename(code.co_filename)}:{code.co_firstlineno})"


def first_difference(a: Any, b: Any, path: str = "") -> str:
    """The path of the first part of two answers that differs, such as "actions" or
    "scalars/critic_loss"; "" if there is none. NaN equals NaN."""
    if isinstance(a, dict) and isinstance(b, dict):
        if list(a) != list(b):
            return path or "its answer"
        for key in a:
            found = first_difference(a[key], b[key], f"{path}/{key}" if path else str(key))
            if found:
                return found
        return ""
    is_same = a == b or isinstance(a, float) and isinstance(b, float) and a != a and b != b
    return "" if is_same else path or "its answer"


class SelfCheck:
    """Handles the requests of a runtime, and repeats the first ones."""

    def __init__(self, runtime: Runtime, requests: int | None = None, is_exact: bool = True):
        self._runtime = runtime
        self._n = int(os.environ.get("BROOD_SELF_CHECK", REQUESTS)) if requests is None \
            else requests
        self._checks_pure = os.environ.get("BROOD_CHECK_PURE") == "1"
        self._seen: dict[str, int] = {}
        self._noted: set[str] = set()
        self._is_exact = is_exact
        if self._n > 0 and not runtime.block.restored:
            self._check_build()

    def handle(self, method: str, body: Body) -> dict[str, Any]:
        runtime = self._runtime
        if method == "places":
            return self._places()
        if method != "act" and runtime.stage(method) is None:
            return runtime.handle(method, body)
        seen = self._seen.get(method, 0)
        writes = runtime.writes(method)
        is_repeated = seen < self._n
        if not is_repeated and (writes or not self._checks_pure):
            return runtime.handle(method, body)
        before = runtime.block.content.copy()
        fresh = self._fresh(before) if is_repeated else None
        # What a request leaves for the next one may be gone, or be the same in both, after it.
        earlier = self._differences(fresh) if fresh is not None else []
        answer = runtime.handle(method, body)
        if not writes:
            self._check_pure(method, before)
        if fresh is not None:
            self._seen[method] = seen + 1
            self._repeat(method, body, fresh, earlier, answer, seen + 1)
        return answer

    def _differences(self, fresh: Runtime) -> list[Difference]:
        used = self._runtime
        return list(differences(used.agent, fresh.agent, used.block.holds))

    def _places(self) -> dict[str, Any]:
        """For `brood agent-check`: {method: "file:line"}."""
        names = ["build", "act", *(s.name for s in self._runtime.stages)]
        found = {n: place_of_method(self._runtime.cls, n) for n in names}
        return {n: x.partition("(")[2].rstrip(")") for n, x in found.items()}

    def _where(self, method: str) -> str:
        name = method if hasattr(self._runtime.cls, method) else "act"
        return place_of_method(self._runtime.cls, name)

    def _check_pure(self, method: str, before: Array) -> None:
        self._runtime.copy_to_block()
        changed = self._runtime.block.changed(before)
        if changed:
            raise Error(f"{self._where(method)} changes {changed[0]}: `act`, and stages without "
                        "writes=True, must leave the variables as they are", code="state")
        self._runtime.check_places()

    def _fresh(self, content: Array | None) -> Runtime:
        """As a new process builds it: on this content, or with first values."""
        used = self._runtime
        memory: Array = aligned([used.block.n_bytes + 64], np.uint8)
        memory[:] = 0
        if content is not None:
            memory[:len(content)] = content
        try:
            used.send([NOTIFICATION, "progress", {}])  # the request takes twice as long
            fresh = Runtime(used.cls, used.configuration, memory, content is not None, used.send,
                            used.log)
        except Error as e:
            raise Error(f"{self._where('build')} cannot be repeated: {e}", code="state") from e
        if fresh.configured() != used.configured():
            names = [n for n in fresh.block.variables if n not in used.block.variables]
            raise Error(f"{self._where('build')} makes other variables when it is repeated"
                        f"{': ' + names[0] if names else ''}; it must depend on the "
                        "configuration alone", code="state")
        return fresh

    def _check_build(self) -> None:
        changed = self._fresh(None).block.changed(self._runtime.block.content)
        if changed:
            self._report(f"{self._where('build')} gives {changed[0]} another first value each "
                         "time: take random numbers from random, NumPy or torch, whose global "
                         "generators are seeded")

    def _report(self, text: str) -> None:
        """Tells what differs: an error, unless the agent need not repeat its bits."""
        if self._is_exact:
            raise Error(text, code="state")
        self._n = 0
        print(f"not exact: {text}", file=sys.stderr)

    def _repeat(self, method: str, body: Body, fresh: Runtime, earlier: list[Difference],
                answer: Body, number: int) -> None:
        used, where = self._runtime, self._where(method)
        try:
            again = fresh.handle(method, body)
        except Exception as e:
            place = place_of(e)
            text = one_line(f"{type(e).__name__}: {e}", 200)
            raise Error(f"{where}, request {number}: a fresh object on the same block fails: "
                        f"{text}{' (' + place + ')' if place else ''}{self._hint(fresh, earlier)}",
                        code="state") from e
        changed = used.block.changed(fresh.block.content)
        what = changed[0] if changed else first_difference(answer, again)
        if what:
            self._report(f"{where}, request {number}, is not repeatable: a fresh object on the "
                         f"same block gives another {what}{self._hint(fresh, earlier)}")
            return
        self._note_threads(method)
        for path, mine, other in self._differences(fresh):
            if path not in self._noted:
                self._noted.add(path)
                print(f"{method}: {path} is {mine}, in a fresh object {other}: a process that "
                      "replaces this one does not have it; what must last belongs into the block",
                      file=sys.stderr)

    def _note_threads(self, method: str) -> None:
        threads = [t.name for t in threading.enumerate() if t is not threading.main_thread()]
        if threads and "threads" not in self._noted:
            self._noted.add("threads")
            print(f"{method}: the thread {threads[0]} runs besides the agent: what it does at which "
                  "moment differs from process to process", file=sys.stderr)

    def _hint(self, fresh: Runtime, earlier: list[Difference]) -> str:
        """Where the difference may come from. earlier: differences before the request."""
        found = self._differences(fresh) or earlier
        if not found:
            return ("; no attribute differs: does it depend on a global variable, a file, the "
                    "time, or on random numbers of its own?")
        path, mine, other = found[0]
        return (f"; {path} is {mine}, in the fresh object {other}: it must be in the block "
                "(self.variable, self.track)")
