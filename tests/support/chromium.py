"""Drives a headless Chromium through its DevTools protocol, as a person would: clicks where
something is, and types keys."""
import base64
import contextlib
import json
import os
import pathlib
import shutil
import signal
import subprocess
import tempfile
import time
import urllib.request

from signals import signal_group
from websocket import WebSocket

PROGRAM = next(filter(None, map(shutil.which, (
    "chromium", "chromium-browser", "google-chrome"))), None)
KEYS = {"Enter": ("Enter", 13, "\r"), "Escape": ("Escape", 27, ""), "Tab": ("Tab", 9, ""),
        "Space": (" ", 32, " "), "ArrowDown": ("ArrowDown", 40, ""), "Backspace": ("Backspace", 8, "")}


class Failure(AssertionError):
    """What did not come to be in time, and what the page shows instead."""


class Browser:
    """One Chromium with a profile of its own; `with Browser() as b: page = b.page(url)`."""

    def __init__(self, deadline_s=120):
        self.deadline_s = deadline_s
        self.profile = pathlib.Path(tempfile.mkdtemp(prefix="brood-chromium-"))
        args = [PROGRAM, "--headless=new", "--remote-debugging-port=0", "--disable-gpu",
                "--no-first-run", "--disable-extensions", "--disable-background-networking",
                "--disable-component-update", "--disable-sync", "--hide-scrollbars",
                "--disable-dev-shm-usage", "--force-color-profile=srgb", "--mute-audio",
                f"--user-data-dir={self.profile}", "about:blank"]
        if os.geteuid() == 0:
            args.insert(1, "--no-sandbox")
        if shutil.which("setpriv"):   # it ends with us, even if we are killed
            args = ["setpriv", "--pdeathsig", "KILL", *args]
        self.process = subprocess.Popen(args, stdin=subprocess.DEVNULL,
                                        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                                        start_new_session=True)
        place = self.profile / "DevToolsActivePort"
        end = time.monotonic() + deadline_s
        while not (place.exists() and place.read_text().count("\n") > 0):
            if self.process.poll() is not None or time.monotonic() > end:
                self.close()
                raise Failure("chromium does not start")
            time.sleep(0.02)
        self.port = int(place.read_text().split()[0])

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        with contextlib.suppress(ProcessLookupError):
            signal_group(self.process.pid, signal.SIGKILL)   # and its helpers
        self.process.wait()
        shutil.rmtree(self.profile, ignore_errors=True)

    def page(self, url, width=1280, height=900, phone=False, dark=False):
        request = urllib.request.Request(f"http://127.0.0.1:{self.port}/json/new?about:blank",
                                         method="PUT")
        with urllib.request.urlopen(request) as answer:
            target = json.load(answer)
        path = "/" + target["webSocketDebuggerUrl"].split("/", 3)[3]
        page = Page(WebSocket("127.0.0.1", self.port, path), self.deadline_s)
        page.size(width, height, phone)
        page.scheme(dark)
        page.go(url)
        return page


class Navigated(Exception):
    """The page went elsewhere while it was asked something."""


class Page:
    def __init__(self, socket, deadline_s):
        self.socket, self.deadline_s, self.id = socket, deadline_s, 0
        self.errors = []   # exceptions, refused policies and the like, as the console has them
        for domain in ("Page", "Runtime", "Log"):
            self.call(f"{domain}.enable")

    def call(self, method, **params):
        self.id += 1
        self.socket.send(json.dumps({"id": self.id, "method": method, "params": params}))
        while True:
            message = self.socket.receive_json()
            if message.get("id") == self.id:
                if "navigated" in message.get("error", {}).get("message", ""):
                    raise Navigated(method)
                assert "error" not in message, (method, message["error"])
                return message["result"]
            self.note(message)

    def note(self, message):
        params = message.get("params", {})
        if message.get("method") == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.errors.append(details.get("exception", {}).get("description", details["text"]))
        elif message.get("method") == "Log.entryAdded" and params["entry"]["level"] == "error":
            self.errors.append(params["entry"]["text"] + " " + params["entry"].get("url", ""))

    def go(self, url):
        self.call("Page.navigate", url=url)
        self.wait("document.readyState === 'complete' && location.href !== 'about:blank'", url)

    def reload(self):
        """Until the new document is complete: what is asked next is never asked of the old one."""
        self.eval("(window.left = true, location.reload())")
        self.wait("!window.left && document.readyState === 'complete'", "a reloaded page")

    def size(self, width, height, phone=False):
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=2 if phone else 1, mobile=phone)

    def scheme(self, dark):
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def eval(self, script):
        """The value of an expression in the page; a promise is awaited."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True,
                           awaitPromise=True)
        assert "exceptionDetails" not in result, (script, result["exceptionDetails"])
        return result["result"].get("value")

    def wait(self, condition, what=None):
        """Until an expression is true; returns its value."""
        end = time.monotonic() + self.deadline_s
        while True:
            with contextlib.suppress(Navigated):
                value = self.eval(f"(() => {{ try {{ const v = {condition}; "
                                  "return v instanceof Node || v } catch { return null } })()")
                if value:
                    return value
            if time.monotonic() > end:
                raise Failure(f"not within {self.deadline_s} s: {what or condition}\n"
                              f"{self.errors}\n{self.text()[:2000]}")
            time.sleep(0.02)

    def text(self, selector="body"):
        return self.eval(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def texts(self, selector):
        return self.eval(f"[...document.querySelectorAll({json.dumps(selector)})]"
                         ".map(n => n.innerText)")

    def wait_text(self, selector, words):
        return self.wait(f"[...document.querySelectorAll({json.dumps(selector)})]"
                         f".some(n => n.innerText.includes({json.dumps(words)}))",
                         f"{words!r} in {selector}")

    def click(self, selector):
        """With the mouse, in the middle of the first visible element; whatever covers it gets
        the click."""
        found = json.dumps(selector)
        self.wait(f"[...document.querySelectorAll({found})].some(n => !n.disabled && "
                  "n.getClientRects().length)", f"{selector} to click on")
        x, y = self.eval(
            f"(() => {{ const n = [...document.querySelectorAll({found})].find(n => !n.disabled && "
            "n.getClientRects().length); n.scrollIntoView({block: 'center', inline: 'center'}); "
            "const r = n.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2] })()")
        for kind in ("mouseMoved", "mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, clickCount=1,
                      button="none" if kind == "mouseMoved" else "left")

    def drag(self, x0, x1, y):
        """With the left button, from one place to another at the same height."""
        for kind, x, button, buttons in (("mouseMoved", x0, "none", 0), ("mousePressed", x0, "left", 1),
                                         ("mouseMoved", (x0 + x1) / 2, "left", 1), ("mouseMoved", x1, "left", 1),
                                         ("mouseReleased", x1, "left", 0)):
            self.call("Input.dispatchMouseEvent", type=kind, x=x, y=y, clickCount=1, button=button, buttons=buttons)

    def key(self, name):
        key, code, text = KEYS.get(name, (name, ord(name[0].upper()), name))
        for kind in ("keyDown", "keyUp"):
            more = {"text": text} if text and kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code,
                      code=key, **more)

    def type(self, words):
        self.call("Input.insertText", text=words)

    def fill(self, selector, words):
        """Replaces the text of a field."""
        self.click(selector)
        self.eval(f"document.querySelector({json.dumps(selector)}).select()")
        self.type(words) if words else self.key("Backspace")

    def shot(self, path, whole=False):
        """A picture of what is seen, or of the whole page, as PNG."""
        more = {"captureBeyondViewport": True} if whole else {}
        data = self.call("Page.captureScreenshot", format="png", **more)["data"]
        pathlib.Path(path).write_bytes(base64.b64decode(data))

    def close(self):
        self.call("Page.close")
        self.socket.close()
