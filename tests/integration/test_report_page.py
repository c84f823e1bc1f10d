"""brood report --html: the page of `brood web` in one file, with all facts about runs or a study."""
import atexit
import base64
import html.parser
import json
import re
import shutil
import sys

import harness

sys.path.insert(0, str(harness.SOURCE / "tests" / "support"))
import chromium  # noqa: E402

SHOTS = harness.BUILD / "web"
BROWSERS = []   # one for all tests: it takes a second of processors to start
VOID = {"meta", "img", "br", "link", "input"}
# Of SVG: they may end themselves.
EMPTY = {"path", "rect", "circle", "line", "polyline", "polygon"}
HOSTILE = "<img src=x onerror=document.title=1>"
MOST_BYTES = 2 << 20
# In comments of uPlot; the name of SVG.
ADDRESSES = {"http://www.w3.org/2000/svg", "https://github.com/leeoniya/uPlot", "https://github.com/leeoniya/uPlot:"}


class Page(html.parser.HTMLParser):
    """A page that is well-formed and loads nothing; or an AssertionError."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.source, self.open, self.tags, self.words, self.policy = text, [], [], [], None
        self.facts = None
        self.feed(text)
        self.close()
        assert not self.open, self.open
        addresses = set(re.findall(r"https?://[^'\")\s\\]*", text))
        assert addresses <= ADDRESSES, addresses
        assert "@import" not in text
        assert self.policy.startswith("default-src 'none'; style-src 'unsafe-inline'; script-src "
                                      "'unsafe-inline' data:; img-src data:;"), self.policy
        self.without_script = " ".join(" ".join(self.words).split())
        self.answers = self.facts["answers"]

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if "noscript" in self.open:
            assert not [a for a in attrs if a.startswith("on")], (tag, attrs)
            self.tags.append(tag)
        assert tag not in ("iframe", "object", "embed", "base"), tag
        if tag not in VOID:
            self.open.append((tag if tag != "script" else attrs.get("id", tag)))
        for name in ("src", "href"):
            assert attrs.get(name, "#").startswith(("#", "data:")), attrs
        if attrs.get("http-equiv") == "Content-Security-Policy":
            self.policy = attrs["content"]

    def handle_startendtag(self, tag, attrs):
        assert tag in EMPTY, tag
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() in (tag, "facts"), (tag, self.open[-5:])

    def handle_data(self, data):
        if self.open[-1:] == ["facts"]:
            self.facts = json.loads(data)
        elif "noscript" in self.open:
            self.words.append(data)

    def pictures(self, run):
        """(type, bytes) of each picture of the run's episode."""
        return [(p["type"], base64.b64decode(p["base64"], validate=True))
                for p in (self.answers["episode"][run] or {}).get("pictures", [])]

    def shows(self, *words, at=""):
        """A browser that opens the file shows all of these words, in any place; at: of the page."""
        if chromium.PROGRAM is None or harness.SANITIZED:   # there, only its facts are looked at
            return
        if not BROWSERS:
            BROWSERS.append(chromium.Browser(harness.DEADLINE_S))
            atexit.register(BROWSERS[0].close)
        page = BROWSERS[0].page(self.path.as_uri() + at)
        for text in words:
            page.wait("document.body.innerText.replace(/\\s+/g, ' ').includes("
                      f"{json.dumps(' '.join(text.split()))})", f"{text!r} on the page")
        assert page.eval("performance.getEntriesByType('resource').every(e => e.name.startsWith('data:'))")
        errors = page.errors
        page.close()
        assert not errors, errors


def page_of(w, *args, **more):
    """The page that `brood report ARGS --html` writes; the same again, and on stdout."""
    path = w.path / "page.html"
    _, err = w.brood("report", *args, "--html", path, **more)
    text = path.read_text()
    w.brood("report", *args, "--html", path, **more)
    assert path.read_text() == text
    assert w.brood("report", *args, "--html", "-", **more)[0] == text
    assert len(text) < MOST_BYTES, len(text)
    page = Page(text)
    page.err, page.path = err, path
    return page


def train(w, name, *more, steps=800):
    w.brood("run", w.small(steps=steps, evaluate=400, checkpoint=400), "--name", name, "-q", *more)
    return w.run_dir(name)


def test_the_page_of_a_run(w):
    run = train(w, "a")
    w.brood("tag", "a", "paper", "--note", f"{HOSTILE} & more")
    page = page_of(w, "a")
    pictures = page.pictures("a")
    assert [kind for kind, _ in pictures] == ["image/gif", "image/svg+xml"], pictures
    assert pictures[0][1].startswith(b"GIF89a"), pictures[0][1][:20]
    last = [row.split(",") for row in (run / "metrics" / "progress.csv").read_text().splitlines()]
    newest = float(last[-1][last[0].index("eval/team_return/agent")])
    result, = page.answers["record"]["a"]["results"]
    assert (result["column"], result["last"], result["last_step"]) == \
        ("eval/team_return/agent", newest, 800), result
    curves = [row.split(",") for row in page.answers["curves"]["a"].splitlines()]
    assert [row[0] for row in curves] == [row[0] for row in last], curves
    assert float(curves[-1][curves[0].index("eval/team_return/agent")]) == float(f"{newest:.7g}"), curves
    build = re.search("agent build id: (.*)", (run / "provenance").read_text()).group(1)
    began = (run / "journal").read_text()[:19].replace("T", " ")
    assert page.answers["record"]["a"]["text"] == (run / "config.yaml").read_text()
    page.shows("done", "800 / 800", "algorithm maddpg", "environment simple_spread, 3 agents", "seed 1",
               "#paper", f"{HOSTILE} & more", "checkpoint at step 800, 25 steps",
               "eval/team_return/agent", "Critic loss", "experience.batch_size 64 1024",
               "No process died.", "deaths 0", "Nothing was changed", "numerics portable, version",
               "yes: the bytes of an undisturbed run", f"{newest:.5g}".rstrip("0"), build,
               f"began (UTC) {began}")
    # A mail program that executes no script.
    assert "eval/team_return/agent, the last tenth of each run" in page.without_script
    assert page.tags.count("svg") == 1 and "polyline" in page.tags, page.tags


def test_agents_are_counted_without_those_that_serve_them(w):
    train(w, "a", "--set", "defaults.share=team")
    s = w.status("a")
    assert len(s["agents"]) == 4 and s["learners"] == 3, s
    one, = page_of(w, "a").facts["runs"]
    assert (one["agents"], one["restarts"]) == (3, 0), one


def test_runs_stand_side_by_side(w):
    w.brood("run", w.small(steps=400, evaluate=200), "--name", "a", "--seeds", "1,2", "-q")
    train(w, "b", "--set", "defaults.discount=0.9")
    page = page_of(w, "a-s1", "a-s2", "b")
    kinds = [len(page.pictures(run)) for run in ("a-s1", "a-s2", "b")]
    assert kinds == [2, 0, 2], kinds
    (seeds, other) = page.facts["groups"]["list"]
    assert (seeds["runs"], seeds["n"], other["runs"], other["n"]) == ("a", 2, "b", 1), seeds
    assert len(seeds["steps"]) == len(seeds["lows"]) > 1 and seeds["low"] <= seeds["mean"], seeds
    page.shows("3 runs", "a (2 runs)", "mean and 95 % interval", "defaults.discount 0.95 0.95 0.9 0.95",
               "run.seed 1 2 1 1")
    page.shows("a-s2", "deaths 0", at="#/run/a-s2")
    _, err = w.brood("report", "a-s1", "nothing", "--html", "page.html")
    assert err == "brood report: left out: there is no run nothing in runs\n", err


def test_algorithms_over_tasks_have_their_profiles(w):
    for env in "simple", "simple_push":
        for algorithm in "maddpg", "matd3":
            w.brood("run", w.small(steps=200, evaluate=200), "--name", f"{env}-{algorithm}", "--seeds", "1,2", "-q",
                    "--set", f"env.id={env}", "--set", "env.params=", "--set", f"defaults.algorithm={algorithm}")
    page = page_of(w, "simple*", "--tasks", "--play", "never")
    shown, = harness.json_lines(w.brood("report", "simple*", "--tasks", "--json")[0])
    assert page.facts["tasks"] == shown
    assert "probability that a run of the first is better than one of the second" in page.without_script
    assert page.tags.count("svg") == 2, page.tags
    first, (better, *_) = shown["algorithms"][0], shown["improvement"]
    page.shows("Algorithms over tasks", "Part of the runs with a greater score", "maddpg (4 runs)",
               f"{first['median']['value']:.2f} {first['median']['low']:.2f} to",
               f"maddpg matd3 {better['probability']['value']:.2f} {better['probability']['low']:.2f} to",
               "simple_push eval/team_return/adversary 4")
    assert page_of(w, "simple*", "--play", "never").facts["tasks"] is None


def test_text_of_a_run_is_text(w):
    run = train(w, "a")
    hostile = w.runs / HOSTILE
    shutil.copytree(run, hostile)
    (hostile / "config.yaml").write_text(
        f"# </pre></details>{HOSTILE}\x1b[2J\n" + (run / "config.yaml").read_text())
    csv = hostile / "metrics" / "progress.csv"
    csv.write_text(csv.read_text().replace("agent_0", HOSTILE).replace("team_return/agent",
                                                                       f"team_return/{HOSTILE}"))
    with (hostile / "journal").open("a") as f:
        f.write('2026-01-31T12:00:00.123Z step=1 event=exit agent="</td>%s" pid=1 signal=SIGKILL '
                'in=busy why="</table>%s"\n' % (HOSTILE, HOSTILE))
        f.write(f'{HOSTILE}T12:00 step=1 event=set changes="{HOSTILE}=1"\n')
    (hostile / "provenance").write_text(f"cpu: {HOSTILE}\n")
    (hostile / "tags").write_text(f"note: \"'{HOSTILE}\n")
    page = page_of(w, f"runs/{HOSTILE}")
    assert HOSTILE not in page.source and "\x1b" not in page.source
    assert json.dumps(page.facts).count(HOSTILE) > 8, page.facts
    page.shows(f"</td>{HOSTILE} died: SIGKILL, while busy </table>{HOSTILE}", f"team_return/{HOSTILE}")


def test_deaths_are_on_the_page(w):
    # Its agent is given up, and the run goes on. Another one has to be killed at the run's end,
    # which is no death.
    fault = {"program": w.program_with_agent(harness.FAULT_AGENT),
             "env": {"BROOD_FAULT": "agent_1:act:before-reply:50,abort;"
                                    "agent_0:shutdown:before-reply:1,hang"}}
    w.brood("run", w.small(steps=800), "--name", "frozen", "-q", "--set",
            "agents.agent_1.restart={policy: temporary, on_give_up: frozen}", **fault)
    page = page_of(w, "frozen")
    assert page.answers["record"]["frozen"]["deaths"] == 1, page.answers["record"]
    page.shows("agent_1 died: SIGABRT", "agent_1 was given up: frozen", "deaths 1",
               "agents.agent_1.restart.policy temporary permanent")
    # It fails with its agent.
    fault["program"] = w.program_with_agent(harness.FAULT_AGENT)
    w.brood("run", w.small(steps=800), "--name", "failed", "-q", "--set",
            "agents.agent_1.restart={policy: temporary, on_give_up: stop}", **fault, code=1)
    page = page_of(w, "failed")
    assert page.answers["record"]["failed"]["failure"], page.answers["record"]
    page.shows("failed", "agent_1 died: SIGABRT", "the run failed")
    # Its supervisor is killed before it has any return.
    p = w.start("run", w.small(steps=harness.FOREVER), "--name", "dead", "-q",
                "--set", "log.every_env_steps=100000000", "--set", "evaluation.every_env_steps=0")
    run = w.run_dir("dead")
    harness.wait_until("a checkpoint", lambda: harness.checkpoints(run))
    harness.kill_holder(p, run)
    page = page_of(w, "dead")
    assert page.facts["groups"]["why"] == "runs/dead has no returns yet", page.facts["groups"]
    assert "runs/dead has no returns yet" in page.without_script
    assert page.err == "brood report: no curves: runs/dead has no returns yet\n", page.err
    assert [kind for kind, _ in page.pictures("dead")] == ["image/gif", "image/svg+xml"]
    page.shows("killed", "Its supervisor was killed: no end is recorded")


def test_changes_are_on_the_page(w):
    p = w.start("run", w.small(steps=harness.FOREVER), "--name", "a", "-q")
    run = w.run_dir("a")
    harness.wait_until("rows", lambda: harness.rows(run) > 1)
    w.brood("set", "a", "defaults.discount=0.875")
    # Else both changes may come into force at once, in one line.
    harness.wait_until("the change", lambda: w.status("a").get("pending") == [])
    w.brood("kill", "a", "agent_2")
    harness.set_last_step(w, run, 200)
    assert p.wait(timeout=harness.DEADLINE_S) == 0, p.log.read_text()
    page = page_of(w, "a")
    page.shows("set defaults.discount=0.875 from step", "in force defaults.discount=0.875",
               "paused", "continued", "agent_2 died: SIGKILL", "agent_2 was respawned as pid",
               "defaults.discount 0.875 0.95")
    rows = page.answers["record"]["a"]["defaults"]["rows"]
    assert "agents.agent_0.discount" not in [row[0] for row in rows], rows


def test_a_report_executes_nothing_unasked(w):
    run = train(w, "over")
    made = w.path / "made"
    config = run / "config.yaml"
    foreign = re.sub("(?m)^env:\n(  .*\n)+", f"env: {{copies: 4, command: [sh, -c, 'touch {made}']}}\n",
                     config.read_text())
    assert foreign != config.read_text()
    config.write_text(foreign)
    page = page_of(w, "over")
    assert not made.exists()
    why = page.answers["episode"]["over"]["why"]
    assert "a report executes none unless asked to (--play always)" in why, why
    assert "touch" in page.answers["record"]["over"]["text"]
    page = page_of(w, "over", "--play", "never")
    assert not made.exists() and "none was asked for" in page.answers["episode"]["over"]["why"]
    page.shows("No episode is shown: none was asked for")
    path = w.path / "page.html"
    w.brood("report", "over", "--html", path, "--play", "always")
    assert made.exists() and "why" in Page(path.read_text()).answers["episode"]["over"]


def test_a_run_of_others_is_not_played(w):
    run = train(w, "a", steps=400)
    (run / "config.yaml").chmod(0o666)
    page = page_of(w, "a")
    why = page.answers["episode"]["a"]["why"]
    assert "another user may have written its configuration" in why, why


def test_a_supervisor_that_died_is_on_the_page(w):
    p = w.start("run", w.small(steps=harness.FOREVER, checkpoint=200), "--name", "a", "-q",
                "--set", "run.on_supervisor_death=resume")
    run = w.run_dir("a")
    harness.wait_until("a checkpoint", lambda: max(harness.checkpoints(run), default=0) > 0)
    harness.kill_supervisor(run)
    harness.wait_until("another one", lambda: "event=resume" in (run / "journal").read_text())
    before = harness.rows(run)
    harness.wait_until("more rows", lambda: harness.rows(run) > before + 1)
    w.brood("report", "a", "--html", "live.html")   # while it runs
    live = Page((w.path / "live.html").read_text())
    live.path = w.path / "live.html"
    assert live.facts["views"]["a"]["status"]["state"] in ("running", "not answering"), live.facts
    live.shows("time taken")
    w.brood("stop", "a")
    p.wait(timeout=harness.DEADLINE_S)
    page = page_of(w, "a")
    page.shows("died: SIGKILL", "its keeper began another one", "resumed", "asked to stop",
               "stopped", "2 starts")


def test_no_checkpoint_no_episode(w):
    run = train(w, "a")
    shutil.rmtree(run / "checkpoints")
    page = page_of(w, "a")
    assert not page.pictures("a") and page.answers["checkpoints"]["a"] == []
    page.shows("No episode is shown:", "It has no checkpoint.")
    for file in ("provenance", "config.yaml", "journal", "metrics/progress.csv"):
        (run / file).unlink()
        page = page_of(w, "a")
    page.shows("There is no return yet.")


def test_the_page_of_a_study(w):
    w.small(steps=400, evaluate=200, checkpoint=0)
    study = w.write("lr.yaml", "base: small.yaml\nsearch:\n"
                    "  defaults.optimizer.learning_rate: {log_uniform: [0.0003, 0.03]}\n"
                    "  defaults.discount: [0.9, 0.95]\nmethod: random\ntrials: 4\nseeds: [1, 2]\n")
    w.brood("sweep", study, "-q")
    report = harness.json_lines(w.brood("report", "lr", "--json")[0])[0]
    page = page_of(w, "lr")
    assert page.answers["study"]["lr"] == report
    page.shows(*(f"{trial['trial']} {float(format(trial['value'], '.5g'))} {float(format(trial['low'], '.5g'))} to "
                 f"{float(format(trial['high'], '.5g'))} {trial['settings']['defaults.optimizer.learning_rate']}"
                 for trial in report["trials"]), "rank correlation", "None failed.", "random draws")
    for picture in (page.answers["picture"]["lr"], page.source):   # without a script, too
        assert picture.count("<title>") >= 4 and picture.count("<circle") >= 8, picture
    files = dict(page.answers["files"]["lr"])
    assert "log_uniform" in files["study.yaml"] and "hidden" in files["base.yaml"], files
    assert "rank correlation" in page.without_script
    _, err = w.brood("report", "lr", "--html", "x.html", "--play", "always", code=2)
    assert "--play is for runs: the page of a study has no episode" in err, err
    _, err = w.brood("report", "lr", "--metric", "train/agent_0/critic_loss", code=2)
    assert "--metric is for runs: a study's file names its column" in err, err
    _, err = w.brood("logs", "lr", code=3)
    assert err == "brood logs: lr in runs is a study: expected one of its runs, lr/RUN\n", err
    # What a file of a study links to is not the study's.
    base = w.runs / "lr" / "base.yaml"
    base.rename(w.path / "secret")
    base.symlink_to(w.path / "secret")
    _, err = w.brood("report", "lr", "--html", "x.html", code=1)
    assert err == "brood report: runs/lr/study.yaml:1: base: runs/lr/base.yaml: a symbolic link, " \
        "which is not followed here\n", err
    assert not (w.path / "x.html").exists()


def test_the_page_of_a_population(w):
    w.small(steps=400, evaluate=200, checkpoint=0)
    study = w.write("pb.yaml", "base: small.yaml\nsearch:\n"
                    "  defaults.optimizer.learning_rate: {log_uniform: [0.0003, 0.03]}\n"
                    "method: {pbt: {population: 3, interval: 200, rounds: 2}}\nseeds: [1]\n")
    w.brood("sweep", study, "-q")
    page = page_of(w, "pb")
    page.shows("rounds over 2 of 2", "after step 200:", "became a fork of")
    assert "member 3" in page.answers["picture"]["pb"] and "became a fork of" in page.without_script


def test_what_makes_no_sense_is_refused_in_one_line(w):
    for args, words in ((("--html", "page.txt"), "--html: page.txt: a page is written as .html"),
                        (("--html", "-", "--json"), "--html - and --json both print to stdout"),
                        (("--html", "-", "--csv"), "--html - and --csv both print to stdout"),
                        (("--play", "never"), "--play is for --html FILE"),
                        (("--html", "-", "--play", "x"), "expected worlds, always or never")):
        _, err = w.brood("report", "nothing", *args, code=2)
        assert words in err and err.count("\n") == 1, err
    _, err = w.brood("report", "nothing", "--html", "page.html", code=3)
    assert err.count("\n") == 1 and not (w.path / "page.html").exists(), err
    train(w, "a", steps=400)
    _, err = w.brood("report", "a", "--html", "none/page.html", code=1)
    assert "none/page.html" in err and err.count("\n") == 1, err


def test_a_browser_shows_it(w):
    if chromium.PROGRAM is None:
        raise harness.Skip("no chromium")
    if harness.SANITIZED:
        raise harness.Skip("the page is looked at once, by the release build")
    SHOTS.mkdir(exist_ok=True)
    train(w, "a", "--set", "log.every_env_steps=80")
    w.brood("report", "a", "--html", "page.html")
    shown = set()
    with chromium.Browser(harness.DEADLINE_S) as browser:
        for name, look in (("light", {}), ("dark", {"dark": True}),
                           ("phone", {"width": 390, "height": 844, "phone": True})):
            page = browser.page((w.path / "page.html").as_uri(), **look)
            page.wait("document.querySelectorAll('.chart .u-over').length >= 4")
            assert page.eval("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
            assert page.eval("document.documentElement.scrollWidth <= innerWidth"), name
            shown.add(page.eval("getComputedStyle(document.documentElement).backgroundColor"))
            # Nothing acts, and nothing waits for a server.
            assert not page.eval("[...document.querySelectorAll('button')].filter(b => b.getClientRects().length)"
                                 ".map(b => b.innerText).filter(t => /Pause|Stop|Kill|Play|Set/.test(t)).join()")
            assert not page.eval("document.getElementById('link').getClientRects().length")
            page.shot(SHOTS / f"report-{name}.png")
            page.click(".tabs a:last-child")
            page.wait("scrollY > 100")
            errors = page.errors
            page.close()
            assert not errors, errors
    assert len(shown) == 2, shown   # light, also on the phone, and dark


if __name__ == "__main__":
    harness.main()
