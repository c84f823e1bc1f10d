#!/usr/bin/env python3
"""How TensorFlow and others get into the cache for tests: whole, or not at all. A script that
makes a few files stands for Python and pip."""
import os
import signal
import subprocess
import time

import harness

# Notes each call of pip, then does what $PIP says.
BASE = """#!/bin/sh
case "$*" in
*"-m venv"*)
    for folder; do :; done
    mkdir -p "$folder/bin" "$folder/lib/python3.1/site-packages/tensorflow/include"
    cp "$0" "$folder/bin/python3";;
*)
    echo "$*" >>"$CALLS"
    case "$PIP" in
    fails) echo "no such package" && exit 1;;
    first-fails) case "$*" in *tensorflow-cpu*) exit 1;; esac;;
    hangs) exec sleep 1000;;
    fills) head -c 3000000 /dev/zero >"${0%/bin/python3}/big";;
    esac;;
esac
"""


class Cache:
    def __init__(self, w, pip="works"):
        self.base, self.calls = w.path / "base", w.path / "calls"
        self.base.write_text(BASE)
        self.base.chmod(0o755)
        self.cache = w.path / "cache" / "brood"
        self.env = {**os.environ, "XDG_CACHE_HOME": str(w.path / "cache"), "CALLS": self.calls}
        for name in ("BROOD_TENSORFLOW_PYTHON", "BROOD_TEST_PEERS"):
            self.env.pop(name, None)
        self.pip = pip

    def start(self, settings="", **env):
        program = f"import peers, sys; peers.NEEDED_MIB = 1; {settings}\n" \
                  f"print(peers.install({str(self.base)!r}))\nprint(peers.python_with_peers())"
        return subprocess.Popen(
            ["/usr/bin/python3", "-c", program], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
            cwd=harness.SOURCE / "tests" / "support", env={**self.env, "PIP": self.pip, **env})

    def install(self, settings="", **env):
        """(why not, the Python) as printed"""
        out, _ = self.start(settings, **env).communicate()
        return out.splitlines()

    def called(self):
        """How often pip was."""
        return len(self.calls.read_text().splitlines()) if self.calls.exists() else 0

    def left(self):
        """What is in the cache but the lock."""
        return sorted(p.suffix or p.name.split("-")[0] for p in self.cache.iterdir()
                      if p.name != "lock")


def test_installed_once(w):
    c = Cache(w)
    why, python = c.install()
    assert why == "None" and python.startswith(f"{c.cache}/peers-"), (why, python)
    assert os.access(python, os.X_OK) and c.left() == ["peers"], c.left()
    assert not list(c.cache.glob("*/lib/python3*/site-packages/*/include"))
    assert c.install() == [why, python] and c.called() == 1


def test_another_package_where_one_is_missing(w):
    c = Cache(w, "first-fails")
    assert c.install()[0] == "None"
    assert c.called() == 2 and "tensorflow==" in c.calls.read_text()


def test_failure_leaves_nothing_and_is_not_repeated(w):
    c = Cache(w, "fails")
    assert c.install() == ["no such package", "None"]
    assert c.left() == [".failed"] and c.called() == 2
    c.pip = "works"
    why, python = c.install()
    assert why.startswith("no such package; tried again") and python == "None", why
    assert c.called() == 2
    failed = next(c.cache.glob("*.failed"))
    os.utime(failed, (0, 0))  # long ago
    assert c.install()[0] == "None" and c.left() == ["peers"]


def test_limits_of_time_and_disk(w):
    c = Cache(w, "hangs")
    assert c.install("peers.MAX_SECONDS = 1") == ["it took more than 1 s", "None"]
    assert c.left() == [".failed"]
    next(c.cache.glob("*.failed")).unlink()
    c.pip = "fills"
    why, python = c.install("peers.MAX_MIB = 1")
    assert why.startswith("it takes ") and why.endswith(" MiB") and python == "None", why
    assert c.left() == [".failed"]
    next(c.cache.glob("*.failed")).unlink()
    why, _ = c.install("peers.NEEDED_MIB = 1 << 40")
    assert "are needed" in why and c.left() == [".failed"], why


def test_interrupted(w):
    c = Cache(w, "hangs")
    for signum, left in ((signal.SIGINT, []), (signal.SIGKILL, ["making"])):
        before = c.called()
        p = c.start()
        harness.wait_until("pip runs", lambda before=before: c.called() > before)
        pip = harness.children(p.pid)
        harness.signal_process(p.pid, signum)
        p.communicate()
        for child in pip:
            harness.wait_until("pip is gone", lambda child=child: end(child))
        assert c.left() == left, (signum, c.left())
    c.pip = "works"
    assert c.install()[0] == "None" and c.left() == ["peers"]


def end(pid):
    """Ends a process that a killed parent left."""
    if harness.alive(pid):
        harness.kill(pid)
    return not harness.alive(pid)


def test_forbidden(w):
    c = Cache(w)
    assert c.install(BROOD_TEST_PEERS="no") == ["BROOD_TEST_PEERS=no", "None"]
    assert c.called() == 0 and not c.cache.exists()
    assert c.install(BROOD_TENSORFLOW_PYTHON="/usr/bin/python3") == ["None", "/usr/bin/python3"]
    assert c.called() == 0


def test_unused_environments_are_removed(w):
    c = Cache(w)
    old, new = c.cache / "peers-old", c.cache / "peers-new"
    for folder, days in ((old, 31), (new, 29)):
        (folder / "bin").mkdir(parents=True)
        then = time.time() - days * 24 * 3600
        os.utime(folder, (then, then))
    assert c.install()[0] == "None"
    assert not old.exists() and new.exists()


if __name__ == "__main__":
    harness.main()
