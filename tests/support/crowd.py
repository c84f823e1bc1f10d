"""Crowd: an agent sees `things`, each a number and whether it is there, and says whether the mean of
those that are there is above 0: that pays 1. The numbers of others mean nothing. It has a number of
its own, which is 1.
"""
import random

from spaces import Box, Dict, Discrete, MultiBinary


class Crowd:
    metadata = {"name": "crowd", "entities": ["others", "there"]}

    def __init__(self, things=3, steps=8, agents=1, plain=False):
        self.possible_agents = [f"agent_{i}" for i in range(agents)]
        self.things, self.steps = things, steps
        if plain:
            self.metadata = {"name": "crowd"}

    def observation_space(self, agent):
        return Dict(others=Box(-9.0, 9.0, (self.things, 2)), own=Box(-9.0, 9.0, (1,)), there=MultiBinary(self.things))

    def action_space(self, agent):
        return Discrete(2)

    def reset(self, seed=None, options=None):
        self.draw, self.time = random.Random(seed), 0
        self.agents = list(self.possible_agents)
        return self.look(), {}

    def look(self):
        seen, self.right = {}, {}
        for a in self.agents:
            there = [self.draw.randrange(2) for _ in range(self.things)]
            side = self.draw.choice((-1, 1))
            seen[a] = {"own": [1.0], "there": there, "others": [
                [side * self.draw.uniform(0.2, 1) if here else self.draw.uniform(-9, 9), 0.5]
                for here in there]}
            self.right[a] = int(side > 0) if any(there) else None
        return seen

    def step(self, actions):
        rewards = {a: float(self.right[a] in (None, action)) for a, action in actions.items()}
        self.time += 1
        over, obs = self.time == self.steps, self.look()
        if over:
            self.agents = []
        return (obs, rewards, dict.fromkeys(actions, False), dict.fromkeys(actions, over), {})


parallel_env = Crowd
