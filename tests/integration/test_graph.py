"""`brood graph` on graphs that TensorFlow wrote: listed, run, and with wrong names."""
import json
import pathlib
import re
import shutil
import struct
import subprocess

import harness
import numpy as np
from test_foreign import field, number
from test_inspect import checkpoints

MADDPG = ("01-mbeliaev1-maddpg", "policy", "h10s5", "5")
DDPG = ("08-MeixinZhu-Velocity_control", "save", "model_origin_4.001_NOCA.ckpt")
LINEAR = ("21-codlife-tensorflow-example", "my_net", "save_net.ckpt")


def path_of(parts):
    return checkpoints().joinpath(*parts)


def graph(w, *args, code=0):
    return w.brood("graph", *args, code=code)


def variables(w, prefix):
    facts = harness.json_lines(w.brood("inspect", prefix, "--json", "--values")[0])
    return {f["name"]: np.array(f["values"], f["dtype"]).reshape(f["shape"]) for f in facts}


def fetched(w, prefix, *args):
    facts = harness.json_lines(graph(w, prefix, "--json", *args)[0])
    return [np.array(f["values"], object if f["dtype"] == "string" else f["dtype"])
            .reshape(f["shape"]) for f in facts]


def test_every_graph_is_listed(w):
    text = (checkpoints() / "INDEX.md").read_text()
    sizes = [int(n) for n in re.findall(r"producer \d+, (\d+) nodes", text)]
    found = []
    for meta in [*checkpoints().rglob("*.meta"), *checkpoints().rglob(".meta")]:
        prefix = str(meta)[:-len(".meta")]
        fact, = harness.json_lines(graph(w, prefix, "--json")[0])
        nodes = harness.json_lines(graph(w, prefix, "--json", "--nodes")[0])
        assert fact["nodes"] == len(nodes) and fact["restored"], prefix
        assert fact["uninitialized"] == [] and fact["cannot_run"] == [], prefix
        names = {n["name"] for n in nodes}
        for node in nodes:
            for i in node["inputs"]:
                assert i.lstrip("^").split(":")[0] in names, (prefix, node)
        collections = harness.json_lines(graph(w, prefix, "--json", "--collections")[0])
        assert {c["collection"]: len(c["items"]) for c in collections} == \
            fact["collections"], prefix
        found.append(fact["nodes"])
    assert sorted(set(found)) == sorted(set(sizes))


def test_nodes_and_collections_as_text(w):
    prefix = path_of(MADDPG)
    out, _ = graph(w, prefix, "--nodes")
    assert "save/RestoreV2 (RestoreV2) on /device:CPU:0 <- save/Const, " \
        "save/RestoreV2/tensor_names, save/RestoreV2/shape_and_slices" in out.splitlines()
    out, _ = graph(w, prefix, "--collections")
    assert out.splitlines()[-5:] == ["train_op (4)", "  agent_0/Adam", "  agent_0_1/Adam",
                                     "  agent_1/Adam", "  agent_1_1/Adam"]
    out, _ = graph(w, prefix)
    assert "placeholder  observation0:0 (float32) (?, 8)" in out.splitlines()


def test_an_actor_computes_what_numpy_computes(w):
    prefix = path_of(MADDPG)
    v = variables(w, prefix)
    x = np.linspace(-1, 1, 24, dtype=np.float32).reshape(3, 8)
    np.save(w.path / "x.npy", x.astype(np.float64))
    np.savetxt(w.path / "x.txt", x)
    h = x
    for layer in ("", "_1", "_2"):
        name = f"agent_0/p_func/fully_connected{layer}"
        h = h @ v[f"{name}/weights"] + v[f"{name}/biases"]
        if layer != "_2":
            h = np.maximum(h, 0)
    tensor = "agent_0_1/p_func/fully_connected_2/BiasAdd"
    for value in (f"@{w.path / 'x.npy'}", f"@{w.path / 'x.txt'}", str(x.tolist())):
        y, = fetched(w, prefix, "--feed", f"observation0:0={value}", "--fetch", tensor)
        assert np.abs(y - h).max() < 1e-5, value
    out, _ = graph(w, prefix, "--feed", f"observation0={x.tolist()}", "--fetch", tensor)
    head, _, rows = out.partition("\n")
    assert head == f"tensor: {tensor}:0 (float32) [3, 9]"
    assert np.array_equal(np.array(json.loads(rows), np.float32), y)
    noisy = [fetched(w, prefix, "--feed", f"observation0={x.tolist()}", "--fetch",
                     "agent_0_1/Softmax", "--seed", seed)[0] for seed in (0, 0, 1)]
    assert (noisy[0] == noisy[1]).all() and (noisy[0] != noisy[2]).any()


def test_targets_run_before_fetches(w):
    prefix = path_of(DDPG)
    nodes = harness.json_lines(graph(w, prefix, "--json", "--nodes")[0])
    name = next(n["name"] for n in nodes if n["name"].endswith("/kernel"))
    before = fetched(w, prefix, "--fetch", name)[0]
    first = fetched(w, prefix, "--target", "init", "--fetch", name)[0]
    again = fetched(w, prefix, "--target", "init", "--fetch", name)[0]
    assert before.shape == first.shape and (before != first).any()
    assert (first == again).all()


def regression(w):
    """A model of ours with its train op, which needs no file of TensorFlow's."""
    trainer = harness.BUILD / "tests" / "golden" / "train_regression"
    subprocess.run([trainer, w.path, "adam"], check=True)
    return "m-20"


def test_targets_run_one_after_another(w):
    """Each sees what those before it wrote, however often it is given."""
    prefix = regression(w)
    step = ["--feed", "x=[[1, 2, 3]]", "--feed", "y=[[1, 0]]", "--target", "train"]
    again = [*step, "--target", "train", "--target", "train", "--fetch", "global_step"]
    assert fetched(w, prefix, *again)[0] == 23
    assert fetched(w, prefix, *step, "--target", "init", "--fetch", "global_step")[0] == 0
    begun = fetched(w, prefix, "--target", "init", *step, "--fetch", "global_step")[0]
    assert begun == 1


def test_any_number_of_tensors_is_fed_and_fetched(w):
    prefix = regression(w)
    v = variables(w, prefix)
    names = [*v, *(f"{name}/read" for name in v)]
    values = fetched(w, prefix, *[word for name in names * 40 for word in ("--fetch", name)])
    assert len(values) == 80 * len(v) > 640
    for name, value in zip(names * 40, values):
        assert (value == v[name.removesuffix("/read")]).all(), name
    # every one is looked up: the first that is unknown is named
    feeds = [word for i in range(80) for word in ("--feed", f"none_{i}=0")]
    out, err = graph(w, prefix, *feeds, "--fetch", "loss", code=1)
    assert out == "" and "none_0" in err and len(err.splitlines()) == 1, err


def texts(w):
    """A graph of strings: s is fed, v a variable, f of half precision."""
    string, half = number(6, 7), number(6, 19)
    shape = field(7, field(2, number(1, 2)))
    nodes = [node("s", "Placeholder", dtype=string, shape=shape),
             node("v", "VariableV2", dtype=string, shape=shape),
             node("v/Assign", "Assign", "v", "s", T=string),
             node("v/read", "Identity", "v", T=string),
             node("f", "Placeholder", dtype=half, shape=shape),
             node("g", "Neg", "f", T=half)]
    (w.path / "texts.meta").write_bytes(field(2, b"".join(nodes) + field(4, number(1, 24))))
    return "texts"


def test_strings_and_halves_are_fed_and_fetched(w):
    name, given = texts(w), ["--feed", "s=[a b, \"\\té\"]"]
    assert fetched(w, name, *given, "--fetch", "s")[0].tolist() == ["a b", "\té"]
    assert fetched(w, name, *given, "--target", "v/Assign", "--fetch", "v",
                   "--fetch", "v/read")[1].tolist() == ["a b", "\té"]
    np.save(w.path / "s.npy", np.array(["x", "é"]))
    assert fetched(w, name, "--feed", "s=@s.npy", "--fetch", "s")[0].tolist() == ["x", "é"]
    np.save(w.path / "f.npy", np.array([0.1, 65504.0]))
    for value in ("[0.1, 65504]", "@f.npy"):
        found = fetched(w, name, "--feed", f"f={value}", "--fetch", "g")[0]
        assert (found == -np.array([0.1, 65504], np.float16)).all(), found
    for args, says in ((["--fetch", "v"], "uninitialized value v"),
                       (["--feed", "s=[a", "--fetch", "s"], "--feed s:0: the text: not YAML: "),
                       (["--feed", "s=one", "--fetch", "s"], "Cannot feed value of shape ()"),
                       (["--feed", "s=@f.npy", "--fetch", "s"], "expected string, not float64")):
        out, err = graph(w, name, *args, code=1)
        assert out == "" and says in err and len(err.splitlines()) == 1, (args, err)


def test_a_file_stands_for_its_checkpoint(w):
    prefix = regression(w)
    for end in (".meta", ".index", ".data-00000-of-00001"):
        assert graph(w, prefix + end) == graph(w, prefix)
        assert w.brood("inspect", prefix + end) == w.brood("inspect", prefix)


def test_a_graph_without_values(w):
    prefix = path_of(LINEAR)
    names = sorted(variables(w, prefix))
    shutil.copy(f"{prefix}.meta", w.path / "alone.meta")
    fact, = harness.json_lines(graph(w, "alone", "--json")[0])
    assert not fact["restored"] and sorted(fact["uninitialized"]) == names
    out, _ = graph(w, "alone")
    assert f"no value     {names[0]}" in out.splitlines()
    _, err = graph(w, "alone", "--fetch", names[0], code=1)
    assert f"Attempting to use uninitialized value {names[0]}" in err
    assert fetched(w, "alone", "--target", "init", "--fetch", names[0])[0].size > 0


def node(name, op, *inputs, **attrs):
    """A NodeDef; the values of attributes are AttrValues as bytes."""
    return field(1, field(1, name.encode()) + field(2, op.encode()) +
                 b"".join(field(3, i.encode()) for i in inputs) +
                 b"".join(field(5, field(1, k.encode()) + field(2, v))
                          for k, v in attrs.items()))


def loop(decides="while/LoopCond"):
    """A MetaGraphDef with `i = 0; while i < n: i += 1`, as tf.while_loop makes it."""
    of_int32, frame = number(6, 3), field(2, b"while/while_context")

    def const(name, value, *inputs):
        tensor = number(1, 3) + field(2, b"") + field(7, bytes([value]))
        return node(name, "Const", *inputs, dtype=of_int32, value=field(8, tensor))

    def enter(name, x, is_constant):
        return node(name, "Enter", x, T=of_int32, frame_name=frame,
                    is_constant=number(5, is_constant), parallel_iterations=number(3, 10))
    return field(2, b"".join([
        node("n", "Placeholder", dtype=of_int32, shape=field(7, b"")),
        const("Const", 0), enter("while/Enter", "Const", 0),
        node("while/Merge", "Merge", "while/Enter", "while/NextIteration", T=of_int32,
             N=number(3, 2)),
        enter("while/Less/Enter", "n", 1),
        node("while/Less", "Less", "while/Merge", "while/Less/Enter", T=of_int32),
        node("while/LoopCond", "LoopCond", "while/Less"),
        node("while/Switch", "Switch", "while/Merge", decides, T=of_int32),
        node("while/Identity", "Identity", "while/Switch:1", T=of_int32),
        const("while/add/y", 1, "^while/Identity"),
        node("while/add", "Add", "while/Identity", "while/add/y", T=of_int32),
        node("while/NextIteration", "NextIteration", "while/add", T=of_int32),
        node("while/Exit", "Exit", "while/Switch", T=of_int32)]) +
        field(4, number(1, 24)))


def test_a_while_loop_runs(w):
    (w.path / "loop.meta").write_bytes(loop())
    fact, = harness.json_lines(graph(w, "loop", "--json")[0])
    assert fact["cannot_run"] == [] and fact["nodes"] == 13
    for n in (0, 1, 1000):
        assert fetched(w, "loop", "--feed", f"n={n}", "--fetch", "while/Exit")[0] == n
    (w.path / "bad.meta").write_bytes(loop(decides="while/Less"))
    for name, fetch, says in (
            ("loop", "while/add", "is inside of a loop"),
            ("bad", "while/Exit", "while/Exit leaves no loop: while/Less decides, no LoopCond")):
        out, err = graph(w, name, "--feed", "n=3", "--fetch", fetch, code=1)
        assert out == "" and says in err and len(err.splitlines()) == 1, (fetch, err)


def test_what_keeps_nodes_from_running_is_named(w):
    of_int32 = number(6, 3)
    nodes = [node("x", "Placeholder", dtype=of_int32, shape=field(7, b"")),
             node("odd", "NoSuchOp", "x", T=of_int32),
             node("a", "Identity", "odd", T=of_int32), node("b", "Neg", "a", T=of_int32),
             node("y", "Neg", "x", T=of_int32), node("all", "NoOp", "^b", "^y")]
    (w.path / "odd.meta").write_bytes(field(2, b"".join(nodes) + field(4, number(1, 24))))
    out, _ = graph(w, "odd")
    assert "runs         2 of 5 nodes that can be fetched" in out.splitlines(), out
    assert "cannot run   odd (NoSuchOp), and 3 that need it: operations of this type cannot be run" \
        in out.splitlines(), out
    fact, = harness.json_lines(graph(w, "odd", "--json")[0])
    assert fact["cannot_run"] == ["odd"] and len(fact["reasons"]) == 1, fact
    assert (fact["fetchable"], fact["runnable"]) == (5, 2), fact
    assert fetched(w, "odd", "--feed", "x=3", "--fetch", "y")[0] == -3


def test_what_is_wrong_is_one_line(w):
    prefix = path_of(MADDPG)
    x = str([[0] * 8])
    cases = [
        (["--feed", f"observation={x}", "--fetch", "agent_0_1/Softmax"],
         "did you mean 'observation0:0'?"),
        (["--feed", f"observation0={x}", "--fetch", "agent_0_1/Sofmax"],
         "did you mean 'agent_0_1/Softmax:0'?"),
        (["--target", "agent_0/Adma"], "did you mean 'agent_0/Adam'?"),
        (["--fetch", "agent_0_1/Softmax:4"], "did you mean 'agent_0_1/Softmax:0'?"),
        (["--feed", "observation0=[[1, 2]]", "--fetch", "agent_0_1/Softmax"],
         "Cannot feed value of shape (1, 2)"),
        (["--feed", "observation0=[[1, two]]", "--fetch", "agent_0_1/Softmax"],
         "--feed observation0:0: 'two' is no float32"),
        (["--feed", "observation0=@nothing.npy", "--fetch", "agent_0_1/Softmax"],
         "nothing.npy"),
        (["--fetch", "agent_0_1/Softmax"], "observation0"),
        (["--fetch", "agent_0/Adam/Assign"], "name its operation as a target"),
    ]
    for args, says in cases:
        out, err = graph(w, prefix, *args, code=1)
        assert out == "" and says in err and len(err.splitlines()) == 1, (args, err)
    (w.path / "text.meta").write_text("no graph")
    (w.path / "cut.meta").write_bytes((prefix / ".meta").read_bytes()[:-1000])
    for name, says in (("nothing", "there is no nothing.meta"),
                       ("text", "text.meta: not a MetaGraphDef"), ("cut", "cut.meta: ")):
        out, err = graph(w, name, code=1)
        assert out == "" and says in err and len(err.splitlines()) == 1, (name, err)
    graph(w, code=2)
    graph(w, prefix, "--feed", "observation0", code=2)


def test_variables_on_parameter_servers_are_shown(w):
    """Where replica_device_setter placed them; one session ran them all, to the numbers of
    a graph without devices."""
    trainer = harness.BUILD / "tests" / "golden" / "train_regression"
    for name, more in (("spread", ["2"]), ("plain", [])):
        (w.path / name).mkdir()
        subprocess.run([trainer, w.path / name, "adam", *more], check=True)
    nodes = harness.json_lines(graph(w, "spread/m-20", "--nodes", "--json")[0])
    placed = [n["device"] for n in nodes if n["op"] == "VariableV2"]
    assert placed[:4] == [f"/job:ps/task:{i % 2}" for i in range(4)], placed
    assert {"/job:ps/task:0", "/job:ps/task:1", "/job:worker"} <= {n["device"] for n in nodes}
    out, _ = graph(w, "spread/m-20", "--nodes")
    assert re.search(r"^fully_connected/biases \(VariableV2\) on /job:ps/task:1$", out, re.M)
    for end in (".index", ".data-00000-of-00001"):
        spread, plain = ((w.path / d / f"m-20{end}").read_bytes() for d in ("spread", "plain"))
        assert spread == plain, end


def graph_events(run):
    """The graph_def fields of a run's event file (TFRecords of Event messages)."""
    path, = (run / "metrics").glob("events.out.tfevents.*")
    data, at, found = path.read_bytes(), 0, []
    while at < len(data):
        n, = struct.unpack_from("<Q", data, at)
        event = data[at + 12:at + 12 + n]
        assert event[0] == 0x09
        if event[9] == 4 << 3 | 2:
            found.append(event[10:])
        at += 12 + n + 4
    return found


def test_checkpoints_of_a_run_have_their_graphs(w):
    w.brood("run", w.small(steps=1000, checkpoint=500), "--name", "a", "--set",
            "experience.keep=true")
    run = w.run_dir("a")
    prefix = run / "checkpoints" / "1000" / "agent_1" / "model.ckpt-1000"
    v = variables(w, prefix)
    fact, = harness.json_lines(graph(w, prefix, "--json")[0])
    assert fact["restored"] and fact["cannot_run"] == []
    assert all("/hyperparameters/" in n for n in fact["uninitialized"])
    x = np.linspace(-1, 1, 36, dtype=np.float32).reshape(2, 18)
    h = x
    for layer in ("", "_1", "_2"):
        name = f"agent_1/p_func/fully_connected{layer}"
        h = h @ v[f"{name}/weights"] + v[f"{name}/biases"]
        h = h if layer == "_2" else np.maximum(h, 0)
    y, = fetched(w, prefix, "--feed", f"observation1={x.tolist()}", "--fetch",
                 "agent_1_1/p_func/fully_connected_2/BiasAdd")
    assert np.abs(y - h).max() < 1e-5
    first = run / "checkpoints" / "0" / "agent_1" / "model.ckpt-0.meta"
    assert first.read_bytes() == pathlib.Path(f"{prefix}.meta").read_bytes()
    events = graph_events(run)
    assert len(events) == 1
    for name in (b"agent_0/observation0", b"agent_2/agent_2/Adam"):
        assert events[0].count(name) > 0, name


def test_the_graph_survives_a_resume(w):
    w.brood("run", w.small(steps=1000, checkpoint=500), "--name", "a", "--set",
            "experience.keep=true")
    before = graph_events(w.run_dir("a"))
    w.brood("resume", "a", "--from", "500", "--set", "run.env_steps=1500")
    assert graph_events(w.run_dir("a")) == before
    graphs = {p.read_bytes()
              for p in (w.run_dir("a") / "checkpoints").glob("*/agent_0/*.meta")}
    assert len(graphs) == 1


def test_the_graph_of_many_agents_stays_small(w):
    """TensorBoard draws no endless graph: whole agents in their order, up to 16 MiB."""
    agents = "".join(f"  a{i}: {{observation: 4, action: 2}}\n" for i in range(160))
    config = w.write("many.yaml", "env: {id: none}\ndefaults: {algorithm: ddpg, "
                     f"critic: {{input: own}}}}\nagents:\n{agents}")
    w.brood("run", config, "--name", "many", "--detach")
    first = w.run_dir("many") / "checkpoints" / "0"
    harness.wait_until("the first checkpoint", first.exists)
    w.brood("stop", "many")
    event, = graph_events(w.run_dir("many"))
    assert 16 << 20 <= len(event) < 17 << 20, len(event)
    assert b"a50/a50/Adam" in event and b"a159/" not in event
    assert len([*first.glob("*/*.meta")]) == 160


if __name__ == "__main__":
    harness.main()
