"""Teams of several algorithms: each group of learners has its own rows and interval, and
kills at every stage, and a resume, change no byte."""
import harness
from test_exactness import outcome
from test_share import deaths_change_no_byte

STEPS, DEATHS = 400, 2 if harness.SANITIZED else 6
PREDATORS = ("adversary_0", "adversary_1", "adversary_2")
PREY = "agent_0"
CONFIG = """\
run: {{name: mixed, seed: 3, env_steps: {steps}}}
env: {{id: simple_tag, copies: 4, max_steps: 10, reward: team_mean}}
experience: {{capacity: 2000, batch_size: 32, warmup: 100, update_every: 15{more}}}
checkpoint: {{every_env_steps: 200, max_to_keep: 0}}
evaluation: {{every_env_steps: 200, episodes: 4}}
log: {{every_env_steps: 200}}
defaults:
  actor: {{hidden: [16]}}
  critic: {{hidden: [16]}}
  restart: {{max_restarts: 10000, delay: 0s, max_delay: 0s}}
agents:
  adversary_0: {{{predator}}}
  adversary_1: {{{predator}}}
  adversary_2: {{{predator}}}
  agent_0: {{{prey}}}
"""


def write(w, predator, prey, more="", steps=STEPS):
    return w.write("mixed.yaml", CONFIG.format(
        steps=steps, predator="algorithm: " + predator, prey="algorithm: " + prey,
        more=more))


def check(w, predator, prey, methods, more=""):
    """methods: at which requests a process dies, by process."""
    config = write(w, predator, prey, more)
    w.brood("check", config)
    deaths_change_no_byte(w, config, DEATHS, methods)
    calm = outcome(w.run_dir("calm"))
    again = w.path / "again"
    harness.copy_run(w.run_dir("calm"), again)
    w.brood("resume", again, "--from", "200", program=w.program_with_agent(harness.FAULT_AGENT),
            env={"BROOD_FAULT": ""})
    harness.assert_same_files(calm, outcome(again))


def test_maddpg_predators_and_ddpg_prey(w):
    check(w, "maddpg", "ddpg", {
        **{name: ("propose", "critic", "learn", "act") for name in PREDATORS},
        PREY: ("propose", "learn", "act")})
    last = harness.last_row(w.run_dir("calm"))
    assert all(last[f"train/{a}/critic_loss"] for a in (*PREDATORS, PREY)), last


def test_ddpg_predators_and_maddpg_prey(w):
    """Also by priorities, of which each group has its own, and with other batches."""
    check(w, "ddpg, experience: {batch_size: 16, update_every: 10}", "maddpg",
          {**{name: ("propose", "learn") for name in PREDATORS},
           PREY: ("propose", "critic", "learn")}, ", priority: {alpha: 0.6}")


def test_mappo_predators_and_maddpg_prey(w):
    """Windows have their own interval; the prey's critic asks a group that shares."""
    check(w, "mappo, share: team, settings: {symmetry: env, epochs: 2}",
          "maddpg, settings: {symmetry: env}",
          {"adversary_1": ("propose", "prepare", "assign"), "adversary_ps": ("apply",),
           PREY: ("propose", "critic", "learn")})


def test_vdn_predators_and_iql_prey(w):
    check(w, "vdn, settings: {recurrent: 8, cell: lstm}", "iql",
          {"adversary_0": ("values", "learn"), PREY: ("learn",)})


def test_qmix_predators_and_maddpg_prey(w):
    """A recurrent policy is asked what it would do, and the central process has one team."""
    check(w, "qmix, settings: {recurrent: 8, last_action: true, symmetry: env}", "maddpg",
          {"adversary_2": ("values", "learn", "propose"), "central": ("mix",),
           PREY: ("propose", "critic", "learn")})


def test_qmix_predators_and_qmix_prey(w):
    """Two teams, and so two mixers, which learn in one process; of different sizes."""
    check(w, "qmix", "qmix, settings: {recurrent: 8}",
          {"adversary_0": ("values", "learn"), "central": ("mix",),
           PREY: ("values", "learn")}, ", priority: {alpha: 0.6}")
    mixers = w.run_dir("calm") / "checkpoints" / "400" / "central" / "model.ckpt-400"
    out, _ = w.brood("inspect", mixers)
    assert "central/adversary/mixer/w1/weights" in out, out
    assert "central/agent/target_mixer/v/biases" in out, out


def test_happo_predators_and_matd3_prey(w):
    """Turns are those of the predators; the critics of the prey ask them, too."""
    check(w, "happo", "matd3",
          {"adversary_1": ("turn", "propose"), PREY: ("propose", "learn")})


def test_a_default_setting_is_for_those_whose_algorithm_has_it(w):
    """Its team learns from one batch, whatever `defaults` say for the predators."""
    for prey in ("vdn", "qmix"):
        config = write(w, "maddpg", prey)
        runs = [f"{prey}-{own}" for own in ("true", "false")]
        for run in runs:
            w.brood("run", config, "--name", run, "--set",
                    f"defaults.settings.own_batches={run.split('-')[1]}")
        learnt = [harness.last_row(w.run_dir(run)) for run in runs]
        assert all(row[f"train/{PREY}/critic_loss"] for row in learnt), learnt
        column = f"train/{PREDATORS[1]}/critic_loss"
        assert learnt[0][column] != learnt[1][column], learnt


def test_what_a_run_would_refuse_check_refuses(w):
    def refused(file, *settings):
        pairs = [word for s in settings for word in ("--set", s)]
        errors = []
        for command in (["check"], ["run", "--name", "no"]):
            _, err = w.brood(command[0], file, *command[1:], *pairs, code=2)
            assert len(err.splitlines()) == 1, err
            errors.append(err.removeprefix("brood run: "))
        assert errors[0] == errors[1], errors
        assert not w.run_dir("no").exists()
        return errors[0]

    file = write(w, "mappo", "maddpg")
    assert "agents.adversary_0.experience.update_every: found 30, expected a multiple of " \
        "env.copies, 4" in refused(file, "agents.adversary_0.experience.update_every=30")
    assert "adversary_0.experience: batch_size is not used by mappo" in refused(
        file, "agents.adversary_0.experience.batch_size=8")
    assert "agents.agent_0.experience.batch_size: found 3000, expected at most " \
        "experience.capacity, 2000" in refused(
            file, "agents.agent_0.experience.batch_size=3000")
    assert "both need the central process" in refused(
        write(w, "qmix", "maddpg"), "agents.adversary_1.experience.batch_size=8")
    assert "agents.agent_0.discount: the mixers of teams adversary and agent learn in one " \
        "process" in refused(write(w, "qmix", "qmix, discount: 0.5"))
    w.brood("run", write(w, "maddpg", "ddpg", steps=200), "--name", "teacher")
    teacher = w.run_dir("teacher") / "checkpoints" / "200" / "adversary_0"
    frozen = write(w, "maddpg", f"frozen, settings: {{from: '{teacher}'}}")
    assert "mixed.yaml:15: agents.agent_0.settings.from: the tensor for observations" in \
        refused(frozen)
    w.brood("run", write(w, "maddpg", "maddpg, settings: {agent_id: true}", steps=200), "--name",
            "told")
    told = w.run_dir("told") / "checkpoints" / "200" / PREY
    err = refused(write(w, "maddpg", f"frozen, settings: {{from: '{told}'}}"))
    assert "settings.from: its policy is also told which of its team it serves" in err, err
    assert "agents.agent_0.settings.observation: The name 'no:0'" in refused(
        frozen, "agents.agent_0.settings.observation='no:0'",
        "agents.agent_0.settings.action='no:0'")


if __name__ == "__main__":
    harness.main()
