#!/usr/bin/env python3
"""Plays episodes of MPE2's newer worlds, for test_mpe2_episodes.c: their actions, and what came
of each step. Needs mpe2 and what it imports:

    NPY_DISABLE_CPU_FEATURES="AVX512F AVX512CD AVX512_SKX AVX512_CLX AVX512_CNL AVX512_ICL" \\
    OPENBLAS_CORETYPE=Haswell PYTHONPATH=... tests/golden/mpe2_episodes.py |
    clang-format > tests/supervisor/mpe2_episodes.h

NumPy's sines and OpenBLAS's scalar products have other last bits with AVX-512.
"""
import random
import struct

import numpy as np
from mpe2 import collect_treasure_v1, simple_formation_v1, simple_line_v1

STEPS = 40
# world, seed, its parameters here, and there
EPISODES = [
    ("simple_line", simple_line_v1, 1, "", {}),
    ("simple_line", simple_line_v1, 2, "agents: 9", {"N": 9}),
    ("simple_line", simple_line_v1, 3, "agents: 1, terminate_on_success: true",
     {"N": 1, "terminate_on_success": True}),
    ("simple_formation", simple_formation_v1, 4, "", {}),
    ("simple_formation", simple_formation_v1, 5, "agents: 8", {"N": 8}),
    ("collect_treasure", collect_treasure_v1, 27, "", {}),
    ("collect_treasure", collect_treasure_v1, 27, "collectors: 3, deposits: 1, treasures: 2",
     {"num_collectors": 3, "num_deposits": 1, "num_treasures": 2}),
]


def fnv(numbers):
    """FNV-1a of the bytes of the doubles."""
    h = 0xcbf29ce484222325
    for byte in b"".join(struct.pack("<d", float(x)) for x in numbers):
        h = (h ^ byte) * 0x100000001b3 % 2**64
    return h


def goal(world, agent):
    """Where an agent heads for, so that something happens."""
    if not hasattr(agent, "holding"):
        return world.landmarks[0].state.p_pos
    if agent.holding is not None:
        return next(d.state.p_pos for d in world.agents
                    if not d.collector and d.d_i == agent.holding)
    alive = [t.state.p_pos for t in world.landmarks if t.alive]
    if not agent.collector or not alive:
        return np.zeros(2)
    return min(alive, key=lambda p: abs(p - agent.state.p_pos).sum())


def choose(world, agent, draw):
    d = goal(world, agent) - agent.state.p_pos - 0.4 * agent.state.p_vel
    if draw.random() < 0.2:
        return draw.randrange(5)
    if max(abs(d)) < 0.02:
        return 0
    return (2 if d[0] > 0 else 1) if abs(d[0]) > abs(d[1]) else 4 if d[1] > 0 else 3


def play(module, params, seed):
    """The actions, and for each step: the first and the last agent's reward, the hash of all
    rewards and observations, and whether the task was over."""
    env = module.parallel_env(max_cycles=STEPS, **params)
    env.reset(seed=seed)
    world, scenario = env.unwrapped.world, env.unwrapped.scenario
    draw = random.Random(seed)
    actions, results = "", []
    while env.agents:
        moves = {a.name: choose(world, a, draw) for a in world.agents}
        actions += "".join(str(m) for m in moves.values())
        _, reward, over, _, _ = env.step(moves)
        rewards = [reward[a.name] for a in world.agents]
        seen = [x for a in world.agents for x in scenario.observation(a, world)]
        results.append((rewards[0], rewards[-1], fnv([*rewards, *seen]), any(over.values())))
    return actions, results


def main():
    print("/* mpe2_episodes.h - written by tests/golden/mpe2_episodes.py with NumPy",
          np.__version__, "*/")
    print("#ifndef TESTS_SUPERVISOR_MPE2_EPISODES_H")
    print("#define TESTS_SUPERVISOR_MPE2_EPISODES_H\n\n#include <stdint.h>\n")
    print("/* reset(seed); then the actions, a digit for each agent and step; then, of each step, "
          "the rewards of the first and the last agent, and a hash of all rewards and "
          "observations. */")
    print("static const struct mpe2_episode { const char *id, *params; int steps, over;"
          f"const char *actions; struct {{ double first, last; uint64_t hash; }} step[{STEPS}];"
          "} mpe2_episodes[] = {")
    for name, module, seed, ours, theirs in EPISODES:
        actions, results = play(module, theirs, seed)
        steps = ", ".join(f"{{ {a.hex()}, {b.hex()}, {h:#x}u }}"
                          for a, b, h, _ in results)
        print(f'{{"{name}", "{{{ours}{", " if ours else ""}reference_seed: {seed}}}", '
              f'{len(results)}, {int(results[-1][3])}, "{actions}", {{ {steps} }}}},')
    print("};\n\n#endif")


if __name__ == "__main__":
    main()
