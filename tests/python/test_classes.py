"""The classes of brood.torch, under a stand-in for the supervisor."""
import subprocess

from agents import EXAMPLES, SOURCE, harness, learns, play, program, refused, team
from test_torch import PYTHON, needs_torch, write

try:
    import numpy as np
    from brood import testing
    from brood.protocol import pack_tensor
except ImportError:
    pass

USES = "from brood.torch import DQN, MADDPG, MAPPO, PPO, ActorCritic\n"


def spaces():
    """Teams whose actions are of each kind."""
    return {"choices": team(), "masked heads": team(heads=[3, 4], masked=True),
            "numbers": team(heads=[], width=2)}


def stages_of_maddpg(log, players):
    """Requests for the three stages of each update, one after another."""
    width = players[0]["action"]["width"]

    def request(i):
        rng = np.random.default_rng(i)
        inputs = {f"{p['name']}/action": rng.random((1, 32, width)).astype("f4") for p in players}
        name = ("propose", "critic", "learn")[i % 3]
        body = testing.stage_params(log, 32, i // 3, 1, step=100 * i,
                                    inputs=inputs if name == "critic" else None)
        return name, body
    return request


def windows(log, players):
    return lambda i: ("learn", testing.stage_params(log, 4, i, 1, length=16, step=100 * i))


def sequences(n):
    return lambda log, players: lambda i: (
        "learn", testing.stage_params(log, 32, i, 1, length=n, step=100 * i))


@needs_torch
def test_the_same_bytes_after_kills(w):
    """The classes with kinds of actions that the examples do not have, and with a memory. The
    first requests are also repeated by the self-check."""
    memory = {"log_prob": 1, "carry": 7}
    for base, body, columns, requests, kinds in (
            ("DQN", "pass", {}, sequences(1), ["masked heads"]),
            ("PPO", "pass", {"log_prob": 1}, windows, ["numbers"]),
            ("MAPPO", "carry = 7", memory, windows, ["masked heads"]),
            ("MADDPG", "pass", {}, stages_of_maddpg, ["masked heads", "numbers"])):
        file = write(w, f"{USES}class Mine({base}):\n    {body}\n")
        for kind in kinds:
            players = spaces()[kind]
            log = testing.Experience(players, columns)
            log.fill(300, 1)
            more = {"python": PYTHON, "stage": requests(log, players),
                    "carry": columns.get("carry", 0)}
            calm = play(file, players, log, **more)
            assert calm == play(file, players, log, kills=[4], **more), (base, body, kind)
            assert len({str(a) for a in calm[0]}) > len(calm[0]) / 2, (base, body, kind)


@needs_torch
def test_the_examples_give_the_same_bytes_after_kills(w):
    players = team()
    for name, columns, requests in (
            ("dueling_dqn", {}, sequences(3)), ("mappo_bonus", {"log_prob": 1}, windows),
            ("recurrent_ppo", {"log_prob": 1, "carry": 64}, windows),
            ("maddpg", {}, stages_of_maddpg)):
        log = testing.Experience(players, columns)
        log.fill(300, 1)
        more = {"python": PYTHON, "stage": requests(log, players),
                "carry": columns.get("carry", 0)}
        calm = play(EXAMPLES / f"{name}.py", players, log, **more)
        assert calm == play(EXAMPLES / f"{name}.py", players, log, kills=[4], **more), name


@needs_torch
def test_a_device_has_copies_in_the_block(w):
    """As on a GPU: what is tracked lives elsewhere, and the block has a copy after each request that
    writes. The bytes are those of an agent that computes in the block, also after kills, and
    after a `restore`."""
    players = team()
    copies = {"environment": {"BROOD_COPIES_BLOCK": "1"}}
    for name, columns, requests in (("dueling_dqn", {}, sequences(3)),
                                    ("mappo_bonus", {"log_prob": 1}, windows)):
        log = testing.Experience(players, columns)
        log.fill(300, 1)
        file, more = EXAMPLES / f"{name}.py", {"python": PYTHON, "stage": requests(log, players)}
        calm = play(file, players, log, **more)
        assert calm == play(file, players, log, kills=[4], **more, **copies), name
        body, answers = {**testing.act_params(players[0], 30, 0, 0), "mode": 2}, []
        for how in {}, copies:
            with program(file, log, PYTHON, **how) as p:
                p.configure(testing.configuration(players))
                answers.append([p.request("act", body)])
                p.request("restore", {"block": bytes(len(calm[1]))})
                answers[-1].append(p.request("act", body))
        assert answers[0] == answers[1] and answers[0][0] != answers[0][1], name


@needs_torch
def test_a_device_that_is_not_there(w):
    """Neither is one that a machine with GPUs would have, on which this is skipped."""
    found = subprocess.run([PYTHON, "-c", "import torch; print(torch.cuda.device_count())"],
                           capture_output=True, text=True, check=True)
    if int(found.stdout) > 0:
        raise harness.Skip("there is a GPU")
    log = testing.Experience(team())
    with program(EXAMPLES / "dqn.py", log, PYTHON) as p:
        body = {**testing.configuration(team()), "program": {"device": "cuda:0"}}
        refused("device: cuda:0: torch", lambda: p.configure(body))
        refused("sees 0 GPUs", lambda: p.configure(body))


@needs_torch
def test_an_example_of_a_subclass_learns(w):
    first, last = learns(EXAMPLES / "mappo_bonus.py", 120, 0, PYTHON, ("log_prob",))
    assert first < 0.5 and last > 0.8, (first, last)


@needs_torch
def test_numbers_are_learnt(w):
    """A game whose right action is half of the only observation, in actions from -1 to 1."""
    who, copies = testing.player("agent_0", 1, width=1), 64
    network = {**testing.NETWORK, "hidden": [32]}
    for base, stages, updates, columns in (
            ("PPO", ["learn"], 60, ["log_prob"]),
            ("MADDPG", ["propose", "critic", "learn"], 400, [])):
        log, rng = testing.Experience([who], dict.fromkeys(columns, 1)), np.random.default_rng(1)
        with program(write(w, f"{USES}class Mine({base}):\n    pass\n"), log, PYTHON) as p:
            def ask(mode, step):
                obs = rng.uniform(-1, 1, (copies, 1)).astype("f4")
                answer = p.request("act", {"mode": mode, "step": step, "obs": pack_tensor(obs)})
                return obs, np.frombuffer(answer["actions"][2], "f4")[:, None], answer

            def distance():
                obs, action, _ = ask(2, 0)
                return np.abs(action - obs / 2).mean()

            p.configure(testing.configuration([who], actor=network, critic=network, optimizer={
                **testing.OPTIMIZER, "learning_rate": 0.01}, settings={"entropy": 0} if
                base == "PPO" else {"exploration_noise": 0.5}))
            first = distance()
            for i in range(updates):
                obs, action, answer = ask(0, i * copies)
                x = {"obs": obs, "next_obs": obs, "action": action, "terminated": np.ones(copies),
                     "reward": -(action - obs / 2)**2, "alive": np.ones(copies),
                     **{k: np.frombuffer(answer["columns"][k][2], "f4") for k in columns}}
                log.append({f"agent_0/{k}": v for k, v in x.items()}, copies)
                rows = np.arange(log.n_rows - copies, log.n_rows) if columns else \
                    rng.integers(0, log.n_rows, copies)
                body = {"step": i * copies, "update": i, "repeat": 0, "inputs": {},
                        "rows": pack_tensor(rows.astype("u8")[None, :, None])}
                proposals = {}
                for stage in stages:
                    given = {"agent_0/action": proposals} if stage == "critic" else {}
                    answer = p.request(stage, {**body, "inputs": given})
                    proposals = answer["outputs"].get("action")
            assert distance() < 0.12 < first, (base, first, distance())


@needs_torch
def test_what_classes_say_of_themselves(w):
    """The memory and what the critic sees decide the columns; settings can become constants."""
    with program(write(w, USES + "class Mine(MAPPO):\n    carry, gae = 5, 0.5\n"), None,
                 PYTHON) as p:
        found = p.describe()
    keys = {s["key"] for s in found["settings"]}
    assert "gae" not in keys and {"clip_ratio", "entropy", "minibatches"} <= keys, keys
    assert found["defaults"]["optimizer.epsilon"] == "1e-05", found["defaults"]
    with program(write(w, USES + "class Mine(MAPPO):\n    carry, gae = 5, 0.5\n"), None,
                 PYTHON) as p:
        found = p.configure(testing.configuration(team(2)))
    assert found["carry"] == 5
    assert found["columns"] == [{"name": "log_prob", "elements": 1}, {"name": "carry",
                                                                      "elements": 5}]
    assert {"agent_1/obs", "agent_1/next_obs", "agent_0/carry", "first"} <= set(found["reads"])
    assert "agent_1/reward" not in found["reads"]
    with program(write(w, USES + "class Mine(PPO):\n    pass\n"), None, PYTHON) as p:
        found = p.configure(testing.configuration(team(2)))
    assert not [c for c in found["reads"] if c.startswith("agent_1/")], found["reads"]
    for base, kind in (("DQN", "has no discrete actions"), ("MADDPG", "have no bounds")):
        who = team(1, heads=[], width=1)
        who[0]["action"].update(low=-np.inf, high=np.inf)
        with program(write(w, f"{USES}class Mine({base}):\n    pass\n"), None, PYTHON) as p:
            try:
                p.configure(testing.configuration(who))
                raise AssertionError(base)
            except testing.Error as e:
                assert kind in str(e), e


HOOKS = {
    "DQN": ("make_network values explores goals value_of_next loss update_target", sequences(1),
            {}),
    "MAPPO": ("make_networks seen_width features policy value observed values prepared rewards "
              "advantages parts losses policy_loss bonus value_loss error_loss", windows,
              {"log_prob": 1}),
    "MADDPG": ("make_networks policy value explored proposed goals critic_loss actor_loss penalty "
               "update_targets weights actions", stages_of_maddpg, {}),
}


@needs_torch
def test_every_method_to_replace_is_called(w):
    players = team()
    for base, (names, requests, columns) in HOOKS.items():
        methods = "".join(f"    def {name}(self, *given):\n        print('called {name}.')\n"
                          f"        return super().{name}(*given)\n" for name in names.split())
        log = testing.Experience(players, columns)
        log.fill(300, 1)
        ask = requests(log, players)
        with program(write(w, f"{USES}class Mine({base}):\n{methods}"), log, PYTHON) as p:
            p.configure(testing.configuration(players))
            for i in range(3):
                p.request("act", testing.act_params(players[0], 3, i, i))
                p.request(*ask(i))
            p.shutdown()
            missing = [n for n in names.split() if f"called {n}." not in p.output]
        assert not missing, (base, missing)


@needs_torch
def test_masks_are_kept(w):
    """In every mode; where a head has no choice left, all of them may be taken."""
    players = team(1, heads=[3, 4], masked=True)
    for base in ("DQN", "PPO", "MADDPG"):
        with program(write(w, f"{USES}class Mine({base}):\n    pass\n"), None, PYTHON) as p:
            p.configure(testing.configuration(players, settings={"epsilon": 0.5} if base == "DQN"
                                              else {}))
            taken = set()
            for i in range(30):
                body = testing.act_params(players[0], 16, i, i, mode=i % 3)
                may = np.frombuffer(body["allowed"], np.uint8).reshape(16, 7).copy()
                may[0, :3] = 0
                body["allowed"] = may.tobytes()
                action = np.frombuffer(p.request("act", body)["actions"][2], "f4").reshape(16, 7)
                for part in (slice(0, 3), slice(3, 7)):
                    assert (action[:, part].sum(1) == 1).all(), action
                    kept = (action * may)[:, part].sum(1) == 1
                    assert (kept | ~may[:, part].any(1)).all(), (base, i)
                taken |= set(action[:, :3].argmax(1))
            assert taken == {0, 1, 2}, (base, taken)


REMEMBERS = USES + """
class Mine(PPO):
    carry = 7
    def learn(self, batch, ctx):
        self.difference = None
        return {**super().learn(batch, ctx), "difference": self.difference}

    def policy_loss(self, log_prob, part, ctx):
        if self.difference is None:
            self.difference = (log_prob - part["log_prob"]).abs().max().item()
        return super().policy_loss(log_prob, part, ctx)
"""


def played(p, players, log, steps, time, state, forget=False):
    """Steps of 4 copies, whose episodes end now and then. state: carry, first of each copy."""
    who, copies = players[0], 4
    rng = np.random.default_rng(time)
    obs = rng.normal(size=(steps + 1, copies, who["obs"])).astype("f4")
    for t in range(steps):
        body = {"mode": 0, "step": copies * (time + t), "obs": pack_tensor(obs[t]),
                "first": state["first"].tobytes(), "carry": pack_tensor(state["carry"])}
        values = {}
        if who["action"].get("masked"):
            values["allowed"] = rng.random((copies, who["action"]["width"])) < 0.6
            body["allowed"] = values["allowed"].astype("u1").tobytes()
        answer = p.request("act", body)
        columns = p.arrays(answer, "columns")
        ends = rng.random(copies) < 0.1
        values.update(obs=obs[t], next_obs=obs[t + 1], reward=rng.normal(size=copies),
                      action=np.frombuffer(answer["actions"][2], "f4"), alive=np.ones(copies),
                      log_prob=columns["log_prob"], carry=0 * columns["carry"] if forget
                      else columns["carry"])
        log.append({**{f"agent_0/{k}": x for k, x in values.items()}, "truncated": ends,
                    "first": state["first"]}, copies)
        carry = np.frombuffer(answer["carry"][2], "f4").reshape(copies, 7)
        state.update(first=ends.astype("u1"), carry=carry.copy())
    rows = np.arange(log.n_rows - steps * copies, log.n_rows).reshape(steps, copies).T
    return {"step": copies * time, "update": time, "repeat": 0, "inputs": {},
            "rows": pack_tensor(np.ascontiguousarray(rows[None], "u8"))}


@needs_torch
def test_a_memory_is_what_it_was_when_it_acted(w):
    """The first minibatch computes the probabilities that were stored, in windows that begin in
    the middle of episodes and have beginnings inside."""
    file = write(w, REMEMBERS)
    for kind, players in spaces().items():
        players = players[:1]
        for forget in (False, True):
            log = testing.Experience(players, {"log_prob": 1, "carry": 7})
            state = {"first": np.ones(4, "u1"), "carry": np.zeros((4, 7), "f4")}
            with program(file, log, PYTHON) as p:
                p.configure(testing.configuration(
                    players, settings={"minibatches": 2, "epochs": 3}, optimizer={
                        **testing.OPTIMIZER, "learning_rate": 0.05}))
                found = [p.request("learn", played(p, players, log, 15, 15 * i, state, forget))
                         ["scalars"]["difference"] for i in range(3)]
            if forget:
                assert found[1] > 1e-3 and found[2] > 1e-3, (kind, found)
            else:
                assert max(found) < 1e-5, (kind, found)


FIXED = USES + """
def summed(inputs, outputs):
    layer = nn.Linear(inputs, outputs, bias=False)
    with torch.no_grad():
        layer.weight[:] = torch.eye(outputs, inputs) if outputs > 1 else torch.ones(1, inputs)
    return layer

class Mine(BASE):
    def make_network(self):                        # DQN: choice i is worth obs[i]
        return summed(self.me.obs, self.me.action.width)

    def make_networks(self):                       # critics: the sum of all that they see
        super().make_networks()
        if hasattr(self, "critic_net"):
            self.critic_net = summed(self.critic_net[0].in_features, 1)
        else:
            self.critic = summed(self.critic[0].in_features, 1)

    def goals(self, batch, ctx):
        found = super().goals(batch, ctx)
        self.goal = found.numpy().copy()
        return found

    def prepared(self, batch, ctx):
        found = super().prepared(batch, ctx)
        self.goal = found["goal"][:, 0].numpy().copy()
        return found

    def learn(self, batch, ctx):
        return {**super().learn(batch, ctx), **({"goal": self.goal} if hasattr(self, "goal") else {})}
"""


@needs_torch
def test_goals_are_those_of_a_plain_loop(w):
    """With networks that add up what they see, over ends of episodes and masks."""
    rng = np.random.default_rng(1)
    players, n = team(2, heads=[2, 3], masked=True), 200
    for p in players:
        p["obs"] = 5
    log = testing.Experience(players, {"log_prob": 1})
    ends = rng.random(n)
    x = {"truncated": (ends > 0.8).astype("f4")}
    for p in players:
        x.update({f"{p['name']}/{k}": v.astype("f4") for k, v in {
            "obs": rng.normal(size=(n, 5)), "next_obs": rng.normal(size=(n, 5)),
            "reward": rng.normal(size=n), "terminated": ends < 0.2, "alive": np.ones(n),
            "action": testing.one_hot(rng, n, [2, 3]), "allowed": np.ones((n, 5)),
            "next_allowed": rng.random((n, 5)) < 0.6}.items()})
    log.append(x, n)
    mine = {k: x[f"agent_0/{k}"] for k in ("reward", "terminated", "next_obs", "next_allowed")}
    discount = 0.9

    def asked(base, rows, name="learn", inputs=None, head="", **settings):
        file = write(w, FIXED.replace("BASE", base).replace("class Mine", head + "class Mine"))
        with program(file, log, PYTHON) as p:
            p.configure(testing.configuration(players, settings=settings, discount=discount))
            body = {"step": 0, "update": 0, "repeat": 0, "rows": pack_tensor(rows[None]),
                    "inputs": {k: pack_tensor(v[None]) for k, v in (inputs or {}).items()}}
            return p.arrays(p.request(name, body))["goal"][0]

    def best(row):
        """The best possible choice of each head; of all of them, if none is possible."""
        total = 0.0
        for part in (slice(0, 2), slice(2, 5)):
            may, worth = mine["next_allowed"][row, part] > 0, mine["next_obs"][row, part]
            total += worth[may].max() if may.any() else worth.max()
        return total

    rows = (rng.integers(0, n - 3, (64, 1)) + np.arange(3)).astype("u8")
    found = asked("Three", rows, head="class Three(DQN):\n    rows = brood.transitions(3)\n\n")
    for places, goal in zip(rows.astype(int), found):
        total = 0.0
        for k, row in enumerate(places):
            total += discount**k * mine["reward"][row]
            if mine["terminated"][row]:
                break
            if x["truncated"][row] or k == 2:
                total += discount**(k + 1) * best(row)
                break
        assert abs(goal - total) < 1e-4, (places, goal, total)

    rows = rng.integers(0, n, (64, 1)).astype("u8")
    after = {f"{p['name']}/action": rng.random((64, 5)).astype("f4") for p in players}
    at = rows[:, 0].astype(int)
    follows = sum(x[f"{p['name']}/next_obs"][at].sum(1) + after[f"{p['name']}/action"].sum(1)
                  for p in players)
    found = asked("Critic", rows, "critic", after, head=(
        "class Critic(MADDPG):\n    @brood.stage(reads=['propose/action'], writes=True)\n"
        "    def critic(self, batch, ctx):\n"
        "        return {**super().critic(batch, ctx), 'goal': self.goal}\n\n"))
    goals = mine["reward"][at] + discount * follows * (1 - mine["terminated"][at])
    assert np.abs(found - goals).max() < 1e-4

    rows = np.arange(n, dtype="u8").reshape(4, 50)
    found = asked("MAPPO", rows, value_norm=False, epochs=1)
    for e in range(4):
        total, weight = 0.0, 1.0
        for row in rows[e].astype(int):
            value, follows = (sum(x[f"{p['name']}/{k}"][row].sum() for p in players)
                              for k in ("obs", "next_obs"))
            if row == rows[e, 0]:
                total += value
            over = mine["terminated"][row]
            total += weight * (mine["reward"][row] + discount * follows * (1 - over) - value)
            if over or x["truncated"][row]:
                break
            weight *= discount * 0.95
        assert abs(found[e] - total) < 1e-3, (e, found[e], total)


PARTS = r"""
import math
import numpy as np
import torch
from brood import returns
from brood.players import Space
from brood.torch import Choices, Numbers, one_hot, soft_choices

rng = np.random.default_rng(1)
reward, value, after = (rng.normal(size=(4, 9)).astype("f4") for _ in range(3))
ends = [rng.random((4, 9)) < 0.2 for _ in range(2)]
def both(function, *given, **more):
    t = [torch.from_numpy(x) if isinstance(x, np.ndarray) else x for x in given]
    a, b = function(*given), function(*t)
    for x, y in zip(a, b) if isinstance(a, tuple) else [(a, b)]:
        assert isinstance(y, torch.Tensor) and x.dtype == y.numpy().dtype, function
        assert np.abs(x - y.numpy()).max() < 1e-6, function
both(returns.gae, reward, value, after, *ends, 0.9, 0.8)
both(returns.lambda_returns, reward, after, *ends, 0.9, 0.8)
both(returns.n_step, reward, after, *ends, 0.9, 3)
both(returns.ahead, reward, *ends, 0.9)
both(returns.at_step, reward, np.array([0, 8, 3, 3]))
x = torch.from_numpy(value).requires_grad_()
returns.lambda_returns(torch.from_numpy(reward), x, *map(torch.from_numpy, ends), 0.9, 0.8
                       ).sum().backward()
assert x.grad.abs().sum() > 0

# heads 2 and 3: all six actions, of which forbidden ones have no probability
scores = torch.randn(1, 5, requires_grad=True)
allowed = torch.tensor([[1, 1, 0, 1, 1]])
p = Choices(scores, (2, 3), allowed)
actions = torch.stack([torch.eye(5)[a] + torch.eye(5)[2 + b] for a in (0, 1) for b in (0, 1, 2)])
log_prob = p.log_prob(actions)
assert abs(log_prob.exp().sum() - 1) < 1e-6 and log_prob.exp()[[0, 3]].max() == 0
assert abs(p.entropy() + (log_prob.exp() * log_prob).sum()) < 1e-5
(p.entropy().sum() + log_prob[1]).backward()
assert torch.isfinite(scores.grad).all() and scores.grad[0, 2] == 0
assert (Choices(scores, (2, 3), torch.zeros(1, 5)).log_probs > -20).all()
assert one_hot(torch.tensor([[1., 2, 5, 4, 3]]), (2, 3)).tolist() == [[0, 1, 1, 0, 0]]
soft = soft_choices(scores, (2, 3), 0.5)
assert (soft == one_hot(scores, (2, 3))).all() and soft.requires_grad

# numbers: the density within the bounds and what falls on them add up to 1
space = Space("box", 1, low=-2.0, high=6.0)
mean, log_std = torch.tensor([0.7], requires_grad=True), torch.tensor([-0.3], requires_grad=True)
p = Numbers(mean, log_std, space)
assert abs(p.means.item() - (2 + 4 * 0.7)) < 1e-6
grid = torch.linspace(-2, 6, 80001)[1:-1, None]
inside = p.log_prob(grid).exp().sum() * 1e-4
edges = p.log_prob(torch.tensor([[-2.0], [6.0]])).exp()
assert abs(inside + edges.sum() - 1) < 1e-3 and edges[1] > 0.05, (inside, edges)
p.log_prob(torch.tensor([[-2.0], [6.0], [1.0], [5.999]])).sum().backward()
assert torch.isfinite(mean.grad).all() and torch.isfinite(log_std.grad).all()
assert Numbers(torch.tensor([3.0]), log_std, space).best().item() == 6
free = Numbers(torch.tensor([3.0]), log_std, Space("box", 1, low=-math.inf, high=math.inf))
assert free.best().item() == 3
"""


@needs_torch
def test_torch_is_imported_only_by_what_uses_it(w):
    code = "import sys, brood, brood.returns; brood.Agent, brood.main, brood.setting; " \
        "print('torch' in sys.modules); from brood.torch import PPO; print('torch' in sys.modules)"
    out = subprocess.run([PYTHON, "-c", code], capture_output=True, text=True, check=True,
                         env={"PYTHONPATH": str(SOURCE / "scripts" / "python")}).stdout
    assert out.split() == ["False", "True"], out


@needs_torch
def test_parts(w):
    done = subprocess.run([PYTHON, "-c", PARTS], capture_output=True, text=True, check=False,
                          env={"PYTHONPATH": str(SOURCE / "scripts" / "python")})
    assert done.returncode == 0, done.stderr


if __name__ == "__main__":
    harness.main()
