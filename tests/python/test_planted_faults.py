"""`brood agent-check` finds each of these planted faults, with its line, and none in the examples.
Most need NumPy alone; those of torch are skipped without it (test_torch.py says how it is found)."""
import functools
import json
import os
import subprocess
import sys
import textwrap

from agents import EXAMPLES, SOURCE, harness, learns, needs_numpy, write
from test_torch import PYTHON, TORCH_HEAD, needs_torch

WHOLE = """
shared_counter = [0]
cache = {}

class Thing:
    pass

class Mine(brood.Agent):
    live = ("discount",)
    rate = brood.setting(0.125, live=True, min=0, max=1)

    def build(self):
        shape = self.me.obs, self.me.action.width
        self.w = self.variable("w", np.random.normal(size=shape).astype("f4"))
        self.n, self.kept, self.lr = 0, None, 0.5
        self.rng = np.random.default_rng(3)
        pass  # build

    def act(self, obs, ctx):
        q = obs @ self.w
        if ctx.allowed is not None:
            q[~ctx.allowed] = -1e9
        noise = 0 if ctx.mode == "greedy" else ctx.gumbel(q.shape[1])
        choice = (q + noise).argmax(1)
        pass  # act
        return choice

    def learn(self, batch, ctx):
        x = batch["obs"]
        g = x.T @ (x @ self.w - batch["reward"][:, None]) / np.float32(len(x))
        pass  # learn
        self.w -= np.float32(ctx.value("rate")) * g
        return {"loss": np.abs(g).mean()}
"""
CARRIES = WHOLE.replace("    rate =", "    carry = 4\n    rate =")
CONTINUOUS = WHOLE.replace("choice = (q + noise).argmax(1)", "choice = np.tanh(q)")
PASS = {"build": "pass  # build", "act": "pass  # act", "learn": "pass  # learn"}

# name: (the method, what takes the place of its `pass`, what is said, what else changes)
# "@" before what is said: of a note, which leaves the exit code 0.
FAULTS = {
    "a counter in an attribute": (
        "learn", "self.n += 1; g *= np.float32(self.n)",
        "request 2, is not repeatable: a fresh object on the same block gives another agent_0/w; "
        "self.n is 2, in the fresh object 1"),
    "the state of an optimiser, made when it is first needed": (
        "learn", "self.kept = g if self.kept is None else self.kept + g; g = self.kept",
        "another agent_0/w; self.kept is array("),
    "a variable that is replaced": (
        "learn", "self.w = self.w - g", "self.w is array("),
    "act that writes": ("act", "self.w += 1", "changes agent_0/w"),
    "the machine's random numbers": (
        "learn", "g *= np.float32(os.urandom(1)[0])",
        "gives another agent_0/w; it takes the machine's random numbers (mine.py:LINE)"),
    "a generator of its own": (
        "act", "choice = self.rng.integers(0, 5, len(obs))",
        "self.rng is a generator that has drawn"),
    "a generator without a seed": (
        "learn", "g *= np.float32(np.random.default_rng().random())",
        "it takes the machine's random numbers (mine.py:LINE)"),
    "the time": ("learn", "g *= np.float32(time.perf_counter() % 1)",
                 "it calls time.perf_counter (mine.py:LINE)"),
    "the order of objects in a set": (
        "learn", "g *= np.float32(id(max((Thing() for _ in range(9)), key=id)) % 1000003)",
        "it calls id (mine.py:LINE)"),
    "the order of texts in a set": (
        "learn", "g *= np.float32(list({chr(97 + i) * 9 for i in range(26)}).index('a' * 9))",
        "@under another PYTHONHASHSEED"),
    "a parameter outside of the block": (
        "learn", "self.bias = getattr(self, 'bias', 0) + float(g.sum()); g += "
        "np.float32(self.bias)", "self.bias is"),
    "a learning rate in an attribute": (
        "learn", "self.lr *= 0.5; g *= np.float32(self.lr)", "self.lr is 0.125, in the fresh"),
    "actions of the wrong shape": (
        "act", "choice = np.stack([choice, choice], 1)", "act returned choices of shape (32, 2)"),
    "actions of the wrong type": (
        "act", "choice = choice.astype(float)", "act returned actions of shape (32,)"),
    "a choice that there is not": ("act", "choice = choice + 1", "act chose 5; the choices are"),
    "an action that is not within its range": (
        "act", "choice = choice * 3", "outside of -1 .. 1", CONTINUOUS, "continuous"),
    "a choice that the mask excludes": (
        "act", "choice = (obs @ self.w).argmax(1)", "which ctx.allowed excludes", WHOLE, "masked"),
    "a vector that the mask excludes": (
        "act", "choice = np.eye(5, dtype='f4')[(obs @ self.w).argmax(1)]",
        "which the mask excludes", WHOLE, "masked"),
    "weights that are not finite": (
        "learn", "self.w[0, 0] = np.inf", "agent_0/w is not finite"),
    "a thread": ("learn", "threading.Thread(target=time.sleep, args=(0.01,)).start()",
                 "starts a thread"),
    "a file": ("learn", "open('notes.txt', 'w').close()", "writes notes.txt"),
    "a process": ("learn", "import subprocess; subprocess.run(['true'])",
                  "starts the process true"),
    "a global variable": (
        "learn", "shared_counter[0] += 1; g *= np.float32(shared_counter[0])",
        "it changes the global variable shared_counter of mine.py"),
    "a global cache": (
        "learn", "g = cache.setdefault('g', g)",
        "it changes the global variable cache of mine.py"),
    "a batch that is kept": (
        "learn", "x = x if self.kept is None else self.kept['obs']; g = g + x.mean(); "
        "self.kept = batch", "self.kept"),
    "observations that are changed in place": (
        "act", "obs *= 0", "@act changes obs in place"),
    "weights of a batch that are changed in place": (
        "learn", "batch.weights *= 2", "@learn changes batch.weights in place"),
    "a text's hash": (
        "learn", "g *= np.float32(hash('text') % 1000)", "@under another PYTHONHASHSEED"),
    "a loss that is not finite": (
        "learn", "return {'loss': np.float32(np.inf)}", "learn: loss is not finite"),
    "a loss that is no number": (
        "learn", "return {'loss': 'small'}", "could not convert"),
    "a variable of the environment": (
        "learn", "g *= np.float32(os.environ.get('SCALE', '1'))",
        "learn reads the environment variable SCALE"),
    "a carry that is not used": (
        "act", "choice = brood.Act(choice, carry=np.zeros((len(obs), 4)))",
        "whatever ctx.carry is", CARRIES),
    "a carry of the wrong shape": (
        "act", "choice = brood.Act(choice, carry=np.zeros((len(obs), 3)))",
        "the carry of shape (32, 3), expected (32, 4)", CARRIES),
    "first values that depend on the time": (
        "build", "self.w += np.float32(time.time() % 1)", "agent_0/w another first value"),
    "an attribute that depends on the time": (
        "build", "self.lr = time.time_ns() % 1000", "self.lr is",
        WHOLE.replace("pass  # learn", "g *= np.float32(self.lr)")),
    "draws without the seed": (
        "act", "choice = np.random.default_rng(ctx.step).integers(0, 5, len(obs))",
        "do not depend on the seed"),
    "a constant batch size": (
        "learn", "g = g + x.reshape(32, -1).mean()", "learn with 2 rows: ValueError"),
}
TORCH_WHOLE = """
class Mine(brood.Agent):
    def build(self):
        self.net = nn.Linear(self.me.obs, self.me.action.width)
        self.track(net=self.net)
        self.opt = self.optimizer(self.net.parameters())
        pass  # build

    def act(self, obs, ctx):
        pass  # act
        return self.net(torch.from_numpy(obs)).argmax(1)

    def learn(self, batch, ctx):
        loss = (self.net(batch.t("obs")) - batch.t("reward")[:, None]).pow(2).mean()
        self.opt.zero_grad()
        loss.backward()
        pass  # learn
        self.opt.step()
        return {"loss": loss}
"""
TORCH_FAULTS = {
    "a network that is not tracked": (
        "build", "self.other = nn.Linear(3, 3)", "self.other"),
    "a parameter that is replaced": (
        "learn", "self.net.weight.data = self.net.weight.data * 2", "net"),
    "a scheduler": (
        "build", "self.s = torch.optim.lr_scheduler.StepLR(self.opt, 1)", "self.s is a StepLR"),
}


def checked(file, python=sys.executable, *options, updates=2, code=None):
    """The findings of the check of a program, and its last line. Each request of its short run is
    repeated by a process: what a second update shows, a third one would show again."""
    p = subprocess.run(
        [python, "-m", "brood.check", "--json", "--updates", str(updates), *options, str(file)],
        capture_output=True,
        text=True, check=False,
        env={**os.environ, "PYTHONPATH": str(SOURCE / "scripts" / "python")})
    assert p.stderr == "" and p.stdout, p
    *found, last = map(json.loads, p.stdout.splitlines())
    assert p.returncode == (1 if last["faults"] else 0), p
    assert code in (None, p.returncode), p.stdout
    return found, last


def line_of(text, begin):
    return 1 + next(i for i, line in enumerate(text.splitlines())
                    if line.strip().startswith(begin))


FOUND = {}  # name of a fault -> what was found of it: for the tests that look closer


def find(w, name, fault, python=sys.executable, head=None):
    method, code, said, *more = fault
    whole = more[0] if more else WHOLE if head is None else TORCH_WHOLE
    assert whole.count(PASS[method]) == 1
    file = write(w, whole.replace(PASS[method], code), **({"head": head} if head else {}))
    options = ["--actions", more[1]] if len(more) > 1 else []
    found, _ = checked(file, python, *options, code=0 if said.startswith("@") else 1)
    text = file.read_text()
    at = line_of(text, code.split(";")[0])
    said = said.replace("LINE", str(at))
    state = "note" if said.startswith("@") else "fault"
    hits = [f for f in found if f["state"] == state and said.lstrip("@") in f["found"]]
    assert hits, (name, [f for f in found if f["state"] != "ok"])
    assert hits[0]["file"] == "mine.py", (name, hits[0])
    assert hits[0]["line"] in [at, *(line_of(text, f"def {m}") for m in PASS)], (name, hits[0])
    FOUND[name] = hits[0]
    return hits[0]


def each(table, kind):
    """A test for each row; without BROOD_FAULTS=all, for every fourth one."""
    for i, (name, fault) in enumerate(table.items()):
        if i % 4 != 0 and os.environ.get("BROOD_FAULTS") != "all":
            continue

        def test(w, name=name, fault=fault):
            if kind == "torch":
                find(w, name, fault, PYTHON, TORCH_HEAD)
            else:
                find(w, name, fault)
        test.__name__ = f"test_{kind}_{i:02}_" + "_".join(
            "".join(c if c.isalnum() else " " for c in name).split())
        globals()[test.__name__] = (needs_torch if kind == "torch" else needs_numpy)(test)
        globals()[test.__name__].__name__ = test.__name__


each(FAULTS, "numpy")
each(TORCH_FAULTS, "torch")


@needs_numpy
def test_a_sound_agent_has_none(w):
    for whole, kind in ((WHOLE, "discrete"), (WHOLE, "masked"), (CONTINUOUS, "continuous")):
        found, last = checked(write(w, whole), sys.executable, "--actions", kind, code=0,
                              updates=2 if kind == "discrete" else 1)
        assert last["notes"] == 0, found
    assert len(FAULTS) >= 20


SEVERAL = """
class Mine(brood.Agent):
    reads = ("*/obs", "*/action", "reward", "*/next_obs", "terminated")
    rounds = brood.setting(2, min=1)

    def build(self):
        n = sum(p.obs + p.action.width for p in self.players)
        self.w = self.variable("w", np.zeros((self.me.obs, self.me.action.width), np.float32))
        self.q = self.variable("q", np.zeros(n, np.float32))

    def act(self, obs, ctx):
        return (obs @ self.w + ctx.rng.normal(size=(len(obs), 5)) * (ctx.mode != "greedy")).argmax(1)

    @brood.stage()
    def propose(self, batch, ctx):
        return {"action": np.eye(5, dtype="f4")[(batch["next_obs"] @ self.w).argmax(1)]}

    @brood.stage(reads=["propose/action"], writes=True)
    def learn(self, batch, ctx):
        actions = [ctx.inputs[f"{p.name}/action"] for p in self.players]
        after = np.concatenate([batch["*/next_obs"], *actions], 1) @ self.q
        x = np.concatenate([batch["*/obs"], batch["*/action"]], 1)
        error = batch["reward"] + after * (1 - batch["terminated"]) - x @ self.q
        self.q += np.float32(1e-3 / len(x)) * (x.T @ (error * batch.weights))
        return {"critic_loss": np.square(error).mean(), "priorities": np.abs(error)}

    @brood.stage(writes=True, repeat="rounds", turns=True, reads=["prev:turn/factor"])
    def turn(self, batch, ctx):
        self.w += ctx.inputs["prev:/factor"].mean()
        return {"factor": np.ones((len(batch), 1), np.float32) * ctx.uniform(1)}
"""
RECURRENT = """
class Mine(brood.Agent):
    rows = brood.episodes()
    carry, columns = 6, {"extra": 2}
    reads = ("obs", "extra")

    def build(self):
        self.w = self.variable("w", np.random.normal(size=(self.me.obs + 6, 6)).astype("f4"))

    def act(self, obs, ctx):
        h = np.tanh(np.concatenate([obs, ctx.carry], 1) @ self.w)
        return brood.Act(h[:, :5].argmax(1), {"extra": h[:, :2]}, h)

    def learn(self, batch, ctx):
        self.w += np.float32(1e-4) * (batch["obs"] * batch.present[..., None]).mean()
        return {"extra": batch["extra"].mean()}
"""


@needs_numpy
def test_agents_of_several_stages_and_with_a_carry_have_none(w):
    for body, checks, ran in ((SEVERAL, 11, "4 requests act and 8 of stages"),
                              (RECURRENT, 12, "4 requests act and 2 of stages")):
        found, last = checked(write(w, body), code=0)
        assert (last["checks"], last["notes"]) == (checks, 0), found
        n = next(f["found"] for f in found if f["check"] == "run")
        assert n.startswith(ran), n
    fixed = "class Mine(brood.Agent):\n    def act(self, obs, ctx):\n        return [0] * len(obs)\n"
    found, last = checked(write(w, fixed), code=0)
    assert last["notes"] == 0, found


@needs_numpy
def test_the_example_in_numpy_has_none(w):
    found, last = checked(EXAMPLES / "numpy_q.py", code=0, updates=3)  # as by default
    assert last["notes"] == 0 and last["checks"] >= 10, found
    replayed = next(f["found"] for f in found if f["check"] == "replay")
    assert replayed == "8 requests repeated by fresh processes"


STARTS = SOURCE / "scripts" / "python" / "starts"  # what `brood new --agent` writes


@needs_numpy
def test_the_agents_to_start_from_have_none_and_learn(w):
    """With several heads, and continuous: integration/test_programs.py."""
    for kind, updates in (("discrete", 2), ("masked", 1)):
        found, last = checked(STARTS / "discrete.py", sys.executable, "--actions", kind, code=0,
                              updates=updates)
        assert last["notes"] == 0, found
    first, last = learns(STARTS / "discrete.py", 1200, 128)
    assert first < 0.5 and last > 0.8, (first, last)


@needs_torch
def test_the_agents_to_start_from_in_torch_have_none(w):
    for name, kind in (("discrete", "heads"), ("discrete", "masked"),
                       ("continuous", "continuous")):
        found, last = checked(STARTS / f"{name}_torch.py", PYTHON, "--actions", kind, updates=1,
                              code=0)  # each process imports torch
        assert last["notes"] == 0, found


@needs_torch
def test_the_examples_in_torch_have_none(w):
    for name, updates in (("dqn", 1), ("ppo", 2), ("maddpg", 1), ("recurrent_ppo", 1)):
        found, last = checked(EXAMPLES / f"{name}.py", PYTHON, updates=updates, code=0)
        assert last["notes"] == 0, found


@needs_numpy
def test_a_finding_names_method_request_tensor_and_attribute(w):
    name = "a counter in an attribute"
    found = FOUND.get(name) or find(w, name, FAULTS[name])
    assert (found["method"], found["request"], found["tensor"], found["attribute"]) == (
        "learn", 2, "agent_0/w", "self.n"), found


@needs_numpy
def test_it_is_told_in_lines_for_people(w):
    file = write(w, WHOLE.replace(PASS["act"], "self.w += 1"))
    run = functools.partial(subprocess.run, capture_output=True, text=True, check=False, env={
        **os.environ, "PYTHONPATH": str(SOURCE / "scripts" / "python")})
    p = run([sys.executable, "-m", "brood.check", file])
    *_, fault, last = p.stdout.splitlines()[:-1] + p.stdout.splitlines()[-1:]
    assert p.returncode == 1 and last == f"{file}: 1 fault, no notes in 4 checks", p
    assert any(line.startswith("ok     describe: Mine, learn(all, writes), 1 setting")
               for line in p.stdout.splitlines()), p.stdout
    line = line_of(file.read_text(), "def act")
    assert f"FAULT  mine.py:{line}: run: act changes agent_0/w" in p.stdout, p.stdout
    broken = w.write("broken.py", textwrap.dedent("import brood\nbrood.nothing\n"))
    p = run([sys.executable, "-m", "brood.check", "-q", broken])
    assert p.returncode == 1 and "FAULT  broken.py:2: describe: " in p.stdout, p
    p = run([sys.executable, "-m", "brood.check", "--actions", "none", file])
    assert p.returncode == 2 and p.stderr, p


if __name__ == "__main__":
    harness.main()
