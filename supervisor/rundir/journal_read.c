#include "supervisor/rundir/journal_read.h"

#include "common/io/line_reader.h"
#include "common/text/scan.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- values ---- */

static int hex4(const char *p, uint32_t *ret)
{
    *ret = 0;
    for (int i = 0; i < 4; i++) {
        const int digit = hex_digit(p[i]);

        if (digit < 0)
            return 0;
        *ret = *ret << 4 | (uint32_t)digit;
    }
    return 1;
}

/* Appends a character of the basic plane as UTF-8: at most three bytes, in place of the
 * escape's six. */
static char *put_utf8(char *to, uint32_t c)
{
    if (c < 0x80) {
        *to++ = (char)c;
    } else if (c < 0x800) {
        *to++ = (char)(0xc0 | c >> 6);
        *to++ = (char)(0x80 | (c & 0x3f));
    } else {
        *to++ = (char)(0xe0 | c >> 12);
        *to++ = (char)(0x80 | (c >> 6 & 0x3f));
        *to++ = (char)(0x80 | (c & 0x3f));
    }
    return to;
}

/* Decodes the escape after a backslash at *from; NULL: malformed, or a NUL. The writer
 * escapes no characters beyond the basic plane. */
static char *put_escape(char *to, char **from)
{
    static const char names[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *at;
    uint32_t c;

    if (**from == 'u') {
        if (!hex4(*from + 1, &c) || c == 0 || (c >= 0xd800 && c < 0xe000))
            return NULL;
        *from += 5;
        return put_utf8(to, c);
    }
    if (**from == '\0' || (at = strchr(names, **from)) == NULL)
        return NULL;
    (*from)++;
    *to++ = meant[at - names];
    return to;
}

/* Unescapes a quoted text in place. *p: first the byte after the opening quote, then the
 * byte after the closing one. NULL: no closing quote, or a malformed escape. */
static const char *take_quoted(char **p)
{
    char *text = *p, *to = *p, *from = *p;

    while (*from != '"') {
        if (*from == '\0')
            return NULL;
        if (*from != '\\') {
            *to++ = *from++;
            continue;
        }
        from++;
        if ((to = put_escape(to, &from)) == NULL)
            return NULL;
    }
    *p = from + 1;
    *to = '\0'; /* at the closing quote at the latest */
    return text;
}

/* Takes a value up to a space or the end of the line; *p moves past it and the space. */
static const char *take_value(char **p)
{
    const char *text = *p;

    if (**p == '"') {
        (*p)++;
        text = take_quoted(p);
        if (text == NULL || (**p != ' ' && **p != '\0'))
            return NULL;
    } else {
        *p += strcspn(*p, " ");
    }
    if (**p == ' ')
        *(*p)++ = '\0';
    return text;
}

/* ---- lines ---- */

static int add_pair(struct journal_event *e, const struct journal_pair *pair)
{
    if (strcmp(pair->key, "event") == 0 && e->name == NULL) {
        e->name = pair->value;
        return *e->name != '\0' ? 0 : ERR_FORMAT;
    }
    if (strcmp(pair->key, "step") == 0 && e->env_steps == JOURNAL_NO_STEP)
        return text_u64(pair->value, &e->env_steps) ? 0 : ERR_FORMAT;
    if (e->n_pairs == JOURNAL_PAIRS_MAX)
        return ERR_LIMIT;
    e->pairs[e->n_pairs++] = *pair;
    return 0;
}

int journal_parse(char *line, struct journal_event *ret)
{
    char *p = line + strcspn(line, " ");
    int rc = *p == ' ' && p > line ? 0 : ERR_FORMAT;

    *ret = (struct journal_event){.time = line, .env_steps = JOURNAL_NO_STEP};
    if (rc == 0)
        *p++ = '\0';
    while (rc == 0 && *p != '\0') {
        const size_t len = strcspn(p, "= \"");
        struct journal_pair pair = {.key = p};

        if (len == 0 || p[len] != '=')
            return ERR_FORMAT;
        p[len] = '\0';
        p += len + 1;
        pair.value = take_value(&p);
        rc = pair.value != NULL ? add_pair(ret, &pair) : ERR_FORMAT;
    }
    return rc == 0 && ret->name == NULL ? ERR_FORMAT : rc;
}

const char *journal_value(const struct journal_event *e, const char *key)
{
    for (size_t i = 0; i < e->n_pairs; i++)
        if (strcmp(e->pairs[i].key, key) == 0)
            return e->pairs[i].value;
    return NULL;
}

static const char *find(const void *ctx, const char *key)
{
    return journal_value(ctx, key);
}

void journal_to_event(struct run_event *ret, const struct journal_event *line)
{
    *ret = (struct run_event){.kind = run_event_kind_of(line->name),
                              .env_steps = line->env_steps};
    (void)snprintf(ret->time, sizeof(ret->time), "%s", line->time);
    if (ret->kind != RUN_EVENT_COUNT)
        run_event_parse(ret, find, line);
}

uint64_t journal_number(const struct journal_event *e, const char *key,
                        uint64_t otherwise)
{
    const char *text = journal_value(e, key);
    uint64_t v;

    return text != NULL && text_u64(text, &v) ? v : otherwise;
}

double journal_real(const struct journal_event *e, const char *key, double otherwise)
{
    const char *text = journal_value(e, key);
    char *end;
    double v;

    if (text == NULL || *text == '\0')
        return otherwise;
    v = strtod(text, &end);
    return *end == '\0' ? v : otherwise;
}

int journal_each(const char *path, journal_event_fn fn, void *ctx, struct err *err)
{
    struct line_reader r;
    struct journal_event e;
    char *line;
    size_t len;
    int rc = line_reader_open(&r, path, JOURNAL_LINE_MAX, err);

    while (rc == 0) {
        rc = line_reader_next(&r, &line, &len, err);
        if (rc < 0)
            (void)err_wrap(err, "%s", path);
        if (rc <= 0)
            break;
        rc = 0;
        if (r.read_bytes > JOURNAL_MAX)
            rc = err_set(err, ERR_LIMIT, "%s: more than %d MiB", path,
                         (int)(JOURNAL_MAX >> 20));
        else if (!r.cut && strlen(line) == len && journal_parse(line, &e) == 0)
            rc = fn(ctx, r.number, &e);
    }
    line_reader_close(&r);
    return rc;
}

struct typed {
    journal_run_event_fn fn;
    void *ctx;
};

static int take_line(void *ctx, uint64_t number, const struct journal_event *line)
{
    const struct typed *to = ctx;
    struct run_event e;

    journal_to_event(&e, line);
    return to->fn(to->ctx, number, &e);
}

int journal_each_event(const char *path, journal_run_event_fn fn, void *ctx,
                       struct err *err)
{
    struct typed to = {fn, ctx};

    return journal_each(path, take_line, &to, err);
}

static int fold_event(void *ctx, uint64_t line, const struct run_event *e)
{
    (void)run_event_fold(ctx, e);
    return 0;
}

int journal_fold(const char *path, struct run_model *m, struct err *err)
{
    return journal_each_event(path, fold_event, m, err);
}
