"""A Slurm of its own for tests: munged, slurmctld and three slurmd, all on this machine, in a
temporary folder and on free ports. It is started when a test first asks for it, and ended,
with all that it has started, when the tests are over."""
import atexit
import contextlib
import ctypes
import functools
import os
import pathlib
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile

import harness

NODES = ("n1", "n2", "n3")
CLEAR_S = 240
PROGRAMS = ("munged", "slurmctld", "slurmd", "srun", "salloc", "sbatch", "scancel", "squeue",
            "scontrol", "sinfo")
# Limits that are meant for an idle machine are long here, pauses short.
CONF = """
ClusterName=brood
SlurmctldHost={host}(127.0.0.1)
AuthType=auth/munge
AuthInfo=socket={dir}/munge/socket,cred_expire=5
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
SlurmctldPort={port[0]}
StateSaveLocation={state}
SlurmdSpoolDir={dir}/spool-%n
SlurmctldPidFile={dir}/slurmctld.pid
SlurmdPidFile={dir}/slurmd-%n.pid
SlurmctldLogFile={dir}/slurmctld.log
SlurmdLogFile={dir}/slurmd-%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/backfill
SchedulerParameters=bf_interval=1,sched_interval=1
SlurmdParameters=config_overrides
ReturnToService=2
MpiDefault=none
MailProg=/bin/true
KillWait=60
MinJobAge=86400
SlurmctldTimeout=600
SlurmdTimeout=0
MessageTimeout=90
BatchStartTimeout=600
UnkillableStepTimeout=600
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
SlurmctldParameters=preempt_send_user_signal
NodeName=n1 NodeHostname={host} NodeAddr=127.0.0.1 Port={port[1]} CPUs=16 State=UNKNOWN
NodeName=n2 NodeHostname={host} NodeAddr=127.0.0.1 Port={port[2]} CPUs=16 State=UNKNOWN
NodeName=n3 NodeHostname={host} NodeAddr=127.0.0.1 Port={port[3]} CPUs=16 State=UNKNOWN
PartitionName=all Nodes=n[1-3] Default=YES MaxTime=INFINITE State=UP GraceTime=600
PartitionName=urgent Nodes=n[1-3] MaxTime=INFINITE State=UP PriorityTier=10
"""


def why_not():
    """Why there can be no rig; None: there can."""
    path = os.environ["PATH"] + ":/usr/sbin:/sbin"
    missing = [name for name in PROGRAMS if not shutil.which(name, path=path)]
    if missing:
        return f"{', '.join(missing)} not installed"
    return None if os.getuid() == 0 else "Slurm's daemons need root"


def free_ports(n):
    with contextlib.ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(n)]
        for s in sockets:
            s.bind(("127.0.0.1", 0))
        return [s.getsockname()[1] for s in sockets]


def die_with_parent():
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)


class Rig:
    def __init__(self):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="brood-slurm-"))
        self.dir.chmod(0o755)
        # slurmctld waits for this folder's disk again and again.
        shm = "/dev/shm" if os.access("/dev/shm", os.W_OK) else self.dir
        self.state = tempfile.mkdtemp(prefix="brood-test-slurm-", dir=shm)
        self.daemons, self.slurmds = [], {}
        atexit.register(self.close)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
        self.env = {"SLURM_CONF": str(self.dir / "slurm.conf"),
                    "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
        os.environ.update(self.env)
        for name in [n for n in os.environ if n.startswith("SLURM_") and n != "SLURM_CONF"]:
            del os.environ[name]
        self.start_munge()
        for _ in range(5):
            if self.start_slurm():
                return
        raise AssertionError(self.logs())

    def daemon(self, *args, **more):
        with open(self.dir / f"output-{args[0]}-{len(self.daemons)}", "wb") as out:
            p = harness.Process([*map(str, args)], stdin=subprocess.DEVNULL, stdout=out,
                                stderr=out, preexec_fn=die_with_parent,
                                start_new_session=True, **more)
        self.daemons.append(p)
        return p

    def start_munge(self):
        user, folder = pwd.getpwnam("munge"), self.dir / "munge"
        folder.mkdir(mode=0o711)
        (folder / "key").write_bytes(os.urandom(1024))
        (folder / "key").chmod(0o600)
        for path in (folder, folder / "key"):
            os.chown(path, user.pw_uid, user.pw_gid)
        p = self.daemon("munged", "--foreground", f"--socket={folder}/socket",
                        f"--key-file={folder}/key", f"--pid-file={folder}/pid",
                        f"--seed-file={folder}/seed", f"--log-file={folder}/log",
                        user=user.pw_uid, group=user.pw_gid, extra_groups=())
        harness.wait_until("munged", lambda: (folder / "socket").exists() or
                           p.poll() is not None)
        assert p.poll() is None, self.logs()

    def start_slurm(self):
        """False: it did not start, perhaps because another process took a port."""
        conf = self.dir / "slurm.conf"
        conf.write_text(CONF.format(dir=self.dir, state=self.state,
                                    host=os.uname().nodename.split(".")[0],
                                    port=free_ports(4)))
        for node in NODES:
            (self.dir / f"spool-{node}").mkdir(exist_ok=True)
        started = [self.daemon("slurmctld", "-D", "-c", "-f", conf)]
        started += [self.start_slurmd(n) for n in NODES]

        def is_up():
            p = subprocess.run(["sinfo", "-h", "-o", "%t %D"], capture_output=True, text=True)
            return p.stdout.strip() == "idle 3" or any(d.poll() is not None for d in started)
        harness.wait_until("Slurm", is_up)
        if all(d.poll() is None for d in started):
            return True
        for d in started:
            d.kill()
            d.wait()
        return False

    def start_slurmd(self, node):
        conf = self.dir / "slurm.conf"
        self.slurmds[node] = self.daemon("slurmd", "-D", "-N", node, "-f", conf)
        return self.slurmds[node]

    def kill_slurmd(self, node):
        """What it has started continues."""
        self.slurmds[node].kill()
        self.slurmds[node].wait()

    def logs(self):
        return "\n".join(f"{path}:\n{path.read_text(errors='replace')[-2000:]}"
                         for path in sorted(self.dir.rglob("*"))
                         if path.is_file() and ("log" in path.name or "output" in path.name))

    def run(self, *args):
        """The output of one of Slurm's programs."""
        p = subprocess.run([*map(str, args)], capture_output=True, text=True,
                           stdin=subprocess.DEVNULL, timeout=harness.DEADLINE_S)
        assert p.returncode == 0, f"{args}: {p.returncode}\n{p.stdout}{p.stderr}"
        return p.stdout

    def jobs(self, *more):
        """job id -> (state, name) of the jobs that are not over."""
        lines = self.run("squeue", "--noheader", "--format=%i %T %j", *more).splitlines()
        return {words[0]: (words[1], words[2]) for words in map(str.split, lines)}

    def is_idle(self):
        return not self.jobs()

    def clear(self):
        """Cancel all jobs, and wait until they are over."""
        for job in self.jobs():
            subprocess.run(["scancel", "--signal=KILL", "--full", job], capture_output=True)
            subprocess.run(["scancel", job], capture_output=True)
        harness.wait_until("no job", self.is_idle, CLEAR_S)

    def is_stuck(self):
        """Whether Slurm does not end jobs whose processes were killed. It cancels all."""
        try:
            self.clear()
            return False
        except (AssertionError, subprocess.TimeoutExpired):
            for line in [*str(self.jobs()).splitlines(), *self.logs().splitlines()]:
                print(f"# {line}", flush=True)
            return True

    def processes(self):
        """pid -> words of all processes that it has started for jobs."""
        mark, found = f"SLURM_CONF={self.dir}/".encode(), {}
        for pid, (state, _, command) in harness.processes().items():
            with contextlib.suppress(OSError):
                environ = pathlib.Path(f"/proc/{pid}/environ").read_bytes()
                if state != "Z" and mark in environ and b"SLURM_JOB_ID=" in environ:
                    found[pid] = command.split()
        return found

    def close(self):
        if any(d.poll() is None for d in self.daemons):
            with contextlib.suppress(Exception):
                self.clear()
        for d in self.daemons:
            if d.poll() is None:
                d.kill()
                d.wait()
        for pid, (_, _, command) in harness.processes().items():  # slurmstepd
            if str(self.dir) in command or pid in self.processes():
                harness.kill(pid)
        for folder in (self.dir, self.state):
            shutil.rmtree(folder, ignore_errors=True)


the_rig = why_none = None


def get():
    """The rig; harness.Skip if there can be none, or if Slurm itself does not start here."""
    global the_rig, why_none
    if the_rig is None and why_none is None:
        why_none = why_not()
    if the_rig is None and why_none is None:
        try:
            the_rig = Rig()
        except (AssertionError, OSError, KeyError) as e:
            for line in str(e).splitlines()[-20:]:
                print(f"# {line}", flush=True)
            why_none = "Slurm does not start on this machine"
    if why_none is not None:
        raise harness.Skip(why_none)
    return the_rig


def on_slurm(test):
    """A test that gets a rig. If Slurm itself got stuck, the test is repeated with a new one."""
    @functools.wraps(test)
    def with_rig(w):
        global the_rig
        rig = get()
        try:
            return test(w, rig)
        except Exception:
            for p in w.started:
                p.kill()
                p.wait()
            if not rig.is_stuck():
                raise
        rig.close()
        the_rig = None
        place = harness.Workplace()
        try:
            return test(place, get())
        finally:
            place.close()
    return with_rig
