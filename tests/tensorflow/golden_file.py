"""The files of golden/, and the comparison with their values.

<family>.meta.gz is the MetaGraph of all cases of a family, each in its scope. <family>.json has
the version of TensorFlow in its first line, then one case a line: what to feed, to run and to
fetch, and TensorFlow's values.
"""
import gzip
import json
import pathlib

import numpy as np

FOLDER = pathlib.Path(__file__).resolve().parent / "golden"
TOLERANCE = {"float16": 2e-3, "float32": 1e-6, "float64": 1e-13, "complex64": 1e-6,
             "complex128": 1e-13}


def pack(array):
    """[dtype, shape, values], for JSON; floats in as few digits as their type needs."""
    array = np.asarray(array, object if isinstance(array, bytes) else None)  # with its zeros
    flat = array.reshape(-1)
    if array.dtype.kind in "OSU":
        values = [(e.encode() if isinstance(e, str) else bytes(e)).decode("latin-1")
                  for e in flat.tolist()]
        return ["string", list(array.shape), values]
    if array.dtype.kind == "c":
        flat = flat.view(flat.real.dtype)
    values = [float(str(v)) for v in flat] if flat.dtype.kind == "f" else flat.tolist()
    return [array.dtype.name, list(array.shape), values]


def unpack(packed):
    dtype, shape, values = packed
    if dtype == "string":
        ret = np.empty(len(values), object)
        ret[:] = [v.encode("latin-1") for v in values]
        return ret.reshape(shape)
    if dtype.startswith("complex"):
        real = np.float32 if dtype == "complex64" else np.float64
        return np.array(values, real).view(dtype).reshape(shape)
    return np.array(values, dtype).reshape(shape)


def write(family, meta, version, cases):
    (FOLDER / f"{family}.meta.gz").write_bytes(gzip.compress(meta, 9, mtime=0))
    lines = [{"tensorflow": version}, *cases]
    (FOLDER / f"{family}.json").write_text("".join(
        json.dumps(line, separators=(",", ":")) + "\n" for line in lines))


def read(family):
    """(TensorFlow's version, {name: case})"""
    with open(FOLDER / f"{family}.json", encoding="utf-8") as f:
        head, *cases = map(json.loads, f)
    return head["tensorflow"], {c["name"]: c for c in cases}


def read_meta(family):
    return gzip.decompress((FOLDER / f"{family}.meta.gz").read_bytes())


def difference(case, got, want):
    """Why `got` is not TensorFlow's value; None if it is."""
    if got is None or want is None:
        return None if got is want else "there is no gradient" if got is None else \
            "there is a gradient, where TensorFlow has none"
    kind = want.dtype.kind
    if kind == "O":
        got = got.astype(object)
    if (got.dtype, got.shape) != (want.dtype, want.shape):
        return f"{got.dtype} {list(got.shape)}, not {want.dtype} {list(want.shape)}"
    if kind not in "fc":
        equal = got == want
    else:
        equal = (got == want) | (np.isnan(got) & np.isnan(want)) | close(case, got, want)
    if np.all(equal):
        return None
    at = tuple(int(i) for i in np.argwhere(~np.asarray(equal))[0])
    return f"{list(at) if at else ''} {got[at]!r}, not {want[at]!r}".strip()


def error_of(got, want):
    """The largest error of a float tensor, as a share of its largest element."""
    finite = np.isfinite(want)
    scale = np.abs(want[finite]).max(initial=0)
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(np.complex128) - want)[finite].max(initial=0)
    return float(error / scale) if scale > 0 else 0.0


def close(case, got, want):
    tolerance = TOLERANCE[want.dtype.name] if case.tolerance is None else case.tolerance
    finite = np.abs(want[np.isfinite(want)])
    floor = case.floor
    if floor is None:
        floor = tolerance * min(1.0, finite.max(initial=0))
    with np.errstate(all="ignore"):
        error = np.abs(got.astype(np.complex128) - want)
        return np.isfinite(want) & (error <= np.maximum(tolerance * np.abs(want), floor))
