"""What confined agents cannot do, tried from inside, and what environments still can do."""
import errno
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys

import harness
from test_endings import start_run

PROBING = harness.BUILD / "tests" / "support" / "probing_agent"
PROBING_ENV = harness.SOURCE / "tests" / "support" / "probing_env.py"
FAKE_ENV = harness.BUILD / "tests" / "supervisor" / "fake_env"
# Landlock forbids these; opening another process's memory, the kernel alone may forbid, too.
NEED_LANDLOCK = {"reads_a_file", "lists_a_folder", "opens_memory"}
NEW = {"holds_a_process", "makes_a_ring"}


def confinement(w):
    found = json.loads(w.brood("version", "--json")[0])["confinement"]
    if found == "none":
        raise harness.Skip("neither seccomp nor Landlock here" if not harness.SANITIZED
                           else "agents are not confined under the sanitizers")
    return found


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


def limits_of(pid):
    """name -> (soft, hard)"""
    lines = pathlib.Path(f"/proc/{pid}/limits").read_text().splitlines()[1:]
    return {line[:25].strip(): tuple(line[26:].split()[:2]) for line in lines}


def test_an_agent_can_do_nothing_but_compute(w):
    found = confinement(w)
    victim = w.write("victim", "12345")
    victim.chmod(0o600)
    w.brood("run", w.small(steps=400), "--name", "a", program=w.program_with_agent(PROBING),
            env={"BROOD_FAULT": str(victim)})
    for agent in ("agent_0", "agent_1", "agent_2"):
        log = (w.run_dir("a") / "logs" / f"{agent}.log").read_text()
        probes = dict(re.findall(r"^probe (\w+) (\d+)$", log, re.M))
        assert len(probes) == 49, log
        for name, code in probes.items():
            if name in NEED_LANDLOCK and "landlock" not in found:
                continue
            # as if the kernel lacked it: a newer call, which libraries try first
            assert int(code) in (errno.EPERM, errno.EACCES) or \
                int(code) == errno.ENOSYS and name in NEW or \
                (name, int(code)) in (("opens_many", errno.EMFILE),
                                      ("makes_a_thread", errno.EAGAIN)), (name, code)
    assert victim.read_text() == "12345" and victim.stat().st_mode & 0o777 == 0o600
    assert not pathlib.Path(f"{victim}.beside").exists()


def test_a_graph_that_saves_is_told_what_to_do(w):
    confinement(w)
    w.brood("run", w.small(steps=400), "--name", "a")
    prefix = w.run_dir("a") / "checkpoints" / "400" / "agent_0" / "model.ckpt-400"
    _, err = w.brood("graph", prefix, "--target", "save/SaveV2", "--feed",
                     f"save/Const:0={w.path / 'other'}", code=1)
    assert "save/SaveV2: an agent writes no files: fetch the values instead" in err, err
    assert len(err.splitlines()) == 1 and not [*w.path.glob("other*")], err


def test_every_process_is_kept_from_privileges(w):
    found = confinement(w)
    p = start_run(w, "a")
    for pid in harness.agents_of(p.pid).values():
        status, limits = status_of(pid), limits_of(pid)
        assert status["NoNewPrivs"] == "1", status
        assert "seccomp" not in found or status["Seccomp"] == "2", status
        assert limits["Max processes"] == ("0", "0"), limits
        assert limits["Max open files"] == ("64", "64"), limits
        assert limits["Max core file size"] == ("0", "0"), limits
    harness.kill(p.pid, signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()


def landlock_version(found):
    return int((re.findall(r"landlock (\d+)", found) or [0])[0])


def test_an_environment_reaches_nothing_outside(w):
    """What programs need still works, what it starts may even be debugged; but it neither looks
    into another process of its user, nor signals it, nor changes the machine."""
    found = confinement(w)
    if "seccomp" not in found:
        raise harness.Skip("no seccomp here")
    with subprocess.Popen(["sleep", "infinity"]) as outside:
        try:
            w.brood("run", w.write("env.yaml", f"""
run: {{name: fake, seed: 1, env_steps: 20}}
env: {{command: [{sys.executable}, {PROBING_ENV}, {FAKE_ENV}], copies: 1}}
defaults: {{algorithm: random}}
"""), "--name", "fake", env={"BROOD_FAULT": str(outside.pid)})
        finally:
            outside.kill()
    log, = (w.run_dir("fake") / "logs").glob("env*.log")
    probes = dict(re.findall(r"^.*probe (\w+) (-?\d+)$", log.read_text(), re.M))
    with_landlock = {"memory_of_a_child", "trace_a_child"} if landlock_version(found) >= 2 else set()
    works = {"thread", "program", "sockets", "shared_memory", "files", "affinity", "child",
             "epoll", "limits"} | with_landlock
    open_before = ({"memory_file"} if not with_landlock else set()) | \
        ({"signal"} if landlock_version(found) < 6 else set())
    assert len(probes) == 29, log.read_text()
    for name, code in probes.items():
        if name in works:
            assert code == "0", (name, log.read_text())
        elif name not in open_before:
            assert int(code) in (errno.EPERM, errno.EACCES, errno.ENOSYS), (name, code)


FENCED = """
import os, socket, subprocess, sys, threading
import numpy as np
import brood

THREADS = os.environ["OMP_NUM_THREADS"]

def connects():
    socket.create_connection(("127.0.0.1", 9), 1)

def writes(path):
    with open(path, "w", encoding="ascii") as f:
        f.write("x")

TRIES = {"thread": lambda: threading.Thread(target=int).start(),
         "process": lambda: subprocess.run(["true"], check=True),
         "socket": connects, "write": lambda: writes(os.environ["INTO"]),
         "remove": lambda: os.remove(__file__),
         "read": lambda: open(__file__, encoding="ascii").read()}

class Mine(brood.Agent):
    rows = brood.window()
    reads = ("reward",)

    def build(self):
        self.n = self.variable("n", np.zeros(1))
        self.attempt("build")

    def attempt(self, method):
        where, _, what = os.environ.get("TRY", "").partition(" ")
        if what and where == method:
            TRIES[what]()
            print("works:", what, "with", THREADS, file=sys.stderr)

    def act(self, obs, ctx):
        return np.zeros(len(obs), int)

    def learn(self, batch, ctx):
        self.attempt("learn")
        self.n += 1
        return {}

brood.main(Mine)
"""


def test_an_agent_in_python_takes_what_it_may_do(w):
    """What is refused is one line with file, line and a hint; the key `confine` opens it."""
    found = confinement(w)
    for module in ("numpy", "msgpack"):
        if importlib.util.find_spec(module) is None:
            raise harness.Skip(f"Python has no {module}")
    if "seccomp" not in found:
        raise harness.Skip("no seccomp here")
    w.write("mine.py", FENCED)
    config = w.write("mine.yaml", """
env: {id: simple, copies: 2}
run: {env_steps: 200, seed: 1}
experience: {update_every: 20}
defaults: {algorithm: program, command: [python3, mine.py]}
""")
    into = w.path / "into"
    into.mkdir()

    def run(name, tried, *options, path=into / "file", **more):
        return w.brood("run", config, "--name", name, "--set",
                       f"defaults.environment={{TRY: {tried}, INTO: {path}}}",
                       *(x for o in options for x in ("--set", o)), **more)

    for number, what in enumerate(("thread", "process", "socket", "write", "remove")):
        _, err = run(f"refused{number}", f"{'build' if number % 2 else 'learn'} {what}", code=None)
        line, = [x for x in err.splitlines() if "the key `confine`" in x]
        assert "mine.py:" in line and err.count("Error") == 1, (what, err)
        assert not list(into.iterdir())
    run("reads", "learn read")
    for number, (what, *opened) in enumerate((
            ("thread", "defaults.confine.threads=true"), ("process", "defaults.confine.threads=true"),
            ("thread", "defaults.threads=2"), ("write", "defaults.confine.files=[into]"),
            ("write", f"defaults.confine.files=[{into}]"),
            ("write", f"defaults.confine.files=[{into / 'file'}]"))):
        run(f"opened{number}", f"learn {what}", *opened)
        log = (w.run_dir(f"opened{number}") / "logs" / "agent_0.log").read_text()
        journal = (w.run_dir(f"opened{number}") / "journal").read_text()
        assert f"works: {what} with {2 if 'threads=2' in opened[0] else 1}" in log, log
        assert ("event=opened" in journal) == ("confine" in opened[0]), journal
    assert (into / "file").read_text() == "x"
    if "landlock" in found:
        _, err = run("outside", "learn write", "defaults.confine.files=[into]",
                     path=w.path / "other", code=None)
        assert "PermissionError" in err and not (w.path / "other").exists(), err
        _, err = run("nowhere", "learn write", "defaults.confine.files=[nothing]", code=2)
        assert "nothing: No such file or directory" in err and err.count("\n") == 1, err
    allowed = ["--set", f"defaults.environment={{TRY: learn write, INTO: {into / 'file'}}}"]
    out, _ = w.brood("agent-check", config, "--updates", "2", *allowed, code=1)
    assert "cannot write files" in out, out
    out, _ = w.brood("agent-check", config, "--updates", "2", *allowed, "--set",
                     "defaults.confine.files=[into]")
    assert "0 faults" in out or "no faults" in out, out
    _, err = w.brood("resume", "opened2", "--set", "run.env_steps=300", "--set",
                     "defaults.threads=3", code=None)
    assert "threads" in err, err


def test_an_environment_keeps_what_programs_need(w):
    found = confinement(w)
    config = w.write("env.yaml", f"""
run: {{name: fake, seed: 1, env_steps: 10000000}}
env: {{command: [{FAKE_ENV}], copies: 4}}
defaults: {{algorithm: random}}
""")
    p = w.start("run", config, "--name", "fake")
    harness.wait_until("the run", lambda: "under way" in p.log.read_text()
                       or harness.rows(w.run_dir("fake")) > 0 or p.poll() is not None)
    assert p.poll() is None, p.log.read_text()
    pids = [pid for pid, (_, _, line) in harness.processes().items()
            if line.startswith(str(FAKE_ENV)) and pid in harness.members(p.pid)]
    assert pids, harness.processes()
    for pid in pids:
        status, limits = status_of(pid), limits_of(pid)
        assert status["NoNewPrivs"] == "1", status
        assert "seccomp" not in found or status["Seccomp"] == "2", status
        assert limits["Max processes"] != ("0", "0"), limits
        assert limits["Max core file size"] == ("0", "0"), limits
    harness.kill(p.pid, signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()


# Looks into a process in all ways that there are; prints which work.
LOOK = """
import ctypes, os, sys
pid, libc, worked = int(sys.argv[1]), ctypes.CDLL(None, use_errno=True), []
for name in ("mem", "environ", "maps", "fd/0", "cwd/."):
    try:
        os.close(os.open(f"/proc/{pid}/{name}", os.O_RDONLY))
        worked.append(name)
    except OSError:
        pass
libc.syscall.restype = ctypes.c_long
part = (ctypes.c_size_t * 2)(0, 8)
if libc.process_vm_readv(pid, part, 1, part, 1, 0) < 0 and ctypes.get_errno() == 14:
    worked.append("process_vm_readv")
if libc.syscall(438, os.pidfd_open(pid), 2, 0) >= 0:
    worked.append("pidfd_getfd")
if libc.ptrace(0x4206, pid, None, None) >= 0:
    worked.append("ptrace")
print(*worked)
"""


def test_nobody_looks_into_a_run(w):
    """Not even other processes of its user. Files of /proc that tell of a process belong to
    root where it is not to be looked into: seen where the run is somebody else's."""
    setpriv = shutil.which("setpriv")
    if os.getuid() != 0 or setpriv is None:
        raise harness.Skip("only root can begin a run as somebody else")
    w.path.chmod(0o777)
    user = (setpriv, "--reuid=65534", "--regid=65534", "--clear-groups")
    for debug, owner in (("", 0), ("1", 65534)):
        name = f"debug{debug}"
        p = w.start("run", w.small(steps=10_000_000, evaluate=0), "--name", name,
                    "--runs-dir", w.path / f"runs{debug}", prefix=user,
                    env={"BROOD_DEBUG": debug, "BROOD_CGROUP": "no"})
        harness.wait_until("three agents", lambda: len(harness.agents_of(p.pid)) == 3
                           or p.poll() is not None)
        if p.poll() == 126 or "Permission denied" in p.log.read_text():
            raise harness.Skip("somebody else may not execute what was built here")
        pids = [p.pid, harness.supervisor_of(p.pid), *harness.agents_of(p.pid).values()]
        # an agent hides a moment after it was executed
        harness.wait_until(f"files of user {owner}", lambda: all(
            os.stat(f"/proc/{pid}/mem").st_uid == owner for pid in pids))
        for pid in pids:
            looked = subprocess.run([*user, "/usr/bin/python3", "-c", LOOK, str(pid)],
                                    cwd="/", check=True, capture_output=True, text=True).stdout
            assert ("mem" in looked) == (looked != "\n") == (owner != 0), (pid, looked)
        # and the user's own clients work
        harness.wait_until("an answer of the run", lambda: json.loads(w.brood(
            "status", name, "--json", "--runs-dir", w.path / f"runs{debug}", prefix=user)[0])[
                "agents"][0]["rss_bytes"] > 0)
        harness.kill(p.pid, signal.SIGINT)
        assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()


if __name__ == "__main__":
    harness.main()
