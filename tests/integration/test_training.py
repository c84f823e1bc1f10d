"""A whole run, from the configuration to the last checkpoint, and the files it leaves."""
import csv
import json
import os
import re
import signal
import struct

import harness

AGENTS = ("agent_0", "agent_1", "agent_2")


def test_a_run_leaves_what_it_should(w):
    out, err = w.brood("run", w.small(), "--name", "a", "--json")
    events = harness.json_lines(out)
    assert events[0]["event"] == "start" and events[0]["run"] == "a"
    assert events[0]["env_steps"] == 2000 and events[0]["from_checkpoint"] is None
    done = events[-1]
    assert done["event"] == "done" and done["env_steps"] == 2000, done
    assert done["restarts"] == 0 and done["episodes"] == 80, done
    run = w.run_dir("a")
    for name in ("config.yaml", "provenance", "journal", "metrics/progress.csv", "lock"):
        assert (run / name).is_file(), name
    assert (run / "experience").is_file()
    assert list((run / "metrics").glob("events.out.tfevents.*"))
    for step in (0, 1000, 2000):
        for agent in AGENTS:
            prefix = run / "checkpoints" / str(step) / agent
            assert (prefix / f"model.ckpt-{step}.index").is_file()
            assert (prefix / f"model.ckpt-{step}.data-00000-of-00001").is_file()
    for agent in AGENTS:
        assert (run / "logs" / f"{agent}.log").is_file()
    w.brood("check", run / "config.yaml")


def test_progress_has_the_metrics_by_their_names(w):
    w.brood("run", w.small(), "--name", "a")
    with open(w.run_dir("a") / "metrics" / "progress.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    assert int(rows[-1]["env_steps"]) == 2000
    wanted = {"rollout/team_return/agent", "rollout/episode_length",
              "eval/team_return/agent", "time/env_steps_per_second", "time/round_us",
              "time/learn_ms"}
    for agent in AGENTS:
        wanted.add(f"rollout/return/{agent}")
        wanted.add(f"eval/return/{agent}")
        for name in ("critic_loss", "actor_loss", "q_mean", "target_q_mean",
                     "target_q_std", "critic_grad_norm", "actor_grad_norm"):
            wanted.add(f"train/{agent}/{name}")
    assert wanted <= set(rows[0]), wanted - set(rows[0])
    assert float(rows[-1]["rollout/episode_length"]) == 25
    assert float(rows[-1]["train/agent_1/critic_loss"]) > 0


def test_the_event_file_holds_scalars(w):
    w.brood("run", w.small(), "--name", "a")
    path, = (w.run_dir("a") / "metrics").glob("events.out.tfevents.*")
    data, records = path.read_bytes(), []
    while data:
        length, = struct.unpack_from("<Q", data)
        records.append(data[12:12 + length])
        data = data[12 + length + 4:]
    assert b"brain.Event:2" in records[0]
    assert any(b"train/agent_2/critic_loss" in r for r in records)


def test_eval_plays_the_final_checkpoint(w):
    w.brood("run", w.small(), "--name", "a")
    out, _ = w.brood("eval", "a", "--episodes", "20", "--json")
    result = json.loads(out)
    assert result["run"] == "a" and result["checkpoint_step"] == 2000
    assert result["env"] == "simple_spread" and result["rules"] == "mpe2"
    assert result["mode"] == "greedy" and result["episodes"] == 20
    assert result["length_mean"] == 25 and set(result["return_mean"]) == set(AGENTS)
    assert abs(result["team_return_mean"]
               - sum(result["return_mean"].values()) / 3) < 1e-9
    one, _ = w.brood("eval", "a", "--episodes", "20", "--json", "--copies", "3")
    assert json.loads(one) == result
    first, _ = w.brood("eval", "a", "--episodes", "20", "--json", "--checkpoint", "0")
    assert json.loads(first)["team_return_mean"] != result["team_return_mean"]


def test_inspect_lists_the_52_tensors_of_an_agent(w):
    w.brood("run", w.small(), "--name", "a")
    folder = w.run_dir("a") / "checkpoints" / "2000" / "agent_0"
    out, _ = w.brood("inspect", folder, "--names")
    names = out.split()
    assert len(names) == 52 and names == sorted(names)
    assert "agent_0/agent_0/q_func/fully_connected_1/weights/Adam_1" in names
    assert "agent_0_1/beta2_power" in names


def test_seeds_that_cannot_all_be_trained_are_refused_at_once(w):
    config = w.small(steps=200)
    for words, says in ((("--seeds", "1,2", "--seed", "3"),
                         "--seed and --seeds are both given, expected one"),
                        (("--seed", "3", "--seeds", "1,2"),
                         "--seed and --seeds are both given, expected one"),
                        (("--seeds", "1,2,1"), "--seeds: seed 1 is given twice"),
                        (("--seeds", "1-3,2"), "--seeds: seed 2 is given twice"),
                        (("--seeds", "3-1"), "--seeds '3-1': expected at most 1000 whole"),
                        (("--jobs", "2"), "--jobs is for --seeds"),
                        (("--seeds", "1,2", "--jobs", "0"), "--jobs 0: expected a whole number")):
        _, err = w.brood("run", config, *words, code=2)
        assert err.startswith(f"brood run: {says}") and err.count("\n") == 1, err
    w.brood("run", config, "--name", "small-s2")
    for more in ((), ("--jobs", "2")):
        _, err = w.brood("run", config, "--seeds", "1-2", *more, code=2)
        assert err == ("brood run: run small-s2 exists already (--force replaces it): "
                       "runs/small-s2\n"), err
    _, err = w.brood("run", config, "--seeds", "1-2", "--jobs", "2", "--name", "x", "--set",
                     "run.speed=1", code=2)
    assert "run.speed: unknown key" in err and err.count("\n") == 1, err
    assert os.listdir(w.runs) == ["small-s2"]


def test_seeds_of_a_file_that_extends_another_and_keeps_keys_of_another_algorithm(w):
    w.small(steps=200)
    config = w.path / "other.yaml"
    config.write_text("extends: small.yaml\n"
                      "defaults: {algorithm: iql, settings: {policy: gumbel}}\n")
    _, err = w.brood("run", config, "--seeds", "1,2", "--quiet")
    assert sorted(os.listdir(w.runs)) == ["small-s1", "small-s2"], err


def test_seeds_are_trained_several_at_a_time(w):
    config = w.small(steps=10**7, evaluate=0, checkpoint=10**6)
    p = w.start("run", config, "--name", "a", "--seeds", "1-2,3", "--jobs", "2")
    harness.wait_until("two runs", lambda: all(  # a stop is answered otherwise before them
        harness.rows(w.run_dir(name)) > 0 for name in ("a-s1", "a-s2")))
    assert [r["state"] for r in harness.json_lines(w.brood("runs", "--json")[0])] == \
        ["running"] * 2
    harness.kill(p.pid, signal.SIGTERM)
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()
    assert sorted(os.listdir(w.runs)) == ["a-s1", "a-s2"]
    lines = p.log.read_text().splitlines()
    assert all(line.startswith(("a-s1: ", "a-s2: ")) for line in lines), lines
    assert sum(": stopped after " in line for line in lines) == 2, lines
    config = w.small(steps=400, checkpoint=200)
    out, _ = w.brood("run", config, "--name", "b", "--seeds", "1,2,3", "--jobs", "3", "--json")
    events = harness.json_lines(out)
    assert {e["run"] for e in events} == {"b-s1", "b-s2", "b-s3"}, events
    assert [e["event"] for e in events].count("done") == 3, events
    w.brood("run", config, "--name", "c", "--seeds", "2")
    harness.assert_same_files(harness.tree_bytes(w.run_dir("b-s2") / "checkpoints" / "400"),
                              harness.tree_bytes(w.run_dir("c-s2") / "checkpoints" / "400"))
    # What fails keeps later ones from being started.
    _, err = w.brood("run", config, "--name", "d", "--seeds", "1,2,3", "--jobs", "1",
                     "--init-from", "nowhere", code=3)
    _, err = w.brood("run", config, "--name", "d", "--seeds", "1,2,3", "--jobs", "2",
                     "--init-from", "nowhere", code=3)
    assert err == "brood run: there is no run nowhere in runs\n", err
    _, err = w.brood("run", config, "--name", "d", "--seeds", "1,2,3", "--jobs", "2",
                     "--init-from", "b-s1", "--set", "defaults.actor.hidden=[5]", code=2)
    assert "d-s1: brood run: the weights of" in err and "d-s3" not in err, err


def test_settings_and_seeds_from_the_command_line(w):
    config = w.small()
    w.brood("run", config, "--name", "b", "--seeds", "3,4", "--set", "run.env_steps=400",
            "--set", "agents.agent_1.optimizer.learning_rate=0.001")
    three, four = w.run_dir("b-s3"), w.run_dir("b-s4")
    text = (three / "config.yaml").read_text()
    assert "env_steps: 400" in text and "seed: 3" in text
    assert "seed: 4" in (four / "config.yaml").read_text()

    def data(run):
        return harness.tree_bytes(run / "checkpoints" / "400" / "agent_0")
    assert data(three) != data(four)


def test_names_are_not_taken_twice(w):
    config = w.small(steps=40)
    w.brood("run", config)
    w.brood("run", config)
    assert sorted(p.name for p in w.runs.iterdir()) == ["small-1", "small-2"]
    w.brood("run", config, "--name", "mine")
    _, err = w.brood("run", config, "--name", "mine", code=2)
    assert "mine" in err and "--force" in err
    w.brood("run", config, "--name", "mine", "--force")


def test_a_wrong_configuration_starts_nothing(w):
    config = w.write("bad.yaml", "env: {id: simple_spread}\nexperience: {batchsize: 3}\n")
    _, err = w.brood("run", config, code=2)
    assert "bad.yaml:2" in err and "batchsize" in err and "batch_size" in err, err
    assert not w.runs.exists()


def test_ddpg_and_continuous_actions_train(w):
    for i, settings in enumerate((["defaults.algorithm=ddpg"],
                                  ["env.actions=continuous"],
                                  ["env.actions=continuous", "env.rules=openai",
                                   "defaults.settings.execute=soft"],
                                  ["env.params.agents=2", "defaults.settings.own_batches=true"])):
        sets = [word for s in settings for word in ("--set", s)]
        w.brood("run", w.small(), "--name", f"v{i}", "--set", "run.env_steps=600", *sets)


def test_every_shipped_configuration_trains(w):
    """Each for a few hundred steps with some updates; sanitized, each kind of agents in each
    environment once."""
    small = ["run.env_steps=400", "env.copies=4", "log.every_env_steps=100"]
    drawn = ["experience.warmup=100", "experience.batch_size=64", "experience.update_every=50"]
    if harness.SANITIZED:
        small[0] = "run.env_steps=200"
        drawn[1:] = ["experience.batch_size=8", "experience.update_every=100"]
    window = ["experience.update_every=200"]  # all rows since the last update: eight chunks of 25
    tried = set()
    for path in sorted((harness.SOURCE / "configs").glob("*.yaml")):
        text = path.read_text()
        if "id: none" in text:  # trains when a client says so
            continue
        kind = tuple(sorted(set(re.findall(r"(?m)^ *(?:id|command|plugin|algorithm): .*", text))))
        if harness.SANITIZED and kind in tried:
            continue
        tried.add(kind)
        places = [f"env.directory={harness.SOURCE}"] if "command:" in text or \
            "plugin:" in text else []  # where paths of external environments begin
        if "plugin:" in text:
            places.append(f"env.plugin={harness.BUILD}/tests/examples/{path.stem}.so")
        is_on_policy = re.search("algorithm: (coma|happo|ia2c|ippo|maa2c|mappo)\\b", text)
        rows = window if is_on_policy else drawn
        sets = [word for s in small + rows + places for word in ("--set", s)]
        w.brood("run", path, "--name", path.stem, *sets)
        progress = (w.run_dir(path.stem) / "metrics" / "progress.csv").read_text()
        rows = list(csv.DictReader(progress.splitlines()))
        blind = re.search("algorithm: (iql|vdn|qmix)\\b", text)  # has no actor
        losses = [k for k in rows[-1] if k.startswith("train/") and "loss" in k
                  and not (blind and "actor" in k)]
        assert losses and all(rows[-1][k] for k in losses), (path.stem, rows[-1])


def test_games_of_bad_luck_are_solved(w):
    """The optimum of climbing is 11 per step; that of penalty is 10 for any k."""
    if harness.SANITIZED:
        raise harness.Skip("what is learned is the same in both builds")
    for name, k, best in (("climbing", None, 11), ("penalty", 0, 10), ("penalty", -25, 10),
                          ("penalty", -100, 10)):
        for seed in (1, 2):
            run = f"{name}{k}-s{seed}"
            params = ["--set", f"env.params.k={k}"] if k is not None else []
            w.brood("run", harness.SOURCE / "configs" / f"{name}.yaml", "--name", run,
                    "--seed", seed, *params)
            out, _ = w.brood("eval", run, "--episodes", "2", "--json")
            assert json.loads(out)["team_return_mean"] == 25 * best, (run, out)


if __name__ == "__main__":
    harness.main()
