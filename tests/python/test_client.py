"""The package's parts: what each of them needs, and that it is the same by every way of import."""
import os
import subprocess
import sys
import tempfile

from agents import SOURCE, harness, needs_numpy

BOTH = """\
import brood, brood.testing, sys
from brood import Agent, stage
assert sys.modules["brood"] is brood and brood.stage is stage and brood.Agent is Agent
assert brood.testing.Error is brood.Error
assert all(hasattr(brood, name) for name in brood.__all__), brood.__all__
try:
    brood.nothing
except AttributeError as e:
    print(e)
"""

WITHOUT = """\
import sys
for name in sys.argv[1:]:
    sys.modules[name] = None
import brood
brood.attach, brood.launch, brood.Env, brood.Run, brood.Error
assert brood.runs.__name__ == "runs" and "pettingzoo_bridge.py" in brood.bridged("x")[1]
run = brood.client.Run("/nowhere")
for use in (lambda: brood.Agent, lambda: brood.main, lambda: run.call("status"), run.metrics):
    try:
        use()
    except brood.Error as e:
        print(e)
    except ImportError as e:
        print("ImportError", e)
"""


def python(path, code, *args):
    p = subprocess.run([sys.executable, "-c", code, *args], capture_output=True, text=True,
                       check=False, cwd="/", env={**os.environ, "PYTHONPATH": str(path)})
    assert p.returncode == 0, p.stderr
    return p.stdout


@needs_numpy
def test_both_folders_give_the_same_package(w):
    for folder in (SOURCE / "scripts", SOURCE / "scripts" / "python"):
        out = python(folder, BOTH)
        assert out == "module 'brood' has no attribute 'nothing'\n", out


def test_what_is_missing_is_named(w):
    """A module that is None in sys.modules is one that cannot be imported."""
    for missing in (["numpy"], ["msgpack"], ["numpy", "msgpack"]):
        out = python(SOURCE / "scripts", WITHOUT, *missing).splitlines()
        assert len(out) >= 2, out
        for line in out[:2]:
            assert f"has no module {missing[0]}: apt-get install python3-{missing[0]}" in line or \
                f"has no module {missing[-1]}: apt-get install" in line, out


@needs_numpy
def test_types(w):
    """mypy --strict, where it is installed."""
    mypy = os.environ.get("BROOD_MYPY", "mypy")
    with tempfile.TemporaryDirectory() as cache:
        try:
            p = subprocess.run([mypy, "--cache-dir", cache], capture_output=True, text=True,
                               check=False, cwd=SOURCE / "scripts" / "python")
        except FileNotFoundError:
            raise harness.Skip("there is no mypy; BROOD_MYPY is its path") from None
    assert p.returncode == 0, p.stdout + p.stderr


if __name__ == "__main__":
    harness.main()
