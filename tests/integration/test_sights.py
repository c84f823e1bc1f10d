"""Observations in parts, a picture beside numbers: both are seen, by every kind of network and in
stacks; deaths and a fork change nothing; loaded policies score as the agents did."""
import json
import re
import sys

import harness
import numpy as np
from test_exactness import outcome
from test_hybrid import evaluated, reported
from test_on_policy import floats_of_the_log

sys.path[:0] = [str(harness.SOURCE / "scripts" / "python"),
                str(harness.SOURCE / "tests" / "support")]

import brood
import sights

CONFIG = """
env: {{command: {command}, params: {{{params}}}, copies: 16, verify: false, stack: {stack},
      max_steps: 8}}
run: {{env_steps: {steps}, seed: 4}}
experience: {{{experience}, keep: true}}
checkpoint: {{every_env_steps: {every}, max_to_keep: none}}
evaluation: {{every_env_steps: 0}}
log: {{every_env_steps: {every}}}
defaults:
  algorithm: {algorithm}
  discount: 0.5
  actor: {{conv: [[4, 2, 2]], hidden: [32]}}
  critic: {{conv: [[4, 2, 2]], hidden: [32]}}
  optimizer: {{learning_rate: 0.005}}
  restart: {{max_restarts: 1000000, delay: 0s}}
  {more}
"""
COMMAND = json.dumps(["python3", str(harness.SOURCE / "scripts" / "pettingzoo_bridge.py"),
                      str(harness.SOURCE / "tests" / "support" / "sights.py") + ":Sights"])
WINDOW = "update_every: 256"
REPLAY = "capacity: 2000, batch_size: 16, warmup: 100, update_every: 20"


def config(w, name, algorithm, steps=256, every=256, params="", stack=1, experience=WINDOW,
           more=""):
    return w.write(f"{name}.yaml", CONFIG.format(
        command=COMMAND, algorithm=algorithm, steps=steps, every=every, params=params, stack=stack,
        experience=experience, more=more))


class Blind(sights.Sights):
    """`eyes` or `bit` is hidden."""
    hidden = None

    def look(self):
        seen = super().look()
        for s in seen.values():
            s[self.hidden] = 0 if self.hidden == "bit" else [[[90] * 1] * 4] * 4
        return seen


def test_both_parts_are_learnt(w):
    """The best return of eight steps is 8, of one part alone 4; a policy that sees both is lost
    without either."""
    steps = 512 if harness.SANITIZED else 2048  # the former is not enough to learn it
    w.brood("run", config(w, "learns", "ippo", steps, steps,
                          more="settings: {epochs: 4, minibatches: 4}"), "--name", "learns")
    found = evaluated(w, "learns")
    assert found > 7.5 or harness.SANITIZED, found
    again = config(w, "again", "frozen", 16, 16, more="settings: {from: learns}").read_text()
    w.brood("run", w.write("again.yaml", re.sub("  (actor|critic|optimizer): .*\n", "", again)),
            "--name", "again")
    assert evaluated(w, "again") == found
    env = sights.Sights()
    policy = brood.load_policy(w.run_dir("learns"), "agent_0", env)
    returns = brood.play(env, {"agent_0": policy}, 20)["agent_0"]
    assert np.isclose(found, returns.mean(), atol=0.7), (found, returns.mean())
    for Blind.hidden in "eyes", "bit":
        returns = brood.play(Blind(), {"agent_0": policy}, 20)["agent_0"]
        assert returns.mean() < 5.5, (Blind.hidden, returns.mean())


def stacked(log, agent, copies=16):
    """What an agent saw in each row: two observations, of the first step twice the first."""
    obs, first = (np.array(floats_of_the_log(log, c)) for c in (f"{agent}/obs", "first"))
    before = np.where(first, obs, np.roll(obs, copies, 0))
    return np.hstack([before, obs])


def test_stacks_deaths_and_loaded_policies(w):
    """A critic sees the stacks of all agents, who share parameters. Log-probabilities of actions
    drawn with the weights of a checkpoint are those of its loaded policy."""
    file = config(w, "stacked", "mappo", 512, params="agents: 2", stack=2,
                  more="share: team\n  settings: {epochs: 1}")
    w.brood("run", file, "--name", "stacked")
    run = w.run_dir("stacked")
    assert set(reported(w, "stacked", "_0/approx_kl")) == {0.0}
    policy = brood.load_policy(f"{run}@256", "agent_1", sights.Sights(2))
    seen, taken, log_prob = (x[256:512] for x in (
        stacked(run / "experience", "agent_1"),
        *(np.array(floats_of_the_log(run / "experience", f"agent_1/{name}"))
          for name in ("action", "log_prob"))))
    scores = policy.scores(seen)
    wanted = (scores * taken).sum(1) - np.log(np.exp(scores).sum(1))
    assert np.abs(wanted - log_prob[:, 0]).max() < 1e-5, np.abs(wanted - log_prob[:, 0]).max()
    p = w.start("run", file, "--name", "killed")
    harness.wait_until("its rows", lambda: harness.checkpoints(w.run_dir("killed")))
    w.kill_agents(p, "killed")
    assert p.wait() == 0, p.log.read_text()
    harness.assert_same_files(outcome(run), outcome(w.run_dir("killed")))
    assert "event=respawn" in (w.run_dir("killed") / "journal").read_text()
    w.brood("fork", "stacked@256", "--name", "fork")
    w.brood("resume", "fork")
    harness.assert_same_files(outcome(run), outcome(w.run_dir("fork")))


PROGRAM = """
import sys
sys.path.insert(0, {path!r})
import brood


class Looks(brood.Agent):
    def act(self, obs, ctx):
        part = self.me.image_part
        assert self.me.image == () and part == brood.ImagePart((4, 4, 1), 2, True), self.me
        eyes, beside = part.split(obs, self.me.stack)
        assert eyes.shape[1:] == (4, 4, 2) and beside.shape[1:] == (6,), eyes.shape
        newest = eyes[..., 1].mean(1)
        return 2 * (newest[:, 2] > newest[:, 1]) + beside[:, 4].astype(int)


brood.main(Looks)
"""


def test_programs_are_told_where_the_picture_is(w):
    w.write("looks.py", PROGRAM.format(path=str(harness.SOURCE / "scripts" / "python")))
    file = config(w, "looks", "program", 64, 64, stack=2, more="command: [python3, looks.py]")
    text = re.sub("  (actor|critic|optimizer|discount): .*\n", "", file.read_text())
    w.brood("run", w.write("looks.yaml", text), "--name", "looks")
    assert evaluated(w, "looks") == 8


def test_every_kind_of_network_sees_both(w):
    """16 features of each picture and 3 numbers beside it, then ids and actions."""
    for algorithm, params, inputs, more in (
            ("maddpg", "agents: 2", {"p_func": 19, "q_func": 2 * 19 + 8}, ""),
            ("masac", "agents: 2, box: true", {"p_func": 19, "q_func/twin": 2 * 19 + 4}, ""),
            ("iql", "dtype: float32", {"q_func": 19 + 4},
             "settings: {recurrent: 8, last_action: true}")):
        file = config(w, algorithm, algorithm, 160, 160, params, experience=REPLAY, more=more)
        w.brood("run", file, "--name", algorithm)
        out, _ = w.brood("inspect", w.run_dir(algorithm) /
                         "checkpoints/160/agent_0/model.ckpt-160")
        for scope, n in inputs.items():
            assert f"agent_0/{scope}/Conv/weights (DT_FLOAT) [2,2,1,4]\n" in out, out
            found = re.search(rf"^agent_0/{scope}/fully_connected/weights .*\[(\d+),32\]$", out,
                              re.MULTILINE)
            assert int(found[1]) == n, (scope, out)


def test_what_cannot_be_seen_is_refused(w):
    file = config(w, "refused", "ippo")
    for settings, says in (
            (["env.params.both=true"], "agent_0 observes no image (height, width, channels), but "
             "35 numbers"),
            (["env.clip_observations=1"], "is for numbers, but agent_0 observes bytes"),
            (["defaults.settings.normalize_observations=running"], "as they are"),
            (["defaults.critic.conv=[[4, 5, 1]]"], "is 5 wide, but what it sees is 4 x 4")):
        _, err = w.brood("check", file, *(x for s in settings for x in ("--set", s)), code=2)
        assert says in err and err.count("\n") == 1, err


if __name__ == "__main__":
    harness.main()
