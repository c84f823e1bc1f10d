"""Checkpoints of other programs and other machines, named by a `checkpoint` file: every
command works on them or says in one line why not."""
import json
import re
import shutil
import struct

import harness
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


def entry(data):
    """A vector of floats at the beginning of the data file."""
    n = len(data) // 4
    return (b"\x08\x01\x12\x04\x12\x02\x08" + varint(n) + b"\x28" + varint(len(data)) +
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


def test_v1_checkpoints_are_named(w):
    whole = folder(w, "v 1", "old model-7")
    v1 = table([(b"", b"\x0a\x00"), (b"\0w\0\1", b"\x12\x00")], compressed=True)
    (whole / "old model-7").write_bytes(v1)
    shards = folder(w, "v1 in shards", "m-?????-of-00002")
    for i in range(2):
        (shards / f"m-0000{i}-of-00002").write_bytes(v1)
    for path in (whole, shards):
        refused(w, path, "V1 checkpoint", ("inspect", "export"))
        refused(w, path, "no graph to show", ("graph",))
        state, = harness.json_lines(w.brood("inspect", path, "--state", "--json")[0])
        assert state["newest"]["exists"], state
        assert state["newest"]["path"].startswith(ELSEWHERE), state


def test_the_graph_of_a_v1_checkpoint_is_shown(w):
    path = folder(w, "v 1", "old model-7")
    (path / "old model-7").write_bytes(table([(b"", b"\x0a\x00")]))
    shutil.copy(linear(".meta"), path / "old model-7.meta")
    shown_without_values(w, path, "old model-7 is a V1 checkpoint, only V2 can be read")


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


def test_compressed_and_object_based_ones_are_named(w):
    data = struct.pack("<2f", 1, 2)
    for name, says, compressed, key in (
            ("snappy", "snappy-compressed index block", True, b"w"),
            ("tf 2", "an object-based checkpoint of TensorFlow 2", False,
             b"_CHECKPOINTABLE_OBJECT_GRAPH")):
        path = folder(w, name, "my model-3")
        (path / "my model-3.index").write_bytes(
            table([(b"", HEADER), (key, entry(data))], compressed))
        (path / "my model-3.data-00000-of-00001").write_bytes(data)
        refused(w, path, says, ("inspect", "export"))
        refused(w, path, "no graph to show", ("graph",))
        shutil.copy(linear(".meta"), path / "my model-3.meta")
        shown_without_values(w, path, says)


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
