"""The agent on other machines, emulated: on x86-64 without AVX-512 and without AVX2, and on
arm64. The kernels' and plans' tests pass there too, and an agent answers.

The arm64 build is made by scripts/test (scripts/setup.sh, build_cross) in build-aarch64.
"""
import os
import shutil
import struct
import subprocess

import harness

CROSS = harness.SOURCE / "build-aarch64"
SYSROOT = CROSS / "sysroot"
PROGRAMS = ("dense", "loops", "kernels", "kernels_state", "session", "gradients", "plan")
# A limit on memory is for real machines.
CASES = {"kernels": "kernels"}


class Machine:
    """How programs of a build run on a machine of that kind."""

    def __init__(self, name, build, *emulator, also=()):
        self.name, self.build, self.emulator = name, build, emulator
        self.programs = PROGRAMS + also

    def need(self):
        if not shutil.which(self.emulator[0]):
            raise harness.Skip("no qemu-user")
        if not (self.build / "agent" / "brood-agent").exists():
            raise harness.Skip(f"no build for {self.name}")

    def run(self, w, name):
        """Runs a test program; what it said if it failed."""
        program = self.build / "tests" / "agent" / f"test_agent_{name}"
        # to fork is slow there
        env = {**os.environ, "BROOD_BUILD_DIR": str(self.build), "CK_FORK": "no"}
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
# is another.
MACHINES = [
    Machine("x86-64 without AVX-512", harness.BUILD, "qemu-x86_64", "-cpu", "Haswell"),
    Machine("x86-64 without AVX2", harness.BUILD, "qemu-x86_64", "-cpu", "Nehalem"),
    Machine("arm64", CROSS, "qemu-aarch64", "-L", str(SYSROOT), also=("vmath",)),
]


def run_all(w, machine):
    machine.need()
    faults = [fault for name in machine.programs for fault in machine.run(w, name)]
    assert not faults, "\n".join(faults)


def test_without_avx512(w):
    run_all(w, MACHINES[0])


def test_without_avx2(w):
    run_all(w, MACHINES[1])


def test_arm64(w):
    run_all(w, MACHINES[2])


def blocks(build, *emulator, kernels=""):
    """What learners end with there: print_blocks's lines."""
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


def test_an_agent_says_hello_everywhere(_):
    for machine in MACHINES:
        machine.need()
        assert b"hello" in machine.hello(), machine.name


if __name__ == "__main__":
    harness.main()
