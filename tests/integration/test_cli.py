"""The command line: help, wrong usage, information as JSON."""
import json
import os
import re
import subprocess

import harness

COMMANDS = ("run", "resume", "runs", "rm", "attach", "wait", "logs", "status", "set", "edit",
            "kill", "respawn", "pause", "continue", "checkpoint", "stop", "check", "eval",
            "report", "envs", "algorithms", "inspect", "graph", "export", "version")


def test_help_names_every_command_and_each_has_an_example(w):
    out, _ = w.brood("--help")
    for name in COMMANDS:
        assert re.search(rf"^  {name} ", out, re.M), name
        text, _ = w.brood(name, "--help")
        assert text.startswith(f"usage: brood {name} "), text
        assert "example" in text and "--json" in text, text


def test_help_of_a_command_is_its_own(w):
    for name in ("run", "kill"):
        assert w.brood("help", name) == w.brood(name, "--help"), name
    assert w.brood("help") == w.brood("--help")
    _, err = w.brood("help", "fly", code=2)
    assert "no command 'fly'" in err, err


def test_runs_are_kept_where_it_is_said(w):
    elsewhere, third = w.path / "elsewhere", w.path / "third"
    env = {"BROOD_RUNS_DIR": str(elsewhere)}
    w.brood("run", w.small(steps=200), "--name", "a", env=env)
    assert (elsewhere / "a" / "journal").exists() and not w.runs.exists()
    assert "a: done" in w.brood("status", env=env)[0]
    w.brood("status", "a", code=3)
    w.brood("run", w.small(steps=200), "--name", "b", "--runs-dir", third, env=env)
    assert os.listdir(third) == ["b"] and os.listdir(elsewhere) == ["a"]
    assert "b: done" in w.brood("status", "--runs-dir", third, env=env)[0]
    _, err = w.brood("run", w.small(steps=200), "--name", "c", "--set", "env.params.agents=1",
                     env={"BROOD_RUNS_DIR": ""})
    assert err.startswith("c: 1 agent, seed 1, in runs/c\n"), err
    assert os.listdir(w.runs) == ["c"]


def test_elements_of_lists_are_set_by_their_index(w):
    w.brood("run", w.small(steps=200), "--name", "a", "--set", "defaults.actor.hidden.1=8",
            "--set", "agents.agent_1.critic.hidden=[4, 4]",
            "--set", "agents.agent_1.critic.hidden.0=12")
    text = (w.run_dir("a") / "config.yaml").read_text()
    assert text.count("hidden: [16, 8]\n") >= 1 and text.count("hidden: [12, 4]\n") == 1, text
    _, err = w.brood("check", w.small(), "--set", "defaults.actor.hidden.7=8", code=2)
    assert err.startswith("--set defaults.actor.hidden.7=8: "), err


def test_wrong_usage_is_one_line_and_code_2(w):
    for args in (["fly"], ["run"], ["run", "--wings", "x.yaml"], ["check"],
                 ["runs", "--runs-dir", ""], ["eval", "--episodes", "many"], ["version", "please"],
                 ["run", "--seeds", "", "x.yaml"], ["run", "--seeds", ",", "x.yaml"]):
        out, err = w.brood(*args, code=2)
        assert out == "" and len(err.splitlines()) == 1, (args, out, err)
    out, err = w.brood(code=2)
    assert "usage: brood COMMAND" in err
    for args, word in ((["t.yaml", "-xq"], "-x"), (["t.yaml", "-qx"], "-x"), (["-x"], "-x"),
                       (["--force", "-xq"], "-x"), (["--force=3"], "--force=3"),
                       (["t.yaml", "--json=3"], "--json=3"), (["--forse", "-q"], "--forse")):
        _, err = w.brood("run", *args, code=2)
        assert err.startswith(f"brood run: there is no option {word}"), (args, err)
        assert err[len("brood run: there is no option ") + len(word)] in ";,", (args, err)


def test_a_similar_name_is_suggested(w):
    config, other = w.small(), w.write("other.yaml", "env: {id: none}\n")
    for words, start, near in (
            (["chek", config], "brood: there is no command 'chek'", "check"),
            (["help", "staus"], "brood: there is no command 'staus'", "status"),
            (["run", config, "--sed", "3"], "brood run: there is no option --sed", "--seed"),
            (["run", config, "--sede=3"], "brood run: there is no option --sede=3", "--seed"),
            (["logs", "--qiet"], "brood logs: there is no option --qiet", "--quiet")):
        _, err = w.brood(*words, code=2)
        assert err.startswith(f"{start}; did you mean '{near}'?; see `brood "), err
        assert err.count("\n") == 1, err
    for key, near in (("env.id=simple_sprad", "simple_spread"),
                      ("discount=0.9", "defaults.discount"),
                      ("learning_rate=0.9", "defaults.optimizer.learning_rate"),
                      ("defaults.learning_rate=1", "defaults.optimizer.learning_rate"),
                      ("agents.agent_0.optimizer.discount=1", "defaults.discount"),
                      ("env.seed=1", "run.seed"),
                      ("run.copies=2", "env.copies"),
                      ("env.params.agnets=2", "agents"),
                      ("agents.agent_1.settings.reward_scal=none", "reward_scale"),
                      ("defaults.discont=1", "discount")):
        _, err = w.brood("check", config, "--set", key, code=2)
        assert err.endswith(f"; did you mean '{near}'?\n") and err.count("\n") == 1, err
    _, err = w.brood("run", other, "--zzz", code=2)
    assert err == "brood run: there is no option --zzz; see `brood run --help`\n", err


def test_a_word_that_is_no_command_suggests_what_does_no_harm(w):
    """A short word is one edit from several commands; one that ends a run is not guessed."""
    for word, says in (("shw", "'status'"), ("shop", "'status'"), ("stat", "'status'"),
                       ("st", "'status' or 'stop'"), ("stpo", "'stop'"), ("remov", "'rm'"),
                       ("drop", None), ("r", None), ("fly", None), ("pull", None)):
        _, err = w.brood(word, code=2)
        hint = f"; did you mean {says}?" if says else ""
        assert err == f"brood: there is no command '{word}'{hint}; see `brood --help`\n", err


def test_a_similar_run_agent_or_metric_is_suggested(w):
    w.brood("run", w.small(steps=200), "--name", "small-1")
    w.write("lr.yaml", "base: small.yaml\nsearch: {defaults.discount: [0.9, 0.95]}\n")
    w.brood("sweep", "lr.yaml", "--name", "rate", "--jobs", "2")
    for words, near, code in (
            (["status", "smal-1"], "small-1", 3), (["rm", "smll-1"], "small-1", 3),
            (["status", "raet"], "rate", 3), (["report", "rat"], "rate", 3),
            (["attach", "rte"], "rate", 3), (["trace", "rte/1-s1"], "rate/1-s1", 3),
            (["eval", "smal-1"], "small-1", 3),
            (["logs", "small-1", "agnt_1"], "agent_1", 3), (["logs", "agnt_1"], "agent_1", 3),
            (["report", "small-1", "--metric", "rollout/team_retrun/agent"],
             "rollout/team_return/agent", 3),
            (["report", "small-1", "--metric", "episode_length"], "rollout/episode_length", 3),
            (["report", "small-1", "--metric", "critic_los"], "train/agent_0/critic_loss", 3)):
        _, err = w.brood(*words, code=code)
        assert err.endswith(f"; did you mean '{near}'?\n") and err.count("\n") == 1, err
    for words in (["rm", "small-2"], ["status", "rate/1-s9"], ["status", "unlike"]):
        _, err = w.brood(*words, code=3)
        assert "there is no run" in err and "did you mean" not in err, err
    _, err = w.brood("logs", "rte/1-s1", code=3)
    assert "there is no run rte/1-s1 in runs; did you mean 'rate/1-s1'?; " in err, err
    _, err = w.brood("sweep", "small.yaml", code=2)
    assert "small.yaml:3: env: this is a configuration, `brood run` starts it" in err, err


def test_what_other_tools_say_is_understood(w):
    """Their words for keys and commands, and names of configurations without folder and ending."""
    config = w.small()
    for path, ours in (("defaults.gamma", "defaults.discount"),
                       ("agents.agent_0.lr", "agents.agent_0.optimizer.learning_rate"),
                       ("tau", "defaults.polyak"), ("run.total_timesteps", "run.env_steps"),
                       ("experience.buffer_size", "experience.capacity")):
        _, err = w.brood("run", config, "--set", f"{path}=1", code=2)
        assert f"{path}: unknown key" in err and f"did you mean '{ours}'?" in err, err
    for word, ours in (("show", "status"), ("ls", "runs"), ("train", "run")):
        _, err = w.brood(word, code=2)
        assert f"did you mean '{ours}'?" in err, err
    (w.path / "configs").mkdir()
    w.write("configs/spread.yaml", config.read_text())
    for word in ("spread", "spread.yaml"):
        _, err = w.brood("run", word, code=2)
        assert f"there is no file {word}; did you mean configs/spread.yaml?" in err, err
    assert not w.runs.exists() or not list(w.runs.iterdir())
    for words in (["-h"], ["run", "-h"]):
        long = [x.replace("-h", "--help") for x in words]
        assert w.brood(*words) == w.brood(*long) and w.brood(*words)[0].startswith("usage: "), words


def test_a_run_that_is_over_names_what_goes_on_from_it(w):
    w.brood("run", w.small(steps=200), "--name", "a")
    for words in (["stop", "a"], ["set", "a", "defaults.discount=0.5"]):
        _, err = w.brood(*words, code=3)
        assert "a is not running; it is done: `brood resume a --set run.env_steps=N`" in err, err


def test_results_that_cannot_be_printed_are_an_error(w):
    w.brood("run", w.small(steps=200), "--name", "a")
    for words in (["runs"], ["status", "a", "--json"], ["envs"], ["report", "a"], ["--help"],
                  ["logs", "a"]):
        p = subprocess.run([harness.BROOD, *words], cwd=w.path, check=False, text=True,
                           stdout=open("/dev/full", "w"), stderr=subprocess.PIPE)
        name = "brood" if words == ["--help"] else f"brood {words[0]}"
        assert (p.returncode, p.stderr) == (
            1, f"{name}: cannot print the results: No space left on device\n"), (words, p)


def test_facts_are_json_when_asked(w):
    fact = json.loads(w.brood("version", "--json")[0])
    assert {"version", "binary", "agent_binary", "build_id", "blas",
            "protocol", "numerics", "kernels", "containment", "confinement"} == set(fact)
    assert fact["numerics"] == 3 and fact["kernels"] in ("portable", "neon", "avx2",
                                                         "avx512")
    assert re.fullmatch("[0-9a-f]{40}", fact["build_id"])
    assert any(e["id"] == "simple_spread"
               for e in harness.json_lines(w.brood("envs", "--json")[0]))
    algorithms = {a["name"]: a
                  for a in harness.json_lines(w.brood("algorithms", "--json")[0])}
    assert [algorithms[name].get("rows") for name in ("maddpg", "qmix", "mappo", "random")] == [
        "transitions", "episodes", "window", None]
    assert algorithms["maddpg"]["shares"] and not algorithms["happo"]["shares"]
    assert all(a["use"] and a["source"] for a in algorithms.values()), algorithms
    text = w.brood("algorithms")[0]
    assert text.count("\n  use      ") == len(algorithms), text


SEED = {"reference_seed": -1}
SUCCESS = {"terminate_on_success": False}
# id: parameters with their defaults; agents with observation and heads of the action.
ENVS = {
    "simple": (SEED, [("agent_0", 4, [5])]),
    "simple_adversary": ({"agents": 2, **SEED}, [
        ("adversary_0", 8, [5]), ("agent_0", 10, [5]), ("agent_1", 10, [5])]),
    "simple_crypto": (SEED, [("eve_0", 4, [4]), ("bob_0", 8, [4]), ("alice_0", 8, [4])]),
    "simple_formation": ({"agents": 4, **SUCCESS, **SEED}, [
        (f"agent_{i}", 6, [5]) for i in range(4)]),
    "simple_line": ({"agents": 4, **SUCCESS, **SEED}, [
        (f"agent_{i}", 8, [5]) for i in range(4)]),
    "simple_push": (SEED, [("adversary_0", 8, [5]), ("agent_0", 19, [5])]),
    "simple_reference": ({"local_ratio": 0.5, **SEED}, [
        ("agent_0", 21, [5, 10]), ("agent_1", 21, [5, 10])]),
    "simple_speaker_listener": (SEED, [("speaker_0", 3, [3]), ("listener_0", 11, [5])]),
    "simple_spread": ({"agents": 3, "local_ratio": 0.5, **SUCCESS, **SEED}, [
        (f"agent_{i}", 18, [5]) for i in range(3)]),
    "simple_tag": ({"good": 1, "adversaries": 3, "obstacles": 2, **SUCCESS, **SEED}, [
        *((f"adversary_{i}", 16, [5]) for i in range(3)), ("agent_0", 14, [5])]),
    "simple_world_comm": (
        {"good": 2, "adversaries": 4, "obstacles": 1, "food": 2, "forests": 2, **SEED}, [
            ("leadadversary_0", 34, [5, 4]), *((f"adversary_{i}", 34, [5]) for i in range(3)),
            ("agent_0", 28, [5]), ("agent_1", 28, [5])]),
    "collect_treasure": ({"collectors": 6, "deposits": 2, "treasures": 6, **SEED}, [
        *((f"collector_{i}", 86, [5]) for i in range(6)),
        *((f"deposit_{i}", 84, [5]) for i in range(2))]),
    "climbing": ({"observe_last": False}, [(f"agent_{i}", 1, [3]) for i in range(2)]),
    "penalty": ({"k": -25, "observe_last": False}, [
        (f"agent_{i}", 1, [3]) for i in range(2)]),
    "prisoners_dilemma": ({"observe_last": False}, [
        (f"agent_{i}", 1, [2]) for i in range(2)]),
    "stag_hunt": ({"observe_last": False}, [(f"agent_{i}", 1, [2]) for i in range(2)]),
    "matrix_game": ({"payoffs": "{all: [[1, 0], [0, 1]]}", "observe_last": False}, [
        (f"agent_{i}", 1, [2]) for i in range(2)]),
    "foraging": ({"size": 8, "rows": 0, "columns": 0, "players": 2, "food": 2,
                  "min_level": 1, "max_level": 2, "min_food_level": 1, "max_food_level": 0,
                  "food_levels": "v3", "sight": 0, "cooperate": False, "penalty": 0, "grid": False,
                  "observe_levels": True, "normalize_reward": True, **SEED}, [
        (f"player_{i}", 12, [6]) for i in range(2)]),
    "overcooked": ({"layout": "cramped_room", "recipes": "{ooo: {value: 20, time: 20}}",
                    "shaping": 1, "horizon": 400}, [(f"cook_{i}", 520, [6]) for i in range(2)]),
    "rware": ({"size": "tiny", "agents": 2, "difficulty": "normal", "requests": 0,
               "reward": "individual", "sensor_range": 1, "message_bits": 0,
               "normalized_coordinates": False, "shelf_rows": 0, "shelf_columns": 0,
               "column_height": 8, "layout": "size", "max_inactivity": 0, **SEED}, [
        (f"robot_{i}", 71, [5]) for i in range(2)]),
    "constant_reward": ({"agents": 1}, [("agent_0", 1, [2])]),
    "one_step": ({"agents": 1}, [("agent_0", 1, [2])]),
    "two_step": ({"agents": 1}, [("agent_0", 1, [2])]),
}


def test_every_environment_is_told(w):
    told = harness.json_lines(w.brood("envs", "--json")[0])
    assert [e["id"] for e in told] == list(ENVS)
    for e in told:
        params, agents = ENVS[e["id"]]
        assert e["params"] == params, e
        assert [(a["name"], a["observation"], a["heads"]) for a in e["agents"]] == agents, e
        assert all(a["action"] == sum(a["heads"]) and a["kind"] == "discrete"
                   for a in e["agents"]), e
        keys = [f"env.params.{key}" for key in params]
        if "reference_seed" in params and e["id"] not in ("foraging", "rware"):
            keys = ["env.rules", "env.actions", *keys]
        assert [p["key"] for p in e["parameters"]] == keys, e
        for p in e["parameters"]:
            assert p["doc"] and p["value"] == p["default"], p
            assert "min" not in p or p["min"] <= p["value"] <= p["max"], p
            assert p["value"] in p.get("choices", [p["value"]]), p
        assert harness.json_lines(w.brood("envs", e["id"], "--json")[0]) == [e]


def test_one_environment_is_told_whole(w):
    out, _ = w.brood("envs", "simple_world_comm")
    for line in ("  agents  1 leadadversary: observation 34, action 5+4, discrete",
                 "          2 agent: observation 28, action 5, discrete",
                 "  env.actions                discrete   kind of the action spaces "
                 "(discrete or continuous)",
                 "  env.params.adversaries     4          agents that hunt them, with the "
                 "leader (1 to 1000)",
                 "  env.params.reference_seed  -1         -1: none; else episode k is the "
                 "reference's reset(seed + k) (-1 to 1e+15)"):
        assert line in out.splitlines(), out
    file = w.write("tag.yaml", "env: {id: simple_tag, rules: openai, actions: continuous,\n"
                   "      params: {adversaries: 5}}\n")
    out, _ = w.brood("envs", file)
    for line in ("  agents  5 adversary: observation 20, action 5, continuous",
                 "  env.rules                  openai     the particle worlds' rules and "
                 "numbers (mpe2 or openai; default mpe2)",
                 "  env.params.good            1          agents that are hunted (1 to 1000)",
                 "  env.params.adversaries     5          agents that hunt them "
                 "(1 to 1000; default 3)"):
        assert line in out.splitlines(), out
    fact, = harness.json_lines(w.brood("envs", file, "--json")[0])
    assert fact["params"] == {"good": 1, "adversaries": 5, "obstacles": 2,
                              **SUCCESS, **SEED}, fact
    assert fact["agents"][0] == {"name": "adversary_0", "observation": 20, "action": 5,
                                 "kind": "continuous", "heads": []}, fact
    out, err = w.brood("envs", "simple_tog", code=2)
    assert out == "" and err.count("\n") == 1 and "did you mean 'simple_tag'?" in err, err


def test_a_missing_configuration_is_refused(w):
    _, err = w.brood("run", "nowhere.yaml", code=2)
    assert "nowhere.yaml" in err and len(err.splitlines()) == 1
    assert not w.runs.exists()


def test_a_missing_run_is_code_3(w):
    _, err = w.brood("eval", "nothing", code=3)
    assert "nothing" in err and len(err.splitlines()) == 1


def test_closed_stdout_is_no_crash(w):
    p = subprocess.run(f"{harness.BROOD} envs >&-", shell=True, cwd=w.path,
                       stderr=subprocess.PIPE, check=False)
    assert p.returncode == 1, p
    assert p.stderr == b"brood envs: cannot print the results: Bad file descriptor\n", p


def test_a_run_needs_neither_stdin_nor_stdout_nor_stderr(w):
    """A service or a program may start it without any."""
    config = w.small(steps=400)
    for name, closed in (("a", "<&- >&- 2>&-"), ("b", ">&- 2>&-"), ("c", "<&- 2>&-"), ("d", "2>&-")):
        p = subprocess.run(f"exec {harness.BROOD} run {config} --name {name} {closed}", shell=True,
                           cwd=w.path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        assert (p.returncode, p.stdout, p.stderr) == (0, b"", b""), (closed, p)
        assert w.status(name)["state"] == "done"
    calm, closed = (harness.tree_bytes(w.run_dir(name) / "checkpoints" / "400" / "agent_0")
                    for name in "da")
    harness.assert_same_files(calm, closed)


if __name__ == "__main__":
    harness.main()
