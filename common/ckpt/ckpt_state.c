#include "common/ckpt/ckpt_state.h"

#include "common/ckpt/bundle_reader.h"
#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_FILE_BYTES = 1 << 20, MAX_DEPTH = 16 };

static const char NEWEST[] = "model_checkpoint_path";
static const char ALL[] = "all_model_checkpoint_paths";

/* ---- text ---- */

struct text {
    const char *p, *end;
};

static int peek(const struct text *t)
{
    return t->p < t->end ? (unsigned char)*t->p : -1;
}

/* Skips white space, comments, and the separators that protobuf allows between fields. */
static void skip_space(struct text *t)
{
    for (; t->p < t->end; t->p++) {
        if (*t->p == '#') {
            while (t->p + 1 < t->end && t->p[1] != '\n')
                t->p++;
        } else if (!isspace((unsigned char)*t->p) && *t->p != ',' && *t->p != ';') {
            return;
        }
    }
}

static int is_word_char(int c)
{
    return isalnum(c) || c == '_' || c == '.' || c == '-' || c == '+';
}

/* Reads a name or a number; returns its length, 0 if there is none. */
static size_t take_word(struct text *t, const char **ret)
{
    *ret = t->p;
    while (t->p < t->end && is_word_char((unsigned char)*t->p))
        t->p++;
    return (size_t)(t->p - *ret);
}

/* Reads up to max_digits digits of a base as one byte. */
static uint8_t take_number(struct text *t, int base, int max_digits)
{
    int v = 0;

    for (; max_digits > 0 && t->p < t->end; max_digits--, t->p++) {
        const int digit = hex_digit(*t->p);

        if (digit < 0 || digit >= base)
            break;
        v = v * base + digit;
    }
    return (uint8_t)v;
}

/* Reads an escape sequence, from the byte after the backslash on. */
static uint8_t take_escape(struct text *t)
{
    static const char LETTERS[] = "abfnrtv";
    static const char VALUES[] = "\a\b\f\n\r\t\v";
    int c = peek(t);
    const char *letter;

    if (c >= '0' && c <= '7')
        return take_number(t, 8, 3);
    t->p++;
    if (c == 'x' || c == 'X')
        return take_number(t, 16, 2);
    letter = memchr(LETTERS, c, sizeof(LETTERS) - 1);
    return (uint8_t)(letter != NULL ? VALUES[letter - LETTERS] : c);
}

/* Appends one quoted string to b; returns 0 if its end is missing. */
static int take_string(struct text *t, struct wbuf *b)
{
    int quote = peek(t);

    t->p++;
    while (t->p < t->end && *t->p != quote && *t->p != '\n') {
        uint8_t c = (uint8_t)*t->p++;

        if (c == '\\' && t->p < t->end)
            c = take_escape(t);
        wbuf_u8(b, c);
    }
    if (peek(t) != quote)
        return 0;
    t->p++;
    return 1;
}

/* Appends adjacent strings, which protobuf concatenates. */
static int take_strings(struct text *t, struct wbuf *b)
{
    do {
        if (!take_string(t, b))
            return 0;
        skip_space(t);
    } while (peek(t) == '"' || peek(t) == '\'');
    return 1;
}

/* Skips a message in braces, including strings and comments that contain braces. */
static int skip_message(struct text *t)
{
    struct wbuf ignored = {0};
    int depth = 0, ok = 1;

    do {
        int c = peek(t);

        if (c == '"' || c == '\'') {
            ok = take_string(t, &ignored);
        } else {
            depth += (c == '{' || c == '<') - (c == '}' || c == '>');
            t->p++;
        }
        skip_space(t);
    } while (ok && depth > 0 && depth <= MAX_DEPTH && t->p < t->end);
    wbuf_done(&ignored);
    return ok && depth == 0;
}

/* ---- fields ---- */

static void add_field(struct ckpt_state *s, const char *name, size_t name_len,
                      const struct wbuf *value)
{
    char *text = xstrndup((const char *)value->data, value->len);

    if (name_len == sizeof(NEWEST) - 1 && memcmp(name, NEWEST, name_len) == 0) {
        free(s->newest);
        s->newest = text;
    } else if (name_len == sizeof(ALL) - 1 && memcmp(name, ALL, name_len) == 0) {
        s->all = xreallocarray(s->all, s->n_all + 1, sizeof(*s->all));
        s->all[s->n_all++] = text;
    } else {
        free(text);
    }
}

static int take_field(struct text *t, struct ckpt_state *s)
{
    const char *name, *word;
    size_t name_len = take_word(t, &name);
    struct wbuf value = {0};
    int ok;

    if (name_len == 0)
        return 0;
    skip_space(t);
    if (peek(t) == ':')
        t->p++;
    skip_space(t);
    if (peek(t) == '{' || peek(t) == '<')
        return skip_message(t);
    if (peek(t) != '"' && peek(t) != '\'')
        return take_word(t, &word) > 0;
    ok = take_strings(t, &value);
    if (ok) {
        wbuf_u8(&value, 0);
        add_field(s, name, name_len, &value);
    }
    wbuf_done(&value);
    return ok;
}

int ckpt_state_parse(struct ckpt_state *ret, const char *text, size_t len_bytes,
                     struct err *err)
{
    struct text t = {.p = text, .end = text + len_bytes};
    struct ckpt_state s = {.newest = xstrdup("")};
    int line = 1;

    skip_space(&t);
    while (t.p < t.end) {
        const char *start = t.p;

        if (!take_field(&t, &s)) {
            for (const char *p = text; p < start; p++)
                line += *p == '\n';
            ckpt_state_done(&s);
            return err_set_at(err, ERR_FORMAT, ERR_AT(.line = line),
                              "no CheckpointState");
        }
        skip_space(&t);
    }
    *ret = s;
    return 0;
}

void ckpt_state_done(struct ckpt_state *s)
{
    for (size_t i = 0; i < s->n_all; i++)
        free(s->all[i]);
    free(s->all);
    free(s->newest);
    *s = (struct ckpt_state){0};
}

/* ---- writing ---- */

static void put_escaped(struct wbuf *b, uint8_t c)
{
    static const char SPECIAL[] = "\\\"'\n\r\t";
    static const char LETTERS[] = "\\\"'nrt";
    const char *special = c != 0 ? strchr(SPECIAL, c) : NULL;
    char octal[8];

    if (special != NULL) {
        wbuf_u8(b, '\\');
        wbuf_u8(b, (uint8_t)LETTERS[special - SPECIAL]);
    } else if (c < 0x20 || c >= 0x7f) {
        (void)snprintf(octal, sizeof(octal), "\\%03o", (unsigned)c);
        wbuf_bytes(b, octal, 4);
    } else {
        wbuf_u8(b, c);
    }
}

static void put_field(struct wbuf *b, const char *name, const char *value)
{
    wbuf_bytes(b, name, strlen(name));
    wbuf_bytes(b, ": \"", 3);
    for (; *value != '\0'; value++)
        put_escaped(b, (uint8_t)*value);
    wbuf_bytes(b, "\"\n", 2);
}

void ckpt_state_put(struct wbuf *b, const struct ckpt_state *s)
{
    put_field(b, NEWEST, s->newest);
    for (size_t i = 0; i < s->n_all; i++)
        put_field(b, ALL, s->all[i]);
}

/* ---- files ---- */

int ckpt_state_load_file(struct ckpt_state *ret, const char *path, struct err *err)
{
    char *text = NULL;
    uint64_t n = 0;
    int fd, rc = bundle_open_regular(path, &fd, &n, err);

    if (rc == -ENOENT) {
        rc = err_set(err, ERR_NOT_FOUND, "there is no %s", path);
    } else if (rc == 0 && n > MAX_FILE_BYTES) {
        rc = err_set(err, ERR_LIMIT, "%s: more than a megabyte", path);
    } else if (rc == 0) {
        text = xmalloc(n + 1);
        rc = bundle_read_at(fd, text, n, 0, err);
        if (rc < 0)
            (void)err_wrap(err, "%s", path);
    }
    bundle_close(fd);
    if (rc == 0) {
        rc = ckpt_state_parse(ret, text, n, err);
        if (rc != 0) {
            (void)err_wrap(err, "%s", path);
            (void)err_note(err, ERR_AT(.file = path));
        }
    }
    free(text);
    return rc;
}

int ckpt_state_load(struct ckpt_state *ret, const char *dir, struct err *err)
{
    char *path = xasprintf("%s/checkpoint", dir);
    int rc = ckpt_state_load_file(ret, path, err);

    free(path);
    return rc;
}
