"""Checkpoints of other programs and other machines, named by a `checkpoint` file: every
command works on them or says in one line why not."""
import json
import re
import shutil
import struct

import harness
import numpy as np
from test_inspect import checkpoints

MAGIC = 0xdb4775248b80fb57
HEADER = bytes.fromhex("08011a020801")  # of a bundle of one shard
MISSING_BLOCK = bytes.fromhex("0000000001000000")
ELSEWHERE = "/home/some one/my runs"  # which is not on this machine


def varint(n):
    return bytes([n]) if n < 128 else bytes([n & 127 | 128]) + varint(n >> 7)


def snappy(data):
    """Snappy data of literals only, which any decoder reads."""
    pieces = [data[i:i + 60] for i in range(0, len(data), 60)]
    return varint(len(data)) + b"".join(bytes([len(p) - 1 << 2]) + p for p in pieces)


def block(entries):
    body, restarts = b"", []
    for key, value in entries:
        restarts.append(len(body))
        body += varint(0) + varint(len(key)) + varint(len(value)) + key + value
    return body + struct.pack(f"<{len(restarts) + 1}I", *restarts, len(restarts))


def table(entries, compressed=False):
    """A table file of one block (common/ckpt/table.h)."""
    data = b""

    def add(content, kind):
        nonlocal data
        handle = varint(len(data)) + varint(len(content))
        content += bytes([kind])
        data += content + harness.masked_crc32c(content)
        return handle

    entries = sorted(entries)
    content = block(entries)
    handle = add(snappy(content), 1) if compressed else add(content, 0)
    handles = add(MISSING_BLOCK, 0) + add(block([(entries[-1][0] + b"\x7f", handle)]), 0)
    return data + handles.ljust(40, b"\0") + struct.pack("<Q", MAGIC)


def linear(suffix=""):
    """A small model of TensorFlow 1.8, or one of its files."""
    folder = checkpoints() / "21-codlife-tensorflow-example" / "my_net"
    return folder / f"save_net.ckpt{suffix}"


def folder(w, name, newest):
    """A folder whose `checkpoint` file names a checkpoint of another machine."""
    path = w.path / name
    path.mkdir()
    lines = [f'{key}: "{ELSEWHERE}/{newest}"\n' for key in
             ("model_checkpoint_path", "all_model_checkpoint_paths")]
    (path / "checkpoint").write_text("".join(lines))
    return path


def entry(data, dtype=1):
    """A vector of floats at the beginning of the data file."""
    n = len(data) // 4
    return (b"\x08" + varint(dtype) + b"\x12\x04\x12\x02\x08" + varint(n) + b"\x28" + varint(len(data)) +
            b"\x35" + harness.masked_crc32c(data))


def refused(w, path, says, commands=("inspect", "export", "graph")):
    for command in commands:
        out, err = w.brood(command, path, code=1)
        assert out == "" and says in err and len(err.splitlines()) == 1, (command, err)


def shown_without_values(w, path, says):
    """That model's graph is listed; nothing is computed without its values."""
    assert w.brood("graph", path, "--nodes")[0] == w.brood("graph", linear(), "--nodes")[0]
    out, _ = w.brood("graph", path)
    assert re.search(f"^values       none: .*{says}", out, re.M), out
    fact, = harness.json_lines(w.brood("graph", path, "--json")[0])
    assert not fact["restored"] and says in fact["no_values"], fact
    out, err = w.brood("graph", path, "--fetch", "weights", code=1)
    assert out == "" and says in err and len(err.splitlines()) == 1, err


# ---- V1 checkpoints, by the description of tensor_slice_writer.cc ----

# dtype -> number of TensorProto's field of values, how they are packed
V1_VALUES = {np.float32: (1, 5, "f"), np.float64: (2, 6, "d"), np.int32: (3, 7, None),
             np.int64: (9, 10, None), np.bool_: (10, 11, None)}


def field(number, data):
    return varint(number << 3 | 2) + varint(len(data)) + data


def number(tag, n):
    return varint(tag << 3) + varint(n & (1 << 64) - 1)


def ordered(n):
    """A small signed number as keys have it."""
    return bytes([0x80 ^ (n & 0xff)])


def v1_slice(extents):
    return b"".join(field(1, b"" if e is None else number(1, e[0]) + number(2, e[1]))
                    for e in extents)


def v1_key(name, extents):
    numbers = b"".join(ordered(0) + ordered(-1) if e is None else ordered(e[0]) + ordered(e[1])
                       for e in extents)
    n = len(extents)
    return b"\0" + name.encode() + b"\0\1" + (bytes([1, n]) if n else b"\0") + numbers


def v1_file(slices, compressed=False):
    """slices: name, whole shape, extents, values."""
    meta, entries = b"", []
    for name, shape, extents, values in slices:
        dtype, at, packing = V1_VALUES[values.dtype.type]
        dims = b"".join(field(2, number(1, d)) for d in shape)
        meta += field(1, field(1, name.encode()) + field(2, dims) + number(3, dtype) +
                      field(4, v1_slice(extents)))
        flat = values.ravel().tolist()
        data = struct.pack(f"<{len(flat)}{packing}", *flat) if packing else \
            b"".join(varint(int(v) & (1 << 64) - 1) for v in flat)
        entries.append((v1_key(name, extents),
                        field(2, field(1, name.encode()) + field(2, v1_slice(extents)) +
                              field(3, field(at, data)))))
    return table([(b"", field(1, meta)), *entries], compressed)


def whole(name, values):
    return name, values.shape, [None] * values.ndim, values


def values_of(w, prefix):
    facts = harness.json_lines(w.brood("inspect", prefix, "--json", "--values")[0])
    return {f["name"]: np.array(f["values"], f["dtype"]).reshape(f["shape"]) for f in facts}


def assert_equal(found, want):
    assert found.keys() == want.keys(), (found.keys(), want.keys())
    for name in want:
        assert found[name].dtype == want[name].dtype and (found[name] == want[name]).all(), name


def test_v1_checkpoints_are_read(w):
    want = {"w": np.arange(12, dtype=np.float32).reshape(3, 4) / 7, "step": np.array(-3),
            "flags": np.array([True, False]), "d": np.array([1e300, -2.0]),
            "i": np.array([[7], [-8]], np.int32), "z": np.zeros((0, 2), np.float32)}
    for compressed in (False, True):
        path = folder(w, f"v1 {compressed}", "old model-7")
        data = v1_file([whole(name, v) for name, v in want.items()], compressed)
        (path / "old model-7").write_bytes(data)
        assert_equal(values_of(w, path), want)
        out = w.path / f"{compressed}.npz"
        w.brood("export", path, "--out", out)
        assert set(np.load(out).files) == set(want)
        state, = harness.json_lines(w.brood("inspect", path, "--state", "--json")[0])
        assert state["newest"]["exists"], state
        assert state["newest"]["path"].startswith(ELSEWHERE), state
        if not compressed:  # every byte is checked
            for at in range(0, len(data) - 48, 97):
                (path / "old model-7").write_bytes(data[:at] + bytes([data[at] ^ 1]) +
                                                   data[at + 1:])
                out, err = w.brood("inspect", path, "--values", code=1)
                assert len(err.splitlines()) == 1, err


def test_v1_checkpoints_in_shards_are_read(w):
    """A variable partitioned over both files, and one in each."""
    big = np.arange(24, dtype=np.float32).reshape(6, 4)
    one, two = np.array([1.5], np.float32), np.array([2.5, 3.5], np.float32)
    path = folder(w, "v1 in shards", "m-?????-of-00002")
    parts = [[whole("one", one), ("big", (6, 4), [(0, 2), None], big[:2])],
             [whole("two", two), ("big", (6, 4), [(2, 4), None], big[2:])]]
    for i, slices in enumerate(parts):
        (path / f"m-0000{i}-of-00002").write_bytes(v1_file(slices))
    assert_equal(values_of(w, path), {"big": big, "one": one, "two": two})
    (path / "m-00001-of-00002").unlink()
    _, err = w.brood("inspect", path, code=1)
    assert "m-00001-of-00002" in err and len(err.splitlines()) == 1, err


def test_v1_checkpoints_that_lie_are_refused(w):
    v = np.arange(4, dtype=np.float32)
    name, shape, extents, values = whole("w", v)
    for slices, says in (
            ([(name, (5,), extents, values)], "do not make up"),
            ([(name, (1 << 40,), extents, values)], "bytes of tensors"),
            ([(name, shape, [(2, 4)], values)], "malformed slice"),
            ([(name, shape, [(0, 2)], values[:2])], "do not cover it")):
        path = w.path / "lie"
        path.write_bytes(v1_file(slices))
        out, err = w.brood("inspect", path, "--values", code=1)
        assert out == "" and says in err and len(err.splitlines()) == 1, (says, err)
    path.write_bytes(table([(b"", b"\x0a\x00")]))
    _, err = w.brood("inspect", path, code=1)
    assert "no list of tensors" in err, err


def test_the_graph_of_a_v1_checkpoint_runs(w):
    """With the values of that V1 file, as with those of the V2 files."""
    path = folder(w, "v 1", "old model-7")
    values = values_of(w, linear())
    (path / "old model-7").write_bytes(v1_file([whole(k, v) for k, v in values.items()]))
    shutil.copy(linear(".meta"), path / "old model-7.meta")
    for name in values:
        assert w.brood("graph", path, "--fetch", name) == \
            w.brood("graph", linear(), "--fetch", name)


def test_the_graph_of_a_damaged_checkpoint_is_shown(w):
    for suffix, at, says in ((".data-00000-of-00001", 9, "checksum mismatch in the data"),
                             (".index", 20, "checksum")):
        path = folder(w, f"damaged{suffix}", "m")
        for end in (".meta", ".index", ".data-00000-of-00001"):
            data = bytearray(linear(end).read_bytes())
            if end == suffix:
                data[at] ^= 1
            (path / f"m{end}").write_bytes(data)
        shown_without_values(w, path, says)


def test_object_based_checkpoints_are_listed(w):
    """TensorFlow 2's: with the keys they have, but no variable finds its name there."""
    data = struct.pack("<2f", 1, 2)
    key = "layer/kernel/.ATTRIBUTES/VARIABLE_VALUE"
    for compressed in (False, True):
        path = folder(w, f"tf 2 {compressed}", "my model-3")
        (path / "my model-3.index").write_bytes(
            table([(b"", HEADER), (b"_CHECKPOINTABLE_OBJECT_GRAPH", entry(data)),
                   (key.encode(), entry(data))], compressed))
        (path / "my model-3.data-00000-of-00001").write_bytes(data)
        found = values_of(w, path)
        assert found.keys() == {"_CHECKPOINTABLE_OBJECT_GRAPH", key}
        assert found[key].tolist() == [1, 2]
        refused(w, path, "no graph to show", ("graph",))
        shutil.copy(linear(".meta"), path / "my model-3.meta")
        shown_without_values(w, path, "an object-based checkpoint of TensorFlow 2")


def test_an_entry_of_another_type_is_listed(w):
    """DT_QINT8 and DT_VARIANT, that of an iterator's state: the others are read."""
    data = struct.pack("<2f", 1, 2)
    (w.path / "m.index").write_bytes(table(
        [(b"", HEADER), (b"a", entry(data, 21)), (b"b", entry(data)), (b"c", entry(data, 11))]))
    (w.path / "m.data-00000-of-00001").write_bytes(data)
    assert w.brood("inspect", "m")[0] == "a (DT_VARIANT) [2]\nb (DT_FLOAT) [2]\n" \
        "c (type 11) [2]\n# Total number of params: 6\n"
    facts = harness.json_lines(w.brood("inspect", "m", "--json")[0])
    assert [f["dtype"] for f in facts] == ["variant", "float32", "type 11"], facts
    assert "[1, 2]" in w.brood("inspect", "m", "--tensor", "b")[0]
    err = w.brood("inspect", "m", "--values", code=1)[1]
    assert "m: a: a stored variant" in err and len(err.splitlines()) == 1, err
    refused(w, "m", "a is variant, which safetensors has no type for", ("export",))


def test_what_is_gone_is_told(w):
    refused(w, folder(w, "gone away", "my model-3"),
            f"gone away/checkpoint names {ELSEWHERE}/my model-3: there are no such files")


def test_tensorflow_s_own_are_found_where_they_are_now(w):
    """From 0.12 to 1.13, copied under names with spaces, the path of another machine in
    `checkpoint`; one of them without a base name."""
    found = 0
    for index in [*checkpoints().rglob("*.index"), *checkpoints().rglob(".index")]:
        base = index.name[:-len(".index")]
        suffixes = [p.name[len(base):] for p in index.parent.iterdir()
                    if p.name.startswith((base + ".index", base + ".data-", base + ".meta"))]
        moved = f"moved {found}" if base else ""
        path = folder(w, f"a folder {found}", moved)
        for suffix in suffixes:
            shutil.copy(index.parent / (base + suffix), path / (moved + suffix))
        prefix = str(index)[:-len(".index")]
        assert w.brood("inspect", path) == w.brood("inspect", prefix), prefix
        ours, real = (json.loads(w.brood("graph", p, "--json")[0]) for p in (path, prefix))
        assert ours["restored"] and ours["nodes"] == real["nodes"], prefix
        out = w.path / f"{found}.npz"
        text, _ = w.brood("export", path, "--out", out)
        assert out.stat().st_size > 0 and text.startswith(str(out)), text
        found += 1
    assert found >= 9, found


if __name__ == "__main__":
    harness.main()
