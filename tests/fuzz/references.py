#!/usr/bin/env python3
"""Random graphs of variables, run by brood and by TensorFlow: what sees which write.

    tests/fuzz/references.py RUN_META [--graphs N] [--seed S] [--only N] [--keep FOLDER]

Each graph has a few reference and resource variables, operations that pass their bytes on,
compute with them and write them, control edges, branches (Switch, Merge) and while loops, in
one another. Where the order of a use and a write, or of two writes, of one variable is a race
in TensorFlow, a control edge is added; a graph that still has a race is left out. Each is run
twice by TensorFlow, in one thread and without its graph rewriter, and by run_meta, this
build's session; fetched values and variables must be equal to the last digit, but for the
sign of a zero. A Merge of branches that one variable decided about before and after a write
may be refused.

One graph in twenty more has races, and must end as the rules of agent/plan/uses.h say,
which are computed here.

Without TensorFlow (tests/support/peers.py) the program says so and skips (exit code 77).
A graph is made again by its seed: `--seed S --only N`; --keep leaves its .meta file. The last
line reads `N graphs, N left out, N refused, N differ`.
"""
import argparse
import collections
import pathlib
import random
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "support"))
import peers

BATCH = 12  # graphs in one file, which run together first


# ---- one random graph ----

PASSES = {"Identity", "StopGradient", "Reshape", "ExpandDims", "Squeeze", "PlaceholderWithDefault",
          "Switch", "RefSwitch", "Enter", "RefEnter", "Exit", "NextIteration"}
PARTS = {"ScatterAdd", "ScatterUpdate", "ResourceScatterAdd", "ResourceScatterUpdate"}
WRITES = {"Assign", "AssignAdd", "AssignSub", "ApplyGradientDescent", "ScatterAdd",
          "ScatterUpdate"}
RESOURCE_WRITES = {"AssignVariableOp", "AssignAddVariableOp", "AssignSubVariableOp",
                   "ResourceScatterAdd", "ResourceScatterUpdate"}
RESOURCE_READS = {"ReadVariableOp", "ResourceGather"}
REFUSED = "joins branches that one variable decided about"


class Node:
    __slots__ = ("id", "name", "op", "inputs", "controls", "attrs", "ctx", "back")

    def __init__(self, id, name, op, inputs, ctx, attrs):
        self.id, self.name, self.op, self.inputs, self.ctx = id, name, op, inputs, ctx
        self.controls, self.attrs, self.back = set(), attrs, None


class Context:
    """The top level, a branch of a cond, or the body of a loop."""

    def __init__(self, kind, parent=None, pred=None, branch=0, frame=None):
        self.kind, self.parent, self.frame = kind, parent, frame
        self.pred, self.branch = pred, branch
        self.captured, self.floats, self.bools, self.nodes = {}, [], [], []
        self.pivot = None
        self.enters, self.leaves = [], []  # of a loop; of a cond: its Merges
        self.other = None  # the other branch
        self.depth = 0 if parent is None else parent.depth + 1

    def path(self):
        ctx, ret = self, []
        while ctx is not None:
            ret.append(ctx)
            ctx = ctx.parent
        return ret[::-1]


class Graph:
    def __init__(self, prefix, rng):
        self.prefix, self.rng, self.nodes = prefix, rng, []
        self.top = Context("top")
        self.inits, self.refs, self.handles, self.flags = [], [], [], []
        self.n_frames = 0

    # -- nodes; an output is (node, index) --

    def node(self, op, inputs, ctx, controls=(), **attrs):
        n = Node(len(self.nodes), f"{self.prefix}/n{len(self.nodes)}", op, list(inputs), ctx, attrs)
        n.controls.update(c.id for c in controls)
        self.nodes.append(n)
        ctx.nodes.append(n)
        return n

    def const(self, value, dtype, ctx):
        n = self.node("Const", [], ctx, value=(value, dtype))
        if ctx.pivot is not None:
            n.controls.add(ctx.pivot.id)
        return (n, 0)

    def take(self, x, ctx):
        """The output x as seen from a context, captured on the way in."""
        if x[0].ctx is ctx:
            return x
        key = (x[0].id, x[1])
        if key in ctx.captured:
            return ctx.captured[key]
        outer = self.take(x, ctx.parent)
        ref = outer[0].op in ("VariableV2", "RefSwitch", "RefEnter")
        if ctx.kind == "branch":
            n = self.node("RefSwitch" if ref else "Switch", [outer, ctx.pred], ctx)
            ret = (n, ctx.branch)
        else:
            n = self.node("RefEnter" if ref else "Enter", [outer], ctx, frame_name=ctx.frame,
                          is_constant=True)
            ctx.enters.append(n)
            ret = (n, 0)
        ctx.captured[key] = ret
        return ret

    # -- steps --

    def some_float(self, ctx):
        """A random float tensor that can be used in the context."""
        pool = [(x, c) for c in ctx.path() for x in c.floats]
        # the newest are likelier, so that chains arise
        x, c = pool[max(self.rng.randrange(len(pool)), self.rng.randrange(len(pool)))]
        return self.take(x, ctx)

    def some_bool(self, ctx):
        if self.flags and self.rng.random() < 0.25:
            flag = self.take(self.rng.choice(self.flags), ctx)
            return (self.in_context("Identity", [flag], ctx), 0)
        kind = self.rng.random()
        if kind < 0.4:
            return self.const(self.rng.random() < 0.5, "bool", ctx)
        total = self.in_context("Sum", [self.some_float(ctx), self.const([0], "int32", ctx)], ctx)
        less = self.in_context("Less", [(total, 0), self.const(float(self.rng.randrange(-3, 9)),
                                                               "float", ctx)], ctx)
        return (less, 0)

    def in_context(self, op, inputs, ctx, **attrs):
        """A node that runs only if the context does, with random control inputs."""
        n = self.node(op, inputs, ctx, **attrs)
        if ctx.pivot is not None:
            n.controls.add(ctx.pivot.id)
        if self.rng.random() < 0.3:
            near = [m for m in ctx.nodes[-12:] if m is not n and m.op not in ("Enter", "RefEnter")]
            if near:
                n.controls.add(self.rng.choice(near).id)
        return n

    def step_pass(self, ctx):
        x = self.some_float(ctx)
        op = self.rng.choice(["Identity", "Identity", "StopGradient", "Reshape", "ExpandDims",
                              "PlaceholderWithDefault"])
        if op == "Reshape":
            n = self.in_context(op, [x, self.const([2], "int32", ctx)], ctx)
        elif op == "ExpandDims":
            n = self.in_context(op, [x, self.const(0, "int32", ctx)], ctx)
            n = self.in_context("Squeeze", [(n, 0)], ctx)
        else:
            n = self.in_context(op, [x], ctx)
        ctx.floats.append((n, 0))

    def step_compute(self, ctx):
        op = self.rng.choice(["Add", "Sub", "Maximum", "Neg", "AddN", "Mul", "Slice", "Split",
                              "Square", "Concat"])
        x = self.some_float(ctx)
        if op == "Neg" or op == "Square":
            n = self.in_context(op, [x], ctx)
            if op == "Square":  # keeps the numbers small
                n = self.in_context("Minimum", [(n, 0), self.const([9.0, 7.0], "float", ctx)], ctx)
        elif op == "AddN":
            n = self.in_context(op, [x, self.some_float(ctx), self.some_float(ctx)], ctx)
        elif op == "Mul":
            n = self.in_context(op, [x, self.const([0.5, -0.5], "float", ctx)], ctx)
        elif op == "Slice":
            a = self.in_context(op, [x, self.const([0], "int32", ctx),
                                     self.const([1], "int32", ctx)], ctx)
            n = self.in_context("Sub", [self.some_float(ctx), (a, 0)], ctx)
        elif op == "Split":
            a = self.in_context(op, [self.const(0, "int32", ctx), x], ctx)
            n = self.in_context("ConcatV2", [(a, 1), (a, 0), self.const(0, "int32", ctx)], ctx)
        elif op == "Concat":
            a = self.in_context("ConcatV2", [x, self.some_float(ctx), self.const(0, "int32", ctx)],
                                ctx)
            n = self.in_context("Slice", [(a, 0), self.const([1], "int32", ctx),
                                          self.const([2], "int32", ctx)], ctx)
        else:
            n = self.in_context(op, [x, self.some_float(ctx)], ctx)
        ctx.floats.append((n, 0))

    def some_places(self, ctx):
        return self.const(self.rng.choice([[0, 1], [1, 0], [1, 1]]), "int32", ctx)

    def step_write(self, ctx):
        kind = self.rng.random()
        value = self.some_float(ctx)
        if self.flags and kind < 0.1:
            flag = self.rng.choice(self.flags)
            now = self.in_context("Identity", [self.take(flag, ctx)], ctx)
            value = (self.in_context("LogicalNot", [(now, 0)], ctx), 0)
            self.in_context("Assign", [self.take(flag, ctx), value], ctx)
        elif self.handles and kind < 0.3:
            handle = self.take(self.rng.choice(self.handles), ctx)
            op = self.rng.choice(sorted(RESOURCE_WRITES))
            if op in PARTS:
                self.in_context(op, [handle, self.some_places(ctx), value], ctx)
                return
            # a value of its own: in TensorFlow, the variable would share another's memory
            value = (self.in_context("Neg", [value], ctx), 0)
            self.in_context(op, [handle, value], ctx)
        else:
            ref = self.take(self.rng.choice(self.refs), ctx)
            op = self.rng.choice(sorted(WRITES))
            inputs = [ref, value]
            if op == "ApplyGradientDescent":
                inputs = [ref, self.const(1.0, "float", ctx), value]
            elif op in PARTS:
                if not self.is_flat:  # what a Merge passes on is copied, also the variable itself
                    value = (self.in_context("Neg", [value], ctx), 0)
                inputs = [ref, self.some_places(ctx), value]
            n = self.in_context(op, inputs, ctx)
            if self.rng.random() < 0.6:
                ctx.floats.append((n, 0))

    def step_read(self, ctx):
        if self.handles and self.rng.random() < 0.3:
            handle = self.take(self.rng.choice(self.handles), ctx)
            op = self.rng.choice(sorted(RESOURCE_READS))
            n = self.in_context(op, [handle] + [self.some_places(ctx)] *
                                (op == "ResourceGather"), ctx)
        else:
            n = self.in_context("Identity", [self.take(self.rng.choice(self.refs), ctx)], ctx)
        ctx.floats.append((n, 0))

    def step_group(self, ctx):
        near = ctx.nodes[-10:]
        n = self.in_context("NoOp", [], ctx)
        n.controls.update(m.id for m in near if self.rng.random() < 0.4 and m is not n and
                          m.op not in ("Enter", "RefEnter"))

    def done(self, ctx, x):
        """x, after everything in the context."""
        n = self.node("Identity", [x], ctx)
        if self.rng.random() < 0.8:
            n.controls.update(m.id for m in ctx.nodes if m is not n and m.op not in
                              ("Enter", "RefEnter", "Switch", "RefSwitch"))
        if ctx.pivot is not None:
            n.controls.add(ctx.pivot.id)
        return (n, 0)

    def step_cond(self, ctx):
        pred = self.some_bool(ctx)
        pred = (self.in_context("Identity", [pred], ctx), 0)
        branches = []
        for i in (0, 1):
            b = Context("branch", ctx, pred, i)
            pivot = self.node("Switch", [pred, pred], b)
            b.pivot = self.node("Identity", [(pivot, i)], b)
            branches.append(b)
        branches[0].other, branches[1].other = branches[1], branches[0]
        results = []
        for b in branches:
            self.steps(b, self.rng.randrange(0, 4))
            results.append([self.done(b, self.some_float(b)) for _ in range(2)])
        for k in range(self.rng.choice((1, 1, 2))):
            n = self.node("Merge", [results[0][k], results[1][k]], ctx)
            ctx.floats.append((n, 0))
            for b in branches:
                b.leaves.append(n)

    def step_loop(self, ctx):
        self.n_frames += 1
        b = Context("loop", ctx, frame=f"{self.prefix}/frame{self.n_frames}")
        limit = self.rng.randrange(0, 4)
        n_vars = self.rng.choice((1, 1, 2))
        initial = [self.const(0, "int32", ctx)] + [self.some_float(ctx) for _ in range(n_vars)]
        merges = []
        for x in initial:
            enter = self.node("Enter", [x], b, frame_name=b.frame, is_constant=False)
            b.enters.append(enter)
            merges.append(self.node("Merge", [(enter, 0), (enter, 0)], b))
        at = self.node("Const", [], b, [merges[0]], value=(limit, "int32"))
        goes = (self.node("Less", [(merges[0], 0), (at, 0)], b), 0)
        if self.rng.random() < 0.4:
            axis = self.node("Const", [], b, [merges[0]], value=([0], "int32"))
            most = self.node("Const", [], b, [merges[0]],
                             value=(float(self.rng.randrange(3, 30)), "float"))
            total = self.node("Sum", [(merges[1], 0), (axis, 0)], b)
            less = self.node("Less", [(total, 0), (most, 0)], b)
            goes = (self.node("LogicalAnd", [goes, (less, 0)], b), 0)
        cond = self.node("LoopCond", [goes], b)
        switches = [self.node("Switch", [(m, 0), (cond, 0)], b) for m in merges]
        body = [(self.node("Identity", [(s, 1)], b), 0) for s in switches]
        b.pivot = body[0][0]
        b.floats = body[1:]
        self.steps(b, self.rng.randrange(1, 5))
        one = self.const(1, "int32", b)
        up = (self.node("Add", [body[0], one], b), 0)
        results = [up] + [self.some_float(b) for _ in range(n_vars)]
        ends = [m.id for m in b.nodes if m.op not in ("Enter", "RefEnter") and m not in merges
                and m not in switches and m is not cond]
        nexts = []
        for m, x in zip(merges, results):
            last = self.node("Identity", [x], b)
            last.controls.update(ends)  # one iteration after another
            last.controls.discard(last.id)
            nexts.append(self.node("NextIteration", [(last, 0)], b))
            m.inputs[1] = (nexts[-1], 0)
            m.back = nexts[-1].id
        for s in switches[1:]:
            n = self.node("Exit", [(s, 0)], ctx)
            b.leaves.append(n)
            ctx.floats.append((n, 0))

    def steps(self, ctx, n):
        for _ in range(n):
            kind = self.rng.random()
            if kind < 0.2:
                self.step_pass(ctx)
            elif kind < 0.4:
                self.step_compute(ctx)
            elif kind < 0.65:
                self.step_write(ctx)
            elif kind < 0.78:
                self.step_read(ctx)
            elif kind < 0.82:
                self.step_group(ctx)
            elif kind < 0.92 and ctx.depth < 2 and not self.is_flat:
                self.step_cond(ctx)
            elif ctx.depth < 2 and not self.is_flat:
                self.step_loop(ctx)

    def make(self, is_flat=False):
        """is_flat: no branches, loops or resources."""
        rng, top = self.rng, self.top
        self.is_flat = is_flat
        for _ in range(rng.choice((1, 2, 2, 3))):
            self.refs.append(self.variable("VariableV2", "float"))
        if is_flat:
            self.begin()
            return
        for _ in range(rng.choice((0, 0, 1))):
            self.handles.append(self.variable("VarHandleOp", "float"))
        for _ in range(rng.choice((0, 0, 1))):
            self.flags.append(self.variable("VariableV2", "bool"))
        self.begin()

    def begin(self):
        self.top.floats.append(self.const([1.0, 3.0], "float", self.top))
        for _ in range(2):
            self.step_read(self.top)
        self.steps(self.top, self.rng.randrange(3, 12))

    def variable(self, op, dtype):
        v = (self.node(op, [], self.top, dtype=dtype), 0)
        value = self.rng.random() < 0.5 if dtype == "bool" else \
            [float(self.rng.randrange(-2, 4)), float(self.rng.randrange(-2, 4))]
        init = self.node("Assign" if op == "VariableV2" else "AssignVariableOp",
                         [v, self.const(value, dtype, self.top)], self.top)
        self.top.nodes = []
        self.inits.append(init)
        return v

    # -- who may run when --

    def is_in(self, node, ctx):
        return ctx in node.ctx.path()

    def find_before(self):
        """before[id]: a bit for each node that must have run, if it runs at all, when the node
        runs. A Merge waits for one input only; a loop's results may be those of no iteration."""
        before = [0] * len(self.nodes)
        inside = {}  # nodes in a context, as bits

        def bits_in(ctx):
            if ctx not in inside:
                inside[ctx] = sum(1 << n.id for n in self.nodes if self.is_in(n, ctx))
            return inside[ctx]

        def of(x):
            return before[x[0].id] | 1 << x[0].id

        # Repeated as control edges may point forward to Enters.
        for _ in range(20):
            changed = False
            for n in self.nodes:
                if n.op == "Merge" and n.back is None:
                    a, b = (of(x) for x in n.inputs)
                    own = [bits_in(x[0].ctx) if x[0].ctx is not n.ctx else 0 for x in n.inputs]
                    bits = (a & b) | (a & own[0]) | (b & own[1])
                elif n.op == "Merge":
                    bits = of(n.inputs[0])
                elif n.op == "Exit":
                    loop = n.inputs[0][0].ctx
                    bits = of(n.inputs[0])
                    for m in loop.nodes:
                        if m.op == "NextIteration":
                            bits |= (before[m.id] | 1 << m.id) & bits_in(loop)
                else:
                    bits = 0
                    for x in n.inputs:
                        bits |= of(x)
                for c in n.controls:
                    bits |= before[c] | 1 << c
                if bits != before[n.id]:
                    before[n.id] = bits
                    changed = True
            if not changed:
                return before
        return None

    def find_bytes(self):
        """bytes[id]: the reference variables whose bytes the node's output is or may be."""
        ret = [set() for _ in self.nodes]
        changed = True
        while changed:
            changed = False
            for n in self.nodes:
                if n.op == "VariableV2":
                    new = {n.id}
                elif n.op == "Merge":
                    new = ret[n.inputs[0][0].id] | ret[n.inputs[1][0].id]
                elif n.op in PASSES or n.op in WRITES:
                    new = ret[n.inputs[0][0].id]
                else:
                    new = set()
                if n.op == "Merge" or n.op in PASSES:
                    new = new | ret[n.id]
                if new != ret[n.id]:
                    ret[n.id] = set(new)
                    changed = True
        return ret

    def handle_of(self, n):
        x = n.inputs[0][0]
        while x.op != "VarHandleOp":
            x = x.inputs[0][0]
        return x.id

    def accesses(self):
        """[(node, variable, writes)]"""
        bytes_of, ret = self.find_bytes(), []
        for n in self.nodes:
            if n in self.inits:
                continue
            if n.op in RESOURCE_WRITES or n.op in RESOURCE_READS:
                ret.append((n, self.handle_of(n), n.op in RESOURCE_WRITES))
            for i, x in enumerate(n.inputs):
                if x[1] == 1 and x[0].op == "Merge":
                    continue
                for v in bytes_of[x[0].id]:
                    if i == 0 and n.op in WRITES:
                        ret.append((n, v, True))
                    elif not (n.op == "Merge" or (i == 0 and n.op in PASSES)):
                        ret.append((n, v, False))
        return ret

    def never_both(self, a, b):
        return any(c.other is not None and c.other in b.ctx.path() for c in a.ctx.path())

    def races(self):
        before = self.find_before()
        if before is None or any(bits >> i & 1 for i, bits in enumerate(before)):
            return None  # an added edge closed a cycle
        of = {}
        for n, v, writes in self.accesses():
            of.setdefault(v, {}).setdefault(n, False)
            of[v][n] |= writes
        ret = []
        for v, nodes in of.items():
            items = sorted(nodes.items(), key=lambda x: x[0].id)
            for i, (a, aw) in enumerate(items):
                for b, bw in items[i + 1:]:
                    if (aw or bw) and not (before[b.id] >> a.id & 1 or before[a.id] >> b.id & 1 or
                                           self.never_both(a, b)):
                        ret.append((a, b))
        return ret

    def order(self, a, b):
        """Control edges that put b after a, which was made first."""
        pa, pb = a.ctx.path(), b.ctx.path()
        k = 0
        while k < min(len(pa), len(pb)) and pa[k] is pb[k]:
            k += 1
        sources = [a] if k == len(pa) else pa[k].leaves
        loop = next((c for c in pb[k:] if c.kind == "loop"), None)
        targets = [b] if loop is None else loop.enters
        for s in sources[:1]:
            for t in targets:
                if t.id != s.id:
                    t.controls.add(s.id)

    def settle(self):
        """Whether all races are gone."""
        for _ in range(6):
            races = self.races()
            if not races:
                return races is not None
            for a, b in races:
                self.order(a, b)
        return False


# ---- the rules of agent/plan/uses.h, for graphs with races ----

def scatter(a, places, b, combine):
    """Values that are the variable's own are those that it has at the time."""
    ret = a.copy()
    for i, place in enumerate(places.astype(int)):
        ret[place] = combine(ret[place], (ret if b is a else b)[i])
    return ret


COMPUTES = {
    "Add": lambda a, b: a + b, "Sub": lambda a, b: a - b, "Mul": lambda a, b: a * b,
    "Maximum": lambda a, b: (a > b) * a + (a <= b) * b, "Neg": lambda a: -a,
    "Minimum": lambda a, b: (a < b) * a + (a >= b) * b, "Square": lambda a: a * a,
    "AddN": lambda *x: x[0] + x[1] + x[2], "Slice": lambda a, b, n: a[int(b[0]):int(b[0] + n[0])],
    "ExpandDims": lambda a, _: a, "Assign": lambda a, b: b, "AssignAdd": lambda a, b: a + b,
    "AssignSub": lambda a, b: a - b, "ApplyGradientDescent": lambda a, r, d: a - r * d,
    "ScatterAdd": lambda a, i, b: scatter(a, i, b, lambda x, y: x + y),
    "ScatterUpdate": lambda a, i, b: scatter(a, i, b, lambda x, y: y)}


def needed_by(g, run):
    names = {n.name: n for n in g.nodes}
    todo = [names[x.split(":")[0]] for x in run.fetches + run.targets]
    needed = set()
    while todo:
        n = todo.pop()
        if n.id not in needed:
            needed.add(n.id)
            todo += [x for x, _ in n.inputs] + [g.nodes[c] for c in n.controls]
    return needed


def order_by_rules(g, needed):
    """The nodes in the order in which the rules run them."""
    after = {i: set() for i in needed}
    for i in needed:
        for j in {x.id for x, _ in g.nodes[i].inputs} | g.nodes[i].controls:
            after[j].add(i)

    def reached(i):
        seen, todo = {i}, [i]
        while todo:
            for j in after[todo.pop()] - seen:
                seen.add(j)
                todo.append(j)
        return seen

    accesses = [(n.id, v, writes) for n, v, writes in g.accesses() if n.id in needed]
    for w, v, _ in sorted(a for a in accesses if a[2]):
        late = reached(w)
        for u in {i for i, x, writes in accesses if x == v and not writes} - late:
            after[u].add(w)
    before = {i: sum(i in a for a in after.values()) for i in needed}
    ready = [i for i in needed if before[i] == 0]
    while ready:
        i = min(ready)
        ready.remove(i)
        yield g.nodes[i]
        for j in after[i]:
            before[j] -= 1
            if before[j] == 0:
                ready.append(j)


def by_rules(g, runs):
    """What by_tensorflow returns."""
    import numpy as np
    memory = {v[0].id: np.array(init.inputs[1][0].attrs["value"][0], np.float32)
              for v, init in zip(g.refs, g.inits)}
    ret = []
    for run in runs:
        at = {}  # a node's outputs; a variable's id where they are its memory

        def see(x):
            y = at[x[0].id]
            return memory[y] if isinstance(y, int) else y[x[1]]

        for n in order_by_rules(g, needed_by(g, run)):
            if n.op == "VariableV2":
                at[n.id] = n.id
            elif n.op == "Const":
                at[n.id] = [np.array(n.attrs["value"][0], np.float32)]
            elif n.op == "NoOp":
                at[n.id] = []
            elif n.op in PASSES:
                at[n.id] = at[n.inputs[0][0].id]
            elif n.op in WRITES:
                v = at[n.id] = at[n.inputs[0][0].id]
                memory[v] = COMPUTES[n.op](*[see(x) for x in n.inputs]).copy()
            elif n.op == "ConcatV2":
                at[n.id] = [np.concatenate([see(x) for x in n.inputs[:-1]])]
            elif n.op == "Split":
                at[n.id] = np.split(see(n.inputs[1]), 2)
            else:
                at[n.id] = [COMPUTES[n.op](*[see(x) for x in n.inputs]).copy()]
        names = {n.name: n for n in g.nodes}
        ret.append("".join(text(see((names[x.split(":")[0]], int(x.split(":")[1]))))
                           for x in run.fetches))
    return ret


# ---- as messages ----

def fill_node(tf, to, n, by_id):
    types = {"float": 1, "int32": 3, "bool": 10, "resource": 20}
    to.name, to.op = n.name, n.op
    for x, i in n.inputs:
        to.input.append(x.name if i == 0 else f"{x.name}:{i}")
    to.input.extend(sorted("^" + by_id[c].name for c in n.controls))
    a = to.attr
    if n.op == "Const":
        value, dtype = n.attrs["value"]
        a["dtype"].type = types[dtype]
        t = a["value"].tensor
        t.dtype = types[dtype]
        values = value if isinstance(value, list) else [value]
        if isinstance(value, list):
            t.tensor_shape.dim.add().size = len(value)
        else:
            t.tensor_shape.SetInParent()
        {"float": t.float_val, "int32": t.int_val, "bool": t.bool_val}[dtype].extend(values)
        return
    if n.op in ("VariableV2", "VarHandleOp"):
        a["dtype"].type = types[n.attrs["dtype"]]
        if n.attrs["dtype"] == "bool":
            a["shape"].shape.SetInParent()
        else:
            a["shape"].shape.dim.add().size = 2
        a["container"].s = b""
        a["shared_name"].s = n.name.encode() if n.op == "VarHandleOp" else b""
        return
    dtype = types[dtype_of((n, 0)) if n.op not in ("Less", "LoopCond", "LogicalAnd", "LogicalNot")
                  else "float"]
    if n.op in PARTS or n.op == "ResourceGather":
        a["Tindices"].type = types["int32"]
    if n.op in RESOURCE_READS or n.op in RESOURCE_WRITES:
        a["dtype"].type = types["float"]
        if n.op == "AssignVariableOp":
            a["validate_shape"].b = False
    elif n.op == "Less":
        a["T"].type = types[dtype_of(n.inputs[0])]
    elif n.op == "PlaceholderWithDefault":
        a["dtype"].type = dtype
        a["shape"].shape.dim.add().size = 2
    elif n.op not in ("LoopCond", "LogicalAnd", "LogicalNot", "NoOp"):
        a["T"].type = dtype
    if n.op == "Merge":
        a["N"].i = 2
    elif n.op == "AddN":
        a["N"].i = len(n.inputs)
    elif n.op == "ConcatV2":
        a["N"].i = len(n.inputs) - 1
        a["Tidx"].type = types["int32"]
    elif n.op == "Sum":
        a["Tidx"].type = types["int32"]
        a["keep_dims"].b = False
    elif n.op == "Reshape":
        a["Tshape"].type = types["int32"]
    elif n.op == "ExpandDims":
        a["Tdim"].type = types["int32"]
    elif n.op == "Squeeze":
        a["squeeze_dims"].list.i.append(0)
    elif n.op == "Slice":
        a["Index"].type = types["int32"]
    elif n.op == "Split":
        a["num_split"].i = 2
    elif n.op in ("Enter", "RefEnter"):
        a["frame_name"].s = n.attrs["frame_name"].encode()
        a["is_constant"].b = n.attrs["is_constant"]
        a["parallel_iterations"].i = 10
    elif n.op in ("Assign", "ScatterUpdate"):
        a["use_locking"].b = True
    if n.op == "Assign":
        a["validate_shape"].b = True
    elif n.op in WRITES - {"ScatterUpdate"}:
        a["use_locking"].b = False


def dtype_of(x):
    n, i = x
    if n.op == "Const":
        return n.attrs["value"][1]
    if n.op == "VariableV2":
        return n.attrs["dtype"]
    if n.op == "VarHandleOp":
        return "resource"
    if n.op in ("Less", "LoopCond", "LogicalAnd", "LogicalNot"):
        return "bool"
    if n.op == "NoOp" or n.op in RESOURCE_READS or n.op in RESOURCE_WRITES:
        return "float"
    return dtype_of(n.inputs[1 if n.op == "Split" else 0])


def meta_of(tf, graphs):
    meta = tf.MetaGraphDef()
    meta.meta_info_def.tensorflow_version = "2.21.0"
    meta.graph_def.versions.producer = 1882
    for g in graphs:
        for n in g.nodes:
            fill_node(tf, meta.graph_def.node.add(), n, g.nodes)
    return meta


# ---- runs ----

class Run:
    """What a run of a graph asks for."""

    def __init__(self, g=None):
        if g is None:
            self.fetches, self.targets, self.variables = [], [], []
            return
        self.fetches = [f"{x[0].name}:{x[1]}" for x in g.top.floats if g.rng.random() < 0.6]
        self.targets = [n.name for n in g.nodes if n.ctx is g.top and n not in g.inits and
                        (n.op in WRITES or n.op in RESOURCE_WRITES or n.op == "NoOp")]
        self.variables = [f"{v[0].name}:0" for v in g.refs + g.flags]

    @classmethod
    def together(cls, runs):
        ret = cls()
        for run in runs:
            ret.fetches += run.fetches
            ret.targets += run.targets
            ret.variables += run.variables
        return ret

    def after(self):
        ret = Run()
        ret.fetches = self.variables
        return ret


def text(array):
    import numpy as np
    return "".join(f"{int(v)} " if array.dtype == np.bool_ else f"{float(v) + 0:.9g} "
                   for v in np.asarray(array).reshape(-1)) + ";"


def by_tensorflow(tf, meta, graphs, runs):
    """One text for each run, then for the variables of each; None where TensorFlow fails."""
    import numpy as np
    config = tf.ConfigProto(intra_op_parallelism_threads=1, inter_op_parallelism_threads=1,
                            use_per_session_threads=True)
    config.graph_options.optimizer_options.opt_level = tf.OptimizerOptions.L0
    config.graph_options.rewrite_options.disable_meta_optimizer = True
    ret = []
    with tf.Graph().as_default() as graph:
        tf.import_graph_def(meta.graph_def, name="")
        with tf.Session(graph=graph, config=config) as session:
            session.run([init.name for g in graphs for init in g.inits])
            for run in runs:
                try:
                    got = session.run([run.fetches, run.targets])[0]
                    ret.append("".join(text(np.array(x)) for x in got))
                except tf.errors.OpError:
                    ret.append(None)
    return ret


def by_brood(program, path, graphs, runs):
    """The same; an error's text begins with "!"."""
    from run_meta import Failed, answers
    asked = [{"targets": [init.name for g in graphs for init in g.inits]}]
    asked += [{"targets": run.targets, "fetches": run.fetches} for run in runs]
    try:
        return ["! " + str(a) if isinstance(a, Failed) else "".join(map(text, a))
                for a in answers(program, path, asked)[1:]]
    except subprocess.CalledProcessError as e:
        return [f"exit code {e.returncode}"] * len(runs)


def play(tf, program, folder, graphs, runs):
    """Runs that are asked for twice, and shown after: what both say."""
    meta = meta_of(tf, graphs)
    path = f"{folder}/graphs.meta"
    pathlib.Path(path).write_bytes(meta.SerializeToString())
    return (by_tensorflow(tf, meta, graphs, runs), by_brood(program, path, graphs, runs))


def show(g):
    for n in g.nodes:
        inputs = [f"{x.name}:{i}" for x, i in n.inputs] + [f"^n{c}" for c in sorted(n.controls)]
        where = f"{n.ctx.kind}{n.ctx.branch if n.ctx.kind == 'branch' else ''}"
        line = f"    {n.name} {n.op} {' '.join(inputs)} {n.attrs.get('value', '')} {where}"
        print(line.replace(g.prefix + "/", ""))


def runs_of(asked):
    """Twice what is asked for, then the variables."""
    return asked * 2 + [asked[0].after()]


def compare_one(tf, program, folder, number, g, asked, verbose):
    """"same", "refused" or "differs" """
    theirs, ours = play(tf, program, folder, [g], runs_of([asked]))
    for a, b in zip(theirs, ours):
        if REFUSED in b:
            return "refused"
        if a is None and b.startswith("!"):
            return "same"  # what a failed run leaves is not compared
        if a != b:
            print(f"graph {number} differs:\n  TensorFlow {a or 'fails'}\n  brood      {b}")
            if verbose:
                print("  fetches", asked.fetches, "targets", asked.targets)
                show(g)
            return "differs"
    return "same"


def compare(tf, program, folder, numbered, verbose):
    """Runs graphs together, and one by one if anything differs. Returns what became of each."""
    graphs = [g for _, g in numbered]
    asked = [Run(g) for g in graphs]
    theirs, ours = play(tf, program, folder, graphs, runs_of([Run.together(asked)]))
    if theirs == ours:
        return ["same"] * len(graphs)
    ret = [compare_one(tf, program, folder, number, g, run, verbose)
           for (number, g), run in zip(numbered, asked)]
    if None not in theirs and set(ret) == {"same"}:
        print(f"graphs {numbered[0][0]} to {numbered[-1][0]} differ only together:\n"
              f"  TensorFlow {theirs}\n  brood      {ours}")
        ret[0] = "differs"
    return ret


def check_rules(tf, program, folder, number, seed):
    g = Graph(f"g{number}", random.Random(f"{seed} rules {number}"))
    g.make(is_flat=True)
    runs = runs_of([Run(g)])
    path = f"{folder}/rules.meta"
    pathlib.Path(path).write_bytes(meta_of(tf, [g]).SerializeToString())
    ruled, ours = by_rules(g, runs), by_brood(program, path, [g], runs)
    if ruled != ours:
        print(f"graph {number} differs from the rules:\n  rules {ruled}\n  brood {ours}")
        print("  fetches", runs[0].fetches, "targets", runs[0].targets)
        show(g)
    return ruled != ours


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("program", help="tests/support/run_meta of the build")
    parser.add_argument("--graphs", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--only", type=int, nargs="*", help="the numbers of some graphs")
    parser.add_argument("--keep", help="the folder for the .meta file")
    args = parser.parse_args()
    tf = peers.load_tensorflow()
    tf.disable_eager_execution()
    count = collections.Counter()
    with tempfile.TemporaryDirectory() as folder:
        n_rules = sum(check_rules(tf, args.program, folder, i, args.seed)
                      for i in range(args.graphs // 20 if args.only is None else 0))
        batch = []
        numbers = range(args.graphs) if args.only is None else args.only
        for number in numbers:
            g = Graph(f"g{number}", random.Random(f"{args.seed} {number}"))
            g.make()
            if g.settle():
                batch.append((number, g))
            else:
                count["left out"] += 1
            if len(batch) == BATCH or (number == numbers[-1] and batch):
                count.update(compare(tf, args.program, args.keep or folder, batch,
                                     args.only is not None))
                batch = []
    print(f"{sum(count.values())} graphs, {count['left out']} left out, "
          f"{count['refused']} refused, {count['differs'] + n_rules} differ")
    return 1 if count["differs"] or n_rules else 0


if __name__ == "__main__":
    sys.exit(main())
