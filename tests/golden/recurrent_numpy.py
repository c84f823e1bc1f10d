#!/usr/bin/python3
"""Recurrent networks from their `.meta` files, against NumPy.

run_meta imports the files and runs forward and training steps. The cell's outputs and last
carry are computed here from the formulas of torch.nn.GRUCell and TensorFlow's
BasicLSTMCell, in float64; the training steps by graph_numpy, operation by operation, from
the same file.
"""
import subprocess
import sys
import tempfile

import tf_files
import numpy as np

from graph_numpy import Graph

TOLERANCE = 1e-5
STEPS, ROWS, UNITS, TRAINED = 7, 5, 6, 3


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def gru(v, x, h):
    gi = np.split(x @ v["gru/weight_ih"] + v["gru/bias_ih"], 3, 1)
    gh = np.split(h @ v["gru/weight_hh"] + v["gru/bias_hh"], 3, 1)
    r, z = sigmoid(gi[0] + gh[0]), sigmoid(gi[1] + gh[1])
    return (1 - z) * np.tanh(gi[2] + r * gh[2]) + z * h


def basic_lstm_cell(v, x, carry):
    c, h = np.split(carry, 2, 1)
    gates = np.hstack([x, h]) @ v["basic_lstm_cell/kernel"] + v["basic_lstm_cell/bias"]
    i, j, f, o = np.split(gates, 4, 1)
    c = c * sigmoid(f + 1) + sigmoid(i) * np.tanh(j)
    return np.hstack([c, np.tanh(c) * sigmoid(o)])


def sequence(cell, v, feeds):
    carry, outputs = feeds["carry:0"].astype(np.float64), []
    for x, first in zip(np.split(feeds["x:0"], STEPS), np.split(feeds["first:0"], STEPS)):
        carry = cell(v, x, carry * (1 - first))
        outputs.append(carry[:, -UNITS:])
    return np.vstack(outputs), carry


def make_feeds(width):
    rng = np.random.default_rng(11)
    shapes = {"x:0": (STEPS * ROWS, 3), "carry:0": (ROWS, width), "y:0": (STEPS * ROWS, 2)}
    feeds = {k: rng.normal(size=s).astype(np.float32) for k, s in shapes.items()}
    feeds["first:0"] = (rng.random((STEPS * ROWS, 1)) < 0.2).astype(np.float32)
    return feeds


def distance(a, b):
    return float(np.abs(a - b).max() / max(1.0, np.abs(b).max()))


def check(save, runner, cell, folder):
    prefix = f"{folder}/{cell.__name__}"
    subprocess.run([save, prefix, cell.__name__], check=True)
    feeds = make_feeds(2 * UNITS if cell is basic_lstm_cell else UNITS)
    fetches = ["outputs:0", "last:0", "loss:0"]
    runs = [{"feeds": feeds, "fetches": fetches}]
    runs += [{"feeds": feeds, "targets": ["train"]}] * TRAINED
    ours = tf_files.run_meta(runner, prefix, runs, prefix + "-trained")[0]
    trained = tf_files.read_checkpoint(prefix + "-trained")

    graph = Graph(prefix)
    v = {k: x.astype(np.float64) for k, x in graph.variables.items()}
    worst = max(distance(a, b) for a, b in zip(ours, sequence(cell, v, feeds)))
    loss = graph.run(feeds, ["loss:0"])[0]
    for _ in range(TRAINED):
        graph.run(feeds, targets=["train"])
    steps = max(distance(trained[k], graph.variables[k]) for k in trained)
    moved = max(distance(trained[k], v[k]) for k in trained if "Adam" not in k)
    ok = (worst < TOLERANCE and steps < TOLERANCE and distance(ours[2], loss) < TOLERANCE
          and moved > 0.01)
    print(f"{'ok' if ok else 'FAILED'}: {cell.__name__}: outputs {worst:.1e}, "
          f"{len(trained)} variables after training {steps:.1e}")
    return ok


def main():
    with tempfile.TemporaryDirectory() as folder:
        results = [check(sys.argv[1], sys.argv[2], cell, folder)
                   for cell in (gru, basic_lstm_cell)]
    return not all(results)


if __name__ == "__main__":
    sys.exit(main())
