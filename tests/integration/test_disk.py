"""Runs on full disks and on tmpfs."""
import contextlib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile

import harness
import test_control as control

INTERVAL = 500
CONFIG = """
run: {{name: disk, seed: 1, env_steps: {steps}}}
env: {{id: simple_spread, copies: 4, params: {{agents: 2}}}}
experience: {{capacity: 1000, batch_size: 32, warmup: 200, update_every: 20}}
evaluation: {{every_env_steps: 0, episodes: 4}}
checkpoint: {{every_env_steps: {interval}, max_to_keep: 2}}
log: {{every_env_steps: 200}}
defaults:
  actor: {{hidden: [16, 16]}}
  critic: {{hidden: [16, 16]}}
"""


def config_text(steps):
    return CONFIG.format(steps=steps, interval=INTERVAL)


def config(w, steps):
    return w.write(f"disk-{steps}.yaml", config_text(steps))


def outcome(run, steps):
    """The last checkpoint, and progress.csv without its times."""
    files = harness.tree_bytes(run / "checkpoints" / str(steps))
    files["progress.csv"] = harness.progress_without_times(run)
    return files


@contextlib.contextmanager
def small_disk(w, *args, prepare="true"):
    """brood where w.path/disk is a disk of 16 MiB, and that disk as seen from here. Needs
    a mount, which a user namespace of one's own may make."""
    disk = w.path / "disk"
    disk.mkdir()
    script = f"mount -t tmpfs -o size=16m brood '{disk}' && {prepare} && exec \"$@\""
    space = ["unshare", "-rm", "sh", "-c", script, "sh"]
    try:
        subprocess.run([*space, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as e:
        raise harness.Skip(f"no disk of one's own can be mounted here: {e}")
    p = w.start(*args, prefix=space)
    seen = pathlib.Path(f"/proc/{p.pid}/root{disk}")
    harness.wait_until("the disk", lambda: p.poll() is not None or any(seen.iterdir()))
    there = os.open(seen, os.O_RDONLY)  # it stays when the last process in it is gone
    try:
        yield p, pathlib.Path(f"/proc/{os.getpid()}/fd/{there}")
    finally:
        os.close(there)


def fill(disk):
    """Fill the disk completely, even while files are being deleted. How much there was."""
    with open(disk / "filler", "ab", buffering=0) as f:
        before = f.tell()
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    f.write(bytes(size))
            except OSError:
                pass
        return f.tell() - before


def is_filled(disk, folder):
    """Fill the disk; whether it stays full: no checkpoint is being written or removed."""
    return fill(disk) == 0 and len(os.listdir(folder)) <= 2 and \
        all(name.isdigit() for name in os.listdir(folder))


@contextlib.contextmanager
def full_disk(w):
    """An endless run that waits for disk space, its disk, and its checkpoints so far."""
    with small_disk(w, "run", config(w, harness.FOREVER), "--name", "full", "--runs-dir",
                    w.path / "disk") as (p, disk):
        folder = disk / "full" / "checkpoints"
        harness.wait_until("checkpoints", lambda: len(harness.checkpoints(disk / "full")) >= 2)

        harness.wait_until("a full disk", lambda: is_filled(disk, folder) and
                           "waits for space" in p.log.read_text())
        assert "No space left on device" in p.log.read_text(), p.log.read_text()
        assert p.poll() is None
        kept = harness.checkpoints(disk / "full")
        assert kept and all((folder / str(s) / "run.state").exists() for s in kept)
        yield p, disk, kept


def test_a_full_disk_is_waited_for(w):
    with full_disk(w) as (p, disk, kept):
        run = disk / "full"
        (disk / "filler").unlink()
        harness.wait_until("a later one", lambda:
                           harness.checkpoints(run)[-1] > kept[-1] + 500)
        assert "there is space again" in p.log.read_text(), p.log.read_text()

        # None of this affects what the run computes.
        steps = harness.set_last_step(w, run, 1000)
        p.wait(timeout=harness.DEADLINE_S)
        assert p.returncode == 0, p.log.read_text()
        found = outcome(run, steps)
    w.brood("run", config(w, steps), "--name", "calm")
    assert outcome(w.run_dir("calm"), steps) == found


def test_a_full_disk_before_there_is_a_run(w):
    """The run fails with one line, and leaves nothing on the disk, wherever space ends."""
    disk = w.path / "disk"
    full = f"dd if=/dev/zero of='{disk}/filler' bs=64k 2>/dev/null; true"
    for prepare in (f": > '{disk}/filler'; mount -o remount,nr_inodes=2 '{disk}'",
                    full, f"{full}; truncate -s -4096 '{disk}/filler'",
                    f"{full}; truncate -s -8192 '{disk}/filler'"):
        with small_disk(w, "run", config(w, 1000), "--name", "full", "--runs-dir", disk,
                        prepare=f"{{ {prepare}; }}") as (p, seen):
            assert p.wait(timeout=harness.DEADLINE_S) == 1, p.log.read_text()
            said = p.log.read_text().splitlines()
            assert len(said) == 1 and "No space left on device" in said[0] and \
                "`brood rm RUN` removes one" in said[0], said
            assert os.listdir(seen) == ["filler"], os.listdir(seen)
        disk.rmdir()


def test_a_file_is_replaced_whole_or_not_at_all(w):
    disk = w.path / "disk"
    text = disk / "a.yaml"
    with small_disk(w, "new", "simple", "--out", text, "--force",
                    prepare=f"{{ echo mine > '{text}'; dd if=/dev/zero of='{disk}/filler' bs=64k "
                            "2>/dev/null; true; }") as (p, seen):
        assert p.wait(timeout=harness.DEADLINE_S) == 1, p.log.read_text()
        assert "No space left on device" in p.log.read_text(), p.log.read_text()
        assert sorted(os.listdir(seen)) == ["a.yaml", "filler"], os.listdir(seen)
        assert (seen / "a.yaml").read_text() == "mine\n"


def test_a_study_on_a_full_disk_is_not_wrong(w):
    """Exit code 2 would say that its file is."""
    disk = w.path / "disk"
    config(w, 1000)
    study = w.write("s.yaml", "base: disk-1000.yaml\nsearch: {defaults.discount: [0.9]}\n")
    with small_disk(w, "sweep", study, "--runs-dir", disk,
                    prepare=f"{{ dd if=/dev/zero of='{disk}/filler' bs=64k 2>/dev/null; true; }}"
                    ) as (p, _):
        assert p.wait(timeout=harness.DEADLINE_S) == 1, p.log.read_text()
        assert "No space left on device" in p.log.read_text(), p.log.read_text()


def test_an_interrupt_ends_the_wait_for_space(w):
    with full_disk(w) as (p, disk, _):
        agents = harness.agents_of(p.pid).values()
        harness.kill(p.pid, signal.SIGINT)
        assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
        assert not any(harness.alive(pid) for pid in agents)
        newest = harness.checkpoints(disk / "full")[-1]
        assert p.log.read_text().splitlines()[-1].endswith(
            f"continues from the checkpoint of step {newest}"), p.log.read_text()
        w.runs.mkdir()
        run = harness.copy_run(disk / "full", w.run_dir("full"))
    steps = (newest // 1000 + 3) * 1000
    w.brood("resume", run, "--set", f"run.env_steps={steps}")
    w.brood("run", config(w, steps), "--name", "calm")
    assert outcome(w.run_dir("calm"), steps) == outcome(run, steps)


def test_a_change_for_which_there_is_no_space_is_refused(w):
    """Wholly: neither the journal nor config.yaml has it, and a resume finds them alike."""
    with full_disk(w) as (p, disk, _):
        before = (disk / "full" / "config.yaml").read_text()
        _, err = w.brood("set", disk / "full", "defaults.discount=0.9", code=1)
        assert "No space left on device" in err and len(err.splitlines()) == 1, err
        assert "event=set" not in (disk / "full" / "journal").read_text()
        assert (disk / "full" / "config.yaml").read_text() == before
        (disk / "filler").unlink()
        harness.wait_until("space", lambda: "there is space again" in p.log.read_text())
        w.brood("set", disk / "full", "defaults.discount=0.8")
        harness.kill(p.pid, signal.SIGINT)
        assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
        w.runs.mkdir()
        run = harness.copy_run(disk / "full", w.run_dir("full"))
    newest = harness.checkpoints(run)[-1]
    w.brood("resume", run, "--set", f"run.env_steps={newest + 1000}")


def test_a_change_that_is_refused_is_not_told(w):
    if not control.msgpack:
        raise harness.Skip("python3-msgpack is not installed")
    with full_disk(w) as (p, disk, _):
        client = control.drive_critics.Run(disk / "full")
        client.call("subscribe", events=True)
        w.brood("set", disk / "full", "defaults.discount=0.9", code=1)
        (disk / "filler").unlink()
        harness.wait_until("space", lambda: "there is space again" in p.log.read_text())
        w.brood("set", disk / "full", "defaults.discount=0.8")
        told = []
        while not told:
            told = [m[2] for m in control.received(client) if m[2]["event"] == "set"]
        assert [e["changes"] for e in told] == [{"defaults.discount": 0.8}], told
        client.call("stop")
        assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()


def test_a_stop_that_meets_a_full_disk_waits_for_nothing(w):
    """The rows of a round are longer than the rest of a page."""
    with small_disk(w, "run", config(w, harness.FOREVER), "--name", "full", "--runs-dir",
                    w.path / "disk", "--set", "env.copies=64") as (p, disk):
        run = disk / "full"
        harness.wait_until("checkpoints", lambda: len(harness.checkpoints(run)) >= 2)
        agents = harness.agents_of(p.pid).values()
        for pid in agents:
            harness.kill(pid, signal.SIGSTOP)
        fill(disk)
        harness.kill(p.pid, signal.SIGINT)
        harness.wait_until("the interrupt", lambda: "interrupted" in p.log.read_text())
        for pid in agents:
            harness.kill(pid, signal.SIGCONT)
        # If the rows still found space, the last checkpoint does not, and the run has failed.
        code, said = p.wait(timeout=harness.DEADLINE_S), p.log.read_text()
        assert code == (1 if "the last checkpoint, of step" in said else 4), (code, said)
        assert f"the checkpoint of step {harness.checkpoints(run)[-1]}\n" in said, said


@contextlib.contextmanager
def checkpoints_on_a_small_disk(w, name):
    """A resumed run whose checkpoints are on a small disk, in the folder `moved`, and that disk.
    The rows stay where they are. At the end the checkpoints move back."""
    run = w.run_dir(name)
    folder = run / "checkpoints"
    p = w.start("run", config(w, harness.FOREVER), "--name", name)
    harness.wait_until("checkpoints", lambda: len(harness.checkpoints(run)) >= 2)
    harness.kill_holder(p, run)
    folder.rename(w.path / "moved")
    folder.mkdir()
    copy = w.path / "disk" / "copy"
    with small_disk(w, "resume", run,
                    prepare=f"cp -a '{w.path / 'moved'}' '{copy}' && "
                            f"mv '{copy}' '{copy.parent / 'moved'}' && "
                            f"mount --bind '{copy.parent / 'moved'}' '{folder}'") as (p, disk):
        harness.wait_until("all of the copy", (disk / "moved").exists)
        yield p, disk
        folder.rmdir()
        shutil.copytree(disk / "moved", folder)


def test_a_checkpoint_without_space_is_tried_again(w):
    run = w.run_dir("tight")
    with checkpoints_on_a_small_disk(w, "tight") as (p, disk):
        def failures():
            fill(disk)
            return len(re.findall("no checkpoint at step .*No space left", p.log.read_text()))
        harness.wait_until("two of them", lambda: failures() >= 2)
        kept = harness.checkpoints(disk, "moved")
        assert kept and p.poll() is None
        (disk / "filler").unlink()
        harness.wait_until("a later one", lambda:
                           harness.checkpoints(disk, "moved")[-1] > kept[-1])
        steps = harness.set_last_step(w, run, 1000)
        p.wait(timeout=harness.DEADLINE_S)
    assert p.returncode == 0, p.log.read_text()
    w.brood("run", config(w, steps), "--name", "calm")
    assert outcome(w.run_dir("calm"), steps) == outcome(run, steps)


def pause_unsaved(w, name, disk):
    """Pauses at a step that has no checkpoint, and gets none by itself."""
    def paused():
        step = harness.pause(w, name)
        if step % INTERVAL != 0 and step not in harness.checkpoints(disk, "moved"):
            return True
        w.brood("continue", name)
        return False

    harness.wait_until("a step without a checkpoint", paused)


def test_a_run_without_its_last_checkpoint_has_failed(w):
    """One that fails in a pause can be taken again there. One that fails at a stop, or at the
    end, is no success: the run can be resumed, and ends with the bytes of a calm one."""
    run = w.run_dir("late")
    with checkpoints_on_a_small_disk(w, "late") as (p, disk):
        begun = harness.checkpoints(disk, "moved")[-1]
        harness.wait_until("a newer one", lambda:
                           harness.checkpoints(disk, "moved")[-1] > begun)
        pause_unsaved(w, "late", disk)
        harness.wait_until("a full disk", lambda: is_filled(disk, disk / "moved"))
        _, err = w.brood("checkpoint", "late", code=1)
        assert "No space left" in err, err
        (disk / "filler").unlink()
        at = harness.json_lines(w.brood("checkpoint", "late", "--json")[0])[0]["env_steps"]
        assert harness.checkpoints(disk, "moved")[-1] == at
        w.brood("continue", "late")
        pause_unsaved(w, "late", disk)
        harness.wait_until("a full disk", lambda: is_filled(disk, disk / "moved"))
        _, err = w.brood("stop", "late", code=1)
        assert "the last checkpoint, of step " in err and "No space left" in err, err
        assert p.wait(timeout=harness.DEADLINE_S) == 1, p.log.read_text()
        (disk / "filler").unlink()
    assert w.status("late")["state"] == "failed"
    steps = harness.checkpoints(run)[-1] + 2000
    w.brood("resume", "late", "--set", f"run.env_steps={steps}")
    w.brood("run", config(w, steps), "--name", "calm")
    assert outcome(w.run_dir("calm"), steps) == outcome(run, steps)


def test_runs_on_a_memory_disk(w):
    if not os.access("/dev/shm", os.W_OK):
        raise harness.Skip("there is no /dev/shm to write to")
    with tempfile.TemporaryDirectory(prefix="brood-test-", dir="/dev/shm") as shm:
        runs = pathlib.Path(shm)
        p = w.start("run", config(w, harness.FOREVER), "--name", "quick", "--runs-dir", runs)
        run = runs / "quick"
        harness.wait_until("checkpoints", lambda: len(harness.checkpoints(run)) >= 2)
        harness.kill_holder(p, run)
        steps = harness.checkpoints(run)[-1] + 3000
        w.brood("resume", "quick", "--runs-dir", runs, "--set", f"run.env_steps={steps}")
        w.brood("eval", "quick", "--runs-dir", runs, "--episodes", "2")
        w.brood("run", config(w, steps), "--name", "calm")
        assert outcome(run, steps) == outcome(w.run_dir("calm"), steps)


def test_a_ramfs_is_not_taken_for_a_full_disk(w):
    """It says that it has 0 blocks, of which 0 are free: its limit is the memory."""
    disk = w.path / "disk"
    with small_disk(w, "run", w.small(steps=200), "--runs-dir", disk / "runs", "--quiet",
                    prepare=f"mount -t ramfs brood '{disk}'") as (p, _):
        assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
        assert "disk" not in p.log.read_text(), p.log.read_text()


if __name__ == "__main__":
    harness.main()
