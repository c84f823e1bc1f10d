"""The command line as a person meets it: help, wrong usage, facts as JSON."""
import json
import re
import subprocess

import harness

COMMANDS = ("run", "resume", "runs", "rm", "attach", "wait", "logs", "status", "set", "edit", "kill", "respawn", "pause",
            "continue", "checkpoint", "stop", "check", "eval", "report", "envs",
            "algorithms", "inspect", "graph", "export", "version")


def test_help_names_every_command_and_each_has_an_example(w):
    out, _ = w.brood("--help")
    for name in COMMANDS:
        assert re.search(rf"^  {name} ", out, re.M), name
        text, _ = w.brood(name, "--help")
        assert text.startswith(f"usage: brood {name} "), text
        assert "example" in text and "--json" in text, text


def test_wrong_usage_is_one_line_and_code_2(w):
    for args in (["fly"], ["run"], ["run", "--wings", "x.yaml"], ["check"],
                 ["eval", "--episodes", "many"], ["version", "please"]):
        out, err = w.brood(*args, code=2)
        assert out == "" and len(err.splitlines()) == 1, (args, out, err)
    out, err = w.brood(code=2)
    assert "usage: brood COMMAND" in err


def test_facts_are_json_when_asked(w):
    fact = json.loads(w.brood("version", "--json")[0])
    assert {"version", "binary", "agent_binary", "build_id", "blas",
            "protocol"} == set(fact)
    assert re.fullmatch("[0-9a-f]{40}", fact["build_id"])
    assert any(e["id"] == "simple_spread"
               for e in harness.json_lines(w.brood("envs", "--json")[0]))
    names = [a["name"] for a in harness.json_lines(w.brood("algorithms", "--json")[0])]
    assert "maddpg" in names and "ddpg" in names


def test_a_missing_configuration_is_refused(w):
    _, err = w.brood("run", "nowhere.yaml", code=2)
    assert "nowhere.yaml" in err and len(err.splitlines()) == 1
    assert not w.runs.exists()


def test_a_missing_run_is_code_3(w):
    _, err = w.brood("eval", "nothing", code=3)
    assert "nothing" in err and len(err.splitlines()) == 1


def test_closed_stdout_is_no_crash(w):
    p = subprocess.run(f"{harness.BROOD} envs >&-", shell=True, cwd=w.path,
                       stderr=subprocess.PIPE, check=False)
    assert p.returncode in (0, 1), p


if __name__ == "__main__":
    harness.main()
