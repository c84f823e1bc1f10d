"""What `brood agent-check` found: a line each, for people or as JSON.

    ok     replay: 14 requests repeated by fresh processes
    note   mine.py:31: learn reads weights.npy
    FAULT  mine.py:52: replay: learn, request 2: a fresh process gives another agent_0/w

A place in a method, the method, the request's number among its kind, the tensor and the attribute
are taken from the text where they stand in it.
"""
from __future__ import annotations

import json
import re
import sys
from dataclasses import dataclass
from typing import Any

from .errors import one_line

_METHOD = re.compile(r"^(\w+) \(([^()\s]+):(\d+)\)")
_PLACE = re.compile(r" ?\(([^()\s]+\.\w+):(\d+)(?: in (\w+))?\)$")
_REQUEST = re.compile(r"\brequest (\d+)")
_TENSOR = re.compile(r"gives another ([^\s;,]+)|(?:changes|gives) (\w+/[^\s:;,]+)|"
                     r"(\w+/[^\s:;,]+) is not finite")
_ATTRIBUTE = re.compile(r"; ((?:len\()?self\.[^\s;]+) is ")


def counted(n: int, what: str) -> str:
    """"no faults", "1 fault"."""
    return f"{n or 'no'} {what}{'' if n == 1 else 's'}"


@dataclass
class Finding:
    """state: "ok", "note" or "fault"; absent texts are "", absent numbers 0."""
    state: str
    check: str
    text: str
    file: str = ""
    line: int = 0
    method: str = ""
    request: int = 0
    tensor: str = ""
    attribute: str = ""

    def __post_init__(self) -> None:
        self.text = one_line(self.text, 500)
        if self.state == "ok":
            return
        method = _METHOD.match(self.text)
        place = _PLACE.search(self.text)
        if method:
            self.method = method[1]
            self.file, self.line = method[2], int(method[3])
            self.text = method[1] + self.text[method.end():]
        elif place and not self.file:
            self.file, self.line = place[1], int(place[2])
            self.method = self.method or place[3] or ""
            self.text = self.text[:place.start()]
        for pattern, key in ((_REQUEST, "request"), (_TENSOR, "tensor"),
                             (_ATTRIBUTE, "attribute")):
            found = pattern.search(self.text)
            if found and not getattr(self, key):
                value = next(g for g in found.groups() if g)
                setattr(self, key, int(value) if key == "request" else value)

    def line_of_text(self) -> str:
        state = "FAULT" if self.state == "fault" else self.state
        place = f"{self.file}:{self.line}: " if self.file else ""
        return f"{state:<5}  {place}{self.check}: {self.text}"

    def json(self) -> str:
        found: dict[str, Any] = {"check": self.check, "state": self.state, "found": self.text}
        for key in ("file", "line", "method", "request", "tensor", "attribute"):
            found[key] = getattr(self, key) or None
        return json.dumps(found)


class Report:
    """Prints findings as they come, each once."""

    def __init__(self, name: str, as_json: bool = False, quiet: bool = False):
        self._name, self._json, self._quiet = name, as_json, quiet
        self.findings: list[Finding] = []

    def add(self, state: str, check: str, text: str, place: str = "", method: str = "",
            request: int = 0) -> None:
        """place: "mine.py:52", of a finding whose text has none."""
        file, _, line = place.rpartition(":")
        f = Finding(state, check, text, file, int(line) if file else 0, method, request)
        if any((f.text, f.line) == (g.text, g.line) for g in self.findings if g.state != "ok"):
            return
        self.findings.append(f)
        if self._json:
            print(f.json())
        elif not self._quiet or state == "fault":
            print(f.line_of_text())
        sys.stdout.flush()

    def count(self, state: str) -> int:
        return sum(f.state == state for f in self.findings)

    def is_faulty(self, method: str) -> bool:
        """Whether a fault of that method is known: it need not be found again."""
        return any(f.state == "fault" and f.method == method for f in self.findings)

    def end(self) -> int:
        """Prints the last line; the exit code."""
        faults, notes = self.count("fault"), self.count("note")
        checks = len({f.check for f in self.findings})
        if self._json:
            print(json.dumps({"state": "done", "program": self._name, "checks": checks,
                              "faults": faults, "notes": notes}))
        else:
            print(f"{self._name}: {counted(faults, 'fault')}, {counted(notes, 'note')} in "
                  f"{counted(checks, 'check')}")
        return 1 if faults else 0
