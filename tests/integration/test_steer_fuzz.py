#!/usr/bin/env python3
"""tests/fuzz/steer.py for a moment: whatever is done to a run, it ends as it should."""
import subprocess

import harness
from harness import SOURCE

COUNT = 1
PYTHON = "/usr/bin/python3"  # whose msgpack is Debian's


def test_runs_that_are_steered_at_random(w):
    try:
        subprocess.run([PYTHON, "-c", "import msgpack"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as e:
        raise harness.Skip("python3-msgpack is not installed") from e
    p = subprocess.run([PYTHON, SOURCE / "tests" / "fuzz" / "steer.py", "--count", str(COUNT),
                        "--seed", "5"],
                       stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert p.returncode == 0 and p.stdout.endswith(f"{COUNT} cases, 0 failed\n"), p.stdout


if __name__ == "__main__":
    harness.main()
