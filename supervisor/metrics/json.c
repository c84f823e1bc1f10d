#include "supervisor/metrics/json.h"

#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/text/plain_text.h"
#include "common/text/utf8.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void json_done(struct json *j)
{
    free(j->data);
    *j = (struct json){0};
}

void json_begin(struct json *j)
{
    j->len = 0;
    j->depth = 0;
    j->after_key = 0;
}

static void json_put(struct json *j, const char *s, size_t n)
{
    if (j->len + n + 1 > j->cap) {
        j->cap = (j->len + n + 1) * 2;
        j->data = xrealloc(j->data, j->cap);
    }
    memcpy(j->data + j->len, s, n);
    j->len += n;
    j->data[j->len] = '\0';
}

static void json_put_text(struct json *j, const char *s)
{
    json_put(j, s, strlen(s));
}

/* Writes the comma between two values, if one is needed here. */
static void separate(struct json *j)
{
    if (j->after_key) {
        j->after_key = 0;
        return;
    }
    if (j->depth > 0 && j->level[j->depth - 1].count++ > 0)
        json_put(j, ", ", 2);
}

static void open_level(struct json *j, char open, char close)
{
    CHECK(j->depth < JSON_MAX_DEPTH);
    separate(j);
    json_put(j, &open, 1);
    j->level[j->depth].close = close;
    j->level[j->depth].count = 0;
    j->depth++;
}

void json_object(struct json *j)
{
    open_level(j, '{', '}');
}

void json_array(struct json *j)
{
    open_level(j, '[', ']');
}

void json_close(struct json *j)
{
    CHECK(j->depth > 0 && !j->after_key);
    j->depth--;
    json_put(j, &j->level[j->depth].close, 1);
}

static void put_escaped(struct json *j, uint8_t c)
{
    static const char shorts[] = {
        ['"'] = '"',  ['\\'] = '\\', ['\b'] = 'b', ['\f'] = 'f',
        ['\n'] = 'n', ['\r'] = 'r',  ['\t'] = 't',
    };
    char text[8];

    if (c < sizeof(shorts) && shorts[c] != 0)
        (void)snprintf(text, sizeof(text), "\\%c", shorts[c]);
    else
        (void)snprintf(text, sizeof(text), "\\u%04x", c);
    json_put_text(j, text);
}

/* Plain output would escape the bytes, which is no JSON. n: 2 or 3. */
static void put_bidi(struct json *j, const uint8_t *p, size_t n)
{
    const unsigned code =
        n == 2 ? (p[0] & 0x1fu) << 6 | (p[1] & 0x3fu)
               : (p[0] & 0xfu) << 12 | (p[1] & 0x3fu) << 6 | (p[2] & 0x3fu);
    char text[8];

    (void)snprintf(text, sizeof(text), "\\u%04x", code);
    json_put_text(j, text);
}

void json_strn(struct json *j, const char *s, size_t len)
{
    const uint8_t *p = (const uint8_t *)s;

    separate(j);
    json_put(j, "\"", 1);
    for (size_t i = 0; i < len;) {
        size_t n = utf8_len(p + i, len - i);
        if (n == 0) {
            json_put_text(j, "\\ufffd");
            n = 1;
        } else if (n == 1 &&
                   (p[i] < 0x20 || p[i] == 0x7f || p[i] == '"' || p[i] == '\\')) {
            put_escaped(j, p[i]);
        } else if (n == 2 && p[i] == 0xc2 && p[i + 1] < 0xa0) {
            put_escaped(j, p[i + 1]); /* C1 controls: some terminals interpret them */
        } else if (plain_text_is_bidi(p + i, n)) {
            put_bidi(j, p + i, n);
        } else {
            json_put(j, s + i, n);
        }
        i += n;
    }
    json_put(j, "\"", 1);
}

void json_str(struct json *j, const char *s)
{
    if (s == NULL)
        json_null(j);
    else
        json_strn(j, s, strlen(s));
}

void json_key(struct json *j, const char *key)
{
    CHECK(j->depth > 0 && j->level[j->depth - 1].close == '}' && !j->after_key);
    json_str(j, key);
    json_put(j, ": ", 2);
    j->after_key = 1;
}

void json_u64(struct json *j, uint64_t v)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%llu", (unsigned long long)v);
    separate(j);
    json_put_text(j, text);
}

void json_i64(struct json *j, int64_t v)
{
    char text[24];

    (void)snprintf(text, sizeof(text), "%lld", (long long)v);
    separate(j);
    json_put_text(j, text);
}

const char *json_format_f64(double v, char buf[JSON_NUMBER_MAX])
{
    if (v == floor(v) && fabs(v) < 1e15) { /* write 100, not 1e+02 */
        (void)snprintf(buf, JSON_NUMBER_MAX, "%.0f", v);
        return buf;
    }
    /* 17 digits always read back equal; most numbers need fewer. */
    for (int digits = 1; digits <= 17; digits++) {
        (void)snprintf(buf, JSON_NUMBER_MAX, "%.*g", digits, v);
        if (strtod(buf, NULL) == v)
            break;
    }
    return buf;
}

void json_f64(struct json *j, double v)
{
    char text[JSON_NUMBER_MAX];

    separate(j);
    json_put_text(j, isfinite(v) ? json_format_f64(v, text) : "null");
}

void json_bool(struct json *j, int v)
{
    separate(j);
    json_put_text(j, v ? "true" : "false");
}

void json_null(struct json *j)
{
    separate(j);
    json_put_text(j, "null");
}

void json_put_str(struct json *j, const char *key, const char *s)
{
    json_key(j, key);
    json_str(j, s);
}

void json_put_u64(struct json *j, const char *key, uint64_t v)
{
    json_key(j, key);
    json_u64(j, v);
}

void json_put_i64(struct json *j, const char *key, int64_t v)
{
    json_key(j, key);
    json_i64(j, v);
}

void json_put_f64(struct json *j, const char *key, double v)
{
    json_key(j, key);
    json_f64(j, v);
}

void json_put_bool(struct json *j, const char *key, int v)
{
    json_key(j, key);
    json_bool(j, v);
}

void json_put_known(struct json *j, const char *key, int is_known, uint64_t v)
{
    json_key(j, key);
    if (is_known)
        json_u64(j, v);
    else
        json_null(j);
}

void json_put_object(struct json *j, const char *key)
{
    json_key(j, key);
    json_object(j);
}

void json_put_array(struct json *j, const char *key)
{
    json_key(j, key);
    json_array(j);
}

void json_raw(struct json *j, const char *text, size_t len)
{
    separate(j);
    json_put(j, text, len);
}

const char *json_line(struct json *j, size_t *ret_len)
{
    CHECK(j->depth == 0 && j->len > 0);
    json_put(j, "\n", 1);
    if (ret_len != NULL)
        *ret_len = j->len;
    return j->data;
}

void json_print(struct json *j, FILE *f)
{
    size_t len;
    const char *text;

    while (j->depth > 0)
        json_close(j);
    text = json_line(j, &len);
    (void)fwrite(text, 1, len, f);
    (void)fflush(f);
    json_done(j);
}
