"""The checks of `brood agent-check` (check.py), in their order:

describe    two processes say the same
build       two processes make the same variables with the same first values
run         a short run: actions of the right kind, within their range and masks, `act` leaves the
            block alone, numbers are finite; each request is repeated by a fresh object in the same
            process (selfcheck.py), which names lines and attributes
effects     what the methods did besides: files, processes, threads, the time (watch.py)
replay      each request of the run repeated by a process of its own, on a copy of the block
resume      a new process that restores the block goes on with the same bytes
modes       greedy draws nothing; evaluations do not depend on the number of copies
carry       what `act` carries is used
batches     other numbers of rows, weights, several groups
settings    live ones change, and are all that changes
draws       other seeds and names give other numbers
speed       never a fault

After a fault in `run` or `replay` only what does not depend on it follows.
"""
from __future__ import annotations

import ast
import contextlib
import math
import os
import pathlib
import re
import statistics
import time
from dataclasses import dataclass, replace
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np

from . import testing
from .arrays import Array
from .errors import Error
from .findings import Report, counted
from .protocol import NUMPY_TYPES, Body, pack_tensor, unpack_tensor
from .selfcheck import first_difference
from .testing import Ended, Experience, Program

WITHIN_S = 120.0
_LOG_ROWS = 2000
_AT_ONCE = 2        # processes that repeat a request
_MOST_REPEATS = 3   # of a stage within an update
_FAULTS = {"writes": "an agent cannot write files: brood opens them for reading only",
           "process": "an agent computes in its own process alone",
           "thread": "what it does at which moment differs from process to process",
           "network": "an answer must depend on the request and the block alone",
           "environment": "brood passes PATH, HOME, LANG and what the configuration lists under "
                          "`environment`: declare a setting"}
# Faults by the keys of `opens` that allow them.
_OPENED = {"writes": ("files", "devices"), "process": ("starts_threads", "threads"),
           "thread": ("starts_threads", "threads")}
_CAUSES = ("time", "entropy", "process id", "id", "global", "reads")  # of what is not repeatable
_NAMED = re.compile(r"\w+ \(|agent \w+, stage")  # a text that names the method
_UNKNOWN = re.compile("; no attribute differs: .*")
_SELF_NOTE = ": a process that replaces this one does not have it"


@dataclass
class Subject:
    """What is checked. opens: as testing.Program has it; configuration: the params of `configure`,
    without the program; rows: of a batch; copies: of the environment; window: steps of each between
    updates; updates: of the short run."""
    command: Sequence[str]
    directory: str
    environment: Mapping[str, str]
    agent_exe: str
    opens: Mapping[str, Any]
    configuration: dict[str, Any]
    rows: int
    copies: int
    window: int
    updates: int

    @property
    def players(self) -> list[dict[str, Any]]:
        return list(self.configuration["agents"])

    @property
    def me(self) -> dict[str, Any]:
        name = self.configuration["name"]
        return next(p for p in self.players if p["name"] == name)


@dataclass
class Record:
    """A request of the run. number: among those of its method; before, after: the block."""
    method: str
    number: int
    body: dict[str, Any]
    before: bytes
    answer: dict[str, Any]
    after: bytes


def places_in(s: Subject) -> dict[str, str]:
    """The methods of the agent in the command's file in Python, if it is one."""
    file = next((w for w in s.command if w.endswith(".py")), "")
    try:
        tree = ast.parse(pathlib.Path(s.directory, file).read_bytes())
    except (OSError, SyntaxError, ValueError):
        return {}
    classes = [{f.name: f.lineno for f in c.body if isinstance(f, ast.FunctionDef)}
               for c in ast.walk(tree) if isinstance(c, ast.ClassDef)]
    methods = next((c for c in reversed(classes) if "act" in c), {})
    return {name: f"{os.path.basename(file)}:{line}" for name, line in methods.items()}


def size_text(n: float) -> str:
    for unit in ("B", "kB", "MB"):
        if n < 1000:
            return f"{n:.0f} {unit}" if unit == "B" else f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} GB"


def variable_at(configured: Body, a: bytes, b: bytes) -> str:
    """The name of the first variable whose bytes differ, or ""."""
    for name, dtype, dims, offset, _ in configured["variables"]:
        end = offset + NUMPY_TYPES[dtype].itemsize * math.prod(dims)
        if a[offset:end] != b[offset:end]:
            return str(name)
    return "a byte of the block between its variables" if a != b else ""


class Trials:
    def __init__(self, subject: Subject, report: Report):
        self.s, self.report = subject, report
        self.log: Experience | None = None
        self.configured: dict[str, Any] = {}
        self.described: dict[str, Any] = {}
        self.places = places_in(subject)  # method -> "file:line"; a program in Python knows more
        self.records: list[Record] = []
        self.outputs: dict[str, Array] = {}  # "propose/action" -> of the newest request
        self.effects: list[dict[str, Any]] = []
        self.processes = contextlib.ExitStack()
        self._used: Program | None = None

    # ---- processes ----

    def program(self, environment: Mapping[str, str] | None = None) -> Program:
        usual = {"BROOD_SELF_CHECK": "0", "BROOD_CHECK_PURE": "0", "BROOD_WATCH": "0"}
        return Program(self.s.command, self.log, environment={
            **self.s.environment, **usual, **(environment or {})}, directory=self.s.directory,
            agent_exe=self.s.agent_exe, opens=self.s.opens, within_s=WITHIN_S)

    @contextlib.contextmanager
    def begun(self, block: bytes, **changes: Any) -> Iterator[Program]:
        """A configured process with these variables. changes: of the configuration; without any
        it is one that other checks have used, too."""
        if changes:
            with self.program() as p:
                p.configured(p.begin_with(block, {**self.s.configuration, **changes}))
                yield p
            return
        if self._used is None or not self._used.pid:
            self._used = self.processes.enter_context(self.program())
            self._used.configured(self._used.begin_with(block, self.s.configuration))
        self._used.request("restore", {"block": block})
        yield self._used

    def place(self, method: str) -> str:
        return self.places.get(method, "")

    @contextlib.contextmanager
    def guarded(self, check: str, method: str = "", what: str = "") -> Iterator[None]:
        """What fails within it is a fault of that check."""
        try:
            yield
        except Ended as e:
            self.fault(check, f"{what}{': ' if what else ''}{e}", method)
        except Error as e:
            self.fault(check, f"{what}{': ' if what else ''}{e}", method)

    def fault(self, check: str, text: str, method: str = "", request: int = 0) -> None:
        self.report.add("fault", check, text, self._unless_in(text, method), method, request)

    def note(self, check: str, text: str, method: str = "") -> None:
        self.report.add("note", check, text, self._unless_in(text, method), method)

    def ok(self, check: str, text: str) -> None:
        self.report.add("ok", check, text)

    def _unless_in(self, text: str, method: str) -> str:
        """The method's place, for a text that names none."""
        return "" if ".py:" in text else self.place(method)

    # ---- requests ----

    def length(self) -> int:
        rows = self.configured.get("rows") or {"kind": "transitions", "length": 1}
        if rows["kind"] == "window":
            return self.s.window
        return int(rows["length"])

    def act_body(self, copies: int, step: int, mode: int = 0, seed: int = 1,
                 episodes: Sequence[int] | None = None, at: int = 0) -> dict[str, Any]:
        return testing.act_params(self.s.me, copies, step, seed, mode, episodes, at,
                                  int(self.configured.get("carry", 0)))

    def stage_body(self, stage: Body, rows: int, update: int, repeat: int = 0, groups: int = 1,
                   weighted: bool = False) -> dict[str, Any]:
        assert self.log is not None
        kind = (self.configured.get("rows") or {"kind": "transitions"})["kind"]
        body = testing.stage_params(self.log, rows, update, 1, self.length(), groups,
                                    update * self.s.copies * self.s.window, kind == "episodes")
        body["repeat"] = repeat
        body["inputs"] = self._inputs(stage, groups, rows)
        if weighted:
            weights = np.random.default_rng(update).uniform(0.1, 1, (groups, rows))
            body["weights"] = pack_tensor(weights.astype(np.float32))
        return body

    def _inputs(self, stage: Body, groups: int, rows: int) -> dict[str, Any]:
        """What the stage reads: this agent's own outputs, also in place of the others'; for
        players with other actions random ones."""
        found: dict[str, Any] = {}
        for read in stage["reads"]:
            kind, _, rest = read.rpartition(":")
            name = rest.rpartition("/")[2]
            mine = self.outputs.get(rest)
            if mine is not None and mine.shape[:2] != (groups, rows):
                mine = np.resize(mine, (groups, rows, *mine.shape[2:]))
            if kind == "prev":
                found[f"prev:/{name}"] = pack_tensor(
                    np.ones((groups, rows, self.length()), np.float32) if mine is None else mine)
                continue
            for p in self.s.players if kind != "own" else [self.s.me]:
                width = p["action"]["width"]
                if mine is None or name == "action" and mine.shape[-1] != width:
                    rng, heads = np.random.default_rng(1), p["action"]["heads"]
                    n = groups * rows * self.length()
                    x = testing.one_hot(rng, n, heads) if heads else rng.uniform(
                        -1, 1, (n, width)).astype(np.float32)
                    found[f"{p['name']}/{name}"] = pack_tensor(
                        x.reshape(groups, rows * self.length(), width))
                else:
                    found[f"{p['name']}/{name}"] = pack_tensor(mine)
        return found

    def request(self, p: Program, method: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = p.request(method, body)
        for key, x in (answer.get("outputs") or {}).items():
            self.outputs[f"{method}/{key}"] = unpack_tensor(x, key)[1]
        return answer

    # ---- describe, build ----

    def check_describe(self) -> bool:
        with self.guarded("describe"), self.program() as p, self.program() as q:
            p.begin("describe")
            q.begin("describe")
            a, b = p.finish(), q.finish()
            self.described = a["algorithms"][0]
            different = first_difference(a, b)
            if different:
                self.fault("describe", f"two processes say different things: {different}")
                return False
            d = self.described
            self.ok("describe", f"{d['name']}, {d['stages'] or 'learns nothing'}, "
                    f"{counted(len(d['settings']), 'setting')} of its own")
            return True
        return False

    def check_build(self) -> bool:
        """Its three processes: two alike, and one with another seed of Python's hashes."""
        with self.guarded("build", "build"), self.program() as p, self.program() as q, \
                self.program({"PYTHONHASHSEED": "1"}) as hashed:
            for x in (p, q, hashed):
                x.begin("configure", self.s.configuration)
            answers = [x.configured(self.s.configuration) for x in (p, q, hashed)]
            with contextlib.suppress(Error):
                self.places = {k: str(v) for k, v in p.request("places").items() if v}
            self.configured = answers[0]
            columns = {c["name"]: c["elements"] for c in self.configured.get("columns", ())}
            self.log = Experience(self.s.players, columns)
            self.log.fill(_LOG_ROWS, 1)
            variables = self.configured["variables"]
            for other, answer in ((q, answers[1]), (hashed, answers[2])):
                what = first_difference(answers[0], answer)
                what = what and f"another {what}" or (lambda n: n and f"{n} another first value")(
                    variable_at(self.configured, p.block(), other.block()))
                if what and other is q:
                    self.fault("build", f"build gives {what} in another process: it must depend on "
                               "the configuration, the seed and the name alone", "build")
                    return False
                if what:
                    self.note("build", f"build gives {what} under another PYTHONHASHSEED, which "
                              "is 0 in runs: an order of a set or of hashes", "build")
            self.ok("build", f"{counted(len(variables), 'variable')}, {size_text(p.block_bytes)}, the same "
                    "in two processes")
            return True
        return False

    # ---- run ----

    def check_run(self) -> bool:
        """The short run, under the self-check."""
        watched = {"BROOD_SELF_CHECK": "1000000", "BROOD_CHECK_PURE": "1", "BROOD_WATCH": "1"}
        is_good = False
        with self.program(watched) as p:
            with self.guarded("run", "build"):
                p.configure(self.s.configuration)
                is_good = all(self._run_update(p, i) for i in range(self.s.updates))
            self.effects = [m[2] for m in p.notifications if m[1] == "watch"]
            if is_good:
                self._note_attributes(p.output)
        return is_good

    def _run_update(self, p: Program, i: int) -> bool:
        step = i * self.s.copies * self.s.window
        modes = [0, 1 + i % 2] if i < 2 else [0]
        for mode in modes:
            body = self.act_body(3, step, mode, i, [i, i + 1, 7], i) if mode else \
                self.act_body(self.s.copies, step, 0, i)
            if not self._record(p, "act", body):
                return False
        for stage in self.configured["stages"]:
            for r in range(min(int(stage.get("repeat", 1)), _MOST_REPEATS)):
                body = self.stage_body(stage, self.s.rows, i, r)
                if not self._record(p, stage["name"], body, stage["writes"]):
                    return False
        return True

    def _record(self, p: Program, method: str, body: dict[str, Any], writes: bool = False
                ) -> bool:
        number = 1 + sum(r.method == method for r in self.records)
        before = p.block()
        try:
            answer = self.request(p, method, body)
        except (Error, Ended) as e:
            self.effects = [m[2] for m in p.notifications if m[1] == "watch"]
            text = str(e)
            if text.startswith("the program ended") or not _NAMED.match(text):
                text = f"{method}, request {number}: {text}"
            why = self.causes(method)
            self.fault("run", (_UNKNOWN.sub("", text) if why else text) + why, method, number)
            return False
        record = Record(method, number, body, before, answer, p.block())
        self.records.append(record)
        changed = not writes and variable_at(self.configured, before, record.after)
        if changed:
            self.fault("run", f"{method}, request {number}, changes {changed}: only stages "
                       "declared as writing may", method, number)
            return False
        return self._is_sound(record)

    def _is_sound(self, r: Record) -> bool:
        for key, x in (r.answer.get("scalars") or {}).items():
            if not isinstance(x, (int, float)) or isinstance(x, bool) or not math.isfinite(x):
                self.fault("run", f"{r.method}, request {r.number}: the scalar {key} is {x!r}",
                           r.method)
                return False
        if r.method != "act":
            return True
        n, action = len(unpack_tensor(r.body["obs"])[1]), self.s.me["action"]
        chosen = unpack_tensor(r.answer["actions"], "actions")[1]
        numbers = chosen[:, sum(action["heads"]) if action["kind"] == "hybrid" else 0:]
        text = ""
        if chosen.shape != (n, action["width"]) or chosen.dtype != np.float32:
            text = (f"gives actions {chosen.dtype} {list(chosen.shape)}; float32 "
                    f"[{n}, {action['width']}] expected")
        elif not np.isfinite(chosen).all():
            text = "gives an action that is not finite"
        elif action["kind"] != "discrete" and (
                numbers.min() < action["low"] or numbers.max() > action["high"]):
            x = numbers[(numbers < action["low"]) | (numbers > action["high"])][0]
            text = (f"gives the action {x:g}, outside of {action['low']:g} .. "
                    f"{action['high']:g}")
            if action.get("particle"):  # these worlds clip it
                self.note("run", f"act {text}", "act")
                return True
        elif "allowed" in r.body:
            text = self._excluded(chosen, np.frombuffer(r.body["allowed"], np.uint8))
        if text:
            self.fault("run", f"act, request {r.number}, {text}", "act", r.number)
        return not text

    def _excluded(self, chosen: Array, allowed: Array) -> str:
        at, allowed = 0, allowed.reshape(chosen.shape)
        for size in self.s.me["action"]["heads"]:
            may = allowed[:, at:at + size]
            best = chosen[:, at:at + size].argmax(1)
            bad = may.any(1) & (may[np.arange(len(best)), best] == 0)
            if bad.any():
                return f"chooses {at + int(best[bad.argmax()])}, which the mask excludes"
            at += size
        return ""

    def _note_attributes(self, output: str) -> None:
        """What the self-check wrote to the agent's log."""
        for line in output.splitlines():
            method, colon, text = line.partition(": ")
            if colon and text.startswith("self.") and _SELF_NOTE in text:
                self.note("run", f"{method} changes an attribute: "
                          f"{text.partition(_SELF_NOTE)[0]}; a process that replaces this one does "
                          "not have it", method)

    def causes(self, method: str) -> str:
        found = [f"{x['text']} ({x['file']}:{x['line']})" for x in self.effects
                 if x["kind"] in _CAUSES and x["method"] in (method, "build")]
        return f"; it {' and '.join(found[:2])}" if found else ""

    # ---- effects ----

    def check_effects(self) -> None:
        n = 0
        for x in self.effects:
            place = f"{x['file']}:{x['line']}"
            text = f"{x['method']} {x['text']}"
            name = text.split()[-1]
            if x["kind"] == "environment" and (name in self.s.environment or
                                               name.startswith("BROOD_")):
                continue
            if any(key in self.s.opens for key in _OPENED.get(x["kind"], ())):
                continue
            if x["kind"] in _FAULTS:
                self.report.add("fault", "effects", f"{text}: {_FAULTS[x['kind']]}", place,
                                x["method"])
                n += 1
            elif x["kind"] == "argument":
                self.report.add("note", "effects", f"{text}: it is this request's own copy, but "
                                "such code breaks elsewhere", place, x["method"])
            elif not self.report.is_faulty(x["method"]):
                self.report.add("note", "effects", f"{text}: what it computes must not depend on "
                                "it", place, x["method"])
        if self.places and not n:
            self.ok("effects", "no files written, no processes, threads or connections")

    # ---- replay, resume ----

    def check_replay(self) -> bool:
        """Each request by a process of its own; the last of each method also under another seed
        of Python's hashes."""
        wanted = list(self.records)
        waiting: list[tuple[Record, Program, Body]] = []
        good = 0
        with contextlib.ExitStack() as stack:
            while wanted or waiting:
                while wanted and len(waiting) < _AT_ONCE:
                    r = wanted.pop(0)
                    if not self.report.is_faulty(r.method):
                        p = stack.enter_context(self.program())
                        waiting.append((r, p, p.begin_with(r.before, self.s.configuration)))
                if waiting:
                    good += self._replay(*waiting.pop(0))
        if good == len(self.records):
            self.ok("replay", f"{good} requests repeated by fresh processes")
            self._replay_hashed()
        return good == len(self.records)

    def _replay(self, r: Record, p: Program, body: Body) -> bool:
        what = f"{r.method}, request {r.number}"
        with self.guarded("replay", r.method, f"{what}, repeated by a fresh process"):
            p.configured(body)
            answer = p.request(r.method, r.body)
            found = self._difference(r, p, answer)
            p.kill()
            if found:
                self.fault("replay", f"{what}: a fresh process gives another {found}"
                           f"{self.causes(r.method)}", r.method, r.number)
            return not found
        return False

    def _difference(self, r: Record, p: Program, answer: Body) -> str:
        return variable_at(self.configured, r.after, p.block()) or \
            first_difference(r.answer, answer)

    def _replay_hashed(self) -> None:
        """The last request of each method, under another seed of Python's hashes."""
        with self.guarded("replay"), self.program({"PYTHONHASHSEED": "1"}) as p:
            p.configured(p.begin_with(self.block, self.s.configuration))
            for r in {r.method: r for r in self.records}.values():
                p.request("restore", {"block": r.before})
                found = self._difference(r, p, p.request(r.method, r.body))
                if found:
                    self.note("replay", f"{r.method}, request {r.number}, gives another {found} "
                              "under another PYTHONHASHSEED, which is 0 in runs: it depends on the "
                              "order of a set or on hashes", r.method)

    def check_resume(self) -> None:
        """From the block in the middle of the run, through `restore`, to its end."""
        middle = next((i for i, r in enumerate(self.records)
                       if i >= len(self.records) // 2), 0)
        rest = self.records[middle:]
        with self.guarded("resume"), self.begun(rest[0].before) as p:
            for r in rest:
                answer = self.request(p, r.method, r.body)
                found = self._difference(r, p, answer)
                if found:
                    self.fault("resume", f"{r.method}, request {r.number}: a process that restored "
                               f"the block gives another {found}{self.causes(r.method)}", r.method,
                               r.number)
                    return
            if p.request("snapshot").get("block") != rest[-1].after:
                self.fault("resume", "snapshot does not answer the block's bytes")
                return
            self.ok("resume", f"{len(rest)} requests after `restore` give the same bytes")

    # ---- modes, carry ----

    @property
    def block(self) -> bytes:
        """At the end of the run."""
        return self.records[-1].after

    @staticmethod
    def actions(answer: Body) -> Array:
        return unpack_tensor(answer["actions"], "actions")[1]

    def _row(self, body: Body, e: int) -> dict[str, Any]:
        """The request `act` for copy e alone."""
        n = len(unpack_tensor(body["obs"])[1])
        found: dict[str, Any] = {"mode": body["mode"], "step": body["step"] + e}
        for key in ("obs", "carry"):
            if key in body:
                found[key] = pack_tensor(unpack_tensor(body[key])[1][e:e + 1])
        for key in ("first", "allowed", "episode", "time"):
            if key in body:
                size = len(body[key]) // n
                found[key] = body[key][size * e:size * (e + 1)]
        return found

    def check_modes(self) -> None:
        with self.guarded("modes", "act"), self.begun(self.block) as p:
            texts = []
            for mode, name in ((2, "greedy"), (1, "sample")):
                body = self.act_body(7, 0, mode, 5, range(7), 3)
                whole = p.request("act", body)
                again = p.request("act", body)
                if first_difference(whole, again):
                    self.fault("modes", f"act in mode {name} gives another "
                               f"{first_difference(whole, again)} when it is asked again", "act")
                    return
                for e in range(7):
                    alone = p.request("act", self._row(body, e))
                    if not np.array_equal(self.actions(alone)[0], self.actions(whole)[e]):
                        self.fault("modes", f"act in mode {name}: the action of an evaluation's "
                                   "episode depends on the number of copies", "act")
                        return
                other = self.act_body(7, 0, mode, 5, range(10, 17), 9)
                draws = not np.array_equal(self.actions(p.request("act", other)),
                                           self.actions(whole))
                texts.append(f"{name} {'draws' if draws else 'draws nothing'}")
                if draws and mode == 2:
                    self.note("modes", "act draws in mode greedy: evaluations are not of the "
                              "best actions", "act")
            texts.append(self._rows_of_training(p))
            self.ok("modes", ", ".join(texts))

    def _rows_of_training(self, p: Program) -> str:
        """Whether the rows of `explore` depend on how many there are: they may, by ctx.rng or the
        global generators, and in the last bits."""
        body = self.act_body(32, 640, 0, 9)
        whole = self.actions(p.request("act", body))
        same = sum(np.allclose(self.actions(p.request("act", self._row(body, e)))[0], whole[e],
                               1e-4, 1e-5) for e in range(32))
        seven = {**body, "obs": pack_tensor(unpack_tensor(body["obs"])[1][:7])}
        for key in ("carry",):
            if key in body:
                seven[key] = pack_tensor(unpack_tensor(body[key])[1][:7])
        for key in ("first", "allowed"):
            if key in body:
                seven[key] = body[key][:len(body[key]) // 32 * 7]
        few = self.actions(p.request("act", seven))
        same += sum(np.allclose(few[e], whole[e], 1e-4, 1e-5) for e in range(7))
        return "explore has the same rows with 1, 7 and 32 copies" if same == 39 else \
            "explore depends on the number of copies"

    def check_carry(self) -> None:
        if not self.configured.get("carry"):
            return
        with self.guarded("carry", "act"), self.begun(self.block) as p:
            answers = []
            for k in range(3):
                body = self.act_body(32, 64, 0, 3)
                shape = unpack_tensor(body["carry"])[1].shape
                x = np.random.default_rng(k).normal(0, 3, shape)
                body.update(first=bytes(32), carry=pack_tensor(x.astype(np.float32)))
                answers.append(p.request("act", body))
            if all(not first_difference(answers[0], a) for a in answers[1:]):
                self.fault("carry", f"act declares a carry of {shape[1]} and gives the same "
                           "actions and the same carry whatever ctx.carry is", "act")
            else:
                self.ok("carry", f"{shape[1]} numbers, which change what act gives")

    # ---- batches ----

    def check_batches(self) -> None:
        stages = self.configured["stages"]
        if not stages:
            return
        sizes = [2, 7, self.s.rows + 1]
        with self.guarded("batches"), self.begun(self.block) as p:
            for what, n, groups, weighted in (
                    *((f"{n} rows", n, 1, False) for n in sizes),
                    ("weights", self.s.rows, 1, True),
                    (f"{len(self.s.players)} groups", 7, len(self.s.players), False)):
                for i, stage in enumerate(stages):
                    body = self.stage_body(stage, n, 50 + i, 0, groups, weighted)
                    try:
                        self.request(p, stage["name"], body)
                    except (Error, Ended) as e:
                        self.fault("batches", f"{stage['name']} with {what}: {e}", stage["name"])
                        return
            if self.configured.get("proposes") and not any(s["name"] == "propose" for s in stages):
                p.request("propose", self.stage_body({"reads": []}, 7, 60))
            self.ok("batches", f"{', '.join(map(str, sizes))} rows, weights, "
                    f"{len(self.s.players)} groups")
        with self.begun(self.block) as p:
            for stage in stages:
                try:
                    self.request(p, stage["name"], self.stage_body(stage, 1, 70))
                except (Error, Ended) as e:
                    self.note("batches", f"{stage['name']} with 1 row: {e}", stage["name"])
                    return

    # ---- settings ----

    def live(self) -> dict[str, float]:
        """Live settings, "settings.epsilon" -> another value within its range."""
        name, found = self.s.configuration["name"], {}
        for variable in self.configured["variables"]:
            if variable[0].startswith(f"{name}/hyperparameters/"):
                key = variable[0].partition("/hyperparameters/")[2].replace("/", ".")
                found[key] = 0.125
        for x in self.described.get("settings", ()):
            if x.get("change") == "setting":
                found[f"settings.{x['key']}"] = 0.125
        for x in self.described.get("settings", ()):
            key = f"settings.{x['key']}"
            for k in list(found):
                if k == key or k == f"{key}.to":
                    found[k] = min(max(0.125, x.get("min", 0.125)), x.get("max", 0.125))
                elif k == f"{key}.over":
                    found[k] = 1000.0
        return found

    def check_settings(self) -> None:
        live = self.live()
        with self.guarded("settings"), self.begun(self.block) as p:
            for key, value in live.items():
                before = p.block()
                p.request("set", {"changes": {key: value}})
                changed = [v[0] for v in self.configured["variables"]
                           if variable_at({"variables": [v]}, before, p.block())
                           not in ("", "a byte of the block between its variables")]
                if len(changed) > 1:
                    self.fault("settings", f"a change of {key} also changes {changed[1]}")
                    return
            if self.places:
                try:
                    p.request("set", {"changes": {"nothing.of.this.name": 1.0}})
                    self.fault("settings", "a change of an unknown setting is not refused")
                    return
                except Error:
                    pass
            body = self.act_body(7, 128, 0, 2)
            answer = p.request("act", body)
            for i, stage in enumerate(self.configured["stages"]):
                self.request(p, stage["name"], self.stage_body(stage, self.s.rows, 80 + i))
            p.request("restore", {"block": self.block})
            p.request("set", {"changes": live})
            if first_difference(answer, p.request("act", body)):
                self.fault("settings", "settings changed at once, or one after another, give "
                           "different actions", "act")
                return
            self.ok("settings", f"{counted(len(live), 'live number')} changed" if live else "none is live")

    # ---- draws ----

    def check_draws(self) -> None:
        e = 64
        body = self.act_body(e, 1000, 0, 4)
        with self.guarded("draws", "act"), self.begun(self.block) as p:
            first = p.request("act", body)
            later = p.request("act", {**body, "step": 5000})
            if not first_difference(first, later):
                self.ok("draws", "act draws no numbers")
                return
            others = [("the seed", {"seed": self.s.configuration["seed"] + 1})]
            twin = next((x["name"] for x in self.s.players if x is not self.s.me
                         and x["obs"] == self.s.me["obs"]
                         and x["action"] == self.s.me["action"]), "")
            if twin:
                others.append(("the agent's name", {"name": twin}))
            for what, changes in others:
                with self.begun(self.block, **changes) as q:
                    if not first_difference(first, q.request("act", body)):
                        self.fault("draws", f"act draws numbers that do not depend on {what}: "
                                   "take them from ctx or the global generators", "act")
                        return
            self.ok("draws", f"depend on {' and '.join(w for w, _ in others)}")

    # ---- speed ----

    def check_speed(self) -> None:
        with self.guarded("speed"), self.begun(self.block) as p:
            texts = []
            for copies in (1, self.s.copies):
                body = self.act_body(copies, 0, 0)
                texts.append(f"act of {copies} {timed(lambda: p.request('act', body), 20)}")
            for stage in self.configured["stages"]:
                stage_body = self.stage_body(stage, self.s.rows, 90)
                name = stage["name"]
                texts.append(f"{name} of {self.s.rows} rows "
                             f"{timed(lambda: p.request(name, stage_body), 10)}")
            self.ok("speed", f"{', '.join(texts)}; block {size_text(p.block_bytes)}")


def timed(f: Callable[[], object], n: int) -> str:
    """The median of n calls, after one."""
    took = []
    for _ in range(n + 1):
        began = time.perf_counter()
        f()
        took.append(time.perf_counter() - began)
    return f"{statistics.median(took[1:]) * 1e3:.3g} ms"


def check(subject: Subject, report: Report) -> None:
    """All of them; findings go to the report."""
    body = dict(subject.configuration)
    body["config"] = {**body["config"], "on_nonfinite": "stop"}
    body["restored"] = False
    t = Trials(replace(subject, configuration=body), report)
    with t.processes:
        _check(t)


def _check(t: Trials) -> None:
    if not t.check_describe() or not t.check_build():
        return
    is_good = t.check_run()
    if is_good:
        n = sum(r.method == "act" for r in t.records)
        t.ok("run", f"{n} requests act and {len(t.records) - n} of stages, each repeated by a "
             "fresh object")
    t.check_effects()
    if not t.records:
        return
    if not t.check_replay() or not is_good:
        return
    t.check_resume()
    t.check_modes()
    t.check_carry()
    t.check_batches()
    t.check_settings()
    t.check_draws()
    t.check_speed()
    if all(r.before == r.after for r in t.records) and t.configured["stages"]:
        t.note("run", "no request changes the block: nothing is learnt",
               t.configured["stages"][-1]["name"])
