"""A damaged experience log: a live run ends, and the command that it advises works."""
import re
import struct

import harness
from test_changes import journal
from test_resume import EVERY, HEADER_BYTES, as_it_was, calm_run, config, outcome, rows


def row_bytes(run):
    with open(run / "experience", "rb") as f:
        return struct.unpack_from("<16xQ", f.read(24))[0]


def zero(run, first, end):
    """Overwrite rows first to end - 1 with zeros; returns the file, still open."""
    size = row_bytes(run)
    f = open(run / "experience", "r+b")
    f.seek(HEADER_BYTES + first * size)
    f.write(bytes((end - first) * size))
    f.flush()
    return f


def advice(err):
    """The only command, as words, in the message of a failure."""
    found = re.findall(r"`brood ([^`]*)`", err)
    assert len(found) == 1, err
    return found[0].split()


def damage_named(err, first, end):
    """Check that the damaged rows in the message include first to end - 1; the line."""
    lines = [line for line in err.splitlines() if "damaged" in line]
    assert len(lines) == 1, err
    low, high = map(int, re.search(r"/experience: rows (\d+) to (\d+) are damaged",
                                   lines[0]).groups())
    assert low <= first and end - 1 <= high, (lines, first, end)
    return lines[0]


def test_live_damage_ends_the_run(w):
    p = w.start("run", config(w, steps=harness.FOREVER), "--name", "run")
    run = w.run_dir("run")
    harness.wait_until("checkpoints", lambda: len(harness.checkpoints(run)) >= 3)
    w.brood("pause", run)
    harness.wait_until("no checkpoint under way", lambda: not list(
        (run / "checkpoints").glob(".tmp-*")))
    kept = harness.checkpoints(run)
    newest = kept[-1]
    with zero(run, newest - 100, newest - 50):  # the next checkpoint notices
        w.brood("continue", run)
        assert p.wait(timeout=harness.DEADLINE_S) == 1, p.log.read_text()
    err = p.log.read_text()
    line = damage_named(err, newest - 100, newest - 50)
    assert line.startswith("brood run: "), err
    assert harness.checkpoints(run) == kept, (harness.checkpoints(run), kept)
    assert len(journal(run, "failed")) == 1 and "damaged" in journal(run, "failed")[0]

    # The advised command continues exactly from where the log is intact, not from the newest.
    assert advice(err) == ["resume", str(run.relative_to(w.path)), "--from", str(kept[-2])], err
    with as_it_was(run):
        _, refusal = w.brood("resume", run, code=1)
    damage_named(refusal, newest - 100, newest - 50)
    assert advice(refusal) == ["resume", str(run), "--from", str(kept[-2])], refusal
    end = (newest // (2 * EVERY) + 2) * 2 * EVERY
    w.brood(*advice(err), "--set", f"run.env_steps={end}")
    calm = calm_run(w, "calm", end)
    found = outcome(run, end)
    for name in calm:
        assert name.split("/")[0] not in ("progress.csv", str(end)) or \
            calm[name] == found[name], name


def test_who_else_writes_is_noticed_at_once(w):
    """Also between checkpoints; damage newer than the last checkpoint does not affect it."""
    p = w.start("run", config(w, steps=harness.FOREVER), "--name", "run",
                "--set", "checkpoint.every_env_steps=0")
    run = w.run_dir("run")
    harness.wait_until("rows", lambda: (run / "experience").exists() and
                       (run / "experience").stat().st_size > HEADER_BYTES and rows(run) > 2000)
    w.brood("checkpoint", run)
    newest = harness.checkpoints(run)[-1]
    harness.wait_until("more rows", lambda: rows(run) > newest + 200)
    with open(run / "experience", "r+b"):  # who changes nothing changes nothing
        pass
    harness.wait_until("a look at it", lambda: "open for writing" in
                       (run / "logs/supervisor.log").read_text())
    w.brood("pause", run)
    w.brood("continue", run)
    zero(run, newest + 50, newest + 60).close()
    assert p.wait(timeout=harness.DEADLINE_S) == 1, p.log.read_text()
    damage_named(p.log.read_text(), newest + 50, newest + 60)
    assert advice(p.log.read_text()) == ["resume", str(run.relative_to(w.path))]
    assert harness.checkpoints(run)[-1] == newest
    w.brood("resume", run, "--set", f"run.env_steps={newest + 400}")


def test_prune_keeps_the_checkpoint_that_can_be_resumed(w):
    w.brood("run", config(w, steps=6 * EVERY), "--name", "run",
            "--set", "checkpoint.max_to_keep=0", "--set", "experience.keep=true",
            "--set", "evaluation.every_env_steps=0")  # no checkpoint is the best
    run = w.run_dir("run")
    *_, resumable, before, newest = harness.checkpoints(run)
    zero(run, newest - 20, newest - 10).close()
    zero(run, before - 20, before - 10).close()
    with as_it_was(run):
        w.brood("prune", "run", "--dry-run")
    config_file = run / "config.yaml"
    good = config_file.read_text()
    config_file.write_text(good + "unknown: 1\n")  # so that the log's capacity is not known
    with as_it_was(run):
        _, err = w.brood("prune", "run", code=1)
    assert "config.yaml" in err and "unknown" in err and err.count("\n") == 1, err
    config_file.write_text(good)
    w.brood("prune", "run")
    kept = harness.checkpoints(run)
    assert {resumable, newest} <= set(kept) and before not in kept, (kept, resumable, newest)
    _, refusal = w.brood("resume", run, "--set", f"run.env_steps={7 * EVERY}", code=1)
    assert advice(refusal) == ["resume", str(run), "--from", str(resumable)], refusal
    w.brood(*advice(refusal), "--set", f"run.env_steps={7 * EVERY}")


def test_a_log_that_is_too_short(w):
    p = w.start("run", config(w, steps=harness.FOREVER), "--name", "run")
    run = w.run_dir("run")  # the checkpoint of step 0, which needs no rows, has gone
    harness.wait_until("checkpoints", lambda: (harness.checkpoints(run) or [0])[0] > 0)
    harness.kill_holder(p, run)
    end = harness.checkpoints(run)[-1] + 2 * EVERY
    kept = harness.checkpoints(run)
    short = harness.copy_run(run, w.path / "short")
    with open(short / "experience", "r+b") as f:
        f.truncate(HEADER_BYTES + (kept[-2] + 3) * row_bytes(run))
    with as_it_was(short):
        _, err = w.brood("resume", short, code=1)
        assert "experience is cut short" in err, err
        words = advice(err)
        assert words == ["resume", str(short), "--from", str(kept[-2])], err
    w.brood(*words, "--set", f"run.env_steps={end}")

    # No checkpoint's rows are there: its weights are.
    with open(run / "experience", "r+b") as f:
        f.truncate(HEADER_BYTES + 10 * row_bytes(run))
    with as_it_was(run):
        for more in ((), ("--from", kept[0])):
            _, err = w.brood("resume", run, *more, code=1)
            assert "lacks rows that every checkpoint needs" in err, err
            words = advice(err)
            assert words[0] == "run" and words[2:] == ["--init-from", str(run)], err
        w.brood(*words, "--name", "anew", "--set", "run.env_steps=400")
    assert (w.run_dir("anew") / "checkpoints/400").is_dir()


if __name__ == "__main__":
    harness.main()
