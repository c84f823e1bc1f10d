"""Agents in Python with PyTorch, under a stand-in for the supervisor. BROOD_TORCH_PYTHON is a
Python with torch, NumPy and msgpack, if /usr/bin/python3 has none."""
import os
import subprocess
import sys

from agents import (EXAMPLES, HEAD, harness, learns, line_of, needs_numpy, play, program, refused,
                    team)
from agents import write as write_program

try:
    from brood import testing
except ImportError:
    pass

PYTHON = os.environ.get("BROOD_TORCH_PYTHON", sys.executable)
found = subprocess.run([PYTHON, "-c", "import torch, numpy, msgpack; print(torch.__version__)"],
                       capture_output=True, text=True, check=False)
VERSION = found.stdout.strip()
TORCH_HEAD = HEAD + "import torch\nfrom torch import nn\n"
EXTRA_LINES = TORCH_HEAD.count("\n") - HEAD.count("\n")


def needs_torch(test):
    def wrapped(w):
        if found.returncode != 0:
            raise harness.Skip(f"{PYTHON} has no torch: {found.stderr.strip()[-80:]}")
        test(w)
    return needs_numpy(wrapped)


def write(w, body):
    return write_program(w, body, head=TORCH_HEAD)


@needs_torch
def test_the_examples_give_the_same_bytes_after_kills(w):
    print(f"# torch {VERSION}")
    players = team()
    for name, columns, stage in (
            ("dqn", {}, None),
            ("ppo", {"log_prob": 1, "value": 1},
             lambda log: lambda i: ("learn", testing.stage_params(log, 4, i, 1, length=16,
                                                                  step=100 * i)))):
        log = testing.Experience(players, columns)
        log.fill(500, 1)
        more = {"python": PYTHON, "stage": stage(log) if stage else None}
        calm = play(EXAMPLES / f"{name}.py", players, log, **more)
        killed = play(EXAMPLES / f"{name}.py", players, log, kills=(0, 3, 7), **more)
        assert calm == killed, name
        assert len({str(a) for a in calm[0]}) == len(calm[0])


@needs_torch
def test_the_examples_learn(w):
    for name, updates, rows, columns in (("dqn", 500, 128, ()),
                                         ("ppo", 120, 0, ("log_prob", "value"))):
        first, last = learns(EXAMPLES / f"{name}.py", updates, rows, PYTHON, columns)
        assert first < 0.5 and last > 0.8, (name, first, last)


OPTIMIZERS = """
class Mine(brood.Agent):
    live = ("optimizer.learning_rate",)
    kind = brood.setting("adam")

    def build(self):
        self.net = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.Dropout(0.5),
                                 nn.Linear(8, 5))
        self.half = nn.Parameter(torch.ones(3).bfloat16())
        self.free = torch.zeros(2, dtype=torch.int64)
        self.track(net=self.net, half=self.half, free=self.free)
        p = self.net.parameters()
        makers = {
            "rmsprop": lambda: torch.optim.RMSprop(p, 1e-3, momentum=0.5, centered=True),
            "sgd": lambda: torch.optim.SGD(p, 1e-3, momentum=0.9, nesterov=True),
            "plain": lambda: torch.optim.SGD(p, 1e-3),
            "adamw": lambda: torch.optim.AdamW(p, 1e-3, amsgrad=True),
        }
        if self.kind in makers:
            self.opt = makers[self.kind]()
            self.track(opt=self.opt)
        else:
            self.opt = self.optimizer(p)

    @torch.no_grad()
    def act(self, obs, ctx):
        return nn.functional.linear(torch.from_numpy(obs), self.net[0].weight[:5]).argmax(1)

    def learn(self, batch, ctx):
        loss = (self.net(batch.t("obs")) - batch.t("reward")[:, None]).pow(2).mean()
        loss = loss + 0 * torch.rand(1)[0]
        loss.backward()
        self.opt.step()
        with torch.no_grad():
            self.free += 1
            self.half.mul_(1.5)
        return {"loss": loss, "lr": self.opt.param_groups[0]["lr"], "half": self.half.sum()}
"""


@needs_torch
def test_every_optimiser_and_buffer_is_in_the_block(w):
    """Batch normalisation, dropout, bfloat16, whole numbers; without calling zero_grad."""
    players = team(1)
    log = testing.Experience(players)
    log.fill(200, 1)
    file = write(w, OPTIMIZERS)
    for kind in ("adam", "momentum", "rmsprop", "sgd", "plain", "adamw"):
        optimizer = {**testing.OPTIMIZER, "type": kind if kind == "momentum" else "adam"}
        config = testing.configuration(players, settings={"kind": kind}, optimizer=optimizer)
        calm = play(file, players, log, python=PYTHON, config=config)
        assert calm == play(file, players, log, python=PYTHON, config=config, kills=(1, 5)), kind
    for type_, section in (("sgd", {}), ("rmsprop", {})):
        with program(file, log, PYTHON) as p:
            p.configure(testing.configuration(players, settings={"kind": ""}, optimizer={
                **testing.OPTIMIZER, "type": type_}))


@needs_torch
def test_the_optimiser_is_torch_s_own(w):
    """The state begins as torch's: five steps give the numbers of five steps without a block."""
    players = team(1)
    log = testing.Experience(players)
    log.fill(200, 1)
    file = write(w, """
        def make(p, kind):
            return {"adam": lambda: torch.optim.Adam(p, 1e-2),
                    "sgd": lambda: torch.optim.SGD(p, 1e-2, momentum=0.9),
                    "rmsprop": lambda: torch.optim.RMSprop(p, 1e-2, momentum=0.9)}[kind]()

        class Mine(brood.Agent):
            kind = brood.setting("adam")
            def build(self):
                self.w = torch.ones(4, requires_grad=True)
                self.track(w=self.w)
                self.opt = make([self.w], self.kind)
                self.track(opt=self.opt)
            def learn(self, batch, ctx):
                other = torch.ones(4, requires_grad=True)
                opt = make([other], self.kind)
                for i in range(ctx.update + 1):
                    opt.zero_grad()
                    (other * torch.arange(4.) + other ** 2).sum().backward()
                    opt.step()
                (self.w * torch.arange(4.) + self.w ** 2).sum().backward()
                self.opt.step()
                return {"difference": (other - self.w).abs().max(), "w": self.w.sum()}
        """)
    for kind in ("adam", "sgd", "rmsprop"):
        with program(file, log, PYTHON) as p:
            p.configure(testing.configuration(players, settings={"kind": kind}))
            for i in range(5):
                scalars = p.request("learn", testing.stage_params(log, 8, i, 1))["scalars"]
                assert scalars["difference"] == 0, (kind, scalars)
                p.restart()


@needs_torch
def test_the_learning_rate_follows_the_configuration(w):
    players = team(1)
    log = testing.Experience(players)
    log.fill(200, 1)
    optimizer = {**testing.OPTIMIZER, "learning_rate": [0.5, 0.25, 100.0]}
    with program(write(w, OPTIMIZERS), log, PYTHON) as p:
        answer = p.configure(testing.configuration(players, optimizer=optimizer))
        names = [v[0] for v in answer["variables"]]
        assert "agent_0/net/0/weight" in names and \
            "agent_0/optimizer/net/0/weight/exp_avg" in names, names
        assert [14, [3]] in [v[1:3] for v in answer["variables"]]  # bfloat16
        body = testing.stage_params(log, 8, 0, 1, step=50)
        assert p.request("learn", body)["scalars"]["lr"] == 0.375
        p.request("set", {"changes": {"optimizer.learning_rate": 0.125,
                                      "optimizer.learning_rate.over": 0.0}})
        assert p.request("learn", body)["scalars"]["lr"] == 0.125


FAULTS = """
class Mine(brood.Agent):
    how = brood.setting("none")

    def build(self):
        self.net, self.n = nn.Linear(6, 5), 0
        self.track(net=self.net)
        self.opt = torch.optim.Adam(self.net.parameters(), 1e-3)
        if self.how != "untracked optimiser":
            self.track(opt=self.opt)
        if self.how == "untracked module":
            self.more = {"nets": [nn.Linear(1, 1)]}
        if self.how == "untracked buffer":
            self.norm = nn.BatchNorm1d(3, affine=False)
        if self.how == "scheduler":
            self.rates = torch.optim.lr_scheduler.StepLR(self.opt, 1)
        if self.how == "order":
            self.late = nn.Linear(1, 1)
            self.track(o=torch.optim.SGD(self.late.parameters(), 0.1))
        if self.how == "unknown optimiser":
            self.track(o=torch.optim.Adagrad(self.net.parameters(), 0.1))
        if self.how == "dampening":
            self.track(o=torch.optim.SGD(self.net.parameters(), 0.1, 0.9, 0.5))
        if self.how == "thing":
            self.track(x=np.zeros(3))
        if self.how == "lazy":
            self.track(x=nn.LazyLinear(3))
        if self.how == "meta":
            self.track(x=nn.Linear(3, 3, device="meta"))

    @torch.no_grad()
    def act(self, obs, ctx):
        if self.how == "impure act":
            self.net.weight.mul_(0.999)
        if self.how == "replacing act":
            self.net.weight.data = self.net.weight.data.clone()
        return self.net(torch.from_numpy(obs)).argmax(1)

    def learn(self, batch, ctx):
        if self.how == "replaced" and ctx.update == 1:
            self.net.weight.data = self.net.weight.data + 1e-3
        if self.how == "replaced state":
            state = self.opt.state[self.net.weight]
            state["exp_avg"] = state["exp_avg"] + 0
        if self.how == "lazy optimiser":
            if not hasattr(self, "late"):
                self.late = torch.optim.Adam(self.net.parameters(), 1e-2)
            self.net(batch.t("obs")).sum().backward()
            self.late.step()
        if self.how == "rate":
            self.opt.param_groups[0]["lr"] *= 0.9
        if self.how == "decay":
            self.n += 1
            self.opt.param_groups[0]["weight_decay"] = self.n * 1e-3
        if self.how == "entropy":
            torch.manual_seed(int.from_bytes(os.urandom(4), "little"))
        if self.how == "mode" and ctx.update > 0:
            self.net.eval()
        loss = self.net(batch.t("obs")).pow(2).mean()
        self.opt.zero_grad()
        loss.backward()
        self.opt.step()
        if self.how in ("entropy", "mode"):
            with torch.no_grad():
                self.net.bias.add_(torch.rand(5) if self.how == "entropy" else
                                   float(self.net.training))
        if self.how == "not finite":
            with torch.no_grad():
                self.net.bias[0] = float("nan")
        return {"loss": loss}
"""


@needs_torch
def test_the_self_check_finds_what_a_kill_would_lose(w):
    file = write(w, FAULTS)
    players = team(1)
    log = testing.Experience(players)
    log.fill(50, 1)
    line = {name: line_of(FAULTS, begin) + EXTRA_LINES
            for name, begin in (("act", "@torch.no_grad"), ("learn", "def learn"))}
    learn = f"learn (mine.py:{line['learn']})"
    again = "is not repeatable: a fresh object on the same block gives another"
    lost = "outside of the block, which would be lost with the process: self.track"
    found = {
        "none": None,
        "untracked optimiser": f"self.opt is an optimiser with its state {lost}(opt=self.opt)",
        "untracked module": f"self.more['nets'][0] has a parameter weight {lost}(more=self.more)",
        "untracked buffer": f"self.norm has a buffer running_mean {lost}(norm=self.norm)",
        "scheduler": "self.rates is a StepLR, whose state would be lost",
        "order": "an optimiser's parameters are tracked before it",
        "unknown optimiser": "Adagrad is not known here",
        "dampening": "SGD with dampening",
        "thing": "found ndarray; for an array: self.variable",
        "lazy": "x/weight has no size yet",
        "meta": "x/weight is on meta",
        "impure act": f"act (mine.py:{line['act']}) changes agent_0/net/weight",
        "replacing act": "agent_0/net/weight was replaced by another tensor",
        "replaced": "agent_0/net/weight was replaced by another tensor",
        "replaced state": "agent_0/opt/net/weight/exp_avg was replaced by another tensor",
        "rate": f"{learn}, request 2, {again} agent_0/net/weight; "
                "self.opt.param_groups[0]['lr'] is 0.00081",
        "lazy optimiser": f"{learn}, request 2, {again} agent_0/net/weight; "
                          "self.late.state of parameter 0['step'] is tensor(2.), in the fresh",
        "decay": f"{learn}, request 2, {again} agent_0/net/weight; self.n is 2",
        "entropy": f"{learn}, request 1, {again} agent_0/net/bias; no attribute differs",
        "mode": None,  # each request sets it
        "not finite": "stage learn: agent_0/net/bias is not finite",
    }
    for how, what in found.items():
        def attempt():
            with program(file, log, PYTHON) as p:
                p.configure(testing.configuration(players, settings={"how": how}))
                for i in range(4):
                    p.request("act", testing.act_params(players[0], 3, i, i))
                    p.request("learn", testing.stage_params(log, 8, i, 1))
        if what is None:
            attempt()
        else:
            refused(what, attempt)


if __name__ == "__main__":
    harness.main()
