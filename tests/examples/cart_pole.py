"""A pole on a cart (Barto, Sutton and Anderson 1983), with the constants, the limits and the
Euler steps of Gymnasium's CartPole-v1: 1 for every step, at most 500 of them.

It has the interface of a Gymnasium environment, without needing Gymnasium.
"""
import math
import random

GRAVITY, CART_MASS, POLE_MASS, HALF_LENGTH = 9.8, 1.0, 0.1, 0.5
FORCE, STEP_S = 10.0, 0.02
MASS, POLE_MOMENT = CART_MASS + POLE_MASS, POLE_MASS * HALF_LENGTH
PLACE_LIMIT, ANGLE_LIMIT = 2.4, 12 * 2 * math.pi / 360


class Box:
    def __init__(self, low, high):
        self.low, self.high, self.shape = low, high, (len(low),)


class Discrete:
    def __init__(self, n):
        self.n = n


class CartPole:
    observation_space = Box([-2 * PLACE_LIMIT, -math.inf, -2 * ANGLE_LIMIT, -math.inf],
                            [2 * PLACE_LIMIT, math.inf, 2 * ANGLE_LIMIT, math.inf])
    action_space = Discrete(2)

    def __init__(self, max_steps=500):
        self.max_steps = max_steps

    def reset(self, seed=None, options=None):
        draw = random.Random(seed)
        self.state = [draw.uniform(-0.05, 0.05) for _ in range(4)]
        self.time = 0
        return self.state, {}

    def step(self, action):
        place, speed, angle, turn = self.state
        force = FORCE if action == 1 else -FORCE
        cos, sin = math.cos(angle), math.sin(angle)
        push = (force + POLE_MOMENT * turn * turn * sin) / MASS
        turning = (GRAVITY * sin - cos * push) / (
            HALF_LENGTH * (4 / 3 - POLE_MASS * cos * cos / MASS))
        driving = push - POLE_MOMENT * turning * cos / MASS
        self.state = [place + STEP_S * speed, speed + STEP_S * driving,
                      angle + STEP_S * turn, turn + STEP_S * turning]
        self.time += 1
        fallen = abs(self.state[0]) > PLACE_LIMIT or abs(self.state[2]) > ANGLE_LIMIT
        return self.state, 1.0, fallen, not fallen and self.time >= self.max_steps, {}

    def close(self):
        pass
