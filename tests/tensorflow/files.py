#!/usr/bin/env python3
"""Files that brood and TensorFlow give each other besides a Saver's V2 checkpoints: V1 checkpoints,
whole and in shards, what the nodes of a graph write, SavedModels with their signatures, and tensors
of strings and half precision.

    tests/tensorflow/files.py RUN_META

BROOD_BUILD_DIR: the build, by default build/. RUN_META: tests/support/run_meta of it, which may write
files, unlike the agent of `brood graph`. Without TensorFlow (tests/support/peers.py), exit code 77.
"""
import json
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE)]
import peers
import run_meta

ROOT = HERE.parents[1]
BROOD = pathlib.Path(os.environ.get("BROOD_BUILD_DIR", ROOT / "build")) / "supervisor" / "brood"
# TensorFlow saves no uint32, uint64 and bfloat16 as V1.
TYPES = ["float32", "float64", "int32", "int64", "int8", "uint8", "int16", "uint16", "bool",
         "float16", "complex64", "complex128", "string"]
# the distance of neighbours: sums may be rounded to either
HALVES = {"float16": 2 ** -10, "bfloat16": 2 ** -7}


def brood(*args):
    p = subprocess.run([BROOD, *map(str, args)], capture_output=True, text=True, check=False)
    assert p.returncode == 0, (args, p.stderr)
    return p.stdout


def fetched(*args):
    import numpy as np
    facts = map(json.loads, brood("graph", *args, "--json").splitlines())
    return {f["name"]: np.array(f["values"]).reshape(f["shape"]) for f in facts}


def value_of(dtype):
    """Two elements of it."""
    if dtype == "string":
        return ["ab\0c", ""]
    return {"bool": [True, False], "complex64": [1 + 2j, -3],
            "complex128": [1 + 2j, -3]}.get(dtype, [3, 250] if dtype[0] == "u" else [1, -2])


def variables_of_every_type(tf):
    for dtype in TYPES:
        tf.get_variable(f"v_{dtype}", initializer=tf.constant(value_of(dtype), dtype=dtype),
                        use_resource=False)
    tf.get_variable("scalar", initializer=3.5, use_resource=False)
    tf.get_variable("empty", shape=(0, 3), use_resource=False)
    tf.get_variable("part", shape=(5, 2), partitioner=tf.fixed_size_partitioner(2),
                    use_resource=False)


def values(session, tf):
    return {v.name: session.run(v) for v in tf.global_variables()}


def same(a, b):
    return a.keys() == b.keys() and all(a[k].dtype == b[k].dtype and a[k].shape == b[k].shape and
                                        a[k].tolist() == b[k].tolist() for k in a)


def check_v1(tf, program, folder, sharded):
    """TensorFlow saves; brood restores, lists, and saves through the graph's own nodes;
    TensorFlow restores that."""
    import numpy as np
    with tf.Graph().as_default(), tf.Session() as session:
        variables_of_every_type(tf)
        saver = tf.train.Saver(write_version=tf.train.SaverDef.V1, sharded=sharded)
        session.run(tf.global_variables_initializer())
        want = values(session, tf)
        path = saver.save(session, f"{folder}/v1-{sharded}")
        plain = path.split("-?????")[0]
        reader = tf.train.NewCheckpointReader(path)
        names = set(brood("inspect", path, "--names").split())
        assert names == set(reader.get_variable_to_shape_map()), names
        definition = saver.as_saver_def()
        again = f"{folder}/again-{sharded}"
        save = {"feeds": {definition.filename_tensor_name: np.array(again.encode(), object)},
                "fetches": [definition.save_tensor_name]}
        written, = run_meta.run_meta(program, path, [save])[0]
        written = written.item().decode()
        assert written == again + path[len(plain):], written
        mine = tf.train.NewCheckpointReader(written)
        assert mine.get_variable_to_dtype_map() == reader.get_variable_to_dtype_map()
        for v in tf.global_variables():
            session.run(v.initializer)
        session.run([tf.assign(v, tf.zeros_like(v)) for v in tf.global_variables()
                     if v.dtype.base_dtype != tf.string])
        saver.restore(session, written)
        assert same(values(session, tf), want)
    # brood's Saver, and the graph's restoring nodes in brood
    run_meta.run_meta(program, path, [], f"{folder}/saver-{sharded}")
    names = set(brood("inspect", f"{folder}/saver-{sharded}", "--names").split())
    assert names == set(reader.get_variable_to_shape_map()), names
    mine = tf.train.NewCheckpointReader(f"{folder}/saver-{sharded}" + path[len(plain):])
    assert mine.get_variable_to_dtype_map() == reader.get_variable_to_dtype_map()
    name = "v_float64:0"
    found = fetched(plain, "--target", "init", "--feed",
                    f"{definition.filename_tensor_name}={written}", "--target",
                    definition.restore_op_name, "--fetch", name)
    assert found[name].tolist() == want[name].tolist()


def check_saved_model(tf, program, folder):
    import numpy as np
    path = f"{folder}/model"
    x_value = np.linspace(-1, 1, 8, dtype=np.float32).reshape(2, 4)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(tf.float32, [None, 4], name="in")
        w = tf.get_variable("w", shape=[4, 3])
        local = tf.get_variable("local", initializer=2.0, trainable=False,
                                collections=[tf.GraphKeys.LOCAL_VARIABLES])
        y = tf.tanh(x @ w) * local
        session.run([tf.global_variables_initializer(), tf.local_variables_initializer()])
        want = session.run(y, {x: x_value})
        info = tf.saved_model.utils.build_tensor_info
        signature = tf.saved_model.signature_def_utils.build_signature_def(
            {"images": info(x)}, {"scores": info(y)}, "tensorflow/serving/predict")
        builder = tf.saved_model.Builder(path)
        builder.add_meta_graph_and_variables(
            session, ["serve"], {"serving_default": signature},
            main_op=tf.local_variables_initializer())
        builder.add_meta_graph(["train", "gpu"])
        builder.save()
    feed = ["--signature", "serving_default", "--feed", f"images={x_value.tolist()}"]
    for name in (path, f"{path}/saved_model.pb"):
        found = fetched(name, *feed)["scores"]
        assert np.abs(found - want).max() < 1e-6, found
    fact = json.loads(brood("graph", path, "--tags", "gpu,train", "--json"))
    assert fact["signatures"] == {} and fact["restored"], fact


def save_and_restore(program, path, definition, again):
    """The graph's own nodes save the values of the checkpoint, and restore them."""
    import numpy as np
    fed = {definition.filename_tensor_name: np.array(again.encode(), object)}
    restore = definition.restore_op_name
    how = {"fetches" if ":" in definition.save_tensor_name else "targets":
           [definition.save_tensor_name]}
    run_meta.run_meta(program, path, [{"feeds": fed, **how},
                                      {"feeds": fed, "targets": [restore]}])


def check_shards(tf, program, folder):
    """A Saver of checkpoints in shards, whose nodes write them part by part and merge them."""
    with tf.Graph().as_default(), tf.Session() as session:
        for task, resource in enumerate((False, True)):
            with tf.device("/device:CPU:0" if task == 0 else ""):
                tf.get_variable(f"v{task}", initializer=[1.5, task], use_resource=resource)
        saver = tf.train.Saver(sharded=True)
        session.run(tf.global_variables_initializer())
        want = values(session, tf)
        path = saver.save(session, f"{folder}/shards")
        operations = {op.type for op in session.graph.get_operations()}
        assert {"ShardedFilename", "MergeV2Checkpoints"} <= operations
        again = f"{folder}/shards-again"
        save_and_restore(program, path, saver.as_saver_def(), again)
        for v in tf.global_variables():
            session.run(tf.assign(v, tf.zeros_like(v)))
        saver.restore(session, again)
        assert same(values(session, tf), want)


# TensorFlow 2's own interface needs a process in which version 1's was not used.
MODEL = """
import sys, tensorflow as tf
class Model(tf.Module):
    def __init__(self):
        self.w, self.b = tf.Variable([[1.0], [2.0]]), tf.Variable(3.0)
    @tf.function(input_signature=[tf.TensorSpec([None, 2])])
    def __call__(self, x):
        return x @ self.w + self.b
model = Model()
tf.saved_model.save(model, sys.argv[1])
"""


def check_saver_of_version_2(tf, program, folder):
    """The nodes with which a SavedModel of TensorFlow 2 saves and restores."""
    import numpy as np
    path, again = f"{folder}/model2", f"{folder}/again2"
    subprocess.run([sys.executable, "-c", MODEL, path], check=True, stderr=subprocess.DEVNULL)
    with tf.Graph().as_default(), tf.Session() as session:
        definition = tf.saved_model.load(session, ["serve"], path).saver_def
    save_and_restore(program, path, definition, again)
    want, found = map(tf.train.NewCheckpointReader, (f"{path}/variables/variables", again))
    shapes = want.get_variable_to_shape_map()
    assert found.get_variable_to_shape_map() == shapes and len(shapes) == 3, shapes
    for name in shapes:  # what the objects are called is empty in the nodes
        if name != "_CHECKPOINTABLE_OBJECT_GRAPH":
            assert np.array_equal(found.get_tensor(name), want.get_tensor(name)), name


def check_half(tf, program, folder, dtype):
    """Fed, computed with, trained and fetched. TensorFlow's kernels, too, use float32 inside."""
    import numpy as np
    rng = np.random.default_rng(5)
    x_value = rng.standard_normal((6, 4)).astype(np.float32)
    np.save(f"{folder}/x.npy", x_value)
    with tf.Graph().as_default(), tf.Session() as session:
        x = tf.placeholder(dtype, [None, 4], name="x")
        w = tf.get_variable("w", initializer=tf.cast(
            rng.standard_normal((4, 3)).astype(np.float32), dtype), use_resource=False)
        y = tf.nn.relu(x @ w + tf.cast(0.1, dtype))
        outputs = [y, tf.cast(y, tf.float32), tf.maximum(y, -y) * y, tf.reduce_max(y, 1),
                   tf.concat([y, y], 1)]
        loss = tf.reduce_mean(tf.cast(y, tf.float32) ** 2)
        train = tf.train.GradientDescentOptimizer(0.1).minimize(loss)
        shown = tf.cast(w, tf.float32, name="shown")
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, f"{folder}/{dtype}")
        feed = {x: x_value.astype(x.dtype.as_numpy_dtype)}
        want = dict(zip([t.name for t in outputs], session.run(outputs, feed)))
        for _ in range(3):
            session.run(train, feed)
        trained = session.run(shown)
    args = [f"{folder}/{dtype}", "--feed", f"x=@{folder}/x.npy"]
    found = fetched(*args, *[word for name in want for word in ("--fetch", name)])
    for name, value in want.items():
        off = np.abs(found[name] - value.astype(np.float64)).max()
        assert off <= 2 * HALVES[dtype] * np.abs(found[name]).max(), (dtype, name, off)
    found = fetched(*args, *["--target", train.name] * 3, "--fetch", shown.name)
    off = np.abs(found[shown.name] - trained).max()
    assert off <= 2 * HALVES[dtype] * np.abs(trained).max(), (dtype, off)


def main():
    tf, program = peers.load_tensorflow(), sys.argv[1]
    with tempfile.TemporaryDirectory() as folder:
        checks = [(check_v1, False), (check_v1, True), (check_saved_model,),
                  (check_shards,), (check_saver_of_version_2,),
                  *((check_half, h) for h in HALVES)]
        for check, *args in checks:
            check(tf, program, folder, *args)
            print("ok -", check.__name__, *args, flush=True)


if __name__ == "__main__":
    main()
