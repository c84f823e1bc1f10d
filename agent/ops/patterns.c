/* patterns.c - whether texts match a pattern, as a whole: RegexFullMatch.
 *
 * Patterns   of RE2's syntax: bytes, escaped punctuation, `.` (a character, not a newline), \d \w \s,
 *            classes `[a-z_]` of ASCII characters, each perhaps with `*`, `+` or `?`; `^` first and
 *            `$` last. All else, groups and alternatives above all, is refused with the pattern.
 * Time       the length of the text times that of the pattern, whatever they are.
 * Source     https://github.com/google/re2/wiki/Syntax */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <ctype.h>
#include <string.h>

enum { MAX_ITEMS = 512 };

/* A set of bytes, once, at most once, or any number of times. */
struct item {
    uint8_t has[32];
    int may_lack, may_repeat;
};

struct pattern {
    struct item items[MAX_ITEMS];
    int n;
};

static void add_byte(struct item *i, unsigned byte)
{
    i->has[byte / 8] |= (uint8_t)(1U << byte % 8);
}

static int has_byte(const struct item *i, unsigned byte)
{
    return i->has[byte / 8] >> byte % 8 & 1;
}

static void add_range(struct item *i, unsigned first, unsigned last)
{
    for (unsigned b = first; b <= last; b++)
        add_byte(i, b);
}

/* \d, \w, \s. 0: it is none of these. */
static int add_kind(struct item *i, char letter)
{
    static const char spaces[] = "\t\n\f\r ";

    if (letter == 'd' || letter == 'w')
        add_range(i, '0', '9');
    if (letter == 'w') {
        add_range(i, 'a', 'z');
        add_range(i, 'A', 'Z');
        add_byte(i, '_');
    }
    for (const char *s = spaces; letter == 's' && *s != '\0'; s++)
        add_byte(i, (unsigned char)*s);
    return letter == 'd' || letter == 'w' || letter == 's';
}

/* What a backslash stands before. Returns the end, or NULL for what is not known. */
static const char *read_escape(struct item *i, const char *p, const char *end)
{
    if (p == end)
        return NULL;
    if (add_kind(i, *p))
        return p + 1;
    if (!ispunct((unsigned char)*p))
        return NULL;
    add_byte(i, (unsigned char)*p);
    return p + 1;
}

/* The inside of a class, up to its bracket. */
static const char *read_class(struct item *i, const char *p, const char *end)
{
    if (p == end || *p == '^' || *p == ']')
        return NULL;
    while (p < end && *p != ']') {
        if ((unsigned char)*p >= 0x80 || *p == '[')
            return NULL;
        if (*p == '\\') {
            p = read_escape(i, p + 1, end);
            if (p == NULL)
                return NULL;
        } else if (end - p > 2 && p[1] == '-' && p[2] != ']') {
            if (p[2] < p[0] || p[2] == '\\')
                return NULL;
            add_range(i, (unsigned char)p[0], (unsigned char)p[2]);
            p += 3;
        } else {
            add_byte(i, (unsigned char)*p++);
        }
    }
    return p < end ? p + 1 : NULL;
}

/* Adds an item, as often as the pattern says after it; of a character of several bytes, `rest` are
 * those after the first. Returns 0 if there are too many. */
static int add_item(struct pattern *ret, struct item item, const struct item *rest,
                    char often)
{
    if (ret->n + 3 > MAX_ITEMS)
        return 0;
    item.may_lack = often == '*' || often == '?';
    item.may_repeat = 0;
    if (often == '*' && rest == NULL)
        item.may_repeat = 1;
    ret->items[ret->n++] = item;
    if (often == '+' && rest == NULL) {
        item.may_lack = item.may_repeat = 1;
        ret->items[ret->n++] = item;
    }
    if (rest != NULL) {
        item = *rest;
        for (size_t k = 0; (often == '*' || often == '+') && k < sizeof(item.has); k++)
            item.has[k] |= ret->items[ret->n - 1].has[k];
        item.may_lack = item.may_repeat = 1;
        ret->items[ret->n++] = item;
    }
    return 1;
}

/* 0: the pattern has what is not known here. */
static int pattern_read(struct pattern *ret, const char *p, const char *end)
{
    struct item after = {{0}}; /* bytes of UTF-8 after the first */

    add_range(&after, 0x80, 0xbf);
    ret->n = 0;
    p += p < end && *p == '^';
    if (p < end && end[-1] == '$' && (end - p < 2 || end[-2] != '\\'))
        end--;
    while (p < end) {
        const char c = *p++;
        struct item item = {{0}};
        char often = 0;

        if (c == '.') {
            add_range(&item, 0, '\n' - 1);
            add_range(&item, '\n' + 1, 0x7f);
            add_range(&item, 0xc2, 0xf4);
        } else if (c == '\\') {
            p = read_escape(&item, p, end);
        } else if (c == '[') {
            p = read_class(&item, p, end);
        } else if (strchr("^$*+?{}()|]", c) != NULL || c == '\0') {
            return 0;
        } else {
            add_byte(&item, (unsigned char)c);
        }
        if (p == NULL)
            return 0;
        if (p < end && (*p == '*' || *p == '+' || *p == '?')) {
            often = *p++;
            if ((unsigned char)c >= 0x80 || (p < end && strchr("*+?", *p) != NULL))
                return 0;
        }
        if (!add_item(ret, item, c == '.' ? &after : NULL, often))
            return 0;
    }
    return 1;
}

/* Marks the items that may come next after what is marked: those behind items that may lack. */
static void go_on(const struct pattern *p, uint8_t *at)
{
    for (int i = 0; i < p->n; i++)
        if (at[i] && p->items[i].may_lack)
            at[i + 1] = 1;
}

static int matches(const struct pattern *p, const struct tensor_string *s)
{
    uint8_t at[2][MAX_ITEMS + 1] = {{1}}; /* whether item i may come next; n: the end */
    int now = 0;

    go_on(p, at[0]);
    for (size_t k = 0; k < s->len_bytes; k++, now = !now) {
        const unsigned byte = (unsigned char)s->bytes[k];

        memset(at[!now], 0, sizeof(at[0]));
        for (int i = 0; i < p->n; i++)
            if (at[now][i] && has_byte(&p->items[i], byte))
                at[!now][p->items[i].may_repeat ? i : i + 1] = 1;
        go_on(p, at[!now]);
    }
    return at[now][p->n];
}

static int kern_full_match(const struct kernel_args *a)
{
    const struct attr *of_op = operation_attr(a->op, "pattern");
    const struct tensor_string *of_input = of_op == NULL ? a->in[1]->data : NULL,
                               *x = a->in[0]->data;
    const char *text = of_op != NULL ? of_op->s : of_input->bytes;
    const size_t len = of_op != NULL ? of_op->s_len : of_input->len_bytes;
    struct pattern p;

    if (!pattern_read(&p, text, text + len))
        return err_set(a->err, ERR_UNSUPPORTED, "%s: no patterns like '%.*s'",
                       operation_name(a->op), (int)len, text);
    for (int64_t i = 0; i < tensor_elements(a->in[0]); i++)
        ((uint8_t *)a->out[0]->data)[i] = (uint8_t)matches(&p, &x[i]);
    return 0;
}

static const struct op_def rows[] = {
    {"RegexFullMatch", OP_NO_GRADIENT, shape_same, NULL, CALL(kern_full_match),
     "input:string, pattern:string -> output:bool", .ranks = "?0"},
    {"StaticRegexFullMatch", OP_NO_GRADIENT, shape_same, NULL, CALL(kern_full_match),
     "input:string -> output:bool; pattern:string"},
};

const struct op_family ops_of_patterns = OP_FAMILY(rows);
