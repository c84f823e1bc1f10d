"""Converts Gymnasium's spaces to brood's, for pettingzoo_bridge.py.

A space is recognised by its attributes, named as in gymnasium.spaces, not by its class, so
that spaces of other libraries work, too.
"""
import array
import math
import struct
import sys

MAX_HEADS = 8  # choices that one action makes
ONE = struct.pack("<f", 1.0)


class Refused(Exception):
    """The environment cannot be used; the message is one line."""


def flatten(value):
    """The numbers in nested sequences, in order."""
    if hasattr(value, "tolist"):
        value = value.tolist()
    if isinstance(value, (list, tuple)):
        return [x for part in value for x in flatten(part)]
    return [value]


def shape_of(value):
    """The shape, as in NumPy, of an array, a number, or nested sequences."""
    if hasattr(value, "shape"):
        return tuple(value.shape)
    if not isinstance(value, (list, tuple)):
        return ()
    return (len(value), *shape_of(value[0])) if value else (0,)


def kind_of(space):
    """The name of the kind of a space, as in gymnasium.spaces."""
    if hasattr(space, "nvec"):
        return "MultiDiscrete"
    if hasattr(space, "n"):
        return "MultiBinary" if tuple(getattr(space, "shape", None) or ()) else "Discrete"
    if hasattr(space, "low") and hasattr(space, "high"):
        return "Box"
    if hasattr(space, "spaces") and type(space).__name__ != "OneOf":
        return "Dict" if hasattr(space.spaces, "keys") else "Tuple"
    return type(space).__name__


def starts_of(space, n):
    """The smallest value of each of the n parts of a MultiDiscrete."""
    start = getattr(space, "start", None)
    return [0] * n if start is None else [int(x) for x in flatten(start)]


def one_hot(i, n):
    """The bytes of n float32, of which the i-th is 1 and the others 0."""
    return bytes(4 * i) + ONE + bytes(4 * (n - i - 1))


def is_u8(space):
    """Whether all values of the space are uint8: Boxes, and Dicts and Tuples of them."""
    if hasattr(space, "spaces"):
        parts = space.spaces.values() if hasattr(space.spaces, "values") else space.spaces
        return all(map(is_u8, parts))
    dtype = getattr(space, "dtype", None)
    return kind_of(space) == "Box" and getattr(dtype, "name", dtype) == "uint8"


def image_of(space):
    """[height, width, channels] of a Box that is an image: of two dimensions, or of three
    with the channels last; None if it is none."""
    shape = [int(n) for n in space.shape]
    if kind_of(space) != "Box" or len(shape) not in (2, 3) or 0 in shape:
        return None
    return shape if len(shape) == 3 else shape + [1]


class Bounds:
    """Of a Box whose `shape` entries begin at value `at` of an observation: a sequence of all
    lowest values, and one of all highest ones, float32 as the values are."""

    def __init__(self, what, shape, low, high, at=0):
        self.what, self.shape, self.low, self.high, self.at = what, shape, low, high, at

    def moved(self, by):
        return Bounds(self.what, self.shape, self.low, self.high, self.at + by)

    def with_bits(self):
        """For rows that have a bit behind them, and are zeros where it is 0 (Entities)."""
        rows, n = self.shape
        low, high = array.array("f"), array.array("f")
        for i in range(0, rows * n, n):
            low.extend([min(x, 0) for x in self.low[i:i + n]] + [0])
            high.extend([max(x, 0) for x in self.high[i:i + n]] + [1])
        return Bounds(self.what, (rows, n + 1), low, high, self.at)

    def find_outside(self, values):
        """Says where the first value is that is outside; None: all are within."""
        own = values[self.at:self.at + len(self.low)]
        for i, (x, low, high) in enumerate(zip(own, self.low, self.high)):
            if x < low or x > high:
                return f"{self.entry(i)} is {x:g}, the space has {low:g} to {high:g}"
        return None

    def entry(self, i):
        places = []
        for n in reversed(self.shape):
            i, place = divmod(i, n)
            places.insert(0, str(place))
        return "entry " + ", ".join(places) if places else "it"


def bounds_of(space, what, shape):
    """The Bounds of a Box; None: every value that can be sent is within."""
    try:
        low, high = (array.array("f", flatten(x)) for x in (space.low, space.high))
    except TypeError:  # a Box whose bounds are no numbers has none
        return None
    n, all_are = math.prod(shape), (0, 255) if is_u8(space) else (-math.inf, math.inf)
    low, high = (x * n if len(x) == 1 else x for x in (low, high))
    if max(low, default=-math.inf) <= all_are[0] and min(high, default=math.inf) >= all_are[1]:
        return None
    return Bounds(what, shape, low, high)


class Observation:
    """An observation space as `width` values, float32 or, if the space's are, uint8;
    encode(value) returns their `size` bytes. images: (first value, shape, uint8) of each of its
    images; image: the shape if the whole is one. bounds: of each Box that has some."""

    def __init__(self, space, what, u8=None):
        self.what = what
        self.u8 = is_u8(space) if u8 is None else u8
        self.images, self.image, self.bounds = [], None, []
        kind = kind_of(space)
        make = getattr(self, "make_" + kind.lower(), None)
        if make is None:
            raise Refused(f"{what}: observations of kind {kind} (Box, Discrete, "
                          "MultiDiscrete, MultiBinary, Dict and Tuple can be played: let a "
                          "wrapper make it one of these)")
        make(space)
        self.size = self.width * (1 if self.u8 else 4)
        self.described = {"obs": self.width}
        if self.u8:
            self.described["uint8"] = True
        if len(self.images) == 1:  # of several none is told from the numbers
            self.describe_image(*self.images[0])

    def describe_image(self, at, shape, u8):
        if math.prod(shape) == self.width:
            self.image = self.described["image"] = shape
        else:
            self.described["image_part"] = {"shape": shape, "at": at}
            if u8 and not self.u8:
                self.described["image_part"]["uint8"] = True

    def find_outside(self, data):
        """(the Box, the place) of a value of encode's bytes that is outside of its Box; None: all
        are within. Each Box is reported once."""
        values = memoryview(data).cast("B" if self.u8 else "f")
        for bounds in self.bounds:
            if where := bounds.find_outside(values):
                self.bounds.remove(bounds)
                return bounds.what, where
        return None

    def make_box(self, space):
        if image := image_of(space):
            self.images = [(0, image, is_u8(space))]
        shape = tuple(int(n) for n in space.shape)
        if kind_of(space) == "Box" and (bounds := bounds_of(space, self.what, shape)):
            self.bounds = [bounds]
        self.width = width = math.prod(shape)
        code, dtype = ("B", "u1") if self.u8 else ("f", "<f4")
        pack = struct.Struct(f"<{self.width}{code}").pack
        flat = len(shape) == 1 and width > 0

        def encode(value):
            """The two usual cases: an array of that type, or a list of numbers."""
            if type(value) is list:
                if flat and len(value) == width and type(value[0]) in (float, int):
                    try:
                        return pack(*value)
                    except (struct.error, OverflowError):
                        pass
            elif getattr(value, "dtype", None) == dtype and value.shape == shape and \
                    not hasattr(value, "filled"):
                return value.tobytes()
            return encode_any(value)

        def encode_any(value):
            self.check_shape(value, shape)
            if isinstance(value, memoryview) and value.format == code:
                return value.tobytes()
            self.check_type(value)
            if hasattr(value, "astype") and value.dtype != object:
                data = value.astype(dtype)
                if self.u8 and value.dtype != data.dtype and (data != value).any():
                    raise Refused(f"{self.what}: an observation with values that are no "
                                  "uint8, as the space says")
                return data.tobytes()
            try:
                return pack(*flatten(value))
            except OverflowError:  # to infinite numbers, as NumPy makes them
                return array.array("f", flatten(value)).tobytes()
            except struct.error:
                raise Refused(f"{self.what}: an observation {value!r:.80}, the space says "
                              f"shape {shape}") from None
        self.encode = encode

    def check_shape(self, value, shape):
        """Refuses another shape, even of the same size: the order would be different."""
        found = shape_of(value)
        if found != shape:
            raise Refused(f"{self.what}: an observation of shape {found}, the space says "
                          f"{shape}")

    def check_type(self, value):
        """Refuses what NumPy would convert with a loss: complex numbers, texts, masked entries."""
        kind = getattr(getattr(value, "dtype", None), "kind", "f")
        if kind not in "biufO" or hasattr(value, "filled"):
            told = "masked numbers" if hasattr(value, "filled") else value.dtype
            raise Refused(f"{self.what}: an observation of {told}, the space says numbers")

    def one_hot_of(self, value, n, start):
        try:
            i = int(value)
            if i == value and start <= i < start + n:
                return one_hot(i - start, n)
        except (TypeError, ValueError, OverflowError):
            pass
        raise Refused(f"{self.what}: an observation {value!s:.80}, the space has {start} to "
                      f"{start + n - 1}")

    def part_of(self, value, name):
        """The part of an observation of a Dict or Tuple."""
        try:
            return value[name]
        except (KeyError, IndexError, TypeError):
            raise Refused(f"{self.what}.{name}: missing in an observation, a "
                          f"{type(value).__name__}") from None

    def make_discrete(self, space):
        n, start = int(space.n), int(getattr(space, "start", 0))
        self.width = n
        self.encode = lambda value: self.one_hot_of(value, n, start)

    def make_multidiscrete(self, space):
        shape, sizes = shape_of(space.nvec), [int(n) for n in flatten(space.nvec)]
        starts = starts_of(space, len(sizes))
        self.width = sum(sizes)

        def encode(value):
            self.check_shape(value, shape)
            return b"".join(map(self.one_hot_of, flatten(value), sizes, starts))
        self.encode = encode

    def make_multibinary(self, space):
        self.make_box(space)

    def make_dict(self, space):
        self.make_parts(list(space.spaces), space.spaces)

    def make_tuple(self, space):
        self.make_parts(range(len(space.spaces)), space.spaces)

    def make_parts(self, names, spaces):
        parts = [(name, Observation(spaces[name], f"{self.what}.{name}", self.u8))
                 for name in names]
        self.width = 0
        for _, part in parts:
            self.images += [(self.width + at, *image) for at, *image in part.images]
            self.bounds += [bounds.moved(self.width) for bounds in part.bounds]
            self.width += part.width
        self.encode = lambda value: b"".join(
            [part.encode(self.part_of(value, name)) for name, part in parts])


class Entities(Observation):
    """A Dict that ends with entities (common/msg/obs_msg.h): the k rows of its Box `name`, each
    with 1 behind it, or zeros where `mask`, if it is given, is 0."""

    def __init__(self, space, what, name, mask=None):
        self.name, self.mask = name, mask
        super().__init__(space, what, u8=False)
        self.described["entities"] = [self.k, self.each // 4 + 1]

    def make_dict(self, space):
        rows = space.spaces[self.name]
        shape = tuple(int(n) for n in getattr(rows, "shape", None) or ())
        if kind_of(rows) != "Box" or len(shape) != 2 or 0 in shape:
            raise Refused(f"{self.what}.{self.name}: entities of shape {shape}, expected a Box "
                          "of shape (number of entities, numbers of each)")
        mask = space.spaces.get(self.mask)
        if self.mask is not None and shape_of(mask) != shape[:1]:
            raise Refused(f"{self.what}: no '{self.mask}' of shape {shape[:1]}, which says what "
                          f"'{self.name}' are there")
        self.k, self.each = shape[0], 4 * shape[1]
        super().make_dict(Without(space, self.name, self.mask))
        if self.width == 0:
            raise Refused(f"{self.what}: entities alone, expected numbers of the agent's own "
                          "beside them")
        seen = Observation(rows, f"{self.what}.{self.name}", False)
        own, rows = self.encode, seen.encode
        self.bounds += [b.with_bits().moved(self.width) for b in seen.bounds]
        self.width += self.k * (shape[1] + 1)
        self.encode = lambda value: own(value) + self.put_there(
            rows(self.part_of(value, self.name)),
            [1] * self.k if mask is None else self.part_of(value, self.mask))

    def put_there(self, rows, mask):
        self.check_shape(mask, (self.k,))
        return b"".join([rows[i * self.each:][:self.each] + ONE if there else bytes(self.each + 4)
                         for i, there in enumerate(flatten(mask))])


class Without:
    """A Dict without some of its spaces."""

    def __init__(self, space, *names):
        self.spaces = {n: s for n, s in space.spaces.items() if n not in names}


def entities_of(env):
    """The names in metadata["entities"] of an environment, or of what it wraps: of a Box in the
    Dicts of observations, and perhaps of its mask."""
    for e in (env, getattr(env, "env", None)):
        names = (getattr(e, "metadata", None) or {}).get("entities")
        if names:
            return [names] if isinstance(names, str) else list(names)[:2]
    return None


def observation_of(space, what, entities=None):
    """An agent's observation; an action mask beside it is not part of it. The values of
    another space than a Dict may be {"observation": ..., "action_mask": ...}, too. entities: as
    entities_of."""
    of_dict = kind_of(space) == "Dict"
    masked = of_dict and "action_mask" in space.spaces
    space = Without(space, "action_mask") if masked else space
    seen = Entities(space, what, *entities) if of_dict and entities and \
        entities[0] in space.spaces else Observation(space, what)
    if seen.width == 0:
        raise Refused(f"{what}: its observations have no entries (let a wrapper give one, "
                      "such as 0)")
    if not of_dict:
        plain = seen.encode
        seen.encode = lambda value: plain(value["observation"] if isinstance(value, dict) and
                                          "observation" in value else value)
    return seen


def is_team(env):
    """Whether the spaces of a Gymnasium environment are Tuples with a part per agent."""
    acts, sees = env.action_space, env.observation_space
    return kind_of(acts) == kind_of(sees) == "Tuple" and len(acts.spaces) == len(sees.spaces)


# ---- actions ----


def is_whole(dtype):
    numpy = sys.modules.get("numpy")
    return bool(dtype is int or numpy and dtype is not None and
                numpy.dtype(dtype).kind in "iu")


def shaper(space, width):
    """A function from `width` numbers to an element of the space: an array if NumPy is
    loaded, otherwise nested lists."""
    shape, dtype = getattr(space, "shape", None), getattr(space, "dtype", None)
    shape = (width,) if shape is None else tuple(shape)
    numpy = sys.modules.get("numpy")

    def nested(values):
        for n in reversed(shape[1:]):
            values = [values[i:i + n] for i in range(0, len(values), n)]
        return values if shape else values[0]
    return (lambda values: numpy.array(values, dtype).reshape(shape)) if numpy else nested


class Action:
    """An action space as `width` numbers, those of its `heads` first; decode(numbers) returns an
    element of it. scaled: numbers are in [-1, 1], whatever the bounds are."""

    def __init__(self, space, what, scaled=False):
        self.what, self.scaled, self.heads = what, scaled, []
        self.kind = kind_of(space)
        make = getattr(self, "make_" + self.kind.lower(), None)
        if make is None:
            raise Refused(f"{what}: actions of kind {self.kind} (Box, Discrete, "
                          "MultiDiscrete, MultiBinary, Dict and Tuple can be played: let a "
                          "wrapper make it one of these)")
        make(space)
        if self.width == 0:
            raise Refused(f"{what}: its actions have no entries (let a wrapper give one that "
                          "is ignored)")
        self.choices = sum(self.heads)
        self.any = bytes([1]) * self.width  # the mask if the environment gives none

    def set_heads(self, heads):
        if len(heads) > MAX_HEADS:
            raise Refused(f"{self.what}: an action of {len(heads)} parts, brood has at most "
                          f"{MAX_HEADS}")
        self.width, self.heads = sum(heads), heads
        self.described = {"kind": "discrete", "heads": heads, "width": self.width}

    @staticmethod
    def choose(x, heads):
        choices, at = [], 0
        for n in heads:
            head = x[at:at + n]
            choices.append(head.index(max(head)))
            at += n
        return choices

    def make_discrete(self, space):
        start = int(getattr(space, "start", 0))
        self.set_heads([int(space.n)])
        self.decode = lambda x: x.index(max(x)) + start

    def make_multidiscrete(self, space):
        heads = [int(n) for n in flatten(space.nvec)]
        starts = starts_of(space, len(heads))
        shaped = shaper(space, len(heads))
        self.set_heads(heads)
        self.decode = lambda x: shaped(
            [c + s for c, s in zip(self.choose(x, heads), starts)])

    def make_multibinary(self, space):
        heads = [2] * math.prod(int(n) for n in space.shape)
        shaped = shaper(space, len(heads))
        self.set_heads(heads)
        self.decode = lambda x: shaped(self.choose(x, heads))

    def make_box(self, space):
        low, high = flatten(space.low), flatten(space.high)
        self.width = math.prod(int(n) for n in space.shape)
        low = low * self.width if len(low) == 1 else low
        high = high * self.width if len(high) == 1 else high
        scaled = self.scaled or len(set(low)) > 1 or len(set(high)) > 1
        if scaled and not all(map(math.isfinite, low + high)):
            raise Refused(f"{self.what}: a Box of actions of which some have bounds (let a "
                          "wrapper give all of them, or none)")
        parts = [(l, h, (h + l) / 2, (h - l) / 2) for l, h in zip(low, high)]
        whole = is_whole(getattr(space, "dtype", None))
        shaped = shaper(space, self.width)
        self.described = {"kind": "box", "heads": [], "width": self.width,
                          "low": -1.0 if scaled else float(min(low, default=-1)),
                          "high": 1.0 if scaled else float(max(high, default=1))}

        def decode(x):
            if scaled:
                x = [m + h * v for v, (_, _, m, h) in zip(x, parts)]
            if whole:
                x = map(round, x)
            return shaped([min(max(v, l), h) for v, (l, h, _, _) in zip(x, parts)])
        self.decode = decode

    def make_dict(self, space):
        self.make_parts(list(space.spaces), space.spaces)
        names, decode = list(space.spaces), self.decode
        self.decode = lambda x: dict(zip(names, decode(x)))

    def make_tuple(self, space):
        self.make_parts(range(len(space.spaces)), space.spaces)

    def make_parts(self, names, spaces):
        """The heads of all parts, then the numbers of all."""
        self.parts, bounds = {}, set()
        for scaled in sorted({self.scaled, True}):
            self.parts = {n: Action(spaces[n], f"{self.what}.{n}", scaled) for n in names}
            described = [p.described for p in self.parts.values()]
            bounds = {(d["low"], d["high"]) for d in described if "low" in d}
            if len(bounds) <= 1:
                break
        parts = list(self.parts.values())
        self.set_heads([n for p in parts for n in p.heads])
        self.width, choices, places = sum(p.width for p in parts), self.width, []
        head, number = 0, choices
        for p in parts:
            last, end = head + p.choices, number + p.width - p.choices
            places.append((p.decode, head, last, number, end))
            head, number = last, end
        if bounds:
            (low, high), = bounds
            self.described = {"kind": "hybrid" if choices else "box", "heads": self.heads,
                              "width": self.width, "low": low, "high": high}
        self.decode = lambda x: tuple([decode(x[a:b] + x[c:d]) for decode, a, b, c, d in places])

    def mask(self, value):
        """The bytes of an environment's mask, which has an entry for each choice of each
        head, as a vector or nested sequences. Also in the form that Gymnasium's sample()
        takes: of a MultiBinary, per bit, 0 or 1 for the only allowed value, 2 for both; of a
        Dict or Tuple, one for each part, or None."""
        if value is None:
            return self.any
        numbers = bytes([1]) * (self.width - self.choices)
        if self.kind in ("Dict", "Tuple") and self.is_by_part(value):
            each = [value.get(n) if isinstance(value, dict) else value[n] for n in self.parts]
            masks = [p.mask(m if p.choices else None)[:p.choices]
                     for p, m in zip(self.parts.values(), each)]
            return b"".join(masks) + numbers
        mask = flatten(value)
        if self.kind == "MultiBinary" and 2 * len(mask) == self.width:
            mask = [x for bit in self.whole(mask, b"\0\1\2") for x in (bit != 1, bit != 0)]
        if len(mask) != self.choices:
            raise Refused(f"{self.what}: an action mask of {len(mask)}, expected "
                          f"{self.choices}")
        return self.whole(mask, b"\0\1") + numbers

    def whole(self, mask, allowed):
        """The bytes of a mask. Refuses other values than those, such as of a mask that is to be
        added to logits: -1e9 would be taken for allowed."""
        try:
            ret = bytes(mask)
        except (TypeError, ValueError):  # not all are integers
            if odd := [x for x in mask if x not in (*allowed,)]:
                raise Refused(f"{self.what}: an action mask with {odd[0]!r:.40}, expected 1 for "
                              "what is allowed, and 0") from None
            ret = bytes([int(x) for x in mask])
        if odd := ret.translate(None, allowed):
            raise Refused(f"{self.what}: an action mask with {odd[0]}, expected 1 for what is "
                          "allowed, and 0")
        return ret

    def is_by_part(self, value):
        return isinstance(value, dict) or (isinstance(value, (list, tuple)) and
                                           len(value) == len(self.parts) and
                                           any(m is None or shape_of(m) for m in value))
