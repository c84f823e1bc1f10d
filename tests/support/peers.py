#!/usr/bin/python3
"""The programs that tests compare with, TensorFlow above all: where they are, and how they get
there.

    tests/support/peers.py      installs them, unless they are there: scripts/test does it

They are in a virtual environment in a cache folder, $XDG_CACHE_HOME/brood or ~/.cache/brood,
named for their versions: all checkouts with the same versions share it. Tests take the Python of
$BROOD_TENSORFLOW_PYTHON where that is set. BROOD_TEST_PEERS=no forbids the installation.

An installation that fails, or takes more than MAX_SECONDS or MAX_MIB, is removed, and tried again
after a day; one that is interrupted is removed, by the next one at the latest. Environments
that no test has used for a month are removed.
"""
import fcntl
import hashlib
import os
import pathlib
import platform
import shutil
import signal
import subprocess
import sys
import time

SKIPPED = 77
# A|B: B where there is no A for this machine.
PACKAGES = ["tensorflow-cpu==2.21.0|tensorflow==2.21.0", "tensorboard==2.21.0",
            "gymnasium==1.4.0", "pettingzoo==1.27.0", "mpe2==1.1.1", "lbforaging==2.0.0",
            "rware==2.0.0", "networkx==3.6.1", "onnxruntime==1.32.0"]
UNUSED = ["tensorflow/include", "clang"]  # a fifth of all: for compilers
MAX_SECONDS, MAX_MIB = 180, 1500
NEEDED_MIB = 2500  # free, while it is installed
DAY_S = 24 * 3600


# ---- where they are ----

def cache():
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"),
                        "brood")


def folder():
    """Where the environment is, or would be."""
    what = "\n".join([*PACKAGES, *UNUSED, "%d.%d" % sys.version_info[:2], platform.machine()])
    return cache() / f"peers-{hashlib.sha256(what.encode()).hexdigest()[:12]}"


def python_with_peers():
    """The Python that has them; None if there is none."""
    python = os.environ.get("BROOD_TENSORFLOW_PYTHON") or folder() / "bin" / "python3"
    return str(python) if pathlib.Path(python).exists() else None


def load_tensorflow():
    """Imports TensorFlow 1's interface, without optimised kernels that round otherwise. Where
    this Python has none, the program goes on as the one that has; without one it ends as
    skipped."""
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="",
                      TF_ENABLE_ONEDNN_OPTS="0", TF_USE_LEGACY_KERAS="1")
    kept = sys.dont_write_bytecode
    sys.dont_write_bytecode = False  # compiled once, in a folder of ours
    try:
        import tensorflow
        return tensorflow.compat.v1
    except ImportError:
        pass
    finally:
        sys.dont_write_bytecode = kept
    python = python_with_peers()
    if python and "BROOD_WITH_TENSORFLOW" not in os.environ:
        os.environ["BROOD_WITH_TENSORFLOW"] = "1"
        os.execv(python, [python, *sys.argv])
    print("1..0 # SKIP no Python with TensorFlow (tests/support/peers.py)")
    sys.exit(SKIPPED)


# ---- how they get there ----

class NotInstalled(Exception):
    """Why, in a few words."""


def run(command, deadline, env):
    """Returns the exit code, and the last line of what the command printed."""
    left = deadline - time.monotonic()
    try:
        p = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                           stderr=subprocess.STDOUT, text=True, errors="replace", env=env,
                           timeout=max(left, 0.1), check=False)
    except subprocess.TimeoutExpired:
        raise NotInstalled(f"it took more than {MAX_SECONDS} s") from None
    except OSError as e:
        raise NotInstalled(f"{command[0]}: {e.strerror}") from None
    lines = [line for line in p.stdout.splitlines() if line.strip()]
    return p.returncode, lines[-1].strip() if lines else f"exit code {p.returncode}"


def mebibytes(path):
    return sum(f.lstat().st_blocks for f in path.rglob("*")) // 2048


def fill(making, base):
    """Makes the environment in a folder that is moved afterwards: only its bin/python3 is
    used, which does not mind."""
    deadline = time.monotonic() + MAX_SECONDS
    temporary = making / "tmp"
    temporary.mkdir(parents=True)
    env = {**os.environ, "TMPDIR": str(temporary)}
    rc, said = run([base, "-m", "venv", str(making)], deadline, env)
    if rc != 0:
        raise NotInstalled(f"{base} -m venv fails, perhaps python3-venv is missing: {said}")
    pip = [str(making / "bin" / "python3"), "-m", "pip", "install", "--no-cache-dir",
           "--no-compile", "--only-binary=:all:", "--retries=1", "--timeout=20"]
    firsts, seconds = ([p.split("|")[i] for p in PACKAGES] for i in (0, -1))
    for packages in (firsts, seconds):
        rc, said = run(pip + packages, deadline, env)
        if rc == 0:
            break
    else:
        raise NotInstalled(said)
    for unused in UNUSED:
        for path in making.glob(f"lib/python3*/site-packages/{unused}"):
            shutil.rmtree(path)
    shutil.rmtree(temporary)
    size = mebibytes(making)
    if size > MAX_MIB:
        raise NotInstalled(f"it takes {size} MiB")
    return size


def remove_old(now):
    for path in cache().glob("peers-*"):
        if path.is_dir() and path != folder() and now - path.stat().st_mtime > 30 * DAY_S:
            shutil.rmtree(path, ignore_errors=True)


def make(base):
    """Installs them; under the cache's lock. Raises NotInstalled."""
    for path in cache().glob("making-*"):  # of one that was killed
        shutil.rmtree(path, ignore_errors=True)
    free = shutil.disk_usage(cache()).free >> 20
    if free < NEEDED_MIB:
        raise NotInstalled(f"{cache()} has {free} MiB, {NEEDED_MIB} are needed")
    print("brood: installing TensorFlow and environments to compare with, in "
          f"{folder()} (BROOD_TEST_PEERS=no forbids it)", file=sys.stderr, flush=True)
    making = cache() / f"making-{os.getpid()}"
    begun = time.monotonic()
    try:
        size = fill(making, base)
        os.rename(making, folder())
    except BaseException:
        shutil.rmtree(making, ignore_errors=True)
        raise
    print(f"brood: {size} MiB, {time.monotonic() - begun:.0f} s", file=sys.stderr)


def install(base=sys.executable):
    """Returns why the peers are not there, None if they are."""
    if os.environ.get("BROOD_TENSORFLOW_PYTHON"):
        return None
    if folder().exists():
        os.utime(folder())  # it is in use: remove_old
        return None
    if os.environ.get("BROOD_TEST_PEERS") == "no":
        return "BROOD_TEST_PEERS=no"
    failed = folder().with_suffix(".failed")
    try:
        cache().mkdir(parents=True, exist_ok=True)
        with open(cache() / "lock", "w", encoding="utf-8") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if folder().exists():
                return None
            if failed.exists() and time.time() - failed.stat().st_mtime < DAY_S:
                return f"{failed.read_text().strip()}; tried again a day after that, or " \
                       f"without {failed}"
            remove_old(time.time())
            failed.unlink(missing_ok=True)
            try:
                make(base)
            except NotInstalled as e:
                failed.write_text(f"{e}\n")
                return str(e)
    except OSError as e:
        return str(e)
    return None


def main():
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        why = install()
    except KeyboardInterrupt:
        return 130
    if why:
        print(f"brood: nothing to compare with: {why}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
