#include "supervisor/cli/html_page.h"

#include "common/mem/xmalloc.h"
#include "common/text/plain_text.h"
#include "supervisor/cli/svg_plot.h"
#include "supervisor/cli/view_layout.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

/* The colours of curves are those of svg_plot.c, lighter in the dark. */
static const char style[] =
    ":root{color-scheme:light dark;"
    "--back:#f6f6f4;--card:#fff;--raised:#fafaf8;--text:#1d1f22;--muted:#686e76;"
    "--line:#e5e5e1;--accent:#2563b8;--soft:#e8effa;--good:#178a52;--bad:#c0352b;"
    "--low:#c9ccd0;--high:#0072b2;"
    "--c0:#0072b2;--c1:#d55e00;--c2:#009e73;--c3:#cc79a7;--c4:#e69f00;--c5:#56b4e9;"
    "--c6:#b5a800;--c7:#000}\n"
    "@media(prefers-color-scheme:dark){:root{"
    "--back:#111315;--card:#191c1f;--raised:#1f2327;--text:#e4e6e8;--muted:#969da5;"
    "--line:#2b2f34;--accent:#6ea8fe;--soft:#1d2a3d;--good:#3fc380;--bad:#f07a6e;"
    "--low:#3a4047;--high:#62b8f5;"
    "--c0:#4aa8e8;--c1:#f2803a;--c2:#2bc49a;--c3:#de9cc0;--c4:#f2b93b;--c5:#8fd0f5;"
    "--c6:#f0e442;--c7:#fff}}\n"
    "*{box-sizing:border-box}\n"
    "html{background:var(--back);color:var(--text);-webkit-text-size-adjust:100%;"
    "font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'Helvetica Neue',Arial,"
    "sans-serif}\n"
    "body{max-width:1120px;margin:0 auto;padding:28px 20px 60px}\n"
    "h1,h2,h3,p,figure,dl,dd,pre{margin:0}\n"
    "h1{font-size:26px;line-height:1.25;letter-spacing:-.01em;overflow-wrap:anywhere}\n"
    "h2{font-size:18px;margin-bottom:10px;overflow-wrap:anywhere}\n"
    "h3{font-size:15px;margin:18px 0 8px}\n"
    "section{margin-top:34px}\n"
    "a{color:var(--accent);text-decoration:none}a:hover{text-decoration:underline}\n"
    "nav{display:flex;flex-wrap:wrap;gap:4px 16px;margin-top:14px;font-size:14px}\n"
    ".lead,.remark{color:var(--muted);overflow-wrap:anywhere}\n"
    ".remark{font-size:14px;margin:8px 0}\n"
    ".tag{display:inline-block;margin:8px 6px 0 0;padding:1px 9px;border-radius:99px;"
    "background:var(--soft);color:var(--accent);font-size:13px}\n"
    ".facts{display:flex;flex-wrap:wrap;gap:1px;margin-top:18px;background:var(--line);"
    "border:1px solid var(--line);"
    "border-radius:8px;overflow:hidden}\n"
    ".facts div{flex:1 1 160px;padding:9px 13px;background:var(--card);min-width:0}\n"
    ".facts dt{font-size:12.5px;color:var(--muted)}\n"
    ".facts "
    "dd{font-weight:600;font-variant-numeric:tabular-nums;overflow-wrap:anywhere}\n"
    ".charts{display:grid;gap:14px;"
    "grid-template-columns:repeat(auto-fill,minmax(min(430px,100%),1fr))}\n"
    ".card{min-width:0;padding:12px 14px 8px;background:var(--card);"
    "border:1px solid var(--line);border-radius:8px}\n"
    ".card figcaption{font-weight:600;font-size:14px;overflow-wrap:anywhere}\n"
    ".legend{display:flex;flex-wrap:wrap;gap:2px 14px;margin:2px 0 4px;font-size:13px;"
    "color:var(--muted);overflow-wrap:anywhere}\n"
    ".legend i{display:inline-block;width:16px;height:3px;margin:0 6px 4px 0;"
    "border-radius:2px}\n"
    "svg{display:block;width:100%;height:auto;fill:var(--text);font-family:inherit}\n"
    "svg text{font-variant-numeric:tabular-nums}\n"
    ".paper{fill:none}.grid{stroke:var(--line)}.axis{stroke:var(--muted)}\n"
    ".trial{stroke:color-mix(in srgb,var(--high) calc(var(--part)*100%),var(--low))}\n"
    ".wide svg{min-width:680px;max-width:960px;margin:0 "
    "auto}.wide,.scroll{overflow-x:auto}\n"
    ".scroll{border:1px solid var(--line);border-radius:8px;background:var(--card)}\n"
    ".narrow{width:fit-content;max-width:100%}tbody tr:first-child>*{border-top:0}"
    "thead+tbody tr:first-child>*{border-top:1px solid var(--line)}\n"
    "table{width:100%;border-collapse:collapse;font-size:14px}\n"
    "th,td{padding:6px 13px;text-align:left;vertical-align:top;font-weight:400;"
    "border-top:1px solid var(--line)}\n"
    "thead th{border-top:0;font-size:12.5px;color:var(--muted);background:var(--raised);"
    "white-space:nowrap}\n"
    "tbody th{font-weight:500;white-space:nowrap}\n"
    ".n{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\n"
    "td.t{white-space:nowrap;font-variant-numeric:tabular-nums;color:var(--muted)}\n"
    ".w{min-width:220px;overflow-wrap:anywhere}\n"
    "code,pre,td.v{font-family:ui-monospace,'SF Mono','Cascadia Mono','DejaVu Sans Mono',"
    "Menlo,Consolas,monospace;font-size:12.5px}\n"
    "td.v{overflow-wrap:anywhere;min-width:90px}\n"
    "pre{padding:12px 14px;overflow:auto;max-height:70vh;line-height:1.45}\n"
    ".detail{font-size:13px;color:var(--muted);white-space:pre-wrap}\n"
    "details{margin-top:12px;border:1px solid var(--line);border-radius:8px;"
    "background:var(--card);overflow:hidden}\n"
    "summary{padding:8px 14px;cursor:pointer;font-size:14px}\n"
    "details[open] summary{border-bottom:1px solid var(--line)}\n"
    ".episode{display:flex;flex-wrap:wrap;gap:14px}\n"
    ".episode figure{flex:1 1 380px;max-width:560px}\n"
    "img{display:block;width:100%;height:auto;border-radius:8px;background:#fff}\n"
    ".good{color:var(--good)}.bad{color:var(--bad)}.same{color:var(--muted)}\n"
    "footer{margin-top:44px;font-size:13px;color:var(--muted)}\n"
    "@media(max-width:560px){body{padding:18px 12px 40px}h1{font-size:22px}"
    ".facts div{flex-basis:40%}.card{padding:10px 8px 4px}"
    ".episode figure{flex-basis:100%}th,td{padding:6px 9px}"
    ".w{min-width:160px}td.t{white-space:normal;min-width:86px}"
    "svg{font-size:14px}}\n"
    "@media print{html{background:none}section,figure{break-inside:avoid}}\n";

void html_begin(const char *title, FILE *f)
{
    (void)fputs(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; "
        "style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'\">\n<meta name=\"referrer\" content=\"no-referrer\">\n"
        "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
        "<title>",
        f);
    html_text(title, f);
    (void)fprintf(f, "</title>\n<style>\n%s", style);
    for (size_t i = 0; i < SVG_COLOURS; i++)
        (void)fprintf(f,
                      ".colour-%zu[stroke]{stroke:var(--c%zu)}"
                      ".colour-%zu[fill]:not([fill=none]){fill:var(--c%zu)}"
                      "i.colour-%zu{background:var(--c%zu)}\n",
                      i, i, i, i, i, i);
    (void)fputs("</style>\n</head>\n<body>\n", f);
}

void html_end(FILE *f)
{
    (void)fputs(
        "<footer>brood report, brood " BROOD_VERSION "</footer>\n</body>\n</html>\n", f);
}

/* ---- text ---- */

static void put_escaped(const char *text, size_t len, FILE *f)
{
    const size_t size = PLAIN_TEXT_GROWTH * len + 1;
    char *plain = xmalloc(size);

    (void)plain_text(plain, size, text, len);
    for (const char *p = plain; *p != '\0'; p++) {
        if (strchr("&<>\"'", *p) != NULL)
            (void)fprintf(f, "&#%d;", *p);
        else
            (void)fputc(*p, f);
    }
    free(plain);
}

void html_text(const char *text, FILE *f)
{
    put_escaped(text, strlen(text), f);
}

void html_printf(FILE *f, const char *fmt, ...)
{
    va_list ap;
    char *text;

    va_start(ap, fmt);
    text = xvasprintf(fmt, ap);
    va_end(ap);
    html_text(text, f);
    free(text);
}

void html_element(const char *tag, const char *text, FILE *f)
{
    (void)fprintf(f, "<%s>", tag);
    html_text(text, f);
    (void)fprintf(f, "</%s>", tag);
}

void html_section(const char *id, const char *title, FILE *f)
{
    if (id != NULL)
        (void)fprintf(f, "<section id=\"%s\">\n", id);
    else
        (void)fputs("<section>\n", f);
    html_element("h2", title, f);
    (void)fputc('\n', f);
}

void html_remark(FILE *f, const char *fmt, ...)
{
    va_list ap;
    char *text;

    va_start(ap, fmt);
    text = xvasprintf(fmt, ap);
    va_end(ap);
    (void)fputs("<p class=\"remark\">", f);
    html_text(text, f);
    (void)fputs("</p>\n", f);
    free(text);
}

void html_time(const char *time, FILE *f)
{
    if (strlen(time) < 19)
        (void)fputs("-", f);
    else
        html_printf(f, "%.10s %.8s", time, time + 11);
}

/* ---- tables ---- */

void html_cell(double v, FILE *f)
{
    if (isnan(v))
        (void)fputs("<td class=\"n\">-</td>", f);
    else
        (void)fprintf(f, "<td class=\"n\">%.5g</td>", v);
}

void html_interval(double low, double high, FILE *f)
{
    if (isnan(low) || isnan(high))
        (void)fputs("<td class=\"n\">-</td>", f);
    else
        (void)fprintf(f, "<td class=\"n\">%.5g to %.5g</td>", low, high);
}

void html_cell_count(uint64_t n, FILE *f)
{
    char text[32];

    (void)fprintf(f, "<td class=\"n\">%s</td>", format_count(n, text, sizeof(text)));
}

void html_table(const char *const *heads, size_t n, enum html_width width, FILE *f)
{
    int has_heads = 0;

    for (size_t i = 0; i < n; i++)
        has_heads |= heads[i][0] != '\0';
    (void)fprintf(f, "<div class=\"scroll%s\"><table>\n",
                  width == HTML_NARROW ? " narrow" : "");
    if (has_heads)
        (void)fputs("<thead><tr>", f);
    for (size_t i = 0; has_heads && i < n; i++) {
        (void)fputs(heads[i][0] == '#' ? "<th class=\"n\">" : "<th>", f);
        html_text(heads[i] + (heads[i][0] == '#'), f);
        (void)fputs("</th>", f);
    }
    if (has_heads)
        (void)fputs("</tr></thead>\n", f);
    (void)fputs("<tbody>\n", f);
}

void html_table_end(FILE *f)
{
    (void)fputs("</tbody></table></div>\n", f);
}

void html_fold(const char *title, const char *text, size_t len, FILE *f)
{
    (void)fprintf(f, "<details><summary>%s</summary><pre>", title);
    put_escaped(text, len, f);
    (void)fputs("</pre></details>\n", f);
}

/* ---- images ---- */

static void put_base64(const uint8_t *p, size_t len, FILE *f)
{
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

    for (size_t i = 0; i < len; i += 3) {
        const uint32_t v = (uint32_t)p[i] << 16 |
                           (i + 1 < len ? (uint32_t)p[i + 1] << 8 : 0) |
                           (i + 2 < len ? p[i + 2] : 0);

        (void)fputc(letters[v >> 18], f);
        (void)fputc(letters[v >> 12 & 63], f);
        (void)fputc(i + 1 < len ? letters[v >> 6 & 63] : '=', f);
        (void)fputc(i + 2 < len ? letters[v & 63] : '=', f);
    }
}

void html_image(const char *type, const void *bytes, size_t len, const char *alt, FILE *f)
{
    (void)fprintf(f, "<img alt=\"");
    html_text(alt, f);
    (void)fprintf(f, "\" src=\"data:%s;base64,", type);
    put_base64(bytes, len, f);
    (void)fputs("\">", f);
}

void html_legend(size_t i, const char *name, FILE *f)
{
    (void)fprintf(f, "<span><i class=\"colour-%zu\"></i>", i % SVG_COLOURS);
    html_text(name, f);
    (void)fputs("</span>", f);
}
