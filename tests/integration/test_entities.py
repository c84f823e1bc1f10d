"""Policies that see entities: deaths, a resume and a fork change no byte, and they play in teams
of another size than they were trained in."""
import json
import re
import sys

import harness
from test_exactness import outcome

CONFIG = """
env: {{{env}, observe: entities, copies: 8}}
run: {{env_steps: {steps}, seed: 4}}
experience: {{{experience}}}
checkpoint: {{every_env_steps: 528, max_to_keep: none}}
log: {{every_env_steps: 264}}
defaults:
  algorithm: {algorithm}
  actor: {{hidden: [16], entities: {{units: [8], {actor}}}}}
  critic: {{hidden: [16], entities: {{units: [8], {critic}}}}}
  restart: {{max_restarts: 1000000, delay: 0s}}
  {more}
"""
SPREAD = "id: simple_spread, reward: team_mean"
WINDOW, DRAWN = "update_every: 264", "update_every: 264, batch_size: 16, warmup: 264"
# (algorithm, environment, experience, actor, critic, other keys)
CASES = {
    "shared": ("mappo", SPREAD, WINDOW, "pool: attention, heads: 2", "pool: max",
               "share: team\n  settings: {symmetry: env, epochs: 2}"),
    "tag": ("maddpg", "id: simple_tag", DRAWN, "pool: max", "pool: mean", ""),
    "values": ("qmix", "id: foraging, reward: team_mean, max_steps: 20", DRAWN, "pool: mean",
               "pool: attention", ""),
}


def config(w, name, steps):
    algorithm, env, experience, actor, critic, more = CASES[name]
    return w.write(f"{name}.yaml", CONFIG.format(
        algorithm=algorithm, env=env, experience=experience, actor=actor, critic=critic, more=more,
        steps=steps))


def returns(w, run, *args):
    out, _ = w.brood("eval", run, "--episodes", "8", "--json", *args)
    return json.loads(out.splitlines()[-1])["return_mean"]


def test_deaths_change_nothing(w):
    file = config(w, "shared", 2112)
    w.brood("run", file, "--name", "calm")
    p = w.start("run", file, "--name", "killed")
    harness.wait_until("its rows", lambda: harness.checkpoints(w.run_dir("killed")))
    w.kill_agents(p, "killed")
    assert p.wait() == 0, p.log.read_text()
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(w.run_dir("killed")))
    w.brood("fork", "calm@1056", "--name", "fork")
    w.brood("resume", "fork")
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(w.run_dir("fork")))


def test_teams_of_another_size(w):
    """In larger and smaller ones, whatever the critic sees; agents that the run did not have act
    as the first of their team."""
    for name, size, n, others in (("shared", "agents", 3, (2, 5)), ("tag", "adversaries", 3, (4,)),
                                  ("values", "players", 2, (3,))):
        w.brood("run", config(w, name, 528), "--name", name)
        was = returns(w, name)
        assert returns(w, name, "--set", f"env.params.{size}={n}") == was, name
        for other in others:
            are = returns(w, name, "--set", f"env.params.{size}={other}")
            assert len(are) == len(was) + other - n, (name, are)
            assert name == "values" or set(are.values()).isdisjoint(was.values()), (was, are)


CROWD = """
env: {{command: {command}, observe: entities, copies: 16, verify: false}}
run: {{env_steps: {steps}, seed: 4}}
experience: {{update_every: 256}}
evaluation: {{every_env_steps: 0}}
defaults:
  algorithm: ippo
  discount: 0.5
  actor: {{hidden: [16], entities: {{units: [16]}}}}
  critic: {{hidden: [16], entities: {{units: [16]}}}}
  optimizer: {{learning_rate: 0.01}}
"""


def test_entities_of_a_program(w):
    """Learnt with three, a policy judges nine; it is loaded, too. Each of eight steps pays 1."""
    folder = harness.SOURCE / "tests" / "support"
    bridge = harness.SOURCE / "scripts" / "pettingzoo_bridge.py"
    steps = 512 if harness.SANITIZED else 4096  # the former is not enough to learn it
    file = w.write("crowd.yaml", CROWD.format(
        command=json.dumps(["python3", str(bridge), str(folder / "crowd.py")]), steps=steps))
    w.brood("run", file, "--name", "crowd")
    found = [returns(w, "crowd", "--set", f"env.params.things={n}")["agent_0"] for n in (3, 9)]
    assert min(found) > 7 or harness.SANITIZED, found
    sys.path[:0] = [str(harness.SOURCE / "scripts" / "python"), str(folder)]
    import brood
    import crowd
    env = crowd.Crowd()
    played = brood.play(env, brood.load_policies(w.run_dir("crowd"), env), 8)["agent_0"].mean()
    assert played > 7 or harness.SANITIZED, played
    _, err = w.brood("check", file, "--set", "env.params.plain=true", code=2)
    assert "does not show entities to agent_0" in err and err.count("\n") == 1, err


def test_what_cannot_be_is_refused(w):
    text = config(w, "shared", 264).read_text().replace(", observe: entities", "")
    vector = w.write("vector.yaml", re.sub(", entities: {.*", "}", text))
    w.brood("run", vector, "--name", "vector")
    for args, code, text in (
            (("--set", "env.params.agents=5"), 1, "for one number of agents"),
            (("--set", "run.seed=3"), 2, "expected a key of env"),
            (("--set", "env.id=simple_tag"), 3, "has no agent adversary_0, and no other of its")):
        _, err = w.brood("eval", "vector", *args, code=code)
        assert text in err and err.count("\n") == 1, err
    # a policy that its graph does not name, as it sees more than observations
    w.brood("run", vector, "--name", "last", "--set", "defaults={algorithm: iql, settings: "
            "{last_action: true}}", "--set", "experience={batch_size: 8, warmup: 264}")
    _, err = w.brood("eval", "last", "--set", "env.params.agents=5", code=1)
    assert "for one number of agents" in err and err.count("\n") == 1, err
    for setting, text in (("env.id=simple_push", "does not show entities"),
                          ("defaults.settings.normalize_observations=running", "as they are")):
        _, err = w.brood("check", config(w, "shared", 264), "--set", setting, code=2)
        assert text in err, err
    _, err = w.brood("check", config(w, "tag", 264), "--set", "defaults.algorithm=heuristic", code=2)
    assert "not what simple_tag shows" in err, err


if __name__ == "__main__":
    harness.main()
