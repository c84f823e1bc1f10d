#!/usr/bin/env python3
"""Write the page's files as a C source.

    embed.py files OUTPUT.c FILE...    each for itself, as `brood web` serves them
    embed.py whole OUTPUT.c FILE...    as one document without its facts, for `brood report`

The whole document loads nothing: its modules are data: URLs, which it finds by an import map.
"""
import base64
import json
import pathlib
import re
import sys

TYPES = {".html": "text/html; charset=utf-8", ".css": "text/css; charset=utf-8",
         ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml"}
POLICY = ("default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline' data:; "
          "img-src data:; base-uri 'none'; form-action 'none'")


def array(name, data):
    lines = [",".join(map(str, data[at:at + 64])) + "," for at in range(0, len(data), 64)]
    return [f"static const unsigned char {name}[] = {{", *lines, "0};", ""]


def files(paths):
    out, rows = ['#include "supervisor/page/assets.h"', ""], []
    for i, path in enumerate(paths):
        data = path.read_bytes()
        out += array(f"file_{i}", data)
        url = "/" if path.name == "index.html" else f"/{path.name}"
        rows.append(f'    {{"{url}", "{TYPES[path.suffix]}", file_{i}, {len(data)}}},')
    return out + ["const struct asset assets[] = {", *rows, "};",
                  "const size_t n_assets = sizeof(assets) / sizeof(assets[0]);"]


def data_url(path, text):
    return f"data:{TYPES[path.suffix]};base64,".replace(" ", "") + \
        base64.b64encode(text.encode()).decode()


def document(paths):
    """The page as one document, in four pieces: title, facts and noscript go between."""
    text = {p.name: p.read_text() for p in paths}
    modules = {p: re.sub(r'(from )"\./', r'\1"', text[p.name]) for p in paths
               if p.suffix == ".js" and p.name != "uplot.js"}
    imports = {p.name: data_url(p, code) for p, code in modules.items()}
    icon = next(p for p in paths if p.name == "icon.svg")
    code = text["uplot.js"]
    assert "</script" not in code
    page = re.sub(r'<link rel="modulepreload".*\n', "", text["index.html"])
    page = page.replace("/icon.svg", data_url(icon, text["icon.svg"]))
    page = re.sub(r'<link rel="stylesheet" href="/(.*)">',
                  lambda m: f"<style>\n{text[m[1]]}</style>", page)
    page = page.replace('<script src="/uplot.js" defer></script>', f"<script>{code}</script>")
    page = page.replace('<script src="/app.js" type="module"></script>',
                        f'<script type="importmap">{json.dumps({"imports": imports})}</script>\n'
                        '<script type="module">import "app.js";</script>')
    page = page.replace('<meta charset="utf-8">', '<meta charset="utf-8">\n<meta http-equiv='
                        f'"Content-Security-Policy" content="{POLICY}">\n'
                        '<meta name="referrer" content="no-referrer">')
    head, rest = page.split("<title>brood</title>")
    body, end = rest.split("<noscript>This page needs JavaScript.</noscript>")
    assert "src=\"/" not in page and "href=\"/" not in page
    return [head + "<title>", "</title>" + body + '<script type="application/json" id="facts">',
            "</script>\n<noscript>\n<style>#link, #help { display: none; }</style>\n<div class=\"page scroll\">\n", "</div>\n</noscript>" + end]


def whole(paths):
    out = ['#include "supervisor/page/report_page.h"', ""]
    pieces = document(paths)
    for i, piece in enumerate(pieces):
        out += array(f"piece_{i}", piece.encode())
    return out + ["const char *const report_page[REPORT_PAGE_PIECES] = {",
                  *(f"    (const char *)piece_{i}," for i in range(len(pieces))), "};"]


def main():
    make = {"files": files, "whole": whole}[sys.argv[1]]
    lines = make([pathlib.Path(p) for p in sys.argv[3:]])
    pathlib.Path(sys.argv[2]).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
