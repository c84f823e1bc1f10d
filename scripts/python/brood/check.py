"""`brood agent-check`: is for agents what gymnasium.utils.env_checker is for environments.

    python3 -m brood.check mine.py                        # without brood
    python3 -m brood.check --actions continuous mine.py

It plays a short run of one agent under a stand-in for the supervisor (testing.py), with random
experience, and repeats every request of it in a process of its own: trials.py lists the checks. The
agent may be written in any language; of one in Python the fault's line and attribute are named.

`brood agent-check` calls it with --configured, a file with the request `configure` that the
supervisor would send, and --agent-exe, so that the agent is started and confined as in a run.
Without them the agents are those of simple_spread: 3, with 18 observations and 5 actions.

Exit code   0: no fault; 1: faults; 2: wrong usage; 4: interrupted.
"""
from __future__ import annotations

import argparse
import os
import sys
from typing import Any

from . import testing
from .errors import Error
from .findings import Report
from .protocol import REQUEST, FrameReader
from .trials import Subject, check

ACTIONS = ("discrete", "heads", "continuous", "masked")
_STOPPED = 4


def _players(kind: str) -> list[dict[str, Any]]:
    shapes: dict[str, dict[str, Any]] = {
        "discrete": {"heads": [5]}, "heads": {"heads": [5, 3]}, "continuous": {"width": 2},
        "masked": {"heads": [5], "masked": True}}
    return [testing.player(f"agent_{i}", 18, **shapes[kind]) for i in range(3)]


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


def _configured(path: str) -> dict[str, Any]:
    """The params of the request in that file."""
    fd = os.open(path, os.O_RDONLY)
    message = FrameReader.of(fd).next()
    os.close(fd)
    if message is None or message[0] != REQUEST:
        raise Error(f"{path}: a request expected", code="protocol")
    body: dict[str, Any] = message[3]
    return body


def _subject(o: argparse.Namespace) -> Subject:
    if o.configured:
        body = _configured(o.configured)
        program = body.pop("program")
        return Subject(program["command"], program.get("directory", ""),
                       program.get("environment", {}), o.agent_exe, body, o.rows, o.copies,
                       o.update_every, o.updates)
    folder, _, file = os.path.abspath(o.program).rpartition(os.sep)
    players = _players(o.actions)
    body = testing.configuration(players, settings=_settings(o.set), window=o.update_every)
    body["env"] = "simple_spread"
    return Subject(_command(file), folder, {}, o.agent_exe, body, o.rows, o.copies,
                   o.update_every, o.updates)


def main(arguments: list[str] | None = None) -> int:
    p = argparse.ArgumentParser(prog="brood.check", description="Checks an agent's program.")
    p.add_argument("program", help="the agent's file, or its name for people")
    p.add_argument("--actions", choices=ACTIONS, default="discrete")
    p.add_argument("--set", action="append", default=[], metavar="KEY=VALUE",
                   help="a setting of the agent's own")
    p.add_argument("--updates", type=int, default=3, help="of the short run")
    p.add_argument("--rows", type=int, default=32, help="of a batch")
    p.add_argument("--copies", type=int, default=32, help="of the environment")
    p.add_argument("--update-every", type=int, default=256, help="steps between updates")
    p.add_argument("--json", action="store_true")
    p.add_argument("-q", "--quiet", action="store_true", help="print faults only")
    p.add_argument("--configured", default="", help=argparse.SUPPRESS)
    p.add_argument("--agent-exe", default="", help=argparse.SUPPRESS)
    o = p.parse_args(arguments)
    report = Report(o.program, o.json, o.quiet)
    try:
        check(_subject(o), report)
    except Error as e:
        print(f"brood agent-check: {e}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return _STOPPED
    return report.end()


if __name__ == "__main__":
    sys.exit(main())
