"""The keeper of a run: whichever process is killed, none is left behind; terminal jobs."""
import contextlib
import itertools
import json
import os
import pathlib
import pty
import signal
import sys
import time

import harness
from test_changes import journal
from test_endings import GONE_WITHIN_S, HOSTILE, assert_gone, start_run, wait_end, wait_gone
from test_exactness import outcome
from test_files import need_second_user

FAKE_ENV = harness.BUILD / "tests" / "supervisor" / "fake_env"
HIDING_ENV = harness.SOURCE / "tests" / "support" / "hiding_env.py"
LEAVER = harness.BUILD / "tests" / "support" / "leaving_agent"


def sweeper_of(keeper):
    return next((pid for pid in harness.children(keeper)
                 if harness.name_of(pid) == "brood-sweeper"), None)


def victims(p, who):
    found = {"keeper": p.pid, "supervisor": harness.supervisor_of(p.pid),
             "sweeper": sweeper_of(p.pid)}
    return [found[w] for w in who.split("+") if found[w] is not None]


def enter(w, p, name, phase):
    """Bring a learning run into a phase."""
    agents, supervisor = harness.agents_of(p.pid), harness.supervisor_of(p.pid)
    if phase == "agents stopped":
        for pid in agents.values():
            harness.kill(pid, signal.SIGSTOP)
    elif phase == "supervisor stopped":
        harness.kill(supervisor, signal.SIGSTOP)
    elif phase == "terminal stopped":
        harness.kill(p.pid, signal.SIGTSTP)
        harness.wait_until("the stop", lambda: states([p.pid, supervisor]) == ["T", "T"])
    elif phase == "respawning":
        for pid in agents.values():
            harness.kill(pid)
    elif phase == "paused":
        w.brood("pause", name)
    elif phase == "checkpointing":
        harness.kill(p.pid, signal.SIGINT)


def called(name, pids):
    """The processes that leaving_agent gave that name."""
    return {pid for pid in pids
            if (seen := harness.look_at(pid)) and seen[2].startswith(name + " ")}


def has_cgroups(w):
    return json.loads(w.brood("version", "--json")[0]).get("containment") == "cgroup"


def cgroup_of(pid):
    """The control group (v2) of a process."""
    lines = pathlib.Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    return next((line[3:] for line in lines if line.startswith("0::")), "")


def begin(w, name, phase, env=None):
    """A run that is in its phase, or about to be brought into it."""
    program = w.program_with_agent(LEAVER)
    if phase == "without environment":
        p = w.start("run", harness.SOURCE / "configs" / "node_critics.yaml", "--name", name,
                    program=program)
        harness.wait_until("four agents", lambda: len(harness.agents_of(p.pid)) == 4)
    elif phase == "starting":
        p = w.start("run", w.small(steps=10_000_000, evaluate=0), "--name", name,
                    program=program)
        harness.wait_until("an agent", lambda: harness.agents_of(p.pid))
    elif phase == "evaluating":
        p = start_run(w, name, "--set", "evaluation={every_env_steps: 1000, "
                      "episodes: 1000000}", program=program)
        harness.wait_until("the evaluation", lambda: harness.rows(w.run_dir(name)) >= 4)
    else:
        p = start_run(w, name, program=program, env=env)
    if phase == "resuming":
        harness.kill(p.pid, signal.SIGINT)
        assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
        p = w.start("resume", name, program=program)
        harness.wait_until("an agent", lambda: harness.agents_of(p.pid))
    if phase not in ("starting", "resuming"):
        harness.wait_until("grandchildren", lambda: has_left_all(p))
    return p


def has_left_all(p):
    """Whether the agents of a run, three or more, have each left their five processes."""
    found = harness.marked(p.pid)
    everyone = harness.members(p.pid) | found
    return len(found) >= 9 and all(
        len(called(kind, everyone)) >= 3 for kind in ("left-behind", "left-bare", "left-large"))


def kill_in_phase(w, who, phase, env=None):
    """Kill `who` in a phase of a run whose agents have each left five processes in sessions
    of their own: all of them must end within a second."""
    name = f"{phase} {who}".replace(" ", "-").replace("+", "-")
    p = begin(w, name, phase, env)
    enter(w, p, name, phase)
    everyone = harness.members(p.pid) | harness.marked(p.pid)
    for kind in ("left-behind", "left-bare", "left-large"):
        assert phase != "learning" or len(called(kind, everyone)) == 3, kind
    for pid in victims(p, who):
        harness.kill(pid)
    harness.kill(p.pid, signal.SIGCONT)  # the shell's `fg`, where it was stopped
    p.wait(timeout=harness.DEADLINE_S)
    wait_gone(everyone)
    harness.wait_within("the end of all that is marked", lambda: not harness.marked(p.pid),
                        GONE_WITHIN_S)
    return p


PHASES = ("starting", "learning", "evaluating", "agents stopped", "supervisor stopped",
          "terminal stopped", "respawning", "paused", "checkpointing", "resuming",
          "without environment")
VICTIMS = ("supervisor", "keeper", "keeper+supervisor")


def test_whoever_is_killed_nothing_is_left(w):
    for i, (phase, who) in enumerate(itertools.product(PHASES, VICTIMS)):
        if harness.SANITIZED != ((i // 3 + i) % 3 == 0):
            continue  # a third of the pairs with the sanitizers, all others without
        p = kill_in_phase(w, who, phase)
        if who == "supervisor" and phase == "learning":
            assert p.returncode == 128 + signal.SIGKILL, p.returncode
            assert "was ended by SIGKILL" in p.log.read_text(), p.log.read_text()


def test_without_control_groups_the_sweeper_finds_all(w):
    for who in ("keeper+supervisor", "sweeper+supervisor", "sweeper+keeper"):
        kill_in_phase(w, who, "learning", env={"BROOD_CGROUP": "no"})


def kill_what_hides(w, who, name, **more):
    """Kill `who` of a run whose environment has left a process that nobody can recognise."""
    note = w.path / f"{name}.pids"
    note.touch()
    note.chmod(0o666)
    config = w.write("hides.yaml", f"""
run: {{seed: 1, env_steps: 1000000000}}
env: {{command: [/usr/bin/python3, {HIDING_ENV}, {FAKE_ENV}], copies: 1}}
defaults: {{algorithm: random}}
""")
    more["env"] = {**more.get("env", {}), "BROOD_FAULT": str(note)}
    p = w.start("run", config, "--name", name, "--runs-dir", w.path / "hides", **more)

    def find():
        """What hides is the supervisor's child: the kernel has made it so."""
        own = harness.children(harness.supervisor_of(p.pid) or 0)
        return {int(pid) for pid in note.read_text().split()} & set(own)
    journal = w.path / "hides" / name / "journal"
    harness.wait_until("the environment", lambda: p.poll() is not None or journal.exists() and
                       "event=ready environment" in journal.read_text())
    hidden = harness.wait_until("a process that hides", lambda: p.poll() is not None or find())
    assert p.poll() is None, p.log.read_text()
    everyone, dying = harness.members(p.pid), victims(p, who)
    for signum in (signal.SIGSTOP, signal.SIGKILL):  # none of them sees another's end
        for pid in reversed(dying):
            harness.kill(pid, signum)
    p.wait(timeout=harness.DEADLINE_S)
    wait_gone(everyone | hidden)


PAIRS = ("keeper+supervisor", "sweeper+supervisor", "sweeper+keeper")


def test_what_hides_goes_with_the_run(w):
    """As root, it has left the run's control group."""
    for who in PAIRS:
        kill_what_hides(w, who, who.replace("+", "-"))


def test_what_hides_from_a_user_goes_with_the_run(w):
    """Without any privilege and without control groups."""
    nobody = need_second_user(w)
    (w.path / "hides").mkdir()
    (w.path / "hides").chmod(0o777)
    w.path.chmod(0o777)
    for who in PAIRS:
        kill_what_hides(w, who, who.replace("+", "-"), **nobody, env={"BROOD_CGROUP": "no"})


def folder_of(group):
    return next(pathlib.Path(line.split()[4] + group)
                for line in pathlib.Path("/proc/self/mountinfo").read_text().splitlines()
                if " - cgroup2 " in line)


def test_a_control_group_comes_and_goes_with_the_run(w):
    if not has_cgroups(w):
        raise harness.Skip("cgroup v2 is not writable here")
    for who in ("nobody", "supervisor", "keeper", "keeper+supervisor"):
        p = start_run(w, who.replace("+", "-"), program=w.program_with_agent(LEAVER))
        everyone = harness.members(p.pid)
        supervisor = harness.supervisor_of(p.pid)
        group = cgroup_of(supervisor)
        assert group.endswith(cgroup_of(p.pid).rstrip("/") + "/brood-" +
                              group.split("/brood-")[-1]), group
        assert group.split("/brood-")[-1].startswith(f"{p.pid}-"), group
        outside = {pid for pid in everyone if cgroup_of(pid) != group}
        assert p.pid in outside and len(outside) == 2, outside  # the sweeper, too
        folder = folder_of(group)
        assert folder.is_dir(), folder
        for pid in victims(p, who) if who != "nobody" else ():
            harness.kill(pid)
        if who == "nobody":
            harness.kill(p.pid, signal.SIGINT)
        p.wait(timeout=harness.DEADLINE_S)
        harness.wait_within("the group's removal", lambda: not folder.exists(), GONE_WITHIN_S)
        wait_gone(everyone)


def wait_empty(group):
    """Wait for the end of all that is in a control group: also of what the supervisor forked
    just before it was killed, and of threads that outlive their process's main thread."""
    harness.wait_within(
        lambda: "the end of " + (group / "cgroup.procs").read_text().replace("\n", " "),
        lambda: "populated 0" in (group / "cgroup.events").read_text(), GONE_WITHIN_S)


def test_a_control_group_that_nobody_could_remove(w):
    """Keeper, supervisor and sweeper are killed at once: the next run removes it."""
    if not has_cgroups(w):
        raise harness.Skip("cgroup v2 is not writable here")
    p = start_run(w, "all")
    everyone = harness.members(p.pid)
    supervisor = harness.supervisor_of(p.pid)
    folder = folder_of(cgroup_of(supervisor))
    sweeper = sweeper_of(p.pid)
    assert folder.is_dir(), folder
    for pid in (sweeper, p.pid, supervisor):
        harness.kill(pid)
    p.wait(timeout=harness.DEADLINE_S)
    wait_gone(everyone)
    wait_empty(folder)
    w.brood("run", w.small(steps=400), "--name", "next")
    assert not folder.exists(), folder


def test_what_agents_left_goes_with_the_run(w):
    p = start_run(w, "left", program=w.program_with_agent(LEAVER))
    harness.wait_until("grandchildren", lambda: len(harness.marked(p.pid)) >= 9)
    harness.kill(p.pid, signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    assert not harness.marked(p.pid)


def test_the_exit_code_is_passed_on(w):
    w.brood("run", w.path / "nothing.yaml", code=2)
    w.brood("run", "--help")
    w.brood("resume", "nobody", code=3)


def test_a_supervisor_that_does_not_listen_is_cut_off(w):
    p = start_run(w, "deaf")
    everyone = harness.members(p.pid)
    harness.kill(p.pid, signal.SIGINT)
    harness.wait_until("the first interrupt noticed",
                       lambda: "interrupt" in p.log.read_text().lower()
                       or p.poll() is not None)
    supervisor = harness.supervisor_of(p.pid)
    if supervisor is not None:
        harness.kill(p.pid, signal.SIGTERM)
        harness.kill(supervisor, signal.SIGSTOP)
    code = wait_end(p)
    assert code in (4, 128 + signal.SIGTERM), (code, p.log.read_text())
    assert_gone(everyone)


def states(pids):
    return [(harness.look_at(pid) or "X")[0] for pid in pids]


def test_the_terminals_stop_holds_all_and_accuses_nobody(w):
    """The time that agents were stopped does not count for the watchdog."""
    respond_s = 2.0 if not harness.SANITIZED else 4.0
    p = start_run(w, "paused", "--set", f"defaults.respond_within={respond_s}s")
    everyone = [p.pid, harness.supervisor_of(p.pid), *harness.agents_of(p.pid).values()]
    run = w.run_dir("paused")
    for lasts_s in (0, 1.5 * respond_s, 0):
        harness.kill(p.pid, signal.SIGTSTP)
        harness.wait_until("all stopped", lambda: states(everyone) == ["T"] * 5)
        rows, until = harness.rows(run), time.monotonic() + lasts_s
        harness.wait_until("the time to pass", lambda: time.monotonic() >= until)
        assert harness.rows(run) == rows
        harness.kill(p.pid, signal.SIGCONT)
        harness.wait_until("all going on", lambda: "T" not in states(everyone))
        harness.wait_until("more rows", lambda: harness.rows(run) > rows + 1)
    harness.kill(p.pid, signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    assert "event=respawn" not in (run / "journal").read_text()


class OnTerminal:
    """A run in front of a terminal, as its shell would start it."""

    def __init__(self, w, name, ignored=()):
        config = w.small(steps=10_000_000, evaluate=0)
        self.run, self.code = w.run_dir(name), None
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(w.path)
            for signum in ignored:
                signal.signal(signum, signal.SIG_IGN)
            os.execv(harness.BROOD, ["brood", "run", str(config), "--name", name])
        os.set_blocking(self.fd, False)
        harness.wait_until("rows", lambda: self.read() or harness.rows(self.run) > 2)

    def read(self):
        """Read and discard the run's output."""
        with contextlib.suppress(OSError):
            os.read(self.fd, 65536)

    def key(self, byte):
        os.write(self.fd, byte)

    def hang_up(self):
        os.close(self.fd)
        self.fd = -1

    def is_over(self):
        self.read()
        pid, status = os.waitpid(self.pid, os.WNOHANG)
        if pid:
            self.code = os.waitstatus_to_exitcode(status)
        return pid

    def end(self):
        harness.wait_until("its end", self.is_over)
        steps = [int(s.name) for s in (self.run / "checkpoints").iterdir()]
        assert self.code == 4 and max(steps) > 0, (self.code, steps)


def test_the_terminals_keys_and_its_end(w):
    t = OnTerminal(w, "keys")
    t.key(b"\x1a")
    harness.wait_until("the stop", lambda: t.read() or states([t.pid]) == ["T"])
    harness.kill(t.pid, signal.SIGCONT)
    rows = harness.rows(t.run)
    harness.wait_until("more rows", lambda: t.read() or harness.rows(t.run) > rows + 1)
    t.key(b"\x03")
    t.end()
    os.close(t.fd)
    t = OnTerminal(w, "gone")
    t.hang_up()
    t.end()
    journal = (t.run / "journal").read_text()
    assert journal.count("event=signal") == 1 and "name=Hangup" in journal, journal


def test_a_terminal_that_hangs_up_twice_interrupts_once(w):
    """A shell sends SIGHUP to its jobs, and the kernel does so when that shell ends."""
    t = OnTerminal(w, "twice")
    agent = harness.agents_of(t.pid)["agent_0"]
    harness.kill(agent, signal.SIGSTOP)
    t.hang_up()
    harness.wait_until("the signal", lambda: "name=Hangup" in (t.run / "journal").read_text())
    for _ in range(2):
        harness.kill(t.pid, signal.SIGHUP)
        w.status("twice")
    harness.kill(agent, signal.SIGCONT)
    t.end()


def test_supervisors_that_are_killed_change_nothing(w):
    kills = 8 if not harness.SANITIZED else 4
    config = w.small(steps=10_000_000, evaluate=1000, checkpoint=500)
    more = ("--set", "run.on_supervisor_death=resume")
    p, run = w.start("run", config, "--name", "killed", *more), w.run_dir("killed")

    def wait_for_a_newer_checkpoint():
        at = max(harness.checkpoints(run), default=0)
        harness.wait_until("a newer checkpoint", lambda: p.poll() is not None or
                           max(harness.checkpoints(run), default=0) > at)
    for _ in range(kills):
        wait_for_a_newer_checkpoint()
        kill_supervisor(p)
    wait_for_a_newer_checkpoint()
    steps = harness.set_last_step(w, run, 1000)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    said = p.log.read_text()
    assert said.count("continuing from the newest checkpoint") == kills, said
    w.brood("run", config, "--name", "calm", *more, "--set", f"run.env_steps={steps}")
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(run))


def test_a_supervisor_that_dies_again_and_again_is_given_up(w):
    p = w.start("run", w.small(steps=10_000_000, evaluate=0, checkpoint=5_000_000),
                "--name", "loop", "--set", "run.on_supervisor_death=resume")
    while p.poll() is None:
        pid = harness.supervisor_of(p.pid)
        # Not in the trial phase: before there is a run, there is nothing to resume.
        if pid is not None and "agent_0" in harness.agents_of(p.pid):
            harness.kill_and_wait(pid)
    said = p.log.read_text()
    assert p.returncode == 128 + signal.SIGKILL, said
    # Five without any checkpoint, and five after the first one.
    assert 5 <= said.count("continuing from the newest checkpoint") <= 10, said


def kill_supervisor(p):
    pid = harness.wait_until("a supervisor", lambda: p.poll() is not None or
                             harness.supervisor_of(p.pid))
    assert p.poll() is None, p.log.read_text()
    harness.kill_and_wait(pid)


def test_a_series_goes_on_where_it_was(w):
    """It resumes the current seed, from its checkpoint or beginning, then runs the rest. Each
    supervisor is killed while an agent stands still, which stops at the given request."""
    config = w.small(steps=1500, evaluate=1000, checkpoint=500)
    program = w.program_with_agent(harness.FAULT_AGENT)
    more = ("--seeds", "3,1,2", "--set", "run.on_supervisor_death=resume", "--set",
            "defaults.respond_within=1h")
    w.brood("run", config, "--name", "calm", *more, program=program)
    # agent_0's process (2 and 5 end a seed), its request, the seed, what is there then
    stops = ((0, "learn", 20, 3, 500), (1, "learn", 30, 3, 1000), (3, "configure", 1, 1, None),
             (4, "learn", 1, 1, 0), (6, "learn", 45, 2, 1000))
    p = w.start("run", config, "--name", "killed", *more, program=program, env={
        "BROOD_FAULT": ";".join(f"agent_0/{process}:{method}:before-reply:{n},stop"
                                for process, method, n, _, _ in stops)})
    for process, _, _, seed, at in stops:
        run = w.run_dir(f"killed-s{seed}")
        if at is None:
            harness.wait_until("a beginning", lambda: p.poll() is not None or
                               journal(run, "spawn"))
        else:
            harness.wait_until(f"step {at}", lambda: p.poll() is not None or
                               max(harness.checkpoints(run), default=-1) >= at)
        harness.wait_until("the stop", lambda: p.poll() is not None or
                           states([harness.agents_of(p.pid).get("agent_0")]) == ["T"])
        kill_supervisor(p)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    for seed in (3, 1, 2):
        harness.assert_same_files(outcome(w.run_dir(f"calm-s{seed}")),
                                  outcome(w.run_dir(f"killed-s{seed}")))


def test_a_long_command_line_begins_anew(w):
    """All arguments apply again, also those from the environment."""
    program = w.program_with_agent(HOSTILE)
    (program.parent / "brood-agent.does").write_text("begin-no-run")
    words = [x for i in range(100) for x in ("--set", f"run.seed={i}")]
    p = w.start("run", w.small(), *words, "--set", "run.on_supervisor_death=resume",
                program=program, env={"BROOD_RUNS_DIR": str(w.path / "elsewhere")})
    run = w.path / "elsewhere" / "small-1"
    supervisors = [None]
    for _ in range(3):
        if supervisors[-1] is not None:
            kill_supervisor(p)
        harness.wait_until("the next supervisor's agents", lambda: p.poll() is not None or (
            harness.supervisor_of(p.pid) not in supervisors and
            len(harness.agents_of(p.pid)) == 3))
        supervisors.append(harness.supervisor_of(p.pid))
    harness.kill(p.pid, signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    assert "seed: 99\n" in (run / "config.yaml").read_text()


def test_what_was_ignored_stays_ignored(w):
    """nohup's hang-up, and the interrupt of a script's background job."""
    t = OnTerminal(w, "hup", ignored=[signal.SIGHUP])
    supervisor = harness.supervisor_of(t.pid)
    t.hang_up()
    assert_goes_on(t.run, t.is_over)
    harness.kill(supervisor, signal.SIGHUP)
    assert_goes_on(t.run, t.is_over)
    harness.kill(t.pid, signal.SIGTERM)
    t.end()
    p = start_run(w, "int", prefix=("sh", "-c", 'trap "" INT; exec "$@"', "sh"))
    for pid in (p.pid, harness.supervisor_of(p.pid)):
        harness.kill(pid, signal.SIGINT)
    assert_goes_on(w.run_dir("int"), lambda: p.poll() is not None)
    harness.kill(p.pid, signal.SIGTERM)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()


def test_an_ignored_sigchld_is_not_inherited(w):
    """Else nobody would hear of the supervisor's end."""
    p = start_run(w, "chld", prefix=(sys.executable, "-c", "import os, signal, sys\n"
                                     "signal.signal(signal.SIGCHLD, signal.SIG_IGN)\n"
                                     "os.execv(sys.argv[1], sys.argv[1:])"))
    harness.kill(p.pid, signal.SIGTERM)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()


def assert_goes_on(run, is_over):
    rows = harness.rows(run)
    harness.wait_until("more rows", lambda: is_over() or harness.rows(run) > rows + 2)
    assert not is_over() and not journal(run, "signal"), (run / "journal").read_text()


if __name__ == "__main__":
    harness.main()
