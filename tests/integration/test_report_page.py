"""brood report --html: one file that says everything about a run or a study, and nothing else."""
import base64
import html.parser
import re
import shutil
import sys

import harness

sys.path.insert(0, str(harness.SOURCE / "tests" / "support"))
import chromium  # noqa: E402

SHOTS = harness.BUILD / "web"
VOID = {"meta", "img", "br", "link", "input"}
# Of SVG: they may end themselves.
EMPTY = {"path", "rect", "circle", "line", "polyline", "polygon"}
HOSTILE = "<img src=x onerror=document.title=1>"
MOST_BYTES = 2 << 20


class Page(html.parser.HTMLParser):
    """A page that is well-formed, loads nothing and runs nothing; or an AssertionError."""

    def __init__(self, text):
        super().__init__(convert_charrefs=True)
        self.source, self.open, self.ids, self.links = text, [], [], []
        self.images, self.tags, self.words, self.policy = [], [], [], None
        self.feed(text)
        self.close()
        assert not self.open, self.open
        assert len(self.ids) == len(set(self.ids)), self.ids
        assert set(self.links) <= set(self.ids), (self.links, self.ids)
        addresses = re.findall(r"https?://[^'\"\s]*", text)
        assert set(addresses) <= {"http://www.w3.org/2000/svg"}, set(addresses)
        for word in ("<script", "javascript:", "@import", "url("):
            assert word not in text.lower(), word
        assert self.policy.startswith("default-src 'none'; style-src 'unsafe-inline'; "
                                      "img-src data:;"), self.policy
        self.text = " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.tags.append(tag)
        assert not [a for a in attrs if a.startswith("on")], (tag, attrs)
        assert tag not in ("script", "link", "iframe", "object", "embed", "form", "base"), tag
        if tag not in VOID:
            self.open.append(tag)
        if "id" in attrs:
            self.ids.append(attrs["id"])
        if tag == "a":
            assert attrs["href"].startswith("#"), attrs
            self.links.append(attrs["href"][1:])
        if tag == "img":
            kind, data = re.fullmatch(r"data:(image/[a-z+]+);base64,(.*)", attrs["src"]).groups()
            self.images.append((kind, base64.b64decode(data, validate=True)))
        if attrs.get("http-equiv") == "Content-Security-Policy":
            self.policy = attrs["content"]

    def handle_startendtag(self, tag, attrs):
        assert tag in EMPTY, tag
        self.handle_starttag(tag, attrs)
        self.open.pop()

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, (tag, self.open[-5:])

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.words.append(data)


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
    page.err = err
    return page


def train(w, name, *more, steps=800):
    w.brood("run", w.small(steps=steps, evaluate=400, checkpoint=400), "--name", name, "-q", *more)
    return w.run_dir(name)


def test_the_page_of_a_run(w):
    run = train(w, "a")
    w.brood("tag", "a", "paper", "--note", f"{HOSTILE} & more")
    page = page_of(w, "a")
    kinds = [kind for kind, _ in page.images]
    assert kinds == ["image/gif", "image/svg+xml"], kinds
    assert page.images[0][1].startswith(b"GIF89a"), page.images[0][1][:20]
    assert page.tags.count("svg") >= 4, page.tags.count("svg")
    for words in ("State done", "Steps 800 of 800", "Algorithm maddpg", "simple_spread, 3 agents",
                  "Seed 1", "paper", f"{HOSTILE} & more", "checkpoint at step 800, 25 steps",
                  "eval/team_return/agent", "critic_loss", "experience.batch_size 64 1024",
                  "No process died.", "Deaths 0", "Nothing was changed", "Numerics portable, version",
                  "yes: the bytes of an undisturbed run"):
        assert words in page.text, (words, page.text)
    last = [row.split(",") for row in (run / "metrics" / "progress.csv").read_text().splitlines()]
    newest = float(last[-1][last[0].index("eval/team_return/agent")])
    assert f"{newest:.5g} at step 800" in page.text, newest
    build = re.search("agent build id: (.*)", (run / "provenance").read_text()).group(1)
    assert build in page.text
    began = (run / "journal").read_text()[:19].replace("T", " ")
    assert f"Begun (UTC) {began}" in page.text, began
    assert (run / "config.yaml").read_text().split() == \
        re.search("<pre>(.*?)</pre>", page.source, re.S).group(1).split()


def test_runs_stand_side_by_side(w):
    w.brood("run", w.small(steps=400, evaluate=200), "--name", "a", "--seeds", "1,2", "-q")
    train(w, "b", "--set", "defaults.discount=0.9")
    page = page_of(w, "a-s1", "a-s2", "b")
    assert [kind for kind, _ in page.images] == 2 * ["image/gif", "image/svg+xml"]
    assert "<polygon class='colour-0'" in page.source   # the band of the two seeds
    for words in ("a (2 runs)", "mean and 95 % interval", "defaults.discount 0.95 0.95 0.9 0.95",
                  "run.seed 1 2 1 1"):
        assert words in page.text, (words, page.text)
    _, err = w.brood("report", "a-s1", "nothing", "--html", "page.html")
    assert err == "brood report: left out: there is no run nothing in runs\n", err


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
    assert HOSTILE not in page.source
    assert page.text.count(HOSTILE) > 8, page.text
    assert "\x1b" not in page.source and "\\x1b[2J" in page.source
    assert f"</td>{HOSTILE} died: SIGKILL, while busy </table>{HOSTILE}" in page.text


def test_deaths_are_on_the_page(w):
    # Its agent is given up, and the run goes on. Another one has to be killed at the run's end,
    # which is no death.
    fault = {"program": w.program_with_agent(harness.FAULT_AGENT),
             "env": {"BROOD_FAULT": "agent_1:act:before-reply:50,abort;"
                                    "agent_0:shutdown:before-reply:1,hang"}}
    w.brood("run", w.small(steps=800), "--name", "frozen", "-q", "--set",
            "agents.agent_1.restart={policy: temporary, on_give_up: frozen}", **fault)
    page = page_of(w, "frozen")
    for words in ("agent_1 died: SIGABRT", "agent_1 was given up: frozen",
                  "agents.agent_1.restart.policy temporary permanent"):
        assert words in page.text, (words, page.text)
    assert "Deaths 1" in page.text, page.text
    # It fails with its agent.
    fault["program"] = w.program_with_agent(harness.FAULT_AGENT)
    w.brood("run", w.small(steps=800), "--name", "failed", "-q", "--set",
            "agents.agent_1.restart={policy: temporary, on_give_up: stop}", **fault, code=1)
    page = page_of(w, "failed")
    for words in ("State failed", "agent_1 died: SIGABRT", "the run failed"):
        assert words in page.text, (words, page.text)
    # Its supervisor is killed before it has any return.
    p = w.start("run", w.small(steps=harness.FOREVER), "--name", "dead", "-q",
                "--set", "log.every_env_steps=100000000", "--set", "evaluation.every_env_steps=0")
    run = w.run_dir("dead")
    harness.wait_until("a checkpoint", lambda: harness.checkpoints(run))
    harness.kill_holder(p, run)
    page = page_of(w, "dead")
    assert "None of a return: runs/dead has no returns yet" in page.text, page.text
    assert "supervisor" in page.text and "State killed" in page.text, page.text
    assert page.err == "brood report: no curves: runs/dead has no returns yet\n", page.err
    assert [kind for kind, _ in page.images] == ["image/gif", "image/svg+xml"]


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
    for words in ("set defaults.discount=0.875 from step", "in force defaults.discount=0.875",
                  "paused", "continued", "agent_2 died: SIGKILL",
                  "agent_2 was respawned as pid", "defaults.discount 0.875 0.95"):
        assert words in page.text, (words, page.text)
    assert "agents.agent_0.discount" not in page.text.split("Configuration")[1].split("whole")[0]


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
    assert not page.images and "a report executes none unless asked to (--play always)" in page.text
    assert "touch" in page.text   # in the configuration
    page = page_of(w, "over", "--play", "never")
    assert not made.exists() and "No episode is shown: none was asked for" in page.text
    path = w.path / "page.html"
    w.brood("report", "over", "--html", path, "--play", "always")
    assert made.exists() and "No episode is shown:" in Page(path.read_text()).text


def test_a_run_of_others_is_not_played(w):
    run = train(w, "a", steps=400)
    (run / "config.yaml").chmod(0o666)
    page = page_of(w, "a")
    assert not page.images and "another user may have written its configuration" in page.text


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
    assert re.search("State (running|not answering)", live.text), live.text
    w.brood("stop", "a")
    p.wait(timeout=harness.DEADLINE_S)
    page = page_of(w, "a")
    for words in ("died: SIGKILL", "its keeper began another one", "resumed", "asked to stop",
                  "State stopped", "2 starts"):
        assert words in page.text, (words, page.text)


def test_no_checkpoint_no_episode(w):
    run = train(w, "a")
    shutil.rmtree(run / "checkpoints")
    page = page_of(w, "a")
    assert not page.images and "No episode is shown:" in page.text, page.text
    assert "It has no checkpoint." in page.text
    for file in ("provenance", "config.yaml", "journal", "metrics/progress.csv"):
        (run / file).unlink()
        page_of(w, "a")


def test_the_page_of_a_study(w):
    w.small(steps=400, evaluate=200, checkpoint=0)
    study = w.write("lr.yaml", "base: small.yaml\nsearch:\n"
                    "  defaults.optimizer.learning_rate: {log_uniform: [0.0003, 0.03]}\n"
                    "  defaults.discount: [0.9, 0.95]\nmethod: random\ntrials: 4\nseeds: [1, 2]\n")
    w.brood("sweep", study, "-q")
    report = harness.json_lines(w.brood("report", "lr", "--json")[0])[0]
    page = page_of(w, "lr")
    for trial in report["trials"]:
        words = (f"{trial['trial']} {trial['value']:.5g} {trial['low']:.5g} to {trial['high']:.5g} "
                 f"{trial['settings']['defaults.optimizer.learning_rate']}")
        assert words in page.text, (words, page.text)
    assert page.source.count('class="trial"') == 4 and page.source.count("<circle") == 8
    assert "rank correlation" in page.text and "None failed." in page.text
    assert "log_uniform" in page.text and "hidden" in page.text   # study.yaml and base.yaml
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
    for words in ("Rounds over 2 of 2", "member 3", "after step 200:", "became a fork of"):
        assert words in page.text, (words, page.text)


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
            assert page.eval("[...document.images].every(i => i.complete && i.naturalWidth > 0)")
            assert page.eval("document.documentElement.scrollWidth <= innerWidth"), name
            shown.add(page.eval("getComputedStyle(document.documentElement).backgroundColor + "
                                "getComputedStyle(document.querySelector('polyline')).stroke"))
            page.shot(SHOTS / f"report-{name}.png")
            errors = page.errors
            page.close()
            assert not errors, errors
    assert len(shown) == 2, shown   # light, also on the phone, and dark


if __name__ == "__main__":
    harness.main()
