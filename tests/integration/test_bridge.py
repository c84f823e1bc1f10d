"""The bridge to PettingZoo's and Gymnasium's environments, without a run: its spaces, its
worlds, and how it finds the environment."""
import contextlib
import io
import os
import sys
import types
from unittest import mock

import harness
import numpy as np

sys.path[:0] = [str(harness.SOURCE / "scripts"), str(harness.SOURCE / "tests" / "support")]

import gymnasium_shaped as spaces
import pettingzoo_bridge as bridge
from bridge_spaces import Action, Observation, Refused, observation_of


UMLAUTS = """
import sys
sys.path.insert(0, SCRIPTS)
import brood


class Umlauts(brood.Env):
    possible_agents = ["\u00e4", "\u00f6"]
    observations = brood.Box(-1, 1, (1,))
    actions = brood.Discrete(2)

    def begin(self):
        return {a: [0.0] for a in self.agents}

    def act(self, actions):
        return self.begin(), {a: 0.0 for a in actions}, False


parallel_env = Umlauts
""".replace("SCRIPTS", repr(str(harness.SOURCE / "scripts")))


def seen(space, value):
    """The observation that the bridge sends to brood."""
    o = Observation(space, "a")
    data = o.encode(value)
    assert len(data) == o.size == o.width * (1 if o.u8 else 4), (o.width, data)
    return np.frombuffer(data, "u1" if o.u8 else "<f4").tolist()


def refused(says, call, *args):
    try:
        call(*args)
    except Refused as e:
        assert str(e) == says, e
        return
    raise AssertionError(f"not refused: {says}")


@contextlib.contextmanager
def without_numpy():
    with mock.patch.dict(sys.modules):
        del sys.modules["numpy"]
        yield


# ---- observations ----


def test_boxes_are_flattened_to_float32(w):
    assert seen(spaces.Box(-1, 1, (3,)), np.array([0.5, -1, 1], np.float32)) == [0.5, -1, 1]
    assert seen(spaces.Box(0, 255, (2, 2), np.uint8),
                np.array([[0, 255], [7, 8]], np.uint8)) == [0, 255, 7, 8]
    assert seen(spaces.Box(-np.inf, np.inf, (2, 1, 2), np.float64),
                np.arange(4, dtype=np.float64).reshape(2, 1, 2)) == [0, 1, 2, 3]
    fortran = np.asfortranarray([[1, 2], [3, 4]], np.float32)
    assert seen(spaces.Box(0, 9, (2, 2)), fortran) == [1, 2, 3, 4]
    assert seen(spaces.Box(0, 9, ()), np.float32(3)) == [3]
    assert seen(spaces.Box(0, 9, (2, 2)), [[1, 2], [3, 4]]) == [1, 2, 3, 4]
    refused("a: an observation of shape (2,), the space says (3,)",
            seen, spaces.Box(0, 1, (3,)), np.zeros(2, np.float32))
    refused("a: an observation of shape (2,), the space says (3,)",
            seen, spaces.Box(0, 1, (3,)), [1, 2])
    refused("a: an observation [[1], [2, 3]], the space says shape (2, 1)",
            seen, spaces.Box(0, 1, (2, 1)), [[1], [2, 3]])
    # Neither the order in memory nor a mixture of types changes what is sent.
    three = spaces.Box(-9, 9, (3,))
    for same in (np.arange(6, dtype=np.float32)[::2], np.array([0, 2, 4], ">f4"),
                 [0, 2, 4], [0.0, 2, np.float64(4)], [0.0, [2.0], np.array([4.0])],
                 (0.0, 2.0, 4.0)):
        assert seen(three, same) == [0, 2, 4], same
    refused("a: an observation of shape (3, 1), the space says (3,)",
            seen, three, [np.zeros(1)] * 3)
    refused("a: an observation [0.5, 'x', 1], the space says shape (3,)",
            seen, three, [0.5, "x", 1])
    assert seen(spaces.Box(0, 9, ()), np.array(3.0)) == seen(spaces.Box(0, 9, ()), 3) == [3]
    for transposed in (np.zeros((3, 2), np.float32), [[1, 2]] * 3):
        refused("a: an observation of shape (3, 2), the space says (2, 3)",
                seen, spaces.Box(0, 9, (2, 3)), transposed)


def test_bytes_stay_bytes(w):
    image = spaces.Box(0, 255, (2, 3, 1), np.uint8)
    flat = spaces.Box(0, 255, (6,), np.uint8)
    for space, described in (
            (image, {"obs": 6, "uint8": True, "image": [2, 3, 1]}),
            (flat, {"obs": 6, "uint8": True}),
            (spaces.Box(0, 255, (2, 3), np.uint8),
             {"obs": 6, "uint8": True, "image": [2, 3, 1]}),
            (spaces.Dict({"a": image, "b": flat}),
             {"obs": 12, "uint8": True, "image_part": {"shape": [2, 3, 1], "at": 0}}),
            (spaces.Dict({"a": image, "b": spaces.Discrete(2)}),
             {"obs": 8, "image_part": {"shape": [2, 3, 1], "at": 0, "uint8": True}}),
            (spaces.Tuple([spaces.MultiBinary((2, 2)),
                           spaces.Dict({"a": spaces.Discrete(3), "b": spaces.Box(0, 1, (2, 2))}),
                           spaces.Box(0, 1, (0, 2))]),
             {"obs": 11, "image_part": {"shape": [2, 2, 1], "at": 7}}),
            (spaces.Tuple([spaces.Dict({"a": image})]),
             {"obs": 6, "uint8": True, "image": [2, 3, 1]}),
            (spaces.Tuple([spaces.Dict({"a": image, "b": image}), image]),
             {"obs": 18, "uint8": True}),
            (spaces.Box(0, 1, (2, 3, 1)), {"obs": 6, "image": [2, 3, 1]})):
        assert Observation(space, "a").described == described, described
    own = spaces.Dict({"observation": image, "action_mask": spaces.Box(0, 1, (4,), np.int8)})
    assert observation_of(own, "a").described == \
        {"obs": 6, "uint8": True, "image": [2, 3, 1]}
    assert seen(flat, np.arange(6)) == seen(flat, list(range(6))) == [0, 1, 2, 3, 4, 5]
    view = memoryview(bytes(range(6)))
    assert seen(flat, view) == seen(image, view.cast("B", (2, 3, 1))) == list(range(6))
    refused("a: an observation with values that are no uint8, as the space says",
            seen, flat, np.arange(6) + 251)


def test_numbers_are_converted_without_a_loss(w):
    space = spaces.Box(-9, 9, (2,))
    masked = np.ma.array([1, 2], np.float32, mask=[False, True])
    for value, told in ((masked, "masked numbers"), (masked.astype(np.float64), "masked numbers"),
                        (np.array([1, 2j]), "complex128"), (np.array(["1", "2"]), "<U1")):
        refused(f"a: an observation of {told}, the space says numbers", seen, space, value)
    assert seen(space, np.array([1, 2.5], object)) == [1, 2.5]
    refused("a: an observation array([1, None], dtype=object), the space says shape (2,)",
            seen, space, np.array([1, None], object))
    refused("a: an observation of shape (), the space says (2,)", seen, space, None)
    with np.errstate(over="ignore"):
        assert seen(space, [-1e300, 1]) == seen(space, np.array([-1e300, 1])) == [-np.inf, 1]


def test_parts_that_are_missing_are_told(w):
    both = spaces.Dict({"speed": spaces.Discrete(2), "far": spaces.Tuple([spaces.Discrete(2)] * 2)})
    refused("a.speed: missing in an observation, a dict", seen, both, {"far": (1, 0)})
    refused("a.far.1: missing in an observation, a tuple", seen, both, {"speed": 1, "far": (1,)})
    refused("a.speed: missing in an observation, a list", seen, both, [1, (1, 0)])
    refused("a.far.0: missing in an observation, a NoneType", seen, both, {"speed": 1, "far": None})


def test_entities_come_last_with_what_is_there(w):
    things = {"a": spaces.Box(-9, 9, (2, 2)), "own": spaces.Discrete(2),
              "there": spaces.MultiBinary(2), "action_mask": spaces.MultiBinary(5)}
    value = {"a": np.array([[1, 2], [3, 4]]), "own": 1, "there": [0, 1]}

    def encoded(entities, value=value, **spaces_):
        o = observation_of(spaces.Dict({**things, **spaces_}), "a", entities)
        return o.described, np.frombuffer(o.encode(value), "<f4").tolist()

    assert encoded(["a", "there"]) == (
        {"obs": 8, "entities": [2, 3]}, [0, 1, 0, 0, 0, 3, 4, 1])
    assert encoded(["a"]) == (
        {"obs": 10, "entities": [2, 3]}, [0, 1, 0, 1, 1, 2, 1, 3, 4, 1])
    assert encoded(["other"]) == encoded(None) == (
        {"obs": 8, "image_part": {"shape": [2, 2, 1], "at": 0}}, [1, 2, 3, 4, 0, 1, 0, 1])
    refused("a.own: entities of shape (), expected a Box of shape (number of entities, numbers of "
            "each)", encoded, ["own"])
    refused("a: no 'their' of shape (2,), which says what 'a' are there", encoded, ["a", "their"])
    refused("a: an observation of shape (1,), the space says (2,)",
            encoded, ["a", "there"], {**value, "there": [1]})
    refused("a: entities alone, expected numbers of the agent's own beside them",
            observation_of, spaces.Dict({"a": things["a"]}), "a", ["a"])


def test_discrete_values_are_one_hot(w):
    assert seen(spaces.Discrete(3), np.int64(2)) == [0, 0, 1]
    assert seen(spaces.Discrete(3, start=-1), 0) == [0, 1, 0]
    assert seen(spaces.Discrete(2), np.array(1)) == [0, 1]
    assert seen(spaces.MultiDiscrete([2, 3]), np.array([1, 0])) == [0, 1, 1, 0, 0]
    assert seen(spaces.MultiDiscrete([2, 3], start=[5, -1]), np.array([5, 1])) == \
        [1, 0, 0, 0, 1]
    assert seen(spaces.MultiDiscrete([[1, 2], [2, 1]]), np.array([[0, 1], [1, 0]])) == \
        [1, 0, 1, 0, 1, 1]
    assert seen(spaces.MultiBinary(3), np.array([1, 0, 1], np.int8)) == [1, 0, 1]
    assert seen(spaces.MultiBinary([2, 2]), np.eye(2, dtype=np.int8)) == [1, 0, 0, 1]
    refused("a: an observation 3, the space has 0 to 2", seen, spaces.Discrete(3), 3)
    refused("a: an observation -1, the space has 0 to 2", seen, spaces.Discrete(3), -1)
    assert seen(spaces.Discrete(3), 1.0) == seen(spaces.Discrete(3), np.array([1])) == [0, 1, 0]
    for odd in (1.5, "2", None, np.nan, np.inf, [1, 2], np.array([0, 1]), 1 + 1j):
        refused(f"a: an observation {odd}, the space has 0 to 2", seen, spaces.Discrete(3), odd)
    refused("a: an observation 3, the space has 1 to 2",
            seen, spaces.MultiDiscrete([2, 2], start=[1, 1]), np.array([1, 3]))
    refused("a: an observation of shape (1,), the space says (2,)",
            seen, spaces.MultiDiscrete([2, 2]), np.array([1]))
    refused("a: an observation of shape (2, 1), the space says (1, 2)",
            seen, spaces.MultiDiscrete([[2, 2]]), np.array([[1], [0]]))


def test_parts_are_side_by_side(w):
    card, place = spaces.Discrete(2), spaces.Box(0, 9, (2,))
    assert seen(spaces.Tuple([card, place]), (1, np.array([3, 4.0]))) == [0, 1, 3, 4]
    both = spaces.Dict({"card": card, "far": spaces.Tuple([place, card])})
    assert seen(both, {"far": (np.array([3, 4]), 0), "card": 1}) == [0, 1, 3, 4, 1, 0]


def outside(space, *values):
    """What the bridge says of the first value that is outside of its Box, of each observation."""
    o = observation_of(space, "a", ["things", "there"])
    return [o.find_outside(o.encode(value)) for value in values]


def test_values_outside_of_a_box_are_found(w):
    box = spaces.Box(np.array([-1, -np.inf, 0.1]), np.array([1, 2, np.inf]))
    at_bounds = [np.array([1, 2, 1e30]), [-1, -np.inf, np.float32(0.1)]]
    found = ("a", "entry 1 is 3, the space has -inf to 2")
    assert outside(box, *at_bounds, [0, 3, 4]) == [None, None, found]
    assert outside(box, [0, 3, 0], [0, 3, 0]) == [found, None]  # each is told once
    assert outside(box, [np.nan, 0, 0]) == [("a", "entry 2 is 0, the space has 0.1 to inf")]
    assert outside(spaces.Box(0, 1, (2, 1, 2)), np.ones((2, 1, 2)), [[[0, 0]], [[1, -2]]]) == \
        [None, ("a", "entry 1, 0, 1 is -2, the space has 0 to 1")]
    assert outside(spaces.Box(0, 1, ()), 1.5) == [("a", "it is 1.5, the space has 0 to 1")]
    assert outside(types.SimpleNamespace(low=None, high=None, shape=(1,)), [7]) == [None]
    picture = np.full((2, 2), 200, np.uint8)
    assert outside(spaces.Box(0, 255, (2, 2), np.uint8), picture) == [None]
    assert outside(spaces.Box(0, 9, (2, 2), np.uint8), picture) == \
        [("a", "entry 0, 0 is 200, the space has 0 to 9")]
    parts = spaces.Dict({"kind": spaces.Discrete(3), "speed": spaces.Box(0, 5, (2,)),
                         "more": spaces.Tuple([spaces.Box(-1, 1, (1,))])})
    assert outside(parts, *[{"kind": 2, "speed": [0, 6], "more": ([7],)}] * 3) == \
        [("a.speed", "entry 1 is 6, the space has 0 to 5"),
         ("a.more.0", "entry 0 is 7, the space has -1 to 1"), None]
    rows = spaces.Dict({"own": spaces.Box(0, 1, (1,)), "things": spaces.Box(2, 3, (2, 2)),
                        "there": spaces.MultiBinary(2)})
    value = {"own": [0], "things": [[2, 3], [9, 9]], "there": [1, 0]}
    assert outside(rows, value, {**value, "there": [1, 1]}) == \
        [None, ("a.things", "entry 1, 0 is 9, the space has 0 to 3")]


def test_only_an_agents_own_mask_is_left_out(w):
    mask, place = spaces.Box(0, 1, (4,), np.int8), spaces.Box(0, 9, (2,))
    own = spaces.Dict({"action_mask": mask, "observation": place})
    assert observation_of(own, "a").width == 2
    assert observation_of(spaces.Dict({"other": own, "self": place}), "a").width == 8


def test_what_cannot_be_seen_is_told(w):
    box = spaces.Box(0, 1, (1,))
    for kind, space in (("Text", spaces.Text(9)), ("OneOf", spaces.OneOf([box, box])),
                        ("Graph", spaces.Graph(box, None)),
                        ("Sequence", spaces.Sequence(box))):
        refused(f"walker_0.map.1: observations of kind {kind} (Box, Discrete, MultiDiscrete, "
                "MultiBinary, Dict and Tuple can be played: let a wrapper make it one of "
                "these)", Observation,
                spaces.Dict({"map": spaces.Tuple([box, space])}), "walker_0")


# ---- actions ----


def decoded(space, numbers):
    """The action that the bridge passes to the environment; always within its space."""
    a = Action(space, "a")
    assert a.width == len(numbers), a.width
    value = a.decode(list(numbers))
    assert space.contains(value), value
    return value


def described(space):
    return Action(space, "a").described


def test_choices_are_what_the_space_has(w):
    assert decoded(spaces.Discrete(3), [0, 0, 1]) == 2
    assert decoded(spaces.Discrete(3, start=-1), [1, 0, 0]) == -1
    assert decoded(spaces.Discrete(3), [0.5, 0.5, 0]) == 0
    x = decoded(spaces.MultiDiscrete([2, 3]), [0, 1, 0, 0, 1])
    assert x.dtype == np.int64 and x.tolist() == [1, 2]
    x = decoded(spaces.MultiDiscrete([2, 3], np.int32, start=[4, -2]), [0, 1, 1, 0, 0])
    assert x.dtype == np.int32 and x.tolist() == [5, -2]
    x = decoded(spaces.MultiDiscrete([[2, 1], [1, 2]]), [0, 1, 1, 1, 1, 0])
    assert x.tolist() == [[1, 0], [0, 0]]
    x = decoded(spaces.MultiBinary(2), [0, 1, 1, 0])
    assert x.dtype == np.int8 and x.tolist() == [1, 0]
    assert decoded(spaces.MultiBinary([1, 2]), [1, 0, 0, 1]).tolist() == [[0, 1]]
    assert described(spaces.MultiDiscrete([2, 3])) == \
        {"kind": "discrete", "heads": [2, 3], "width": 5}
    assert described(spaces.MultiBinary([1, 2])) == \
        {"kind": "discrete", "heads": [2, 2], "width": 4}
    refused("a: an action of 9 parts, brood has at most 8", described, spaces.MultiBinary(9))


def test_numbers_are_within_the_bounds(w):
    even = spaces.Box(-2, 3, (2,))
    assert described(even) == \
        {"kind": "box", "heads": [], "width": 2, "low": -2.0, "high": 3.0}
    assert decoded(even, [-2.5, 3]).tolist() == [-2, 3]
    x = decoded(spaces.Box(0, 0.1, (1, 2), np.float64), [float(np.float32(0.1)), 0.05])
    assert x.dtype == np.float64 and x.shape == (1, 2) and x[0, 0] == 0.1
    free = spaces.Box(-np.inf, np.inf, ())
    assert described(free)["high"] == np.inf and decoded(free, [1e9]) == np.float32(1e9)
    uneven = spaces.Box(np.array([-1, 0.1]), np.array([0, 0.3]), dtype=np.float64)
    assert (described(uneven)["low"], described(uneven)["high"]) == (-1, 1)
    assert decoded(uneven, [0, 1]).tolist() == [-0.5, 0.3]
    assert decoded(uneven, [-2, -1.1]).tolist() == [-1, 0.1]
    whole = spaces.Box(0, 3, (4,), np.int32)
    assert decoded(whole, [-0.3, 0.6, 2.4, 3.4]).tolist() == [0, 1, 2, 3]
    half = spaces.Box(np.array([0, 0]), np.array([1, np.inf]))
    refused("a: a Box of actions of which some have bounds (let a wrapper give all of them, "
            "or none)", Action, half, "a")


def test_choices_come_before_numbers(w):
    """Of all parts of a Dict or Tuple; numbers of one range stay as they are, others are scaled."""
    near, far = spaces.Box(-1, 1, (2,)), spaces.Box(0, 4, (1, 1))
    both = spaces.Dict({"to": near, "grip": spaces.Discrete(2, start=3), "also": near})
    assert described(both) == {"kind": "hybrid", "heads": [2], "width": 6, "low": -1, "high": 1}
    x = Action(both, "a").decode([0, 1, 0.5, -2, 0.25, 0.75])
    assert list(x) == ["to", "grip", "also"] and x["grip"] == 4
    assert x["to"].tolist() == [0.5, -1] and x["also"].tolist() == [0.25, 0.75]
    deep = spaces.Tuple([far, spaces.Tuple([spaces.MultiDiscrete([2, 3]), near]), both])
    assert described(deep) == \
        {"kind": "hybrid", "heads": [2, 3, 2], "width": 14, "low": -1, "high": 1}
    x = Action(deep, "a").decode([0, 1, 1, 0, 0, 1, 0, 0.5, 1, 0.5, -0.5, 0, 0.5, 0.25])
    assert x[0].tolist() == [[3]] and x[1][0].tolist() == [1, 0] and x[1][1].tolist() == [1, 0.5]
    assert x[2]["to"].tolist() == [-0.5, 0] and x[2]["grip"] == 3
    assert described(spaces.Tuple([spaces.Discrete(2), spaces.MultiBinary(1)])) == \
        {"kind": "discrete", "heads": [2, 2], "width": 4}
    assert described(spaces.Dict({"x": near})) == \
        {"kind": "box", "heads": [], "width": 2, "low": -1.0, "high": 1.0}
    mask = Action(deep, "a").mask
    assert mask(None) == bytes([1] * 14)
    assert mask([0, 1, 1, 0, 0, 0, 1]) == bytes([0, 1, 1, 0, 0, 0, 1] + [1] * 7)
    assert mask((None, ((np.array([0, 1]), np.array([1, 0, 0])), None), {"grip": [0, 1]})) == \
        mask([0, 1, 1, 0, 0, 0, 1])
    refused("a: an action mask of 14, expected 7", mask, [1] * 14)
    refused("a.to: a Box of actions of which some have bounds (let a wrapper give all of them, or "
            "none)", described, spaces.Dict({"go": near, "to": spaces.Box(0, np.inf, (1,))}))
    refused("a: an action of 9 parts, brood has at most 8", described,
            spaces.Tuple([spaces.Discrete(2)] * 9))


def test_other_actions_are_refused(w):
    box = spaces.Box(0, 1, (1,))
    says = "(Box, Discrete, MultiDiscrete, MultiBinary, Dict and Tuple can be played: let a " \
        "wrapper make it one of these)"
    refused(f"runner_1: actions of kind OneOf {says}", Action, spaces.OneOf([box, box]),
            "runner_1")
    refused(f"runner_1.say: actions of kind Text {says}", Action,
            spaces.Dict({"to": box, "say": spaces.Text(3)}), "runner_1")
    refused("runner_1: its actions have no entries (let a wrapper give one that is ignored)",
            Action, spaces.Dict({}), "runner_1")


def test_without_numpy_they_are_lists(w):
    grid, bits = spaces.MultiDiscrete([[2, 1], [1, 2]]), spaces.MultiBinary(2)
    box, one = spaces.Box(0, 1, (2, 1, 2)), spaces.Box(0, 1, ())
    with without_numpy():
        assert Action(grid, "a").decode([0, 1, 1, 1, 1, 0]) == [[1, 0], [0, 0]]
        assert Action(bits, "a").decode([0, 1, 1, 0]) == [1, 0]
        assert Action(box, "a").decode([0.0, 1.0, 0.5, 0.25]) == [[[0, 1]], [[0.5, 0.25]]]
        assert Action(one, "a").decode([0.5]) == 0.5


def test_masks_are_of_each_heads_choices(w):
    mask = Action(spaces.Discrete(3), "a").mask
    assert mask(None) == bytes([1, 1, 1])
    assert mask(np.array([0, 1, 1], np.int8)) == mask([False, True, True]) == bytes([0, 1, 1])
    refused("a: an action mask of 2, expected 3", mask, [1, 1])
    assert mask([0.0, 1, np.float32(1)]) == mask(np.array([0, 1, 1.0])) == bytes([0, 1, 1])
    # What is added to logits, and what is no mask at all.
    for odd, says in (([0, -1e9, 0], "-1000000000.0"), (np.array([0, -np.inf, 0]), "-inf"),
                      ([0, np.nan, 1], "nan"), ([-5, 0, 0], "-5"), ([2, 0, 0], "2"),
                      ([0, None, 1], "None"), ([0, 0.5, 1], "0.5"), (["1", 0, 0], "'1'")):
        refused(f"a: an action mask with {says}, expected 1 for what is allowed, and 0", mask, odd)
    parts = (np.array([0, 1], np.int8), np.array([1, 1, 0], np.int8))
    mask = Action(spaces.MultiDiscrete([2, 3]), "a").mask
    assert mask(parts) == mask([0, 1, 1, 1, 0]) == bytes([0, 1, 1, 1, 0])
    mask = Action(spaces.MultiBinary([1, 3]), "a").mask
    assert mask(np.array([[0, 1, 2]], np.int8)) == bytes([1, 0, 0, 1, 1, 1])
    assert mask([1, 0, 0, 1, 1, 1]) == bytes([1, 0, 0, 1, 1, 1])


# ---- worlds ----


class Walk:
    """As pettingzoo.ParallelEnv has it: `short` reaches its end in step 2, `long` is cut
    off in step 3, `lost` is gone in step 1 and nothing is said of it."""

    metadata = {"name": "walk_v0", "render_modes": []}
    possible_agents = ["short", "long", "lost"]
    masks = None  # or "observation", or "infos"

    def __init__(self, **params):
        self.params, self.actions, self.closed = params, [], 0

    def observation_space(self, agent):
        own = spaces.Box(0, 9, (2,))
        masked = {"action_mask": spaces.Box(0, 1, (2,), np.int8), "observation": own}
        return spaces.Dict(masked) if self.masks == "observation" else own

    def action_space(self, agent):
        return spaces.Discrete(2, start=1)

    def reset(self, seed=None, options=None):
        assert isinstance(seed, int)
        self.time, self.agents, self.seed = 0, self.possible_agents[:], seed
        return self.look(self.agents), self.infos(self.agents)

    def step(self, actions):
        assert actions.keys() == set(self.agents), actions
        self.actions.append(actions)
        self.time += 1
        acted = [a for a in self.agents if a != "lost"]
        ends = {a: a == "short" and self.time == 2 for a in acted}
        cuts = {a: a == "long" and self.time == 3 for a in acted}
        self.agents = [a for a in acted if not ends[a] and not cuts[a]]
        rewards = {a: np.float32(self.time) for a in acted}
        return self.look(acted), rewards, ends, cuts, self.infos(acted)

    def look(self, agents):
        obs = np.array([self.time, self.seed % 10], np.float32)
        mask = np.array([1, self.time % 2], np.int8)
        masked = {"observation": obs, "action_mask": mask}
        return {a: masked if self.masks == "observation" else obs for a in agents}

    def infos(self, agents):
        mask = {"action_mask": np.array([1, self.time % 2], np.int8)}
        return {a: mask if self.masks == "infos" else {} for a in agents}

    def close(self):
        self.closed += 1


def masked(where):
    return type("Walk", (Walk,), {"masks": where})


def game_of(make, **params):
    return bridge.Game(make, params)


def test_leaving_ending_and_being_cut_are_told_apart(w):
    game = game_of(Walk, size=3)
    assert game.described("walk") == {"name": "walk", "masks": False, "max_steps": 0, "agents": [
        {"name": n, "obs": 2, "action": {"kind": "discrete", "heads": [2], "width": 2}}
        for n in Walk.possible_agents]}
    copy = game.new_copy()
    assert copy.env.params == {"size": 3}
    obs, present, masks = copy.reset(7)
    assert masks == [] and list(present) == [1, 1, 1]
    assert np.frombuffer(b"".join(obs), "<f4").tolist() == [0, 7] * 3
    rows = [[1, 0], [0, 1], [1, 0]]
    told = []
    for _ in range(3):
        obs, present, _, reward, over = copy.step(rows)
        told.append((np.frombuffer(b"".join(obs), "<f4")[::2].tolist(), list(present),
                     reward, list(over)))
    assert told == [([1, 1, 0], [1, 1, 0], [1, 1, 0], [0, 0, 1]),
                    ([2, 2, 0], [0, 1, 0], [2, 2, 0], [1, 0, 0]),
                    ([2, 3, 0], [0, 0, 0], [0, 3, 0], [0, 0, 0])], told
    assert copy.env.actions == [{"short": 1, "long": 2, "lost": 1},
                                {"short": 1, "long": 2}, {"long": 2}]


def test_who_leaves_by_a_cut_alone_did_not_end(w):
    class Cut(Walk):
        def step(self, actions):
            obs, rewards, _, cuts, infos = super().step(actions)
            return obs, rewards, {}, cuts, infos
    copy = game_of(Cut).new_copy()
    copy.reset(1)
    over = [list(copy.step([[1, 0]] * 3)[4]) for _ in range(3)]
    assert over[2] == [0, 0, 0], over


def test_masks_are_found_where_pettingzoo_has_them(w):
    for where in ("observation", "infos"):
        game = game_of(masked(where))
        assert game.described("w")["masks"] and game.observations[0].width == 2
        copy = game.new_copy()
        assert copy.reset(0)[2] == [bytes([1, 0])] * 3
        # An agent without a new observation keeps its last mask.
        assert copy.step([[1, 0]] * 3)[2] == [bytes([1, 1])] * 2 + [bytes([1, 0])]
        assert copy.step([[1, 0]] * 3)[2][1] == bytes([1, 0])


class Careless(Walk):
    """Leaves its Box from step 2 on, and forgets rewards, an end, or an observation."""

    def __init__(self, what="", said=()):
        super().__init__()
        self.what, self.said = what, dict(said)

    def step(self, actions):
        obs, rewards, ends, cuts, infos = super().step(actions)
        rewards |= dict.fromkeys(self.said, 0)
        if self.what == "box" and self.time > 1:
            obs = {a: 10 * x for a, x in obs.items()}
        if self.what == "unpaid":
            rewards = {}
        if self.what == "one":
            rewards.pop("long", None)
        if self.what == "cut" and self.time == 3:
            obs = {}
        return obs, rewards, ends | self.said, cuts, infos


def warnings(what):
    """What is told of three steps, twice."""
    game = game_of(Careless, what=what, said={"lost": True})
    copy = game.new_copy(7)
    for seed in (1, 1):
        copy.reset(seed)
        for _ in range(3):
            copy.step([[1, 0]] * 3)
    return [f"{w['what']} ({w['where']})" for w in game.take_warnings()]


def test_what_is_hardly_meant_is_told_once(w):
    assert warnings("nothing") == []
    entry = "entry 0 is {}, the space has 0 to 9"
    assert warnings("box") == [
        f"short: an observation outside of its Box (copy 7, step 2: {entry.format(20)})",
        f"long: an observation outside of its Box (copy 7, step 2: {entry.format(20)})"]
    assert warnings("unpaid") == ["a step without any reward: all count as 0 (copy 7, step 1)"]
    assert warnings("one") == [
        "long: a step without a reward of it, which counts as 0 (copy 7, step 1)"]
    assert warnings("cut") == ["long: truncated without an observation, the one before counts as "
                               "its last (copy 7, step 3)"]


def test_who_leaves_without_a_word_is_told(w):
    for said, says in (({}, "terminated"), ({"lost": False}, "truncated")):
        game = game_of(Careless, said=said)
        copy = game.new_copy()
        copy.reset(1)
        over = copy.step([[1, 0]] * 3)[4]
        assert {"what": "lost: it leaves `agents`, but was neither terminated nor truncated, and "
                        f"counts as {says}", "where": "copy 0, step 1"} in game.take_warnings()
        assert over[2] == (says == "terminated")


class Late(Walk):
    """Its masks begin with the first step."""

    def step(self, actions):
        self.masks = "infos"
        return super().step(actions)


def test_a_mask_that_comes_late_is_refused(w):
    copy = game_of(Late).new_copy()
    assert copy.reset(0)[2] == []
    refused("short: an action mask, but there was none at the first reset: let the "
            "environment give masks from the reset on (all ones where everything is allowed)",
            copy.step, [[1, 0]] * 3)


class Changed(Walk):
    """Its step gives something else in place of one of the five values."""

    def __init__(self, at, value):
        super().__init__()
        self.at, self.value = at, value

    def step(self, actions):
        answer = list(super().step(actions))
        answer[self.at] = {**answer[self.at], **self.value} if isinstance(self.value, dict) else \
            self.value
        return tuple(answer)


def test_a_reward_that_is_no_number_is_refused(w):
    for value in (None, "1.0", [1, 2], 1j):
        copy = game_of(Changed, at=1, value={"long": value}).new_copy()
        copy.reset(0)
        refused(f"long: a reward {value!r}, expected a number", copy.step, [[1, 0]] * 3)


def test_what_a_step_gives_is_by_agent(w):
    names = ["observations", "rewards", "terminations", "truncations", "infos"]
    for at, name in enumerate(names):
        for value in (None, [1, 2, 3], True):
            copy = game_of(Changed, at=at, value=value).new_copy()
            copy.reset(0)
            refused(f"{name} of type {type(value).__name__}, expected a dict with a value for each "
                    "agent", copy.step, [[1, 0]] * 3)
    for at, name in ((2, "termination"), (3, "truncation")):
        for value in ([False], np.array([0, 1]), "no", {}):
            copy = game_of(Changed, at=at, value={"long": value}).new_copy()
            copy.reset(0)
            refused(f"long: a {name} {value!r}, expected true or false", copy.step, [[1, 0]] * 3)
        for value in (None, 0, np.bool_(False), np.array([False]), np.array(False)):
            copy = game_of(Changed, at=at, value={"long": value}).new_copy()
            copy.reset(0)
            assert list(copy.step([[1, 0]] * 3)[1]) == [1, 1, 0], value
    copy = game_of(Changed, at=4, value={"long": [{}]}).new_copy()
    copy.reset(0)
    refused("long: an info of type list, expected a dict (a list of infos: of several agents, "
            "whose spaces are no Tuples?)", copy.step, [[1, 0]] * 3)


def test_a_reset_gives_a_pair(w):
    for kind in (Walk, Pole, Foraging):
        for value in (None, [0.5, 0.5], np.zeros(2), ({}, {}, {})):
            if kind is not Walk or value is not None:
                made = type("Odd", (kind,), {"reset": lambda self, seed, value=value: value})
                refused("its reset gives no pair of an observation and an info: let a wrapper make "
                        "it so", game_of, made)
    made = type("Odd", (Walk,), {"reset": lambda self, seed: ({}, None)})
    refused("infos of type NoneType, expected a dict with a value for each agent", game_of, made)
    copy = game_of(type("Odd", (Walk,), {"step": lambda self, actions: None})).new_copy()
    copy.reset(0)
    refused("its step gives a NoneType, expected 5, with termination and truncation apart: let a "
            "wrapper make it so", copy.step, [[1, 0]] * 3)


class Pole:
    """As gymnasium.Env has it."""

    observation_space = spaces.Dict({"place": spaces.Box(-9, 9, (1,)),
                                     "side": spaces.Discrete(2)})
    action_space = spaces.Box(np.array([-1, 0], np.float32), np.array([1, 4], np.float32))

    def __init__(self, limit=2):
        self.limit = limit

    def reset(self, *, seed=None, options=None):
        self.time = 0
        return self.look(), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.time += 1
        ends = action[1] == 4
        return self.look(), np.float64(-1), np.bool_(ends), self.time >= self.limit, {}

    def look(self):
        return {"place": np.array([self.time], np.float32), "side": np.int64(1)}

    def close(self):
        pass


def test_a_gymnasium_environment_is_a_team_of_one(w):
    game = game_of(Pole, limit=2)
    assert game.described("pole")["agents"] == [
        {"name": "agent_0", "obs": 3,
         "action": {"kind": "box", "heads": [], "width": 2, "low": -1, "high": 1}}]
    copy = game.new_copy()
    steps = {}
    for last in (0, 1):
        obs, present, _ = copy.reset(1)
        assert np.frombuffer(obs[0], "<f4").tolist() == [0, 0, 1] and list(present) == [1]
        copy.step([[0, 0]])
        steps[last] = copy.step([[0, last]])
    assert [(list(s[1]), s[3], list(s[4])) for s in steps.values()] == \
        [([0], [-1.0], [0]), ([0], [-1.0], [1])]


class Old(Walk):
    """A step in the old form, without separate termination and truncation."""

    def reset(self, seed=None):
        return super().reset(seed)[0]

    def step(self, actions):
        obs, rewards, ends, cuts, infos = super().step(actions)
        return obs, rewards, {a: ends[a] or cuts[a] for a in ends}, infos


class Nameless:
    def observation_space(self, agent):
        return spaces.Discrete(2)

    action_space = observation_space


class Nim:
    """As pettingzoo.AECEnv has a turn game (pettingzoo/classic/tictactoe): who takes the last
    of the matches wins. Agents that have ended take a turn, with None, before they go."""

    metadata = {"name": "nim_v0", "is_parallelizable": False}
    possible_agents = ["player_1", "player_2"]

    def observation_space(self, agent):
        return spaces.Dict({"observation": spaces.Box(0, 9, (2,)),
                            "action_mask": spaces.Box(0, 1, (2,), np.int8)})

    def action_space(self, agent):
        return spaces.Discrete(2)

    def agent_iter(self):
        pass

    def reset(self, seed=None, options=None):
        self.agents = self.possible_agents[:]
        self.matches, self.agent_selection, self.moves = 3, self.agents[0], []
        self.rewards = dict.fromkeys(self.agents, 0)
        self.terminations = dict.fromkeys(self.agents, False)
        self.truncations = dict.fromkeys(self.agents, False)
        self.infos = {a: {} for a in self.agents}

    def observe(self, agent):
        turn = agent == self.agent_selection
        return {"observation": np.array([self.matches, turn], np.float32),
                "action_mask": np.array([turn, turn and self.matches > 1], np.int8)}

    def step(self, action):
        me = self.agent_selection
        if self.terminations[me]:
            assert action is None
            self.agents.remove(me)
        else:
            self.moves.append((me, action))
            self.matches -= 1 + action
            if self.matches == 0:
                self.rewards = {a: 1 if a == me else -1 for a in self.agents}
                self.terminations = dict.fromkeys(self.agents, True)
        self.agent_selection = self.possible_agents[self.agent_selection == "player_1"]

    def close(self):
        pass


def test_in_a_turn_game_the_one_whose_turn_it_is_acts(w):
    game = game_of(Nim)
    assert game.described("nim")["masks"] and game.observations[0].width == 2
    copy = game.new_copy()
    for _ in range(2):
        obs, present, masks = copy.reset(0)
        # Nothing is allowed to the other one: brood then plays anything.
        assert masks == [bytes([1, 1]), bytes([0, 0])] and list(present) == [1, 1]
        obs, present, masks, reward, over = copy.step([[0, 1], [1, 0]])
        assert (list(present), reward, list(over)) == ([1, 1], [0, 0], [0, 0])
        assert np.frombuffer(b"".join(obs), "<f4").tolist() == [1, 0, 1, 1]
        assert masks == [bytes([0, 0]), bytes([1, 0])]
        obs, present, masks, reward, over = copy.step([[0, 1], [1, 0]])
        assert (list(present), reward, list(over)) == ([0, 0], [-1, 1], [1, 1])
        assert copy.env.env.moves == [("player_1", 1), ("player_2", 0)]


class Three(Nim):
    """Of three players, who takes two ends at once, and stays in `agents` until its next turn, as
    AEC has it; the others play on. After three rounds all are cut."""

    possible_agents = ["player_1", "player_2", "player_3"]

    def reset(self, seed=None, options=None):
        super().reset(seed)
        self.turns = 0

    def step(self, action):
        me, order = self.agent_selection, self.agents[:]
        self.rewards = dict.fromkeys(order, 0)
        if self.terminations[me] or self.truncations[me]:
            assert action is None
            self.agents.remove(me)
            del self.terminations[me], self.truncations[me]
        else:
            self.moves.append((me, action))
            self.rewards[me] = 1
            self.terminations[me] = action == 1
            self.turns += 1
        if self.turns == 6:
            self.truncations = dict.fromkeys(self.agents, True)
        self.agent_selection = order[(order.index(me) + 1) % len(order)]

    def observe(self, agent):
        assert agent in self.agents, agent
        return super().observe(agent)


def test_who_ends_in_its_own_turn_waits_for_the_next_one(w):
    copy = game_of(Three).new_copy()
    assert list(copy.reset(0)[1]) == [1, 1, 1]
    two, one = [0, 1], [1, 0]
    told = [copy.step([two, one, one])] + [copy.step([one] * 3) for _ in range(5)]
    assert [(list(t[1]), t[3], list(t[4])) for t in told] == [
        ([0, 1, 1], [1, 0, 0], [1, 0, 0]), ([0, 1, 1], [0, 1, 0], [0, 0, 0]),
        ([0, 1, 1], [0, 0, 1], [0, 0, 0]), ([0, 1, 1], [0, 1, 0], [0, 0, 0]),
        ([0, 1, 1], [0, 0, 1], [0, 0, 0]), ([0, 0, 0], [0, 1, 0], [0, 0, 0])], told
    assert [me for me, _ in copy.env.env.moves] == [f"player_{i}" for i in (1, 2, 3, 2, 3, 2)]
    assert not copy.env.env.agents and not copy.game.take_warnings()

    class InTurn(Three):
        metadata = {"is_parallelizable": True}
    copy = game_of(InTurn).new_copy()
    copy.reset(0)
    told = [copy.step([one, two, one]), copy.step([one] * 3), copy.step([one] * 3)]
    assert [(list(t[1]), t[3], list(t[4])) for t in told] == [
        ([1, 0, 1], [1, 1, 1], [0, 1, 0]), ([1, 0, 1], [1, 0, 1], [0, 0, 0]),
        ([0, 0, 0], [1, 0, 0], [0, 0, 0])], told
    assert [me for me, _ in copy.env.env.moves] == [f"player_{i}" for i in (1, 2, 3, 1, 3, 1)]


class Together(Nim):
    """As mpe2.simple_v3.env: all choose in their turn, then the world moves. Who took one
    ends; both get their choice as reward, at the end of the cycle."""

    metadata = {"is_parallelizable": True}

    def reset(self, seed=None, options=None):
        super().reset(seed)
        self.chosen = {}

    def step(self, action):
        me = self.agent_selection
        if self.terminations[me]:
            assert action is None
            self.agents.remove(me)
            del self.terminations[me]
        else:
            self.chosen[me] = action
        if len(self.chosen) == len(self.agents):
            self.moves.append(self.chosen)
            self.rewards, self.chosen = {a: 1 + x for a, x in self.chosen.items()}, {}
            self.terminations = {a: x == 2 for a, x in self.rewards.items()}
        else:
            self.rewards = dict.fromkeys(self.rewards, 0)
        if self.agents:
            others = [a for a in self.agents if a > me] or self.agents
            self.agent_selection = others[0]


def test_in_a_parallelizable_one_all_act_in_each_step(w):
    copy = game_of(Together).new_copy()
    copy.reset(0)
    told = [copy.step([[1, 0], [1, 0]]), copy.step([[0, 1], [1, 0]]),
            copy.step([[1, 0], [0, 1]])]
    assert [(list(t[1]), t[3], list(t[4])) for t in told] == \
        [([1, 1], [1, 1], [0, 0]), ([0, 1], [2, 1], [1, 0]), ([0, 0], [0, 2], [0, 1])], told
    assert copy.env.env.moves[2] == {"player_2": 1}


class Foraging:
    """As lbforaging.foraging:ForagingEnv has it: one value per player, one end for all."""

    action_space = spaces.Tuple([spaces.Discrete(3)] * 2)
    observation_space = spaces.Tuple([spaces.Box(-1, 9, (2,)), spaces.Box(-1, 9, (3,))])
    ends = False

    def reset(self, *, seed=None, options=None):
        self.seen = []
        return self.look(), {}

    def step(self, actions):
        assert isinstance(actions, tuple)
        self.seen.append(actions)
        return self.look(), [0.5, np.float64(1)], self.ends, len(self.seen) == 2, {}

    def look(self):
        return np.zeros(2, np.float32), np.ones(3, np.float32)


def test_tuples_of_spaces_are_a_team(w):
    game = game_of(Foraging)
    assert [(a["name"], a["obs"], a["action"]["heads"])
            for a in game.described("f")["agents"]] == \
        [("agent_0", 2, [3]), ("agent_1", 3, [3])]
    copy = game.new_copy()
    obs, present, _ = copy.reset(1)
    assert np.frombuffer(b"".join(obs), "<f4").tolist() == [0, 0, 1, 1, 1]
    steps = [copy.step([[0, 1, 0], [0, 0, 1]]) for _ in range(2)]
    assert [(list(s[1]), s[3], list(s[4])) for s in steps] == \
        [([1, 1], [0.5, 1.0], [0, 0]), ([0, 0], [0.5, 1.0], [0, 0])], steps
    assert copy.env.env.seen == [(1, 2)] * 2

    class Each(Foraging):
        ends = [True, False]
    copy = game_of(Each).new_copy()
    copy.reset(1)
    steps = [copy.step([[0, 1, 0], [0, 0, 1]]), copy.step([[1, 0, 0], [1, 0, 0]])]
    assert [(list(s[1]), list(s[4])) for s in steps] == [([0, 1], [1, 0]), ([0, 0], [0, 0])]
    assert copy.env.env.seen == [(1, 2), (1, 0)]

    class Few(Foraging):
        def reset(self, **more):
            return self.look()[:1], {}
    refused("1 observations, expected 2", game_of, Few)

    class One(Foraging):
        observation_space = spaces.Box(0, 1, (2,))
    assert game_of(One).described("one")["agents"] == [
        {"name": "agent_0", "obs": 2, "action": {"kind": "discrete", "heads": [3, 3], "width": 6}}]


def test_a_mask_may_be_beside_a_plain_space(w):
    """As in PettingZoo's tutorial on action masks."""
    class Plain(masked("observation")):
        def observation_space(self, agent):
            return spaces.Box(0, 9, (2,))
    game = game_of(Plain)
    assert game.masks and game.observations[0].width == 2
    obs, _, masks = game.new_copy().reset(7)
    assert np.frombuffer(obs[0], "<f4").tolist() == [0, 7] and masks[0] == bytes([1, 0])


def test_an_agent_without_an_observation_is_refused(w):
    class Unseen(Walk):
        blind_at = 0

        def look(self, agents):
            return super().look([a for a in agents if a != "long" or
                                 self.time != self.blind_at])
    copy = game_of(Unseen).new_copy()
    refused("long: it is in `agents`, but the reset gives no observation of it", copy.reset, 0)
    Unseen.blind_at = 1
    copy.reset(0)
    refused("long: it is in `agents`, but a step gives no observation of it",
            copy.step, [[1, 0]] * 3)
    Unseen.blind_at = 3
    copy.reset(0)
    for _ in range(3):
        copy.step([[1, 0]] * 3)


def test_who_has_ended_must_leave_while_others_play_on(w):
    class Kept(Walk):
        def step(self, actions):
            answer = super().step(actions)
            self.agents = self.possible_agents[:2]
            return answer
    copy = game_of(Kept).new_copy()
    copy.reset(0)
    copy.step([[1, 0]] * 3)
    refused("short: terminated, but still in `agents`, while others play on: let the "
            "environment remove it", copy.step, [[1, 0]] * 3)

    class AllAtOnce(Kept):
        def step(self, actions):
            obs, rewards, _, _, infos = super().step(actions)
            return obs, rewards, dict.fromkeys(obs, True), {}, infos
    copy = game_of(AllAtOnce).new_copy()
    copy.reset(0)
    assert list(copy.step([[1, 0]] * 3)[1]) == [0, 0, 0]


def test_an_end_of_all_ends_the_episode(w):
    class AtOnce(Walk):
        """As RLlib has it: `agents` may stay as it is."""

        def __init__(self, ends=(), cuts=()):
            super().__init__()
            self.ends, self.cuts = {"__all__": False, **dict(ends)}, dict(cuts)

        def step(self, actions):
            obs, rewards, *_ = super().step(actions)
            self.agents = self.possible_agents
            return {a: self.look(["long"])["long"] for a in self.agents}, \
                dict.fromkeys(self.agents, 1), self.ends, self.cuts, {}
    for ends, cuts, over in (({"__all__": True}, {}, [1, 1, 1]), ({}, {"__all__": True}, [0, 0, 0]),
                             ({"short": True}, {"__all__": True}, [1, 0, 0]),
                             ({"__all__": True}, {"long": True}, [1, 0, 1])):
        copy = game_of(AtOnce, ends=ends, cuts=cuts).new_copy()
        copy.reset(0)
        _, present, _, reward, told = copy.step([[1, 0]] * 3)
        assert (list(present), list(told), reward) == ([0, 0, 0], over, [1, 1, 1]), (ends, cuts)
        assert not copy.game.take_warnings()
    copy = game_of(AtOnce).new_copy()
    copy.reset(0)
    assert list(copy.step([[1, 0]] * 3)[1]) == [1, 1, 1]


def test_agents_that_are_not_possible_are_refused(w):
    says = "ghost: in `agents`, but not in possible_agents, which has all that may ever appear"

    class Haunted(Walk):
        def step(self, actions):
            answer = super().step(actions)
            self.agents = [*self.agents, "ghost"]
            return answer
    copy = game_of(Haunted).new_copy()
    copy.reset(0)
    refused(says, copy.step, [[1, 0]] * 3)

    class InTurn(Nim):
        def reset(self, seed=None, options=None):
            super().reset(seed)
            self.agents = [*self.agents, "ghost"]
    refused(says, game_of, InTurn)


def test_spaces_are_read_after_a_reset(w):
    class Unsure(Walk):
        width = 1

        def observation_space(self, agent):
            return spaces.Box(0, 9, (self.width,))

        def reset(self, seed=None, options=None):
            self.width = 2
            return super().reset(seed)
    game = game_of(Unsure)
    assert [o.width for o in game.observations] == [2, 2, 2]
    game.new_copy().reset(0)


def test_spaces_without_entries_are_refused(w):
    empty = spaces.Box(0, 1, (0,))
    refused("a: its observations have no entries (let a wrapper give one, such as 0)",
            observation_of, empty, "a")
    refused("a: its actions have no entries (let a wrapper give one that is ignored)",
            Action, empty, "a")
    assert observation_of(spaces.Tuple([empty, spaces.Discrete(2)]), "a").width == 2


def test_worlds_of_another_shape_are_refused(w):
    copy = game_of(Old).new_copy()
    assert list(copy.reset(1)[1]) == [1, 1, 1]
    refused("its step gives 4 values, expected 5, with termination and truncation apart: let "
            "a wrapper make it so", copy.step, [[1, 0]] * 3)
    refused("it has no possible_agents: all that may ever appear", game_of, Nameless)
    refused("it makes a dict, which is neither a PettingZoo nor a Gymnasium environment",
            game_of, dict)


# ---- finding the environment ----


def module(name, **attributes):
    found = types.ModuleType(name)
    vars(found).update(attributes)
    return found


def gymnasium():
    """As gymnasium.make: the name of what it is asked for."""
    class UnregisteredEnv(Exception):
        pass

    def make(name, **params):
        if "Nowhere" in name or name.startswith("mpe2"):
            raise UnregisteredEnv(f"Environment `{name}` doesn't exist.")
        return name, params
    return module("gymnasium", make=make, error=module("error", UnregisteredEnv=UnregisteredEnv))


def test_names_are_found(w):
    mpe2 = module("mpe2", __path__=[])
    spread = module("mpe2.simple_spread_v3", parallel_env=lambda **p: ("spread", p),
                    env=lambda **p: ("turns", p))
    nim = module("nim_v0", env=lambda **p: ("nim", p), raw_env=None)
    ale = module("ale_py", other=1, spread=types.SimpleNamespace(deep=spread))
    known = {"mpe2": mpe2, "mpe2.simple_spread_v3": spread, "gymnasium": gymnasium(),
             "ale_py": ale, "nim_v0": nim}
    file = w.write("own_env.py", "def parallel_env(**p): return 'own', p\nMine = parallel_env\n")
    with mock.patch.dict(sys.modules, known), mock.patch.object(sys, "path", sys.path[:]):
        for name, makes in (
                ("mpe2.simple_spread_v3", "spread"), ("mpe2.simple_spread_v3:env", "turns"),
                ("mpe2:simple_spread_v3", "spread"), ("mpe2:simple_spread_v3.env", "turns"),
                ("ale_py:spread.deep", "spread"), ("ale_py:spread.deep.env", "turns"),
                ("nim_v0", "nim"), (str(file), "own"), (f"{file}:Mine", "own"),
                ("CartPole-v1", "CartPole-v1"), ("ALE/Pong-v5", "ALE/Pong-v5"),
                ("gymnasium:CartPole-v1", "gymnasium:CartPole-v1"),
                ("ale_py:ALE/Pong-v5", "ale_py:ALE/Pong-v5"), ("Taxi", "Taxi")):
            assert bridge.find_maker(name)(n=3) == (makes, {"n": 3}), name
        refused("mpe2.simple_spread_v3 has no parallel", bridge.find_maker,
                "mpe2.simple_spread_v3:parallel")
        refused("mpe2 has no simple_spread_v9", bridge.find_maker, "mpe2:simple_spread_v9")
        refused("ale_py has no spread.flat", bridge.find_maker, "ale_py:spread.flat")
        refused("ale_py has other, but it is no function or class, and has no parallel_env or env",
                bridge.find_maker, "ale_py:other")
        refused(f"there is no file {w.path}/none.py", bridge.find_maker, f"{w.path}/none.py")
        refused("there is no Python module mpe2.simple_spread_v9, and gymnasium says: "
                "Environment `mpe2.simple_spread_v9` doesn't exist.",
                lambda: bridge.find_maker("mpe2.simple_spread_v9")())
    for name in ("mpe2.simple_spread_v3", "CartPole-v1"):
        refused(f"there is no Python module {name}, and no gymnasium to make it",
                bridge.find_maker, name)


def test_what_a_module_lacks_is_not_taken_for_its_absence(w):
    w.write("needs_more.py", "import surely_not_there\n")
    with mock.patch.object(sys, "path", [str(w.path)] + sys.path):
        try:
            bridge.find_maker("needs_more")
        except ModuleNotFoundError as e:
            assert e.name == "surely_not_there", e
        else:
            raise AssertionError("found")


def test_agents_have_names_that_brood_can_have(w):
    names = ["walker_0", 7, ("red", 1), "_", "", "-x", "\u65e5"]
    assert [bridge.name_of(n) for n in names] == \
        ["walker_0", "7", "agent__red___1_", "agent_", "agent", "agent-x", "agent_"]


def test_two_agents_that_would_have_one_name_are_refused(w):
    assert bridge.names_of(["a", "b", 7]) == ["a", "b", "7"]
    refused("its agents '\u00e4' and '\u00f6' would both be called agent_ here, where a name has "
            "A-Z, a-z, 0-9, _ . and - only: give them names that differ in these",
            bridge.names_of, ["\u00e4", "b", "\u00f6"])
    w.write("umlauts.py", UMLAUTS)
    file = w.write("umlauts.yaml", "env: {command: [python3, "
                   f"{harness.SOURCE}/scripts/pettingzoo_bridge.py, umlauts.py]}}\n")
    _, err = w.brood("check", file, code=2)
    assert err.count("\n") == 1 and "umlauts.yaml:1: env.command: " in err and \
        "'\u00e4' and '\u00f6' would both be called agent_ here" in err, err


def test_what_draws_is_told_so_in_place_of_the_users_own_mode(w):
    told = bridge.drawing(dict)
    assert told(size=3, render_mode="human") == {"size": 3, "render_mode": "rgb_array"}
    assert told(size=3) == {"size": 3, "render_mode": "rgb_array"}
    refused("it cannot be drawn: it takes no render_mode", bridge.drawing(lambda size: None))


# ---- messages ----


def play(w, environment, *requests):
    """The answers to requests (method, params) of a bridge for that."""
    pack, unpack = bridge.msgpack.packb, bridge.msgpack.unpackb
    frames = [pack([0, i, *r], use_bin_type=True) for i, r in enumerate(requests)]
    path = w.path / "requests"
    path.write_bytes(b"".join(len(f).to_bytes(4, "little") + f for f in frames))
    with open(path, "rb") as asked, open(w.path / "answers", "wb") as told, \
            mock.patch.object(bridge, "FD_IN", os.dup(asked.fileno())), \
            mock.patch.object(bridge, "FD_OUT", told.fileno()):
        server = bridge.Server(environment)
        with contextlib.redirect_stderr(io.StringIO()) as log:
            server.serve()
        server.input.close()
    data, answers = (w.path / "answers").read_bytes(), []
    while data:
        n = int.from_bytes(data[:4], "little")
        answers.append(unpack(data[4:4 + n], raw=False))
        data = data[4 + n:]
    assert answers[0] == [2, "hello", {"protocol": 1}]
    return answers[1:], log.getvalue()


def test_answers_are_agent_by_agent(w):
    u32, u64, f32 = (lambda *x, t=t: np.array(x, t).tobytes() for t in ("<u4", "<u8", "<f4"))
    asked = [("configure", {"copies": 3, "first": 6, "params": {}}),
             ("reset", {"copies": u32(0, 2), "seed": u64(4, 2**31 + 5)}),
             ("step", {"copies": u32(2, 0), "actions": f32(*[1, 0, 0, 1] * 3)}),
             ("step", {"copies": u32(1), "actions": f32(*[1, 0] * 3)}),
             ("reset", {"copies": b"", "seed": b""}), ("shutdown", {})]
    with mock.patch.dict(sys.modules, walks=module("walks", parallel_env=masked("infos"))):
        answers, log = play(w, "walks", *asked)
    (kind, number, error, reset), step = answers[1], answers[2][3]
    assert (kind, number, error) == (1, 1, None)
    assert reset.keys() == {"obs", "present", "allowed"}
    assert np.frombuffer(reset["obs"], "<f4").tolist() == [0, 4, 0, 5] * 3
    assert reset["allowed"] == bytes([1, 0] * 6) and reset["present"] == bytes([1] * 6)
    assert np.frombuffer(step["obs"], "<f4").tolist() == [1, 5, 1, 4] * 2 + [0, 5, 0, 4]
    assert np.frombuffer(step["reward"], "<f8").tolist() == [1, 1, 1, 1, 0, 0]
    assert step["present"] == bytes([1, 1, 1, 1, 0, 0])
    assert step["terminated"] == bytes([0, 0, 0, 0, 1, 1])
    # A copy that was not reset: one line for the user, more in the log.
    assert answers[3][2]["message"].startswith("copy 7: AttributeError: "), answers[3]
    assert log.startswith("Traceback ") and answers[3][3] is None
    assert answers[4] == [1, 4, None, dict.fromkeys(["obs", "present", "allowed"], b"")]
    assert answers[5] == [1, 5, None, {}]


BROKEN = """
class Broken:
    possible_agents = agents = ["a"]

    def observation_space(self, agent):
        import gymnasium_shaped
        return gymnasium_shaped.Box(0, 1, (1,))

    def action_space(self, agent):
        import gymnasium_shaped
        return gymnasium_shaped.Discrete(2)

    def reset(self, seed=None):
        return {"a": [0]}, {}

    def step(self, actions):
        return self.far({})

    def far(self, seen):
        return sorted([2, 1], key=lambda i: int("one\\ntwo"))

    def close(self):
        raise OSError("it is gone")
"""


def test_errors_are_one_line_with_their_place_and_the_log_has_all(w):
    file = w.write("broken.py", BROKEN)
    u32, u64, f32 = (lambda *x, t=t: np.array(x, t).tobytes() for t in ("<u4", "<u8", "<f4"))
    with mock.patch.object(sys, "path", sys.path[:]):
        answers, log = play(w, f"{file}:Broken",
                            ("configure", {"copies": 2, "first": 4, "params": {}}),
                            ("reset", {"copies": u32(1), "seed": u64(4)}),
                            ("step", {"copies": u32(1), "actions": f32(1, 0)}),
                            ("shutdown", {}), ("reset", {}))
    # It ends at the shutdown, whatever comes of that.
    assert [a[1] for a in answers] == [0, 1, 2, 3], answers
    assert answers[2][2]["message"] == \
        f"copy 5: {file}:20: ValueError: invalid literal for int() with base 10: 'one\\ntwo'"
    assert answers[3][2]["message"] == f"copy 5: {file}:23: OSError: it is gone", answers
    assert log.count("Traceback ") == 2 and "in far" in log, log


ODD_ERRORS = """
import sys
from broken import Broken


class Unsaid(Exception):
    def __str__(self):
        raise OSError("no text")


class Odd(Broken):
    def __init__(self, how):
        self.how = how

    def step(self, actions):
        if self.how == "exits":
            sys.exit("it is over")
        if self.how == "unsaid":
            raise Unsaid()
        raise ValueError("bad map caf\\udce9")
"""


def test_odd_errors_are_one_line_too(w):
    w.write("broken.py", BROKEN)
    file = w.write("odd_errors.py", ODD_ERRORS)
    u32, u64, f32 = (lambda *x, t=t: np.array(x, t).tobytes() for t in ("<u4", "<u8", "<f4"))
    with mock.patch.object(sys, "path", sys.path[:]):
        for how, says in (("exits", "17: SystemExit: it is over"),
                          ("unsaid", "19: Unsaid: its text raises OSError"),
                          ("other", "20: ValueError: bad map caf\\udce9")):
            answers, log = play(w, f"{file}:Odd",
                                ("configure", {"copies": 1, "first": 0, "params": {"how": how}}),
                                ("reset", {"copies": u32(0), "seed": u64(4)}),
                                ("step", {"copies": u32(0), "actions": f32(1, 0)}))
            assert answers[2][2] == {"code": bridge.ERR_AGENT, "message": f"copy 0: {file}:{says}"}
            assert log.startswith("Traceback "), log


if __name__ == "__main__":
    harness.main()
