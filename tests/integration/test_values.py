"""Terminations and step limits in whole runs: the values that a trained critic converges to
in toy worlds with known values, and what the log contains at an episode's end."""
import csv
import struct

import harness

MARKER = struct.pack("<f", -99.0)  # the first observation of two_step (env/toy.h)
CONFIG = """
run: {name: value, seed: 1, env_steps: 12000}
env: {id: constant_reward, copies: 4, max_steps: 3}
experience: {capacity: 4000, batch_size: 32, warmup: 200, update_every: 4}
evaluation: {every_env_steps: 0}
log: {every_env_steps: 1000}
defaults:
  algorithm: ddpg
  discount: 0.8
  polyak: 0.05
  clip_norm: none
  actor: {hidden: [4]}
  critic: {hidden: [32]}
  optimizer: {learning_rate: 0.01}
"""
# Relative. The critic never comes to rest; typical values are 4.98 and 1.00.
TOLERANCE = 0.01


def learned_value(w, env):
    w.brood("run", w.write("value.yaml", CONFIG), "--name", env, "--set", f"env.id={env}")
    with open(w.run_dir(env) / "metrics" / "progress.csv", newline="") as f:
        row = list(csv.DictReader(f))[-1]
    return float(row["train/agent_0/q_mean"])


def test_a_limit_is_no_end(w):
    # taking the limit of 3 steps for an end would give 1 + 0.8 + 0.64 at most
    value = learned_value(w, "constant_reward")
    assert abs(value - 1 / (1 - 0.8)) < 5 * TOLERANCE, value


def test_an_end_is_worth_nothing_more(w):
    value = learned_value(w, "one_step")
    assert abs(value - 1) < TOLERANCE, value


def test_the_first_observation_is_no_next_one(w):
    w.brood("run", w.write("value.yaml", CONFIG), "--name", "two", "--set",
            "env.id=two_step", "--set", "run.env_steps=1000", "--set",
            "experience.keep=true")
    log = (w.run_dir("two") / "experience").read_bytes()
    assert log.count(MARKER) == 500, "once in each of 500 episodes of two steps"


if __name__ == "__main__":
    harness.main()
