"""Observations of bytes, as images are: stored and sent as they are, and learned from."""
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


if __name__ == "__main__":
    harness.main()
