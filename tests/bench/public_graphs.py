#!/usr/bin/env python3
"""Graphs of public repositories, which TensorFlow wrote for other people: does brood load them, and
does it compute and train as TensorFlow does?

    tests/bench/public_graphs.py [NAME...] [--mirror DIR] [--cache DIR] [--brood-only]

takes the files that public_graphs.json lists from https://github.com into a cache folder, checks
their SHA-256, and prints a line for each graph and one of counts. NAME: only graphs whose address
or path has this in it. --mirror: takes the files from clones in DIR, named OWNER/NAME or
OWNER+NAME, first. Needs TensorFlow (tests/support/peers.py); --brood-only says without it what
`brood inspect` and `brood graph` say.

What is compared: all tensors that depend on variables or on what is fed, but not on a write, and
that a session can fetch; then each training operation is run once, and all variables are compared.
Values: those of the checkpoint, or, where none is listed, those that the graph's own initialisers
gave TensorFlow. Feeds are drawn, by the placeholders' types and shapes; the list has what cannot
be derived. What random operations, queues, datasets and Python functions give is fed, too.
Errors are relative to a tensor's largest element. Where one is large, TensorFlow computes again
with feeds and variables that are changed in their last places, or repeats the step: a tensor that
moves as much there (Adam's first step by a gradient of almost 0), or that is the small difference
of large numbers, does not count as different.

    tests/bench/public_graphs.py --mirror DIR --add OWNER/NAME COMMIT PATH

prints the line for the list of a graph that is in a clone. PATH is what `brood graph` takes: the
prefix of a checkpoint, a .pb file, or the folder of a SavedModel.
"""
import argparse
import collections
import hashlib
import json
import os
import pathlib
import re
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE.parent / "support"), str(HERE.parent / "tensorflow")]
import peers
from exchange import difference, downstream, is_write, upstream

BUILD = pathlib.Path(os.environ.get("BROOD_BUILD_DIR", ROOT / "build"))
BROOD, RUN_META = BUILD / "supervisor" / "brood", BUILD / "tests" / "support" / "run_meta"
LIST = HERE / "public_graphs.json"
ROWS = 3  # what a dimension is that nobody knows
COMPUTED, TRAINED = 1e-5, 1e-4  # larger errors are differences, unless TensorFlow itself ...
CANCELS = 1e-6
LAST_PLACE, MOVES = 5e-7, 20  # ... moves by a 20th of them if its inputs do so by this
MAX_ELEMENTS, MAX_ALL = 1 << 20, 1 << 23  # of a tensor, and of all, that are compared
MAX_TARGETS = 8
SECONDS = 100  # for one run of TensorFlow
VARIABLES = ("Variable", "VariableV2", "VarHandleOp", "AutoReloadVariable")
PLACEHOLDERS = ("Placeholder", "PlaceholderV2")
# What they give is fed: it is drawn, read from files, or computed by Python.
SOURCES = ("IteratorGetNext", "IteratorGetNextSync", "QueueDequeue", "QueueDequeueV2",
           "QueueDequeueMany", "QueueDequeueManyV2", "QueueDequeueUpTo", "QueueDequeueUpToV2",
           "PyFunc", "PyFuncStateless", "EagerPyFunc", "ReaderRead", "ReaderReadV2", "ReadFile",
           "Unstage")
RANDOM = ("RandomUniform", "RandomUniformInt", "RandomStandardNormal", "TruncatedNormal",
          "Multinomial", "RandomGamma", "RandomShuffle", "RandomPoisson", "RandomPoissonV2",
          "ParameterizedTruncatedNormal", "RandomCrop")
SKIPPED_OPS = ("Assert", "Print", "PrintV2", "SaveV2", "RestoreV2", "Save", "Restore",
               "SaveSlices", "RestoreSlice", "ShardedFilename", "MergeV2Checkpoints",
               "MatchingFiles", "WriteFile", "NoOp")


class Skipped(Exception):
    """Why a graph is not tried."""


# ---- files ----

def git_dir(mirror, repository):
    for name in (repository, repository.replace("/", "+")):
        for inner in ("", ".git", "repo", "repo/.git"):
            path = mirror / name / inner
            if (path / "objects").is_dir():
                return path
    return None


def from_mirror(mirror, repository, commit, path):
    found = git_dir(mirror, repository) if mirror else None
    if found is None:
        return None
    p = subprocess.run(["git", f"--git-dir={found}", "cat-file", "blob", f"{commit}:{path}"],
                       capture_output=True, check=False)
    return p.stdout if p.returncode == 0 else None


def from_github(repository, commit, path):
    url = f"https://raw.githubusercontent.com/{repository}/{commit}/{urllib.parse.quote(path)}"
    try:
        with urllib.request.urlopen(url, timeout=60) as f:
            return f.read()
    except (urllib.error.URLError, OSError) as e:
        raise Skipped(f"{url}: {e}") from None


def fetch(entry, mirror, cache):
    """The path of the graph, with all its files there."""
    folder = cache / entry["repository"] / entry["commit"]
    for path, want in entry["files"].items():
        there = folder / path
        if there.is_file() and sha256(there.read_bytes()) == want:
            continue
        data = from_mirror(mirror, entry["repository"], entry["commit"], path)
        if data is None:
            data = from_github(entry["repository"], entry["commit"], path)
        if sha256(data) != want:
            raise Skipped(f"{path} has another SHA-256 than the list")
        there.parent.mkdir(parents=True, exist_ok=True)
        there.write_bytes(data)
    return f"{folder}/{entry['graph']}"


def sha256(data):
    return hashlib.sha256(data).hexdigest()


def describe(mirror, repository, commit, graph):
    """An entry of the list."""
    found = git_dir(mirror, repository)
    if found is None:
        sys.exit(f"there is no clone of {repository} in {mirror}")

    def git(*words):
        return subprocess.run(["git", f"--git-dir={found}", *words], capture_output=True,
                              check=False)
    commit = git("rev-parse", f"{commit}^{{commit}}").stdout.decode().strip()
    tree = git("-c", "core.quotepath=off", "ls-tree", "-r", "--name-only",
               commit).stdout.decode().splitlines()
    folder = f"{graph}/" if graph else ""
    ours = [p for p in tree if p == graph or p in (f"{graph}.meta", f"{graph}.index") or
            p.startswith(f"{graph}.data-") or p == f"{folder}saved_model.pb" or
            p.startswith((f"{folder}variables/", f"{folder}assets/"))]
    files = {}
    for path in ours:
        p = git("cat-file", "blob", f"{commit}:{path}")
        if p.returncode == 0 and not p.stdout.startswith(b"version https://git-lfs"):
            files[path] = sha256(p.stdout)
    data = [p for p in ours if ".data-" in p]
    if not data or any(p not in files for p in data):  # too large for the clone
        files = {p: s for p, s in files.items() if not p.endswith(".index") and p not in data}
    return {"repository": repository, "commit": commit, "graph": graph, "files": files}


# ---- what brood says ----

def ask_brood(*words):
    p = subprocess.run([BROOD, *map(str, words)], capture_output=True, text=True, check=False)
    return p.returncode, p.stdout, p.stderr.strip()


def look(path):
    """What `brood graph` says of it: (its facts, the operations of nodes that do not run)."""
    code, out, said = ask_brood("graph", path, "--json")
    if code != 0:
        return None, said
    facts = json.loads(out.splitlines()[0])
    cannot = set(facts["cannot_run"])
    code, out, said = ask_brood("graph", path, "--json", "--nodes")
    if code != 0:
        return None, said
    nodes = [json.loads(line) for line in out.splitlines()]
    facts["operations"] = sorted({n["op"] for n in nodes})
    facts["refused"] = collections.Counter(n["op"] for n in nodes if n["name"] in cannot)
    return facts, ""


def inspect(path):
    code, out, said = ask_brood("inspect", path, "--json")
    return (len(out.splitlines()), "") if code == 0 else (None, said)


# ---- TensorFlow's side ----

def levels(graph):
    """How many loops and branches each operation is inside of. Sessions cannot fetch there."""
    ret, todo = {}, [(op, iter(())) for op in ()]
    loop_merges = set()
    for op in graph.get_operations():
        if op.type in ("NextIteration", "RefNextIteration"):
            loop_merges |= {c for o in op.outputs for c in o.consumers()}
    loop_switches = {op for op in graph.get_operations() if op.type in ("Switch", "RefSwitch")
                     and op.inputs[1].op.type == "LoopCond"}

    def inputs(op):
        return [x for x in [*(t.op for t in op.inputs), *op.control_inputs]
                if x.type not in ("NextIteration", "RefNextIteration")]

    for begin in graph.get_operations():
        todo.append((begin, iter(inputs(begin))))
        while todo:
            op, rest = todo[-1]
            if op in ret:
                todo.pop()
                continue
            nxt = next((x for x in rest if x not in ret), None)
            if nxt is not None:
                todo.append((nxt, iter(inputs(nxt))))
                continue
            level = max((ret[x] for x in inputs(op)), default=0)
            if op.type in ("Enter", "RefEnter"):
                level += 1
            elif op.type in ("Exit", "RefExit"):
                level -= 1
            elif op.type in ("Switch", "RefSwitch") and op not in loop_switches:
                level += 1
            elif op.type in ("Merge", "RefMerge") and op not in loop_merges:
                level -= 1
            ret[op] = max(level, 0)
            todo.pop()
    return ret


def forget_shapes(graph_def):
    """TensorFlow 2 refuses some shapes that version 1 noted. Those of placeholders are kept: until
    version 1.1 nothing else says them."""
    for node in graph_def.node:
        noted = node.attr.get("_output_shapes")
        if node.op == "Placeholder" and noted is not None and noted.list.shape:
            node.attr["shape"].shape.CopyFrom(noted.list.shape[0])
        node.attr.pop("_output_shapes", None)


def reason(e):
    """What an error of a session says, in one line."""
    lines = [x.strip() for x in str(e).splitlines()]
    said = [x for x in lines if x and not x.startswith(
        ("Graph execution error", "Detected at node", "Node:", "[[", "Original stack"))]
    return (said or lines or [type(e).__name__])[0][:150]


def array(value):
    import numpy as np
    return np.asarray(value, object if isinstance(value, bytes) else None)


class Reference:
    """A graph in TensorFlow, with its values: what there is to feed, to fetch and to run."""

    def __init__(self, tf, entry, path):
        self.tf, self.entry, self.path = tf, entry, path
        self.graph = tf.Graph()
        plain = tf.ConfigProto()  # each of the many runs would be optimised anew
        plain.operation_timeout_in_ms = 1000 * SECONDS  # some wait for queues
        plain.graph_options.rewrite_options.disable_meta_optimizer = True
        self.session = tf.Session(graph=self.graph, config=plain)
        with self.graph.as_default():
            self.load()
        self.ops = self.graph.get_operations()
        self.levels = levels(self.graph)
        self.variables = [op for op in self.ops if op.type in VARIABLES and
                          self.levels[op] == 0]
        self.failed = {}  # operation: why it cannot be had in TensorFlow itself

    def load(self):
        tf, path = self.tf, self.path
        if os.path.isfile(f"{path}/saved_model.pb"):
            tags = self.entry.get("tags", ["serve"])
            tf.saved_model.load(self.session, tags, path)
        elif os.path.isfile(path) and not os.path.isfile(f"{path}.meta"):
            g = tf.GraphDef()
            g.ParseFromString(pathlib.Path(path).read_bytes())
            forget_shapes(g)
            tf.import_graph_def(g, name="")
        else:
            g = tf.MetaGraphDef()
            g.ParseFromString(pathlib.Path(f"{path}.meta").read_bytes())
            forget_shapes(g.graph_def)
            g.meta_info_def.tensorflow_version = ""  # "0.12.head" cannot be parsed
            saver = tf.train.import_meta_graph(g, clear_devices=True)
            if saver is not None and (os.path.isfile(path) or os.path.isfile(f"{path}.index")):
                saver.restore(self.session, path)

    def close(self):
        self.session.close()

    # -- variables --

    def writer(self, v):
        """The operation that initialises a variable."""
        consumers = [c for x in v.outputs for c in x.consumers()]
        found = [c for c in consumers if c.type in ("Assign", "AssignVariableOp") and
                 c.inputs[0].op is v]
        own = [c for c in found if c.name in (f"{v.name}/Assign",
                                              f"{v.name}/AssignVariableOp")]
        return (own or sorted(found, key=lambda c: self.ops.index(c)) or [None])[0]

    def reader(self, v):
        """The tensor that shows a variable in both programs; None: there is none."""
        if v.type != "VarHandleOp":
            return v.outputs[0]
        for c in v.outputs[0].consumers():
            if c.type == "ReadVariableOp" and self.levels[c] == 0 and not c.control_inputs:
                return c.outputs[0]
        return None

    def initialise(self):
        """Gives values to variables that the checkpoint has none for; returns them."""
        missing = [v for v in self.variables if self.reader(v) is not None and
                   self.value(self.reader(v)) is None]
        todo = [v for v in missing if self.writer(v) is not None]
        while todo:
            left = []
            for v in todo:
                try:
                    self.session.run(self.writer(v))
                except Exception:  # depends on another one
                    left.append(v)
            if len(left) == len(todo):
                break
            todo = left
        return [v for v in missing if v not in todo and self.writer(v) is not None]

    def value(self, tensor, feeds=None):
        try:
            return self.session.run(tensor, feeds)
        except Exception:
            return None

    # -- feeds --

    def draw(self, rng, tensor, rows):
        """A value for a tensor that is to be fed; None: none of its type."""
        import numpy as np
        said = self.entry.get("feeds", {}).get(tensor.name, {})
        base, dtype = tensor.dtype.base_dtype, tensor.dtype.base_dtype.as_numpy_dtype
        if not isinstance(said, dict):
            return np.array(said, object if base == "string" else dtype)
        name = tensor.name.lower()
        known = tensor.shape.as_list() if tensor.shape.rank is not None else []  # mostly scalars
        shape = said.get("shape", [rows if d is None else d for d in known])
        if base == "string":
            return np.full(shape, b"", object)
        if base == "bool":
            return np.zeros(shape, bool)
        if base.is_integer and not base.is_quantized:
            return np.asarray(rng.integers(said.get("low", 0), said.get("high", 2),
                                           shape)).astype(dtype)
        if base not in ("float16", "bfloat16", "float32", "float64"):
            return None
        if shape == [] and "low" not in said:
            return np.array(1 if re.search("keep|prob", name) else 0 if "drop" in name else
                            1e-3 if re.search("lr|rate", name) else 0.5, dtype)
        low, high = said.get("low", 0), said.get("high", 1)
        return np.asarray(low + (high - low) * rng.random(shape)).astype(dtype)

    def feeds(self, rows):
        """{tensor: value} for all placeholders and sources, and those without a value."""
        import numpy as np
        rng, ret, unknown = np.random.default_rng(3), {}, []
        for op in self.ops:
            if op.type in PLACEHOLDERS + SOURCES and self.levels[op] == 0:
                for x in op.outputs:
                    value = self.draw(rng, x, rows)
                    if value is None:
                        unknown.append(x)
                    else:
                        ret[x] = value
        return ret, unknown

    def add_random(self, feeds, wanted):
        """Draws what random operations give, so that both get the same."""
        new = [op.outputs[0] for op in upstream(wanted)
               if op.type in RANDOM and self.levels[op] == 0 and op.outputs[0] not in feeds]
        values = self.value(new, feeds) or [self.value(x, feeds) for x in new]
        feeds.update({x: v for x, v in zip(new, values) if v is not None})

    # -- what to ask for --

    def forward(self, feeds, without):
        """All tensors that can be fetched and compared."""
        fed = {x.op for x in feeds}
        begins = fed | set(self.variables)
        decided = downstream(self.graph, lambda op: op in begins)
        late = downstream(self.graph, lambda op: is_write(op) or op in without or
                          op.name == "saver_filename")  # of TensorFlow 2's SavedModels
        initial = {x for v in self.variables if self.writer(v) is not None
                   for x in upstream([self.writer(v)])}
        numeric = ("float32", "float64", "float16", "int32", "int64", "bool", "uint8", "int8",
                   "int16", "uint16", "string", "bfloat16")
        ret = []
        for op in self.ops:
            if op not in decided or op in late or op in fed or self.levels[op] > 0 or \
                    op.type in VARIABLES + SKIPPED_OPS + RANDOM + PLACEHOLDERS + SOURCES or \
                    (op in initial and not any(x in fed for x in upstream([op]))) or \
                    op.type in ("Enter", "Switch", "NextIteration", "RefSwitch", "RefEnter"):
                continue
            if "Summary" not in op.type:  # their text has all digits
                n = 3 if op.type.startswith("FusedBatchNorm") else None  # then what is reserved
                ret += [x for x in op.outputs[:n] if x.dtype in numeric]
        return ret

    def targets(self):
        """The operations that train, each once."""
        if "targets" in self.entry:
            return [self.graph.get_operation_by_name(n) for n in self.entry["targets"]]
        listed = [x for x in self.graph.get_collection("train_op")
                  if isinstance(x, type(self.ops[0]))]
        if listed:
            return listed[:MAX_TARGETS]
        updates = [op for op in self.ops
                   if re.match(r"(Resource|Sparse|ResourceSparse)*Apply", op.type) and
                   self.levels[op] == 0]
        by_control = collections.defaultdict(list)
        for op in self.ops:
            for c in op.control_inputs:
                by_control[c].append(op)

        def last(op):
            """The group that minimize() returns."""
            for c in by_control[op]:
                if c.type in ("NoOp", "AssignAdd", "AssignAddVariableOp") and \
                        self.levels[c] == 0 and not c.name.endswith("/init"):
                    return last(c) if c.type == "NoOp" and c is not op else c
            return op
        return list(dict.fromkeys(last(op) for op in updates))[:MAX_TARGETS]

    def reset(self, before):
        """Gives variables their values back."""
        for v, value in before.items():
            if self.writer(v) is not None:
                self.session.run(self.writer(v), {self.writer(v).inputs[1]: value})

    def step_in_order(self, target, feeds, variables):
        """Runs a target as if all variables were read before any is written. TensorFlow 1's
        graphs do not say so, and its threads write some too early."""
        reads = {c.outputs[0]: self.value(v.outputs[0]) for v in variables
                 if v.type != "VarHandleOp" for c in v.outputs[0].consumers()
                 if c.type == "Identity" and not c.control_inputs}
        self.session.run(target, {**reads, **feeds})

    def nudged(self, rng, before, feeds):
        """The same values, changed in their last places."""
        import numpy as np

        def nudge(a):
            a = np.asarray(a)
            if a.dtype.kind != "f":
                return a
            return (a * (1 + LAST_PLACE * rng.uniform(-1, 1, a.shape))).astype(a.dtype)
        return ({v: nudge(a) for v, a in before.items()},
                {x: nudge(a) if a.ndim else a for x, a in feeds.items()})

    def fetch_all(self, tensors, feeds):
        """Their values; what TensorFlow cannot compute, and what depends on it, is left out."""
        tensors = list(tensors)
        for _ in range(60):
            if not tensors:
                return {}
            try:
                return dict(zip(tensors, self.session.run(tensors, feeds)))
            except self.tf.errors.OpError as e:
                bad = {e.op} if e.op is not None else set()
                if not bad:
                    bad = {op for n in re.findall(r"node ([\w./\\-]+)", str(e))
                           for op in self.named(n)}
                why = reason(e)
            except (TypeError, ValueError) as e:
                bad = {op for n in re.findall(r"[\w./-]+", str(e)) for op in self.named(n)}
                why = reason(e)
            bad -= set(self.failed)
            if not bad:
                break
            for op in bad:
                self.failed[op] = why
            lost = downstream(self.graph, lambda op: op in self.failed)
            tensors = [x for x in tensors if x.op not in lost]
        ret = {}
        for x in tensors:  # one by one
            value = self.value(x, feeds)
            if value is not None:
                ret[x] = value
        return ret

    def named(self, name):
        try:
            return [self.graph.get_operation_by_name(name.split(":")[0])]
        except (KeyError, ValueError):
            return []


# ---- both sides ----

def cancels(r, tensor, error, feeds):
    """Whether the error is one of the last places of the operands: a small difference of large
    numbers."""
    import numpy as np
    operands = [x for x in tensor.op.inputs if x.dtype.base_dtype == tensor.dtype.base_dtype]
    values = r.value(operands, feeds) if tensor.op.type in ("Add", "AddV2", "Sub", "AddN") else []
    return bool(values) and error <= CANCELS * max(np.abs(v).max(initial=0) for v in values)


class Comparison:
    """What became of one graph."""

    def __init__(self, tf, entry, path, facts):
        self.entry, self.path, self.facts = entry, path, facts
        self.tf = tf
        self.refusals = collections.Counter()
        self.forward = self.step = 0.0
        self.worst = ["", ""]
        self.n_asked = self.n_compared = self.n_targets = self.n_trained = 0
        self.notes = []
        self.large = {}, {}  # errors of tensors, and of variables, that are large
        self.moved = self.raced = 0
        self.ours = {}  # variables after training

    def run(self):
        import numpy as np
        r = Reference(self.tf, self.entry, self.path)
        try:
            ours = set(r.initialise())
            rows, feeds = self.choose_rows(r)
            given = [v for v in r.variables if r.reader(v) is not None]
            before = {v: r.value(r.reader(v)) for v in given}
            given = [v for v in given if before[v] is not None]
            lacking = [v for v in r.variables if v not in given]
            targets = r.targets()
            r.add_random(feeds, targets)
            _, without = r.feeds(rows)
            blocked = {x.op for x in without} | set(lacking)
            fetches = r.forward(feeds, blocked)
            r.add_random(feeds, [x.op for x in fetches])
            theirs = r.fetch_all(fetches, feeds)
            theirs = self.limit(r, theirs)
            self.n_asked = len(fetches)
            if r.failed:
                self.notes.append(f"{len(r.failed)} operations fail in TensorFlow: "
                                  f"{next(iter(r.failed.values()))}")
            if not theirs:
                self.notes.append("no tensor can be computed with what is fed")
            trained, after = [], None
            for target in targets:
                try:
                    r.session.run(target, feeds)
                    trained.append(target)
                except Exception as e:
                    self.notes.append(f"{target.name} fails in TensorFlow: {reason(e)}")
            if trained:
                after = {v: r.value(r.reader(v)) for v in given}
            self.n_targets = len(trained)
            self.compare(r, np, ours, given, before, feeds, theirs, trained, after)
            if any(self.large):
                self.judge(r, before, feeds, theirs, trained, after)
        finally:
            r.close()

    def choose_rows(self, r):
        """The number of rows with which most can be computed."""
        if "rows" in self.entry:
            rows = self.entry["rows"]
            return rows, r.feeds(rows)[0]
        sizes = {ROWS, 1}
        for op in r.ops:
            if op.type in PLACEHOLDERS and op.outputs[0].shape.rank:
                d = op.outputs[0].shape.as_list()[0]
                if d is not None and d <= 512:
                    sizes.add(d)
        best = None
        unknown = any(op.outputs[0].shape.rank is None or None in op.outputs[0].shape.as_list()
                      for op in r.ops if op.type in PLACEHOLDERS)
        for rows in sorted(sizes, key=lambda n: (n != ROWS, n)) if unknown else [ROWS]:
            feeds, without = r.feeds(rows)
            tensors = r.forward(feeds, {x.op for x in without})
            r.add_random(feeds, [x.op for x in tensors])
            n = len(r.fetch_all(tensors, feeds))
            failed, r.failed = len(r.failed), {}
            if best is None or n > best[0]:
                best = n, rows
            if failed == 0:
                break
        return best[1], r.feeds(best[1])[0]

    def limit(self, r, values):
        """As many as both programs can exchange in a reasonable time; outputs first."""
        import numpy as np
        order = sorted(values, key=lambda x: (len(x.consumers()) > 0, np.size(values[x])))
        left, ret = MAX_ALL, {}
        for x in order:
            n = np.size(values[x])
            if n <= MAX_ELEMENTS and n <= left:
                left -= n
                ret[x] = values[x]
        return {x: ret[x] for x in values if x in ret}

    def compare(self, r, np, ours, given, before, feeds, theirs, trained, after):
        from run_meta import Failed
        tensors = list(theirs)
        named = {x.name: v for x, v in feeds.items()}
        begin = [{"feeds": {r.writer(v).inputs[1].name: before[v]},
                  "targets": [r.writer(v).name]} for v in given if v in ours]
        reads = [r.reader(v).name for v in given]
        while True:
            used = {x.op for x in feeds} & upstream([x.op for x in tensors])
            runs = begin + [{"fetches": reads},
                            {"feeds": {x.name: v for x, v in feeds.items() if x.op in used},
                             "fetches": [x.name for x in tensors]}]
            answers = self.ask(runs)
            if answers is None:
                return
            bad = next((a for a in answers if isinstance(a, Failed)), None)
            if bad is None:
                break
            at = answers.index(bad)
            if at <= len(begin):  # a variable
                self.refuse(str(bad), "variables")
                if at == len(begin):
                    return
                gone = [v for v in given if v in ours][at]
                given = [v for v in given if v is not gone]
                begin.pop(at)
                reads = [r.reader(v).name for v in given]
                lost = downstream(r.graph, lambda op: op is gone)
            else:
                names = self.culprits(r, str(bad))
                if not names:
                    self.refuse(str(bad), "forward")
                    tensors = []
                    break
                for op in names:
                    self.refuse(str(bad), op.type)
                lost = downstream(r.graph, lambda op: op in names)
            tensors = [x for x in tensors if x.op not in lost]
        for v, a in zip(given, answers[len(begin)]):
            if a.tobytes() != array(before[v]).tobytes() and a.dtype.kind != "O":
                self.notes.append(f"{v.name} has other bytes")
        if tensors:
            for x, a in zip(tensors, answers[-1]):
                self.note_error(0, x, difference(a, array(theirs[x])))
            self.n_compared = len(tensors)
        if not trained:
            return
        needed = {x.name for x in feeds if x.op in upstream(trained)}
        for n in range(len(trained), 0, -1):
            runs = begin + [{"feeds": {k: v for k, v in named.items() if k in needed},
                             "targets": [t.name]} for t in trained] + [{"fetches": reads}]
            answers = self.ask(runs)
            if answers is None:
                return
            bad = next((a for a in answers if isinstance(a, Failed)), None)
            if bad is None:
                break
            self.refuse(str(bad), "training")
            return
        self.n_trained = len(trained)
        self.ours = dict(zip(given, answers[-1]))
        for v, a in self.ours.items():
            self.note_error(1, v, difference(a, array(after[v])))

    def ask(self, runs):
        from run_meta import answers
        try:
            return answers(str(RUN_META), str(self.path), runs)
        except subprocess.CalledProcessError as e:
            self.refuse((e.stderr or f"run_meta: exit code {e.returncode}").strip(), "program")
            return None

    def culprits(self, r, message):
        return [op for n in re.findall(r"[\w./\\-]+", message) for op in r.named(n)][:1]

    def refuse(self, message, what):
        self.refusals[message.splitlines()[-1][:200]] += 1

    def note_error(self, i, what, error):
        if error > (TRAINED if i else COMPUTED):
            self.large[i][what] = error
        else:
            self.count(i, what, error)

    def count(self, i, what, error):
        if i and error > self.step:
            self.step, self.worst[i] = error, what.name
        elif not i and error > self.forward:
            self.forward, self.worst[i] = error, what.name

    def judge(self, r, before, feeds, theirs, trained, after):
        """Which of the large errors are differences, and which TensorFlow has with itself: where
        it repeats the step (variables are read while they are written), or from values that are
        changed in their last places."""
        import numpy as np
        moves = collections.Counter()
        rng = np.random.default_rng(4)
        for nudges in (0, 1, 1, 1):
            values, fed = r.nudged(rng, before, feeds) if nudges else (before, feeds)
            r.reset(values)
            again = dict(zip(self.large[0], r.session.run(list(self.large[0]), fed)))
            for target in trained:
                r.session.run(target, fed)
            again.update((v, r.value(r.reader(v))) for v in self.large[1])
            for what, value in again.items():
                was = array(theirs[what] if what in theirs else after[what])
                moves[what] = max(moves[what], difference(array(value), was))
        in_order = {}
        if self.large[1]:
            r.reset(before)
            for target in trained:
                r.step_in_order(target, feeds, self.ours)
            in_order = {v: difference(self.ours[v], array(r.value(r.reader(v))))
                        for v in self.large[1]}
        known = set()  # tensors whose error needs no other reason
        for i, errors in enumerate(self.large):
            for what, error in errors.items():
                if in_order.get(what, error) < min(error, TRAINED) and i == 1:
                    self.raced += 1
                    self.count(1, what, in_order[what])
                elif error <= MOVES * moves[what] or (i == 0 and (
                        cancels(r, what, error * np.abs(theirs[what]).max(), feeds) or
                        any(x in known for x in what.op.inputs))):
                    self.moved += 1
                    known.add(what)
                else:
                    self.count(i, what, error)

    def line(self):
        differs = self.forward > COMPUTED or self.step > TRAINED
        state = "differs" if differs else "partly" if self.refusals else \
            "same" if self.n_compared else "loaded"
        f = self.facts
        parts = [f"{f['nodes']} nodes, {len(f['operations'])} operations",
                 f"{f['runnable']} of {f['fetchable']} run",
                 f"{self.n_compared} of {self.n_asked} tensors {self.forward:.1g}"]
        if self.n_targets:
            parts.append(f"{self.n_trained} of {self.n_targets} steps {self.step:.1g}")
        if differs:
            parts.append(f"most in {', '.join(w for w in self.worst if w)}")
        if self.moved:
            parts.append(f"{self.moved} more as unstable in TensorFlow")
        if self.raced:
            parts.append(f"{self.raced} variables as in TensorFlow if it reads before it writes")
        parts += [f"refused: {m}" for m in self.refusals]
        return state, "; ".join(parts)


# ---- the command ----

def title(entry):
    return f"{entry['repository']}@{entry['commit'][:7]} {entry['graph'] or '.'}"


def try_graph(tf, entry, options):
    """(state, what to say)"""
    if "skip" in entry:
        return "skipped", entry["skip"]
    try:
        path = fetch(entry, options.mirror, options.cache)
    except Skipped as e:
        return "skipped", str(e)
    facts, said = look(path)
    if facts is None:
        return "not loaded", said
    if any(".index" in f for f in entry["files"]):
        n, said = inspect(path)
        if n is None:
            return "not loaded", said
    if tf is None:
        return "loaded", (f"{facts['nodes']} nodes, {facts['runnable']} of "
                          f"{facts['fetchable']} run" +
                          "".join(f", {op} does not" for op in facts["refused"]))
    c = Comparison(tf, entry, path, facts)
    try:
        c.run()
    except Exception as e:
        if options.trace:
            raise
        return "fails in TensorFlow", f"{type(e).__name__}: {reason(e)}"
    state, said = c.line()
    return state, said + "".join(f"\n    {n}" for n in c.notes if options.verbose)


def main():
    default = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--mirror", type=pathlib.Path, metavar="DIR")
    parser.add_argument("--cache", type=pathlib.Path, metavar="DIR",
                        default=default / "brood" / "public_graphs")
    parser.add_argument("--list", type=pathlib.Path, default=LIST, metavar="FILE")
    parser.add_argument("--brood-only", action="store_true")
    parser.add_argument("--verbose", action="store_true", help="what was left out, and why")
    parser.add_argument("--trace", action="store_true", help="stop at an error of this program")
    parser.add_argument("--add", nargs=3, metavar=("OWNER/NAME", "COMMIT", "PATH"))
    options = parser.parse_args()
    if options.add:
        print(json.dumps(describe(options.mirror, *options.add)))
        return 0
    tf = None
    if not options.brood_only:
        tf = peers.load_tensorflow()
        tf.logging.set_verbosity("FATAL")
        tf.disable_v2_behavior()
    counts = collections.Counter()
    for entry in json.loads(options.list.read_text()):
        if options.names and not any(n in title(entry) for n in options.names):
            continue
        state, said = try_graph(tf, entry, options)
        counts[state] += 1
        print(f"{state} - {title(entry)}: {said}", flush=True)
    print(f"{counts.total()} graphs: " + ", ".join(f"{n} {s}" for s, n in counts.items()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
