"""`brood diff`: in what two runs differ, and the step, agent, stage and value at which they part."""
import json
import shutil
import signal
import struct

import harness
from test_fork import config
from test_replay import everything, replay, tensors

RATE = "defaults.optimizer.learning_rate"


def diff(w, here, there, code=1):
    out, err = w.brood("diff", here, there, "--json", code=code)
    found, = harness.json_lines(out)
    assert err == "", err
    assert all(not r["diverges"] and r["why"] is None for r in found["replays"]), found
    return found


def keys(found):
    return {c["key"]: (c["here"], c["there"], c["from_step"]) for c in found["configuration"]}


def changed_at(w, algorithm, step, rate, *more):
    """A configuration whose learning rate changes at that step."""
    path = w.path / config(w, algorithm)
    text = path.read_text().replace("defaults: {", "defaults: {optimizer: {learning_rate: "
                                    f"{{at: {{0: 0.003, {step}: {rate}}}}}}}, ")
    return w.write(f"{algorithm}-changed.yaml", text)


def flip(w, run, row):
    """Changes the lowest byte of the first observation in a row of the log."""
    with open(w.run_dir(run) / "experience", "r+b") as f:
        at = (1 << 20) + row * struct.unpack_from("<Q", f.read(32), 16)[0]
        f.seek(at)
        byte = f.read(1)
        f.seek(at)
        f.write(bytes([byte[0] ^ 1]))


def test_equal_runs_and_one_that_was_killed(w):
    """Also a live one, up to its newest checkpoint. Nothing of the runs changes."""
    p = w.start("run", config(w, "maddpg", 10**7), "--name", "killed")
    run = w.run_dir("killed")
    harness.wait_until("a checkpoint", lambda: (run / "checkpoints" / "160").exists())
    for pid in harness.agents_of(p.pid).values():
        harness.kill(pid)
    harness.wait_until("the next", lambda: (run / "checkpoints" / "640").exists())
    harness.kill_holder(p, run)
    last = harness.checkpoints(run)[-1] + 320
    w.brood("run", config(w, "maddpg", last), "--name", "calm")
    w.brood("resume", "killed", "--set", f"run.env_steps={last}")
    before = everything(w.runs)
    out, err = w.brood("diff", "killed", "calm")
    assert (out, err) == (f"no difference up to step {last}\n", ""), (out, err)
    found = diff(w, "calm", "killed", code=0)
    assert found["difference"] is None and found["compared_to"] == found["equal_to"] == last
    assert keys(found) == {} and found["provenance"] == [], found
    assert diff(w, "calm@160", "killed", code=0)["compared_to"] == 160
    assert everything(w.runs) == before
    p = w.start("run", config(w, "maddpg", 10**7), "--name", "live")
    harness.wait_until("a checkpoint", lambda: (w.run_dir("live") / "checkpoints" / "480").exists())
    found = diff(w, "live", "calm")
    assert found["difference"] is None and 480 <= found["compared_to"] <= last, found
    assert keys(found) == {"run.env_steps": (str(10**7), str(last), 0)}, found
    w.brood("stop", "live")
    p.wait(timeout=harness.DEADLINE_S)


def test_another_seed_is_named(w):
    w.brood("run", config(w, "maddpg"), "--name", "a")
    w.brood("run", config(w, "maddpg"), "--name", "b", "--seed", "3")
    found = diff(w, "a", "b")
    part = found["difference"]
    assert keys(found) == {"run.seed": ("2", "3", 0)}, found
    assert (part["kind"], part["env_steps"], part["agent"]) == ("checkpoint", 0, "agent_0"), part
    assert part["is_first"] and part["here"] != part["there"] and found["equal_to"] is None
    kept, _ = w.brood("inspect", w.run_dir("b") / "checkpoints" / "0" / "agent_0", "--tensor",
                      part["name"], "--values", "--json")
    assert json.loads(kept)["values"][part["element"]] == part["there"]
    out, _ = w.brood("diff", "a", "b", code=1)
    assert "run.seed: 2 in a, 3 in b\n" in out and "they part at step 0: agent_0, the first weights\n" \
        in out, out


def test_a_changed_learning_rate_is_named(w):
    """In the file, and of a live run: the first update behind the change, with its values."""
    w.brood("run", config(w, "maddpg"), "--name", "a")
    w.brood("run", changed_at(w, "maddpg", 400, 0.02), "--name", "file")
    p = w.start("run", config(w, "maddpg", 10**7), "--name", "live")
    harness.wait_until("a checkpoint", lambda: (w.run_dir("live") / "checkpoints" / "0").exists())
    harness.pause(w, "live")
    now = harness.json_lines(w.brood("status", "live", "--json")[0])[0]["env_steps"]
    change = (now // 20 + 3) * 20
    w.brood("set", "live", f"{RATE}=0.02", "--at-step", change)
    w.brood("set", "live", f"run.env_steps={change + 200}")
    w.brood("continue", "live")
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    w.brood("run", config(w, "maddpg", change + 200), "--name", "calm")
    before = everything(w.runs)
    for here, there, step in (("a", "file", 400), ("calm", "live", change)):
        found = diff(w, here, there)
        part = found["difference"]
        assert keys(found)[RATE] == ("0.003", "0.02", step), found
        assert (part["kind"], part["agent"], part["stage"], part["pass"]) == \
            ("stage", "agent_0", "critic", 0), part
        assert part["env_steps"] == max(step + 20, 100) and part["is_first"], (step, part)
        assert part["update"] == (part["env_steps"] - 100) // 20, part
        assert 0 < abs(part["here"] - part["there"]) <= part["largest"], part
        for run, value in ((here, part["here"]), (there, part["there"])):
            after, = tensors(replay(w, run, "--to", part["env_steps"], "--agent", "agent_0", "--fetch",
                                    part["name"] + ":0")[0], "after")
            assert after["values"][part["element"]] == value, (after, part)
        out, _ = w.brood("diff", here, there, code=1)
        assert f"they part at step {part['env_steps']}: agent_0, critic of update {part['update']}" \
            in out and f"  {RATE}: 0.003 in {here}, 0.02 in {there}, from step {step} on\n" in out, out
        assert f"\nnewest difference of configuration there, from step {step} on: {RATE}\n" in out, out
    assert everything(w.runs) == before
    w.brood("fork", "a@320", "--name", "fork", "--set", f"{RATE}=0.02")
    found = diff(w, "fork", "a")
    assert keys(found) == {RATE: ("0.02", "0.003", 320)} and found["equal_to"] == 320, found
    assert found["difference"]["is_first"] and found["difference"]["env_steps"] == 340, found


def test_a_damaged_log_is_named(w):
    """Also one whose row is from before the oldest checkpoint, and a checkpoint of another run."""
    w.brood("run", config(w, "maddpg"), "--name", "a")
    for row, oldest in ((501, 0), (20, 160)):
        harness.copy_run(w.run_dir("a"), w.run_dir(f"b{row}"))
        flip(w, f"b{row}", row)
        for step in range(0, oldest, 160):
            shutil.rmtree(w.run_dir(f"b{row}") / "checkpoints" / str(step))
        for order in (("a", f"b{row}"), (f"b{row}", "a")):
            found, = harness.json_lines(w.brood("diff", *order, "--json", code=1)[0])
            part = found["difference"]
            assert (part["kind"], part["row"], part["env_steps"], part["agent"], part["name"],
                    part["element"]) == ("row", row, row // 4 * 4, "agent_0", "obs", 0), part
            assert not part["is_first"] and found["configuration"] == [], found
            states = {r["run"]: (r["diverges"], r["why"]) for r in found["replays"]}
            assert states["a"] == (False, None) and states[f"b{row}"][0], found
            assert (f"row {row}" if oldest == 0 else "rows 0 to ") in states[f"b{row}"][1], found
    out, _ = w.brood("diff", "a", "b501", code=1)
    assert "b501 does not reproduce itself: the replay diverges from the run's log at row 501: " \
        "agent_0/obs[0] is " in out, out
    w.brood("run", changed_at(w, "maddpg", 400, 0.02), "--name", "other")
    harness.copy_run(w.run_dir("a"), w.run_dir("c"))
    shutil.rmtree(w.run_dir("c") / "checkpoints" / "640")
    shutil.copytree(w.run_dir("other") / "checkpoints" / "640", w.run_dir("c") / "checkpoints" / "640")
    out, _ = w.brood("diff", "a", "c", code=1)
    assert "at step 640: agent_0, the checkpoint\n" in out and "up to the checkpoints of step 480" \
        in out and "c does not reproduce itself: its replay does not end with agent_0 of its " \
        "checkpoint of step 640\n" in out and "a does not" not in out, out


def test_logs_that_are_gone(w):
    """Both are replayed from their beginning."""
    w.brood("run", config(w, "maddpg"), "--name", "a", "--set", "experience.keep=false")
    w.brood("run", config(w, "maddpg"), "--name", "b", "--set", "experience.keep=false")
    w.brood("run", changed_at(w, "maddpg", 400, 0.02), "--name", "c", "--set",
            "experience.keep=false")
    assert not (w.run_dir("a") / "experience").exists()
    assert diff(w, "a", "b", code=0)["difference"] is None
    part = diff(w, "a", "c")["difference"]
    assert (part["kind"], part["env_steps"], part["agent"], part["is_first"]) == \
        ("stage", 420, "agent_0", True), part
    shutil.rmtree(w.run_dir("a") / "checkpoints" / "0")
    found, = harness.json_lines(w.brood("diff", "a", "c", "--json", code=1)[0])
    assert found["difference"]["kind"] == "checkpoint" and not found["difference"]["is_first"]
    assert found["difference"]["env_steps"] == 480 and found["equal_to"] == 320, found
    assert all("experience is missing" in r["why"] for r in found["replays"]), found


def test_the_first_action_that_differs(w):
    """And where a run learns at other steps."""
    w.brood("run", config(w, "iql"), "--name", "a")
    w.brood("run", config(w, "iql"), "--name", "b", "--set", "defaults.epsilon=0.3")
    w.brood("run", config(w, "iql"), "--name", "c", "--set", "experience.update_every=40")
    found = diff(w, "a", "b")
    part = found["difference"]
    assert list(keys(found)) == ["defaults.settings.epsilon"], found
    assert part["kind"] == "row" and part["name"] == "action" and part["is_first"], part
    assert {part["here"], part["there"]} == {0, 1} and part["env_steps"] == part["row"] // 4 * 4
    for name, more in (("d", ()), ("e", ("--set", "defaults.epsilon=0.3"))):  # they never learn
        w.brood("run", config(w, "iql"), "--name", name, "--set", "experience.warmup=640",
                "--set", "experience.capacity=640", *more)
        shutil.rmtree(w.run_dir(name) / "checkpoints" / "0")
    late = diff(w, "d", "e")["difference"]
    assert late["kind"] == "row" and late["row"] < 160 and not late["is_first"], late
    part = diff(w, "a", "c")["difference"]
    assert (part["kind"], part["agent"]) == ("when", "agent_0") and part["is_first"], part
    assert part["here"] == part["env_steps"] == 100 and part["there"] is None, part
    out, _ = w.brood("diff", "c", "a", code=1)
    assert f"agent_0, {part['stage']} of update 0, pass 0\n  its step: none in c, 100 in a\n" in out, out


def test_processes_beside_the_agents(w):
    for algorithm, more, process in (("mappo", ("--set", "defaults.share=team"), "ps"),
                                     ("qmix", (), "central")):
        w.brood("run", config(w, algorithm), "--name", f"{algorithm}-a", "--set", f"{RATE}=0.003",
                *more)
        w.brood("run", changed_at(w, algorithm, 400, 0.02), "--name", f"{algorithm}-b", *more)
        part = diff(w, f"{algorithm}-a", f"{algorithm}-b")["difference"]
        assert part["kind"] == "stage" and process in part["agent"] and part["is_first"], part
        assert 400 < part["env_steps"] <= 440, part


def test_the_order_of_stages(w):
    """What follows repeated stages comes after all their passes, and who has its turn later after
    who has it first."""
    for name, ratio in (("a", 0.2), ("b", 0.002)):  # in the first pass nothing is clipped
        w.brood("run", config(w, "mappo", 160), "--name", name, "--set", f"{RATE}=0.003",
                "--set", "defaults.share=team", "--set", "defaults.settings.normalize_observations=running",
                "--set", f"defaults.settings.clip_ratio={ratio}")
    part = diff(w, "a", "b")["difference"]
    assert (part["kind"], part["stage"]) == ("stage", "apply") and part["pass"] >= 1, part
    path = w.path / config(w, "happo")
    text = path.read_text()
    w.brood("run", path, "--name", "calm")
    for step in 160, 320, 480:
        entropy = f"agents: {{agent_1: {{settings: {{entropy: {{at: {{0: 0.01, {step}: 0.1}}}}}}}}}}\n"
        w.brood("run", w.write("changed.yaml", text + entropy), "--name", f"at-{step}")
        part = diff(w, "calm", f"at-{step}")["difference"]
        assert (part["kind"], part["agent"], part["stage"], part["env_steps"]) == \
            ("stage", "agent_1", "turn", step + 40), part


def test_rows_that_are_gone(w):
    """Those that no kept checkpoint needs, between those of others: they are not compared."""
    for name, keep in (("whole", "true"), ("holes", "auto")):
        w.brood("run", config(w, "ippo", 6400), "--name", name, "--set", f"experience.keep={keep}",
                "--set", "checkpoint.every_env_steps=1600")
    whole, holes = ((w.run_dir(n) / "experience").stat() for n in ("whole", "holes"))
    assert whole.st_size == holes.st_size and whole.st_blocks > holes.st_blocks
    for order in (("whole", "holes"), ("holes", "whole")):
        found = diff(w, *order)
        assert list(keys(found)) == ["experience.keep"] and found["difference"] is None, found
    for run in "whole", "holes":
        replay(w, run, "--from", 0, "--to", 6400)


def test_what_is_not_comparable(w):
    """The configurations are, always."""
    w.brood("run", config(w, "maddpg"), "--name", "a")
    for name, key, value, says in (
            ("b", "defaults.algorithm", "ddpg", "agent_0 has other variables in a than in b"),
            ("c", "defaults.critic.hidden", "[9]", "agent_0 has other variables"),
            ("d", "env.params.agents", "2", "there are other processes in a than in d"),
            ("e", "env.copies", "8", "a round has 4 rows in a and 8 in e (env.copies)")):
        w.brood("run", config(w, "maddpg"), "--name", name, "--set", f"{key}={value}")
        found = diff(w, "a", name)
        assert found["difference"] is None and says in found["incomparable"], found
        assert key in (*keys(found), "env.params.agents"), found
        assert "\nnot comparable: " in w.brood("diff", "a", name, code=1)[0]
    harness.copy_run(w.run_dir("a"), w.run_dir("f"))
    lines = (w.run_dir("f") / "provenance").read_text().replace("\ncpu: ", "\ncpu: another ")
    (w.run_dir("f") / "provenance").write_text(lines)
    found = diff(w, "a", "f", code=0)
    assert [p["key"] for p in found["provenance"]] == ["cpu"] and found["difference"] is None


def test_trouble(w):
    w.brood("run", config(w, "maddpg"), "--name", "a")
    before = everything(w.runs)
    for args, says in ((("a",), "expected two runs, RUN or RUN@STEP, got 1"),
                       (("a", "a", "a"), "expected two runs"),
                       (("a", "nowhere"), "there is no run nowhere in runs"),
                       (("a@7", "a"), "holds no checkpoint of step 7")):
        out, err = w.brood("diff", *args, code=2)
        assert out == "" and err.startswith("brood diff: ") and says in err and \
            err.count("\n") == 1, err
    assert everything(w.runs) == before
    harness.copy_run(w.run_dir("a"), w.run_dir("b"))
    data, = (w.run_dir("b") / "checkpoints" / "320" / "agent_1").glob("*.data-*")
    data.write_bytes(bytes([data.read_bytes()[0] ^ 1]) + data.read_bytes()[1:])
    out, err = w.brood("diff", "a", "b")
    assert out == "no difference up to step 640\n" and "b@320: agent_1: " in err and \
        err.endswith("; it is left out\n"), (out, err)
    shutil.rmtree(w.run_dir("b") / "checkpoints")
    (w.run_dir("b") / "checkpoints").mkdir()
    assert "runs/b has no checkpoint yet" in w.brood("diff", "a", "b", code=2)[1]


def test_an_interrupted_one_leaves_nothing(w):
    """And one whose agents are killed finds the same."""
    w.brood("run", config(w, "maddpg", 4000), "--name", "a", "--set", "checkpoint.every_env_steps=4000")
    w.brood("run", config(w, "maddpg", 4000), "--name", "b", "--set", "checkpoint.every_env_steps=4000",
            "--set", "defaults.discount={at: {0: 0.95, 3900: 0.9}}")
    before = everything(w.runs)
    was, _ = w.brood("diff", "a", "b", code=1)
    assert "they part at step 3920: agent_0, critic of " in was, was
    p = w.start("diff", "a", "b")
    harness.wait_until("its agents", lambda: p.poll() is not None or
                       len(harness.agents_of(p.pid)) == 3)
    for pid in harness.agents_of(p.pid).values():
        harness.kill(pid)
    assert p.wait(timeout=harness.DEADLINE_S) == 1 and harness.output(p) == was, p.log.read_text()
    for signum, codes in ((signal.SIGINT, (4,)), (signal.SIGKILL, (1, 137, -9))):
        for _ in range(20):
            p = w.start("diff", "a", "b")
            harness.wait_until("its agents", lambda: p.poll() is not None or
                               len(harness.agents_of(p.pid)) == 3)
            agents = list(harness.agents_of(p.pid).values())
            for pid in agents:  # no round ends before the signal has come
                harness.kill(pid, signal.SIGSTOP)
            pids, supervisor = harness.members(p.pid), harness.supervisor_of(p.pid)
            if supervisor is not None:
                harness.kill(supervisor, signum)
            for pid in agents:
                harness.kill(pid, signal.SIGCONT)
            p.wait(timeout=harness.DEADLINE_S)
            if harness.output(p) == "":  # or it was over before it was seen
                break
        assert p.returncode in codes and harness.output(p) == "", (p.returncode, p.log.read_text())
        harness.wait_until("their ends", lambda: not any(map(harness.alive, pids)))
        assert everything(w.runs) == before


if __name__ == "__main__":
    harness.main()
