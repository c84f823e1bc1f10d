"""`brood replay`: a part of a run is played again, and what agents computed there is shown."""
import csv
import json
import os
import signal
import struct
import sys

import harness
from test_changes import journal
from test_exactness import outcome
from test_fork import config
from test_steering import need_msgpack

SCORES = "agent_0_1/p_func/fully_connected_1/BiasAdd:0"
WEIGHTS = "agent_0/p_func/fully_connected/weights:0"
CRITIC = "agent_0/q_func/fully_connected_1/BiasAdd:0"


def replay(w, run, *args, **how):
    """The events, by name."""
    out, _ = w.brood("replay", run, "--json", *args, **how)
    events = harness.json_lines(out)
    assert events[-1]["event"] == "done", out
    return events, events[-1]


def tensors(events, stage, name=None):
    return [e for e in events if e["event"] == "tensor" and e["stage"] == stage and
            name in (None, e["name"])]


def everything(folder):
    """Names, contents and times of the files of a run."""
    return {p: (p.lstat().st_mtime_ns, p.read_bytes() if p.is_file() else None)
            for p in sorted(folder.rglob("*")) if not p.is_socket()}


def refused(w, says, *args, code=1):
    _, err = w.brood("replay", *args, code=code)
    assert err.startswith("brood replay: ") and says in err and err.count("\n") == 1, err


def test_a_live_run_and_its_replay_show_the_same_tensors(w):
    """Weights after a round, and what the policy computes from the observations of its act.
    The run, live meanwhile, ends with the bytes of one that nobody looked at."""
    need_msgpack()
    sys.path.insert(0, str(harness.SOURCE / "scripts"))
    from drive_critics import Run, floats
    p = w.start("run", config(w, "maddpg", 10**7), "--name", "live")
    run = w.run_dir("live")
    harness.wait_until("a checkpoint", lambda: (run / "checkpoints" / "320").exists())
    client = Run(run)
    client.call("pause")
    # Not a step with an update, which would change the weights after act.
    while (steps := client.call("status")["env_steps"]) % 20 == 0:
        client.call("continue")
        client.call("pause")
    live = floats(client.answer(client.send("run", agent="agent_0", fetches=[WEIGHTS]))
                  ["fetched"][0])
    events, done = replay(w, "live", "--to", steps, "--agent", "agent_0", "--fetch", WEIGHTS,
                          "--fetch", SCORES, "--fetch", "observation0:0")
    assert done["env_steps"] == steps and done["from_checkpoint"] < steps, done
    assert done["rows_compared"] == steps - done["from_checkpoint"], done
    after, = tensors(events, "after", WEIGHTS)
    assert after["values"] == list(live) and after["shape"] == [18, 8], after
    seen, = tensors(events, "act", "observation0:0")
    scores, = tensors(events, "act", SCORES)
    assert seen["env_steps"] == scores["env_steps"] == steps - 4 and seen["shape"] == [4, 18]
    fed = [1, seen["shape"], struct.pack("<72f", *seen["values"])]
    assert scores["values"] == list(floats(client.answer(client.send(
        "run", agent="agent_0", fetches=[SCORES], feeds={"observation0:0": fed}))
        ["fetched"][0]))
    client.call("continue")
    last = harness.set_last_step(w, run, 160)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    w.brood("run", config(w, "maddpg", last), "--name", "calm")
    harness.assert_same_files(outcome(run), outcome(w.run_dir("calm")))


def test_a_replay_repeats_what_became_of_the_run(w):
    """Changes, kills, a death of the supervisor and a resume: every row is the same, and so
    are the weights of each checkpoint. Nothing of the run's directory changes."""
    p = w.start("run", config(w, "maddpg", 10**7), "--name", "a", "--set",
                "checkpoint.every_env_steps=400", "--set", "experience.capacity=100000")
    run = w.run_dir("a")
    harness.wait_until("a checkpoint", lambda: (run / "checkpoints" / "400").exists())
    w.brood("set", "a", "defaults.polyak=0.5", "defaults.optimizer.learning_rate=0.1")
    for pid in harness.agents_of(p.pid).values():
        harness.kill(pid)
    harness.wait_until("the change", lambda: journal(run, "changed"))
    changed = harness.json_lines(w.brood("status", "a", "--json")[0])[0]["env_steps"]
    harness.wait_until("a checkpoint behind it", lambda: max(
        harness.checkpoints(run)) > changed)
    harness.kill_holder(p, run)
    last = harness.checkpoints(run)[-1] + 800
    w.brood("resume", "a", "--set", f"run.env_steps={last}")
    before = everything(w.runs)
    events, done = replay(w, "a", "--to", last, "--from", 0, "--fetch", WEIGHTS)
    assert done["rows_compared"] == last == done["env_steps"], done
    assert everything(w.runs) == before
    kept, _ = w.brood("inspect", run / "checkpoints" / str(last) / "agent_0", "--tensor",
                      WEIGHTS[:-2], "--values", "--json")
    assert json.loads(kept)["values"] == tensors(events, "after")[0]["values"]


def test_the_algorithms_that_share_or_mix(w):
    """The processes beside the agents, too: the end of each is that of its checkpoint."""
    for algorithm, more, process in (("mappo", ("--set", "defaults.share=team"), "ps"),
                                     ("qmix", (), "central")):
        w.brood("run", config(w, algorithm), "--name", algorithm, *more)
        folder = w.run_dir(algorithm) / "checkpoints" / "640"
        process = next(f.name for f in folder.iterdir() if process in f.name)
        names, _ = w.brood("inspect", folder / process, "--names")
        name = next(n for n in names.split() if n.endswith("weights"))
        kept, _ = w.brood("inspect", folder / process, "--tensor", name, "--values", "--json")
        events, done = replay(w, algorithm, "--to", 640, "--agent", process, "--fetch",
                              f"{name}:0", "--from", 320)
        assert done["rows_compared"] == 320, done
        after, = tensors(events, "after")
        assert after["agent"] == process and after["values"] == json.loads(kept)["values"]
        assert tensors(events, "act") == [] and len(events) > 2, events


def test_until_finds_the_very_update(w):
    """The value of each update is in progress.csv, since a row ends with each."""
    w.brood("run", config(w, "maddpg"), "--name", "a", "--set", "log.every_env_steps=20")
    column = "train/agent_1/critic_loss"
    with open(w.run_dir("a") / "metrics" / "progress.csv") as f:
        losses = [(int(r["env_steps"]), float(r[column])) for r in csv.DictReader(f)
                  if r[column]]
    assert len(losses) == 28, losses
    limit = sorted(loss for _, loss in losses)[2]  # two are below
    where = next(i for i, (_, loss) in enumerate(losses) if loss < limit)
    events, done = replay(w, "a", "--until", f"{column} < {limit}", "--fetch",
                          CRITIC.replace("agent_0", "agent_1"))
    assert (done["env_steps"], done["update"]) == (losses[where][0], where), (done, losses)
    assert done["value"] == losses[where][1] and done["from_checkpoint"] == (done["env_steps"] - 1) // 160 * 160
    assert {e["update"] for e in tensors(events, "critic")} == {where}, events
    shown, = [e for e in events if e["event"] == "scalar" and e["agent"] == "agent_1" and
              e["name"] == "critic_loss"]
    assert shown["value"] == done["value"]
    requests = [e for e in replay(w, "a", "--to", done["env_steps"], "--messages")[0]
                if e["event"] in ("request", "row")]
    learn, = [e for e in requests if e.get("stage") == "learn" and e["agent"] == "agent_2"]
    batch = learn["params"]["rows"]["values"]
    rows = {e["row"]: e["columns"] for e in requests if e["event"] == "row"}
    assert sorted(set(batch)) == sorted(rows) and len(batch) == 16, (batch, list(rows))
    act, = [e for e in requests if e.get("stage") == "act" and e["agent"] == "agent_2"]
    newest = done["env_steps"] - 4  # the round's own rows, if the batch has one of them
    for e in range(4):
        if newest + e in rows:
            assert rows[newest + e]["agent_2/obs"] == \
                act["params"]["obs"]["values"][18 * e:18 * e + 18]
    for row, columns in rows.items():  # an episode's next row begins where this one ends
        if row + 4 in rows and not columns["truncated"][0]:
            assert columns["agent_0/next_obs"] == rows[row + 4]["agent_0/obs"]
    out, _ = w.brood("replay", "a", "--until", f"{column}<={limit}", "--from", "320")
    assert "a: played from the checkpoint of step 320 to step " in out, out
    for to in ("4", "640"):
        w.brood("replay", "a", "--to", to, "--trace", "round.json")
        spans = json.loads((w.path / "round.json").read_text())["traceEvents"]
        work = [s["name"] for s in spans if s["ph"] == "X"]
        assert "act" in work and ("learn" in work) == (to == "640"), work
        (w.path / "round.json").unlink()
    refused(w, "--trace: no/round.json: create: ", "a", "--to", "4", "--trace", "no/round.json")
    refused(w, f"it holds for none of 28 values of {column} between steps 0 and 640", "a",
            "--until", f"{column} > 1e9")


def test_until_finds_where_a_nan_comes_from(w):
    """A learning rate that is set too high; the run ends there, in its last update."""
    w.brood("run", config(w, "maddpg", 10**7), "--name", "a", "--until", "320", code=4)
    p = w.start("resume", "a")
    run = w.run_dir("a")
    harness.wait_until("the run", lambda: len(journal(run, "ready")) == 6)
    harness.wait_until("its first round", lambda: '"running"' in w.brood(
        "status", "a", "--json")[0])
    w.brood("set", "a", "agents.agent_2.optimizer.learning_rate=1e+37")
    assert p.wait(timeout=harness.DEADLINE_S) == 1, p.log.read_text()
    ended = journal(run, "end")[-1]
    updates = int(ended.split(" updates=")[1].split()[0])
    before = everything(w.runs)
    report = p.log.read_text()
    column = "critic_loss" if "critic_loss" in report else "actor_loss"
    events, done = replay(w, "a", "--until", f"train/agent_2/{column} is nonfinite", "--agent",
                          "agent_2", "--fetch", WEIGHTS.replace("agent_0", "agent_2"))
    assert done["update"] == updates and done["value"] is None, (done, ended)
    assert "not finite" in done["ends"] or "is inf" in done["ends"] or "is nan" in done["ends"]
    found = [e for e in events if e["event"] == "nonfinite"]
    assert found and all(e["update"] == updates and e["count"] > 0 for e in found), events
    assert "of finite " in w.brood("replay", "a", "--to", done["env_steps"])[0]
    assert everything(w.runs) == before


def test_a_divergence_names_the_row(w):
    w.brood("run", config(w, "maddpg"), "--name", "a")
    log = w.run_dir("a") / "experience"
    header = log.read_bytes()[:32]
    row_bytes = struct.unpack_from("<Q", header, 16)[0]
    with open(log, "r+b") as f:  # an observation's lowest byte
        f.seek((1 << 20) + 501 * row_bytes)
        byte = f.read(1)
        f.seek((1 << 20) + 501 * row_bytes)
        f.write(bytes([byte[0] ^ 1]))
    refused(w, "the replay diverges from the run's log at row 501: agent_0/obs[0] is ", "a",
            "--to", "640", "--from", "480")
    replay(w, "a", "--to", "500", "--from", "480")


def test_what_cannot_be_replayed_is_told(w):
    w.brood("run", config(w, "maddpg"), "--name", "a")
    w.brood("run", config(w, "maddpg"), "--name", "b", "--set", "experience.keep=false")
    refused(w, "runs/b/experience is missing (a run that is done removes it", "b", "--to", "320",
            code=3)
    shown = [replay(w, run, "--to", "320", "--from", "0", "--fetch", WEIGHTS) for run in "ab"]
    assert [done["rows_compared"] for _, done in shown] == [320, 0], shown  # nothing is read at 0
    (here,), (there,) = (tensors(events, "after") for events, _ in shown)
    assert here["values"] == there["values"], shown
    w.brood("run", config(w, "maddpg"), "--name", "c", "--until", "4", code=4)
    (w.run_dir("c") / "experience").write_bytes(
        (w.run_dir("c") / "experience").read_bytes()[:1 << 20])
    before = everything(w.runs)
    refused(w, "c/experience has no rows", "c", "--to", "4", code=2)
    refused(w, "there is no run nowhere in runs", "nowhere", "--to", "320", code=3)
    refused(w, "a has come to step 640: there is no step 641 to replay", "a", "--to", "641", code=2)
    refused(w, "--from 320 is not before step 320", "a", "--to", "320", "--from", "320", code=2)
    refused(w, "expected --to STEP or --until CONDITION", "a", code=2)
    refused(w, "expected 'COLUMN > NUMBER'", "a", "--until", "train/agent_0/q_mean = 3", code=2)
    refused(w, "did you mean 'rollout/return/agent_0'?", "a", "--until",
            "rollout/return/agent_9 > 3", code=2)
    refused(w, "did you mean 'train/agent_0/q_mean'?", "a", "--until", "train/agent_0/qmean > 3",
            code=2)
    refused(w, "did you mean 'agent_1'?", "a", "--to", "9", "--agent", "agnt_1", code=2)
    refused(w, "did you mean 'agent_0/q_func/fully_connected", "a", "--to", "9", "--fetch",
            CRITIC.replace("func", "fnc"), code=2)
    out, err = w.brood("replay", "a", "--to", "4", "--fetch", CRITIC, code=1)
    assert f"{CRITIC} was not computed in that round" in err, err
    assert everything(w.runs) == before


def test_a_log_with_holes_is_replayed(w):
    """A copy of a run may have holes where the log's bytes are zero."""
    w.brood("run", config(w, "maddpg"), "--name", "a")
    harness.copy_run(w.run_dir("a"), w.run_dir("b"))
    replay(w, "b", "--to", "600")


def test_an_interrupted_search_is_no_success(w):
    """Also when it has found the value, and plays to its round again."""
    w.brood("run", config(w, "maddpg", 2000), "--name", "a", "--set", "log.every_env_steps=20")
    with open(w.run_dir("a") / "metrics" / "progress.csv") as f:
        rows = [r for r in csv.DictReader(f) if r["train/agent_0/critic_loss"]]
    highest = {c: max(rows, key=lambda r: float(r[c] or "-inf")) for c in rows[0]
               if c.startswith("train/")}
    column = next(c for c, row in highest.items() if int(row["env_steps"]) > 1000)
    before = everything(w.runs)
    for _ in range(20):
        p = w.start("replay", "a", "--until", f"{column} >= {highest[column][column]}", "--from",
                    "0")
        harness.wait_until("its agents", lambda: p.poll() is not None or
                           len(harness.agents_of(p.pid)) == 3)
        first = set(harness.agents_of(p.pid).values())
        harness.wait_until("others", lambda: p.poll() is not None or
                           set(harness.agents_of(p.pid).values()) - first)
        second = set(harness.agents_of(p.pid).values()) - first
        supervisor = harness.supervisor_of(p.pid)
        for pid in second:
            harness.kill(pid, signal.SIGSTOP)
        if supervisor is not None:
            harness.kill(supervisor, signal.SIGINT)
        for pid in second:
            harness.kill(pid, signal.SIGCONT)
        if p.wait(timeout=harness.DEADLINE_S) != 0:  # 0: it was over before it was seen
            break
    assert p.returncode == 4, p.log.read_text()
    assert "interrupted at step " in p.log.read_text() and harness.output(p) == ""
    assert everything(w.runs) == before


def test_a_killed_replay_leaves_nothing(w):
    w.brood("run", config(w, "maddpg", 4000), "--name", "a")
    before = everything(w.runs)
    for who in ("supervisor", "keeper"):
        pids, supervisor = (), None
        while len(pids) < 5 or supervisor is None:  # it was over before it was seen
            p = w.start("replay", "a", "--to", "4000", "--from", "0")
            harness.wait_until("its agents", lambda: p.poll() is not None or
                               len(harness.agents_of(p.pid)) == 3)
            pids, supervisor = harness.members(p.pid), harness.supervisor_of(p.pid)
            assert p.poll() in (None, 0), p.log.read_text()
        harness.kill(supervisor if who == "supervisor" else p.pid)
        p.wait(timeout=harness.DEADLINE_S)
        harness.wait_until("their ends", lambda: not any(map(harness.alive, pids)))
        assert everything(w.runs) == before


if __name__ == "__main__":
    harness.main()
