"""On-policy algorithms: policies that carry a state through an episode learn from what they played
with; passes end early with target_kl; deaths, a resume and a fork change no byte."""
import csv
import json
import re
import statistics
import struct

import harness
from test_exactness import outcome

CONFIG = """
env: {{{env}, copies: 8}}
run: {{env_steps: {steps}, seed: 4}}
experience: {{update_every: 264}}
checkpoint: {{every_env_steps: 1056, max_to_keep: none}}
evaluation: {{every_env_steps: 1056, episodes: 4}}
log: {{every_env_steps: 264}}
defaults:
  algorithm: {algorithm}
  actor: {{hidden: [16]}}
  critic: {{hidden: [16]}}
  restart: {{max_restarts: 1000000, delay: 0s}}
  settings: {{recurrent: 12, {settings}}}
  {more}
"""
SPREAD = "id: simple_spread, reward: team_mean"
COMMAND = ["python3", str(harness.SOURCE / "scripts" / "pettingzoo_bridge.py"),
           str(harness.SOURCE / "tests" / "bench" / "memory_tasks.py") + ":Recall"]
# (algorithm, environment, settings, other keys): 33 steps are four chunks of 10, or three of 16
CASES = {
    "ippo": ("ippo", SPREAD, "epochs: 2, minibatches: 3", ""),
    "lstm": ("mappo", SPREAD, "cell: lstm, chunk: 16, epochs: 2, recurrent_critic: 6", ""),
    "shared": ("mappo", SPREAD, "agent_id: true, epochs: 4, minibatches: 2, target_kl: 0.0001, "
               "normalize_observations: running, recurrent_critic: 8", "share: team"),
    "turns": ("happo", SPREAD, "epochs: 2, chunk: 7, recurrent_critic: 5, symmetry: env", ""),
    "coma": ("coma", SPREAD, "chunk: 10, lambda: 0.8", ""),
    "counted": ("coma", SPREAD, "chunk: 5, n_step: 3, lambda: 0, symmetry: env", "share: team"),
    "plain": ("maa2c", SPREAD, "chunk: 33, recurrent_critic: 8", ""),  # its target has a memory, too
    "box": ("ippo", SPREAD + ", actions: continuous", "chunk: 1, epochs: 2, symmetry: env", ""),
    "normalized": ("mappo", SPREAD, "normalize_observations: running, epochs: 2", ""),
    "masks": ("ippo", "id: foraging, max_steps: 20", "minibatches: 2, epochs: 2", ""),
}


def config(w, name, steps=6336, **changes):
    algorithm, env, settings, more = CASES[name]
    return w.write(f"{name}.yaml", CONFIG.format(
        algorithm=algorithm, env=env, settings=changes.get("settings", settings), more=more,
        steps=steps))


def column(w, run, ending):
    with open(w.run_dir(run) / "metrics" / "progress.csv", newline="") as f:
        rows = list(csv.DictReader(f))
    name = next(c for c in rows[0] if c.endswith(ending))
    return [float(r[name]) for r in rows if r[name]]


def test_deaths_change_nothing(w):
    """Also in a group that shares its parameters, in turns, with masks and in a box."""
    deaths = 0
    cases = [c for c in CASES if not harness.SANITIZED or c in ("lstm", "shared", "turns", "coma")]
    for name in cases:
        file = config(w, name, 4224)
        w.brood("run", file, "--name", name)
        p = w.start("run", file, "--name", f"{name}-killed")
        harness.wait_until("its rows", lambda n=name: harness.checkpoints(
            w.run_dir(f"{n}-killed")))
        for _ in range(3):
            w.kill_agents(p, f"{name}-killed")
        assert p.wait() == 0, p.log.read_text()
        harness.assert_same_files(outcome(w.run_dir(name)), outcome(w.run_dir(f"{name}-killed")))
        deaths += (w.run_dir(f"{name}-killed") / "journal").read_text().count("event=respawn")
    assert deaths >= 3, deaths
    for name in "lstm", "shared":
        middle = harness.checkpoints(w.run_dir(name))[2]
        w.brood("fork", f"{name}@{middle}", "--name", f"{name}-fork")
        w.brood("resume", f"{name}-fork")
        harness.assert_same_files(outcome(w.run_dir(name)), outcome(w.run_dir(f"{name}-fork")))


def test_the_first_step_learns_from_what_was_played(w):
    """Log-probabilities are those of acting, to the last bit, however the window is cut."""
    for chunk in 4, 33, 50:
        w.brood("run", config(w, "ippo", 1056, settings=f"epochs: 1, chunk: {chunk}"),
                "--name", f"c{chunk}")
        assert set(column(w, f"c{chunk}", "agent_0/approx_kl")) == {0.0}, chunk


def test_frozen_policies_carry(w):
    """A frozen agent whose policy is recurrent plays as that of its checkpoint in an evaluation."""
    for name, algorithm in (("lstm", "mappo"), ("box", "ippo"), ("q", "iql")):
        if name == "q":
            file = w.write("q.yaml", CONFIG.format(
                algorithm="iql", env=SPREAD, steps=1056, settings="double_q: true", more="").replace(
                    "update_every: 264", "update_every: 264, batch_size: 8, warmup: 8"))
        else:
            file = config(w, name, 1056)
        w.brood("run", file, "--name", name)
        played = json.loads(w.brood("eval", name, "--episodes", "20", "--json")[0].splitlines()[-1])
        text = "\n".join(line for line in file.read_text().splitlines()
                         if not re.match("  (algorithm|actor|critic|settings):", line))
        frozen = w.write("frozen.yaml", text.replace("every_env_steps: 1056, episodes: 4",
                                                     "every_env_steps: 1056, episodes: 20").replace(
            "defaults:", f"defaults:\n  algorithm: frozen\n  settings: {{from: {name}}}"))
        w.brood("run", frozen, "--name", f"{name}-frozen")
        assert column(w, f"{name}-frozen", "eval/team_return/agent") == [
            played["team_return_mean"]], (algorithm, played)


def floats_of_the_log(path, column):
    """All rows of a column of floats (common/store/layout.h)."""
    data = path.read_bytes()
    n, row_bytes = struct.unpack_from("<IQ", data, 12)
    for i in range(n):
        name = data[32 + 128 * i:][:112].split(b"\0")[0].decode()
        _, elements, offset = struct.unpack_from("<IIQ", data, 32 + 128 * i + 112)
        if name == column:
            return [struct.unpack_from(f"<{elements}f", data, at + offset)
                    for at in range(1 << 20, len(data), row_bytes)]
    raise AssertionError(column)


def tensor(w, prefix, name):
    return json.loads(w.brood("inspect", prefix, "--tensor", name, "--json")[0])["values"]


def test_observations_are_normalised_by_what_was_seen(w):
    """The statistics are those of all rows, of own and other agents' observations, and of an
    update that learns from what was played with them."""
    file = config(w, "normalized", 1056, settings="epochs: 1, recurrent: 0, "
                  "normalize_observations: running").read_text()
    file = w.write("plain.yaml", file.replace("recurrent: 12, ", ""))
    w.brood("run", file, "--name", "a", "--set", "experience.keep=true")
    assert set(column(w, "a", "agent_0/approx_kl")) == {0.0}
    prefix = w.run_dir("a") / "checkpoints" / "1056" / "agent_1"
    mean, scale = (tensor(w, prefix, f"agent_1/observation_norm/{n}") for n in ("mean", "scale"))
    log = w.run_dir("a") / "experience"
    seen = [[*own, *first, *third] for own, first, third in zip(*(
        floats_of_the_log(log, f"agent_{i}/obs") for i in (1, 0, 2)))]
    assert len(seen) == 1056 and len(mean) == len(seen[0]) == 54, (len(seen), len(mean))
    assert_statistics(seen, mean, scale)


def assert_statistics(seen, mean, scale):
    for k, x in enumerate(zip(*seen)):
        assert abs(statistics.fmean(x) - mean[k]) < 1e-5, k
        assert abs(1 / (statistics.pvariance(x) + 1e-8) ** 0.5 - scale[k]) < 1e-5 * scale[k], k


def test_agents_that_share_count_and_end_together(w):
    """The statistics are those of all rows of the group, equal in all members and in the ps, whose
    checkpoint is a policy; all members make the same passes, fewer than there are."""
    w.brood("run", config(w, "shared", 1056), "--name", "a", "--set", "experience.keep=true")
    passes = [column(w, "a", f"agent_{i}/epochs") for i in range(3)]
    assert passes[0] == passes[1] == passes[2], passes
    assert any(n < 4 for n in passes[0]) and all(1 <= n <= 4 for n in passes[0]), passes
    at, log = w.run_dir("a") / "checkpoints" / "1056", w.run_dir("a") / "experience"
    found = {name: [tensor(w, at / name, f"{name}/observation_norm/{n}")
                    for n in ("mean", "scale")]
             for name in ("agent_0", "agent_1", "agent_2", "agent_ps")}
    mean, scale = found["agent_0"]
    assert all(x == [mean, scale] for x in found.values())
    obs = [floats_of_the_log(log, f"agent_{i}/obs") for i in range(3)]
    seen = [[*own, *first, *third] for i, (k, m) in enumerate(((1, 2), (0, 2), (0, 1)))
            for own, first, third in zip(obs[i], obs[k], obs[m])]
    assert_statistics(seen, mean, scale)


def test_passes_end_when_the_policy_has_moved(w):
    """With target_kl; the same passes beside deaths."""
    file = config(w, "ippo", 4224, settings="epochs: 12, target_kl: 0.0005")
    w.brood("run", file, "--name", "calm")
    passes, moved = (column(w, "calm", f"agent_0/{name}") for name in ("epochs", "approx_kl"))
    assert any(n < 12 for n in passes) and all(1 <= n <= 12 for n in passes), passes
    assert max(moved) < 0.05, moved
    p = w.start("run", file, "--name", "killed")
    harness.wait_until("its rows", lambda: harness.checkpoints(w.run_dir("killed")))
    for a in w.status("killed")["agents"]:
        if a.get("pid") in harness.processes():
            harness.kill(a["pid"])
    assert p.wait() == 0, p.log.read_text()
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(w.run_dir("killed")))


def test_what_must_be_remembered_is_learnt(w):
    """The sign that is shown in the first step alone: 0.25 without a memory."""
    steps = 3168 if harness.SANITIZED else 60000  # the former is not enough to learn it
    text = CONFIG.format(algorithm="ippo", env=f"command: {json.dumps(COMMAND)}", steps=steps,
                         settings="chunk: 11, minibatches: 4", more="discount: 0.99")
    text = text.replace("copies: 8", "copies: 16").replace("[16]", "[64]").replace(
        "update_every: 264", "update_every: 1056").replace("every_env_steps: 1056",
                                                           "every_env_steps: 60000")
    file = w.write("recall.yaml", text.replace("recurrent: 12", "recurrent: 64"))
    w.brood("run", file, "--name", "recall", "--set", "defaults.optimizer.learning_rate=0.001")
    found = json.loads(w.brood("eval", "recall", "--episodes", "200", "--json")[0].splitlines()[-1])
    assert harness.SANITIZED or found["team_return_mean"] > 0.6, found
    for sets, why in ((("minibatches=100",), "at most 8, the chunks of 33 steps"),
                      (("minibatches=100", "recurrent=0"), "at most 8, the chunks of 33 steps")):
        _, err = w.brood("check", config(w, "plain"), *(
            x for s in sets for x in ("--set", f"defaults.settings.{s}")), code=2)
        assert why in err and err.count("\n") == 1, err
    _, err = w.brood("check", config(w, "coma"), "--set", "defaults.settings.recurrent_critic=8",
                     code=2)
    assert "recurrent_critic" in err and err.count("\n") == 1, err


def test_chunks_that_begin_an_episode_are_turned(w):
    """Windows of 10 steps, episodes of 25: the first and sixth are shown under symmetries, under
    which the policy would have chosen otherwise; the others are learnt as they were played."""
    file = config(w, "ippo", 480, settings="epochs: 1, chunk: 10, symmetry: env").read_text()
    file = w.write("turned.yaml", file.replace("264", "80").replace("1056", "0"))
    w.brood("run", file, "--name", "turned")
    moved = column(w, "turned", "agent_0/approx_kl")
    assert moved[1:5] == [0.0] * 4 and moved[0] > 0.001 and moved[5] > 0.001, moved


if __name__ == "__main__":
    harness.main()
