"""Sights: what pays is told by a picture and by a number together.

In each step an agent chooses one of four, 2 side + bit: `side` is which half of a picture of 4 x 4
bytes is bright, `bit` one of the numbers beside it. That pays 1, and nothing else does, so that who
sees only one of them gets half of it at best. An observation is a Dict with the picture in the
middle. `box`: the choice is made by the signs of two numbers. `both`: a second picture.
"""
import random

from spaces import Box, Dict, Discrete

SIDE = 4


class Sights:
    metadata = {"name": "sights"}

    def __init__(self, agents=1, steps=8, dtype="uint8", box=False, both=False):
        self.possible_agents = [f"agent_{i}" for i in range(agents)]
        self.steps, self.dtype, self.box, self.both = steps, dtype, box, both

    def observation_space(self, agent):
        eyes = Box(0, 255, (SIDE, SIDE, 1), self.dtype)
        more = {"second": eyes} if self.both else {}
        return Dict(bit=Discrete(2), eyes=eyes, noise=Box(-1.0, 1.0, (1,)), **more)

    def action_space(self, agent):
        return Box(-1.0, 1.0, (2,)) if self.box else Discrete(4)

    def reset(self, seed=None, options=None):
        self.draw, self.time = random.Random(seed), 0
        self.agents = list(self.possible_agents)
        return self.look(), {}

    def look(self):
        self.side = {a: self.draw.randrange(2) for a in self.agents}
        self.bit = {a: self.draw.randrange(2) for a in self.agents}
        return {a: {"bit": self.bit[a], "eyes": self.picture(a),
                    "noise": [self.draw.uniform(-1, 1)],
                    **({"second": self.picture(a)} if self.both else {})} for a in self.agents}

    def picture(self, agent):
        return [[[self.draw.randrange(60) + 180 * (x // 2 == self.side[agent])]
                 for x in range(SIDE)] for _ in range(SIDE)]

    def reward(self, agent, action):
        if self.box:
            action = 2 * (action[0] > 0) + (action[1] > 0)
        return float(action == 2 * self.side[agent] + self.bit[agent])

    def step(self, actions):
        rewards = {a: self.reward(a, action) for a, action in actions.items()}
        self.time += 1
        over, obs = self.time == self.steps, self.look()
        if over:
            self.agents = []
        return (obs, rewards, dict.fromkeys(actions, False), dict.fromkeys(actions, over), {})


parallel_env = Sights
