"""Spaces with what the bridge reads of Gymnasium's, and without the time that NumPy takes to
import."""


class Box:
    def __init__(self, low, high, shape, dtype="float32"):
        self.low, self.high, self.shape, self.dtype = low, high, shape, dtype


class Discrete:
    def __init__(self, n):
        self.n, self.shape = n, ()


class MultiBinary:
    def __init__(self, n):
        self.n, self.shape = n, (n,)


class Dict:
    def __init__(self, **spaces):
        self.spaces = spaces
