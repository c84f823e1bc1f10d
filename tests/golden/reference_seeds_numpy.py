#!/usr/bin/env python3
"""The first observations of the reference's particle worlds after reset(seed): drawn with
NumPy's own generator, and composed as the reference's documentation describes.

    tests/golden/reference_seeds_numpy.py | clang-format > tests/supervisor/reference_seeds.h
"""
import numpy as np

SEED = 20170607


def draw(rng, half, n):
    return [rng.uniform(-half, half, 2) for _ in range(n)]


def rel(me, others):
    return [x for p in others for x in p - me]


def but(items, i):
    return [x for k, x in enumerate(items) if k != i]


def simple(rng):
    agents, landmarks = draw(rng, 1, 1), draw(rng, 1, 1)
    return [[0, 0, *rel(agents[0], landmarks)]]


def simple_adversary(rng):
    goal = rng.integers(2)
    agents, landmarks = draw(rng, 1, 3), draw(rng, 1, 2)
    return [[*(rel(a, [landmarks[goal]]) if i else []), *rel(a, landmarks),
             *rel(a, but(agents, i))] for i, a in enumerate(agents)]


def simple_crypto(rng):
    goal, key = np.eye(4)[rng.integers(2)], np.eye(4)[rng.integers(2)]
    return [[0] * 4, [*key, 0, 0, 0, 0], [*goal, *key]]


def simple_push(rng):
    goal = rng.integers(2)
    agents, landmarks = draw(rng, 1, 2), draw(rng, 1, 2)
    colours = [np.array([0.1, 0.1 + 0.8 * (i == 0), 0.1 + 0.8 * (i == 1)]) for i in range(2)]
    own = [0.25, 0.25 + 0.5 * (goal == 0), 0.25 + 0.5 * (goal == 1)]
    return [[0, 0, *rel(agents[0], landmarks), *rel(agents[0], agents[1:])],
            [0, 0, *rel(agents[1], [landmarks[goal]]), *own, *rel(agents[1], landmarks),
             *colours[0], *colours[1], *rel(agents[1], agents[:1])]]


def simple_reference(rng):
    goals = [rng.integers(3), rng.integers(3)]
    agents, landmarks = draw(rng, 1, 2), draw(rng, 1, 3)
    return [[0, 0, *rel(a, landmarks), *(0.25 + 0.5 * np.eye(3)[goals[i]]), *[0] * 10]
            for i, a in enumerate(agents)]


def simple_speaker_listener(rng):
    goal = rng.integers(3)
    agents, landmarks = draw(rng, 1, 2), draw(rng, 1, 3)
    return [[*(0.15 + 0.5 * np.eye(3)[goal])],
            [0, 0, *rel(agents[1], landmarks), 0, 0, 0]]


def simple_spread(rng):
    agents, landmarks = draw(rng, 1, 3), draw(rng, 1, 3)
    return [[0, 0, *a, *rel(a, landmarks), *rel(a, but(agents, i)), *[0] * 4]
            for i, a in enumerate(agents)]


def simple_tag(rng):
    agents, obstacles = draw(rng, 1, 4), draw(rng, 0.9, 2)
    return [[0, 0, *a, *rel(a, obstacles), *rel(a, but(agents, i)), *([0, 0] if i < 3 else [])]
            for i, a in enumerate(agents)]


def simple_world_comm(rng):
    agents = draw(rng, 1, 6)
    landmarks = draw(rng, 0.9, 5)
    landmarks[1:3] = draw(rng, 0.9, 2)  # food, and then forests, once more
    landmarks[3:5] = draw(rng, 0.9, 2)
    sizes = [0.075] * 4 + [0.045] * 2
    inside = [[np.hypot(*(a - f)) < size + 0.3 for f in landmarks[3:]]
              for a, size in zip(agents, sizes)]
    found = []
    for i, a in enumerate(agents):
        seen = []
        for o in but(range(6), i):
            together = any(x and y for x, y in zip(inside[i], inside[o]))
            visible = i == 0 or together or not (any(inside[i]) or any(inside[o]))
            seen += list(agents[o] - a) if visible else [0, 0]
        forest = [1 if x else -1 for x in inside[i]]
        still = [0, 0] * (2 if i < 4 else 1)  # velocities of the other good agents
        rest = [*still, *forest, *[0] * 4] if i < 4 else [*forest, *still]
        found.append([0, 0, *a, *rel(a, landmarks), *seen, *rest])
    return found


WORLDS = [simple, simple_adversary, simple_crypto, simple_push, simple_reference,
          simple_speaker_listener, simple_spread, simple_tag, simple_world_comm]


def main():
    print("/* reference_seeds.h - written by tests/golden/reference_seeds_numpy.py with NumPy",
          np.__version__, "*/")
    print("#ifndef TESTS_SUPERVISOR_REFERENCE_SEEDS_H")
    print("#define TESTS_SUPERVISOR_REFERENCE_SEEDS_H\n\n#include <stddef.h>\n")
    print(f'#define REFERENCE_SEED "{SEED}"\n')
    print("/* All agents' observations, one after another. */")
    print("static const struct first_observations { const char *id; size_t n; "
          "float obs[192]; } first_observations[] = {")
    for world in WORLDS:
        rows = world(np.random.Generator(np.random.PCG64(np.random.SeedSequence(SEED))))
        numbers = [f"{np.float32(x):.9g}f" if x % 1 else f"{x:.0f}" for row in rows
                   for x in row]
        print(f'{{"{world.__name__}", {len(numbers)}, {{ {", ".join(numbers)} }}}},')
    print("};\n\n#endif")


if __name__ == "__main__":
    main()
