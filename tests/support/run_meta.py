"""Runs of a MetaGraph in a session of this build, by the program of run_meta.c."""
import subprocess

import numpy as np

# Types of TensorFlow that NumPy lacks are shown as their bits.
BITS = {"bfloat16": np.uint16}


class Failed(Exception):
    """The session's error, in one line."""


def dtype_of(array):
    return "string" if array.dtype.kind in "OSU" else array.dtype.name


def as_bytes(element):
    return element.encode() if isinstance(element, str) else bytes(element)


def encode(array):
    array = np.asarray(array)
    dims = ",".join(map(str, array.shape)) or "-"
    if dtype_of(array) == "string":
        text = ",".join(as_bytes(e).hex() for e in array.reshape(-1).tolist())
    else:
        text = array.tobytes().hex()
    return f"{dtype_of(array)} {dims} x{text}"


def decode(text):
    dtype, dims, data = text.split(" ")
    shape = [] if dims == "-" else [int(d) for d in dims.split(",")]
    if dtype != "string":
        return np.frombuffer(bytes.fromhex(data[1:]), BITS.get(dtype, dtype)).reshape(shape)
    ret = np.empty(int(np.prod(shape)), object)
    for i, e in zip(range(ret.size), data[1:].split(",")):
        ret[i] = bytes.fromhex(e)
    return ret.reshape(shape)


def lines_of(run, number):
    for name, value in run.get("feeds", {}).items():
        yield f"feed {name} {encode(value)}"
    for name in run.get("fetches", []):
        yield f"fetch {name}"
    for name in run.get("targets", []):
        yield f"target {name}"
    for name, fed in run.get("of", {}).items():
        yield f"of {name} {fed}"
    for name in run.get("by", []):
        yield f"by {name}"
    yield f"run {run.get('counter', number)}"


def answers(program, path, runs, save_as=None, native=False):
    """What became of each run, in one session: a list of arrays, None where there is no
    gradient; or Failed.

    A run: {"feeds": {name: array}, "fetches": [name], "targets": [name], "of": {y: the fed
    tensor that is its gradient}, "by": [x], "counter": n}, all of which may be left out. The
    gradients by each x come after the fetches. path: a prefix, whose variables are restored,
    or a file that ends in ".meta". native: OpenBLAS computes large products. subprocess.CalledProcessError: the program failed.
    """
    text = "".join(line + "\n" for i, run in enumerate(runs) for line in lines_of(run, i))
    command = [program] + ["--native"] * native + [path] + ([save_as] if save_as else [])
    out = subprocess.run(command, check=True, input=text, stdout=subprocess.PIPE, text=True)
    ret, values = [], []
    for line in out.stdout.splitlines():
        word, _, rest = line.partition(" ")
        if word == "tensor":
            values.append(decode(rest))
        elif word == "none":
            values.append(None)
        else:
            ret.append(values if word == "done" else Failed(rest))
            values = []
    return ret


def run_meta(program, path, runs, save_as=None, native=False):
    """The same, but the first failed run is raised."""
    ret = answers(program, path, runs, save_as, native)
    for answer in ret:
        if isinstance(answer, Failed):
            raise answer
    return ret
