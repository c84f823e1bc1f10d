"""iql on episodes, vdn and qmix: kills of agents and of the central process, and a resume,
change no byte."""
import json
import re
import zipfile

import harness
from test_changes import journal

CONFIG = """
run: {name: team, seed: 4, env_steps: 10000000}
env: {id: simple_spread, reward: team_mean, copies: 4, max_steps: 10, params: {agents: 2}}
experience: {capacity: 2000, batch_size: 6, warmup: 200, update_every: 40%s}
evaluation: {every_env_steps: 2000, episodes: 4}
checkpoint: {every_env_steps: 1000, max_to_keep: 0}
defaults:
  algorithm: %s
  settings:
    recurrent: 8
    last_action: true
    %s
    lambda: 0.6
    target_every: 5
    epsilon: 1 to 0.1 over 3000
  critic: {hidden: [16]}
  optimizer: {learning_rate: 0.001 to 0 over 4000}
  restart: {max_restarts: 1000, delay: 0s}
"""
AS_STORED = ("", "agent_id: true")
# Drawn by priority, each under a symmetry, with rewards of deviation 1.
DRAWN = (", priority: {alpha: 0.6, beta: 0.4, over: 4000}",
         "symmetry: env\n    reward_scale: running")
KILLS_EACH = 3


def config(algorithm, kind):
    return CONFIG % (kind[0], algorithm, kind[1])


def final(run, steps):
    files = harness.tree_bytes(run / "checkpoints" / str(steps))
    assert len(files) >= 9, files.keys()
    return files


def kill_each(p, names):
    """Each process some times."""
    for _ in range(KILLS_EACH):
        for name in names:
            pid = harness.wait_until(name, lambda: harness.agents_of(p.pid).get(name))
            harness.kill_and_wait(pid)


def check(w, algorithm, kind, names):
    file = w.write(f"{algorithm}.yaml", config(algorithm, kind))
    p = w.start("run", file, "--name", "killed")
    harness.wait_until("a checkpoint", lambda:
                       harness.checkpoints(w.run_dir("killed"))[-1:] >= [1000])
    kill_each(p, names)
    steps = harness.set_last_step(w, "killed", 1000)
    p.wait(timeout=harness.DEADLINE_S)
    assert p.returncode == 0, p.log.read_text()
    assert "was ended by SIGKILL" in p.log.read_text(), p.log.read_text()
    w.brood("run", file, "--name", "calm", "--set", f"run.env_steps={steps}")
    calm = final(w.run_dir("calm"), steps)
    harness.assert_same_files(calm, final(w.run_dir("killed"), steps))
    again = w.path / "again"
    harness.copy_run(w.run_dir("calm"), again)
    w.brood("resume", again, "--from", steps - 1000)
    harness.assert_same_files(calm, final(again, steps))


def test_vdn(w):
    check(w, "vdn", AS_STORED, ["agent_0", "agent_1"])


def test_qmix(w):
    check(w, "qmix", DRAWN, ["agent_0", "central", "agent_1"])


def test_settings_reach_the_mixer_with_the_agent_that_it_has_them_from(w):
    """A setting that waits for a respawn of agent_0 is the central process's, too: a fork, which
    starts all processes with it, plays the same run."""
    file = w.write("qmix.yaml", config("qmix", AS_STORED))
    p = w.start("run", file, "--name", "live")
    harness.wait_until("a checkpoint", lambda:
                       harness.checkpoints(w.run_dir("live"))[-1:] >= [1000])
    w.brood("set", "live", "defaults.settings.target_every=1")
    w.brood("respawn", "live", "agent_0")
    harness.wait_until("the change", lambda: journal(w.run_dir("live"), "changed"))
    at = harness.set_last_step(w, "live", 1000)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    w.brood("fork", "live@1000", "--name", "forked")
    live, forked = ({name: data for name, data in final(w.run_dir(run), at).items()
                     if "model.ckpt" in name} for run in ("live", "forked"))
    harness.assert_same_files(live, forked)


def mixer(w, run, step):
    """Its weights, without the optimiser's numbers and the target's."""
    out = w.path / f"mixer-{step}.npz"
    w.brood("export", run / "checkpoints" / str(step) / "central" / f"model.ckpt-{step}",
            "--out", out)
    with zipfile.ZipFile(out) as z:
        files = {f: z.read(f) for f in z.namelist() if f.startswith("central/mixer/")}
    return {f: v for f, v in files.items() if "Adam" not in f and "_power" not in f}


def test_a_live_change_reaches_the_mixer(w):
    """It has the settings of the team's first agent. No weight changes by 1e-30."""
    text = config("qmix", AS_STORED)
    p = w.start("run", w.write("long.yaml", text), "--name", "long")
    run = w.run_dir("long")
    harness.wait_until("two checkpoints", lambda: (run / "checkpoints" / "2000").exists())
    out, _ = w.brood("set", run, "agents.agent_0.optimizer.learning_rate=1e-30")
    still = int(re.search(r"from step (\d+) on", out).group(1)) // 1000 * 1000 + 1000
    harness.wait_until("a checkpoint after it",
                       lambda: (run / "checkpoints" / str(still)).exists())
    harness.kill(harness.agents_of(p.pid)["central"])
    last = still + 2000
    harness.wait_until("another", lambda: (run / "checkpoints" / str(last)).exists())
    w.brood("stop", run)
    assert len(mixer(w, run, last)) >= 14, mixer(w, run, last).keys()
    assert mixer(w, run, 1000) != mixer(w, run, 2000)   # it learnt, before
    assert mixer(w, run, still) == mixer(w, run, last)


def test_iql(w):
    check(w, "iql", DRAWN, ["agent_0", "agent_1"])


def test_priorities_of_episodes_count(w):
    """Drawing by them changes what is learnt, and so do symmetries and scaled rewards."""
    parts = {"none": ("", ""), "priority": (DRAWN[0], ""),
             "symmetry": ("", "symmetry: env"), "scale": ("", "reward_scale: running")}
    for name, kind in parts.items():
        w.brood("run", w.write(f"{name}.yaml", config("vdn", kind)), "--name", name, "--set",
                "run.env_steps=1000")
    weights = [harness.tree_bytes(w.run_dir(name) / "checkpoints" / "1000" / "agent_0")[
        "model.ckpt-1000.data-00000-of-00001"] for name in parts]
    assert len(set(weights)) == len(parts)


def test_a_team_needs_one_reward(w):
    file = w.write("own.yaml", config("qmix", AS_STORED).replace("reward: team_mean, ", ""))
    _, err = w.brood("check", file, code=2)
    assert "env.reward: found 'own', expected team_mean (or team_sum): qmix learns one " \
        "value for the whole team" in err, err


def test_agents_of_different_names_can_be_one_team(w):
    """vdn adds the values of speaker_0 and listener_0 only if env.teams says so."""
    text = config("vdn", AS_STORED).replace("simple_spread", "simple_speaker_listener") \
        .replace(", params: {agents: 2}", "%s").replace("env_steps: 10000000", "env_steps: 1000")
    weights = []
    for teams in ("by_name", "all"):
        file = w.write(f"{teams}.yaml", text % f", teams: {teams}")
        w.brood("run", file, "--name", teams)
        played = json.loads(w.brood("eval", teams, "--episodes", "2", "--json")[0])
        assert list(played["teams"]) == {"by_name": ["speaker", "listener"],
                                         "all": ["team"]}[teams], played
        weights.append(harness.tree_bytes(
            w.run_dir(teams) / "checkpoints" / "1000" / "listener_0"))
    assert weights[0] != weights[1]


if __name__ == "__main__":
    harness.main()
