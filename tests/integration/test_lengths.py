"""The length of a run: a length that it has passed is refused; a finished run can be made
longer while its log exists."""
import ctypes
import os
import pathlib
import shutil
import subprocess
import tempfile

import harness
from test_changes import final
from test_resume import as_it_was

AT = 1000


def stopped_within_its_evaluation(w, name, steps):
    """A run that was stopped at step AT, with the evaluation of that boundary still to do."""
    w.brood("run", w.small(steps=steps, evaluate=AT), "--name", name, "--detach",
            "--set", "evaluation.episodes=1000000")
    harness.wait_until("its evaluation", lambda: w.status(name)["env_steps"] == AT)
    return w.run_dir(name)


def test_a_length_that_is_past_is_refused_everywhere(w):
    run = stopped_within_its_evaluation(w, "run", 1_000_000)
    past = f"run.env_steps: 10 is past at step {AT}; `brood stop` ends the run"
    _, err = w.brood("set", run, "run.env_steps=10", code=2)
    assert past in err and err.count("\n") == 1, err
    _, err = w.brood("edit", run, code=2,
                     env={"EDITOR": "sed -i 's/env_steps: 1000000/env_steps: 10/'"})
    assert past in err, err
    w.brood("stop", run)
    assert harness.checkpoints(run)[-1] == AT
    for length in ("run.env_steps=10", f"run.env_steps={AT}"):
        with as_it_was(run):  # its experience log, too
            out, err = w.brood("resume", run, "--set", length, "--json", code=2)
        number = length.split("=")[1]
        assert f"run is to end at {number} steps and is at {AT}" in err, err
        assert err.count("\n") == 1 and not out, (out, err)
    with as_it_was(run):
        _, err = w.brood("resume", run, "--set", "run.env_steps=", "--set", "run.episodes=3",
                         code=2)
    assert "run is to end at 3 episodes and is at 40" in err, err
    assert w.status(run)["state"] == "stopped"

    # The same is refused for a finished run, with a different message.
    w.brood("run", w.small(steps=400), "--name", "done", "--set", "experience.keep=true")
    with as_it_was(w.run_dir("done")):
        _, err = w.brood("resume", "done", "--set", "run.env_steps=10", code=2)
        assert "done is to end at 10 steps and is at 400" in err, err
        _, err = w.brood("resume", "done", "--set", "run.env_steps=400")
        assert "done: done, 400 steps" in err, err
        # Another change is refused, too: nothing would follow it.
        _, err = w.brood("resume", "done", "--set", "defaults.discount=0.5", code=2)
        assert "had 'discount: 0.95', now it has 'discount: 0.5' (`brood fork RUN --set " in err, err


def test_a_run_that_was_stopped_can_be_resumed_at_once(w):
    """`stop` returns when the supervisor has let go of the run."""
    run = w.run_dir("again")
    w.brood("run", w.small(steps=10_000_000, evaluate=0, checkpoint=100_000), "--name",
            "again", "--detach")
    for _ in range(3 if harness.SANITIZED else 6):
        w.brood("stop", run)
        w.brood("resume", run, "--detach")
    w.brood("stop", run)


def test_the_length_that_it_had_finishes_what_is_left(w):
    run = stopped_within_its_evaluation(w, "run", AT)
    w.brood("stop", run)
    assert "eval/team_return/agent" not in harness.last_row(run)
    w.brood("resume", run, "--set", "evaluation.episodes=8", "--anyway")
    assert harness.checkpoints(run)[-1] == AT
    assert harness.last_row(run)["eval/team_return/agent"] < 0, harness.last_row(run)


def disk_bytes(path):
    return os.stat(path).st_blocks * 512


def test_a_run_that_is_done_can_be_made_longer(w):
    config = w.small(steps=400)
    w.brood("run", config, "--name", "run")
    run, log = w.run_dir("run"), w.run_dir("run") / "experience"
    (listed,) = harness.json_lines(w.brood("runs", "--json")[0])
    assert listed["disk_bytes"] >= disk_bytes(log) > 400 * 300, (listed, disk_bytes(log))
    _, err = w.brood("resume", run)
    assert "--set run.env_steps=N extends it" in err, err
    w.brood("resume", run, "--set", "run.env_steps=1200")
    w.brood("run", config, "--name", "calm", "--set", "run.env_steps=1200")
    assert final(run, 1200) == final(w.run_dir("calm"), 1200)

    # The disk space of the log can be freed.
    _, err = w.brood("resume", run, "--set", "experience.keep=false")
    assert "its experience log (" in err and "is removed" in err, err
    assert "--init-from run` begins a new run" in err and not log.exists(), err
    assert w.brood("resume", run, "--set", "run.env_steps=1600", code=3)
    w.brood("rm", run)
    assert not run.exists()


def test_rows_that_are_used_once_do_not_stay(w):
    """Of a run whose learners use windows, the log has those of its checkpoints; each of these can
    be continued exactly, beside kills. experience.keep: true keeps all rows."""
    n = 8000 if harness.SANITIZED else 40000
    config = w.small(steps=n, evaluate=0, checkpoint=n // 5)
    more = ("--set", "defaults.algorithm=ippo", "--set", "experience={update_every: 400}")
    w.brood("run", config, "--name", "a", *more)
    run = w.run_dir("a")
    log = run / "experience"
    row = (os.stat(log).st_size - (1 << 20)) / n
    kept = harness.checkpoints(run)
    assert len(kept) == 5, kept
    assert disk_bytes(log) < (0.7 if harness.SANITIZED else 0.25) * n * row, disk_bytes(log)
    w.brood("run", config, "--name", "all", *more, "--set", "experience.keep=true")
    assert disk_bytes(w.run_dir("all") / "experience") > 0.95 * n * row
    weights = {k: v for k, v in final(run, n).items() if ".data-" in k}
    every = final(w.run_dir("all"), n)
    assert len(weights) == 3 and all(every[k] == v for k, v in weights.items())
    for step in kept[0], kept[2]:
        w.brood("fork", f"a@{step}", "--name", f"from-{step}")
        p = w.start("resume", f"from-{step}")
        w.kill_agents(p, f"from-{step}")
        assert p.wait() == 0, p.log.read_text()
        assert final(run, n) == final(w.run_dir(f"from-{step}"), n)


def test_a_planned_length_is_the_same_after_a_resume(w):
    """Also in the states of the checkpoints before its step."""
    file = w.small(steps=1000, evaluate=0, checkpoint=200)
    planned = ("--set", "run.env_steps={at: {0: 1000, 700: 1400}}",
               "--set", "checkpoint.max_to_keep=0")
    w.brood("run", file, "--name", "calm", *planned)
    w.brood("run", file, "--name", "cut", *planned, "--until", 300, code=4)
    w.brood("resume", "cut")
    states = {name: {str(step): (w.run_dir(name) / "checkpoints" / str(step) / "run.state")
                     .read_bytes() for step in range(400, 1401, 200)} for name in ("calm", "cut")}
    harness.assert_same_files(states["calm"], states["cut"])


def test_a_length_that_the_run_would_not_get_to_is_refused(w):
    """Everywhere; one for the last boundary itself is in force there, as from the start."""
    file = w.small(steps=1000, evaluate=0, checkpoint=200)
    w.brood("run", file, "--name", "paused", "--detach", "--set", "run.env_steps=10000000")
    at = harness.pause(w, "paused")
    w.brood("set", "paused", f"run.env_steps={at + 1000}")
    _, err = w.brood("set", "paused", f"run.env_steps={at + 3000}", "--at-step", at + 2000, code=2)
    assert (f"run.env_steps: the run ends at step {at + 1000}, before the value of step "
            f"{at + 2000}; a length that is set without --at-step counts at once") in err, err
    _, err = w.brood("set", "paused", "run.env_steps=", "run.episodes=99999", "--at-step",
                     at + 2000, code=2)
    assert f"the run ends at step {at + 1000}" in err, err
    w.brood("set", "paused", f"run.env_steps={at + 1400}", "--at-step", at + 1000)
    w.brood("set", "paused", "checkpoint.every_env_steps=0")
    assert w.status("paused")["total_steps"] == at + 1400
    w.brood("continue", "paused")
    w.brood("wait", "paused")
    assert w.status("paused")["env_steps"] == at + 1400
    journal = (w.run_dir("paused") / "journal").read_text()
    assert f"step={at + 1000} event=changed changes=run.env_steps={at + 1400}\n" in journal, journal
    later = "run.env_steps={{at: {{0: 1000, {}: 1400}}}}"
    _, err = w.brood("check", file, "--set", later.format(1001), code=2)
    assert "the run ends at step 1000, before the value of step 1001" in err, err
    out, _ = w.brood("check", file, "--set", later.format(1000))
    assert "1400 steps" in out, out


def test_a_run_ends_where_a_length_was_in_force(w):
    """Also if its journal has one that it did not get to, as earlier builds accepted: a resume
    of the finished run changes nothing, and a fork ends where the run ends."""
    file = w.small(steps=800, evaluate=0, checkpoint=200)
    w.brood("run", file, "--name", "run")
    run = w.run_dir("run")
    calm = final(run, 800)
    (run / "journal").write_text(
        (run / "journal").read_text() + "2026-01-31T12:00:00.000Z step=100 event=set at=1000 "
        "changes=run.env_steps=1200\n")
    config = run / "config.yaml"
    config.write_text(config.read_text().replace("env_steps: 800\n", "env_steps: 1200\n", 1))
    for _ in range(2):
        _, err = w.brood("resume", "run")
        assert "run ended before its length could change: run.env_steps@1000" in err, err
        assert "run: done, 800 steps" in err and harness.checkpoints(run)[-1] == 800, err
    w.brood("resume", "run", "--from", "400")
    assert final(run, 800) == calm and harness.checkpoints(run)[-1] == 800
    w.brood("fork", "run@400", "--name", "fork")
    assert final(w.run_dir("fork"), 800) == calm
    assert harness.checkpoints(w.run_dir("fork"))[-1] == 800
    # The command may give the length that config.yaml has already.
    _, err = w.brood("resume", "run", "--set", "run.env_steps=1200")
    assert "cancelled: run.env_steps@1000" in err, err
    w.brood("run", file, "--name", "long", "--set", "run.env_steps=1200")
    assert final(run, 1200) == final(w.run_dir("long"), 1200)
    w.brood("resume", "run", "--from", "400")
    assert final(run, 1200) == final(w.run_dir("long"), 1200)


def test_a_run_that_was_made_longer_is_so_from_every_checkpoint(w):
    """With a length that a live run got afterwards."""
    w.brood("run", w.small(steps=400, evaluate=0, checkpoint=200), "--name", "run", "--set",
            "checkpoint.max_to_keep=0")
    w.brood("resume", "run", "--set", "run.env_steps=10000000", "--detach")
    at = harness.pause(w, "run")
    w.brood("set", "run", f"run.env_steps={at + 400}")
    w.brood("continue", "run")
    w.brood("wait", "run")
    run = w.run_dir("run")
    calm = final(run, at + 400)
    for step in 200, 400:
        w.brood("resume", "run", "--from", step)
        assert final(run, at + 400) == calm and harness.checkpoints(run)[-1] == at + 400
        w.brood("fork", f"run@{step}", "--name", f"fork{step}")
        assert final(w.run_dir(f"fork{step}"), at + 400) == calm


def test_what_was_the_length_at_the_start_stays_that_number(w):
    """It is shown, and a run for which it is given is as one that was long from the start."""
    file, priority = w.small(steps=400, evaluate=0), ("--set", "defaults.priority={alpha: 0.6}")
    out, _ = w.brood("check", file, *priority)
    assert "beta 0.4 to 1 over 400 steps (experience.priority.over)" in out, out
    w.brood("run", file, "--name", "run", *priority)
    _, err = w.brood("resume", "run", "--set", "run.env_steps=800")
    assert "experience.priority.over stays 400, whatever the length of the run" in err, err
    assert "over: 400\n" in (w.run_dir("run") / "config.yaml").read_text()
    w.brood("run", file, "--name", "long", *priority, "--set", "run.env_steps=800")
    w.brood("run", file, "--name", "given", "--set",
            "defaults.priority={alpha: 0.6, over: 800}")
    _, err = w.brood("resume", "given", "--set", "run.env_steps=800")
    assert "stays" not in err, err
    assert final(w.run_dir("given"), 800) == final(w.run_dir("long"), 800)
    assert final(w.run_dir("run"), 800) != final(w.run_dir("long"), 800)


def test_a_log_that_is_not_wanted_goes_with_a_line(w):
    _, err = w.brood("run", w.small(steps=400), "--name", "never",
                     "--set", "experience.keep=false")
    dropped = [line for line in err.splitlines() if "is removed" in line]
    assert len(dropped) == 1 and "GB" not in dropped[0], err
    assert not (w.run_dir("never") / "experience").exists()
    assert "event=log-dropped" in (w.run_dir("never") / "journal").read_text(), err

    # A live run accepts a new length, which is no difference for a resume.
    w.brood("run", w.small(steps=10_000_000), "--name", "live", "--detach")
    out, _ = w.brood("set", "live", "experience.keep=false")
    assert "experience.keep=false" in out, out
    w.brood("stop", "live")
    live = w.run_dir("live")
    end = harness.checkpoints(live)[-1] + 400
    _, err = w.brood("resume", live, "--set", "experience.keep=true", "--set",
                     f"run.env_steps={end}")
    assert (live / "experience").exists() and "anyway" not in err, err
    assert w.status(live)["exact"] is True


def test_a_log_that_is_large_goes_by_default(w):
    with tempfile.TemporaryDirectory(prefix="brood-test-") as disk:
        large_log_goes(w, pathlib.Path(disk))


def large_log_goes(w, disk):
    kind = subprocess.run(["stat", "-f", "-c", "%T", disk], capture_output=True, text=True)
    if kind.stdout.strip() == "tmpfs" or shutil.disk_usage(disk).free < 3 << 30:
        raise harness.Skip("no disk with 3 GB to spare")
    p = w.start("run", w.small(steps=10_000_000), "--name", "large", "--runs-dir", disk)
    run, log = disk / "large", disk / "large" / "experience"
    harness.wait_until("a checkpoint", lambda: harness.checkpoints(run))
    at = harness.pause(w, run)
    with open(log, "r+b") as f:  # space behind its end, which changes no byte of it
        libc = ctypes.CDLL(None, use_errno=True)
        keep_size = 1
        if libc.fallocate(f.fileno(), keep_size, ctypes.c_long(0), ctypes.c_long(10**9)):
            raise harness.Skip(os.strerror(ctypes.get_errno()))
    assert disk_bytes(log) >= 10**9
    w.brood("set", run, f"run.env_steps={at + 40}")
    w.brood("continue", run)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    err = p.log.read_text()
    assert "its experience log (1.0 GB, not below 1.0 GB) is removed" in err, err
    assert not log.exists() and "event=log-dropped" in (run / "journal").read_text()


if __name__ == "__main__":
    harness.main()
