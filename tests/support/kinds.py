"""An environment with PettingZoo's interface, in which each agent has another kind of action
space. Like real environments, it checks that each action is within its space."""
import numpy as np

from gymnasium_shaped import Box, Dict, Discrete, MultiBinary, MultiDiscrete, Tuple

ACTIONS = {"one": Discrete(3, start=-1), "many": MultiDiscrete([2, 3], np.int32, [1, 0]),
           "bits": MultiBinary([1, 2]), "even": Box(-2, 2, (2, 1), np.float64),
           "uneven": Box(np.array([0, -1]), np.array([0.1, 9])),
           "whole": Box(0, 3, (2,), np.uint8)}
SEEN = Dict({"at": Box(0, 255, (2, 2), np.uint8), "has": Tuple([Discrete(2), Discrete(3)])})


class Kinds:
    metadata = {"name": "kinds_v0"}
    possible_agents = list(ACTIONS)

    def __init__(self, render_mode=None, limit=25):
        self.limit = limit

    def observation_space(self, agent):
        return SEEN

    def action_space(self, agent):
        return ACTIONS[agent]

    def reset(self, seed=None, options=None):
        self.draw, self.time = np.random.default_rng(seed), 0
        self.agents = self.possible_agents[:]
        return self.look(), {a: {} for a in self.agents}

    def look(self):
        at = self.draw.integers(0, 255, (2, 2), np.uint8)
        return {a: {"at": at, "has": (np.int64(1), 2)} for a in self.agents}

    def step(self, actions):
        for a, x in actions.items():
            assert ACTIONS[a].contains(x), (a, x)
        self.time += 1
        cut = self.time == self.limit
        obs, all_of = self.look(), lambda x: dict.fromkeys(self.agents, x)
        answer = obs, all_of(1.0), all_of(False), all_of(cut), all_of({})
        self.agents = [] if cut else self.agents
        return answer


def parallel_env(**kwargs):
    return Kinds(**kwargs)
