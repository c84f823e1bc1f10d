#!/usr/bin/env python3
"""Built-in worlds beside the Python packages that they follow: random episodes with the package's
own seeds must have the same observations, rewards and ends, byte for byte.

    packages.py PLAY_ENV [--episodes N] [NAME...]
    packages.py --print | clang-format > tests/supervisor/package_episodes.h

NAME: only worlds whose name contains one of these. tests/support/peers.py has the packages, but for
overcooked_ai 1.1.0, which is published as sources alone and wants a module gym that is old.
--print: one episode of each world, for test_package_episodes.c, which needs no package.
"""
import argparse
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import warnings

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import peers

SKIPPED = 77
SEED = 1000   # of the first episode

# A floor on which robots meet, and shelves are near the goals.
CROWDED = """
.......
.xx.xx.
.xx.xx.
...g...
"""
# name, parameters here, those of the package where they differ from the tiny task's, steps
RWARE = [
    ("tiny-2ag", "", {}, 500),
    ("tiny-4ag", "agents: 4", {"n_agents": 4, "request_queue_size": 4}, 500),
    ("small-4ag-easy", "size: small, agents: 4, difficulty: easy",
     {"shelf_rows": 2, "n_agents": 4, "request_queue_size": 8}, 200),
    ("medium-6ag-hard", "size: medium, agents: 6, difficulty: hard",
     {"shelf_rows": 2, "shelf_columns": 5, "n_agents": 6, "request_queue_size": 3}, 200),
    ("large-16ag", "size: large, agents: 16, sensor_range: 2, normalized_coordinates: true",
     {"shelf_rows": 3, "shelf_columns": 5, "n_agents": 16, "request_queue_size": 16,
      "sensor_range": 2, "normalised_coordinates": True}, 100),
    ("crowded-7ag", "agents: 7, requests: 4, message_bits: 2, reward: two_stage, "
     "max_inactivity: 40, layout: %s" % json.dumps(CROWDED),
     {"layout": CROWDED, "n_agents": 7, "request_queue_size": 4, "msg_bits": 2,
      "reward_type": "TWO_STAGE", "max_inactivity_steps": 40}, 500),
    ("crowded-12ag", "agents: 12, requests: 6, reward: global, layout: %s" % json.dumps(CROWDED),
     {"layout": CROWDED, "n_agents": 12, "request_queue_size": 6, "reward_type": "GLOBAL"}, 300),
]
TINY = {"column_height": 8, "shelf_rows": 1, "shelf_columns": 3, "n_agents": 2, "msg_bits": 0,
        "sensor_range": 1, "request_queue_size": 2, "max_inactivity_steps": None,
        "max_steps": None, "reward_type": "INDIVIDUAL"}
DRIVES = [0.1, 0.5, 0.15, 0.15, 0.1]


class Rware:
    package, id = "rware", "rware"

    def __init__(self, params):
        from rware.warehouse import RewardType, Warehouse
        kinds = {**TINY, **params}
        self.env = Warehouse(**{**kinds, "reward_type": RewardType[kinds["reward_type"]]})
        self.n, self.bits = kinds["n_agents"], kinds["msg_bits"]

    def choices(self, draw, steps):
        moves = draw.choice(5, (steps, self.n, 1), p=DRIVES)
        bits = draw.integers(2, size=(steps, self.n, self.bits))
        return np.concatenate([moves, bits], 2).astype(np.uint8)

    def reset(self, seed):
        return self.env.reset(seed=seed)[0]

    def step(self, choices):
        actions = [tuple(c) if self.bits else c[0] for c in choices.tolist()]
        obs, rewards, over, _, _ = self.env.step(actions)
        return obs, rewards, over


# name, parameters here, those of the package where they differ
FORAGING = [
    ("8x8-2p-2f", "", {}),
    ("8x8-2p-2f-coop", "cooperate: true", {"force_coop": True}),
    ("2s-10x10-3p-3f", "size: 10, players: 3, food: 3, sight: 2",
     {"field_size": (10, 10), "players": 3, "max_num_food": 3, "sight": 2}),
    ("15x15-4p-5f", "size: 15, players: 4, food: 5, max_level: 3, penalty: 0.1",
     {"field_size": (15, 15), "players": 4, "max_num_food": 5, "sight": 15,
      "max_player_level": 3, "penalty": 0.1}),
    ("grid-6x9-9p-2f", "rows: 6, columns: 9, players: 9, grid: true, sight: 2, "
     "observe_levels: false, normalize_reward: false, min_food_level: 2, max_food_level: 4",
     {"field_size": (6, 9), "players": 9, "grid_observation": True, "sight": 2,
      "observe_agent_levels": False, "normalize_reward": False, "min_food_level": 2,
      "max_food_level": 4}),
]
EIGHT = {"players": 2, "min_player_level": 1, "max_player_level": 2, "min_food_level": 1,
         "max_food_level": None, "field_size": (8, 8), "max_num_food": 2, "sight": 8,
         "max_episode_steps": 10**9, "force_coop": False}


class Foraging:
    """Made anew for each episode: one that is reset remembers where players were."""
    package, id = "lbforaging", "foraging"

    def __init__(self, params):
        self.params, self.env = {**EIGHT, **params}, None

    def choices(self, draw, steps):
        return draw.choice(6, (steps, self.params["players"], 1),
                           p=[0.05, 0.15, 0.15, 0.15, 0.15, 0.35]).astype(np.uint8)

    def reset(self, seed):
        from gymnasium.spaces import Box
        from lbforaging.foraging import ForagingEnv

        class Mended(ForagingEnv):
            """Its own Box of a grid has one axis, which Gymnasium refuses."""

            def _get_observation_space(self):
                if not self._grid_observation:
                    return super()._get_observation_space()
                side = 2 * self.sight + 1
                return Box(0, np.inf, (3, side, side), np.float32)

        self.env = Mended(**self.params)
        return self.env.reset(seed=seed)[0]

    def step(self, choices):
        obs, rewards, over, _, _ = self.env.step(choices[:, 0].tolist())
        return obs, rewards, over


# name, parameters here; layout, its parameters, and the weight of shaped rewards there
TOMATOES = "XPXPX\nO 1 T\nX 2 X\nXDXSX"
OVERCOOKED = [
    *((name, f"layout: {name}", (theirs, {}, 1.0)) for name, theirs in (
        ("cramped_room", "cramped_room"),
        ("asymmetric_advantages", "asymmetric_advantages"),
        ("coordination_ring", "coordination_ring"),
        ("forced_coordination", "forced_coordination"),
        ("counter_circuit", "counter_circuit_o_1order"))),
    ("tomatoes", "layout: %s, shaping: 0.5, horizon: 200, recipes: {o: {value: 7, time: 3}, "
     "ttt: {value: 30, time: 9, bonus: true}, ot: {value: 11, time: 2}}" % json.dumps(TOMATOES),
     (TOMATOES,
      {"start_all_orders": [{"ingredients": ["onion"]}, {"ingredients": ["tomato"] * 3},
                            {"ingredients": ["onion", "tomato"]}],
       "start_bonus_orders": [{"ingredients": ["tomato"] * 3}], "recipe_values": [7, 30, 11],
       "recipe_times": [3, 9, 2]}, 0.5)),
]


class Overcooked:
    """Nothing is drawn: episodes differ in their actions alone."""
    package, id = "overcooked_ai_py", "overcooked"

    def __init__(self, theirs):
        layout, params, shaping = theirs
        from overcooked_ai_py.mdp.overcooked_mdp import OvercookedGridworld
        if params:
            orders = params["start_all_orders"]
            self.mdp = OvercookedGridworld.from_grid(
                layout.split("\n"), {**params, "all_orders": orders})
        else:
            self.mdp = OvercookedGridworld.from_layout_name(layout)
        self.shaping, self.horizon = shaping, 200 if params else 400

    def choices(self, draw, steps):
        return draw.choice(6, (steps, 2, 1),
                           p=[0.15, 0.15, 0.15, 0.15, 0.05, 0.35]).astype(np.uint8)

    def look(self):
        return self.mdp.lossless_state_encoding(self.state, horizon=self.horizon)

    def reset(self, _):
        self.state = self.mdp.get_standard_start_state()
        return self.look()

    def step(self, choices):
        from overcooked_ai_py.mdp.actions import Action
        actions = [Action.INDEX_TO_ACTION[c] for c in choices[:, 0]]
        self.state, info = self.mdp.get_state_transition(self.state, actions)
        served = sum(info["sparse_reward_by_agent"])
        return (self.look(), [served + self.shaping * own
                              for own in info["shaped_reward_by_agent"]], False)


# name, class, parameters here, those of the package, steps
WORLDS = [
    *((f"rware-{name}", Rware, f"{ours}{', ' * bool(ours)}reference_seed: {SEED}", theirs, steps)
      for name, ours, theirs, steps in RWARE),
    *((f"foraging-{name}", Foraging, f"{ours}{', ' * bool(ours)}reference_seed: {SEED}", theirs,
       100) for name, ours, theirs in FORAGING),
    *((f"overcooked-{name}", Overcooked, ours, theirs, 400) for name, ours, theirs in OVERCOOKED)]


def packed(obs):
    return b"".join(np.asarray(o, np.float32).tobytes() for o in obs)


def play(world, k, choices):
    """What the package says after the reset and after each step: bytes, rewards."""
    yield packed(world.reset(SEED + k)), [0]
    for chosen in choices:
        obs, rewards, over = world.step(chosen)
        yield (packed(obs) + np.asarray(rewards, np.float64).tobytes() + bytes([bool(over)]),
               rewards)


def compare(world, params, steps, program, episodes):
    """Returns how much reward there was."""
    total = 0.0
    for k in range(episodes):
        choices = world.choices(np.random.default_rng(k), steps)
        program.stdin.write(choices.tobytes())
        program.stdin.flush()
        for t, (expected, rewards) in enumerate(play(world, k, choices)):
            total += float(sum(rewards))
            found = program.stdout.read(len(expected))
            assert found == expected, f"episode {k}, step {t - 1}, params {{{params}}}"
    return total


def run(play_env, episodes, world, ours, steps):
    command = [play_env, world.id, "{%s}" % ours, str(steps)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        total = compare(world, ours, steps, program, episodes)
        program.stdin.close()
        assert program.stdout.read() == b"" and program.wait() == 0
    return f"{episodes} episodes, rewards of {total:g}"


def fnv(data):
    """FNV-1a."""
    h = 0xcbf29ce484222325
    for byte in data:
        h = (h ^ byte) * 0x100000001b3 % 2**64
    return h


def print_episodes():
    print("/* Written by tests/golden/packages.py --print. */\n"
          "#include <stdint.h>\n\n"
          "static const struct {\n"
          "    const char *id, *params;\n"
          "    int n_steps;\n"
          "    const char *choices; /* (steps, agents, heads) */\n"
          "    uint64_t hash;       /* FNV-1a of what play_env.c writes for them */\n"
          "} episodes[] = {")
    for _, kind, ours, theirs, steps in WORLDS:
        world = kind(theirs)
        choices = world.choices(np.random.default_rng(0), 60 if kind is Rware else steps)
        said = b"".join(said for said, _ in play(world, 0, choices))
        digits = "".join(str(c) for c in choices.flat)
        lines = "\n".join(f'"{digits[i:i + 80]}"' for i in range(0, len(digits), 80))
        print(f"{{\"{world.id}\", {json.dumps('{%s}' % ours)}, {len(choices)},\n{lines},\n"
              f"{fnv(said):#x}u}},")
    print("};")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("play_env", nargs="?")
    parser.add_argument("--print", action="store_true")
    parser.add_argument("--episodes", type=int, default=4)
    parser.add_argument("names", nargs="*")
    args = parser.parse_args()
    if args.print:
        print_episodes()
        return
    worlds = [w for w in WORLDS if not args.names or any(n in w[0] for n in args.names)]
    print(f"1..{len(worlds)}")
    for i, (name, kind, ours, theirs, steps) in enumerate(worlds, 1):
        said = f"# SKIP no {kind.package}"
        if importlib.util.find_spec(kind.package):
            said = run(args.play_env, args.episodes, kind(theirs), ours, steps)
        print(f"ok {i} - {name} {said}", flush=True)


if __name__ == "__main__":
    if not importlib.util.find_spec("rware"):
        python = peers.python_with_peers()
        if python and "BROOD_WITH_PEERS" not in os.environ:
            os.environ["BROOD_WITH_PEERS"] = "1"
            os.execv(python, [python, *sys.argv])
        print("1..0 # SKIP no Python with the packages (tests/support/peers.py)")
        sys.exit(SKIPPED)
    import numpy as np
    warnings.simplefilter("ignore")
    main()
