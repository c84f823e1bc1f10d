"""Runs an example in an empty folder; it must print exactly what is expected."""
import os
import subprocess
import sys
import tempfile

program, expected = sys.argv[1:]
with tempfile.TemporaryDirectory(prefix="brood-test-") as folder:
    run = subprocess.run([os.path.abspath(program)], cwd=folder, stdout=subprocess.PIPE,
                         text=True, timeout=600)
with open(expected) as f:
    want = f.read()
if run.returncode != 0 or run.stdout != want:
    sys.exit(f"exit code {run.returncode}, printed:\n{run.stdout}expected:\n{want}")
