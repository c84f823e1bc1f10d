"""The agent on other machines, emulated: on x86-64 without AVX-512 and without AVX2, and on
arm64. The kernels' and plans' tests pass there too, and an agent answers.

The arm64 build is made by scripts/test (scripts/setup.sh, build_cross) in build-aarch64.
"""
import fcntl
import os
import pathlib
import shutil
import struct
import subprocess

import harness

# It names this machine's kernels, which the emulated ones may not have.
os.environ.pop("OPENBLAS_CORETYPE", None)

CROSS = harness.SOURCE / "build-aarch64"
SYSROOT = CROSS / "sysroot"
PROGRAMS = ("dense", "loops", "kernels", "kernels_state", "session", "gradients", "plan")
# A limit on memory is for real machines.
CASES = {"kernels": "kernels"}


class Machine:
    """A kind of machine, and how programs of a build run on it."""

    def __init__(self, name, build, *emulator, stride, also=()):
        self.name, self.build, self.emulator = name, build, emulator
        self.stride, self.programs = str(stride), PROGRAMS + also

    def need(self):
        if not shutil.which(self.emulator[0]):
            raise harness.Skip("no qemu-user")
        if not (self.build / "agent" / "brood-agent").exists():
            raise harness.Skip(f"no build for {self.name}")

    def run(self, w, name):
        """Run a test program; returns its output if it failed."""
        program = self.build / "tests" / "agent" / f"test_agent_{name}"
        # to fork is slow there
        env = {**os.environ, "BROOD_BUILD_DIR": str(self.build), "CK_FORK": "no",
               "BROOD_TEST_STRIDE": self.stride,
               "BROOD_TEST_READABLE_END": "1"}   # qemu reads what a masked load leaves out
        if name in CASES:
            env["CK_RUN_CASE"] = CASES[name]
        p = subprocess.run([*self.emulator, program], cwd=w.path, env=env, check=False,
                           capture_output=True, text=True, timeout=harness.DEADLINE_S * 4)
        passed = sum(line.startswith("ok ") for line in p.stdout.splitlines())
        assert passed > 0, f"{name} on {self.name}: {p.stdout[-500:]}{p.stderr[-500:]}"
        return [f"{name} on {self.name}: {line}" for line in p.stdout.splitlines()
                if line.startswith("not ok")] + ([p.stderr[-500:]] if p.returncode else [])

    def hello(self):
        """The first message of an agent."""
        to, from_ = os.pipe(), os.pipe()
        agent = self.build / "agent" / "brood-agent"

        def place():
            os.dup2(to[0], 3)
            os.dup2(from_[1], 4)

        with subprocess.Popen([*self.emulator, agent, "agent", str(os.getpid()), "agent_0"],
                              preexec_fn=place, close_fds=False, stderr=subprocess.PIPE) as p:
            os.close(from_[1])
            with os.fdopen(from_[0], "rb") as f:
                size, = struct.unpack("<I", f.read(4))
                message = f.read(size)
            for fd in to:
                os.close(fd)
            p.communicate(timeout=harness.DEADLINE_S)
        return message


# What else is this one's: `vmath`, which tries every path of a machine, where the compiler
# is another. The kernels without AVX are tried with every size on this machine, too.
MACHINES = [
    Machine("x86-64 without AVX-512", harness.BUILD, "qemu-x86_64", "-cpu", "Haswell",
            stride=17),
    Machine("x86-64 without AVX2", harness.BUILD, "qemu-x86_64", "-cpu", "Nehalem", stride=17),
    Machine("arm64", CROSS, "qemu-aarch64", "-L", str(SYSROOT), stride=6, also=("vmath",)),
]


def run_all(w, machine):
    machine.need()
    faults = [fault for name in machine.programs for fault in machine.run(w, name)]
    assert not faults, "\n".join(faults)


def test_without_avx512(w):
    if " avx512f" not in pathlib.Path("/proc/cpuinfo").read_text():
        raise harness.Skip("this machine has no AVX-512: all tests run without it")
    run_all(w, MACHINES[0])


def test_without_avx2(w):
    run_all(w, MACHINES[1])


def test_arm64(w):
    run_all(w, MACHINES[2])


def blocks(build, *emulator, kernels=""):
    """The final values of learners on that machine: the lines of print_blocks."""
    program = build / "tests" / "golden" / "print_blocks"
    env = {**os.environ, "BROOD_KERNELS": kernels}
    return subprocess.run([*emulator, str(program)], env=env, check=True, text=True,
                          capture_output=True, timeout=harness.DEADLINE_S * 4).stdout


def test_every_kind_of_kernels_ends_with_the_same_bytes(_):
    want = blocks(harness.BUILD, kernels="portable")
    assert len(want.splitlines()) == 18, want
    for kernels in ("avx2", "avx512", ""):  # or, with a warning, the best there is
        assert blocks(harness.BUILD, kernels=kernels) == want, kernels


def test_arm64_ends_with_the_same_bytes(_):
    machine = MACHINES[2]
    machine.need()
    # The log is mapped for more than it holds, which is slow in a large address space.
    got = blocks(machine.build, *machine.emulator, "-R", "0x100000000")
    assert got == blocks(harness.BUILD)


# ---- the requests of a run, asked again ----

F_ADD_SEALS, SHRINK_GROW_SEAL = 1033, 2 | 4 | 1
BLOCK_CAPACITY = 16 << 30  # protocol.h
BLOCK_LOOKED_AT = 8 << 20
ROOM_FOR_BLOCK = "0x800000000"  # of an emulator's address space, which is slow if it is large


def frames(stream):
    """The frames of a recorded pipe, each with its length before it."""
    found = []
    while stream:
        size, = struct.unpack("<I", stream[:4])
        found.append(stream[:4 + size])
        stream = stream[4 + size:]
    return found


def is_answer(frame):
    """Of msgpack-rpc: [1, id, error, result]; a notification is [2, method, params]."""
    return frame[4:6] == b"\x94\x01"


def read_frame(pipe):
    size = pipe.read(4)
    return size + pipe.read(*struct.unpack("<I", size))


def record(w):
    """For each agent of a short run, its requests and answers; and the log."""
    records = w.path / "records"
    records.mkdir()
    brood = w.program_with_agent(harness.BUILD / "tests" / "support" / "recording_agent")
    w.brood("run", w.small(steps=600, evaluate=400, checkpoint=1000000), "--name", "short",
            "-q", program=brood, env={"BROOD_FAULT": str(records)})
    return {p.stem: (frames(p.read_bytes()),
                     [f for f in frames(p.with_suffix(".responses").read_bytes())
                      if is_answer(f)])
            for p in sorted(records.glob("agent_*.requests"))}, w.run_dir("short") / "experience"


def replay(name, requests, expected, log, build, *emulator, kernels=""):
    """Send a new agent the same requests, check its answers; its final variables."""
    block = os.memfd_create("brood-block", os.MFD_ALLOW_SEALING)
    os.ftruncate(block, BLOCK_CAPACITY)
    fcntl.fcntl(block, F_ADD_SEALS, SHRINK_GROW_SEAL)
    to, from_, rows = os.pipe(), os.pipe(), os.open(log, os.O_RDONLY)

    def place():
        apart = [fcntl.fcntl(fd, fcntl.F_DUPFD, 100) for fd in (to[0], from_[1], block, rows)]
        for i, fd in enumerate(apart):
            os.dup2(fd, 3 + i)

    with subprocess.Popen([*emulator, build / "agent" / "brood-agent", "agent",
                           str(os.getpid()), name], preexec_fn=place, close_fds=False,
                          stderr=subprocess.DEVNULL,
                          env={**os.environ, "BROOD_KERNELS": kernels}) as p:
        os.close(to[0])
        os.close(from_[1])
        with os.fdopen(to[1], "wb", buffering=0) as pipe, os.fdopen(from_[0], "rb") as back:
            for request, want in zip(requests, expected):
                pipe.write(request)
                answer = read_frame(back)
                while not is_answer(answer):  # hello, progress
                    answer = read_frame(back)
                assert answer == want, (name, build, kernels, request[:40], answer[:200])
        assert p.wait(timeout=harness.DEADLINE_S) == 0
    values = os.pread(block, BLOCK_LOOKED_AT, 0)
    os.close(block)
    os.close(rows)
    return values


def test_a_recorded_run_is_answered_alike_everywhere(w):
    """Replay the requests of each agent of a run, with every kind of kernels and on arm64."""
    recorded, log = record(w)
    assert len(recorded) == 3
    machines = [(harness.BUILD, (), kernels) for kernels in ("portable", "avx2", "avx512", "")]
    arm64 = MACHINES[2]
    if (arm64.build / "agent" / "brood-agent").exists() and shutil.which(arm64.emulator[0]):
        machines.append((arm64.build, (*arm64.emulator, "-R", ROOM_FOR_BLOCK), ""))
    for name, (requests, answers) in recorded.items():
        assert len(requests) == len(answers) > 100, (name, len(requests), len(answers))
        values = set()
        for build, emulator, kernels in machines:
            values.add(replay(name, requests, answers, log, build, *emulator,
                              kernels=kernels))
        assert len(values) == 1 and any(values.pop()), name


def test_an_agent_says_hello_everywhere(_):
    for machine in MACHINES:
        machine.need()
        assert b"hello" in machine.hello(), machine.name


if __name__ == "__main__":
    harness.main()
