"""Agents that share parameters through a ps process: the same bytes whatever dies, and
nothing left behind."""
import os
import pathlib
import signal
import zipfile

import harness
from test_exactness import outcome

POINTS = ("before-read", "half-read", "before-reply", "half-reply", "after-reply")
MEMBERS, PS = ("agent_0", "agent_1", "agent_2"), "agent_ps"
METHODS = {**{name: ("gradients", "assign", "act") for name in MEMBERS}, PS: ("apply",)}
CONFIG = """\
run: {{name: team, env_steps: {steps}}}
env: {{id: simple_spread, copies: 4, reward: team_mean}}
experience: {{capacity: 5000, batch_size: 32, warmup: 100, update_every: 4}}
checkpoint: {{every_env_steps: {checkpoint}}}
evaluation: {{every_env_steps: 0}}
log: {{every_env_steps: 100}}
defaults: {{algorithm: iql, share: team, critic: {{hidden: [16, 16]}}{more}}}
"""
PATIENT = ", restart: {max_restarts: 10000, delay: 0s, max_delay: 0s}"


def config(w, steps=800, checkpoint=400, more=PATIENT):
    return w.write("team.yaml", CONFIG.format(steps=steps, checkpoint=checkpoint, more=more))


def chain(name, n, methods=None):
    """n processes of that name die one after another, each at another point of another
    method's second or third request."""
    methods = methods or METHODS[name]
    return [f"{name}{f'/{i}' if i else ''}:{methods[i % len(methods)]}:"
            f"{POINTS[i // len(methods) % len(POINTS)]}:{2 + i % 2},kill" for i in range(n)]


def deaths_change_no_byte(w, file, n, methods):
    """Each process dies n times; methods: at which requests, by process."""
    w.brood("run", file, "--name", "calm", program=w.program_with_agent(harness.FAULT_AGENT))
    program = w.program_with_agent(harness.FAULT_AGENT)
    out, _ = w.brood("run", file, "--name", "deadly", "--json", program=program, env={
        "BROOD_FAULT": ";".join(f for name in methods
                                for f in chain(name, n, methods[name]))})
    done = harness.json_lines(out)[-1]
    journal = (w.run_dir("deadly") / "journal").read_text()
    assert done["restarts"] == n * len(methods), done
    for name in methods:
        assert journal.count(f" event=respawn agent={name} ") == n, name
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(w.run_dir("deadly")))


def test_hundreds_of_deaths_change_no_byte(w):
    deaths_change_no_byte(w, config(w), 15 if harness.SANITIZED else 45, METHODS)


WINDOWS = """\
run: {name: windows, env_steps: 800}
env: {id: simple_spread, copies: 4, max_steps: 10, reward: team_mean}
experience: {update_every: 40}
checkpoint: {every_env_steps: 400}
evaluation: {every_env_steps: 0}
log: {every_env_steps: 100}
defaults:
  algorithm: mappo
  share: team
  actor: {hidden: [16]}
  critic: {hidden: [16]}
  optimizer: {learning_rate: 0.001 to 0 over 800}
  settings: {epochs: 2, minibatches: 2, symmetry: env, reward_scale: standard}
  restart: {max_restarts: 10000, delay: 0s, max_delay: 0s}
"""


def test_deaths_between_the_epochs_change_no_byte(w):
    """A member keeps what an update has prepared until its last step."""
    member = ("prepare", "normalize", "actor", "critic", "assign")
    deaths_change_no_byte(w, w.write("windows.yaml", WINDOWS), 10,
                          {**{name: member for name in MEMBERS}, PS: ("apply",)})


EPISODES = """\
run: {name: episodes, env_steps: 1200}
env: {id: simple_spread, copies: 4, max_steps: 10, reward: team_mean}
experience:
  {capacity: 2000, batch_size: 6, warmup: 200, update_every: 40, priority: {alpha: 0.6}}
checkpoint: {every_env_steps: 400}
evaluation: {every_env_steps: 0}
defaults:
  algorithm: ALGORITHM
  share: team
  critic: {hidden: [16]}
  settings: {symmetry: env, reward_scale: running, lambda: 0.6, target_every: 5,
             epsilon: 1 to 0.1 over 1000}
  restart: {max_restarts: 10000, delay: 0s, max_delay: 0s}
"""


def test_deaths_of_a_team_that_decomposes_values_change_no_byte(w):
    deaths_change_no_byte(w, w.write("vdn.yaml", EPISODES.replace("ALGORITHM", "vdn")), 5, {
        **{name: ("values", "gradients", "assign") for name in MEMBERS}, PS: ("apply",)})


def test_deaths_of_a_team_with_a_mixer_change_no_byte(w):
    deaths_change_no_byte(w, w.write("qmix.yaml", EPISODES.replace("ALGORITHM", "qmix")), 5, {
        **{name: ("values", "gradients", "assign") for name in MEMBERS}, PS: ("apply",),
        "central": ("mix",)})


# 18 updates: enough for each process to die six times (chain), which is asserted.
TEAMS = """\
run: {{name: teams, seed: 3, env_steps: 800}}
env: {{id: simple_tag, copies: 4, max_steps: 10, actions: {actions}, reward: team_mean,
       params: {{adversaries: 2, good: 2}}}}
experience: {{capacity: 400, batch_size: 16, warmup: 100, update_every: 40,
              priority: {{alpha: 0.6}}}}
checkpoint: {{every_env_steps: 400, max_to_keep: 0}}
evaluation: {{every_env_steps: 0}}
defaults:
  share: team
  actor: {{hidden: [16]}}
  critic: {{hidden: [16]}}
  optimizer: {{learning_rate: 0.001 to 0 over 800}}
  restart: {{max_restarts: 10000, delay: 0s, max_delay: 0s}}
agents:
  adversary_0: {first}
  adversary_1: {first}
  agent_0: {second}
  agent_1: {second}
"""
TEAMS_MEMBERS = ("adversary_0", "adversary_1", "agent_0", "agent_1")
TEAM_LEARNERS = {
    # policies learn in one update of two
    "matd3": "{algorithm: matd3, settings: {symmetry: env, reward_scale: running}}",
    "isac": "{algorithm: isac, settings: {agent_id: true}}",
    "masac": "{algorithm: masac, settings: {agent_id: true, own_batches: true}}",
    "maddpg": "{algorithm: maddpg, settings: {agent_id: true, reward_scale: standard}}",
    "ddpg": "{algorithm: ddpg, settings: {symmetry: env}}",
    # two mixers in one central process
    "qmix": "{algorithm: qmix, settings: {symmetry: env, reward_scale: running}}",
}


def deaths_in_two_teams_change_no_byte(w, actions, first, second,
                                       members=("propose", "gradients", "assign"), more={}):
    """Both steps of an update, the critics' and the policies', at every stage; and a resume."""
    file = w.write("teams.yaml", TEAMS.format(actions=actions, first=TEAM_LEARNERS[first],
                                              second=TEAM_LEARNERS[second]))
    deaths_change_no_byte(w, file, 6, {**{name: members for name in TEAMS_MEMBERS},
                                       "adversary_ps": ("apply",), "agent_ps": ("apply",),
                                       **more})
    again = harness.copy_run(w.run_dir("calm"), w.path / "again")
    w.brood("resume", again, "--from", "400", program=w.program_with_agent(harness.FAULT_AGENT))
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(again))


def test_deaths_of_matd3_and_isac_change_no_byte(w):
    deaths_in_two_teams_change_no_byte(w, "continuous", "matd3", "isac")


def test_deaths_of_masac_and_maddpg_change_no_byte(w):
    deaths_in_two_teams_change_no_byte(w, "discrete", "masac", "maddpg")


def test_deaths_of_ddpg_and_masac_change_no_byte(w):
    deaths_in_two_teams_change_no_byte(w, "continuous", "ddpg", "masac")


def test_deaths_of_two_teams_with_mixers_change_no_byte(w):
    deaths_in_two_teams_change_no_byte(w, "discrete", "qmix", "qmix",
                                       ("values", "gradients", "assign"), {"central": ("mix",)})


def network(w, run, step, name):
    """The values of the network in a process's folder of a checkpoint, by the variables' names
    without the process's."""
    prefix = w.run_dir(run) / "checkpoints" / str(step) / name / f"model.ckpt-{step}"
    out = w.path / f"{name}.npz"
    w.brood("export", prefix, "--out", out)
    with zipfile.ZipFile(out) as z:
        files = {f.split("/", 1)[1]: z.read(f) for f in z.namelist()}
    return {k: v for k, v in files.items() if k.startswith("q_func/")}, set(files)


def test_members_have_the_values_of_the_ps(w):
    w.brood("run", config(w, 400), "--name", "team")
    for step in 0, 400:
        own, all_of_ps = network(w, "team", step, PS)
        assert len(own) == 6, own.keys()
        assert any(f.endswith("/Adam_1.npy") for f in all_of_ps), all_of_ps
        for name in MEMBERS:
            values, all_of_member = network(w, "team", step, name)
            assert values == own, (step, name)
            assert not any("Adam" in f for f in all_of_member), all_of_member
    assert network(w, "team", 0, PS)[0] != own


def test_resumed_from_the_middle(w):
    run = w.run_dir("broken")
    p = w.start("run", config(w, harness.FOREVER), "--name", "broken")
    harness.wait_until("a checkpoint", lambda: max(harness.checkpoints(run), default=0) > 0)
    p.kill()  # the keeper, and with it the run
    p.wait()
    harness.wait_until("its end", lambda: not harness.alive(harness.holder_of(run)))
    steps = harness.checkpoints(run)[-1] + 400
    w.brood("resume", "broken", "--set", f"run.env_steps={steps}")
    w.brood("run", config(w, steps), "--name", "calm")
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(run))


def memfds(pid):
    found = []
    for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = os.readlink(fd)
        except FileNotFoundError:
            continue
        if target.startswith("/memfd:brood-"):
            found.append(target.split(":")[1].split()[0])
    return sorted(found)


def test_each_process_has_its_own_block_and_the_groups_memory(w):
    """Nobody else has it, and no process of the run is left that could."""
    p = w.start("run", config(w, 10 ** 9), "--name", "long", env=harness.VISIBLE)
    harness.wait_until("the ps", lambda: (w.run_dir("long") / "control.sock").exists() and
                       all(a["state"] in ("idle", "busy") for a in w.status("long")["agents"]))
    now = w.status("long")
    pids = {a["name"]: a["pid"] for a in now["agents"]}
    assert list(pids) == [*MEMBERS, PS], pids
    for name, pid in pids.items():
        # The group's memory bears the name of its ps, as the ps's block does.
        want = sorted([f"brood-{name}", f"brood-{PS}"])
        assert memfds(pid) == want, (name, memfds(pid))
    w.brood("kill", "long", PS)
    harness.wait_until("another ps", lambda: all(
        a["state"] in ("idle", "busy") and (a["name"] != PS or a["pid"] != pids[PS])
        for a in w.status("long")["agents"]))
    p.send_signal(signal.SIGINT)
    p.wait(timeout=harness.DEADLINE_S)
    for pid in (now["pid"], *pids.values()):
        assert not pathlib.Path(f"/proc/{pid}").exists(), pid


def test_settings_belong_to_the_group(w):
    p = w.start("run", config(w, 10 ** 9), "--name", "long")
    harness.wait_until("the run", lambda: (w.run_dir("long") / "control.sock").exists())
    key = "optimizer.learning_rate"
    _, err = w.brood("set", "long", f"agents.agent_1.{key}=0.02", code=2)
    assert f"agents.agent_1.{key}" in err and "through agent_ps" in err, err
    assert f"defaults.{key}" in err, err
    _, err = w.brood("set", "long", "defaults.settings.clip_by=global", code=2)
    assert "through agent_ps" in err, err
    w.brood("set", "long", f"defaults.{key}=0.02")
    w.brood("checkpoint", "long")
    p.send_signal(signal.SIGINT)
    p.wait(timeout=harness.DEADLINE_S)


def test_refused_by_check(w):
    def check(env, defaults, agents=""):
        file = w.write("bad.yaml", f"run: {{env_steps: 10}}\nenv: {{id: {env}}}\n"
                                   f"defaults: {{{defaults}}}\nagents:\n{agents}")
        return w.brood("check", file, code=2)[1]

    spread, team = "simple_spread", "algorithm: iql, share: team"
    assert "happo cannot share" in check(spread + ", reward: team_mean",
                                        "algorithm: happo, share: team")
    err = check(spread, "algorithm: maddpg, share: team, optimizer: {type: accept_reject}")
    assert "optimizer.type" in err and "no gradients to share" in err, err
    err = check("simple_speaker_listener", "algorithm: masac, share: [speaker_0, listener_0]")
    assert "listener_0 sees 11 numbers and speaker_0 3" in err, err
    err = check(spread, "algorithm: matd3, share: team, settings: {agent_id: true, symmetry: env}")
    assert "settings.agent_id" in err, err
    assert "on_give_up" in check(spread, team + ", restart: {on_give_up: frozen}")
    err = check("simple_tag", "algorithm: iql, share: [adversary_0, agent_0]",
                "  adversary_1: {share: none}\n  adversary_2: {share: none}\n")
    assert "agent_0 sees 14 numbers and adversary_0 16" in err, err
    err = check(spread, team, "  agent_2: {discount: 0.5}\n")
    assert "agents.agent_2.discount" in err and "agent_0 through agent_ps" in err, err
    err = check(spread, "algorithm: iql", "  agent_0: {share: [agent_0, agent_9]}\n")
    assert "there is no agent 'agent_9'" in err, err
    err = check(spread, "algorithm: iql", "  agent_0: {share: [agent_0, agent_1]}\n")
    assert "agent_1 is on the list" in err, err


if __name__ == "__main__":
    harness.main()
