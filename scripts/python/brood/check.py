"""`brood agent-check`: is for agents what gymnasium.utils.env_checker is for environments.

    python3 -m brood.check mine.py                        # without brood
    python3 -m brood.check --actions continuous mine.py

It plays a short run of one agent under a stand-in for the supervisor (testing.py), with random
experience, and repeats every request of it in a process of its own: trials.py lists the checks. The
agent may be written in any language; of one in Python the fault's line and attribute are named.

`brood agent-check` calls it with --configured, a file with the requests `configure` that the
supervisor would send, and --agent-exe, so that the agent is started and confined as in a run.
Without them the agents are those of simple_spread: 3, with 18 observations and 5 actions.

Exit code   0: no fault; 1: faults; 2: wrong usage; 4: interrupted.
"""
from __future__ import annotations

import argparse
import os
import sys
from typing import Any, Iterator

from .startup import INSTALL, message_of

try:
    from . import testing
    from .errors import Error
    from .findings import Report
    from .protocol import NOTIFICATION, REQUEST, FrameReader
    from .trials import Subject, check
except ModuleNotFoundError as why:
    if __name__ != "__main__" or why.name not in INSTALL:
        raise
    print(f"brood agent-check: {message_of(why)}", file=sys.stderr)
    sys.exit(2)

# Of what `configure` says of a program.
_OPENS = ("threads", "starts_threads", "files", "devices", "device")
_SHAPES: dict[str, dict[str, Any]] = {
    "discrete": {"heads": [5]}, "heads": {"heads": [5, 3]}, "continuous": {"width": 2},
    "masked": {"heads": [5], "masked": True}, "hybrid": {"heads": [3], "width": 2}}
_MOST_ROWS, _MOST_COPIES = 256, 64  # more takes longer and finds nothing else
_STOPPED = 4


def _command(file: str) -> list[str]:
    return [sys.executable, file] if file.endswith(".py") else [os.path.join(".", file)]


def _settings(words: list[str]) -> dict[str, Any]:
    """KEY=VALUE, whose value is a number, true, false or a text."""
    found: dict[str, Any] = {}
    for word in words:
        key, _, text = word.partition("=")
        value: Any = {"true": True, "false": False}.get(text, text)
        for kind in (float, int):  # a whole number last
            try:
                value = kind(text)
            except ValueError:
                pass
        found[key.removeprefix("settings.")] = value
    return found


def _subjects(path: str, o: argparse.Namespace) -> Iterator[tuple[str, Subject]]:
    """A name for people and a subject for each agent in the file: a notification `check`, then the
    request `configure`."""
    fd = os.open(path, os.O_RDONLY)
    frames = FrameReader.of(fd)
    os.lseek(fd, 0, os.SEEK_SET)
    while (about := frames.next()) is not None:
        message = frames.next()
        if about[0] != NOTIFICATION or message is None or message[0] != REQUEST:
            raise Error(f"{path}: a notification and a request expected", code="protocol")
        found, body = about[2], message[3]
        program = body.pop("program")
        if o.actions:
            for p in body["agents"]:
                p["action"] = testing.player("", 0, **_SHAPES[o.actions])["action"]
        copies = int(found["copies"])
        yield f"{found['file']} {found['agent']}", Subject(
            program["command"], program.get("directory", ""), program.get("environment", {}),
            o.agent_exe, {k: v for k, v in program.items() if k in _OPENS}, body, min(int(found["rows"]), _MOST_ROWS), min(copies, _MOST_COPIES),
            max(1, int(found["update_every"]) // copies), o.updates)
    os.close(fd)


def _subject(o: argparse.Namespace) -> Subject:
    folder, _, file = os.path.abspath(o.program).rpartition(os.sep)
    players = [testing.player(f"agent_{i}", 18, **_SHAPES[o.actions or "discrete"])
               for i in range(3)]
    body = testing.configuration(players, settings=_settings(o.set))
    body.update(env="simple_spread", window=o.copies * o.window)
    return Subject(_command(file), folder, {}, "", {}, body, o.rows, o.copies, o.window, o.updates)


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(prog="brood.check", description="Checks an agent's program.")
    p.add_argument("program", nargs="?", help="the agent's file")
    p.add_argument("--actions", choices=list(_SHAPES))
    p.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                   help="a setting of the agent's own")
    p.add_argument("--updates", type=int, default=3, help="of the short run")
    p.add_argument("--rows", type=int, default=32, help="of a batch")
    p.add_argument("--copies", type=int, default=32, help="of the environment")
    p.add_argument("--window", type=int, default=8, help="steps of a copy between updates")
    p.add_argument("--json", action="store_true")
    p.add_argument("-q", "--quiet", action="store_true", help="print faults only")
    p.add_argument("--configured", default="", help=argparse.SUPPRESS)
    p.add_argument("--agent-exe", default="", help=argparse.SUPPRESS)
    o = p.parse_args(arguments)
    if bool(o.program) == bool(o.configured):
        p.error("one agent's file expected")
    code = 0
    try:
        subjects = _subjects(o.configured, o) if o.configured else [(o.program, _subject(o))]
        for name, subject in subjects:
            report = Report(name, o.json, o.quiet)
            check(subject, report)
            code = max(code, report.end())
    except Error as e:
        print(f"brood agent-check: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return _STOPPED
    return code


if __name__ == "__main__":
    sys.exit(main())
