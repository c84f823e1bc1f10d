"""A lack of memory is reported at once, and not retried for ever."""
import os
import signal
import subprocess

import harness

LIMIT = ("prlimit", "--core=0", "--as=153600000")  # ulimit -v 150000


def skip_if_sanitized():
    if harness.SANITIZED:
        raise harness.Skip("the sanitizers reserve more than any limit")


def test_check_says_no(w):
    skip_if_sanitized()
    # too little to compute, and to reserve room for variables
    for limit, told in ((LIMIT, "154 MB"), (("prlimit", "--as=15000000000"), "15 GB")):
        for command in ("check", "run"):
            _, err = w.brood(command, w.small(steps=200), code=2, prefix=limit)
            assert err.count("\n") == 1 and "no memory: " in err, err
            assert f"limited to {told} here (ulimit -v)" in err, err
    assert not w.runs.exists() or not list(w.runs.iterdir())


def test_an_agent_without_memory_ends(w):
    """OpenBLAS asks for its buffer again and again; its kernels for AVX-512 need none for
    small products, so those of older processors are chosen."""
    skip_if_sanitized()
    env = {"OPENBLAS_CORETYPE": "Haswell"}
    p = subprocess.run([*LIMIT, harness.AGENT, "agent", str(os.getpid()), "alone"], env=env,
                       capture_output=True, text=True, timeout=harness.DEADLINE_S)
    assert p.returncode == 111, p
    assert p.stderr.count("\n") == 1, p.stderr
    assert "no memory: an agent's arithmetic takes " in p.stderr, p.stderr


def test_deaths_for_want_of_memory_count(w):
    """`resume` makes no trial first: its agents die one after another."""
    skip_if_sanitized()
    p = w.start("run", w.small(steps=10_000_000, evaluate=0, checkpoint=400), "--name", "a",
                "--set", "defaults.restart.max_restarts=2")
    checkpoints = w.run_dir("a") / "checkpoints"
    harness.wait_until("a checkpoint", lambda: checkpoints.exists() and
                       any(s.name.isdigit() and s.name != "0" for s in checkpoints.iterdir()))
    harness.kill(p.pid, signal.SIGINT)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    _, err = w.brood("resume", "a", code=1, prefix=LIMIT)
    assert "died 3 times within " in err and "because memory ran out" in err, err
    assert "limited to 154 MB here (ulimit -v)" in err, err


if __name__ == "__main__":
    harness.main()
