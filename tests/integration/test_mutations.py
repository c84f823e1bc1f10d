#!/usr/bin/env python3
"""A short run of tests/fuzz/mutate.py: damaged run files crash nothing and change no bytes."""
import subprocess
import sys

import harness
from harness import BUILD, SANITIZED, SOURCE

sys.path.insert(0, str(SOURCE / "tests" / "fuzz"))
import mutate

COUNT = 60 if SANITIZED else 150


def test_damaged_files_crash_nothing(place):
    p = subprocess.run([sys.executable, SOURCE / "tests" / "fuzz" / "mutate.py",
                        "--count", str(COUNT), "--seed", "1"],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert p.returncode == 0 and p.stdout.endswith(f"{COUNT} cases, 0 failed\n"), p.stdout


def test_a_command_that_crashes_is_found(place):
    """With a `brood` that dies by a signal once a run has been damaged."""
    build = place.path / "build" / "supervisor"
    build.mkdir(parents=True)
    crashing = build / "brood"
    crashing.write_text(f"""#!/bin/sh
case "$*" in *case-*) kill -SEGV $$ ;; esac
exec {BUILD}/supervisor/brood "$@"
""")
    crashing.chmod(0o755)
    attack = mutate.Attack(build.parent, place.path)
    found = attack.one(1, 1)
    assert found and "exit code -11" in found, found


if __name__ == "__main__":
    harness.main()
