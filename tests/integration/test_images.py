"""Observations of bytes, as images are: stored and sent as they are, and learned from."""
import csv
import re
import sys

import harness

CATCH = """
run: {{name: catch, seed: 1, env_steps: {steps}}}
env: {{command: [{python}, {source}/scripts/pettingzoo_bridge.py,
                {source}/tests/examples/catch.py], copies: 4, params: {{{params}}}}}
experience: {{keep: true, {experience}}}
evaluation: {{every_env_steps: 0}}
checkpoint: {{every_env_steps: {steps}}}
defaults:
  algorithm: {algorithm}
"""


REPLAY = "capacity: 2000, batch_size: 16, warmup: 100, update_every: 20"
SMALL = "  actor: {hidden: [4]}\n  critic: {hidden: [4]}\n"


def config(w, algorithm, params, steps, experience=REPLAY, more=""):
    text = CATCH.format(algorithm=algorithm, params=params, steps=steps,
                        experience=experience, python=sys.executable, source=harness.SOURCE)
    return w.write(f"{algorithm}.yaml", text + more)


def weights(run):
    return harness.tree_bytes(run / "checkpoints", lambda p: "model.ckpt" in p.name and
                              ".meta" not in p.name)


def test_bytes_take_a_quarter_and_train_the_same_bits(w):
    """An environment whose observations are bytes, and the same one that gives the same
    numbers as float32: equal weights from a quarter of the log."""
    for algorithm, experience, more in (("iql", REPLAY, ""), ("maddpg", REPLAY, SMALL),
                                        ("mappo", "update_every: 40", SMALL)):
        logs = {}
        for dtype in ("uint8", "float32"):
            run = f"{algorithm}-{dtype}"
            w.brood("run", config(w, algorithm, f"agents: 2, dtype: {dtype}", 200, experience,
                                  more), "--name", run)
            logs[dtype] = (w.run_dir(run) / "experience").stat().st_size - (1 << 20)
        assert 3.9 < logs["float32"] / logs["uint8"] <= 4, logs
        found = {d: weights(w.run_dir(f"{algorithm}-{d}")) for d in logs}
        assert found["uint8"], algorithm
        harness.assert_same_files(found["uint8"], found["float32"])


CONV = """
  discount: 0.95
  actor: {conv: [[8, 12, 12]], hidden: [32]}
  critic: {conv: [[8, 12, 12]], hidden: [32]}
  optimizer: {learning_rate: 0.003}
"""
ON_POLICY = "update_every: 192"


def learned(w, algorithm, experience, steps, more=""):
    """The return of the last evaluation. Training has the same bits everywhere, so that a
    return that was reached once is reached again."""
    if harness.SANITIZED:
        steps = 400
    file = config(w, algorithm, "agents: 1", steps, experience, CONV + more)
    w.brood("run", file, "--name", algorithm, "--set", "env.copies=16", "--set",
            f"evaluation.every_env_steps={steps}", "--set", "evaluation.episodes=49",
            "--seed", "3")
    with open(w.run_dir(algorithm) / "metrics" / "progress.csv", newline="") as f:
        return float(list(csv.DictReader(f))[-1]["eval/return/player_0"])


def test_pictures_are_learned_from(w):
    """Returns: -0.8 at random, 1.46 with every ball caught."""
    for algorithm, experience, steps, wanted, more in (
            ("ippo", ON_POLICY, 2000, 1.4, ""),
            ("iql", "capacity: 5000, batch_size: 32, warmup: 500, update_every: 4", 3000, 0.5,
             "  settings: {epsilon: 1 to 0.05 over 3000}\n  clip_norm: none\n")):
        found = learned(w, algorithm, experience, steps, more)
        print(f"# {algorithm}: {found:.3f} after {steps} steps")
        assert harness.SANITIZED or found > wanted, (algorithm, found)


def test_every_kind_of_network_sees_pictures(w):
    """Critics of all agents put all pictures through one convolution."""
    for algorithm, experience, scopes in (
            ("mappo", "update_every: 72", {"p_func": 1, "v_func": 2}),
            ("maddpg", REPLAY, {"p_func": 1, "q_func": 2, "target_q_func": 2}),
            ("matd3", REPLAY, {"p_func": 1, "q_func": 2, "q_func/twin": 2}),
            ("masac", REPLAY, {"p_func": 1, "q_func": 2, "q_func/twin": 2}),
            ("vdn", REPLAY, {"q_func": 1})):
        reward = "team_mean" if algorithm == "vdn" else "own"
        w.brood("run", config(w, algorithm, "agents: 2", 144, experience, CONV), "--name",
                algorithm, "--set", f"env.reward={reward}", "--set", "env.max_steps=6")
        out, _ = w.brood("inspect", w.run_dir(algorithm) /
                         "checkpoints/144/player_1/model.ckpt-144")
        lines = out.splitlines()
        for scope, pictures in scopes.items():
            scope = f"player_1/{scope}"
            assert f"{scope}/Conv/weights (DT_FLOAT) [12,12,1,8]" in lines, (scope, out)
            rows = [re.search(r"\[(\d+),32\]", line) for line in lines
                    if line.startswith(f"{scope}/fully_connected/weights ")]
            # 7 x 7 x 8 features of each picture, and perhaps actions of two agents
            assert 0 <= int(rows[0][1]) - pictures * 392 <= 6, (scope, out)


def test_what_cannot_be_seen_is_refused_by_check(w):
    for more, says in (
            ("  actor: {conv: [[8, 12, 12], [8, 9, 1]]}\n",
             "actor.conv: the kernel of convolution 2 is 9 wide, but what it sees is 7 x 7"),):
        file = config(w, "ippo", "agents: 1", 200, ON_POLICY, more)
        assert says in w.brood("check", file, code=2)[1]
    file = w.small()
    err = w.brood("check", file, "--set", "defaults.actor.conv=[[8, 3, 1]]", code=2)[1]
    assert "agent_0 observes no image (height, width, channels), but 18 numbers" in err, err


if __name__ == "__main__":
    harness.main()
