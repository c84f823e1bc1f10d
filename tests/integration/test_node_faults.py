"""Faults of all kinds at random moments, also several at once: agents, nodes, launchers, links,
disks, Slurm's daemons and jobs, and the supervisor. The bytes are those of a calm run, and
nothing is left behind.

BROOD_KILLS sets how many, BROOD_FAULT_SEED which: tests/bench/node_faults.py is the long form.
"""
import collections
import contextlib
import os
import random
import signal
import time

import harness
import slurm_rig
from network import Machines, Relay, node_processes, script
from test_cluster import KEEP_NODES, PATIENT, agents_on, end_of_all, trained
from test_network import INTERVAL, forever
from test_slurm import cluster as slurm_cluster, nodes_of, sruns_of

KILLS = int(os.environ.get("BROOD_KILLS", 6 if harness.SANITIZED else 12))
SEED = int(os.environ.get("BROOD_FAULT_SEED", 1))
EACH = max(1, KILLS // 20)  # of each kind, while there are that many
NODES, SILENCE_S = 3, 2


class Run:
    """A run on nodes. often, seldom: the faults; done: how many there were of each."""

    def __init__(self, w, *cluster, prefix=()):
        self.w, self.draw = w, random.Random(SEED)
        self.run = w.run_dir("faulty")
        self.file = forever(w)
        self.args = (*PATIENT, "--set", "defaults.respond_within=3s",
                     "--set", "run.on_supervisor_death=resume")
        self.often = [self.agent, self.node, self.stopped_node, self.launcher]
        self.seldom = [self.supervisor, self.stopped_supervisor, self.keeper]
        self.seen, self.done = set(), collections.Counter()
        self.prefix = prefix
        self.p = w.start("run", self.file, "--name", "faulty", *self.args, *cluster, prefix=prefix)
        self.resumes = self.checkpoint = 0
        self.settle()

    def newest(self):
        return (harness.checkpoints(self.run) or [0])[-1]

    def settle(self):
        """Waits for another checkpoint than there is now; resumes a run that has ended."""
        self.checkpoint = self.newest()

        def is_further():
            if self.p.poll() is not None:
                self.resume()
            return self.newest() > self.checkpoint
        harness.wait_until("another checkpoint", is_further)

    def resume(self):
        """After the keeper's death, or when no node was left."""
        assert harness.checkpoints(self.run), self.p.log.read_text()
        end_of_all(self.seen)
        self.checkpoint = self.newest()
        self.resumes += 1
        self.p = self.w.start("resume", self.run, prefix=self.prefix)

    def strike(self, pids, *signums):
        if pids:
            harness.kill(self.draw.choice(sorted(pids)), self.draw.choice(signums))
        return bool(pids)

    # ---- the faults: whether there was one ----

    def agent(self):
        agents = [pid for node in self.parts()[1] for pid in agents_on(node).values()]
        return self.strike(agents, signal.SIGKILL, signal.SIGSTOP, signal.SIGSEGV)

    def node(self):
        return self.strike(self.parts()[1], signal.SIGKILL, signal.SIGTERM)

    def stopped_node(self):
        return self.strike(self.parts()[1], signal.SIGSTOP)

    def launcher(self):
        return self.strike(self.parts()[0], signal.SIGKILL, signal.SIGTERM)

    def supervisor(self):
        pid = harness.supervisor_of(self.p.pid)
        return self.strike([pid] if pid else [], signal.SIGKILL)

    def stopped_supervisor(self):
        pid = harness.supervisor_of(self.p.pid)
        harness.kill(pid or 1 << 22, signal.SIGSTOP)
        time.sleep(self.draw.choice((0.3, 2 * SILENCE_S)))
        harness.kill(pid or 1 << 22, signal.SIGCONT)
        return True

    def keeper(self):
        self.parts()
        harness.kill_and_wait(self.p.pid)
        return True

    def kinds(self):
        """The faults to choose from: towards the end, those of which there were too few."""
        few = [f for f in self.often + self.seldom for _ in range(self.done[f.__name__], EACH)]
        return few if self.done.total() + len(few) >= KILLS else self.often * 2 + self.seldom

    def one(self):
        """Try one. Returns its name, or None if it found nothing to strike."""
        time.sleep(self.draw.random() / 2)
        fault = self.draw.choice(self.kinds())
        if not fault():
            return None
        self.done[fault.__name__] += 1
        return fault.__name__

    def finish(self):
        self.settle()
        steps = harness.set_last_step(self.w, self.run, INTERVAL)
        self.seen |= harness.members(self.p.pid)
        while self.p.wait(timeout=harness.DEADLINE_S) != 0:  # a late cut or flip
            self.resume()
            self.seen |= harness.members(self.p.pid)
        end_of_all(self.seen)
        return steps


class RunWithLaunchers(Run):
    """A script is the launcher, and stays in front of its node."""

    def __init__(self, w, launcher, *cluster, prefix=()):
        self.launched = str(launcher)
        launcher.write_text(launcher.read_text().replace("exec ", ""))
        super().__init__(w, *cluster, prefix=prefix)

    def parts(self):
        """(launchers, nodes) of the moment, in any order."""
        members = harness.members(self.p.pid)
        self.seen |= members
        launchers = [pid for pid, seen in harness.children(
            harness.supervisor_of(self.p.pid) or 0).items()
            if self.launched in seen[2] and seen[0] != "Z"]
        return launchers, node_processes(members)


class RunThroughRelay(RunWithLaunchers):
    def __init__(self, w):
        self.relay = Relay(w, seed=SEED)
        super().__init__(w, self.relay.launcher,
                         *self.relay.cluster(NODES, f", silence: {SILENCE_S}s{KEEP_NODES}"))
        self.often += [self.cut, self.flip]
        self.seldom += [self.stall]

    def cut(self):
        self.relay.say(f"cut {self.draw.choice((100, 3000, 100_000))}")
        return True

    def flip(self):
        self.relay.say(f"flip {self.draw.choice((100, 3000, 100_000))}")
        return True

    def stall(self):
        """Longer than the silence, or not."""
        self.relay.say("stall 1")
        time.sleep(self.draw.choice((0.3, 2 * SILENCE_S)))
        self.relay.say("stall 0")
        return True


class RunOnMachines(RunWithLaunchers):
    """Each node is in a network namespace, with a small disk of its own. It is given up when its
    link is gone or its disk is full; a resumed run begins with all of them."""

    def __init__(self, w):
        self.net = Machines(w, NODES, has_wires=True, seed=SEED)
        (w.path / "disk").mkdir()
        with_disk = script(w, "with-disk", f"""\
unshare -m sh -c 'mount -t tmpfs -o size=128m brood "$0" && TMPDIR=$0 exec "$@"' \\
    {w.path / "disk"} "$@"
""")
        self.net.launcher.write_text(self.net.launcher.read_text().replace(
            '"$@"', f'{with_disk} "$@"'))
        super().__init__(w, self.net.launcher,
                         *self.net.cluster(f", silence: {SILENCE_S}s{KEEP_NODES}"),
                         prefix=self.net.prefix)
        self.often += [self.bad_link, self.link_down]
        self.seldom += [self.unplug, self.full_disk]

    def resume(self):
        for i in range(NODES):
            self.net.plug(i)
        super().resume()

    def good_links(self):
        for wire in self.net.wires:
            wire.say("lose 0", "delay 0", "reorder 0")

    def one(self):
        self.good_links()
        return super().one()

    def finish(self):
        self.good_links()
        return super().finish()

    def bad_link(self):
        """Packets are lost, late and early, until the next fault."""
        self.draw.choice(self.net.wires).say(*self.draw.choice((
            ("lose 50", "delay 25000", "reorder 100"), ("lose 10", "delay 2000", "reorder 300"))))
        return True

    def link_down(self):
        """Longer than the silence, or not."""
        i = self.draw.randrange(NODES)
        self.net.link(i, False)
        time.sleep(self.draw.choice((0.3, 2 * SILENCE_S)))
        self.net.link(i, True)
        return True

    def unplug(self):
        self.net.unplug(self.draw.randrange(NODES))
        return True

    def full_disk(self):
        """Fills the disk of a node until there is no more space on it."""
        nodes = self.parts()[1]
        if not nodes:
            return False
        place = f"/proc/{self.draw.choice(sorted(nodes))}/root{self.w.path}/disk/filler"
        with contextlib.suppress(OSError), open(place, "wb", buffering=0) as f:
            while True:
                f.write(bytes(1 << 20))
        return True


class RunOnSlurm(Run):
    """Each node is a job of its own, on any of three machines."""

    def __init__(self, w, rig):
        self.rig = rig
        super().__init__(w, *slurm_cluster(f", nodes: {NODES}, silence: {SILENCE_S}s{KEEP_NODES}"))
        self.often += [self.sruns, self.job]
        # Slurm may need five minutes to end a job of a slurmd that was killed.
        self.seldom += [self.slurmd] * (KILLS >= 100)

    def parts(self):
        """(first processes of sruns, nodes) of the moment, in any order."""
        self.seen |= harness.members(self.p.pid) | set(self.rig.processes())
        return ([srun[0] for srun in sruns_of(self.p.pid)],
                list(nodes_of(self.rig)))

    def sruns(self):
        """Both processes of one."""
        found = sruns_of(self.p.pid)
        for pid in self.draw.choice(found) if found else ():
            harness.kill(pid)
        return bool(found)

    def job(self):
        """As a scheduler does that needs its machine."""
        jobs = sorted(self.rig.jobs())
        if jobs:
            signal_it = self.draw.choice(([], ["--signal=TERM", "--full"]))
            with contextlib.suppress(AssertionError):   # it has ended meanwhile
                self.rig.run("scancel", *signal_it, self.draw.choice(jobs))
        return bool(jobs)

    def slurmd(self):
        """And perhaps a node, while there is none."""
        machine = self.draw.choice(slurm_rig.NODES)
        self.rig.kill_slurmd(machine)
        if self.draw.random() < 1 / 2:
            self.node()
        time.sleep(self.draw.choice((0.3, 2 * SILENCE_S)))
        self.rig.start_slurmd(machine)
        return True


def endure(w, r):
    while r.done.total() < KILLS:
        if fault := r.one():
            print(f"# {r.done.total()}: {fault}, checkpoint {r.newest()}", flush=True)
        # Not always: then the next one comes while this one is being mended.
        if r.draw.random() < 2 / 3:
            r.settle()
    steps = r.finish()
    harness.wait_until("nothing left", lambda: not harness.at_work_in(w.path))
    w.brood("run", r.file, "--name", "calm", *r.args, "--set", f"run.env_steps={steps}")
    harness.assert_same_files(trained(w.run_dir("calm")), trained(r.run))
    print(f"# seed {SEED}, {steps} steps, {r.resumes} times resumed, {len(r.seen)} processes "
          f"seen: {dict(r.done)}")


def test_random_faults(w):
    endure(w, RunThroughRelay(w))


def test_random_faults_on_machines(w):
    r = RunOnMachines(w)
    endure(w, r)
    r.net.assert_empty()


@slurm_rig.on_slurm
def endure_on_slurm(w, rig):
    endure(w, RunOnSlurm(w, rig))
    harness.wait_until("no process of a job", lambda: not rig.processes())
    try:
        harness.wait_until("no job", rig.is_idle, deadline_s=100)
    except AssertionError:  # Slurm itself may take longer to notice
        print(f"# jobs without processes: {rig.jobs()}")
        rig.clear()


def test_random_faults_on_slurm(w):
    if harness.SANITIZED:
        raise harness.Skip("for the nodes it is as on machines, and test_slurm.py has its own deaths")
    endure_on_slurm(w)


if __name__ == "__main__":
    harness.main()
