#!/usr/bin/env python3
"""Checkpoints and graphs go both ways between brood and TensorFlow.

    tests/tensorflow/exchange.py RUN_META [--all] [NAME...]

Each program of cases_programs.py is saved by TensorFlow, restored by brood, and trained by both;
then brood saves it, and TensorFlow imports that graph and trains on. Short runs of brood
(RUNS) are saved; TensorFlow imports the files of each agent. Everywhere, variables must have the
same names, types and bytes, and what the graph computes, and the variables after training
steps, must be TensorFlow's, but for rounding. A line for each file, then a table.

NAME: only these programs and runs. --all: programs with both numerics, and the runs of all
shipped configurations, of all optimisers and of recurrent networks, each with both numerics.
BROOD_BUILD_DIR: the build, by default build/. RUN_META: tests/support/run_meta of it. Without
TensorFlow (tests/support/peers.py), exit code 77.
"""
import argparse
import collections
import math
import os
import pathlib
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE.parent / "support"), str(HERE)]
import peers

try:
    import numpy as np
except ImportError:  # then there is no TensorFlow either
    np = None

ROOT = HERE.parents[1]
BROOD = pathlib.Path(os.environ.get("BROOD_BUILD_DIR", ROOT / "build")) / "supervisor" / "brood"
# Of the largest element. The sums of a critic nearly cancel out, and what is left shows their
# rounding. Adam divides a gradient by its size, and so the rounding of a small one.
COMPUTED, TRAINED = 1e-5, 3e-5
ALONE = 1e-4  # computed, of one element: mostly a sum of all, of which less is left
NOTHING = 3e-8  # what is left of a sum of numbers below 1 that cancels out: half a last place
ROWS, SEQUENCES = 24, 4
SHORT = ["run.env_steps=2000", "evaluation.every_env_steps=0"]
OFF_POLICY = ["experience.warmup=100", "experience.batch_size=32", "experience.update_every=50"]
# name: (configuration, settings)
RUNS = {
    "maddpg": ("simple_spread_maddpg", OFF_POLICY),
    "qmix": ("simple_spread_qmix", OFF_POLICY),
    "mappo": ("simple_spread_mappo", []),
    "isac": ("simple_spread_isac", OFF_POLICY),
}
OPTIMISERS = ("adam", "sgd", "momentum", "rmsprop", "accept_reject")
RECURRENT = [(algorithm, cell) for algorithm in ("iql", "vdn", "qmix") for cell in ("gru", "lstm")]
# Draws are fed to both, and TensorFlow's decisions between floats: whether a value is above
# another that is the same but for rounding (PPO's clipped value and its own) is an accident.
DRAWS = {"RandomUniform": lambda rng, shape: rng.random(shape, np.float32),
         "RandomStandardNormal": lambda rng, shape: rng.standard_normal(shape, np.float32)}
DECISIONS = ("Greater", "GreaterEqual", "Less", "LessEqual")
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
    users = collections.defaultdict(list)
    for op in graph.get_operations():
        for source in [*(x.op for x in op.inputs), *op.control_inputs]:
            users[source].append(op)
    todo, found = [op for op in graph.get_operations() if begins(op)], set()
    while todo:
        op = todo.pop()
        if op not in found:
            found.add(op)
            todo += users[op]
    return found


def sequence_of(graph):
    """The Splits of a recurrent network's rows into steps."""
    def dims(x):
        return x.shape.as_list() if x.shape.rank is not None else []

    return [op for op in graph.get_operations() if op.type == "Split" and
            dims(op.inputs[1])[:1] == [None] and dims(op.inputs[1]) == dims(op.outputs[0])]


def acting_of(graph):
    """What computes one step of a recurrent network: as many rows as its carry has, while
    sequences have that many for each of their steps."""
    splits = set(sequence_of(graph))
    learning = downstream(graph, lambda op: op in splits)
    return learning, downstream(graph, lambda op: op.name.endswith("/carry")) & downstream(
        graph, lambda op: op.name.endswith("/observation")) - learning


def ask_of_run(tf, session, rng, acts=False):
    """What to feed, fetch and train in an agent's graph: everything that its placeholders
    decide. Of a recurrent network: acts: of one step; otherwise of sequences."""
    graph = session.graph
    steps = [op.get_attr("num_split") for op in sequence_of(graph)]
    learning, acting = acting_of(graph)
    placeholders = [op.outputs[0] for op in graph.get_operations() if op.type == "Placeholder"]

    def rows(x):
        if acts or not steps:
            return ROWS
        return SEQUENCES if x.op.name.endswith("/carry") else SEQUENCES * math.lcm(*steps)

    feeds = {x.name: rng.random([rows(x) if d is None else d for d in x.shape.as_list()],
                                np.float32) for x in placeholders if x.dtype == tf.float32}
    fed = {x.op for x in placeholders}
    decided = downstream(graph, lambda op: op in fed)
    late = downstream(graph, is_write) | (learning if acts else acting)
    fetches = [x.name for op in graph.get_operations() if op in decided - late - fed
               for x in op.outputs if x.dtype == tf.float32]
    targets = [op for op in graph.get_operations() if not acts and (
               op in graph.get_collection("train_op") or
               op.name.split("/")[-1] in ("update_target", "update_targets"))]
    needed = upstream([graph.get_tensor_by_name(x).op for x in fetches] + targets)
    for op in sorted(needed, key=lambda op: op.name):
        if op.type in DRAWS:
            shape = session.run(op.inputs[0], feeds)
            feeds[op.outputs[0].name] = DRAWS[op.type](rng, shape)
    decisions = [op.outputs[0] for op in decided - late if op.type in DECISIONS and
                 op.inputs[0].dtype == tf.float32]
    feeds.update(zip([x.name for x in decisions], session.run(decisions, feeds)))
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
        """One line for what differs most of each kind; the largest difference of what is
        computed and of what is trained."""
        if self.ours is None:
            return [self.failure], [float("inf")] * 2
        faults, worst = [], []
        for name, a, b in zip(self.names, self.ours[0], self.theirs[0]):
            if (a.dtype, a.shape, a.tobytes()) != (b.dtype, b.shape, b.tobytes()):
                faults.append(f"{name} is restored with other bytes")
        for what, names, i, tolerance in (("computed", self.fetches, 1, COMPUTED),
                                          ("trained", self.names, 2, TRAINED)):
            off = [(difference(a, b), n, b.size) for n, a, b in zip(names, self.ours[i],
                                                                    self.theirs[i])]
            worst.append(max((d for d, _, _ in off), default=0.0))
            faults += [f"{n}, {what}: differs by {d:.1e} of its largest element"
                       for d, n, size in sorted(off, reverse=True)
                       if d > (ALONE if what == "computed" and size == 1 else tolerance)][:1]
        return faults[:3], worst


def difference(a, b):
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


class Table:
    """Sums of what was compared, for each kind of file."""
    HEAD = ("compared", "files", "differ", "variables", "tensors", "steps", "computed", "trained")
    LEGEND = """
variables: restored with the same names, types and bytes. tensors: values that the graph computes;
steps: training steps. computed, trained: the largest difference of such a value, and of a variable
after the steps, as a share of the tensor's largest element; up to {computed:.0e} and
{trained:.0e} it is taken for rounding, and up to {alone:.0e} in a single number, which is what a
sum leaves."""

    def __init__(self):
        self.rows = collections.defaultdict(lambda: [0] * 7)

    def report(self, kind, title, sides):
        """A line for one file."""
        faults, worst = sides.differences()
        counts = len(sides.names), len(sides.fetches), len(sides.targets)
        print(f"{'ok' if not faults else 'not ok'} - {title}: {counts[0]} variables, "
              f"{counts[1]} tensors ({worst[0]:.0e}), {counts[2]} steps ({worst[1]:.0e})"
              + "".join(f"\n    {f}" for f in faults), flush=True)
        row = self.rows[kind]
        for i, n in enumerate((1, bool(faults), *counts)):
            row[i] += n
        row[5:] = map(max, row[5:], worst)
        return not faults

    def fail(self, kind, title, why):
        """What gave no file."""
        print(f"not ok - {title}: {why}", flush=True)
        self.rows[kind][0] += 1
        self.rows[kind][1] += 1
        return False

    def show(self):
        lines = [self.HEAD] + [(kind, *map(str, row[:5]), f"{row[5]:.0e}", f"{row[6]:.0e}")
                               for kind, row in self.rows.items()]
        widths = [max(map(len, column)) for column in zip(*lines)]
        print()
        for first, *others in lines:
            print(first.ljust(widths[0]), *(x.rjust(w) for x, w in zip(others, widths[1:])),
                  sep="  ")
        print(self.LEGEND.format(computed=COMPUTED, trained=TRAINED, alone=ALONE))


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
    table, numerics = args.table, "native" if native else "portable"
    if case.refused:
        print(f"skipped - {case.name}: brood cannot run it: {case.refused}")
        return True
    name = f"{case.name}{', native' if native else ''}"
    prefix, again = f"{folder}/{case.name}", f"{folder}/{case.name}-again"
    ask = save_program(tf, case, dialect, prefix)
    there = Sides(tf, args, prefix, native)
    there.run(ask, save_as=again)
    good = table.report(f"programs saved by TensorFlow, {numerics}",
                        f"{name}, saved by TensorFlow", there)
    if there.ours is None:
        return False
    back = Sides(tf, args, again, native)
    back.run(ask)
    kind = f"the same saved by brood, {numerics}"
    good &= table.report(kind, f"{name}, saved by brood", back)
    if any(a.tobytes() != b.tobytes() for a, b in zip(there.ours[2], back.theirs[0])):
        good = table.fail(kind, name, "TensorFlow restores other bytes than brood saved")
    return good


# ---- runs of brood ----

def all_runs():
    """{kind: {name: (configuration, settings)}}"""
    return {
        "shipped configurations": {p.stem: (p.stem, []) for p in
                                   sorted((ROOT / "configs").glob("*.yaml"))},
        "optimisers": {f"maddpg-{o}": ("simple_spread_maddpg",
                                       [f"defaults.optimizer.type={o}", *OFF_POLICY])
                       for o in OPTIMISERS},
        "recurrent networks": {f"{a}-{cell}": (f"simple_spread_{a}", [
            "defaults.settings.recurrent=16", f"defaults.settings.cell={cell}", *OFF_POLICY])
                               for a, cell in RECURRENT},
    }


def train(folder, name, config, settings):
    """Makes the run; returns why not, if so."""
    words = [w for s in settings for w in ("--set", s)]
    # shipped configurations name their programs from the project's root
    with subprocess.Popen([BROOD, "run", ROOT / "configs" / f"{config}.yaml", "--name", name, "-q",
                           "--runs-dir", f"{folder}/runs", *words], cwd=ROOT, text=True,
                          stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as run:
        if config == "node_critics":  # has no environment, and ends when it is stopped
            while run.poll() is None and not pathlib.Path(folder, "runs", name).exists():
                time.sleep(0.02)
            drive = ["/usr/bin/python3", ROOT / "scripts" / "drive_critics.py",
                     f"{folder}/runs/{name}", "--updates", "20", "--stop"]
            try:
                subprocess.run(drive, check=True, stdout=subprocess.DEVNULL)
            except subprocess.CalledProcessError as e:
                run.terminate()
                return str(e)
        why = run.communicate()[1].strip()
    stopped = 4  # by drive_critics.py
    return None if run.returncode in (0, stopped) else why or f"exit code {run.returncode}"


def check_run(tf, args, folder, kind, name, config, settings):
    short = SHORT if config != "node_critics" else []
    why = train(folder, name, config, short + settings)
    if why is not None:
        return args.table.fail(kind, name, why)
    steps = pathlib.Path(folder, "runs", name, "checkpoints")
    last = max((d for d in steps.iterdir() if d.name.isdigit()), key=lambda d: int(d.name))
    good = True
    for meta in sorted(last.glob("*/*.meta")):
        is_recurrent = b"/carry" in meta.read_bytes()
        for acts in (False, True) if is_recurrent else (False,):
            sides = Sides(tf, args, str(meta)[:-5], "run.numerics=native" in settings)
            sides.run(lambda session, a=acts: ask_of_run(tf, session, np.random.default_rng(3), a))
            good &= args.table.report(kind, f"{name}, {meta.parent.name}"
                                      f"{', one step' if acts else ''}", sides)
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
    args.table = Table()
    good = True
    with tempfile.TemporaryDirectory() as folder:
        programs, dialect = cases.load("programs")
        for case in programs:
            for native in ((False, True) if args.all else (False,)):
                if not args.names or case.name in args.names:
                    good &= check_program(tf, args, folder, case, dialect, native)
        for kind, runs in (all_runs() if args.all else {"runs of brood": RUNS}).items():
            for name, (config, settings) in runs.items():
                for numerics in (("portable", "native") if args.all else ("portable",)):
                    if not args.names or name in args.names:
                        good &= check_run(tf, args, folder, f"{kind}, {numerics}",
                                          f"{name}-{numerics}", config,
                                          [*settings, f"run.numerics={numerics}"])
    args.table.show()
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
