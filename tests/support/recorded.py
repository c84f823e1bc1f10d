"""An environment of many kinds of agents, which writes down each episode's seed and actions.

An agent's name begins with its kind: `choices`, `parts` (two choices at a time), `numbers` (of
different bounds), `picture`. Those that choose have masks, some of which allow nothing."""
import json
import os

import numpy as np

import brood

SPACES = {"choices": brood.Discrete(4), "parts": brood.MultiDiscrete([2, 2]),
          "numbers": brood.Box([-1, 0], [1, 5], (2,)), "picture": brood.Discrete(3)}
WIDTHS = {"choices": 4, "parts": 4, "picture": 3}
PICTURE = brood.Box(0, 255, (6, 6, 1), np.uint8)
VECTOR = brood.Box(-9, 9, (5,))


def kind(agent):
    return agent.split("-")[0]


class Recorded(brood.Env):
    max_steps = 6

    def __init__(self, agents, record=""):
        self.possible_agents = agents
        self.observations = {a: PICTURE if kind(a) == "picture" else VECTOR for a in agents}
        self.actions = {a: SPACES[kind(a)] for a in agents}
        self.record = record

    def write(self, what):
        if self.record:
            with open(self.record, "a", encoding="utf-8") as f:
                f.write(json.dumps([f"{os.getpid()} {id(self)}", what]) + "\n")

    def reset(self, seed=None, options=None):
        self.write(seed)
        return super().reset(seed, options)

    def begin(self):
        return self.look(0.0)

    def look(self, done):
        draw = self.draw
        return {a: np.array(draw.choices(range(256), k=36), "u1").reshape(6, 6, 1)
                if kind(a) == "picture" else [done, *(draw.uniform(-3, 3) for _ in range(4))]
                for a in self.possible_agents}

    def masks(self):
        return {a: [int(self.draw.random() < 0.6) for _ in range(WIDTHS[kind(a)])]
                for a in self.possible_agents if kind(a) in WIDTHS}

    def act(self, actions):
        as_lists = {a: np.asarray(x).tolist() for a, x in actions.items()}
        self.write(as_lists)
        total = sum(float(np.sum(x)) for x in as_lists.values())
        return self.look(total / 9), {a: float(np.sum(x)) for a, x in as_lists.items()}, False


def parallel_env(**params):
    return Recorded(**params)
