"""Observations of bytes, as images are: stored and sent as they are, and learned from."""
import csv
import re
import subprocess
import sys

import harness

CATCH = """
run: {{name: catch, seed: 1, env_steps: {steps}}}
env: {{command: [{python}, {source}/scripts/pettingzoo_bridge.py,
                {source}/tests/examples/catch.py], copies: 4, params: {{{params}}}}}
experience: {{keep: true, {experience}}}
evaluation: {{every_env_steps: 0}}
checkpoint: {{every_env_steps: {steps}}}
defaults:
  algorithm: {algorithm}
"""


REPLAY = "capacity: 2000, batch_size: 16, warmup: 100, update_every: 20"
SMALL = "  actor: {hidden: [4]}\n  critic: {hidden: [4]}\n"


def config(w, algorithm, params, steps, experience=REPLAY, more=""):
    text = CATCH.format(algorithm=algorithm, params=params, steps=steps,
                        experience=experience, python=sys.executable, source=harness.SOURCE)
    return w.write(f"{algorithm}.yaml", text + more)


def weights(run):
    return harness.tree_bytes(run / "checkpoints", lambda p: "model.ckpt" in p.name and
                              ".meta" not in p.name)


def test_bytes_take_a_quarter_and_train_the_same_bits(w):
    """An environment whose observations are bytes, and the same one that gives the same
    numbers as float32: equal weights from a quarter of the log."""
    for algorithm, experience, more in (("iql", REPLAY, ""), ("maddpg", REPLAY, SMALL),
                                        ("mappo", "update_every: 40", SMALL)):
        logs = {}
        for dtype in ("uint8", "float32"):
            run = f"{algorithm}-{dtype}"
            w.brood("run", config(w, algorithm, f"agents: 2, dtype: {dtype}", 200, experience,
                                  more), "--name", run)
            logs[dtype] = (w.run_dir(run) / "experience").stat().st_size - (1 << 20)
        assert 3.9 < logs["float32"] / logs["uint8"] <= 4, logs
        found = {d: weights(w.run_dir(f"{algorithm}-{d}")) for d in logs}
        assert found["uint8"], algorithm
        harness.assert_same_files(found["uint8"], found["float32"])


CONV = """
  discount: 0.95
  actor: {conv: [[8, 12, 12]], hidden: [32]}
  critic: {conv: [[8, 12, 12]], hidden: [32]}
  optimizer: {learning_rate: 0.003}
"""
ON_POLICY = "update_every: 192"


def learned(w, algorithm, experience, steps, more=""):
    """The return of the last evaluation. Training has the same bits everywhere, so that a
    return that was reached once is reached again."""
    if harness.SANITIZED:
        steps = 400
    file = config(w, algorithm, "agents: 1", steps, experience, CONV + more)
    w.brood("run", file, "--name", algorithm, "--set", "env.copies=16", "--set",
            f"evaluation.every_env_steps={steps}", "--set", "evaluation.episodes=49",
            "--seed", "3")
    with open(w.run_dir(algorithm) / "metrics" / "progress.csv", newline="") as f:
        return float(list(csv.DictReader(f))[-1]["eval/return/player_0"])


def test_pictures_are_learned_from(w):
    """Returns: -0.8 at random, 1.46 with every ball caught."""
    for algorithm, experience, steps, wanted, more in (
            ("ippo", ON_POLICY, 2000, 1.4, ""),
            ("iql", "capacity: 5000, batch_size: 32, warmup: 500, update_every: 4", 3000, 0.5,
             "  settings: {epsilon: 1 to 0.05 over 3000}\n  clip_norm: none\n")):
        found = learned(w, algorithm, experience, steps, more)
        print(f"# {algorithm}: {found:.3f} after {steps} steps")
        assert harness.SANITIZED or found > wanted, (algorithm, found)


def test_every_kind_of_network_sees_pictures(w):
    """Critics of all agents put all pictures through one convolution."""
    for algorithm, experience, scopes in (
            ("mappo", "update_every: 72", {"p_func": 1, "v_func": 2}),
            ("maddpg", REPLAY, {"p_func": 1, "q_func": 2, "target_q_func": 2}),
            ("matd3", REPLAY, {"p_func": 1, "q_func": 2, "q_func/twin": 2}),
            ("masac", REPLAY, {"p_func": 1, "q_func": 2, "q_func/twin": 2}),
            ("vdn", REPLAY, {"q_func": 1})):
        reward = "team_mean" if algorithm == "vdn" else "own"
        w.brood("run", config(w, algorithm, "agents: 2", 144, experience, CONV), "--name",
                algorithm, "--set", f"env.reward={reward}", "--set", "env.max_steps=6")
        out, _ = w.brood("inspect", w.run_dir(algorithm) /
                         "checkpoints/144/player_1/model.ckpt-144")
        lines = out.splitlines()
        for scope, pictures in scopes.items():
            scope = f"player_1/{scope}"
            assert f"{scope}/Conv/weights (DT_FLOAT) [12,12,1,8]" in lines, (scope, out)
            rows = [re.search(r"\[(\d+),32\]", line) for line in lines
                    if line.startswith(f"{scope}/fully_connected/weights ")]
            # 7 x 7 x 8 features of each picture, and perhaps actions of two agents
            assert 0 <= int(rows[0][1]) - pictures * 392 <= 6, (scope, out)


def test_what_cannot_be_seen_is_refused_by_check(w):
    for more, says in (
            ("  actor: {conv: [[8, 12, 12], [8, 9, 1]]}\n",
             "actor.conv: the kernel of convolution 2 is 9 wide, but what it sees is 7 x 7"),):
        file = config(w, "ippo", "agents: 1", 200, ON_POLICY, more)
        assert says in w.brood("check", file, code=2)[1]
    file = w.small()
    err = w.brood("check", file, "--set", "defaults.actor.conv=[[8, 3, 1]]", code=2)[1]
    assert "agent_0 observes no image (height, width, channels), but 18 numbers" in err, err


DOTS = """
#include "brood_env.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct world {
    uint64_t seed, time;
    int bytes;
};

static int has(const struct brood_env_param *params, size_t n, const char *name)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(params[i].name, name) == 0)
            return atoi(params[i].value);
    return 0;
}

/* 15 bytes of an image, or as many floats; then an agent with floats. */
static int agents(const struct brood_env_param *params, size_t n, struct brood_env_agent *ret,
                  size_t max, char *why, size_t why_size)
{
    ret[0] = (struct brood_env_agent){
        .name = "sees_0", .obs_width = 15, .n_heads = 1, .heads = {3}, NEW};
    ret[1] = (struct brood_env_agent){
        .name = "feels_0", .obs_width = 2, .n_heads = 1, .heads = {2}};
    return 2;
}

static void *open_world(const struct brood_env_param *params, size_t n, char *why,
                        size_t why_size)
{
    struct world *w = calloc(1, sizeof(*w));

    w->bytes = has(params, n, "bytes");
    return w;
}

static void show(struct world *w, const struct brood_env_view *out)
{
    const uint64_t x = (w->seed + w->time) * 0x9e3779b97f4a7c15u;

    for (int i = 0; i < 15; i++) {
        const uint8_t dot = (uint8_t)(x >> 3 * i);

        if (w->bytes)
            BYTES[i] = dot;
        else
            out->obs[0][i] = dot;
    }
    out->obs[1][0] = (float)(x >> 40) / 16777216.0f;
    out->obs[1][1] = 0.5f;
    memset(out->present, w->time < 8, 2);
}

static void reset(void *world, uint64_t seed, const struct brood_env_view *out)
{
    struct world *w = world;

    w->seed = seed;
    w->time = 0;
    show(w, out);
}

static void step(void *world, const float *const *actions, const struct brood_env_view *out)
{
    struct world *w = world;

    w->time++;
    out->reward[0] = brood_env_choice(actions[0], 3);
    out->reward[1] = brood_env_choice(actions[1], 2);
    show(w, out);
}

const struct brood_env *brood_env_plugin(void)
{
    static const struct brood_env env = {BROOD_ENV_ABI, "dots", 0, agents, open_world, free,
                                         reset, step};

    return &env;
}
"""
PLUGIN = harness.SOURCE / "agent" / "plugin"
NEW = """.obs_kind = has(params, n, "odd") ? 7 : has(params, n, "bytes"),
        .image = {has(params, n, "height"), 5, 1}"""


def dots(w, name, source, include):
    """The configuration of a run of this plugin, built with a header."""
    w.write(f"{name}.c", source)
    subprocess.run(["cc", "-shared", "-fPIC", "-Wall", "-Werror", "-I", include, "-o",
                    w.path / f"{name}.so", w.path / f"{name}.c"], check=True)
    return w.write(f"{name}.yaml", f"""
run: {{seed: 1, env_steps: 200}}
env: {{plugin: ./{name}.so, copies: 3}}
experience: {{keep: true, {REPLAY}}}
evaluation: {{every_env_steps: 0}}
defaults:
  algorithm: maddpg
{SMALL}""")


def test_a_plugin_gives_bytes(w):
    """The same numbers as bytes, as floats, and from an object built before there were bytes:
    equal weights."""
    new = dots(w, "new", DOTS.replace("NEW", NEW).replace(
        "BYTES", "brood_env_bytes(out, 0)"), PLUGIN)
    header = (PLUGIN / "brood_env.h").read_text()
    old_header = re.sub(r"(?s)    /\* since ABI [23] \*/.*?\n};", "};", header).replace(
        "ABI       3u", "ABI       1u")
    assert header.count("image") > 0 == old_header.count("image[3]"), old_header
    assert header.count("metric)") > 0 == old_header.count("metric)") and "ABI       1u" in old_header
    (w.path / "old").mkdir()
    w.write("old/brood_env.h", old_header)
    old = dots(w, "old", DOTS.replace(", NEW", "").replace("BYTES", "out->obs[0]"),
               w.path / "old")
    logs, found = {}, {}
    for name, file, params in (("bytes", new, "{bytes: 1, height: 3}"),
                               ("floats", new, "{height: 3}"), ("old", old, "{}")):
        w.brood("run", file, "--name", name, "--set", f"env.params={params}")
        logs[name] = (w.run_dir(name) / "experience").stat().st_size
        found[name] = weights(w.run_dir(name))
    assert found["bytes"] and logs["bytes"] < logs["floats"] == logs["old"], logs
    harness.assert_same_files(found["bytes"], found["floats"])
    harness.assert_same_files(found["bytes"], found["old"])
    for params, says in (
            ("{odd: 1, height: 3}", "agent 'sees_0': obs_kind is 7, expected BROOD_ENV_FLOATS "
             "or BROOD_ENV_BYTES"),
            ("{height: 4}", "agent 'sees_0': an image of 4 x 5 points and 1 channels, and "
             "obs_width is 15")):
        err = w.brood("check", new, "--set", f"env.params={params}", code=2)[1]
        assert err.endswith(f"configure: {says}\n") and err.count("\n") == 1, err
    err = w.brood("check", new, "--set", "env.params={bytes: 1, height: 3}", "--set",
                  "agents={sees_0: {actor: {conv: [[4, 2, 1], [4, 3, 1]]}}}", code=2)[1]
    assert "the kernel of convolution 2 is 3 wide, but what it sees is 2 x 4" in err, err
    # two rows of five points, and five numbers behind them
    part = ("--set", "env.params={bytes: 1, height: 2}", "--set", "agents={sees_0: {algorithm: iql, "
            "settings: {}, critic: {conv: [[4, 2, 1]]}}, feels_0: {algorithm: random}}")
    w.brood("run", new, "--name", "part", *part)
    out, _ = w.brood("inspect", w.run_dir("part") / "checkpoints/201/sees_0/model.ckpt-201")
    assert "sees_0/q_func/fully_connected/weights (DT_FLOAT) [21,4]\n" in out, out
    err = w.brood("check", new, *part, "--set", "env.clip_observations=1", code=2)[1]
    assert "sees_0 observes bytes" in err, err


WIDE_AND_TALL = """\
import brood


class WideAndTall(brood.Env):
    possible_agents = ["a_0", "a_1"]
    actions = brood.Discrete(2)
    max_steps = 5

    def shape(self, agent):
        return (8, 4, 1) if agent == "a_0" else (2, 16, 1)

    def observation_space(self, agent):
        return brood.Box(0, 255, self.shape(agent), "uint8")

    def begin(self):
        return {a: memoryview(bytes(32)).cast("B", self.shape(a)) for a in self.agents}

    def act(self, actions):
        return self.begin(), {a: 0.0 for a in actions}, False


parallel_env = WideAndTall
"""


def test_images_of_one_size_but_another_shape_are_not_alike(w):
    """Each agent is tried, and both cannot share parameters."""
    program = w.write("shapes.py", WIDE_AND_TALL)
    file = w.write("shapes.yaml", f"""
run: {{env_steps: 40}}
env: {{command: [{sys.executable}, {harness.SOURCE}/scripts/pettingzoo_bridge.py, {program}]}}
experience: {{{REPLAY}}}
defaults: {{algorithm: iql, critic: {{conv: [[4, 2, 1]]}}}}
""")
    w.brood("check", file)
    err = w.brood("check", file, "--set", "defaults.critic.conv=[[4, 3, 1]]", code=2)[1]
    assert "what it sees is 2 x 16 (agent a_1)" in err and err.count("\n") == 1, err
    err = w.brood("check", file, "--set", "defaults.share=team", code=2)[1]
    assert "a_1 and a_0 differ in type or shape: they cannot share" in err and \
        err.count("\n") == 1, err


if __name__ == "__main__":
    harness.main()
