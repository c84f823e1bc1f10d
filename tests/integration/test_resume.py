"""A run whose supervisor is killed resumes from its newest complete checkpoint, and ends
with the same bytes as an undisturbed run."""
import contextlib
import json
import os
import random
import re
import shutil
import struct
import subprocess
import time

import harness

STEPS = 1200
EVERY = 200
CAPACITY = 200  # which a run passes six times
COPIES = 4
HEADER_BYTES = 1 << 20  # of the experience log (common/store/layout.h)
# The sanitizers see the others' steps in the unit tests.
OPTIMIZERS = ("adam", "sgd", "momentum", "rmsprop", "accept_reject") \
    if not harness.SANITIZED else ("adam", "accept_reject")
# Random moments for each optimiser; test_crash_points.py has those at which files change.
KILLS_EACH = int(os.environ.get("BROOD_KILLS", 2 if harness.SANITIZED else 5))

CONFIG = """
run: {{name: small, seed: 1, env_steps: {steps}}}
env: {{id: simple_spread, copies: {copies}, params: {{agents: 3}}}}
experience: {{capacity: {capacity}, batch_size: 64, warmup: 100, update_every: 20,
             keep: false}}
evaluation: {{every_env_steps: 600, episodes: 8}}
checkpoint: {{every_env_steps: {every}, max_to_keep: 4}}
log: {{every_env_steps: 400}}
defaults:
  algorithm: {algorithm}
  settings: {{{settings}}}
  optimizer: {{type: {optimizer}}}
  actor: {{hidden: [16, 16]}}
  critic: {{hidden: [16, 16]}}
"""


def config(w, optimizer="adam", steps=STEPS, algorithm="maddpg", settings=""):
    return w.write(f"{algorithm}-{optimizer}-{steps}.yaml",
                   CONFIG.format(steps=steps, optimizer=optimizer, every=EVERY,
                                 capacity=CAPACITY, copies=COPIES, algorithm=algorithm,
                                 settings=settings))


def rows(run):
    """The number of rows in the experience log, that is, of environment steps."""
    log = run / "experience"
    with open(log, "rb") as f:
        row_bytes = struct.unpack_from("<16xQ", f.read(24))[0]
    return (log.stat().st_size - HEADER_BYTES) // row_bytes


def outcome(run, steps=STEPS):
    """What must be equal: the checkpoints, and progress.csv without its times."""
    files = {name: data for name, data in harness.tree_bytes(run / "checkpoints").items()
             if not name.startswith(".bad-")}
    assert f"{steps}/run.state" in files, files.keys()
    files["progress.csv"] = harness.progress_without_times(run)
    return files


@contextlib.contextmanager
def as_it_was(run):
    """No file of the run may change except the lock, which has the supervisor's pid, and the
    logs of the supervisor and its agents."""
    def look():
        return harness.tree_bytes(run, lambda p: p != run / "lock" and
                                  p.parent != run / "logs")
    before = look()
    yield
    harness.assert_same_files(before, look())


def start_and_kill(w, name, path, moment_s):
    """Start a run and SIGKILL its supervisor moment_s after its first checkpoint; None if
    the run had ended by then."""
    run = w.run_dir(name)
    p = w.start("run", path, "--name", name)
    harness.wait_until("the first checkpoint", lambda: (run / "checkpoints/0").is_dir())
    until = time.monotonic() + moment_s
    while time.monotonic() < until and p.poll() is None:
        time.sleep(0.0005)
    if p.poll() is None:  # otherwise the pid may be another process's by now
        harness.kill_holder(p, run)
    return run if (run / "experience").exists() else None


def killed_run(w, name, least_checkpoints=2, path=None):
    """An endless run whose supervisor was killed once it had this many checkpoints, and the
    step at which its resume is to end: so late that none of those checkpoints is kept, and
    at the end of a row."""
    run = w.run_dir(name)
    p = w.start("run", path or config(w, steps=harness.FOREVER), "--name", name)
    harness.wait_until("checkpoints", lambda:
                       len(harness.checkpoints(run)) >= least_checkpoints)
    harness.kill_holder(p, run)
    return run, (harness.checkpoints(run)[-1] // (2 * EVERY) + 3) * 2 * EVERY


def until(steps):
    return ("--set", f"run.env_steps={steps}")


def calm_run(w, name, steps, path=None):
    """The outcome of an undisturbed run of that length."""
    w.brood("run", path or config(w), "--name", name, *until(steps))
    return outcome(w.run_dir(name), steps)


def resume(w, run, *more, code=0, **how):
    """brood resume; (its start event or None, stderr)."""
    out, err = w.brood("resume", run, "--json", *more, code=code, **how)
    events = harness.json_lines(out)
    return (events[0] if events else None), err


def assert_little_is_lost(run):
    """At most one interval is computed again. Only if the kill came while a checkpoint was
    being written, what was computed since then comes on top: no more than an interval,
    since at the next boundary training waits. Returns whether it came then."""
    made, newest = rows(run), harness.checkpoints(run)[-1]
    begun = [int(p.name[len(".tmp-"):]) for p in (run / "checkpoints").glob(".tmp-*")]
    for step in begun:
        assert newest < step <= newest + EVERY, (made, newest, begun)
    assert made <= max([newest, *begun]) + EVERY, (made, newest, begun)
    return bool(begun)


def test_kills_at_random_moments(w):
    draw = random.Random(11)
    for optimizer in OPTIMIZERS:
        path = config(w, optimizer)
        began = time.monotonic()
        w.brood("run", path, "--name", f"{optimizer}-calm")
        lasts = time.monotonic() - began
        calm = outcome(w.run_dir(f"{optimizer}-calm"))
        done = attempts = while_written = 0
        while done < KILLS_EACH:
            attempts += 1
            run = start_and_kill(w, f"{optimizer}{attempts}", path,
                                 draw.uniform(0, 0.8 * lasts))
            if run is None:  # over by then: this machine got faster
                lasts *= 0.8
                continue
            newest = harness.checkpoints(run)[-1]
            if newest == STEPS:  # nothing was left to do but to end
                resume(w, run)
                assert not (run / "experience").exists()
                continue
            while_written += assert_little_is_lost(run)
            left = run / "config.yaml.tempstate1000"  # as if killed while it is written
            left.write_text("run:")
            start, _ = resume(w, run)
            assert not left.exists()
            assert start["from_checkpoint"] == newest, (start, newest)
            harness.assert_same_files(calm, outcome(run))
            done += 1
        print(f"# {optimizer}: {done} kills, {while_written} of them while a checkpoint "
              "was being written")


def test_whoever_learns_goes_on_as_if_nothing_had_happened(w):
    for algorithm, settings in (("ddpg", ""), ("iql", "reward_scale: standard"),
                                ("maddpg", "symmetry: env"), ("matd3", "policy_delay: 3")):
        path = config(w, steps=harness.FOREVER, algorithm=algorithm, settings=settings)
        run, end = killed_run(w, algorithm, path=path)
        newest = harness.checkpoints(run)[-1]
        start, _ = resume(w, run, *until(end))
        assert newest >= EVERY and start["from_checkpoint"] == newest, (start, newest)
        harness.assert_same_files(calm_run(w, f"{algorithm}-calm", end, path),
                                  outcome(run, end))


def leave(run, step):
    """What a supervisor leaves that is killed as it removes a checkpoint and writes files."""
    left = [run / "checkpoints" / f".del-{step}" / "run.state", run / "config.yaml.tempstate1000",
            run / "provenance.tempstate77001", run / "tags.tempstate1000",
            run / "checkpoints" / f".tmp-{step}" / "run.state"]
    for path in left:
        path.parent.mkdir(exist_ok=True)
        path.write_text("left over")
    return left


def test_nothing_that_a_kill_left_stays(w):
    """Also of a run that is done; what somebody else has put there does."""
    w.brood("run", config(w, steps=2 * EVERY), "--name", "run", "--set", "checkpoint.max_to_keep=0",
            "--set", "experience.keep=true")
    run = w.run_dir("run")
    foreign = [run / "checkpoints" / f"{2 * EVERY:07}", run / "checkpoints" / "notes",
               run / "notes.tempstate"]
    for path in foreign[:2]:
        path.mkdir()
    foreign += [run / "checkpoints" / "99999"]  # no folder
    for path in foreign[2:]:
        path.write_text("mine")
    names = sorted(os.listdir(run)) + sorted(os.listdir(run / "checkpoints"))

    def assert_tidy():
        assert not any(path.exists() for path in left), left
        assert names == sorted(os.listdir(run)) + sorted(os.listdir(run / "checkpoints"))

    left = leave(run, EVERY)
    w.brood("tag", run, "seen")
    assert not left[3].exists()
    w.brood("resume", run)
    names = sorted(names[:names.index("0")] + ["tags"]) + names[names.index("0"):]
    assert_tidy()
    left = leave(run, EVERY)
    left.pop(3).unlink()  # only who tags removes it
    w.brood("prune", run, "--dry-run")
    w.brood("prune", run, "--keep", 9)
    assert_tidy()
    left = leave(run, EVERY)
    left.pop(3).unlink()
    w.brood("resume", run, "--from", EVERY)
    assert_tidy()
    w.brood("prune", run)
    assert harness.checkpoints(run) == [2 * EVERY], harness.checkpoints(run)
    assert all(path.exists() for path in [*foreign, run / "checkpoints" / str(2 * EVERY)])


def test_two_kills_and_an_extension(w):
    run, _ = killed_run(w, "run")
    newest = harness.checkpoints(run)[-1]
    p = w.start("resume", run)
    harness.wait_until("a new one", lambda: harness.checkpoints(run)[-1] > newest)
    harness.kill_holder(p, run)
    # The end closes a row of progress.csv: where one is closed anyway, it shows no seam.
    end = (harness.checkpoints(run)[-1] // (2 * EVERY) + 2) * 2 * EVERY
    w.brood("resume", run, *until(end))
    out, err = w.brood("resume", run, "--json")
    assert err.count("\n") == 1 and "done" in err and "extends" not in err, err
    begun, done = harness.json_lines(out)
    assert begun.pop("time") <= done["time"], (begun, done)
    assert begun == {"event": "start", "run": "run", "env_steps": end, "episodes": None,
                     "from_checkpoint": end}, begun
    assert done["event"] == "done" and done["env_steps"] == end and done["restarts"] == 0 \
        and done["team_return_mean"] < 0, done

    # Without its rows it cannot be made longer; one that kept them can.
    longer = end + 2 * EVERY
    with as_it_was(run):
        _, err = w.brood("resume", run, *until(longer), code=3)
    assert "experience is missing" in err and "--init-from run" in err, err
    assert err.count("\n") == 1, err
    assert "run: done" in w.brood("status", run)[0]
    keep = ("--set", "experience.keep=true")
    w.brood("run", config(w), "--name", "kept", *until(end), *keep)
    _, err = w.brood("resume", "kept")
    assert "--set run.env_steps=N extends it" in err, err
    start, _ = resume(w, w.run_dir("kept"), *until(longer))
    assert start["env_steps"] == longer and start["from_checkpoint"] == end
    w.brood("run", config(w), "--name", "calm", *until(longer), *keep)
    calm, kept = (outcome(w.run_dir(name), longer) for name in ("calm", "kept"))
    for name in calm:
        if name == "progress.csv" or name.startswith(f"{longer}/"):
            assert calm[name] == kept[name], name
    assert f"env_steps: {longer}" in (w.run_dir("kept") / "config.yaml").read_text()


def copy(run, name):
    to = run.with_name(name)
    subprocess.run(["cp", "-a", "--sparse=always", run, to], check=True)
    return to


def flip(path, at, bits=0x10):
    data = bytearray(path.read_bytes())
    data[at] ^= bits
    path.write_bytes(data)


def test_every_kept_one_serves_when_the_newer_are_damaged(w):
    run, end = killed_run(w, "run", least_checkpoints=4)
    calm = calm_run(w, "calm", end)
    kept = harness.checkpoints(run)
    damages = [lambda p, s: flip(p / "run.state", 3000),
               lambda p, s: flip(p / f"agent_1/model.ckpt-{s}.data-00000-of-00001", 700),
               lambda p, s: (p / f"agent_2/model.ckpt-{s}.index").unlink()]
    for i, step in enumerate(kept[:-1]):
        damaged = copy(run, f"damaged{step}")
        newer = kept[i + 1:]
        for k, bad in enumerate(newer):
            damages[k % 3](damaged / "checkpoints" / str(bad), bad)
        start, err = resume(w, damaged, *until(end))
        assert start["from_checkpoint"] == step, (start, kept)
        for bad in newer:
            assert len(re.findall(rf"checkpoint {bad}: .*older", err)) == 1, err
            assert (damaged / "checkpoints" / f".bad-{bad}" / "run.state").exists(), bad
        harness.assert_same_files(calm, outcome(damaged, end))

        asked = copy(run, f"asked{step}")
        start, _ = resume(w, asked, "--from", step, *until(end))
        assert start["from_checkpoint"] == step
        harness.assert_same_files(calm, outcome(asked, end))
    for step in kept:
        (run / "checkpoints" / str(step) / "run.state").write_bytes(b"brodrun1")
    _, err = resume(w, run, code=3)
    assert err.splitlines()[-1].endswith("no complete checkpoint"), err


def test_rows_whose_file_was_never_finished_begin_again(w):
    run, end = killed_run(w, "run", least_checkpoints=2)
    csv = run / "metrics" / "progress.csv"
    header = csv.read_text().splitlines()[0]
    for text in ("", header[:20]):
        again = copy(run, f"cut{len(text)}")
        (again / "metrics" / "progress.csv").write_text(text)
        start, _ = resume(w, again, *until(end))
        lines = (again / "metrics" / "progress.csv").read_text().splitlines()
        assert lines[0] == header and int(lines[1].split(",")[0]) > start["from_checkpoint"]


def test_rows_of_other_columns_are_refused_before_anything_is_removed(w):
    w.brood("run", config(w), "--name", "run", "--set", "experience.keep=true", *until(400))
    run = w.run_dir("run")
    progress = run / "metrics" / "progress.csv"
    was = progress.read_text()
    progress.write_text(was.replace("episode_length", "episode_len", 1))
    with as_it_was(run):
        _, err = resume(w, run, "--from", "200", code=1)
    assert f"{progress} has other columns than this run; " in err, err
    assert w.status("run")["state"] == "done"
    shutil.rmtree(run / "metrics")
    shutil.rmtree(run / "logs")
    resume(w, run, "--from", "200")
    lines = progress.read_text().splitlines()
    assert lines[0] == was.splitlines()[0] and lines[1].startswith("400,"), lines


def test_a_missing_or_damaged_log_is_refused(w):
    run, end = killed_run(w, "run", least_checkpoints=3)
    newest = harness.checkpoints(run)[-1]
    made = rows(run)
    log = run / "experience"
    size = log.stat().st_size
    row_bytes = (size - HEADER_BYTES) // made

    def refused(what, code=1):
        with as_it_was(run):
            start, err = resume(w, run, code=code)
        said = [line for line in err.splitlines() if what in line]
        assert len(said) == 1 and str(log) in said[0], err

    log.rename(run / "elsewhere")
    refused("missing", 3)
    (run / "elsewhere").rename(log)
    for at in (HEADER_BYTES + (newest - 1) * row_bytes + 9,
               HEADER_BYTES + max(0, newest - CAPACITY) * row_bytes):
        with open(log, "r+b") as f:
            f.seek(at)
            byte = f.read(1)[0]
            f.seek(at)
            f.write(bytes([byte ^ 1]))
            f.flush()
            refused("damaged")
            f.seek(at)
            f.write(bytes([byte]))
    whole = copy(run, "whole")
    with open(log, "r+b") as f:
        f.truncate(HEADER_BYTES + (newest - 1) * row_bytes)
    refused("cut short")
    resume(w, whole, *until(end))
    harness.assert_same_files(calm_run(w, "calm", end), outcome(whole, end))


def set_section(path, name, change):
    """Rewrite one section of a run.state (supervisor/save/checkpoint_format.h), and its
    checksum."""
    data = path.read_bytes()
    head = struct.pack("<I", len(name)) + name
    at = data.index(head) + 4
    (length,) = struct.unpack_from("<Q", data, at + len(name))
    begin = at + len(name) + 8
    new = change(data[begin:begin + length])
    assert len(new) == length
    path.write_bytes(data[:begin] + new + harness.masked_crc32c(name + new) +
                     data[begin + length + 4:])


def other_build(w):
    """brood with an agent of another build id, and nothing else changed."""
    folder = w.path / "other"
    folder.mkdir()
    shutil.copy(harness.BROOD, folder / "brood")
    agent = folder / "brood-agent"
    shutil.copy(harness.AGENT, agent)
    out, _ = w.brood("version", "--json")
    build_id = bytes.fromhex(json.loads(out)["build_id"])
    data = agent.read_bytes()
    assert data.count(build_id) == 1
    agent.write_bytes(data.replace(build_id, bytes(b ^ 0xff for b in build_id)))
    return folder / "brood"


def test_what_changed_is_refused_unless_anyway(w):
    run, end = killed_run(w, "run")
    _, err = resume(w, run, "--set", "env.max_steps=20", code=2)
    assert "'max_steps: 25'" in err and "'max_steps: 20'" in err, err
    resume(w, run, *until(end))
    harness.assert_same_files(calm_run(w, "calm", end), outcome(run, end))


def test_anyway_takes_the_configuration_that_was_given(w):
    run, end = killed_run(w, "run")
    rate = ("--set", "defaults.optimizer.learning_rate=0.0123")
    as_it_was = copy(run, "as-it-was")
    _, err = resume(w, run, *rate, code=2)
    assert "learning_rate: 0.003" in err and "learning_rate: 0.0123" in err, err
    _, err = resume(w, run, *rate, "--anyway", *until(end), "--quiet")
    assert "learning_rate" in err and "continues from step" not in err, err
    resume(w, as_it_was, *until(end))

    # The new value is in the blocks, where agents read it, and affects what they learn.
    new, old = (struct.pack("<f", x) for x in (0.0123, 0.003))
    state = (run / "checkpoints" / str(end) / "run.state").read_bytes()
    assert state.count(new) == 2 * 3 and old not in state  # where it begins, where it ends
    files = outcome(run, end)
    other = outcome(as_it_was, end)
    for name in files:
        if name.startswith(f"{end}/") and ".data" in name:
            assert files[name] != other[name], name
    assert "learning_rate: 0.0123" in (run / "config.yaml").read_text()


def data_of(run, step, agent="agent_0"):
    return (run / "checkpoints" / str(step) / agent /
            f"model.ckpt-{step}.data-00000-of-00001").read_bytes()


def test_new_training_from_old_weights(w):
    w.brood("run", config(w), "--name", "old", *until(800))
    old, elsewhere = w.run_dir("old"), w.path / "me@host"
    elsewhere.mkdir()
    (elsewhere / "old").symlink_to(old)
    for i, (form, step) in enumerate((("old", 800), ("old@600", 600), (old, 800),
                                      (f"{old}@200", 200), (elsewhere / "old", 800),
                                      (f"{elsewhere / 'old'}@200", 200))):
        w.brood("run", config(w), "--name", f"new{i}", "--init-from", form, *until(400))
        assert data_of(w.run_dir(f"new{i}"), 0) == data_of(old, step)
    for form, code, says in (("old@777", 3, "no checkpoint of step 777"),
                             ("old@x", 3, "no checkpoint of step x"),
                             ("nowhere", 3, "no run nowhere")):
        _, err = w.brood("run", config(w), "--name", "wrong", "--init-from", form, code=code)
        assert err.count("\n") == 1 and says in err, err
        assert not w.run_dir("wrong").exists()
    _, err = w.brood("run", config(w), "--name", "other", "--init-from", "old", "--set",
                     "defaults.actor.hidden=[5]", "--quiet", code=2)
    assert "expected" in err and "p_func/fully_connected" in err, err
    for step, code in ((800, 0), (600, 0), (777, 3)):
        out, err = w.brood("eval", "old", "--checkpoint", step, "--episodes", "2", "--json",
                           code=code)
        assert code != 0 or json.loads(out)["checkpoint_step"] == step
        assert code == 0 or err.count("\n") == 1, err


def test_weights_that_do_not_fit_leave_the_old_run_and_no_new_one(w):
    w.brood("run", config(w), "--name", "old", *until(400))
    w.brood("run", config(w), "--name", "smaller", *until(400), "--set",
            "defaults.actor.hidden=[5]")
    w.brood("run", w.write("two.yaml", harness.SMALL.format(
        steps=400, evaluate=0, checkpoint=200).replace("agents: 3", "agents: 2")), "--name", "two")
    before = harness.tree_bytes(w.run_dir("old"))
    for source, says in (("smaller", "agent_0/p_func/fully_connected"),
                         ("two", "checkpoint 400 has no agent agent_2")):
        for more in (("--name", "old", "--force"), ("--name", "new"),
                     ("--name", "old", "--seeds", "1,2")):
            _, err = w.brood("run", config(w), *more, "--init-from", source, "--quiet", code=2)
            assert f"the weights of runs/{source}/checkpoints/400 do not fit" in err, err
            assert says in err.replace("agent_1/", "agent_0/").replace("agent_2/", "agent_0/"), err
            assert err.count("\n") == 1 and len(os.listdir(w.runs)) == 3, err
    harness.assert_same_files(before, harness.tree_bytes(w.run_dir("old")))


def test_all_seeds_begin_with_one_checkpoint(w):
    """Also if it is removed when the first one has begun."""
    w.brood("run", config(w), "--name", "old", *until(400))
    weights = data_of(w.run_dir("old"), 400)
    series = ("run", config(w), "--init-from", "old", *until(400), "--seeds", "1,2")
    w.brood(*series, "--name", "both", "--jobs", "2")
    p = w.start(*series, "--name", "new")
    harness.wait_until("the first seed", (w.run_dir("new-s1") / "journal").exists)
    shutil.rmtree(w.run_dir("old") / "checkpoints" / "400")
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    for name in ("new-s1", "new-s2", "both-s1", "both-s2"):
        assert data_of(w.run_dir(name), 0) == weights
        command = (w.run_dir(name) / "provenance").read_text()
        assert ("--init-from runs/old@400" in command) is name.startswith("both"), command


def test_agents_start_once_with_the_weights_of_others(w):
    """What fits is known from the trial of the configuration. One whose weights do not fit is
    asked what is wrong with them."""
    w.brood("run", config(w), "--name", "old", *until(400))
    w.brood("run", config(w), "--name", "wider", *until(400), "--set",
            "agents.agent_1.actor.hidden=[5]", "--set", "defaults.critic.input=own")
    program = w.program_with_agent(harness.FAULT_AGENT)
    counts = program.parent.parent

    def started():
        """How many processes of each name there were."""
        found = {path.stem: len(path.read_bytes()) for path in counts.rglob("*.runs")}
        for path in counts.rglob("*.runs"):
            path.unlink()
        return found
    env = {"BROOD_FAULT": "nobody:learn:before-read:1,kill"}
    w.brood("run", config(w), "--name", "new", "--init-from", "old", *until(400),
            program=program, env=env)
    assert data_of(w.run_dir("new"), 0) == data_of(w.run_dir("old"), 400)
    found = started()
    assert found.pop("trial") <= 3 and found == {f"agent_{i}": 1 for i in range(3)}, found
    _, err = w.brood("run", config(w), "--name", "no", "--init-from", "wider", "--set",
                     "defaults.critic.input=own", "--quiet", code=2, program=program, env=env)
    assert "do not fit this run: agent agent_1" in err and "expected" in err, err
    found = started()
    assert found.pop("trial") <= 3 and found == {"agent_1": 1}, found


def copies(w):
    return list(w.runs.glob(".init-*"))


def test_a_series_keeps_the_checkpoint_that_it_begins_with(w):
    """Which the other run removes before the last ones begin; whose copy a kill has left, the
    next series removes."""
    w.brood("run", config(w), "--name", "old", *until(400))
    weights = data_of(w.run_dir("old"), 400)
    series = ("run", config(w), "--init-from", "old", "--seeds", "1-3", "--jobs", "2")
    p = w.start(*series, *until(harness.FOREVER), "--name", "killed")
    harness.wait_until("the first seeds", lambda: all(
        harness.checkpoints(w.run_dir(f"killed-s{i}")) for i in (1, 2)))
    everybody = harness.members(p.pid)
    harness.kill_and_wait(p.pid)
    p.wait()
    harness.wait_until("the end of all", lambda: not list(filter(harness.alive, everybody)))
    left, = copies(w)
    # Only what a series left: anybody who may rename in the folder can give a run such a name.
    run = w.runs / ".init-0123456789abcdef"
    shutil.copytree(w.run_dir("old"), run)
    before = harness.tree_bytes(run)
    p = w.start(*series, *until(400), "--name", "new")
    harness.wait_until("the first seed", (w.run_dir("new-s1") / "journal").exists)
    copy, = set(copies(w)) - {run}
    assert copy != left and harness.tree_bytes(run) == before
    shutil.rmtree(w.run_dir("old") / "checkpoints" / "400")
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    for i in (1, 2, 3):
        assert data_of(w.run_dir(f"new-s{i}"), 0) == weights
    assert copies(w) == [run]


def test_the_newest_weights_of_a_run_that_drops_checkpoints(w):
    """Another one is taken if one is removed before it was read."""
    p = w.start("run", config(w), "--name", "live", *until(harness.FOREVER), "--set",
                "checkpoint={every_env_steps: 40, max_to_keep: 1}")
    harness.wait_until("a checkpoint", lambda: harness.checkpoints(w.run_dir("live")))
    for i in range(8):
        w.brood("eval", "live", "--episodes", "2")
        w.brood("run", config(w), "--name", f"new{i}", "--init-from", "live", "--until", "1",
                code=4)
    assert p.poll() is None, p.log.read_text()


def test_old_weights_are_those_of_the_newest_complete_one(w):
    w.brood("run", config(w), "--name", "old", *until(400))
    folder = w.run_dir("old") / "checkpoints"
    evaluate = ("eval", "old", "--episodes", "2", "--json")
    says = re.compile(r"checkpoint 400: agent_1: .*checksum mismatch.*; trying the next older one")
    flip(folder / "400/agent_1/model.ckpt-400.data-00000-of-00001", 700)
    _, err = w.brood("run", config(w), "--name", "new", "--init-from", "old", *until(400),
                     "--quiet")
    assert len(says.findall(err)) == 1 and err.count("\n") == 1, err
    assert data_of(w.run_dir("new"), 0) == data_of(w.run_dir("old"), 200)
    out, err = w.brood(*evaluate)
    assert json.loads(out)["checkpoint_step"] == 200 and says.search(err), (out, err)
    # A resume from a damaged one is refused with the reason.
    for args in ((*evaluate, "--checkpoint", "400"),
                 ("run", config(w), "--name", "no", "--init-from", "old@400", "--quiet")):
        _, err = w.brood(*args, code=1)
        assert "checksum mismatch" in err, err
    for step in (0, 200):
        (folder / str(step) / "run.state").unlink()
    _, err = w.brood("run", config(w), "--name", "none", "--init-from", "old", code=3)
    assert err.splitlines()[-1].endswith("no complete checkpoint"), err
    assert err.count("\n") == 4 and not w.run_dir("none").exists(), err


def test_the_kept_ones_are_those_of_a_run_that_nobody_disturbed(w):
    """max_to_keep counts what was kept before the kill."""
    run, end = killed_run(w, "run", least_checkpoints=3)
    before = harness.checkpoints(run)
    resume(w, run, *until(before[-1] + EVERY))
    assert harness.checkpoints(run) == [*before, before[-1] + EVERY][-4:]
    assert not list((run / "checkpoints").glob(".*"))


def test_a_live_run_is_left_alone(w):
    p = w.start("run", config(w, steps=harness.FOREVER), "--name", "live")
    run = w.run_dir("live")
    harness.wait_until("a checkpoint", lambda: (run / "checkpoints/0").is_dir())
    _, err = resume(w, run, code=2)
    assert "live" in err, err
    assert str(harness.holder_of(run)) in err, err
    _, err = resume(w, "nowhere", code=3)
    harness.kill_holder(p, run)


def tag_steps(path):
    """The steps of an event file's records, and whether it ends with a whole one."""
    data, at, steps = path.read_bytes(), 0, []
    while at + 12 <= len(data):
        (length,) = struct.unpack_from("<Q", data, at)
        event = data[at + 12:at + 12 + length]
        at += 16 + length
        if event[9:10] == b"\x10":  # field 2, a varint
            step = shift = 0
            for byte in event[10:]:
                step |= (byte & 0x7f) << shift
                shift += 7
                if byte < 0x80:
                    break
            steps.append(step)
    return steps, at == len(data)


def test_event_files_go_on_without_a_gap(w):
    run, end = killed_run(w, "run", least_checkpoints=3)
    for path in (run / "metrics").glob("events.out.tfevents.*"):
        with open(path, "ab") as f:
            f.write(b"half a record")
    resume(w, run, "--from", harness.checkpoints(run)[-2], *until(end))
    found = []
    for path in sorted((run / "metrics").glob("events.out.tfevents.*")):
        steps, whole = tag_steps(path)
        assert whole, path
        found += steps
    assert found == list(range(400, end + 1, 400)), found


if __name__ == "__main__":
    harness.main()
