"""Limits and failing calls end a command with one line and exit code 1, and harm nobody else.

All of it happens in a PID namespace of its own, as a user without processes
(tests/support/alone.h)."""
import os
import re
import subprocess

import harness

ALONE = harness.BUILD / "tests" / "support" / "alone"
TRIES = harness.SOURCE / "tests" / "fuzz" / "failing_calls.py"
PYTHON = "/usr/bin/python3"  # another one may lie where only its owner can read
COUNT = int(os.environ.get("BROOD_FAILING_CALLS", 80))
CONFIG = """
run: {name: a, seed: 3, env_steps: 40}
env: {id: simple_spread, copies: 4, params: {agents: 2}}
experience: {capacity: 200, batch_size: 16, warmup: 100, update_every: 40}
defaults: {actor: {hidden: [8]}, critic: {hidden: [8]}}
"""
# Prints for each limit the exit code and what was written; at last whether this shell's sleep
# is still there, whose user is the same.
LIMITS = """
folder=$(mktemp -d -p /tmp) && cd "$folder" || exit 1
cat > run.yaml
sleep 1000 &
for limit in $2; do
    rm -rf runs
    said=$( (ulimit ${limit%=*} ${limit#*=} && exec "$1" $3 run.yaml) 2>&1 > /dev/null < /dev/null)
    printf '%s %s %s\\n' "$limit" $? "$(printf '%s' "$said" | tr '\\n' '|')"
done
kill -0 $! && echo there
kill $!
rm -rf "$folder"
"""


def alone(*words, **how):
    """Run a command alone; what it writes."""
    p = subprocess.run([ALONE, *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                       text=True, **how)
    skipped = re.fullmatch(r"1\.\.0 # SKIP (.*)\n", p.stdout)
    if skipped:
        raise harness.Skip(skipped[1])
    return p


def need_alone():
    p = alone("sh", "-c", 'cat "$0" "$1" > /dev/null', TRIES, harness.BROOD)
    if p.returncode:
        raise harness.Skip(f"another user cannot read {harness.BUILD}")


def limited(command, limits):
    """"-n=4" -> (exit code, text) of the command under each of the limits."""
    p = alone("bash", "-c", LIMITS, "bash", harness.BROOD, " ".join(limits), command, input=CONFIG,
              # LeakSanitizer needs processes and descriptors of its own
              env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})
    *lines, last = p.stdout.splitlines()
    assert p.returncode == 0 and last == "there", p.stdout
    found = {limit: (int(code), text) for limit, code, text in
             (line.split(" ", 2) for line in lines)}
    assert list(found) == limits, p.stdout
    return found


def assert_one_line(found, pattern):
    for limit, (code, text) in found.items():
        assert code == 1 and re.fullmatch(pattern, text), (limit, code, text)


def test_without_descriptors_a_run_is_one_line(w):
    need_alone()
    assert_one_line(limited("run -q", [f"-n={n}" for n in range(4, 12)]),
                    r"brood run: (starting [^|]*oo many open files( \(ulimit -n\))?|"
                    r"at most 1\d open files are allowed here, and a run may need [^|]*)")


def test_without_processes_a_run_is_one_line(w):
    """The shell and its sleep are two, keeper and sweeper two more; then come the supervisor
    with four threads, and two agents."""
    need_alone()
    assert_one_line(limited("run -q", [f"-u={n}" for n in range(3, 12)]),
                    r"brood run: (starting|agent agent_\d: starting) "
                    r"[^|]*esource temporarily unavailable( \(ulimit -u\))?")


def tries(*options):
    """The number of cases that were tried; all must have gone as they should."""
    p = subprocess.run([PYTHON, TRIES, *options], stdout=subprocess.PIPE,
                       stderr=subprocess.STDOUT, text=True)
    tried = re.search(r"^(\d+) cases, 0 failed\n\Z", p.stdout, re.M)
    assert p.returncode == 0 and tried, p.stdout
    return int(tried[1])


def test_single_calls_that_fail(w):
    """tests/fuzz/failing_calls.py for a moment; more by its options."""
    if harness.SANITIZED:
        raise harness.Skip("a sanitizer's own calls may not fail")
    need_alone()
    assert tries("--count", str(COUNT)) == COUNT


def test_what_cannot_be_listed_is_not_empty(w):
    """A fork whose checkpoints cannot be listed is an error, and copies nothing by half."""
    if harness.SANITIZED:
        raise harness.Skip("a sanitizer's own calls may not fail")
    need_alone()
    assert tries("--every", "--words", "fork/supervisor/getdents") > 0


def test_what_the_machine_cannot_read_is_no_mistake_of_the_user(w):
    """The base of a study; the agent's executable; what a trial of an agent maps."""
    if harness.SANITIZED:
        raise harness.Skip("a sanitizer's own calls may not fail")
    need_alone()
    points = [f"sweep/command/stat/{k}/EIO" for k in range(3, 20)] + \
        [f"run/{role}/stat/{k}/EIO" for role in ("supervisor", "agent") for k in range(1, 12)]
    assert tries("--only", *points) == len(points)


if __name__ == "__main__":
    harness.main()
