#!/usr/bin/env python3
"""Checkpoints and graphs go both ways between brood and TensorFlow.

    tests/tensorflow/exchange.py RUN_META [--all] [NAME...]

Each program of cases_programs.py is saved by TensorFlow, restored by brood, and trained by both;
then brood saves it, and TensorFlow imports that graph and trains on. Short runs of brood
(RUNS) are saved; TensorFlow imports the files of each agent. Everywhere, variables must have the
same names, types and bytes, and what the graph computes, and the variables after training
steps, must be TensorFlow's, but for rounding.

NAME: only these programs and runs. --all: the runs of all shipped configurations, of all
optimisers, and both numerics. BROOD_BUILD_DIR: the build, by default build/. RUN_META:
tests/support/run_meta of it. Without TensorFlow (tests/support/peers.py), exit code 77.
"""
import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE)]
import peers

ROOT = HERE.parents[1]
BROOD = pathlib.Path(os.environ.get("BROOD_BUILD_DIR", ROOT / "build")) / "supervisor" / "brood"
# Of the largest element. Adam divides a gradient by its size, and so the rounding of a small one.
COMPUTED, TRAINED = 3e-6, 3e-5
NOTHING = 1e-8  # what is left of a sum that cancels out
ROWS = 24
SHORT = ["run.env_steps=2000", "evaluation.every_env_steps=0"]
OFF_POLICY = ["experience.warmup=100", "experience.batch_size=32", "experience.update_every=50"]
# name: (configuration, settings)
RUNS = {
    "maddpg": ("simple_spread_maddpg", OFF_POLICY),
    "qmix": ("simple_spread_qmix", OFF_POLICY),
    "mappo": ("simple_spread_mappo", []),
    "isac": ("simple_spread_isac", OFF_POLICY),
}
WRITES = ("Assign", "Apply", "ResourceApply", "Scatter", "Save", "Restore", "MergeV2")


# ---- what to run of a graph of brood ----

def is_write(op):
    return op.type.startswith(WRITES)


def upstream(tensors_or_ops):
    """All operations that these need."""
    todo, seen = list(tensors_or_ops), set()
    while todo:
        op = todo.pop()
        if op not in seen:
            seen.add(op)
            todo += [x.op for x in op.inputs] + list(op.control_inputs)
    return seen


def downstream(graph, begins):
    """All operations that depend on one for which `begins` is true."""
    found, grew = {op for op in graph.get_operations() if begins(op)}, True
    while grew:
        more = {op for op in graph.get_operations() if op not in found and (
            any(x.op in found for x in op.inputs) or any(c in found for c in op.control_inputs))}
        found |= more
        grew = bool(more)
    return found


def ask_of_run(tf, session, rng):
    """What to feed, fetch and train in an agent's graph: everything that its placeholders
    decide."""
    import numpy as np
    graph = session.graph
    placeholders = [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]
    feeds = {x.name: rng.random([ROWS if d is None else d for d in x.shape.as_list()],
                                np.float32) for x in placeholders if x.dtype == tf.float32}
    fed = {x.op for x in placeholders}
    decided = downstream(graph, lambda op: op in fed)
    late = downstream(graph, is_write)
    fetches = [x.name for op in graph.get_operations() if op in decided - late - fed
               for x in op.outputs if x.dtype == tf.float32]
    targets = [op for op in graph.get_operations()
               if op in graph.get_collection("train_op") or
               op.name.split("/")[-1] in ("update_target", "update_targets")]
    for op in upstream([graph.get_tensor_by_name(x).op for x in fetches] + targets):
        if op.type == "RandomUniform":
            x = op.outputs[0]
            feeds[x.name] = session.run(x, feeds)
    return feeds, fetches, [op.name for op in targets]


# ---- both sides ----

def value_name(tf, v):
    """The tensor that reads a variable in both."""
    return v.name if v.op.type == "VariableV2" else f"{v.op.name}/Read/ReadVariableOp:0"


class Sides:
    """One graph and checkpoint in both programs: ask, then `differences`."""

    def __init__(self, tf, args, prefix, native=False):
        self.tf, self.program, self.prefix, self.native = tf, args.program, prefix, native

    def run(self, ask, save_as=None):
        """ask(session): feeds, fetches, targets. Sets theirs and ours: the variables before,
        the fetches, the variables after."""
        from run_meta import Failed, run_meta
        tf = self.tf
        with tf.Graph().as_default(), tf.Session() as session:
            saver = tf.train.import_meta_graph(f"{self.prefix}.meta")
            local = [v.initializer.name for v in tf.local_variables()]
            session.run(local)
            saver.restore(session, self.prefix)
            self.names = [v.op.name for v in tf.global_variables()]
            reads = [value_name(tf, v) for v in tf.global_variables()]
            before = session.run(reads)
            feeds, self.fetches, self.targets = ask(session)
            fetched = session.run(self.fetches, feeds)
            for target in self.targets:
                session.run(target, feeds)
            self.theirs = before, fetched, session.run(reads)
        runs = [{"targets": local}, {"fetches": reads},
                {"feeds": feeds, "fetches": self.fetches}]
        runs += [{"feeds": feeds, "targets": [t]} for t in self.targets]
        self.ours = None
        try:
            got = run_meta(self.program, self.prefix, runs + [{"fetches": reads}], save_as,
                           native=self.native)
            self.ours = got[1], got[2], got[-1]
        except (Failed, subprocess.CalledProcessError) as e:
            self.failure = str(e)

    def differences(self):
        """One line for what differs most of each kind; the largest difference that is
        accepted."""
        if self.ours is None:
            return [self.failure], 0.0
        faults, worst = [], 0.0
        for name, a, b in zip(self.names, self.ours[0], self.theirs[0]):
            if (a.dtype, a.shape, a.tobytes()) != (b.dtype, b.shape, b.tobytes()):
                faults.append(f"{name} is restored with other bytes")
        for what, names, i, tolerance in (("computed", self.fetches, 1, COMPUTED),
                                          ("trained", self.names, 2, TRAINED)):
            off = max(((difference(a, b), n) for n, a, b in zip(names, self.ours[i],
                                                                self.theirs[i])),
                      default=(0.0, ""))
            worst = max(worst, off[0])
            if off[0] > tolerance:
                faults.append(f"{off[1]}, {what}: differs by {off[0]:.1e} of its largest element")
        return faults[:3], worst


def difference(a, b):
    import numpy as np
    if (a.dtype, a.shape) != (b.dtype, b.shape):
        return float("inf")
    if a.dtype.kind != "f":
        return 0.0 if np.array_equal(a, b) else float("inf")
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    with np.errstate(all="ignore"):
        off = np.where(same, 0, np.maximum(np.abs(a.astype(np.float64) - b) - NOTHING, 0))
        scale = np.abs(np.where(np.isfinite(b), b, 0)).max()
    return float(np.nan_to_num(off / max(scale, 1e-30), nan=np.inf).max())


def report(title, sides):
    faults, worst = sides.differences()
    print(f"{'ok' if not faults else 'not ok'} - {title}: {len(sides.names)} variables, "
          f"{len(sides.fetches)} tensors, {len(sides.targets)} steps, {worst:.0e}"
          + "".join(f"\n    {f}" for f in faults), flush=True)
    return not faults


# ---- programs of TensorFlow ----

def save_program(tf, case, dialect, prefix):
    """What to ask of it."""
    import cases
    import dialects
    built = cases.begin(case.name)
    with dialects.using(dialect), tf.Graph().as_default(), tf.Session() as session:
        tf.set_random_seed(1)
        with tf.variable_scope(case.name):
            fetches = case.build()
        session.run(tf.global_variables_initializer())
        tf.train.Saver().save(session, prefix)
        meta = tf.MetaGraphDef.FromString(pathlib.Path(f"{prefix}.meta").read_bytes())
        dialects.strip(dialect, meta)
        pathlib.Path(f"{prefix}.meta").write_bytes(meta.SerializeToString())
        feeds = {x.name: value for x, value in built.feeds.items()}
        names = [x.name for x in (fetches if isinstance(fetches, list) else [fetches])]
        targets = [op if isinstance(op, str) else op.name.split(":")[0]
                   for op, count in built.steps for _ in range(count)]
    return lambda session: (feeds, names, targets)


def check_program(tf, args, folder, case, dialect, native):
    if case.refused:
        print(f"skipped - {case.name}: brood cannot run it: {case.refused}")
        return True
    name = f"{case.name}{', native' if native else ''}"
    prefix, again = f"{folder}/{case.name}", f"{folder}/{case.name}-again"
    ask = save_program(tf, case, dialect, prefix)
    there = Sides(tf, args, prefix, native)
    there.run(ask, save_as=again)
    good = report(f"{name}, saved by TensorFlow", there)
    if there.ours is None:
        return False
    back = Sides(tf, args, again, native)
    back.run(ask)
    good &= report(f"{name}, saved by brood", back)
    if any(a.tobytes() != b.tobytes() for a, b in zip(there.ours[2], back.theirs[0])):
        print(f"not ok - {name}: TensorFlow restores other bytes than brood saved")
        good = False
    return good


# ---- runs of brood ----

def all_runs():
    """Of the shipped configurations that need nothing else, and of all optimisers."""
    ret = {p.stem: (p.stem, []) for p in sorted((ROOT / "configs").glob("*.yaml"))
           if p.stem != "node_critics"}
    for kind in ("sgd", "momentum", "rmsprop", "adam"):
        ret[f"{kind}"] = ("simple_spread_maddpg", [f"defaults.optimizer.type={kind}",
                                                   *OFF_POLICY])
    ret["native"] = ("simple_spread_mappo_wide", ["run.numerics=native"])
    return ret


def check_run(tf, args, folder, name, config, settings):
    import numpy as np
    words = [w for s in SHORT + settings for w in ("--set", s)]
    # shipped configurations name their programs from the project's root
    p = subprocess.run([BROOD, "run", ROOT / "configs" / f"{config}.yaml", "--name", name, "-q",
                        "--runs-dir", f"{folder}/runs", *words], cwd=ROOT, capture_output=True,
                       text=True, check=False)
    if p.returncode != 0:
        print(f"not ok - {name}: {p.stderr.strip()}")
        return False
    steps = pathlib.Path(folder, "runs", name, "checkpoints")
    last = max((d for d in steps.iterdir() if d.name.isdigit()), key=lambda d: int(d.name))
    good = True
    for meta in sorted(last.glob("*/*.meta")):
        sides = Sides(tf, args, str(meta)[:-5], "run.numerics=native" in settings)
        sides.run(lambda session: ask_of_run(tf, session, np.random.default_rng(3)))
        good &= report(f"{name}, {meta.parent.name}", sides)
    return good


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", metavar="RUN_META")
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--all", action="store_true")
    args = parser.parse_intermixed_args()
    tf = peers.load_tensorflow()
    tf.logging.set_verbosity("ERROR")
    tf.disable_v2_behavior()
    import cases
    good = True
    with tempfile.TemporaryDirectory() as folder:
        programs, dialect = cases.load("programs")
        for case in programs:
            for native in ((False, True) if args.all else (False,)):
                if not args.names or case.name in args.names:
                    good &= check_program(tf, args, folder, case, dialect, native)
        for name, (config, settings) in (all_runs() if args.all else RUNS).items():
            if not args.names or name in args.names:
                good &= check_run(tf, args, folder, name, config, settings)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
