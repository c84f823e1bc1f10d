"""Goals: in each step an agent chooses one of three goals and a point of the plane, in one action.

It sees which goal pays in this step. A choice pays 1 if it is that goal, otherwise 0, less the
squared distance from the point to the chosen goal's own place: the best is 1 a step, and nothing
but that goal and its place reaches it. `masked`: of the two others, one is forbidden. `plain`: an
action is the choice alone.
"""
import random

from spaces import Box, Dict, Discrete

PLACES = ((0.5, 0.5), (-0.5, 0.25), (0.0, -0.75))


class Goals:
    metadata = {"name": "goals"}

    def __init__(self, agents=1, steps=4, masked=False, plain=False):
        self.possible_agents = [f"agent_{i}" for i in range(agents)]
        self.steps, self.masked, self.plain = steps, masked, plain

    def observation_space(self, agent):
        return Box(0.0, 1.0, (3,))

    def action_space(self, agent):
        return Discrete(3) if self.plain else Dict(goal=Discrete(3), to=Box(-1.0, 1.0, (2,)))

    def reset(self, seed=None, options=None):
        self.draw, self.time = random.Random(seed), 0
        self.agents = list(self.possible_agents)
        return self.look()

    def look(self):
        self.pays = {a: self.draw.randrange(3) for a in self.agents}
        self.forbidden = {a: (self.pays[a] + self.draw.choice((1, 2))) % 3 for a in self.agents}
        return ({a: [float(i == self.pays[a]) for i in range(3)] for a in self.agents},
                {a: {"action_mask": [int(i != self.forbidden[a]) for i in range(3)]}
                 for a in self.agents if self.masked})

    def reward(self, agent, action):
        goal, (x, y) = action["goal"], action["to"]
        assert -1 <= x <= 1 and -1 <= y <= 1, action
        assert not (self.masked and goal == self.forbidden[agent]), action
        return float(goal == self.pays[agent]) - \
            (x - PLACES[goal][0]) ** 2 - (y - PLACES[goal][1]) ** 2

    def step(self, actions):
        rewards = {a: self.reward(a, action) for a, action in actions.items()}
        self.time += 1
        over, (obs, infos) = self.time == self.steps, self.look()
        if over:
            self.agents = []
        return (obs, rewards, dict.fromkeys(actions, False), dict.fromkeys(actions, over), infos)


parallel_env = Goals
