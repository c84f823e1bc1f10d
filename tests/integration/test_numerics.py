"""What the last bits of a run depend on: which machine and which build may continue it, and
which messages say so."""
import json
import shutil

import harness
from test_environments import hallway
from test_fixed import teacher
from test_resume import (calm_run, config, copy, killed_run, other_build, outcome, resume,
                         set_section, until)

PATHS = ("portable", "neon", "avx2", "avx512")


def numerics_of(w, run):
    s = w.status(run)
    return s["numerics"], s["not_portable"]


def events(run, name):
    return [line for line in (run / "journal").read_text().splitlines()
            if f" event={name} " in line]


def change_every(run, section, change):
    for step in harness.checkpoints(run):
        set_section(run / "checkpoints" / str(step) / "run.state", section, change)


def from_another_cpu(run, name):
    """A copy of the run whose checkpoints have another machine's fingerprint."""
    moved = copy(run, name)
    change_every(moved, b"fingerprint", lambda text: bytes([text[0] ^ 1]) + text[1:])
    return moved


def native_config(w):
    path = config(w, steps=harness.FOREVER)
    path.write_text(path.read_text().replace("seed: 1", "seed: 1, numerics: native"))
    return path


# ---- going on elsewhere ----

def test_a_portable_run_goes_on_with_another_build_and_cpu(w):
    run, end = killed_run(w, "run")
    program = other_build(w)
    cases = (("build", copy(run, "build"), program, "another build continues"),
             ("cpu", from_another_cpu(run, "cpu"), harness.BROOD, "another CPU continues"),
             ("both", from_another_cpu(run, "both"), program,
              "another build and another CPU continue"))
    calm = calm_run(w, "calm", end)
    for name, moved, program, says in cases:
        says += " exactly: numerics 3"
        _, err = w.brood("resume", moved, *until(end), program=program)
        assert err.count(says) == 1, (name, err)
        found, = events(moved, "exact")
        assert f'why="{says}"' in found, found
        assert w.status(moved)["exact"] is True
        harness.assert_same_files(without_build(calm), without_build(outcome(moved, end)))
    # At home there is nothing to say.
    _, err = resume(w, run, *until(end))
    assert "exactly" not in err and not events(run, "exact"), err
    harness.assert_same_files(calm, outcome(run, end))


def without_build(files):
    """run.state names the build."""
    return {name: data for name, data in files.items() if "run.state" not in name}


def test_a_native_run_stays_with_its_build_and_cpu(w):
    run, end = killed_run(w, "run", path=native_config(w))
    program = other_build(w)
    other = copy(run, "other-build")
    _, err = resume(w, other, code=2, program=program)
    assert "the build was" in err and "(--anyway continues)" in err, err
    foreign = from_another_cpu(run, "foreign")
    _, err = resume(w, foreign, code=2)
    assert "numeric fingerprint" in err, err
    assert all(w.status(r)["exact"] for r in (other, foreign))
    resume(w, other, "--anyway", *until(end), program=program)
    resume(w, foreign, "--anyway", *until(end))
    resume(w, run, *until(end))
    for r, exact in ((other, False), (foreign, False), (run, True)):
        assert w.status(r)["exact"] is exact
        assert numerics_of(w, r) == ("native", "run.numerics is native")
        assert not events(r, "exact")
    # The other build computes the same.
    harness.assert_same_files(without_build(outcome(run, end)),
                              without_build(outcome(other, end)))


def test_other_numerics_are_refused_unless_anyway(w):
    run, end = killed_run(w, "run")
    older = copy(run, "older")
    change_every(older, b"numerics", lambda text: text[:-1] + b"0")
    _, err = resume(w, older, code=2)
    assert "the numerics version was 0, now it is 3 (--anyway continues)" in err, err
    _, err = resume(w, older, "--anyway", *until(end))
    assert "continues exactly" not in err and not w.status(older)["exact"], err
    unknown = copy(run, "unknown")  # as builds wrote it that had none
    for step in harness.checkpoints(unknown):
        state = unknown / "checkpoints" / str(step) / "run.state"
        rename_section(state, b"numerics", b"numbers!")
    _, err = resume(w, unknown, code=2)
    assert "from before numerics versions" in err, err


def test_an_older_version_goes_on_where_its_changes_do_not_reach(w):
    run, end = killed_run(w, "run")
    path = config(w, steps=harness.FOREVER)
    text = path.read_text().replace("actor: {hidden: [16, 16]}", "actor: {hidden: [513, 512]}")
    path.write_text(text.replace("batch_size: 64", "batch_size: 4"))
    wide, wide_end = killed_run(w, "wide", path=path)
    for r in (run, wide):
        change_every(r, b"numerics", lambda text: text[:-1] + b"2")
    program = other_build(w)
    _, err = w.brood("resume", run, *until(end), program=program)
    assert "another build continues exactly: numerics 3" in err and w.status(run)["exact"], err
    harness.assert_same_files(without_build(calm_run(w, "calm", end)),
                              without_build(outcome(run, end)))
    # The norm of a gradient is a sum of 513 x 512 squares.
    before = len(events(wide, "resume"))
    _, err = w.brood("resume", wide, code=2, program=program)
    assert "the numerics version was 2, now it is 3 (--anyway continues)" in err, err
    assert len(events(wide, "resume")) == before and w.status(wide)["exact"]
    _, err = w.brood("resume", wide, "--anyway", *until(wide_end), program=program)
    assert "continues exactly" not in err and not w.status(wide)["exact"], err


def rename_section(path, was, name):
    """A section of run.state under another name of the same length."""
    data = path.read_bytes()
    at = data.index(len(was).to_bytes(4, "little") + was) + 4
    begin = at + len(was) + 8
    length = int.from_bytes(data[begin - 8:begin], "little")
    value = data[begin:begin + length]
    path.write_bytes(data[:at] + name + data[at + len(was):begin] + value +
                     harness.masked_crc32c(name + value) + data[begin + length + 4:])


# ---- messages ----

def test_it_is_told_of_live_runs_and_of_those_that_are_over(w):
    p = w.start("run", w.small(steps=harness.FOREVER), "--name", "live")
    live = w.run_dir("live")
    harness.wait_until("rounds", lambda: (live / "control.sock").exists() and
                       w.status("live")["env_steps"] > 0)
    assert numerics_of(w, "live") == ("portable", None)
    _, err = w.brood("set", "live", "run.numerics=native", code=2)
    assert "run.numerics cannot change while the run lives" in err, err
    harness.kill_holder(p, live)
    assert numerics_of(w, "live") == ("portable", None)
    assert "this kind of machine" not in w.brood("status", "live")[0]
    text = (live / "provenance").read_text()
    kernels = json.loads(w.brood("version", "--json")[0])["kernels"]
    assert f"\nnumerics: portable, version 3\nkernels: {kernels}\n" in text, text


def test_kernels_can_be_forced_down_and_never_up(w):
    def kernels(wish):
        out, err = w.brood("version", "--json", env={"BROOD_KERNELS": wish})
        return json.loads(out)["kernels"], err

    best, err = kernels("")
    assert best in PATHS and err == "", err
    assert kernels("portable") == ("portable", "")
    for wish in PATHS:
        found, err = kernels(wish)
        assert found == wish or (found == best and err.count("\n") == 1 and wish in err)
    found, err = kernels("fastest")
    assert found == best and "BROOD_KERNELS=fastest" in err and err.count("\n") == 1, err


# ---- runs that are not portable ----

def test_an_environment_of_others_marks_the_run(w):
    w.brood("run", hallway(w, steps=200), "--name", "away")
    why = "an external environment (env.command)"
    assert numerics_of(w, "away") == ("portable", why)
    assert f"exact on this kind of machine only: {why}" in w.brood("status", "away")[0]
    assert len(events(w.run_dir("away"), "not-portable")) == 1


FROZEN = """
run: {{env_steps: {steps}}}
env: {{id: simple_spread, copies: 4, params: {{agents: 3}}}}
evaluation: {{every_env_steps: 0}}
checkpoint: {{every_env_steps: 500}}
defaults: {{algorithm: frozen, settings: {{from: teacher}}}}
agents: {{agent_1: {{settings: {{from: {prefix}}}}}}}
"""


def with_pow(w):
    """A teacher's policy in whose graph one Mul is a Pow, which nobody asks for: the same
    two inputs and one output, elsewhere in the graph."""
    teacher(w, 3)
    folder = w.path / "pow"
    shutil.copytree(w.run_dir("teacher") / "checkpoints" / "2000" / "agent_1", folder)
    meta = folder / "model.ckpt-2000.meta"
    data = meta.read_bytes()
    op = b"\x12\x03Mul"  # NodeDef.op
    assert op in data
    at = data.rindex(op)
    meta.write_bytes(data[:at] + b"\x12\x03Pow" + data[at + len(op):])
    return folder


def test_an_op_of_libm_marks_the_run(w):
    path = w.write("frozen.yaml", FROZEN.format(steps=harness.FOREVER, prefix=with_pow(w)))
    run, end = killed_run(w, "frozen", path=path)
    numerics, why = numerics_of(w, run)
    assert numerics == "portable" and why.startswith("op Pow ("), why
    assert why.endswith(") of agent_1"), why
    assert why in w.brood("status", run)[0]
    foreign = from_another_cpu(run, "foreign")
    _, err = resume(w, foreign, code=2)
    assert "numeric fingerprint" in err, err
    other = copy(run, "other-build")  # whose own kernels are the same
    _, err = w.brood("resume", other, *until(end), program=other_build(w))
    assert "another build continues exactly: numerics 3" in err, err


if __name__ == "__main__":
    harness.main()
