"""Agents that act and never learn: alone, beside learners, killed, resumed; and policies
that come from a checkpoint."""
import json
import os
import pathlib
import random
import shutil
import sys

import harness
from test_exactness import outcome

sys.path.insert(0, str(harness.SOURCE / "scripts"))
try:
    import drive_critics
except ImportError:  # which needs python3-msgpack
    drive_critics = None

# Returns of an evenly random team by the reference's own episodes, and what good rules
# reach at least: simple_spread and so on, by agent.
RANDOM = {"simple": (-41.8, 6), "simple_reference": (-28.2, 2.5),
          "simple_speaker_listener": (-42.2, 6), "simple_spread": (-27.3, 2)}
GOOD = {"simple": -10, "simple_reference": -12, "simple_speaker_listener": -12,
        "simple_spread": -12}

MIXED = """
run: {name: mixed, seed: 5, env_steps: 2400}
env: {id: simple_spread, copies: 4, params: {agents: 4}}
experience: {capacity: 2000, batch_size: 32, warmup: 200, update_every: 20}
evaluation: {every_env_steps: 1200, episodes: 8}
checkpoint: {every_env_steps: 400, max_to_keep: 0}
log: {every_env_steps: 400}
defaults: {actor: {hidden: [16, 16]}, critic: {hidden: [16, 16]},
           restart: {max_restarts: 100000, delay: 0s}}
agents:
  agent_0: {}
  agent_1: {algorithm: random}
  agent_2: {algorithm: frozen, settings: {from: teacher@1000, agent: agent_1, choose: sample}}
  agent_3: {algorithm: heuristic}
"""


def evaluate(w, run, *args):
    return json.loads(w.brood("eval", run, "--json", *args)[0])


def returns(w, env, algorithm, **others):
    """The mean return of each agent if all act by one rule, except some."""
    agents = ", ".join(f"{name}: {{algorithm: {a}}}" for name, a in others.items())
    config = w.write("fixed.yaml", f"run: {{env_steps: 32}}\nenv: {{id: {env}}}\n"
                     f"evaluation: {{every_env_steps: 0}}\n"
                     f"defaults: {{algorithm: {algorithm}}}\nagents: {{{agents}}}\n")
    w.brood("run", config, "--name", "fixed", "--force")
    return evaluate(w, "fixed", "--episodes", "500")["return_mean"]


def play(w, env, algorithm):
    """The mean return, by agent, of a team that acts by this rule."""
    found = returns(w, env, algorithm)
    return sum(found.values()) / len(found)


def teacher(w, agents=4):
    """A short run whose policies other runs use."""
    w.brood("run", w.small(steps=2000, evaluate=0), "--name", "teacher", "--set",
            f"env.params.agents={agents}")


def test_random_teams_return_what_the_reference_does_and_rules_are_good(w):
    for env, (mean, slack) in RANDOM.items():
        assert abs(play(w, env, "random") - mean) < slack, env
        assert play(w, env, "heuristic") > GOOD[env], env


def test_either_side_of_simple_tag_has_good_rules(w):
    """The opponents are random; the reference has 4.9 and -18.5 if both sides are."""
    both = returns(w, "simple_tag", "random")
    assert abs(both["adversary_0"] - 4.9) < 2 and abs(both["agent_0"] + 18.5) < 5, both
    hunters = returns(w, "simple_tag", "heuristic", agent_0="random")
    assert hunters["adversary_0"] > 40 and hunters["agent_0"] < -50, hunters
    prey = returns(w, "simple_tag", "random", agent_0="heuristic")
    assert prey["adversary_0"] < 2.5 and prey["agent_0"] > -4, prey


def test_a_frozen_team_plays_as_the_one_it_comes_from(w):
    teacher(w, 3)
    frozen = w.write("frozen.yaml", "run: {env_steps: 32}\nevaluation: {every_env_steps: 0}\n"
                     "env: {id: simple_spread, copies: 4, params: {agents: 3}}\n"
                     "defaults: {algorithm: frozen, settings: {from: teacher}}\n")
    w.brood("check", frozen)
    w.brood("check", "--runs-dir", w.runs, frozen, env={"BROOD_RUNS_DIR": "elsewhere"})
    w.brood("run", frozen, "--name", "frozen")
    w.brood("run", frozen, "--name", "again", "--set", "defaults.settings.from=frozen")
    shutil.rmtree(w.run_dir("teacher") / "checkpoints" / "1000")
    expected = evaluate(w, "teacher")
    w.brood("eval", "frozen", "--stochastic")
    shutil.rmtree(w.run_dir("teacher"))  # nothing of it is needed any more
    for name in "frozen", "again":
        found = evaluate(w, name)
        for key in "return_mean", "return_std", "teams", "length_mean":
            assert found[key] == expected[key], (name, key)


def test_changes_of_common_settings_pass_a_frozen_agent_by(w):
    """Its graph may have its teacher's settings under the same name."""
    teacher(w, 3)
    mixed = w.write("mixed.yaml", "run: {env_steps: 400}\nevaluation: {every_env_steps: 0}\n"
                    "env: {id: simple_spread, copies: 4, params: {agents: 3}}\n"
                    "experience: {batch_size: 16, warmup: 40, update_every: 20}\n"
                    "defaults: {algorithm: ddpg, discount: {at: {0: 0.9, 200: 0.8}}}\n"
                    "agents: {agent_0: {algorithm: frozen, settings: {from: teacher}}}\n")
    _, err = w.brood("run", mixed, "--name", "mixed")
    assert "400 steps" in err and " 0 restarts" in err, err


def test_scores_of_combined_choices_are_acted_by(w):
    """A Q-network has a score for each pair of a move and a word."""
    config = """
run: {{env_steps: 400}}
env: {{id: simple_reference, copies: 4}}
experience: {{batch_size: 16, warmup: 40, update_every: 20}}
evaluation: {{every_env_steps: 0}}
defaults: {{{defaults}}}
"""
    w.brood("run", w.write("iql.yaml", config.format(defaults="algorithm: iql")), "--name",
            "iql")
    w.brood("run", w.write("frozen.yaml", config.format(
        defaults="algorithm: frozen, settings: {from: iql}")), "--name", "frozen")
    taught, frozen = (evaluate(w, run) for run in ("iql", "frozen"))
    assert taught["return_mean"] == frozen["return_mean"]
    w.brood("run", w.write("frozen.yaml", config.format(
        defaults="algorithm: frozen, settings: {from: iql, choose: sample}")), "--name",
        "sampled")
    one, many = (evaluate(w, "sampled", "--copies", n) for n in "19")
    assert one == many and one["return_mean"] != taught["return_mean"]


def test_beside_learners_they_are_killed_and_resumed_exactly(w):
    teacher(w)
    config = w.write("mixed.yaml", MIXED)
    w.brood("run", config, "--name", "calm")
    draw = random.Random(4)
    p = w.start("run", config, "--name", "killed")
    shown = w.run_dir("killed") / "checkpoints" / "400"
    harness.wait_until("a checkpoint", lambda: shown.exists() or p.poll() is not None)
    shutil.rmtree(w.run_dir("teacher"))
    for _ in range(12):
        agents = harness.agents_of(p.pid)
        if agents:
            harness.kill(draw.choice(sorted(agents.values())))
    harness.kill_holder(p, w.run_dir("killed"))
    w.brood("resume", "killed")
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(w.run_dir("killed")))
    # What is frozen stays as it was; what learns does not.
    first, last = (w.run_dir("calm") / "checkpoints" / step for step in ("0", "2400"))

    def data(step, agent):
        return next((step / agent).glob("*.data-*")).read_bytes()
    assert data(first, "agent_2") == data(last, "agent_2") != b""
    assert data(first, "agent_0") != data(last, "agent_0")


def test_new_training_from_old_weights_leaves_them_alone(w):
    teacher(w)
    config = w.write("mixed.yaml", MIXED)
    w.brood("run", config, "--init-from", "teacher", "--name", "first", "--set",
            "run.env_steps=4")
    step = w.run_dir("first") / "checkpoints" / "0"
    taught = w.run_dir("teacher") / "checkpoints" / "2000"
    before, after = (next((p / "agent_0").glob("*.data-*")).read_bytes()
                     for p in (taught, step))
    assert before == after


def test_other_environments_choices_are_refused(w):
    """They have the right shape but another meaning."""
    def taught(name, env):
        w.brood("run", w.write("taught.yaml", f"run: {{env_steps: 32}}\nenv: {{{env}}}\n"
                "evaluation: {every_env_steps: 0}\ndefaults: {algorithm: iql}\n"),
                "--name", name)

    def check(env, source, code):
        path = w.write("frozen.yaml", f"run: {{env_steps: 32}}\nenv: {{{env}}}\n"
                       "defaults:\n  algorithm: frozen\n  settings:\n"
                       f"    from: {source}\nevaluation: {{every_env_steps: 0}}\n")
        _, said = w.brood("check", path, code=code)
        if code == 0:
            return w.brood("run", path, "--name", "good", "--force")
        assert said.count("\n") == 1 and said.startswith(
            f"{path}:6: agents."), said
        return said

    taught("mpe2", "id: simple")
    taught("openai", "id: simple, rules: openai")
    taught("climbing", "id: climbing")
    taught("grid", "id: foraging, params: {players: 2, food: 3}")
    said = check("id: simple", "openai@32", 2)
    assert "agents.agent_0.settings.from: it was trained with env.rules: openai (" in said
    assert said.endswith("runs/openai/config.yaml), here it is mpe2\n"), said
    inside = w.run_dir("openai") / "checkpoints" / "32" / "agent_0"
    assert "env.rules: openai" in check("id: simple", inside, 2)
    assert "env.rules: mpe2" in check("id: simple, rules: openai", "mpe2", 2)
    assert "env.actions: discrete" in check("id: simple, actions: continuous", "mpe2", 2)
    assert "env.id: climbing" in check("id: penalty", "climbing", 2)
    assert "env.params.players: 2" in check(
        "id: foraging, params: {players: 3, food: 2}", "grid\n    agent: player_0", 2)
    check("id: simple, max_steps: 10, params: {reference_seed: 3}", "mpe2", 0)
    check("id: simple, rules: openai", "openai", 0)
    shutil.copytree(inside, w.path / "copy")
    check("id: simple", w.path / "copy", 0)


def test_what_cannot_be_frozen_is_said_in_a_line(w):
    teacher(w)
    config = w.write("mixed.yaml", MIXED)

    def refused(*settings, code=2):
        pairs = [word for s in settings for word in ("--set", s)]
        _, err = w.brood("run", config, "--name", "no", "--force", *pairs, code=code)
        lines = [line for line in err.splitlines() if line.startswith("brood run: ")]
        assert len(lines) == 1, err
        return lines[0]

    frozen = "agents.agent_2.settings."
    assert "there is no run nobody" in refused(frozen + "from=nobody")
    assert "holds no checkpoint of step 7" in refused(frozen + "from=teacher@7")
    assert "agent_9" in refused(frozen + "agent=agent_9")
    assert "expected from: RUN" in refused("agents.agent_2.settings={}")
    assert "both or neither" in refused(frozen + "observation=x")
    assert "'nothing:0'" in refused(frozen + "observation='nothing:0'",
                                    frozen + "action='x:0'")
    assert "with env.params.agents: 4 " in refused(
        "env.params.agents=3", "agents.agent_3=")
    copy = w.path / "copy"  # of no run: nobody knows what it was taught in
    shutil.copytree(w.run_dir("teacher") / "checkpoints" / "1000" / "agent_1", copy)
    assert "observation1:0, is float32 (?, 24); float32 (rows, 18)" in refused(
        "env.params.agents=3", "agents.agent_3=", f"{frozen}from={copy}")
    assert "no rules for simple_push" in refused(
        "env={id: simple_push}", "agents={agent_0: {algorithm: heuristic}}")
    meta = w.run_dir("teacher") / "checkpoints" / "1000" / "agent_1" / "model.ckpt-1000.meta"
    meta.write_bytes(meta.read_bytes()[:1000])
    assert "not a MetaGraphDef" in refused()
    meta.unlink()
    assert "model.ckpt-1000.meta" in refused()
    assert not (w.run_dir("no") / "checkpoints" / "0").exists()


REAL = pathlib.Path(os.environ.get("BROOD_SHARED_DIR", ""), "data", "tf-checkpoints",
                    "01-mbeliaev1-maddpg", "policy", "h10s5", "5")

REAL_AGENT = """
run: {{name: real}}
env: {{id: none}}
agents:
  agent_0:
    observation: 8
    action: 9
    algorithm: frozen
    settings: {{from: "{real}/", observation: "observation0:0",
               action: "agent_0_1/p_func/fully_connected_2/BiasAdd:0"}}
"""


def test_an_agent_computes_what_a_real_file_says(w):
    if not drive_critics:
        raise harness.Skip("python3-msgpack is not installed")
    if not REAL.exists():
        raise harness.Skip("the real checkpoints are not here")
    observation = [0.5, -1, 0.25, 2, 0, 1, -0.5, 3]
    name = "agent_0_1/p_func/fully_connected_2/BiasAdd:0"
    out, _ = w.brood("graph", f"{REAL}/", "--feed",
                     f"observation0:0=[{observation}]", "--fetch", name, "--json")
    expected = harness.json_lines(out)[-1]["values"]
    p = w.start("run", w.write("real.yaml", REAL_AGENT.format(real=REAL)), "--name", "real")
    harness.wait_until("the run", lambda: w.run_dir("real").exists())
    client = drive_critics.Run(w.run_dir("real"))
    harness.wait_until("the agent", lambda: client.call("status")["state"] != "starting")
    feeds = {"observation0:0": drive_critics.tensor(observation, 1, 8)}
    for _ in range(2):
        found = client.call("run", agent="agent_0", feeds=feeds, fetches=[name])
        assert list(drive_critics.floats(found["fetched"][0])) == expected
        harness.kill(harness.agents_of(p.pid)["agent_0"])
    client.call("stop")
    assert p.wait(timeout=harness.DEADLINE_S) == 4, p.log.read_text()


if __name__ == "__main__":
    harness.main()
