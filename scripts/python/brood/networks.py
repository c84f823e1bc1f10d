"""TensorFlow's files, and the network of a policy in them, computed in NumPy.

Source    common/ckpt/bundle.h, common/ckpt/table.h; TensorFlow's protocol buffers.
Errors    ValueError, KeyError, IndexError, struct.error and OSError for what cannot be read: the
          caller names the file.
"""
from __future__ import annotations

import pathlib
import struct
from typing import Any, Callable, Iterator, Mapping, Sequence

import numpy as np

from .arrays import Array
from .client import DTYPES, tensor_name
from .errors import Error

# ---- TensorFlow's files ----


def _varint(data: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = data[at]
        value |= (byte & 0x7f) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


def _fields(message: bytes) -> dict[int, list[Any]]:
    """A protocol buffer's values by their numbers: whole numbers, or bytes."""
    found: dict[int, list[Any]] = {}
    at = 0
    while at < len(message):
        tag, at = _varint(message, at)
        kind = tag & 7
        value: Any
        if kind == 0:
            value, at = _varint(message, at)
        else:
            size = {1: 8, 5: 4}.get(kind)
            if size is None:
                size, at = _varint(message, at)
            value, at = message[at:at + size], at + size
        found.setdefault(tag >> 3, []).append(value)
    return found


def shape_of(message: bytes) -> list[int]:
    sizes = [_fields(d).get(1, [0])[0] for d in _fields(message).get(2, [])]
    return [n - (1 << 64) if n >> 63 else n for n in sizes]


def _crc_table() -> list[int]:
    table = []
    for i in range(256):
        for _ in range(8):
            i = i >> 1 ^ (0x82f63b78 if i & 1 else 0)
        table.append(i)
    return table


_CRC = _crc_table()


def _masked_crc32c(data: bytes) -> int:
    crc = 0xffffffff
    for byte in data:
        crc = crc >> 8 ^ _CRC[(crc ^ byte) & 255]
    crc ^= 0xffffffff
    return ((crc >> 15 | crc << 17) + 0xa282ead8) & 0xffffffff


class Bundle:
    """The tensors of a checkpoint (common/ckpt/bundle.h), read when they are asked for."""

    def __init__(self, prefix: pathlib.Path):
        self.prefix = prefix
        index = pathlib.Path(f"{prefix}.index").read_bytes()
        at = _varint(index, _varint(index, len(index) - 48)[1])[1]  # behind the metaindex's
        self.entries: dict[str, dict[int, list[Any]]] = {}
        for _, handle in self._block(index, at, index):
            for key, value in self._block(handle, 0, index):
                self.entries[key.decode()] = _fields(value)
        self.shards = self.entries.pop("")[1][0]

    @staticmethod
    def _block(handle: bytes, at: int, index: bytes) -> Iterator[tuple[bytes, bytes]]:
        """The entries of the block of a handle (common/ckpt/table.h)."""
        begin, at = _varint(handle, at)
        size, _ = _varint(handle, at)
        block = index[begin:begin + size]
        kind, crc = struct.unpack_from("<BI", index, begin + size)
        if kind != 0 or crc != _masked_crc32c(index[begin:begin + size + 1]):
            raise ValueError("a damaged or compressed index")
        n_restarts, = struct.unpack("<I", block[-4:])
        key, at = b"", 0
        while at < size - 4 - 4 * n_restarts:
            shared, at = _varint(block, at)
            own, at = _varint(block, at)
            length, at = _varint(block, at)
            key = key[:shared] + block[at:at + own]
            at += own + length
            yield key, block[at - length:at]

    def read(self, name: str) -> Array:
        entry = self.entries[name]
        dtype, begin, size, shard = (entry.get(k, [0])[0] for k in (1, 4, 5, 3))
        file = f"{self.prefix}.data-{shard:05d}-of-{self.shards:05d}"
        with open(file, "rb") as f:
            f.seek(begin)
            data = f.read(size)
        if len(data) != size or _masked_crc32c(data) != struct.unpack("<I", entry[6][0])[0]:
            raise ValueError(f"{name} is damaged")
        return np.frombuffer(data, DTYPES[dtype]).reshape(shape_of(entry.get(2, [b""])[0]))


class Node:
    """An operation of a graph: op, inputs, attributes (still encoded)."""

    def __init__(self, f: Mapping[int, list[Any]]):
        self.op = f[2][0].decode()
        self.inputs = [tensor_name(i.decode()) for i in f.get(3, []) if i[:1] != b"^"]
        self.attrs = {}
        for entry in map(_fields, f.get(5, [])):
            self.attrs[entry[1][0].decode()] = _fields(entry[2][0])

    def attr(self, name: str, number: int, default: Any) -> Any:
        return self.attrs.get(name, {}).get(number, [default])[0]


def _constant(node: Node) -> Array:
    f = _fields(node.attr("value", 8, b""))
    dtype, shape = np.dtype(DTYPES[f[1][0]]), shape_of(f.get(2, [b""])[0])
    if f.get(4):
        return np.frombuffer(f[4][0], dtype).reshape(shape)
    packed = b"".join(x for x in f.get({1: 5, 3: 7, 9: 10}[f[1][0]], [b""])
                      if isinstance(x, bytes))
    values: list[Any] = [x for x in f.get(7, []) + f.get(10, []) if isinstance(x, int)]
    if dtype.kind == "f":
        values = list(np.frombuffer(packed, dtype))
    else:
        at = 0
        while at < len(packed):
            x, at = _varint(packed, at)
            values.append(x)
        values = [x - (1 << 64) if x >> 63 else x for x in values]
    # The last value stands for all that follow.
    n = int(np.prod(shape))
    return np.array((values + values[-1:] * n)[:n] or [0] * n, dtype).reshape(shape)


def _convolve(node: Node, x: Array, w: Array) -> Array:
    strides = _fields(node.attr("strides", 1, b"")).get(3, [b"\1\1\1\1"])
    step = list(strides[0] if isinstance(strides[0], bytes) else strides)[1]
    if node.attr("padding", 2, b"") != b"VALID" or step > 127:
        raise Error("a convolution that is padded is not computed here")
    windows = np.lib.stride_tricks.sliding_window_view(x, w.shape[:2], (1, 2))
    found: Array = np.einsum("bijchw,hwcf->bijf", windows[:, ::step, ::step], w, optimize=True)
    return found


def _softmax(_: Node, x: Array) -> Array:
    e = np.exp(x - x.max(-1, keepdims=True))
    found: Array = e / e.sum(-1, keepdims=True)
    return found


def _reduced(over: Callable[..., Array]) -> Callable[..., Array]:
    """Of an operation with axes, such as Sum."""
    return lambda n, x, axes: over(x, tuple(np.ravel(axes)), keepdims=bool(
        n.attr("keep_dims", 5, 0)))


_OPS: dict[str, Callable[..., Any]] = {
    "Add": lambda n, a, b: a + b,
    "BiasAdd": lambda n, a, b: a + b,
    "ConcatV2": lambda n, *xs: np.concatenate(xs[:-1], int(xs[-1])),
    "Const": _constant,
    "Conv2D": _convolve,
    "Elu": lambda n, x: np.where(x > 0, x, np.expm1(np.minimum(x, 0))),
    "Exp": lambda n, x: np.exp(x),
    "Identity": lambda n, x: x,
    "LeakyRelu": lambda n, x: np.where(
        x > 0, x, x * np.float32(struct.unpack("<f", n.attr("alpha", 4, b""))[0])),
    "MatMul": lambda n, a, b: np.matmul(a.T if n.attr("transpose_a", 5, 0) else a,
                                        b.T if n.attr("transpose_b", 5, 0) else b),
    "Maximum": lambda n, a, b: np.maximum(a, b),
    "Max": _reduced(np.max),
    "Mean": _reduced(np.mean),
    "Minimum": lambda n, a, b: np.minimum(a, b),
    "Mul": lambda n, a, b: a * b,
    "Neg": lambda n, x: -x,
    "RealDiv": lambda n, a, b: a / b,
    "Relu": lambda n, x: np.maximum(x, 0),
    "Reshape": lambda n, x, shape: x.reshape(shape),
    "Rsqrt": lambda n, x: 1 / np.sqrt(x),
    "Sigmoid": lambda n, x: 1 / (1 + np.exp(-x)),
    "Slice": lambda n, x, begin, size: x[tuple(
        slice(b, None if s < 0 else b + s) for b, s in zip(begin, size))],
    "Softmax": _softmax,
    "Split": lambda n, axis, x: np.split(x, n.attr("num_split", 3, 1), int(axis)),
    "SplitV": lambda n, x, sizes, axis: np.split(x, np.cumsum(sizes)[:-1], int(axis)),
    "Square": lambda n, x: x * x,
    "StopGradient": lambda n, x: x,
    "Sub": lambda n, a, b: a - b,
    "Sum": _reduced(np.sum),
    "Tanh": lambda n, x: np.tanh(x),
    "Transpose": lambda n, x, order: x.transpose(order),
}


class Network:
    """A part of a checkpoint's graph: run({name: array}) computes tensors from fed ones."""

    def __init__(self, prefix: pathlib.Path):
        meta = _fields(pathlib.Path(f"{prefix}.meta").read_bytes())
        self.nodes = {f[1][0].decode(): f for f in map(_fields, _fields(meta[2][0])[1])}
        self.collections = {}
        for entry in map(_fields, meta.get(4, [])):
            lists = list(_fields(entry[2][0]).values())
            items = _fields(lists[0][0]).get(1, []) if lists else []
            self.collections[entry[1][0].decode()] = items
        self.bundle = Bundle(prefix)
        self.known: dict[str, Array] = {}  # what depends on nothing that is fed
        self.steps: dict[str, Node] = {}  # in the order of computing

    def node(self, tensor: str) -> Node:
        return Node(self.nodes[tensor.split(":")[0]])

    def named(self, collection: str) -> str | None:
        items = self.collections.get(collection)
        return items[0].decode() if items else None

    def plan(self, fed: Sequence[str], wanted: Sequence[str]) -> None:
        self.fed = {x.split(":")[0] for x in fed}
        self.wanted = list(wanted)
        for name in wanted:
            self._add(name.split(":")[0])

    def _add(self, name: str) -> bool:
        """Whether the operation depends on something fed."""
        if name in self.known:
            return False
        if name in self.fed or name in self.steps:
            return True
        node = self.node(name)
        if node.op in ("VariableV2", "Variable"):
            self.known[name] = self.bundle.read(name)
            return False
        if node.op not in _OPS:
            raise Error(f"its policy has the operation {name} ({node.op}), which is not "
                        "computed here")
        depends = [self._add(i.split(":")[0]) for i in node.inputs]
        if not any(depends):
            self.known[name] = self._compute(node, self.known)
            return False
        self.steps[name] = node
        return True

    @staticmethod
    def _compute(node: Node, values: Mapping[str, Any]) -> Any:
        inputs = []
        for tensor in node.inputs:
            name, _, index = tensor.partition(":")
            x = values[name]
            inputs.append(x[int(index)] if isinstance(x, list) else x)
        return _OPS[node.op](node, *inputs)

    def run(self, feeds: Mapping[str, Array]) -> list[Array]:
        values: dict[str, Any] = dict(self.known)
        values.update((k.split(":")[0], v) for k, v in feeds.items())
        with np.errstate(over="ignore"):
            for name, node in self.steps.items():
                values[name] = self._compute(node, values)
        return [values[name.split(":")[0]] for name in self.wanted]
