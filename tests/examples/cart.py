"""A cart on a line, which has to come to rest in the middle.

It has the interface of a Gymnasium environment, without needing Gymnasium: `terminated` when
the cart rests in the middle or has left the line, `truncated` after max_steps.
"""
import random


class Box:
    def __init__(self, low, high, shape):
        self.low, self.high, self.shape = low, high, shape


class Cart:
    observation_space = Box(-4.0, 4.0, (2,))
    action_space = Box([-2.0], [1.0], (1,))

    def __init__(self, max_steps=40):
        self.max_steps = max_steps

    def reset(self, seed=None, options=None):
        draw = random.Random(seed)
        self.place, self.speed, self.time = draw.uniform(-2, 2), 0.0, 0
        return [self.place, self.speed], {}

    def step(self, action):
        self.speed = 0.9 * self.speed + 0.1 * float(action[0])
        self.place += self.speed
        self.time += 1
        rest = abs(self.place) < 0.05 and abs(self.speed) < 0.05
        terminated = rest or abs(self.place) > 4
        reward = 10.0 * rest - abs(self.place)
        return [self.place, self.speed], reward, terminated, \
            not terminated and self.time >= self.max_steps, {}

    def close(self):
        pass
