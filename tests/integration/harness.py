"""What every integration test needs: the real binaries in a temporary folder, waiting
with deadlines, and TAP.

A test file defines functions whose names begin with `test_`, each taking a Workplace, and
ends with `harness.main()`. Nothing sleeps for a result: `wait_until` polls with a deadline.
"""
import contextlib
import json
import os
import pathlib
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "support"))

from signals import signal_group, signal_process

BUILD = pathlib.Path(os.environ["BROOD_BUILD_DIR"])
SOURCE = pathlib.Path(os.environ["BROOD_SOURCE_DIR"])
BROOD = BUILD / "supervisor" / "brood"
AGENT = BUILD / "agent" / "brood-agent"
# An agent that ends where the variable BROOD_FAULT says (tests/support/fault_agent.c).
FAULT_AGENT = BUILD / "tests" / "support" / "fault_agent"
# The steps of a run that ends only on request, or with set_last_step.
FOREVER = 100_000_000
SANITIZED = bool(os.environ.get("BROOD_SANITIZED"))
# Everything takes longer under the sanitizers.
PATIENCE = 6 if SANITIZED else 1
# For what hangs. A virtual machine, or its disk, may stand still for minutes.
DEADLINE_S = 600 if not SANITIZED else 1500
# Whether the kernel lists a process's children (CONFIG_PROC_CHILDREN).
KNOWS_CHILDREN = os.path.exists(f"/proc/self/task/{os.getpid()}/children")

# nohup or a script's `&` may ignore these signals; processes started here must not inherit it.
for _signum in (signal.SIGINT, signal.SIGHUP):
    signal.signal(_signum, signal.SIG_DFL)

# A run that takes seconds: three agents that act, learn and are evaluated.
SMALL = """
run: {{name: small, seed: 1, env_steps: {steps}}}
env: {{id: simple_spread, copies: 4, params: {{agents: 3}}}}
experience: {{capacity: 20000, batch_size: 64, warmup: 200, update_every: 20}}
evaluation: {{every_env_steps: {evaluate}, episodes: 8}}
checkpoint: {{every_env_steps: {checkpoint}}}
log: {{every_env_steps: 200}}
defaults:
  actor: {{hidden: [16, 16]}}
  critic: {{hidden: [16, 16]}}
"""


class Process(subprocess.Popen):
    """A program whose wait() counts as wait_until does."""

    def wait(self, timeout=None):
        if timeout is None:
            return super().wait()
        watch = Stopwatch()
        while self.poll() is None:
            if watch.seconds() > timeout:
                raise subprocess.TimeoutExpired(self.args, timeout)
            watch.sleep()
        return self.returncode


class Skip(Exception):
    """Raised by a test that cannot run here; the text says why."""


def slowness():
    """How many times longer work takes here now than on an idle machine, at least 1: what
    a loop of this process gets of a processor, and how many wait for each."""
    wall, cpu = time.monotonic(), time.process_time()
    while time.process_time() - cpu < 0.05:
        pass
    share = (time.process_time() - cpu) / (time.monotonic() - wall)
    return max(1.0, 1 / share, os.getloadavg()[0] / len(os.sched_getaffinity(0)))


def allowed_s(limit_s):
    """A limit meant for an idle machine and a plain build, on this one, now. What is found
    so is a wait that hangs or grows, not a slow quarter of an hour."""
    return limit_s * PATIENCE * max(3, 2 * slowness())


class Stopwatch:
    """Counts the seconds in which this process could look: while the machine stands still,
    nobody has time. Between two looks it sleeps the longer, the longer it has waited, to
    leave the processor to what it waits for."""

    def __init__(self):
        self.passed_s, self.looked = 0.0, time.monotonic()

    def seconds(self):
        now = time.monotonic()
        self.passed_s += min(now - self.looked, 1.0)
        self.looked = now
        return self.passed_s

    def sleep(self):
        time.sleep(min(0.002 + self.passed_s / 25, 0.06))


def fork_from_leader():
    """Called by a process that leads the session of a terminal: returns in a child, with whose
    code the leader exits. When a leader exits, Linux discards what its terminal has not shown."""
    before = {n: signal.signal(n, signal.SIG_IGN) for n in (signal.SIGINT, signal.SIGHUP)}
    child = os.fork()
    if child == 0:
        for signum, handler in before.items():
            signal.signal(signum, handler)
        return
    os.closerange(0, 3)
    os._exit(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) & 0xff)


def code_of(command):
    """The exit code of a command of the manuals: what `brood diff` compares there differs."""
    return 1 if "brood diff " in command else 0


def wait_until(what, condition, deadline_s=DEADLINE_S):
    """Poll until condition() is true, and return its value; fail after the deadline."""
    watch = Stopwatch()
    while not (value := condition()):
        if watch.seconds() > deadline_s:
            raise AssertionError(f"not within {deadline_s} s: {what}")
        watch.sleep()
    return value


def wait_within(what, condition, limit_s):
    """Like wait_until, with a limit as for allowed_s; returns how long it took. what: a text, or
    a function that returns it after the failure."""
    watch, end = Stopwatch(), limit_s * PATIENCE
    while not condition():
        if watch.seconds() > end:
            end = allowed_s(limit_s)
            if watch.seconds() > end:
                what = what() if callable(what) else what
                raise AssertionError(f"not within {limit_s} s ({end:.1f} s here): {what}")
        watch.sleep()
    return watch.seconds()


def look_at(pid):
    """(state, ppid, command line) of a process; None if it is gone."""
    with contextlib.suppress(OSError, IndexError):
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
        fields = stat[stat.rindex(")") + 2:].split()
        cmdline = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes()
        return (fields[0], int(fields[1]),
                " ".join(cmdline.replace(b"\0", b" ").decode(errors="replace").split("\n")))
    return None


def processes():
    """pid -> (state, ppid, command line) of all processes. It takes 5 ms and more: what is
    polled asks for `children`."""
    found = {int(entry.name): look_at(entry.name) for entry in os.scandir("/proc")
             if entry.name.isdigit()}
    return {pid: seen for pid, seen in found.items() if seen}


def children(parent):
    """pid -> (state, ppid, command line) of the children of a process."""
    if not KNOWS_CHILDREN:
        return {pid: seen for pid, seen in processes().items() if seen[1] == parent}
    pids = []
    with contextlib.suppress(OSError):  # it is gone
        for task in os.listdir(f"/proc/{parent}/task"):
            pids += pathlib.Path(f"/proc/{parent}/task/{task}/children").read_text().split()
    return {int(pid): seen for pid in pids if (seen := look_at(pid))}


def print_machine():
    """What a failure may be due to: the machine, and the processes that are alive."""
    free = shutil.disk_usage(tempfile.gettempdir()).free
    print(f"# load {os.getloadavg()[0]:.1f}, {free >> 20} MB free for temporary files")
    for pid, (state, ppid, command) in sorted(processes().items()):
        if "brood" in command:
            print(f"# pid {pid}, parent {ppid}, state {state}: {command[:120]}")


def supervisor_of(keeper):
    """The pid of the supervisor whose keeper (the `brood run` that was started) is that;
    None before it is there. It is below the sweeper, or, if that was killed, below the keeper,
    and leads a process group, but no session."""
    for child, (state, _, _) in children(keeper).items():
        with contextlib.suppress(OSError):
            if name_of(child) == "brood-sweeper":
                return supervisor_of(child)
            if state != "Z" and os.getpgid(child) == child != os.getsid(child):
                return child
    return None


def keeper_of(supervisor):
    """The other way round; the sweeper may have been killed."""
    parent = look_at(supervisor)[1]
    return look_at(parent)[1] if name_of(parent) == "brood-sweeper" else parent


def name_of(pid):
    """None if the process has gone."""
    try:
        return pathlib.Path(f"/proc/{pid}/comm").read_text().rstrip("\n")
    except (FileNotFoundError, ProcessLookupError):
        return None


def agents_of(keeper):
    """name -> pid of the agents of the run whose keeper has that pid."""
    found = {}
    for parent in (keeper, supervisor_of(keeper)):
        for child, (state, _, cmdline) in children(parent).items():
            words = cmdline.split()
            if state != "Z" and len(words) >= 4 and words[1] == "agent":
                found[words[3]] = child
    return found


def members(keeper):
    """All processes of a run: keeper, supervisor, sweeper, agents. keeper: its pid."""
    found, new = {keeper}, {keeper}
    while new := {child for parent in new for child in children(parent)} - found:
        found |= new
    return found


def marked(keeper, variable="BROOD_MARK"):
    """pids of processes that carry the mark of a run, or of a node (BROOD_NODE_MARK), which
    begins with its keeper's pid."""
    found = set()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            try:
                text = pathlib.Path(entry.path, "environ").read_bytes()
            except OSError:
                continue
            if b"%s=%d-" % (variable.encode(), keeper) in text:
                found.add(int(entry.name))
    return found


def at_work_in(folder):
    """Processes that have this working directory: those of runs, and nodes below them."""
    found = []
    for entry in os.scandir("/proc"):
        with contextlib.suppress(OSError):
            if entry.name.isdigit() and pathlib.Path(os.readlink(f"{entry.path}/cwd")) == folder:
                found.append((entry.name, look_at(entry.name)))
    return found


# The environment of a run whose processes a test looks into: without it, root alone sees their
# descriptors, environment and memory.
VISIBLE = {"BROOD_DEBUG": "1"}


def counts(pid):
    """What of a VISIBLE process must not grow: descriptors, children, zombies, mappings; and its
    own memory in KiB."""
    proc = pathlib.Path(f"/proc/{pid}")
    states = [state for state, _, _ in children(pid).values()]
    status = dict(line.split(":", 1) for line in (proc / "status").read_text().splitlines())
    return {"descriptors": len(os.listdir(proc / "fd")), "children": len(states),
            "zombies": states.count("Z"),
            "mappings": len((proc / "maps").read_text().splitlines())}, \
        int(status["RssAnon"].split()[0])


def settled(supervisor, n_agents):
    """The counts once this many agents run and no process is being replaced."""
    def look():
        now = counts(supervisor)
        return now[0]["zombies"] == 0 and now[0]["children"] == n_agents and now
    return wait_until("a quiet moment", look)


def assert_nothing_grew(supervisor, n_agents, before, rss_slack_kib):
    """`before`: a result of settled. Waits for files that are open only for a moment."""
    (was, rss_was), now = before, None

    def is_as_before():
        nonlocal now
        now = settled(supervisor, n_agents)
        return all(now[0][k] <= was[k] for k in was if k != "mappings" or not SANITIZED)
    try:
        wait_until("no more than before", is_as_before)
    finally:
        print(f"# supervisor before {was}, {rss_was} KiB; after {now[0]}, {now[1]} KiB")
    # A sanitizer's allocator keeps freed memory.
    assert SANITIZED or now[1] <= rss_was + rss_slack_kib, (rss_was, now[1])


def rows(run):
    """How many rows progress.csv has."""
    path = run / "metrics" / "progress.csv"
    return max(path.read_text().count("\n") - 1, 0) if path.exists() else 0


def last_row(run):
    """The columns of progress.csv that its last row fills."""
    lines = (run / "metrics" / "progress.csv").read_text().splitlines()
    values = zip(lines[0].split(","), lines[-1].split(","))
    return {name: float(value) for name, value in values if value}


def checkpoints(run, folder="checkpoints"):
    """The steps of a run's checkpoints; [] before there is one."""
    folder = run / folder
    try:
        names = os.listdir(folder)
    except FileNotFoundError:  # not yet, or another run takes its place
        names = []
    return sorted(int(name) for name in names if name.isdigit() and name == str(int(name)) and
                  (folder / name).is_dir())


def pause(w, run):
    """Pause a live run; the step at which it stands."""
    return json.loads(w.brood("pause", run, "--json")[0])["env_steps"]


def set_last_step(w, run, multiple):
    """Give a live run that would go on for ever its last step, the next multiple of that
    number; return it. It is paused meanwhile: whatever time passes here, it is not too late."""
    steps = (pause(w, run) // multiple + 1) * multiple
    w.brood("set", run, f"run.env_steps={steps}")
    w.brood("continue", run)
    return steps


def holder_of(run):
    """The pid of the supervisor that holds a run directory, or held it last."""
    return int((run / "lock").read_text().split()[0])


def kill_supervisor(run):
    """SIGKILL the supervisor of a live run; wait until it is gone. Its keeper may start
    another one."""
    kill_and_wait(holder_of(run))


def kill_holder(p, run):
    """SIGKILL the supervisor of the run that p keeps; wait until p has ended."""
    kill(holder_of(run))
    p.wait(timeout=DEADLINE_S)


def alive(pid):
    """Whether the process exists and is not a zombie."""
    try:
        stat = pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat[stat.rindex(")") + 2:].split()[0] not in "ZX"


def left_of(pids):
    """What those of the processes that still exist are doing, for messages."""
    found = []
    for pid in filter(alive, pids):
        with contextlib.suppress(OSError):
            wchan = pathlib.Path(f"/proc/{pid}/wchan").read_text()
            found.append(f"{pid} {look_at(pid)} in {wchan}")
    return found


def is_stopped(pid):
    """Whether a signal has stopped the process; False if it is gone."""
    return (look_at(pid) or "X")[0] == "T"


def is_pending(pid, signum):
    """Whether the signal waits for the process, which has it blocked."""
    with contextlib.suppress(OSError):
        for line in pathlib.Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("ShdPnd:"):
                return bool(int(line.split()[1], 16) >> (signum - 1) & 1)
    return False


def tree_bytes(folder, keep=lambda path: True):
    """relative path -> content of all files below a folder."""
    folder = pathlib.Path(folder)
    return {str(p.relative_to(folder)): p.read_bytes()
            for p in sorted(folder.rglob("*")) if p.is_file() and keep(p)}


def progress_without_times(run):
    """The rows of progress.csv without the columns that depend on clocks."""
    lines = (run / "metrics" / "progress.csv").read_text().splitlines()
    keep = [i for i, name in enumerate(lines[0].split(","))
            if not name.startswith("time/")]
    return [[line.split(",")[i] for i in keep] for line in lines]


def assert_same_files(a, b):
    """Compare two maps from names to contents; the error names the first difference."""
    assert a.keys() == b.keys(), (a.keys(), b.keys())
    for name in a:
        assert a[name] == b[name], f"{name} differs"


def masked_crc32c(data):
    """The four bytes of the masked CRC-32C in TensorFlow's files and ours."""
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    crc ^= 0xffffffff
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff)


# What a disk takes its time for (synced files, kills between two writes, gigabytes), these try, in
# the plain build.
ON_DISK = {"control", "crash_points", "disk", "files", "kills", "leveldb", "lengths", "power_cut",
           "resume"}


def folder_of_workplaces():
    """None for the system's. In memory where there is room: a file costs a third of the time, and
    an agent's memory is the same on both."""
    if not SANITIZED and pathlib.Path(sys.argv[0]).stem.removeprefix("test_") in ON_DISK:
        return None
    with contextlib.suppress(OSError):
        disk = os.statvfs("/dev/shm")
        if "TMPDIR" not in os.environ and os.access("/dev/shm", os.W_OK) and \
                disk.f_bavail * disk.f_frsize >= 4 << 30 and not disk.f_flag & os.ST_NOEXEC:
            return "/dev/shm"
    return None


class Workplace:
    """A temporary folder with its own runs/. Its processes are killed and it is removed."""

    def __init__(self):
        self.path = pathlib.Path(tempfile.mkdtemp(prefix="brood-test-", dir=folder_of_workplaces()))
        self.runs = self.path / "runs"
        self.started = []

    def close(self):
        for p in self.started:
            if p.poll() is None:
                p.kill()
                p.wait()
        for pid, (_, _, cmdline) in processes().items():
            if str(self.path) in cmdline:  # detached, by a test that failed
                kill(pid)
        shutil.rmtree(self.path, ignore_errors=True)

    def write(self, name, text):
        path = self.path / name
        path.write_text(text)
        return path

    def small(self, name="small.yaml", steps=2000, evaluate=1000, checkpoint=1000):
        return self.write(name, SMALL.format(steps=steps, evaluate=evaluate,
                                             checkpoint=checkpoint))

    def start(self, *args, prefix=(), env=None, program=BROOD, **popen):
        """brood in the background; its stderr goes to the file p.log."""
        log = self.path / f"stderr-{len(self.started)}"
        with open(log, "wb") as err, open(str(log) + ".out", "wb") as out:
            p = Process([*prefix, str(program), *map(str, args)], cwd=self.path,
                        stdin=subprocess.DEVNULL, stdout=out, stderr=err,
                        env={**os.environ, **(env or {})}, **popen)
        p.log = log
        self.started.append(p)
        return p

    def brood(self, *args, code=0, deadline_s=DEADLINE_S, **more):
        """Run brood to its end; (stdout, stderr). The exit code must be `code`; None: any."""
        p = self.start(*args, **more)
        p.wait(timeout=deadline_s)
        out = output(p)
        err = p.log.read_text(errors="replace")
        assert code in (None, p.returncode), f"brood {args}: exit code {p.returncode}\n{out}{err}"
        return out, err

    def program_with_agent(self, agent):
        """brood in a folder of its own, beside another agent executable. A fault agent counts
        its processes from now on."""
        place = self.path / agent.name
        place.mkdir(exist_ok=True)
        for count in place.glob("*.runs"):
            count.unlink()
        for name, source in (("brood", BROOD), ("brood-agent", agent)):
            if not (place / name).exists():
                shutil.copy(source, place / name)
        return place / "brood"

    def status(self, *args, hangs=False, **more):
        """What `brood status` says of one run, the newest unless its name is given. A disk that
        other programs keep busy can stop a supervisor for seconds; it is asked again until it
        answers, unless it hangs as the test wants it."""
        def answer():
            found = json_lines(self.brood("status", *args, "--json", **more)[0])[0]
            return found if hangs or found["state"] != "not answering" else None

        return wait_until("an answer of the run", answer)

    def kill_agents(self, p, name):
        """SIGKILL the agents of the run that p keeps when it has any; none if p ends before."""
        pids = wait_until("its agents, or its end", lambda: [
            a["pid"] for a in self.status(name)["agents"] if a.get("pid")] or
            p.poll() is not None)
        for pid in () if pids is True else pids:
            if pid in processes():
                kill(pid)

    def run_dir(self, name):
        return self.runs / name


def output(p):
    """The stdout so far of a program started by a Workplace."""
    return pathlib.Path(str(p.log) + ".out").read_text(errors="replace")


def copy_run(run, to):
    """Copy a run's folder, keeping the holes in the log."""
    subprocess.run(["cp", "-a", "--sparse=always", run, to], check=True)
    return to


def json_lines(text):
    """Of whole lines: the last one may still be written."""
    whole = text[:text.rfind("\n") + 1]
    return [json.loads(line) for line in whole.splitlines() if line.startswith("{")]


def main():
    """Run every test_ function of the calling file and print TAP."""
    module = sys.modules["__main__"]
    tests = [(n, f) for n, f in vars(module).items() if n.startswith("test_")]
    print(f"1..{len(tests)}")
    failed = 0
    for i, (name, test) in enumerate(tests, 1):
        place = Workplace()
        before = os.times()
        try:
            test(place)
            print(f"ok {i} - {name}", flush=True)
        except Skip as reason:
            print(f"ok {i} - {name} # SKIP {reason}", flush=True)
        except Exception:
            failed += 1
            print(f"not ok {i} - {name}", flush=True)
            for line in traceback.format_exc().splitlines():
                print(f"# {line}")
            for p in place.started:
                if p.log.exists():
                    for line in p.log.read_text(errors="replace").splitlines()[-15:]:
                        print(f"# {p.log.name}: {line}")
            print_machine()
            sys.stdout.flush()
        finally:
            place.close()
        took = [b - a for a, b in zip(before, os.times())]
        print(f"# {took[4]:.1f} s, of processors {sum(took[:4]):.1f} s", flush=True)
    sys.exit(1 if failed else 0)


def kill(pid, signum=signal.SIGKILL):
    with contextlib.suppress(ProcessLookupError):
        signal_process(pid, signum)


def kill_and_wait(pid):
    """SIGKILL a process; wait until it is gone, or a zombie."""
    kill(pid)
    wait_until(f"the end of {pid}", lambda: not alive(pid))
