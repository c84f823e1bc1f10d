"""The messages between the supervisor and an agent, as bytes (common/msg/protocol.h).

Frame     a 4-byte little-endian length, then that many bytes of msgpack: a request
          [0, id, method, params], a response [1, id, error, result], or a notification
          [2, method, params].
Tensor    [dtype, [dims], bin], little-endian and row-major; dtype is a number of
          TensorFlow's enum DataType.
Errors    Error("protocol") for bytes that are none of these: what arrives can be anything.
"""
from __future__ import annotations

import math
import os
from typing import Any, Callable, Mapping

import msgpack  # type: ignore[import-untyped,unused-ignore]
import numpy as np

from .arrays import Array
from .errors import Error, one_line

Message = list[Any]
Body = Mapping[str, Any]

VERSION = 1

# Descriptors that an agent inherits.
FD_IN, FD_OUT, FD_BLOCK, FD_LOG, FD_SHARED = 3, 4, 5, 6, 7
FD_REQUEST = 8  # a program only: a memfd that holds the first request

# Exit codes: whether starting the process again can help.
EXIT_DONE, EXIT_NO_RESPAWN, EXIT_TRY_LATER = 0, 100, 111

FRAME_MAX_BYTES = 64 << 20
ROW_NONE = np.uint64(2**64 - 1)  # in a stage's rows: there is no row
MODES = ("explore", "sample", "greedy")  # of `act`, by their numbers

REQUEST, RESPONSE, NOTIFICATION = 0, 1, 2

DTYPES = {"float32": 1, "float64": 2, "int32": 3, "uint8": 4, "int16": 5, "int8": 6,
          "int64": 9, "bool": 10, "uint16": 17, "float16": 19, "uint32": 22, "uint64": 23}
BFLOAT16 = 14  # which NumPy lacks: its bits are handled as uint16
NUMPY_TYPES = {number: np.dtype(name) for name, number in DTYPES.items()}
NUMPY_TYPES[BFLOAT16] = np.dtype("uint16")


def pack_tensor(x: Array, dtype: int = 0) -> list[Any]:
    """dtype: 0 for that of the array."""
    return [dtype or DTYPES[x.dtype.name], list(x.shape), x.tobytes()]


def unpack_tensor(value: Any, name: str = "tensor") -> tuple[int, Array]:
    """The number of its type, and its values: read-only, in the message's memory."""
    try:
        number, dims, data = value
        kind = NUMPY_TYPES[number]
        shape = [int(d) for d in dims]
        if min(shape, default=0) < 0 or len(data) != kind.itemsize * math.prod(shape):
            raise ValueError
        return int(number), np.frombuffer(data, kind).reshape(shape)
    except (ValueError, KeyError, TypeError):
        raise Error(f"{name}: no tensor", code="protocol") from None


def tensor(body: Body, name: str, dtype: str, rank: int) -> Array:
    """The tensor of that name in a request."""
    number, x = unpack_tensor(body.get(name), name)
    if number != DTYPES[dtype] or x.ndim != rank:
        raise Error(f"{name}: {dtype} with {rank} dimensions expected, found {x.dtype} "
                    f"{list(x.shape)}", code="shape")
    return x


def whole(body: Body, name: str, default: int = 0) -> int:
    """The number of that name in a request: 0 .. 2^64 - 1."""
    value = body.get(name, default)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**64:
        raise Error(f"{name}: a whole number expected, found {value!r}", code="protocol")
    return value


def mapping(body: Body, name: str) -> Body:
    """The map of that name in a request; an empty one if there is none."""
    value = body.get(name, {})
    if not isinstance(value, Mapping):
        raise Error(f"{name}: a map expected", code="protocol")
    return value


def pack(message: Message) -> bytes:
    """A frame."""
    data: bytes = msgpack.packb(message)
    if len(data) > FRAME_MAX_BYTES:
        raise Error(f"an answer of {len(data)} bytes; {FRAME_MAX_BYTES} is the most",
                    code="limit")
    return len(data).to_bytes(4, "little") + data


def unpack(data: bytes) -> Message:
    """The message of a frame, without its length."""
    try:
        message = msgpack.unpackb(data, raw=False, strict_map_key=True)
    except Exception as e:  # of many kinds, also of its own C code
        raise Error(f"no msgpack: {one_line(str(e), 80)}", code="protocol") from None
    lengths = {REQUEST: 4, RESPONSE: 4, NOTIFICATION: 3}
    if not isinstance(message, list) or not message or isinstance(message[0], bool) or \
            lengths.get(message[0] if isinstance(message[0], int) else -1) != len(message):
        raise Error("no request, response or notification", code="protocol")
    kind = message[0]
    if kind == RESPONSE:
        return message
    method, body = message[-2], message[-1]
    if not isinstance(method, str) or not isinstance(body, dict) or \
            not isinstance(message[1], int) and kind == REQUEST:
        raise Error("a method's name and its params expected", code="protocol")
    return message


def error_map(e: Error) -> dict[str, Any]:
    """An error as a response has it."""
    found: dict[str, Any] = {"code": e.code, "message": one_line(str(e))}
    if e.key:
        found["key"] = e.key
    return found


class FrameReader:
    """Splits what a descriptor gives into frames. read: returns up to n bytes of it, b"" at
    its end."""

    def __init__(self, read: Callable[[int], bytes]):
        self._read = read
        self._buffer = bytearray()

    @classmethod
    def of(cls, fd: int) -> FrameReader:
        return cls(lambda n: os.read(fd, n))

    def next(self) -> Message | None:
        """The next message; None at the end. Error("protocol") if it ends within a frame, or
        is none."""
        head = self._take(4)
        if head is None:
            return None
        size = int.from_bytes(head, "little")
        if not 0 < size <= FRAME_MAX_BYTES:
            raise Error(f"a frame of {size} bytes", code="protocol")
        data = self._take(size)
        if data is None:
            raise Error("the messages end within a frame", code="protocol")
        return unpack(data)

    def _take(self, n: int) -> bytes | None:
        while len(self._buffer) < n:
            more = self._read(max(1 << 16, n - len(self._buffer)))
            if not more:
                if self._buffer:
                    raise Error("the messages end within a frame", code="protocol")
                return None
            self._buffer += more
        data = bytes(self._buffer[:n])
        del self._buffer[:n]
        return data


def write_all(fd: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(fd, view):]
