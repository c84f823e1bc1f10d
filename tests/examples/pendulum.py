"""A pendulum, which has to be swung up and held there by a torque too weak to lift it.

It has the interface of a Gymnasium environment, without needing Gymnasium, and the equations,
bounds and starts of Gymnasium's Pendulum-v1 (m = l = 1):

    a' = a + v' dt,  v' = clip(v + (3 g / 2 sin a + 3 u) dt, +-8),  dt = 0.05
    reward = -(a^2 + v^2 / 10 + u^2 / 1000), of the state before the step, a in [-pi, pi)

a is the angle from upright, v its speed, u in [-2, 2] the torque. The observation is cos a,
sin a, v; a starts anywhere, v within +-1. An episode never terminates; it is truncated after
max_steps.

    brood run configs/pendulum.yaml
"""
import math
import random

from cart import Box

DT, TORQUE, SPEED = 0.05, 2.0, 8.0


def clip(x, bound):
    return min(max(x, -bound), bound)


class Pendulum:
    observation_space = Box([-1.0, -1.0, -SPEED], [1.0, 1.0, SPEED], (3,))
    action_space = Box(-TORQUE, TORQUE, (1,))

    def __init__(self, max_steps=200, g=10.0):
        self.max_steps, self.g = max_steps, g

    def reset(self, seed=None, options=None):
        draw = random.Random(seed)
        self.angle, self.speed = draw.uniform(-math.pi, math.pi), draw.uniform(-1, 1)
        self.time = 0
        return self.observation(), {}

    def observation(self):
        return [math.cos(self.angle), math.sin(self.angle), self.speed]

    def step(self, action):
        torque = clip(float(action[0]), TORQUE)
        off = (self.angle + math.pi) % (2 * math.pi) - math.pi
        reward = -(off ** 2 + 0.1 * self.speed ** 2 + 0.001 * torque ** 2)
        push = 1.5 * self.g * math.sin(self.angle) + 3 * torque
        self.speed = clip(self.speed + push * DT, SPEED)
        self.angle += self.speed * DT
        self.time += 1
        return self.observation(), reward, False, self.time >= self.max_steps, {}

    def close(self):
        pass
