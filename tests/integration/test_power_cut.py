"""The power fails: an ext4 of one's own is shut down without what it has not written yet, mounted
again, and what brood has confirmed is there; a resume ends with the files of a calm run.

Needs root, a loop device and mkfs.ext4. BROOD_POWER_CUTS=50: so many random moments."""
import contextlib
import fcntl
import os
import random
import re
import shutil
import struct
import subprocess
import sys
import time

import harness
from test_crash_points import CONFIG, assert_whole, differences, everything

SHUTDOWN, WITHOUT_LOG = 0x8004587d, 2  # EXT4_IOC_SHUTDOWN, EXT4_GOING_FLAGS_NOLOGFLUSH
OWN_MOUNTS = ("unshare", "-m", "--propagation", "private")
RANDOM_CUTS = int(os.environ.get("BROOD_POWER_CUTS", 3))


class Disk:
    """A disk whose power can fail."""

    def __init__(self, w):
        self.image, self.path = w.path / "image", w.path / "disk"
        self.path.mkdir()
        subprocess.run(["truncate", "-s", "96M", self.image], check=True)
        try:
            subprocess.run(["mkfs.ext4", "-q", "-F", self.image], check=True, capture_output=True)
            self.mount()
        except (OSError, subprocess.CalledProcessError) as e:
            raise harness.Skip(f"no ext4 can be mounted here: {e}") from e
        self.runs = self.path / "runs"

    def mount(self):
        subprocess.run(["mount", "-o", "loop", self.image, self.path], check=True,
                       capture_output=True)

    def cut(self, p):
        """The power fails while p and what belongs to it run; then the machine starts again."""
        there = os.open(self.path, os.O_RDONLY)
        fcntl.ioctl(there, SHUTDOWN, struct.pack("I", WITHOUT_LOG))
        os.close(there)
        for pid in harness.members(p.pid):
            harness.kill(pid)
        p.wait(timeout=harness.DEADLINE_S)
        harness.wait_until("its end", lambda: subprocess.run(
            ["umount", self.path], check=False, capture_output=True).returncode == 0)
        self.mount()


@contextlib.contextmanager
def disk(w):
    d = Disk(w)
    try:
        yield d
    finally:
        subprocess.run(["umount", "-l", d.path], check=False, capture_output=True)


def config(w, steps=240):
    return w.write(f"{steps}.yaml", CONFIG.format(steps=steps))


def run(w, d, *more, steps=240):
    return w.start("run", config(w, steps), "--name", "r", "--runs-dir", d.runs, *more)


def calm(w):
    """The files of a calm run, and of a fork of its checkpoint of step 160."""
    w.brood("run", config(w), "--name", "r")
    w.brood("fork", "r@160", "--name", "f")
    return everything(w.runs)


def saved(place):
    """The newest checkpoint that the run has reported."""
    journal = place / "journal"
    text = journal.read_text() if journal.exists() else ""
    return max(map(int, re.findall(r" step=(\d+) event=checkpoint\n", text)), default=-1)


def go_on(w, d, name, again):
    """Resumes the run, or begins it again if there is nothing to resume."""
    place = d.runs / name
    if place.exists():
        assert_whole(place)
    if place.exists() and harness.checkpoints(place):
        w.brood("resume", place)
    else:
        w.brood(*again)


def assert_calm(w, d, *names):
    want = {path: what for path, what in calm(w).items() if path.split("/")[0] in names}
    found = {path: what for path, what in everything(d.runs).items()
             if path.split("/")[0] in names or path.startswith(".")}
    said = differences(want, found)
    assert not said, said


def test_a_checkpoint_that_was_reported_is_there(w):
    with disk(w) as d:
        for step in (0, 80, 160):
            p = run(w, d)
            harness.wait_until("a checkpoint", lambda: p.poll() is not None or
                               saved(d.runs / "r") >= step)
            reported = saved(d.runs / "r")
            d.cut(p)
            newest = harness.checkpoints(d.runs / "r")
            assert newest and newest[-1] >= reported >= step, (newest, reported)
            go_on(w, d, "r", ())
            if step < 160:
                shutil.rmtree(d.runs / "r")
        assert_calm(w, d, "r")


def test_at_random_moments(w):
    draw = random.Random(5)
    with disk(w) as d:
        began = time.monotonic()
        assert run(w, d).wait(timeout=harness.DEADLINE_S) == 0
        lasts = time.monotonic() - began
        want = everything(d.runs)
        for _ in range(RANDOM_CUTS):
            shutil.rmtree(d.runs)
            p, moment = run(w, d), time.monotonic() + draw.uniform(0.02, lasts)
            harness.wait_until("the moment", lambda: p.poll() is not None or
                               time.monotonic() > moment)
            reported = saved(d.runs / "r")
            d.cut(p)
            newest = harness.checkpoints(d.runs / "r") or [-1]
            assert newest[-1] >= reported, (newest, reported)
            go_on(w, d, "r", ("run", config(w), "--name", "r", "--force", "--runs-dir", d.runs))
            said = differences(want, everything(d.runs))
            assert not said, said


def test_what_was_confirmed_is_there(w):
    """A change, a checkpoint that was asked for, a tag."""
    with disk(w) as d:
        p, r = run(w, d, steps=harness.FOREVER), d.runs / "r"
        harness.wait_until("a checkpoint", lambda: saved(r) > 0)
        w.brood("tag", r, "good")
        at = harness.pause(w, r)
        w.brood("checkpoint", r)
        w.brood("set", r, "defaults.discount=0.5")
        d.cut(p)
        assert harness.checkpoints(r)[-1] == at and "tag: good" in (r / "tags").read_text()
        w.brood("resume", r, "--until", at + 4, code=4)
        assert "discount: 0.5" in (r / "config.yaml").read_text()


def test_a_fork_is_whole_or_not_there(w):
    with disk(w) as d:
        assert run(w, d).wait(timeout=harness.DEADLINE_S) == 0
        fork = ("fork", d.runs / "r@160", "--name", "f", "--runs-dir", d.runs)
        for seen in ("a part", "all", "its next checkpoint"):
            p, f = w.start(*fork), d.runs / "f"
            harness.wait_until(seen, lambda: p.poll() is not None or (
                saved(f) >= 240 if seen == "its next checkpoint" else f.exists() if seen == "all"
                else list(d.runs.glob(".new-*/checkpoints/160"))))
            d.cut(p)
            if f.exists():
                assert 160 in harness.checkpoints(f), harness.checkpoints(f)
            go_on(w, d, "f", fork)
            assert_whole(f)
            if seen != "its next checkpoint":
                shutil.rmtree(f)
        assert_calm(w, d, "r", "f")


def has_own_mounts():
    """Whether there can be a mount namespace, whose mounts end with it."""
    with contextlib.suppress(OSError):
        return subprocess.run([*OWN_MOUNTS, "true"], check=False,
                              capture_output=True).returncode == 0
    return False


if __name__ == "__main__":
    if "BROOD_POWER_CUT" not in os.environ and has_own_mounts():
        os.environ["BROOD_POWER_CUT"] = "1"
        os.execvp(OWN_MOUNTS[0], [*OWN_MOUNTS, sys.executable, os.path.abspath(__file__)])
    harness.main()
