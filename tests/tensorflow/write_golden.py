#!/usr/bin/env python3
"""Writes golden/: the graphs of the cases and TensorFlow's values.

    tests/tensorflow/write_golden.py [--check] [--golden FOLDER] [FAMILY...]

--check writes nothing: it compares the values with those in the files, and says where a case is
not in them. --golden: another folder. Without a FAMILY, all. Without TensorFlow (tests/support/peers.py), exit code 77.
"""
import argparse
import os
import pathlib
import sys

import numpy as np

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE)]
import cases
import dialects
import golden_file
import peers


def weights(shape):
    """What the outputs are weighted with in the sum that is differentiated."""
    i = np.arange(int(np.prod(shape)))
    return (((7 * i + 3) % 11 - 5) / 4).reshape(shape)


def floats(tf, tensors):
    return [x for x in tensors if x.dtype.base_dtype.is_floating]


def add_gradients(tf, session, built, fetches, entry):
    """TensorFlow's gradients of the weighted float outputs by the float feeds."""
    ys, xs = floats(tf, fetches), floats(tf, built.feeds)
    if not ys or not xs:
        return
    weighted = {}
    for y in ys:
        value = weights(session.run(y, built.feeds).shape).astype(y.dtype.as_numpy_dtype)
        fed = tf.placeholder(y.dtype.base_dtype, value.shape, name="weights")
        weighted[fed] = value
        entry["of"][y.name] = fed.name
    grads = tf.gradients(ys, xs, grad_ys=list(weighted))
    built.feeds.update(weighted)
    for x, grad in zip(xs, grads):
        entry["gradients"][x.name] = None
        if grad is not None:
            grad = tf.convert_to_tensor(grad)
            value = session.run(grad, built.feeds)
            entry["gradients"][x.name] = [grad.name, golden_file.pack(value)]


def is_random(tensor):
    """Whether random numbers are among what it is computed from."""
    todo, seen = [tensor.op], set()
    while todo:
        op = todo.pop()
        if "Random" in op.type or op.type == "TruncatedNormal":
            return True
        seen.add(op)
        todo += [x.op for x in op.inputs if x.op not in seen]
    return False


def initialise(session, variables):
    """Runs the initialisers: {its name: the tensor to feed and its value, None where that is
    not random}."""
    session.run([v.initializer for v in variables])
    initial = [v.initializer.inputs[1] for v in variables]
    return {v.initializer.name: [x.name, golden_file.pack(session.run(v))] if is_random(x) else None
            for v, x in zip(variables, initial)}


def run_case(tf, session, case):
    """The case's line of the file; its nodes are in the graph then."""
    built = cases.begin(case.name)
    entry = {"name": case.name, "init": {}, "feeds": {}, "fetches": {}, "of": {},
             "gradients": {}, "steps": [], "after": {}}
    (tf.enable_control_flow_v2 if case.functional else tf.disable_control_flow_v2)()
    with tf.variable_scope(case.name):
        before = {v.name for v in tf.global_variables()}
        fetches = case.build()
        fetches = list(fetches) if isinstance(fetches, (list, tuple)) else [fetches]
        variables = [v for v in tf.global_variables() if v.name not in before]
        entry["init"] = initialise(session, variables)
        try:
            values = session.run(fetches, built.feeds)
            assert case.fails is None, "TensorFlow does not fail"
        except tf.errors.OpError:
            if case.fails is None:
                raise
            values = [np.zeros(0)] * len(fetches)
        entry["fetches"] = {x.name: golden_file.pack(v) for x, v in zip(fetches, values)}
        if case.gradients and case.fails is None:
            add_gradients(tf, session, built, fetches, entry)
        for op, count in built.steps:
            op = op if isinstance(op, tf.Operation) else op.op
            entry["steps"].append([op.name, count])
            for _ in range(count):
                session.run(op, built.feeds)
        if built.steps:
            for v in variables:
                read = tf.identity(v, name="after")
                entry["after"][read.name] = golden_file.pack(session.run(read))
    entry["feeds"] = {x.name: golden_file.pack(v) for x, v in built.feeds.items()}
    return {key: value for key, value in entry.items() if value}


def run_family(tf, family):
    """(the MetaGraph's bytes, the cases' lines)"""
    known, dialect = cases.load(family)
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1,
                            use_per_session_threads=True)
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    with dialects.using(dialect), tf.Graph().as_default() as graph, \
            tf.Session(config=config) as session:
        tf.set_random_seed(1)
        entries = []
        for case in known:
            try:
                entries.append(run_case(tf, session, case))
            except Exception:
                print(f"{family}: {case.name}: TensorFlow fails", file=sys.stderr)
                raise
        meta = tf.train.export_meta_graph(graph=graph)
        dialects.strip(dialect, meta)
        return meta.SerializeToString(deterministic=True), entries


def tensors_of(entry):
    """{what: value}"""
    ret = {f"feed {k}": v for k, v in entry.get("feeds", {}).items()}
    ret.update(entry["fetches"])
    ret.update(entry.get("after", {}))
    ret.update({f"gradient by {x}": g and g[1] for x, g in entry.get("gradients", {}).items()})
    return ret


def check(family, entries):
    """The number of cases that are not as in the file."""
    _, written = golden_file.read(family)
    options = {c.name: c for c in cases.load(family)[0]}
    faults = 0
    for entry in entries:
        name, want = entry["name"], written.pop(entry["name"], None)
        why = "is not in the file" if want is None else None
        if want is not None:
            got, want = tensors_of(entry), tensors_of(want)
            if set(got) != set(want):
                why = f"{sorted(set(got) ^ set(want))[0]} is in one of both only"
            for key in want if why is None else []:
                wrong = golden_file.difference(options[name], *(
                    v and golden_file.unpack(v) for v in (got[key], want[key])))
                why = why or (wrong and f"{key}: {wrong}")
        if why:
            print(f"{family}: {name}: {why}")
        faults += bool(why)
    for name in written:
        print(f"{family}: {name}: is in the file, but no case")
    return faults + len(written)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY")
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--golden", type=pathlib.Path, default=golden_file.FOLDER)
    args = parser.parse_args()
    golden_file.FOLDER = args.golden
    if os.environ.get("PYTHONHASHSEED") != "0":  # the order of sets decides that of attributes
        os.environ["PYTHONHASHSEED"] = "0"
        os.execv(sys.executable, [sys.executable, *sys.argv])
    tf = peers.load_tensorflow()
    tf.logging.set_verbosity("ERROR")
    tf.disable_v2_behavior()
    faults = 0
    for family in args.families or cases.families():
        meta, entries = run_family(tf, family)
        if args.check:
            faults += check(family, entries)
        else:
            golden_file.write(family, meta, tf.VERSION, entries)
        print(f"{family}: {len(entries)} cases", flush=True)
    if args.check:
        print(f"TensorFlow {tf.VERSION}: {faults} cases differ from the files; "
              "write_golden.py writes them anew")
    return faults > 0


if __name__ == "__main__":
    sys.exit(main())
