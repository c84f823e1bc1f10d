"""PettingZoo parallel environments that compute for 200 us per step: observations are lists,
or, of Arrays, NumPy's arrays, a new one for each agent and step."""
import random
import time

WORK_S = 200e-6


class Discrete:
    def __init__(self, n):
        self.n, self.shape = n, ()


class Box:
    def __init__(self, low, high, shape):
        self.low, self.high, self.shape = low, high, shape


class Busy:
    def __init__(self, agents=2, width=8, length=50):
        self.possible_agents = [f"agent_{i}" for i in range(agents)]
        self.agents, self.width, self.length = [], width, length

    def observation_space(self, agent):
        return Box(-1.0, 1.0, (self.width,))

    def action_space(self, agent):
        return Discrete(5)

    def reset(self, seed=None, options=None):
        draw = random.Random(seed)
        self.time, self.agents = 0, list(self.possible_agents)
        self.seen = [draw.uniform(-1, 1) for _ in range(self.width)]
        return self.see(self.agents), {a: {} for a in self.agents}

    def see(self, agents):
        return {a: self.seen for a in agents}

    def step(self, actions):
        end = time.perf_counter() + WORK_S
        while time.perf_counter() < end:
            pass
        self.time += 1
        acted, over = self.agents, self.time == self.length
        if over:
            self.agents = []
        return (self.see(acted), {a: float(actions[a]) for a in acted},
                {a: False for a in acted}, {a: over for a in acted}, {a: {} for a in acted})


class Arrays(Busy):
    def see(self, agents):
        import numpy
        return {a: numpy.array(self.seen, numpy.float32) for a in agents}


parallel_env = Busy
