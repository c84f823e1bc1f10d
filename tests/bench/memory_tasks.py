"""A task that needs a memory, in the interface of Gymnasium."""
import random


class Box:
    def __init__(self, n):
        self.low, self.high, self.shape = [0.0] * n, [1.0] * n, (n,)


class Discrete:
    def __init__(self, n):
        self.n = n


class Recall:
    """One of `signs` signs is shown in the first step alone, and asked for in the last, `wait`
    steps later: 1 for the right answer, otherwise 0. Without a memory the mean is 1 / signs."""

    def __init__(self, signs=4, wait=10):
        self.signs, self.wait = signs, wait
        self.observation_space, self.action_space = Box(signs + 1), Discrete(signs)

    def see(self):
        shown = [float(self.time == 0 and i == self.sign) for i in range(self.signs)]
        return [*shown, float(self.time == self.wait)]

    def reset(self, seed=None, options=None):
        self.sign, self.time = random.Random(seed).randrange(self.signs), 0
        return self.see(), {}

    def step(self, action):
        is_over = self.time == self.wait
        reward = float(is_over and action == self.sign)
        self.time += 1
        return self.see(), reward, is_over, False, {}

    def close(self):
        pass
