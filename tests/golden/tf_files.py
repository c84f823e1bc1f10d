"""TensorFlow's files without TensorFlow: a reader of checkpoints (one file of data, as
tf.train.Saver writes them), and runs of run_meta."""
import os
import pathlib
import struct
import sys

try:
    import numpy as np
except ImportError as e:
    print(f"skipped: {e}")
    sys.exit(77)

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
from run_meta import run_meta  # for the tests that import this

DTYPES = {1: np.float32, 3: np.int32, 9: np.int64, 10: np.bool_}


def varint(b, at):
    value = shift = 0
    while True:
        value |= (b[at] & 127) << shift
        shift += 7
        at += 1
        if b[at - 1] < 128:
            return value, at


def fields(b):
    """(number, value) of a protocol buffer message."""
    at = 0
    while at < len(b):
        tag, at = varint(b, at)
        if tag & 7 == 0:
            value, at = varint(b, at)
        elif tag & 7 == 2:
            n, at = varint(b, at)
            value, at = b[at:at + n], at + n
        else:
            n = 4 if tag & 7 == 5 else 8
            value, at = b[at:at + n], at + n
        yield tag >> 3, value


def block_entries(b, at, size):
    b, key = b[at:at + size], b""
    end = len(b) - 4 - 4 * struct.unpack("<I", b[-4:])[0]
    at = 0
    while at < end:
        shared, at = varint(b, at)
        n_key, at = varint(b, at)
        n_value, at = varint(b, at)
        key = key[:shared] + b[at:at + n_key]
        yield key, b[at + n_key:at + n_key + n_value]
        at += n_key + n_value


def read_checkpoint(prefix):
    """{name: array}"""
    with open(prefix + ".index", "rb") as f:
        index = f.read()
    with open(prefix + ".data-00000-of-00001", "rb") as f:
        data = f.read()
    at = len(index) - 48
    _, at = varint(index, at)
    _, at = varint(index, at)
    place, at = varint(index, at)
    size, at = varint(index, at)
    tensors = {}
    for _, handle in block_entries(index, place, size):
        place_of_block, at = varint(handle, 0)
        for key, value in block_entries(index, place_of_block, varint(handle, at)[0]):
            if not key:
                continue
            entry = dict(fields(value))
            shape = [dict(fields(d)).get(1, 0) for n, d in fields(entry[2]) if n == 2]
            begin = entry.get(4, 0)
            raw = data[begin:begin + entry.get(5, 0)]
            tensors[key.decode()] = np.frombuffer(raw, DTYPES[entry[1]]).reshape(shape)
    return tensors


def shared_checkpoints():
    """The folder of real checkpoints; ends the test as skipped where there is none."""
    folder = os.path.join(os.environ.get("BROOD_SHARED_DIR", ""), "data/tf-checkpoints")
    if not os.path.isdir(folder):
        print("skipped: TensorFlow's own checkpoints are not here")
        sys.exit(77)
    return folder
