"""Stand-ins for gymnasium.spaces with attributes of the same names and types
(gymnasium/spaces/*.py, 1.x), so that tests do not need the library."""
import numpy as np


class Space:
    def __init__(self, shape=None, dtype=None):
        self._shape = None if shape is None else tuple(shape)
        self.dtype = None if dtype is None else np.dtype(dtype)

    @property
    def shape(self):
        return self._shape


class Box(Space):
    def __init__(self, low, high, shape=None, dtype=np.float32):
        shape = np.shape(low) if shape is None else shape
        super().__init__(shape, dtype)
        self.low = np.full(shape, low, dtype)
        self.high = np.full(shape, high, dtype)

    def contains(self, x):
        return (np.can_cast(x.dtype, self.dtype) and x.shape == self.shape and
                bool(np.all(x >= self.low) and np.all(x <= self.high)))


class Discrete(Space):
    def __init__(self, n, start=0, dtype=np.int64):
        super().__init__((), dtype)
        self.n, self.start = self.dtype.type(n), self.dtype.type(start)

    def contains(self, x):
        return isinstance(x, int) and bool(self.start <= x < self.start + self.n)


class MultiDiscrete(Space):
    def __init__(self, nvec, dtype=np.int64, start=None):
        self.nvec = np.array(nvec, dtype)
        super().__init__(self.nvec.shape, dtype)
        self.start = np.zeros(self.nvec.shape, dtype) if start is None else \
            np.array(start, dtype)

    def contains(self, x):
        return (x.shape == self.shape and np.can_cast(x.dtype, self.dtype) and
                bool(np.all(self.start <= x) and np.all(x - self.start < self.nvec)))


class MultiBinary(Space):
    def __init__(self, n):
        self.n = n if isinstance(n, int) else tuple(n)
        super().__init__((n,) if isinstance(n, int) else n, np.int8)

    def contains(self, x):
        return x.shape == self.shape and bool(np.all((x == 0) | (x == 1)))


class Dict(Space):
    def __init__(self, spaces):
        super().__init__()
        self.spaces = dict(spaces)


class Tuple(Space):
    def __init__(self, spaces):
        super().__init__()
        self.spaces = tuple(spaces)


class OneOf(Tuple):
    """Has the attributes of a Tuple, but values of another form."""


class Text(Space):
    def __init__(self, max_length):
        super().__init__(None, str)
        self.min_length, self.max_length = 1, max_length


class Graph(Space):
    def __init__(self, node_space, edge_space):
        super().__init__()
        self.node_space, self.edge_space = node_space, edge_space


class Sequence(Space):
    def __init__(self, space):
        super().__init__()
        self.feature_space, self.stack = space, False
