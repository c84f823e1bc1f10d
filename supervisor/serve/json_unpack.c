#include "supervisor/serve/json_unpack.h"

#include "common/msg/unpack.h"

#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

struct reader {
    msgpack_sbuffer *to;
    msgpack_packer pk;
    const char *text, *at, *end;
    struct err *err;
};

static int read_value(struct reader *r, int depth);

static int fail(struct reader *r, const char *what)
{
    return err_set(r->err, ERR_FORMAT, "JSON: %s at byte %zu", what,
                   (size_t)(r->at - r->text) + 1);
}

/* rc: of writing. */
static int written(struct reader *r, int rc)
{
    return rc == 0 ? 0 : err_set(r->err, ERR_NOMEM, "JSON: no memory");
}

static void skip_blanks(struct reader *r)
{
    r->at += strspn(r->at, " \t\r\n");
}

/* ---- containers: their headers have four bytes for the number, which is known at the end ---- */

static int begin_container(struct reader *r, uint8_t type, size_t *ret_begun)
{
    const uint8_t head[] = {type, 0, 0, 0, 0};

    *ret_begun = r->to->size + 1;
    return written(r, msgpack_sbuffer_write(r->to, (const char *)head, sizeof(head)));
}

static void end_container(struct reader *r, size_t begun, uint32_t n)
{
    for (int i = 0; i < 4; i++)
        r->to->data[begun + (size_t)i] = (char)(n >> (24 - 8 * i));
}

/* ---- strings ---- */

static void put_utf8(char *to, size_t *n, uint32_t c)
{
    if (c < 0x80) {
        to[(*n)++] = (char)c;
        return;
    }
    if (c < 0x800) {
        to[(*n)++] = (char)(0xc0 | c >> 6);
    } else {
        if (c < 0x10000) {
            to[(*n)++] = (char)(0xe0 | c >> 12);
        } else {
            to[(*n)++] = (char)(0xf0 | c >> 18);
            to[(*n)++] = (char)(0x80 | (c >> 12 & 0x3f));
        }
        to[(*n)++] = (char)(0x80 | (c >> 6 & 0x3f));
    }
    to[(*n)++] = (char)(0x80 | (c & 0x3f));
}

/* Four digits; -1: there are none. */
static int64_t read_hex(struct reader *r)
{
    char digits[5] = {0};

    if (r->end - r->at < 4 || strspn(r->at, "0123456789abcdefABCDEF") < 4)
        return -1;
    memcpy(digits, r->at, 4);
    r->at += 4;
    return strtol(digits, NULL, 16);
}

/* What follows \u, perhaps with the second half of a pair. -1: malformed. */
static int64_t read_unicode(struct reader *r)
{
    int64_t c = read_hex(r), low;

    if (c < 0xd800 || c > 0xdfff)
        return c;
    if (c > 0xdbff || r->at[0] != '\\' || r->at[1] != 'u')
        return -1;
    r->at += 2;
    low = read_hex(r);
    return low < 0xdc00 || low > 0xdfff ? -1
                                        : 0x10000 + ((c - 0xd800) << 10) + low - 0xdc00;
}

/* Of the string as it is written, to its end or the text's. */
static size_t length_of(const char *begin)
{
    const char *p = begin;

    for (; *p != '"' && *p != '\0'; p++)
        p += p[0] == '\\' && p[1] != '\0';
    return (size_t)(p - begin);
}

/* An escape takes more bytes than what it stands for: the length as written is enough. */
static int read_string(struct reader *r)
{
    static const char letters[] = "\"\\/bfnrt", stand[] = "\"\\/\b\f\n\r\t";
    char *text = malloc(length_of(r->at + 1) + 1);
    size_t n = 0;
    int rc = 0;

    if (text == NULL)
        return written(r, -1);
    for (r->at++; rc == 0 && *r->at != '"';) {
        const char *letter;
        int64_t c;

        if ((unsigned char)*r->at < 0x20) { /* also the end of the text */
            rc = fail(r, "a string does not end");
        } else if (*r->at != '\\') {
            text[n++] = *r->at++;
        } else if (r->at[1] == 'u') {
            r->at += 2;
            if ((c = read_unicode(r)) < 0)
                rc = fail(r, "half a character");
            else
                put_utf8(text, &n, (uint32_t)c);
        } else if (r->at[1] != '\0' && (letter = strchr(letters, r->at[1])) != NULL) {
            text[n++] = stand[letter - letters];
            r->at += 2;
        } else {
            rc = fail(r, "an unknown escape");
        }
    }
    if (rc == 0) {
        r->at++;
        rc = written(r, msgpack_pack_str_with_body(&r->pk, text, n));
    }
    free(text);
    return rc;
}

/* ---- numbers ---- */

static int read_number(struct reader *r)
{
    const size_t n = strspn(r->at, "-+.eE0123456789");
    const char *digits = r->at + (*r->at == '-'), *point = memchr(r->at, '.', n);
    char *end;

    if (digits[0] < '0' || digits[0] > '9' ||
        (digits[0] == '0' && digits[1] >= '0' && digits[1] <= '9'))
        return fail(r, "no value");
    if (point == NULL && memchr(r->at, 'e', n) == NULL && memchr(r->at, 'E', n) == NULL) {
        errno = 0;
        if (*r->at == '-') {
            const long long x = strtoll(r->at, &end, 10);

            if (errno == 0 && end == r->at + n) {
                r->at = end;
                return written(r, msgpack_pack_int64(&r->pk, x));
            }
        } else {
            const unsigned long long x = strtoull(r->at, &end, 10);

            if (errno == 0 && end == r->at + n) {
                r->at = end;
                return written(r, msgpack_pack_uint64(&r->pk, x));
            }
        }
    }
    {
        const double x = strtod(r->at, &end);

        if (end != r->at + n || (point != NULL && (point[1] < '0' || point[1] > '9')))
            return fail(r, "a malformed number");
        r->at = end;
        return written(r, msgpack_pack_double(&r->pk, x));
    }
}

/* ---- values ---- */

static int read_word(struct reader *r, const char *word)
{
    const size_t n = strlen(word);

    if (strncmp(r->at, word, n) != 0)
        return fail(r, "no value");
    r->at += n;
    return 0;
}

static int read_key(struct reader *r)
{
    int rc;

    skip_blanks(r);
    if (*r->at != '"')
        return fail(r, "a key is missing");
    rc = read_string(r);
    skip_blanks(r);
    if (rc == 0 && *r->at != ':')
        rc = fail(r, "a ':' is missing");
    r->at += rc == 0;
    return rc;
}

/* An array, or with keys an object. */
static int read_container(struct reader *r, int depth)
{
    const int has_keys = *r->at == '{';
    const char close = has_keys ? '}' : ']';
    uint32_t n = 0;
    size_t begun;
    int rc;

    if (depth == MSG_MAX_DEPTH)
        return err_set(r->err, ERR_LIMIT, "JSON: more than %d levels", MSG_MAX_DEPTH);
    rc = begin_container(r, has_keys ? 0xdf : 0xdd, &begun);
    if (rc < 0)
        return rc;
    r->at++;
    skip_blanks(r);
    while (rc == 0 && *r->at != close) {
        if (n++ > 0 && *r->at != ',')
            return fail(r, "a ',' is missing");
        r->at += n > 1;
        if (has_keys)
            rc = read_key(r);
        if (rc == 0)
            rc = read_value(r, depth + 1);
        skip_blanks(r);
    }
    if (rc < 0)
        return rc;
    r->at++;
    end_container(r, begun, n);
    return 0;
}

static int read_value(struct reader *r, int depth)
{
    int rc;

    skip_blanks(r);
    switch (*r->at) {
    case '{':
    case '[':
        return read_container(r, depth);
    case '"':
        return read_string(r);
    case 't':
        rc = read_word(r, "true");
        return rc < 0 ? rc : written(r, msgpack_pack_true(&r->pk));
    case 'f':
        rc = read_word(r, "false");
        return rc < 0 ? rc : written(r, msgpack_pack_false(&r->pk));
    case 'n':
        rc = read_word(r, "null");
        return rc < 0 ? rc : written(r, msgpack_pack_nil(&r->pk));
    default:
        return read_number(r);
    }
}

int json_unpack(msgpack_sbuffer *ret, const char *text, size_t len, struct err *err)
{
    struct reader r = {
        .to = ret, .text = text, .at = text, .end = text + len, .err = err};
    int rc;

    msgpack_packer_init(&r.pk, ret, msgpack_sbuffer_write);
    rc = read_value(&r, 0);
    skip_blanks(&r);
    if (rc == 0 && r.at != r.end)
        rc = fail(&r, "more than one value");
    return rc;
}
