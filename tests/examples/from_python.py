"""A day with brood from Python, cell by cell: train, watch, change, look back, play.

    PYTHONPATH=scripts python3 tests/examples/from_python.py

The run is kept in runs/meeting. Needs NumPy and msgpack."""
import pathlib

import numpy as np

import brood
from meeting import Meeting

# %% Start a run in the background: a configuration file, or the same as a dict.
HERE = pathlib.Path(__file__).resolve().parent
run = brood.launch({
    "run": {"name": "meeting", "env_steps": 1000000},
    "env": {"command": brood.bridged(HERE / "meeting.py"), "copies": 16},
    "experience": {"update_every": 192},
    "evaluation": {"every_env_steps": 0},
    "log": {"every_env_steps": 1000},
    "defaults": {"algorithm": "ippo", "actor": {"hidden": [32]}, "critic": {"hidden": [32]},
                 "optimizer": {"learning_rate": 0.003}},
}, name="meeting", seed=7, force=True)
print(run.name, run.status()["state"])

# %% Watch it: every event is a dict.
for event in run.subscribe():
    if event["event"] == "row":
        print(f"step {event['env_steps']}: {event['rollout/team_return/walker']:.2f}")
        if event["env_steps"] >= 3000:
            break

# %% Change it, while it learns. What cannot change is an exception with brood's own line.
print(run.set({"defaults.settings.entropy": 0}))
try:
    run.set({"defaults.actor.hidden": [64]})
except brood.Error as why:
    print(why)

# %% Kill an agent: another one takes its place, and no bit changes.
run.kill("walker_0")

# %% End it, and look back.
run.stop()
rows = run.metrics()
print(len(rows), "rows; from", rows["rollout/team_return/walker"][0], "to",
      rows["rollout/team_return/walker"][-1])

# %% Play with what was learnt, in a loop as for any PettingZoo environment ...
env = Meeting()
policies = brood.load_policies(run, env)
observations, infos = env.reset(seed=1)
while env.agents:
    actions = {a: policies[a](observations[a], infos[a].get("action_mask"))
               for a in env.agents}
    observations, rewards, terminations, truncations, infos = env.step(actions)
    print(env.at, rewards)

# %% ... or many episodes at once; `brood eval` plays others, of the same distribution.
returns = brood.play(env, policies, episodes=100)["walker_0"]
mean, error = returns.mean(), returns.std() / len(returns) ** 0.5
judged = run.evaluate(episodes=100)
print(f"return {mean:.3f} +- {error:.3f}, brood eval {judged['return_mean']['walker_0']:.3f}")
assert abs(mean - judged["return_mean"]["walker_0"]) < \
    5 * np.hypot(error, judged["return_se"]["walker_0"])
