#!/usr/bin/env python3
"""Steer runs at random, end their processes, fill their disks, and see what is left.

    tests/fuzz/steer.py [--count N | --minutes M] [--seed S] [--jobs J]

Each case starts a small run and for a while does random things to it, from two clients of
its control socket and with signals. A case fails when

    - keeper or supervisor end by a signal that nobody sent, with a failed check, an exit
      code that the command line does not have, or a sanitizer's report;
    - the run does not end, or a process of it is left;
    - `status`, `runs` or `resume` fail on what is left;
    - the run, or its resume, ends with other bytes than one that nobody disturbed; or where
      its configuration was changed, than its own resume from the beginning.

The case's number and seed make the same requests and signals again (`--seed S --only N`),
but not at the same moments. The last line reads `N cases, N failed`. Needs python3-msgpack.
"""
import argparse
import collections
import concurrent.futures
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time

import msgpack

import mutate
from signals import signal_group, signal_process  # mutate has their folder in sys.path

ROOT = mutate.ROOT
LIMIT_S = 60
COMMON = """
run: {{name: a, seed: 3, env_steps: {steps}}}
evaluation: {{every_env_steps: {evaluate}, episodes: 2}}
checkpoint: {{every_env_steps: {checkpoint}, max_to_keep: 0}}
log: {{every_env_steps: 200}}
"""
RESTARTS = "restart: {max_restarts: 1000, delay: 1ms, max_delay: 20ms}"
SPREAD = COMMON.format(steps=12000, evaluate=1500, checkpoint=500) + f"""
env: {{id: simple_spread, copies: 4, params: {{agents: 3}}}}
experience: {{capacity: 4000, batch_size: 16, warmup: 100, update_every: 20, keep: true}}
defaults: {{actor: {{hidden: [8]}}, critic: {{hidden: [8]}}, {RESTARTS}}}
"""
HALLWAY = COMMON.format(steps=3000, evaluate=1000, checkpoint=500) + f"""
env:
  command: [python3, {ROOT}/scripts/pettingzoo_bridge.py, {ROOT}/tests/examples/hallway.py]
  params: {{agents: 3, length: 5}}
  copies: 4
  processes: 2
  {RESTARTS}
experience: {{capacity: 4000, batch_size: 16, warmup: 100, update_every: 20, keep: true}}
defaults: {{algorithm: iql, actor: {{hidden: [8]}}, critic: {{hidden: [8]}}, {RESTARTS}}}
"""
NONE = f"""
run: {{name: a, seed: 3}}
env: {{id: none}}
checkpoint: {{every_seconds: 1}}
defaults: {{algorithm: critic, {RESTARTS}}}
agents:
  agent_0: {{observation: 6, action: 2}}
  agent_1: {{observation: 6, action: 2}}
  agent_2: {{observation: 6, action: 2}}
"""
KINDS = {"spread": SPREAD, "hallway": HALLWAY, "none": NONE}
AGENTS = {"spread": ["agent_0", "agent_1", "agent_2"],
          "hallway": ["walker_0", "walker_1", "walker_2"],
          "none": ["agent_0", "agent_1", "agent_2"]}
CHANGES = ["defaults.discount=0.9", "defaults.polyak=0.02", "defaults.clip_norm=1.0",
           "defaults.optimizer.learning_rate=0.001", "evaluation.every_env_steps=700",
           "checkpoint.every_env_steps=300", "log.every_env_steps=100",
           "agents.{agent}.optimizer.learning_rate=0.002", "agents.{agent}.discount=0.8",
           "defaults.respond_within=20s", "agents.{agent}.restart.delay=2ms",
           "agents.{agent}.memory_limit=1GB", "evaluation.episodes=3",
           "agents.{agent}.optimizer.beta1=0.8", "agents.{agent}.optimizer.epsilon=0.001"]
CHECKED = re.compile(r"CHECK\(|Assertion|" +
                     mutate.REPORT.pattern)


class Client:
    """Of the control socket; asks without waiting. Closed: it is over."""

    def __init__(self, run):
        self.run, self.socket, self.waits = run, None, {}
        self.next_id = 0
        self.answers = {}

    def open(self):
        folder = None
        try:
            folder = os.open(self.run, os.O_PATH | os.O_DIRECTORY)
            s = socket.socket(socket.AF_UNIX)
            s.connect(f"/proc/self/fd/{folder}/control.sock")
        except OSError:
            return False
        finally:
            if folder is not None:
                os.close(folder)
        s.setblocking(False)
        self.socket, self.unpacker = s, msgpack.Unpacker(raw=False, max_buffer_size=1 << 27)
        return True

    def send(self, method, **params):
        if self.socket is None and not self.open():
            return False
        self.next_id += 1
        try:
            self.socket.sendall(msgpack.packb([0, self.next_id, method, params]))
        except OSError:
            self.close()
            return False
        self.waits[self.next_id] = method
        return self.next_id

    def close(self):
        if self.socket is not None:
            self.read()
        if self.socket is not None:
            self.socket.close()
            self.socket = None
        self.waits = {}

    def read(self):
        """What has been said meanwhile."""
        while self.socket is not None:
            try:
                data = self.socket.recv(1 << 16)
            except BlockingIOError:
                return
            except OSError:
                data = b""
            if not data:
                self.socket.close()
                self.socket = None
                self.waits = {}
                return
            self.unpacker.feed(data)
            for m in self.unpacker:
                if m[0] == 1 and m[1] in self.waits:
                    self.answers[m[1]] = (self.waits.pop(m[1]), m[2], m[3])


class Failure(Exception):
    pass


class Steering:
    def __init__(self, build, folder, mounts):
        self.brood, self.folder, self.mounts = build / "supervisor" / "brood", folder, mounts
        self.environment = {**os.environ, "HOME": str(folder),
                            "ASAN_OPTIONS": "exitcode=99:abort_on_error=0",
                            "UBSAN_OPTIONS": "exitcode=99:print_stacktrace=1"}
        self.outcomes = collections.Counter()
        self.truth = {}
        for kind in ("spread", "hallway"):
            config = folder / f"{kind}.yaml"
            config.write_text(KINDS[kind])
            started = time.monotonic()
            code, text = self.call(["run", str(config), "-q"], folder / kind)
            if code:
                raise SystemExit(f"steer.py: an undisturbed run: {code}\n{text}")
            self.truth[kind] = weights(next((folder / kind).iterdir()))
            print(f"{kind}: {time.monotonic() - started:.1f} s undisturbed", flush=True)
        (folder / "none.yaml").write_text(NONE)

    def call(self, words, runs, limit_s=LIMIT_S):
        p = subprocess.Popen([str(self.brood), *words], cwd=self.folder,
                             env={**self.environment, "BROOD_RUNS_DIR": str(runs)},
                             stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                             stderr=subprocess.STDOUT, start_new_session=True)
        try:
            text = p.communicate(timeout=limit_s)[0].decode(errors="replace")
        except subprocess.TimeoutExpired:
            signal_group(p.pid, 9)
            return None, p.communicate()[0].decode(errors="replace")
        return p.returncode, text

    def one(self, seed, number):
        """Play a case; the text of its failure, or None."""
        rng = random.Random(f"{seed} {number}")
        place = pathlib.Path(tempfile.mkdtemp(prefix="case-", dir=self.folder))
        case = Case(self, rng, place)
        try:
            case.play()
            return None
        except Failure as why:
            if os.environ.get("STEER_KEEP"):
                shutil.copytree(place, f"{os.environ['STEER_KEEP']}/{seed}-{number}",
                                dirs_exist_ok=True, symlinks=True,
                                ignore=lambda d, n: [x for x in n if x.endswith(".sock")])
            return f"{why}\n  {case.what()}\n  did: {' '.join(case.did)}\n" + case.said()
        finally:
            case.close()
            shutil.rmtree(place, ignore_errors=True)


def weights(run):
    """The newest checkpoint's variables."""
    return mutate.Attack.weights(run)


class Case:
    def __init__(self, steering, rng, place):
        self.s, self.rng, self.place = steering, rng, place
        self.kind = rng.choice(["spread", "spread", "spread", "hallway", "none"])
        self.on_death = rng.choice(["stop", "resume", "resume"])
        self.give_up = rng.choice([None, None, None, "stop", "frozen", "noop"])
        self.disk = steering.mounts and self.kind == "spread" and rng.random() < 0.2
        self.rescue = rng.random() < 0.5
        self.destructive = rng.random() < 0.4  # whatever ends the run before its end
        self.changes = rng.random() < 0.5
        self.runs = place / "runs"
        self.run = self.runs / "a"
        self.did, self.clients = [], []
        self.stopped, self.deleted, self.killed = False, False, False
        self.changed = False
        self.p = None
        self.mounted = False

    def what(self):
        return (f"{self.kind} on_death={self.on_death} give_up={self.give_up} disk={self.disk} "
                f"rescue={self.rescue} destructive={self.destructive} changes={self.changes}")

    def said(self):
        try:
            return (self.place / "err").read_text(errors="replace")[-3000:]
        except OSError:
            return ""

    def close(self):
        for c in self.clients:
            c.close()
        if self.p and self.p.poll() is None:
            self.p.kill()
            self.p.wait()
        for pid, _ in self.members(wait_s=0):
            kill(pid, signal.SIGKILL)
        if self.mounted:
            time.sleep(0.2)
            subprocess.run(["umount", "-l", str(self.runs)], check=False)

    # ---- processes ----

    def members(self, wait_s=10):
        """(pid, command line) of the case's processes; those that are left after a while."""
        deadline = time.monotonic() + wait_s
        mark = str(self.place).encode()
        while True:
            found = []
            for entry in os.scandir("/proc"):
                try:
                    pid = int(entry.name)
                    words = pathlib.Path(entry.path, "cmdline").read_bytes()
                    environ = pathlib.Path(entry.path, "environ").read_bytes()
                    stat = pathlib.Path(entry.path, "stat").read_text()
                except (OSError, ValueError):
                    continue
                if (mark in words or mark in environ) and stat[stat.rindex(")") + 2] not in "ZX":
                    found.append((pid, words.replace(b"\0", b" ").decode(errors="replace")))
            if not found or not wait_s or time.monotonic() > deadline:
                return found
            time.sleep(0.02)

    def continue_stopped(self):
        """Only those that are stopped: where LeakSanitizer attaches to a process at its end,
        SIGCONT would take back the stop that it waits for."""
        for pid, _ in self.members(0):
            try:
                stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
            except OSError:
                continue
            if stat[stat.rindex(")") + 2] == "T":
                kill(pid, signal.SIGCONT)

    def supervisor(self):
        try:
            pid = int((self.run / "lock").read_text().split()[0])
            return pid if any(m == pid for m, _ in self.members(0)) else None
        except (OSError, ValueError, IndexError):
            return None

    def children(self):
        return [pid for pid, words in self.members(0)
                if "brood-agent" in words or " agent " in words or "pettingzoo_bridge" in words]

    # ---- what is done ----

    def ask(self, method, **params):
        c = self.rng.choice(self.clients)
        self.did.append(method + "".join(f"({v})" for v in params.values()))
        return c.send(method, **params)

    def agent(self):
        names = AGENTS[self.kind] + (["env-0", "env-1"] if self.kind == "hallway" else [])
        return self.rng.choice(names)

    def act(self):
        rng = self.rng
        kinds = ["pause", "continue", "continue", "checkpoint", "respawn", "kill", "trace",
                 "subscribe", "status", "sigkill", "sigstop", "sigcont", "sigcont", "reconnect",
                 "tstp", "burst", "logs"]
        if self.changes:
            kinds += ["set", "set", "cancel", "later", "hup"]
        if self.on_death == "resume":
            kinds += ["death"]
        if self.destructive:
            kinds += rng.choice([["stop"], ["int"], ["term"], ["delete"], ["intint"], ["death"],
                                 ["killkeeper"]])
        if self.disk:
            kinds += ["fill", "fill", "free", "free"]
        if self.kind == "none":
            kinds += ["run", "run", "run"]
        kind = rng.choice(kinds)
        if kind in ("pause", "continue", "checkpoint", "status"):
            self.ask(kind)
        elif kind in ("kill", "respawn"):
            self.ask(kind, agent=self.agent())
        elif kind == "trace":
            self.ask("trace", rounds=rng.choice([1, 5, 100]))
        elif kind == "subscribe":
            self.ask("subscribe", events=rng.random() < 0.5)
        elif kind == "logs":
            self.ask("logs")
        elif kind == "run":
            self.ask("run", agent=rng.choice(AGENTS["none"]), feeds={}, fetches=["nothing:0"],
                     targets=[])
        elif kind in ("set", "later"):
            change = rng.choice(CHANGES).format(agent=rng.choice(AGENTS[self.kind]))
            more = {"at": rng.randrange(12000)} if kind == "later" else {}
            if self.ask("set", changes=[change], **more):
                self.changed = True
        elif kind == "cancel":
            keys = [] if rng.random() < 0.5 else [
                rng.choice(CHANGES).format(agent=rng.choice(AGENTS[self.kind])).split("=")[0]]
            self.ask("set", cancel=keys)
        elif kind == "hup":
            self.did.append(kind)
            pid = self.supervisor()
            if pid:
                kill(pid, signal.SIGHUP)
        elif kind == "burst":
            for _ in range(rng.randrange(2, 6)):
                self.ask(rng.choice(["pause", "continue", "checkpoint", "status"]))
            self.ask("continue")
        elif kind == "reconnect":
            self.did.append(kind)
            i = rng.randrange(len(self.clients))
            self.clients[i].close()
            self.clients[i] = Client(self.run)
        elif kind in ("sigkill", "sigstop"):
            pids = self.children()
            if pids:
                self.did.append(kind)
                for pid in rng.sample(pids, min(len(pids), rng.choice((1, 1, 1, 2, 3)))):
                    kill(pid, signal.SIGKILL if kind == "sigkill" else signal.SIGSTOP)
        elif kind == "sigcont":
            self.did.append(kind)
            self.continue_stopped()
        elif kind == "tstp":
            self.did.append(kind)
            kill(self.p.pid, signal.SIGTSTP)
            time.sleep(rng.uniform(0, 0.05))
            kill(self.p.pid, signal.SIGCONT)
        elif kind == "death":
            pid = self.supervisor()
            if pid:
                self.did.append(kind)
                self.killed = True
                kill(pid, signal.SIGKILL)
                if self.on_death == "stop":
                    self.stopped = True
        elif kind == "killkeeper":
            self.did.append(kind)
            self.killed = self.stopped = True
            self.p.kill()
        elif kind == "stop":
            self.stopped = True
            self.ask("stop")
        elif kind in ("int", "term", "intint"):
            self.did.append(kind)
            self.stopped = True
            kill(self.p.pid, signal.SIGTERM if kind == "term" else signal.SIGINT)
            if kind == "intint":
                time.sleep(rng.uniform(0, 0.05))
                kill(self.p.pid, signal.SIGINT)
        elif kind == "delete":
            self.did.append(kind)
            self.stopped = self.deleted = True
            shutil.rmtree(self.run, ignore_errors=True)
        elif kind == "fill":
            self.did.append(kind)
            self.fill()
        elif kind == "free":
            self.did.append(kind)
            (self.runs / "filler").unlink(missing_ok=True)

    def fill(self):
        try:
            with open(self.runs / "filler", "ab", buffering=0) as f:
                for size in (1 << 16, 1 << 12, 1):
                    try:
                        while True:
                            f.write(bytes(size))
                    except OSError:
                        pass
        except OSError:
            pass

    # ---- the case ----

    def play(self):
        rng = self.rng
        self.runs.mkdir()
        if self.disk:
            subprocess.run(["mount", "-t", "tmpfs", "-o", "size=40m", "steer", self.runs],
                           check=True)
            self.mounted = True
        words = ["run", str(self.s.folder / f"{self.kind}.yaml"), "--name", "a",
                 "--set", f"run.on_supervisor_death={self.on_death}"]
        if self.give_up:
            words += ["--set", f"agents.{AGENTS[self.kind][1]}.restart={{policy: temporary, "
                      f"on_give_up: {self.give_up}}}"]
        if self.rescue:
            (self.place / "rescue").mkdir()
            words += ["--rescue", str(self.place / "rescue")]
        with open(self.place / "err", "wb") as err:
            self.p = subprocess.Popen([str(self.s.brood), *words], cwd=self.s.folder,
                                      env={**self.s.environment, "BROOD_RUNS_DIR": str(self.runs)},
                                      stdin=subprocess.DEVNULL, stdout=err, stderr=err,
                                      start_new_session=True)
        self.clients = [Client(self.run), Client(self.run)]
        if rng.random() < 0.8:
            deadline = time.monotonic() + LIMIT_S
            while not (self.run / "control.sock").exists() and self.p.poll() is None:
                if time.monotonic() > deadline:
                    raise Failure("no socket")
                time.sleep(0.002)
        if rng.random() < 0.5:
            time.sleep(rng.uniform(0, 1))
        end = time.monotonic() + rng.uniform(0.5, 5)
        while time.monotonic() < end and self.p.poll() is None:
            self.act()
            for c in self.clients:
                c.read()
            if rng.random() < 0.7:
                time.sleep(rng.choice((0.001, 0.01, 0.05, 0.2)) * rng.random())
        self.finish()
        self.judge()

    def finish(self):
        """Lets it end: nobody is stopped, the disk has space, it is not paused."""
        (self.runs / "filler").unlink(missing_ok=True)
        if self.mounted:
            subprocess.run(["mount", "-o", "remount,size=400m", self.runs], check=True)
        deadline = time.monotonic() + LIMIT_S
        self.did.append("|")
        while self.p.poll() is None:
            if time.monotonic() > deadline:
                raise Failure(f"not over within {LIMIT_S} s: {self.members(0)}")
            self.continue_stopped()
            self.clients[0].send("continue")
            if self.kind == "none":
                self.stopped = True
                self.clients[0].send("stop")
            for c in self.clients:
                c.read()
            time.sleep(0.1)

    def check_text(self, text, what):
        found = CHECKED.search(text)
        if found:
            raise Failure(f"{what}: {found.group()}\n{text[-3000:]}")

    def judge(self):
        code = self.p.returncode
        self.s.outcomes[self.kind, code] += 1
        self.check_text(self.said(), "stderr")
        for log in self.run.glob("logs/*"):
            self.check_text(log.read_text(errors="replace"), log.name)
        left = self.members(30)
        if left:
            raise Failure(f"processes are left: {left}")
        for c in self.clients:
            c.close()
        allowed = {0}
        if self.stopped:
            allowed |= {4, 0}
        if self.deleted:
            allowed |= {1, 4, 3}
        interrupts = sum(self.did.count(x) * n for x, n in (("intint", 2), ("int", 1),
                                                            ("term", 1)))
        if interrupts > 0:  # before there is a keeper
            allowed |= {-signal.SIGINT, -signal.SIGTERM}
        if interrupts > 1:
            allowed |= {130, 143}
        if self.killed:
            allowed |= {1, 137, -9}
        if self.give_up or self.disk:
            allowed |= {1}
        if self.disk:
            allowed |= {2}
        if code not in allowed:
            raise Failure(f"exit code {code}, not one of {sorted(allowed)}")
        for words in (["status", "a"], ["status", "a", "--json"], ["runs"]):
            c, text = self.s.call(words, self.runs)
            if c not in (0, 3) or (c == 3 and not self.deleted and self.run.exists() and
                                   (self.run / "config.yaml").exists()):
                raise Failure(f"brood {' '.join(words)}: exit code {c}\n{text}")
            self.check_text(text, words[0])
        self.go_on(code)

    def go_on(self, code):
        run = self.run
        if self.deleted:
            rescued = self.place / "rescue" / "a"
            if rescued.exists() and not (self.run / "checkpoints").exists():
                run = rescued
        steps = [x for x in run.glob("checkpoints/*") if x.name.isdigit()]
        if not steps or self.kind == "none":
            return
        runs = run.parent
        if code:
            c, text = self.s.call(["resume", str(run)], runs)
            self.did.append("resume")
            self.check_text(text, "resume")
            if c and not (self.deleted and c in (1, 3)):
                raise Failure(f"resume: exit code {c}\n{text}")
            if c:
                return
        if self.give_up:
            return
        now = weights(run)
        if not self.changed:
            if now != self.s.truth[self.kind]:
                raise Failure(f"other bytes than undisturbed: {now[0]}")
            return
        if (run / "checkpoints" / "0").exists():
            c, text = self.s.call(["resume", str(run), "--from", "0"], runs)
            self.check_text(text, "resume --from 0")
            if c:
                raise Failure(f"resume --from 0: exit code {c}\n{text}")
            if weights(run) != now:
                raise Failure("a resume from the beginning ends with other bytes")


def kill(pid, signum):
    try:
        signal_process(pid, signum)
    except ProcessLookupError:
        pass


def own_mounts():
    """Starts this program again where it may mount; whether it may."""
    if os.environ.get("STEER_MOUNTS"):
        return True
    for how in (["unshare", "-m"], ["unshare", "-rm"]):
        try:
            subprocess.run([*how, "true"], check=True, capture_output=True)
        except (OSError, subprocess.CalledProcessError):
            continue
        os.environ["STEER_MOUNTS"] = "1"
        os.execvp("unshare", [*how, sys.executable, *sys.argv])
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--count", type=int, default=100, help="so many cases (100)")
    parser.add_argument("--minutes", type=float, help="so long, in place of --count")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, help="this case alone")
    parser.add_argument("--jobs", type=int, default=1)
    args = parser.parse_args()
    mounts = own_mounts()
    end = time.monotonic() + args.minutes * 60 if args.minutes else None
    with tempfile.TemporaryDirectory(prefix="brood-steer-", ignore_cleanup_errors=True) as folder:
        steering = Steering(mutate.default_build(), pathlib.Path(folder), mounts)
        numbers = [args.only] if args.only is not None else range(1 << 62 if end else args.count)
        played = failed = 0
        with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
            waiting = {}
            for number in numbers:
                if end and time.monotonic() > end:
                    break
                waiting[pool.submit(steering.one, args.seed, number)] = number
                if len(waiting) < args.jobs + 1:
                    continue
                played, failed = mutate.collect(waiting, played, failed,
                                                concurrent.futures.FIRST_COMPLETED)
            played, failed = mutate.collect(waiting, played, failed,
                                            concurrent.futures.ALL_COMPLETED)
    for (kind, code), times in sorted(steering.outcomes.items(), key=str):
        print(f"{kind:8} exit code {code}: {times}")
    print(f"{played} cases, {failed} failed")
    return 1 if failed or not played else 0


if __name__ == "__main__":
    sys.exit(main())
