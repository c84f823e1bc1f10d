"""What the files cases_<family>.py are written with: a case is a function that builds a small
graph with TensorFlow and returns the tensors to fetch.

    from cases import case, feed, normal, tf

    @case
    def add_broadcasts():
        return tf.add(feed(normal(2, 3)), feed(normal(3)))

Its float outputs are also differentiated by its float feeds. The files are read without
TensorFlow, too: `tf` imports it when a case is built. DIALECT = "tf1" in a file: the graph is
written as TensorFlow 1 would (dialects.py).
"""
import importlib
import pathlib
import sys
import zlib

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent


class TensorFlow:
    def __getattr__(self, name):
        import tensorflow
        return getattr(tensorflow.compat.v1, name)


tf = TensorFlow()


class Case:
    """tolerance: relative, None for the type's (golden_file.py). floor: an absolute error that is
    accepted besides, None for the tolerance times the largest value, but at most 1. gradients
    False: they are not asked for. functional: conditions and loops as functions (control flow
    v2).

    fails: a part of brood's message where TensorFlow fails, too. refused: the same where brood
    alone refuses a run; gradient_refused: where it cannot build gradients."""

    def __init__(self, name, build, *, tolerance=None, floor=None, gradients=True,
                 functional=False, fails=None, refused=None, gradient_refused=None):
        self.name, self.build = name, build
        self.tolerance, self.floor, self.gradients = tolerance, floor, gradients
        self.functional, self.fails = functional, fails
        self.refused, self.gradient_refused = refused, gradient_refused


def case(build=None, *, name=None, **options):
    """Adds a function to the cases of its file; `name` is for functions made in a loop."""
    def add(build):
        cases = sys.modules[build.__module__].__dict__.setdefault("CASES", {})
        c = Case(name or build.__name__, build, **options)
        assert c.name not in cases, f"two cases {c.name}"
        cases[c.name] = c
        return build
    return add if build is None else add(build)


def families():
    return sorted(p.stem[len("cases_"):] for p in HERE.glob("cases_*.py"))


def load(family):
    """(its cases, its dialect)"""
    module = importlib.import_module(f"cases_{family}")
    return list(module.CASES.values()), getattr(module, "DIALECT", "tf2")


# ---- for the functions ----

class Built:
    """What the case that is being built has asked for."""

    def __init__(self, name):
        self.random = np.random.RandomState(zlib.crc32(name.encode()))
        self.feeds, self.steps = {}, []


now = None


def begin(name):
    global now
    now = Built(name)
    return now


def feed(value, shape=None, dtype=None):
    """A placeholder that gets this value. shape: what the graph knows of the value's shape, as
    [None, 3]; "unknown": nothing."""
    value = np.asarray(value, dtype)
    known = None if shape == "unknown" else value.shape if shape is None else shape
    dtype = tf.string if value.dtype.kind in "OSU" else tf.as_dtype(value.dtype)
    x = tf.placeholder(dtype, known, name="x")
    now.feeds[x] = value
    return x


def steps(op, count=1):
    """Has an operation run `count` times after the fetches; several in their order. The values
    of all variables are compared then."""
    now.steps.append((op, count))


def normal(*shape, dtype="float32"):
    """Random numbers that depend on the case's name alone."""
    return np.asarray(now.random.normal(size=shape), dtype)


def uniform(low, high, *shape, dtype="float32"):
    return np.asarray(now.random.uniform(low, high, shape), dtype)


def integers(low, high, *shape, dtype="int32"):
    """low <= integers < high"""
    return np.asarray(now.random.randint(low, high, shape), dtype)
