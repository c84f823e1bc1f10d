"""A run whose supervisor is killed goes on from its newest complete checkpoint, and ends
with the bytes of a run that nobody disturbed."""
import json
import pathlib
import random
import re
import shutil
import struct
import subprocess
import time

import harness

STEPS = 6000
EVERY = 500
CAPACITY = 1000  # which a run passes six times
HEADER_BYTES = 1 << 20  # of the experience log (common/store/layout.h)

CONFIG = """
run: {{name: small, seed: 1, env_steps: {steps}}}
env: {{id: simple_spread, copies: 4, params: {{agents: 3}}}}
experience: {{capacity: {capacity}, batch_size: 64, warmup: 200, update_every: 20}}
evaluation: {{every_env_steps: 1500, episodes: 8}}
checkpoint: {{every_env_steps: {every}, max_to_keep: 4}}
log: {{every_env_steps: 200}}
defaults:
  optimizer: {{type: {optimizer}}}
  actor: {{hidden: [16, 16]}}
  critic: {{hidden: [16, 16]}}
"""


def config(w, optimizer="adam", steps=STEPS):
    return w.write(f"{optimizer}-{steps}.yaml",
                   CONFIG.format(steps=steps, optimizer=optimizer, every=EVERY,
                                 capacity=CAPACITY))


def checkpoints(run):
    folder = run / "checkpoints"
    return sorted(int(p.name) for p in folder.iterdir() if p.name.isdigit())


def rows(run):
    """How many rows are in the experience log: the environment steps that were made."""
    log = run / "experience"
    with open(log, "rb") as f:
        row_bytes = struct.unpack_from("<16xQ", f.read(24))[0]
    return (log.stat().st_size - HEADER_BYTES) // row_bytes


def outcome(run):
    """What must be equal: the checkpoints, and progress.csv but for its times."""
    files = {name: data for name, data in harness.tree_bytes(run / "checkpoints").items()
             if not name.startswith(".bad-")}
    assert str(STEPS) + "/run.state" in files, files.keys()
    lines = (run / "metrics" / "progress.csv").read_text().splitlines()
    names = lines[0].split(",")
    keep = [i for i, n in enumerate(names) if not n.startswith("time/")]
    files["progress.csv"] = [[line.split(",")[i] for i in keep] for line in lines]
    return files


def assert_equal(a, b):
    assert a.keys() == b.keys(), (a.keys(), b.keys())
    for name in a:
        assert a[name] == b[name], f"{name} differs"


def start_and_kill(w, name, path, moment_s):
    """Start a run and SIGKILL its supervisor moment_s after its first checkpoint; None if
    it was over by then."""
    run = w.run_dir(name)
    p = w.start("run", path, "--name", name)
    harness.wait_until("the first checkpoint", lambda: (run / "checkpoints/0").is_dir())
    until = time.monotonic() + moment_s
    while time.monotonic() < until and p.poll() is None:
        time.sleep(0.0005)
    if p.poll() is not None:
        assert p.returncode == 0, p.log.read_text()
        return None
    p.kill()
    p.wait()
    return run if (run / "experience").exists() else None


def killed_run(w, name, path, least_checkpoints=2):
    """A run that was killed in its first half, once it had so many checkpoints."""
    for attempt in range(20):
        run = w.run_dir(f"{name}{attempt}")
        p = w.start("run", path, "--name", run.name)
        harness.wait_until("checkpoints", lambda: (run / "checkpoints").is_dir() and
                           len(checkpoints(run)) >= least_checkpoints)
        p.kill()
        p.wait()
        if checkpoints(run)[-1] < STEPS // 2:
            return run
    raise AssertionError("no run could be killed in its first half")


def resume(w, run, *more, code=0, **how):
    """brood resume; (its start event or None, stderr)."""
    out, err = w.brood("resume", run, "--json", *more, code=code, **how)
    events = harness.json_lines(out)
    return (events[0] if events else None), err


def test_twenty_kills_at_random_moments(w):
    draw = random.Random(11)
    for optimizer in ("adam", "sgd", "momentum", "rmsprop", "accept_reject"):
        path = config(w, optimizer)
        began = time.monotonic()
        w.brood("run", path, "--name", f"{optimizer}-calm")
        lasts = time.monotonic() - began
        calm = outcome(w.run_dir(f"{optimizer}-calm"))
        done = attempts = 0
        while done < 5:
            attempts += 1
            assert attempts < 50, "the runs are over too soon"
            run = start_and_kill(w, f"{optimizer}{attempts}", path,
                                 draw.uniform(0, 0.8 * lasts))
            if run is None:
                continue
            newest, made = checkpoints(run)[-1], rows(run)
            if newest == STEPS:  # nothing was left to do but to end
                resume(w, run)
                assert not (run / "experience").exists()
                continue
            # One interval, and while the next one is being written at most one more: then
            # training waits for it.
            assert made - newest <= 2 * EVERY, (made, newest)
            start, _ = resume(w, run)
            assert start["from_checkpoint"] == newest, (start, newest)
            assert_equal(calm, outcome(run))
            done += 1


def test_two_kills_and_an_extension(w):
    w.brood("run", config(w), "--name", "calm")
    run = killed_run(w, "run", config(w, steps=STEPS // 2))
    p = w.start("resume", run)
    time.sleep(0.05)
    p.kill()
    p.wait()
    start, _ = resume(w, run, "--set", f"run.env_steps={STEPS}")
    assert start["env_steps"] == STEPS
    assert_equal(outcome(w.run_dir("calm")), outcome(run))
    assert f"env_steps: {STEPS}" in (run / "config.yaml").read_text()
    _, err = resume(w, run)
    assert err.count("\n") == 1 and "done" in err, err


def copy(run, name):
    to = run.with_name(name)
    subprocess.run(["cp", "-a", "--sparse=always", run, to], check=True)
    return to


def flip(path, at, bits=0x10):
    data = bytearray(path.read_bytes())
    data[at] ^= bits
    path.write_bytes(data)


def test_every_kept_one_serves_when_the_newer_are_damaged(w):
    w.brood("run", config(w), "--name", "calm")
    calm = outcome(w.run_dir("calm"))
    run = killed_run(w, "run", config(w), least_checkpoints=4)
    kept = checkpoints(run)
    damages = [lambda p, s: flip(p / "run.state", 3000),
               lambda p, s: flip(p / f"agent_1/model.ckpt-{s}.data-00000-of-00001", 700),
               lambda p, s: (p / f"agent_2/model.ckpt-{s}.index").unlink()]
    for i, step in enumerate(kept[:-1]):
        damaged = copy(run, f"damaged{step}")
        newer = kept[i + 1:]
        for k, bad in enumerate(newer):
            damages[k % 3](damaged / "checkpoints" / str(bad), bad)
        start, err = resume(w, damaged)
        assert start["from_checkpoint"] == step, (start, kept)
        for bad in newer:
            assert len(re.findall(rf"checkpoint {bad}: .*older", err)) == 1, err
        assert_equal(calm, outcome(damaged))

        asked = copy(run, f"asked{step}")
        start, _ = resume(w, asked, "--from", step)
        assert start["from_checkpoint"] == step
        assert_equal(calm, outcome(asked))
    for step in kept:
        (run / "checkpoints" / str(step) / "run.state").write_bytes(b"brodrun1")
    _, err = resume(w, run, code=1)
    assert err.splitlines()[-1].endswith("no complete checkpoint"), err


def test_a_missing_or_damaged_log_is_refused(w):
    run = killed_run(w, "run", config(w), least_checkpoints=3)
    newest = checkpoints(run)[-1]
    made = rows(run)
    log = run / "experience"
    size = log.stat().st_size
    row_bytes = (size - HEADER_BYTES) // made

    def refused(what):
        before = harness.tree_bytes(run, lambda p: p.name != "experience" and
                                    p.parent.name != "logs" and p.name not in
                                    ("lock", "journal"))
        start, err = resume(w, run, code=1)
        said = [line for line in err.splitlines() if what in line]
        assert len(said) == 1 and str(log) in said[0], err
        after = harness.tree_bytes(run)
        for name, data in before.items():
            assert after[name] == data, name

    log.rename(run / "elsewhere")
    refused("missing")
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
    w.brood("run", config(w), "--name", "calm")
    resume(w, whole)
    assert_equal(outcome(w.run_dir("calm")), outcome(whole))


def crc32c(data):
    crc = 0xffffffff
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82f63b78 if crc & 1 else 0)
    return crc ^ 0xffffffff


def set_section(path, name, change):
    """Rewrite one section of a run.state (supervisor/run/checkpoint.h), checksum and all."""
    data = path.read_bytes()
    head = struct.pack("<I", len(name)) + name
    at = data.index(head) + 4
    (length,) = struct.unpack_from("<Q", data, at + len(name))
    begin = at + len(name) + 8
    new = change(data[begin:begin + length])
    assert len(new) == length
    crc = crc32c(name + new)
    masked = ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff
    path.write_bytes(data[:begin] + new + struct.pack("<I", masked) +
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
    run = killed_run(w, "run", config(w))
    _, err = resume(w, run, "--set", "env.max_steps=20", code=2)
    assert "'max_steps: 25'" in err and "'max_steps: 20'" in err, err

    # With another CPU's fingerprint, and with another build.
    foreign = copy(run, "foreign")
    for step in checkpoints(foreign):
        set_section(foreign / "checkpoints" / str(step) / "run.state", b"fingerprint",
                    lambda text: bytes([text[0] ^ 1]) + text[1:])
    _, err = resume(w, foreign, code=2)
    assert "numeric fingerprint" in err, err
    program = other_build(w)
    other = copy(run, "other-build")
    _, err = resume(w, other, code=2, program=program)
    assert "the build was" in err, err
    _, err = resume(w, other, "--anyway", program=program)
    assert "the build was" in err, err
    w.brood("run", config(w), "--name", "calm")
    resume(w, foreign, "--anyway")
    resume(w, run)
    calm = outcome(w.run_dir("calm"))
    assert_equal(calm, outcome(run))
    final = other / "checkpoints" / str(STEPS)  # the other build computes the same
    for name, data in harness.tree_bytes(final / "agent_0").items():
        assert calm[f"{STEPS}/agent_0/{name}"] == data


def test_a_live_run_is_left_alone(w):
    path = config(w, steps=10_000_000)
    p = w.start("run", path, "--name", "live")
    run = w.run_dir("live")
    harness.wait_until("a checkpoint", lambda: (run / "checkpoints/0").is_dir())
    _, err = resume(w, run, code=2)
    assert "live" in err and str(p.pid) in err, err
    _, err = resume(w, "nowhere", code=3)
    p.kill()
    p.wait()


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
    run = killed_run(w, "run", config(w), least_checkpoints=3)
    for path in (run / "metrics").glob("events.out.tfevents.*"):
        with open(path, "ab") as f:
            f.write(b"half a record")
    resume(w, run, "--from", checkpoints(run)[-2])
    found = []
    for path in sorted((run / "metrics").glob("events.out.tfevents.*")):
        steps, whole = tag_steps(path)
        assert whole, path
        found += steps
    assert found == list(range(200, STEPS + 1, 200)), found


if __name__ == "__main__":
    harness.main()
