"""SavedModels: a directory, or its saved_model.pb, stands for its variables and for its graph, chosen
by tags, whose signatures name tensors by keys."""
import shutil

import harness
import numpy as np
from test_foreign import field, linear, number, values_of, varint
from test_graph import fetched, graph, node


def entry(number_, key, value):
    """An entry of a map."""
    return field(number_, field(1, key.encode()) + field(2, value))


def signature(inputs, outputs):
    info = {1: inputs, 2: outputs}
    return b"".join(entry(n, key, field(1, name.encode()))
                    for n, tensors in info.items() for key, name in tensors.items()) + \
        field(3, b"tensorflow/serving/predict")


def tagged(metagraph, tags, signatures=()):
    """A MetaGraphDef with more tags and signatures: messages are joined by joining their bytes."""
    return metagraph + field(1, b"".join(field(4, t.encode()) for t in tags)) + \
        b"".join(entry(5, name, signature(*tensors)) for name, tensors in signatures)


def saved_model(w, name, *metagraphs):
    path = w.path / name
    (path / "variables").mkdir(parents=True)
    (path / "saved_model.pb").write_bytes(varint(8) + varint(1) +
                                          b"".join(field(2, m) for m in metagraphs))
    return path


def model_of_linear(w, name="model"):
    meta = linear(".meta").read_bytes()
    serve = tagged(meta, ["serve"], [("serving_default", ({"w": "weights:0"},
                                                          {"b": "biases:0", "all": "weights:0"}))])
    path = saved_model(w, name, tagged(meta, ["train", "gpu"]), serve)
    for end in (".index", ".data-00000-of-00001"):
        shutil.copy(linear(end), path / "variables" / f"variables{end}")
    return path


def test_a_directory_stands_for_its_model(w):
    path = model_of_linear(w)
    want = values_of(w, linear())
    for name in (path, path / "saved_model.pb", path / "variables" / "variables"):
        found = values_of(w, name)
        assert found.keys() == want.keys() and all((found[k] == want[k]).all() for k in want)
        fact, = harness.json_lines(graph(w, name, "--json")[0])
        assert fact["restored"], fact
        assert fact["signatures"]["serving_default"]["outputs"] == \
            {"all": "weights:0", "b": "biases:0"}, fact
        assert (fetched(w, name, "--fetch", "weights")[0] == want["weights"]).all()
        w.brood("export", name, "--out", "x.npz")
        assert set(np.load(w.path / "x.npz").files) == set(want)
    out, _ = graph(w, path)
    assert "signature    serving_default: w=weights:0 -> all=weights:0, b=biases:0" in \
        out.splitlines(), out


def test_signatures_name_tensors(w):
    path = model_of_linear(w)
    want = values_of(w, linear())
    use = ("--signature", "serving_default")
    facts = harness.json_lines(graph(w, path, *use, "--json")[0])
    assert [f["name"] for f in facts] == ["all", "b"], facts
    given = str(want["weights"].tolist())
    assert (fetched(w, path, *use, "--feed", f"w={given}", "--fetch", "all")[0] ==
            want["weights"]).all()
    assert (fetched(w, path, *use, "--fetch", "biases:0")[0] == want["biases"]).all()
    for args, says in ((("--signature", "serving_defualt"), "did you mean 'serving_default'?"),
                       (("--signature", "x"), "no signature x"),
                       ((*use, "--fetch", "c"), "'c'")):
        out, err = graph(w, path, *args, code=1)
        assert out == "" and says in err and len(err.splitlines()) == 1, err


def test_graphs_are_chosen_by_their_tags(w):
    path = model_of_linear(w)
    for tags, signatures in (((), 1), (("serve",), 1), (("gpu,train",), 0)):
        fact, = harness.json_lines(graph(w, path, *(["--tags", *tags] if tags else []), "--json")[0])
        assert len(fact["signatures"]) == signatures, (tags, fact)
    for tags in ("train", "serve,train", "other"):
        _, err = graph(w, path, "--tags", tags, code=1)
        assert f"no graph has the tags {tags}, but these: train,gpu; serve" in err, err
    meta = linear(".meta").read_bytes()
    alone = saved_model(w, "alone", tagged(meta, ["other"]))
    graph(w, alone)
    two = saved_model(w, "two", tagged(meta, ["a"]), tagged(meta, ["b"]))
    _, err = graph(w, two, code=1)
    assert "choose one with --tags (a; b)" in err, err
    _, err = graph(w, linear(), "--tags", "serve", code=1)
    assert "has no tags" in err, err


def main_op_model(w, collection, tags):
    """v has no saved value: the operation that a collection names sets it."""
    of_int32 = number(6, 3)
    seven = field(8, number(1, 3) + field(2, b"") + field(7, bytes([7])))
    nodes = [node("v", "VariableV2", dtype=of_int32, shape=field(7, b"")),
             node("seven", "Const", dtype=of_int32, value=seven),
             node("v/Assign", "Assign", "v", "seven", T=of_int32)]
    metagraph = field(2, b"".join(nodes) + field(4, number(1, 24))) + \
        entry(4, collection, field(1, field(1, b"v/Assign")))
    return saved_model(w, f"{collection}{len(tags)}", tagged(metagraph, tags))


def test_the_main_op_runs(w):
    for collection in ("saved_model_main_op", "legacy_init_op"):
        path = main_op_model(w, collection, ["serve"])
        assert fetched(w, path, "--fetch", "v")[0] == 7, collection
    path = main_op_model(w, "saved_model_main_op", [])
    _, err = graph(w, path, "--fetch", "v", code=1)
    assert "uninitialized value v" in err, err


def test_a_graph_alone(w):
    """A GraphDef of any name, whose values are constants: a frozen graph."""
    of_float = number(6, 1)
    two = field(8, number(1, 1) + field(2, b"") + field(5, b"\0\0\0\x40"))
    nodes = [node("x", "Placeholder", dtype=of_float, shape=field(7, b"")),
             node("two", "Const", dtype=of_float, value=two),
             node("y", "Mul", "x", "two", T=of_float),
             # the definitions of unknown operations are guessed: types as their users want them
             node("mine", "MyOp", "x", T=of_float),
             node("z", "Range", "mine:1", "mine:2", "mine:2", Tidx=number(6, 3)),
             node("all", "MyOtherOp", "z", T=of_float)]
    whole = b"".join(nodes) + field(4, number(1, 24))
    for name in ("frozen.pb", "graph", "net.bytes"):
        (w.path / name).write_bytes(whole)
        assert fetched(w, name, "--feed", "x=3", "--fetch", "y")[0] == 6, name
        fact, = harness.json_lines(graph(w, name, "--json")[0])
        assert fact["nodes"] == 6 and fact["cannot_run"] == ["mine", "all"], fact
        assert fact["no_values"] == f"{name} is a graph alone", fact
        assert (fetched(w, name, "--feed", "mine:1=0", "--feed", "mine:2=2", "--fetch", "z",
                        "--feed", "x=1")[0] == [0]).all()
    _, err = w.brood("inspect", "graph", code=1)
    assert "graph is a graph alone, without a checkpoint" in err, err
    _, err = graph(w, "graph", "--tags", "serve", code=1)
    assert "a GraphDef has no tags" in err, err
    for at in range(0, len(whole), 7):
        (w.path / "damaged.pb").write_bytes(whole[:at])
        out, err = w.brood("graph", "damaged.pb", code=None)
        assert len(err.splitlines()) == (out == ""), (at, out, err)


def test_a_model_is_hosted(w):
    model_of_linear(w)
    text = "env: {id: none}\ndefaults: {algorithm: graph}\n" \
        "agents: {a: {settings: {from: %s}}}\n"
    w.brood("check", w.write("hosted.yaml", text % "model"))
    (w.path / "model" / "saved_model.pb").write_bytes(b"nonsense")
    _, err = w.brood("check", w.write("bad.yaml", text % "model"), code=2)
    assert "saved_model.pb: not a SavedModel" in err, err


def test_damaged_models_are_refused(w):
    path = model_of_linear(w)
    whole = (path / "saved_model.pb").read_bytes()
    cases = [b"", b"\x0a", b"nonsense", whole[:-7], varint(8) + varint(1)]
    cases += [whole[:at] + bytes([whole[at] ^ 0xff]) + whole[at + 1:]
              for at in range(2, len(whole), len(whole) // 12)]
    for i, data in enumerate(cases):
        (path / "saved_model.pb").write_bytes(data)
        out, err = w.brood("graph", path, code=None)
        assert len(err.splitlines()) == (out == ""), (i, out, err)
        assert i > 4 or out == "", (i, out)
    (path / "saved_model.pb").unlink()
    _, err = graph(w, path, code=1)
    assert len(err.splitlines()) == 1, err


if __name__ == "__main__":
    harness.main()
