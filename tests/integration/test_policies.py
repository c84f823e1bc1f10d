"""happo, recurrent, and coma: deaths of their agents at every stage, and a resume, change no
byte."""
import harness
from test_exactness import outcome
from test_share import MEMBERS, PS, deaths_change_no_byte

CONFIG = """\
run: {{name: policies, env_steps: 1600}}
env: {{id: simple_spread, copies: 4, max_steps: 10, reward: team_mean}}
experience: {{update_every: 20}}
checkpoint: {{every_env_steps: 800, max_to_keep: 0}}
evaluation: {{every_env_steps: 0}}
log: {{every_env_steps: 200}}
defaults:
  algorithm: {algorithm}
  actor: {{hidden: [16], layer_norm: true, init: orthogonal, output_init: 0.01}}
  critic: {{hidden: [16], init: he}}
  optimizer: {{learning_rate: 0.001 to 0 over 1600}}
  settings: {{{settings}}}
  restart: {{max_restarts: 10000, delay: 0s, max_delay: 0s}}
"""
HAPPO = {"algorithm": "happo", "settings": "epochs: 2, minibatches: 2, n_step: 3, symmetry: env, "
         "recurrent: 8, chunk: 5"}
COMA = {"algorithm": "coma", "settings": "lambda: 0.7, target_every: 3, symmetry: env"}


def check(w, stages, of_ps=(), **text):
    """Every process dies at every point of every stage (sanitized: at one of the five);
    then a resume from the middle."""
    file = w.write("policies.yaml", CONFIG.format(**text))
    deaths = (1 if harness.SANITIZED else 5) * len(stages)
    methods = {name: stages for name in MEMBERS}
    deaths_change_no_byte(w, file, deaths, {**methods, PS: of_ps} if of_ps else methods)
    again = w.path / "again"
    harness.copy_run(w.run_dir("calm"), again)
    w.brood("resume", again, "--from", "800", program=w.program_with_agent(harness.FAULT_AGENT))
    harness.assert_same_files(outcome(w.run_dir("calm")), outcome(again))


def test_happo(w):
    check(w, ("prepare", "turn", "critic"), **HAPPO)


def test_coma(w):
    check(w, ("propose", "learn"), **COMA)


def test_coma_that_shares(w):
    check(w, ("propose", "prepare", "actor", "assign"), ("apply",), **{
        **COMA, "algorithm": "coma\n  share: team"})


TAG = """\
run: {{name: tag, env_steps: 300}}
env: {{id: simple_tag, copies: 4, max_steps: 10, reward: team_mean}}
experience: {{update_every: 40}}
evaluation: {{every_env_steps: 0}}
defaults: {{algorithm: {}, actor: {{hidden: [8]}}, critic: {{hidden: [8]}}}}
"""


def learners(w, name):
    """The agents that have learned by the end of a run."""
    return [words[1] for column in harness.last_row(w.run_dir(name))
            if (words := column.split("/"))[-1] == "actor_loss"]


def test_against_agents_that_do_not_learn(w):
    """Those propose actions for a window's rows, and have no turn."""
    for algorithm in "coma", "happo":
        w.brood("run", w.write(f"{algorithm}.yaml", TAG.format(algorithm) + """\
agents:
  agent_0: {algorithm: random}
  adversary_0: {algorithm: heuristic}
"""), "--name", algorithm)
        assert learners(w, algorithm) == ["adversary_1", "adversary_2"]


def test_two_teams_take_turns(w):
    """Each team's factor is its own; both have their places in one order of turns."""
    w.brood("run", w.write("tag.yaml", TAG.format("happo")), "--name", "happo")
    assert learners(w, "happo") == ["adversary_0", "adversary_1", "adversary_2", "agent_0"]


if __name__ == "__main__":
    harness.main()
