"""Execute TensorFlow's graphs in NumPy, from a `.meta` file and its checkpoint.

    graph = Graph(prefix)                       PREFIX.meta, .index and .data
    graph.run(feeds, fetches, targets, draw)    [arrays]; variables change

It implements the operations in the agents' graphs, as TensorFlow's manual defines them, in
float32. Reads of a variable come before its writes unless a control input orders them
differently. draw(operation's name, n) returns numbers in [0, 1) for random operations.
"""
import struct

import numpy as np

import tf_files

VARIABLES = ("VariableV2", "Variable", "VarHandleOp")


def all_of(message, number):
    return [value for n, value in tf_files.fields(message) if n == number]


def signed(value):
    return value - (1 << 64) if value >> 63 else value


def packed_varints(chunks):
    found = []
    for chunk in chunks:
        if isinstance(chunk, int):
            found.append(signed(chunk))
            continue
        at = 0
        while at < len(chunk):
            value, at = tf_files.varint(chunk, at)
            found.append(signed(value))
    return found


def shape_of(message):
    return [signed(dict(tf_files.fields(d)).get(1, 0)) for d in all_of(message, 2)]


def tensor_of(message):
    """A TensorProto as an array; None if no computation here needs its type."""
    f = dict(tf_files.fields(message))
    dtype = tf_files.DTYPES.get(f[1])
    shape = shape_of(f.get(2, b""))
    if dtype is None:
        return None
    if f.get(4):
        return np.frombuffer(f[4], dtype).reshape(shape)
    if dtype is np.float32:
        values = np.frombuffer(b"".join(all_of(message, 5)), dtype)
    else:
        values = packed_varints(all_of(message, {np.int32: 7, np.int64: 10,
                                                 np.bool_: 11}[dtype]))
    n = int(np.prod(shape))
    values = list(values) + [values[-1] if len(values) else 0] * (n - len(values))
    return np.array(values[:n], dtype).reshape(shape)


class Node:
    def __init__(self, message):
        self.name = all_of(message, 1)[0].decode()
        self.op = all_of(message, 2)[0].decode()
        names = [i.decode() for i in all_of(message, 3)]
        self.control = [n[1:] for n in names if n.startswith("^")]
        self.inputs = [(n.split(":")[0], int((n.split(":") + ["0"])[1]))
                       for n in names if not n.startswith("^")]
        self.attrs = {}
        for entry in all_of(message, 5):
            f = dict(tf_files.fields(entry))
            self.attrs[f[1].decode()] = dict(tf_files.fields(f.get(2, b"")))

    def flag(self, name):
        return bool(self.attrs.get(name, {}).get(5, 0))

    def number(self, name):
        return signed(self.attrs.get(name, {}).get(3, 0))

    def real(self, name):
        return struct.unpack("<f", self.attrs[name][4])[0]

    def dtype(self, name):
        return tf_files.DTYPES[self.attrs[name][6]]


def reduced(function):
    def reduce(node, x, axes):
        return function(x, axis=tuple(int(a) for a in np.ravel(axes)),
                        keepdims=node.flag("keep_dims"))
    return reduce


def mat_mul(node, a, b):
    return (a.T if node.flag("transpose_a") else a) @ (b.T if node.flag("transpose_b") else b)


def softmax(_, x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def broadcast_gradient_args(_, a, b):
    """For each operand, the axes over which to sum its gradient after broadcasting."""
    rank = max(len(a), len(b))
    a, b = ([1] * (rank - len(s)) + list(s) for s in (a, b))
    return tuple(np.array([i for i in range(rank) if s[i] == 1 and (o[i] != 1 or s == o)],
                          np.int32) for s, o in ((a, b), (b, a)))


def concat_offset(_, axis, *shapes):
    offsets, at = [], 0
    for s in shapes:
        o = np.zeros(len(s), np.int32)
        o[int(axis)] = at
        at += int(s[int(axis)])
        offsets.append(o)
    return tuple(offsets)


def dynamic_stitch(_, *xs):
    """Arguments: arrays of indices, then as many arrays of rows, to place at these indices."""
    half = len(xs) // 2
    rows = {int(i): row for at, values in zip(xs[:half], xs[half:])
            for i, row in zip(np.ravel(at), np.reshape(values, (np.size(at), -1)))}
    return np.stack([rows[i] for i in range(len(rows))]).reshape(
        (len(rows), *np.shape(xs[half])[np.ndim(xs[0]):]))


def sliced(_, x, begin, size):
    return x[tuple(slice(int(b), int(b) + int(s) if s >= 0 else None)
                   for b, s in zip(begin, size))]


OPS = {
    "Add": lambda n, a, b: a + b,
    "AddN": lambda n, *xs: sum(xs[1:], xs[0]),
    "BiasAdd": lambda n, x, b: x + b,
    "BiasAddGrad": lambda n, d: d.sum(tuple(range(d.ndim - 1))),
    "BroadcastGradientArgs": broadcast_gradient_args,
    "Cast": lambda n, x: x.astype(n.dtype("DstT")),
    "ConcatOffset": concat_offset,
    "ConcatV2": lambda n, *xs: np.concatenate(xs[:-1], int(xs[-1])),
    "Const": lambda n: tensor_of(n.attrs["value"][8]),
    "DynamicStitch": dynamic_stitch,
    "Elu": lambda n, x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "EluGrad": lambda n, d, y: np.where(y > 0, d, d * (y + 1)),
    "Exp": lambda n, x: np.exp(x),
    "Fill": lambda n, shape, x: np.full(shape, x),
    "FloorDiv": lambda n, a, b: a // b,
    "FloorMod": lambda n, a, b: a % b,
    "Greater": lambda n, a, b: a > b,
    "GreaterEqual": lambda n, a, b: a >= b,
    "Identity": lambda n, x: x,
    "L2Loss": lambda n, x: (x * x).sum() / np.float32(2),
    "LeakyRelu": lambda n, x: np.where(x > 0, x, np.float32(n.real("alpha")) * x),
    "LeakyReluGrad": lambda n, d, x: np.where(x > 0, d, np.float32(n.real("alpha")) * d),
    "Log": lambda n, x: np.log(x),
    "MatMul": mat_mul,
    "Maximum": lambda n, a, b: np.maximum(a, b),
    "Mean": reduced(np.mean),
    "Minimum": lambda n, a, b: np.minimum(a, b),
    "Mul": lambda n, a, b: a * b,
    "Neg": lambda n, x: -x,
    "NoOp": lambda n: None,
    "OnesLike": lambda n, x: np.ones_like(x),
    "Pack": lambda n, *xs: np.stack(xs, n.number("axis")),
    "PlaceholderWithDefault": lambda n, x: x,
    "Prod": reduced(np.prod),
    "Range": lambda n, first, end, step: np.arange(first, end, step, np.int32),
    "RealDiv": lambda n, a, b: a / b,
    "Relu": lambda n, x: np.maximum(x, 0),
    "ReluGrad": lambda n, d, x: np.where(x > 0, d, 0),
    "Reshape": lambda n, x, shape: np.reshape(x, shape),
    "Rsqrt": lambda n, x: 1 / np.sqrt(x),
    "RsqrtGrad": lambda n, y, d: -d * y ** 3 / 2,
    "Select": lambda n, c, a, b: np.where(c, a, b),
    "Shape": lambda n, x: np.array(np.shape(x), np.int32),
    "ShapeN": lambda n, *xs: tuple(np.array(np.shape(x), np.int32) for x in xs),
    "Size": lambda n, x: np.array(np.size(x), np.int32),
    "Slice": sliced,
    "Sigmoid": lambda n, x: 1 / (1 + np.exp(-x)),
    "SigmoidGrad": lambda n, y, d: d * y * (1 - y),
    "Softmax": softmax,
    "Split": lambda n, axis, x: tuple(np.split(x, n.number("num_split"), int(axis))),
    "SplitV": lambda n, x, sizes, axis: tuple(np.split(x, np.cumsum(sizes)[:-1], int(axis))),
    "Sqrt": lambda n, x: np.sqrt(x),
    "Square": lambda n, x: x * x,
    "SquaredDifference": lambda n, a, b: (a - b) ** 2,
    "StopGradient": lambda n, x: x,
    "Sub": lambda n, a, b: a - b,
    "Sum": reduced(np.sum),
    "Tanh": lambda n, x: np.tanh(x),
    "TanhGrad": lambda n, y, d: d * (1 - y * y),
    "Tile": lambda n, x, times: np.tile(x, times),
    "ZerosLike": lambda n, x: np.zeros_like(x),
}


# ---- operations that write: (values of the inputs; None for variables) -> new values ----

def apply_adam(_, var, m, v, b1_power, b2_power, rate, b1, b2, epsilon, grad):
    rate = rate * np.sqrt(1 - b2_power) / (1 - b1_power)
    m = m + (grad - m) * (1 - b1)
    v = v + (grad * grad - v) * (1 - b2)
    return var - rate * m / (np.sqrt(v) + epsilon), m, v


def apply_rms_prop(_, var, ms, mom, rate, rho, momentum, epsilon, grad):
    ms = ms + (grad * grad - ms) * (1 - rho)
    mom = mom * momentum + rate * grad / np.sqrt(ms + epsilon)
    return var - mom, ms, mom


def apply_momentum(node, var, accumulated, rate, grad, momentum):
    accumulated = accumulated * momentum + grad
    if node.flag("use_nesterov"):
        return var - grad * rate - accumulated * momentum * rate, accumulated
    return var - accumulated * rate, accumulated


WRITES = {
    "ApplyAdam": apply_adam,
    "ApplyGradientDescent": lambda n, var, rate, grad: (var - rate * grad,),
    "ApplyMomentum": apply_momentum,
    "ApplyRMSProp": apply_rms_prop,
    "Assign": lambda n, var, value: (value,),
    "AssignAdd": lambda n, var, value: (var + value,),
}


class Graph:
    def __init__(self, prefix):
        with open(prefix + ".meta", "rb") as f:
            meta = f.read()
        self.nodes = {}
        for message in all_of(all_of(meta, 2)[0], 1):
            node = Node(message)
            self.nodes[node.name] = node
        self.variables = tf_files.read_checkpoint(prefix)
        self.collections = {}
        for entry in all_of(meta, 4):
            f = dict(tf_files.fields(entry))
            lists = [items for _, items in tf_files.fields(f[2])]
            self.collections[f[1].decode()] = all_of(lists[0], 1) if lists else []

    def constant(self, name):
        return tensor_of(self.nodes[name].attrs["value"][8])

    def run(self, feeds=None, fetches=(), targets=(), draw=None):
        run = Run(self, feeds or {}, draw)
        names = [n.split(":")[0] for n in (*fetches, *targets)]
        run.read_variables(names)
        values = [run.output(n.split(":")[0], int((n.split(":") + ["0"])[1]))
                  for n in fetches]
        for name in targets:
            run.value(name)
        return values


class Run:
    """One run, which executes every operation at most once."""

    def __init__(self, graph, feeds, draw):
        self.graph, self.draw = graph, draw
        self.values = {}
        self.fed = {name.split(":")[0]: np.asarray(value) for name, value in feeds.items()}

    def read_variables(self, names):
        """Evaluates what depends on no write, before the first write."""
        seen, reads = set(), []
        while names:
            name = names.pop()
            if name in seen or name in self.fed:
                continue
            seen.add(name)
            node = self.graph.nodes[name]
            if node.op == "Identity" and not node.control and \
                    self.graph.nodes[node.inputs[0][0]].op in VARIABLES:
                reads.append(name)
            names.extend([n for n, _ in node.inputs] + node.control)
        for name in reads:
            self.value(name)

    def output(self, name, index):
        value = self.value(name)
        return value[index] if isinstance(value, tuple) else value

    def value(self, name):
        if name in self.fed:
            return self.fed[name]
        if name not in self.values:
            self.values[name] = self.compute(self.graph.nodes[name])
        return self.values[name]

    def compute(self, node):
        for name in node.control:
            self.value(name)
        if node.op in VARIABLES:
            return None  # a reference: readers use the variable's current value
        inputs = [self.input(name, index) for name, index in node.inputs]
        if node.op in WRITES:
            return self.write(node, inputs)
        if node.op == "RandomUniform":
            n = int(np.prod(inputs[0]))
            return self.draw(node.name, n).reshape(inputs[0])
        if node.op == "Placeholder":
            raise KeyError(f"{node.name} is not fed")
        with np.errstate(divide="ignore"):
            return OPS[node.op](node, *inputs)

    def input(self, name, index):
        if name not in self.fed and self.graph.nodes[name].op in VARIABLES:
            return self.graph.variables[name]
        return self.output(name, index)

    def write(self, node, inputs):
        results = WRITES[node.op](node, *inputs)
        for (name, _), value in zip(node.inputs, results):
            self.graph.variables[name] = np.asarray(value, np.float32)
        return results[0]
