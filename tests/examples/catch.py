"""Catch, seen as a picture of 84 x 84 bytes: a ball falls, and a paddle below has to be where
it lands.

It has the interface of a PettingZoo parallel environment, without needing PettingZoo; each
player has a ball and a paddle of its own. Observations are uint8 arrays of shape
(84, 84, 1), so that policies and critics can have convolutions: memoryviews here, where an
environment with NumPy would give its arrays.

    brood run configs/catch.yaml
"""
import array
import random

CELL, CELLS = 12, 7  # pixels of a cell; cells in a row
SHAPE = (CELLS * CELL, CELLS * CELL, 1)
LEFT, STAY, RIGHT = range(3)


class Discrete:
    def __init__(self, n):
        self.n, self.shape = n, ()


class Box:
    def __init__(self, low, high, shape, dtype):
        self.low, self.high, self.shape, self.dtype = low, high, shape, dtype


class Catch:
    metadata = {"name": "catch"}

    def __init__(self, agents=1, dtype="uint8"):
        self.possible_agents = [f"player_{i}" for i in range(agents)]
        self.agents = []
        self.dtype = dtype

    def observation_space(self, agent):
        return Box(0, 255, SHAPE, self.dtype)

    def action_space(self, agent):
        return Discrete(3)

    def reset(self, seed=None, options=None):
        draw = random.Random(seed)
        self.agents = list(self.possible_agents)
        self.ball = {a: draw.randrange(CELLS) for a in self.agents}
        self.paddle = {a: draw.randrange(CELLS) for a in self.agents}
        self.height = 0
        return self.look(), {a: {} for a in self.agents}

    def step(self, actions):
        before = {a: self.distance(a) for a in self.agents}
        for a in self.agents:
            self.paddle[a] = min(max(self.paddle[a] + actions[a] - STAY, 0), CELLS - 1)
        self.height += 1
        lands = self.height == CELLS - 1
        rewards = {a: 0.2 * (before[a] - self.distance(a)) +
                   (lands and (1.0 if self.distance(a) == 0 else -1.0)) for a in self.agents}
        answer = (self.look(), rewards, dict.fromkeys(self.agents, lands),
                  dict.fromkeys(self.agents, False), {a: {} for a in self.agents})
        if lands:
            self.agents = []
        return answer

    def distance(self, agent):
        return abs(self.ball[agent] - self.paddle[agent])

    def look(self):
        return {a: self.picture(a) for a in self.agents}

    def picture(self, agent):
        cells = [[0] * CELLS for _ in range(CELLS)]
        cells[CELLS - 1][self.paddle[agent]] = 100
        cells[self.height][self.ball[agent]] = 255
        code = "B" if self.dtype == "uint8" else "f"
        pixels = array.array(code)
        for row in cells:
            pixels.extend([x for x in row for _ in range(CELL)] * CELL)
        return memoryview(pixels).cast("B").cast(code, SHAPE)


parallel_env = Catch
