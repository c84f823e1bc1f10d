"""Errors for people: one line that says what, where, and what to do.

The codes are those of common/err/err.h. They are what a program reads; the message is what a
person reads.
"""
from __future__ import annotations

from typing import Any, Mapping

CODES = {
    "argument": -5001, "state": -5002, "memory": -5003, "io": -5004, "format": -5005,
    "corrupt": -5006, "limit": -5007, "not found": -5008, "exists": -5009, "shape": -5010,
    "dtype": -5011, "config": -5012, "protocol": -5013, "unsupported": -5014,
    "uninitialized": -5015, "nonfinite": -5016, "timeout": -5017, "agent": -5018,
    "interrupted": -5019,
}


class Error(Exception):
    """What cannot be done, in one line.

    Raised by this package, and by agents that want to refuse a configuration:

        raise brood.Error("expected a multiple of 4", code="config", key="settings.units")

    details   what a program may want to read: code (a number), and where they are known
              file, line, key, agent, tensor, cause
    code      one of CODES, for an agent's own errors
    key       the key of the configuration that is wrong, from the agent's section on
    """

    def __init__(self, message: str, details: Mapping[str, Any] | None = None, *,
                 code: str = "", key: str = ""):
        super().__init__(message)
        self.details: dict[str, Any] = dict(details or {})
        if code:
            self.details["code"] = CODES[code]
        if key:
            self.details["key"] = key

    @property
    def code(self) -> int:
        """The number of its kind (CODES), "agent" if it has none."""
        return int(self.details.get("code", CODES["agent"]))

    @property
    def key(self) -> str:
        return str(self.details.get("key", ""))


def one_line(text: str, limit: int = 400) -> str:
    """The text without line breaks and control characters, cut at `limit` characters."""
    line = " ".join("".join(c if c.isprintable() else " " for c in text).split())
    return line if len(line) <= limit else line[:limit - 3] + "..."
