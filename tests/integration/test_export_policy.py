"""`brood export --onnx` and `--torch`: the exported network of every kind of policy gives what the
agent's own does, computed by ONNX Runtime and by PyTorch."""
import json
import os
import random
import subprocess
import sys

import harness
import numpy as np
import peers

TOLERANCE = 1e-5
ROWS = 7
TORCH = os.environ.get("BROOD_TORCH_PYTHON", "python3")  # a Python that has torch

CONFIG = """
run: {{env_steps: 256, seed: 3}}
env: {{{env}}}
experience: {{{experience}}}
evaluation: {{every_env_steps: 0}}
checkpoint: {{every_env_steps: 256}}
defaults:
  algorithm: {algorithm}
  actor: {{{net}}}
  critic: {{{net}}}
  optimizer: {{learning_rate: 0.01}}
  {more}
"""
SPREAD = "id: simple_spread, copies: 4, max_steps: 8"
WINDOW, DRAWN = "update_every: 64", "update_every: 64, batch_size: 16, warmup: 64"
PYTHON_ENV = "command: [{python}, {source}/scripts/pettingzoo_bridge.py, {what}], " \
             "copies: 4, verify: false, params: {{{params}}}"


def python_env(what, params=""):
    return PYTHON_ENV.format(python=sys.executable, source=harness.SOURCE, params=params,
                             what=harness.SOURCE / "tests" / what)


# name: (algorithm, environment, experience, layers, other keys)
CASES = {
    "perceptron": ("maddpg", SPREAD, DRAWN, "hidden: [16, 8]", ""),
    "layer_norm": ("isac", SPREAD, DRAWN, "hidden: [8], layer_norm: true, activation: elu", ""),
    "two_parts": ("isac", "id: simple_reference, copies: 4, max_steps: 8", DRAWN, "hidden: [8]",
                  ""),
    "box": ("matd3", SPREAD + ", actions: continuous", DRAWN, "hidden: [8], activation: tanh", ""),
    "squashed": ("masac", SPREAD + ", actions: continuous", DRAWN,
                 "hidden: [8], activation: leaky_relu", ""),
    "normal": ("ippo", SPREAD + ", actions: continuous, clip_observations: 0.5", WINDOW,
               "hidden: [8]", "settings: {normalize_observations: running, agent_id: true}"),
    "gru": ("mappo", SPREAD, WINDOW, "hidden: [8], layer_norm: true",
            "settings: {recurrent: 6, chunk: 4, normalize_observations: running}"),
    "lstm": ("ippo", SPREAD, WINDOW, "hidden: [8]", "settings: {recurrent: 6, chunk: 4, cell: lstm}"),
    "value": ("iql", SPREAD, DRAWN, "hidden: [8]", ""),
    "value_of_two": ("vdn", "id: simple_reference, copies: 4, max_steps: 8, reward: team_mean",
                     DRAWN, "hidden: [8]",
                     "settings: {recurrent: 5, last_action: true, agent_id: true}"),
    "entities": ("mappo", SPREAD + ", observe: entities", WINDOW,
                 "hidden: [8], entities: {units: [8], pool: attention, heads: 2}", ""),
    "pool_max": ("mappo", SPREAD + ", observe: entities", WINDOW,
                 "hidden: [8], entities: {units: [8], pool: max}", ""),
    "pool_mean": ("mappo", SPREAD + ", observe: entities", WINDOW,
                  "hidden: [8], entities: {units: [8], pool: mean}", ""),
    "pictures": ("ippo", python_env("examples/catch.py"), WINDOW,
                 "hidden: [8], conv: [[4, 3, 2], [4, 2, 1]]", ""),
    "stacked": ("ippo", SPREAD + ", stack: 3", WINDOW, "hidden: [8]", ""),
    "stack": ("ippo", python_env("examples/catch.py") + ", stack: 2", WINDOW,
              "hidden: [8], conv: [[4, 3, 2]]", ""),
    "hybrid": ("ippo", python_env("support/goals.py:Goals", "masked: true, agents: 2"), WINDOW,
               "hidden: [8]", "settings: {agent_id: true}"),
    "masks": ("ippo", python_env("support/rooms.py"), WINDOW, "hidden: [8]", ""),
    "masks_of_two": ("iql", python_env("support/rooms.py"), DRAWN, "hidden: [8]", ""),
}

WITH_ONNX = """
import json, sys, numpy, onnxruntime
s = onnxruntime.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
ports = {p.name: p.shape for p in s.get_inputs()}
if len(sys.argv) > 2:
    print(json.dumps(ports))
else:
    fed = {k: numpy.array(v, "f4") for k, v in json.load(sys.stdin).items()}
    names = [o.name for o in s.get_outputs()]
    print(json.dumps(dict(zip(names, [x.tolist() for x in s.run(names, fed)]))))
"""
WITH_TORCH = """
import json, re, sys, importlib.util, torch
spec = importlib.util.spec_from_file_location("policy", sys.argv[1])
module = importlib.util.module_from_spec(spec)
spec.loader.exec_module(module)
names = re.findall(r"(\\w+) \\(N", module.Policy.__doc__)
fed = json.load(sys.stdin)
with torch.no_grad():
    found = module.Policy()(*(torch.tensor(fed[k]) for k in fed))
found = found if isinstance(found, tuple) else (found,)
print(json.dumps(dict(zip(names[len(fed):], [x.tolist() for x in found]))))
"""


def has(python, module):
    return python is not None and subprocess.run(
        [python, "-c", f"import {module}"], capture_output=True, check=False).returncode == 0


def computed(python, program, file, fed, *args):
    done = subprocess.run([python, "-c", program, str(file), *args], input=json.dumps(fed),
                          capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def flat(values):
    return [x for v in values for x in flat(v)] if isinstance(values, list) else [values]


def assert_close(a, b, what):
    a, b = flat(a), flat(b)
    assert len(a) == len(b), (what, len(a), len(b))
    worst = max(abs(x - y) for x, y in zip(a, b))
    assert worst <= TOLERANCE, (what, worst)


def first_agent(w, name):
    return min(p.name for p in (w.run_dir(name) / "checkpoints" / "256").iterdir() if p.is_dir())


def export(w, name):
    """The ports of an exported policy, and its files."""
    algorithm, env, experience, net, more = CASES[name]
    w.brood("run", w.write(f"{name}.yaml", CONFIG.format(
        algorithm=algorithm, env=env, experience=experience, net=net, more=more)), "--name", name)
    w.brood("export", name, first_agent(w, name), "--onnx", f"{name}.onnx", "--torch", f"{name}.npz")
    return w.path / f"{name}.onnx", w.path / f"{name}.py"


def draw(name, ports):
    """Random rows for the inputs; an input of masks has one row that allows nothing. Of entities
    one number says whether they are there."""
    drawn = random.Random(5)
    of_bits = ["mask"] + (["observation"] if "entities" in CASES[name][3] else [])

    def number(k):
        return float(drawn.random() < 0.5) if k in of_bits else drawn.gauss(0, 1)
    fed = {k: [[number(k) for _ in range(shape[1])] for _ in range(ROWS)]
           for k, shape in ports.items()}
    if "mask" in fed:
        fed["mask"][0] = [0.0] * len(fed["mask"][0])
    return fed


def own(w, name, fed):
    """What the agent's own graph gives: scores or actions, and its next carry; None where it has
    more inputs than these."""
    named = {}
    for line in harness.json_lines(w.brood("graph", name, first_agent(w, name),
                                           "--collections", "--json")[0]):
        named[line["collection"]] = line["items"]
    gives = next(named[k][0] for k in ("policy/logits", "policy/hybrid", "policy/action")
                 if k in named)
    rows = [list(x) for x in fed["observation"]]
    clip = 0.5 if "clip_observations" in CASES[name][1] else None
    if clip is not None:
        rows = [[min(max(x, -clip), clip) for x in row] for row in rows]
    units = 0
    feeds, fetches = [], [gives]
    last = [int(x) for x in named.get("policy/last_action", [])]
    if "policy/carry" in named:
        units = len(fed["state"][0]) - sum(last)
        np.save(w.path / "carry.npy", np.array(fed["state"], "f4")[:, :units])
        feeds += ["--feed", named["policy/carry"][0] + "=@carry.npy"]
        fetches.append(named["policy/next_carry"][0])
    for i, row in enumerate(rows):
        if last:
            row += fed["state"][i][units:]
        if "policy/id" in named:
            width, place = map(int, named["policy/id"])
            row += [float(k == place) for k in range(width)]
    np.save(w.path / "seen.npy", np.array(rows, "f4"))
    feeds += ["--feed", named["policy/observation"][0] + "=@seen.npy"]
    out, _ = w.brood("graph", name, first_agent(w, name), "--json", *feeds,
                     *(x for f in fetches for x in ("--fetch", f)))
    found = [line["values"] for line in harness.json_lines(out)]
    return found[0], found[1] if len(found) > 1 else None


def check(w, name, fed, found):
    scores, carry = own(w, name, fed)
    action = found["action"]
    if "logits" in found:
        n = len(found["logits"][0])
        rows = len(scores) // ROWS
        assert_close(found["logits"], [scores[i * rows:i * rows + n] for i in range(ROWS)], name)
        assert all(set(row[:n]) <= {0, 1} for row in action) or "policy" in name, name
    else:
        assert_close(action, scores, name)
    if carry is not None:
        units = len(carry) // ROWS
        assert_close([row[:units] for row in found["next_state"]], carry, name)
    if "mask" in fed:  # a choice that may be made; where none may, any
        for row, mask in zip(action, fed["mask"]):
            chosen = row[:len(mask)].index(1.0)
            assert mask[chosen] == 1 or not any(mask), (name, row, mask)


def every_case(w, python, program, pick):
    for name in CASES:
        files = export(w, name)
        ports = computed(peers.python_with_peers(), WITH_ONNX, files[0], {}, "ports")
        fed = draw(name, ports)
        check(w, name, fed, computed(python, program, files[pick], fed))


def needs_onnx():
    if not has(peers.python_with_peers(), "onnxruntime"):
        raise harness.Skip("no ONNX Runtime (tests/support/peers.py)")


def test_onnx_runtime_computes_the_same(w):
    needs_onnx()
    every_case(w, peers.python_with_peers(), WITH_ONNX, 0)


def test_pytorch_computes_the_same(w):
    needs_onnx()
    if not has(TORCH, "torch"):
        raise harness.Skip(f"{TORCH} has no torch")
    every_case(w, TORCH, WITH_TORCH, 1)


def test_what_cannot_be_exported(w):
    w.brood("run", w.small(steps=400), "--name", "a")
    w.brood("run", w.write("noop.yaml", CONFIG.format(
        algorithm="noop", env=SPREAD, experience=DRAWN, net="hidden: [8]", more="")),
        "--name", "b")
    for args, code, says in (
            (("a", "agent_0", "--onnx", "x.pb"), 2, "ends in .onnx"),
            (("a", "agent_0", "--torch", "x.pt"), 2, "ends in .npz"),
            (("a", "--onnx", "x.onnx"), 2, "RUN[@STEP] AGENT"),
            (("a", "agent_0", "--onnx", "x.onnx", "--out", "x.npz"), 2, "--out is for tensors"),
            (("a", "agent_9", "--onnx", "x.onnx"), 1, "no agent 'agent_9'"),
            (("a@7", "agent_0", "--onnx", "x.onnx"), 1, "no checkpoint of step 7"),
            (("a", "agent_0", "--onnx", "none/x.onnx"), 1, "none/x.onnx"),
            (("b", "agent_0", "--onnx", "x.onnx"), 1, "agent_0 has no policy of its own")):
        _, err = w.brood("export", *args, code=code)
        assert says in err and len(err.splitlines()) == 1, (args, err)
    assert not list(w.path.glob("x.*"))
    (w.path / "y.py").mkdir()  # a program and tensors of different exports would not fit
    w.brood("export", "a", "agent_0", "--torch", "y.npz", code=1)
    assert [p.name for p in w.path.glob("y*")] == ["y.py"]


if __name__ == "__main__":
    harness.main()
