"""A hallway: everyone is to walk to a door of their own, and leaves through it.

In the shape of a PettingZoo parallel environment, without needing PettingZoo. It has what
makes such environments hard to play: agents that leave before the others (`terminated`),
an end by a limit of time (`truncated`), and moves that are not allowed (walls).

    brood run configs/hallway.yaml
"""
import random


class Discrete:
    def __init__(self, n):
        self.n, self.shape = n, ()


class Box:
    def __init__(self, low, high, shape):
        self.low, self.high, self.shape = low, high, shape


LEFT, STAY, RIGHT = range(3)


class Hallway:
    metadata = {"name": "hallway"}

    def __init__(self, agents=3, length=9, max_cycles=30):
        self.possible_agents = [f"walker_{i}" for i in range(agents)]
        self.agents = []
        self.length, self.max_cycles = length, max_cycles

    def observation_space(self, agent):
        return Box(-1.0, 1.0, (3 + len(self.possible_agents),))

    def action_space(self, agent):
        return Discrete(3)

    def reset(self, seed=None, options=None):
        draw = random.Random(seed)
        cells = range(self.length)
        n = len(self.possible_agents)
        self.agents = list(self.possible_agents)
        self.at = dict(zip(self.agents, draw.sample(cells, n)))
        self.door = dict(zip(self.agents, draw.sample(cells, n)))
        self.time = 0
        return self.look(self.agents), self.infos(self.agents)

    def step(self, actions):
        acted = list(self.agents)
        rewards = {a: -0.1 + self.walk(a, actions[a]) for a in acted}
        self.time += 1
        ends = {a: self.at[a] == self.door[a] for a in acted}
        cut = self.time >= self.max_cycles
        cuts = {a: cut and not ends[a] for a in acted}
        obs, infos = self.look(acted), self.infos(acted)
        for a in acted:
            if ends[a]:
                rewards[a] += 1.0
                del self.at[a]
            if ends[a] or cuts[a]:
                self.agents.remove(a)
        return obs, rewards, ends, cuts, infos

    def walk(self, agent, action):
        """What it costs: nobody can stand where somebody else does."""
        to = self.at[agent] + (action - STAY)
        assert 0 <= to < self.length, f"{agent} walks into a wall"
        if any(at == to for a, at in self.at.items() if a != agent):
            return -0.2
        self.at[agent] = to
        return 0.0

    def look(self, agents):
        scale = self.length - 1
        everyone = [self.at.get(a, -scale) / scale for a in self.possible_agents]
        return {a: [self.at[a] / scale, (self.door[a] - self.at[a]) / scale,
                    self.time / self.max_cycles, *everyone] for a in agents}

    def infos(self, agents):
        return {a: {"action_mask": [int(self.at[a] > 0), 1,
                                    int(self.at[a] < self.length - 1)]} for a in agents}


parallel_env = Hallway
