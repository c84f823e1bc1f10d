#include "agent/graph/signature.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORD_MAX = 64 };

static const struct {
    const char *name;
    enum attr_kind kind;
} kinds[] = {
    {"type", ATTR_TYPE},
    {"number_type", ATTR_TYPE},
    {"sum_type", ATTR_TYPE},
    {"float_type", ATTR_TYPE},
    {"index_type", ATTR_TYPE},
    {"int", ATTR_INT},
    {"float", ATTR_FLOAT},
    {"bool", ATTR_BOOL},
    {"shape", ATTR_SHAPE},
    {"string", ATTR_STRING},
    {"tensor", ATTR_TENSOR},
    {"list(int)", ATTR_LIST_INT},
    {"list(type)", ATTR_LIST_TYPE},
    {"list(float)", ATTR_LIST_FLOAT},
    {"list(shape)", ATTR_LIST_SHAPE},
    {"list(string)", ATTR_LIST_STRING},
    {"list(bool)", ATTR_OPAQUE},
    {"list(tensor)", ATTR_OPAQUE},
    {"list(func)", ATTR_OPAQUE},
    {"func", ATTR_OPAQUE},
};

int span_is(struct span s, const char *text)
{
    return strlen(text) == s.len && memcmp(s.p, text, s.len) == 0;
}

struct span span_of(const char *text)
{
    return (struct span){text, strlen(text)};
}

/* Reads up to one of `stops` or the end; leaves out blanks at both ends. */
static struct span signature_take(const char **p, const char *stops)
{
    const char *begin, *end;

    *p += strspn(*p, " ");
    begin = *p;
    end = begin + strcspn(begin, stops);
    *p = end;
    while (end > begin && end[-1] == ' ')
        end--;
    return (struct span){begin, (size_t)(end - begin)};
}

static int skip(const char **p, char c)
{
    *p += strspn(*p, " ");
    if (**p != c)
        return 0;
    (*p)++;
    return 1;
}

static int parse_arg(const char **p, struct signature_arg *ret)
{
    struct span word;

    *ret = (struct signature_arg){.name = signature_take(p, ":,;")};
    if (!skip(p, ':'))
        return -1;
    ret->is_ref = skip(p, '&');
    word = signature_take(p, "*,;-");
    if (skip(p, '*')) {
        ret->number = word;
        word = signature_take(p, ",;-");
    }
    ret->type = word;
    return ret->name.len != 0 && word.len != 0 ? 0 : -1;
}

static int parse_args(const char **p, struct signature_arg *args, int *ret_n,
                      const char *end)
{
    *ret_n = 0;
    *p += strspn(*p, " ");
    if (**p == '\0' || strchr(end, **p) != NULL)
        return 0;
    do {
        if (*ret_n == SIGNATURE_MAX || parse_arg(p, &args[*ret_n]) != 0)
            return -1;
        (*ret_n)++;
    } while (skip(p, ','));
    return 0;
}

static int parse_attr(const char **p, struct signature_attr *ret)
{
    *ret = (struct signature_attr){.name = signature_take(p, ":,")};
    if (ret->name.len == 0 || !skip(p, ':'))
        return -1;
    ret->kind_name = signature_take(p, "=,");
    ret->has_default = skip(p, '=');
    if (ret->has_default)
        ret->default_text = signature_take(p, ",");
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (span_is(ret->kind_name, kinds[i].name)) {
            ret->kind = kinds[i].kind;
            return 0;
        }
    return -1;
}

static int attr_index(const struct signature *s, struct span name)
{
    const struct signature_attr *a = name.len > 0 ? signature_attr(s, name) : NULL;

    return a != NULL ? (int)(a - s->attrs) : -1;
}

static enum dtype dtype_of_span(struct span s)
{
    char word[32] = "";

    memcpy(word, s.p, s.len < sizeof(word) - 1 ? s.len : sizeof(word) - 1);
    return word[0] == '#' ? (enum dtype)atoi(word + 1) : dtype_from_name(word);
}

/* Finds the attributes that the arguments refer to, which come after them. */
static void resolve(const struct signature *s, struct signature_arg *args, int n)
{
    for (int i = 0; i < n; i++) {
        struct signature_arg *a = &args[i];

        a->type_attr = attr_index(s, a->type);
        a->number_attr = attr_index(s, a->number);
        a->is_list = a->number.len != 0 ||
                     (a->type_attr >= 0 && s->attrs[a->type_attr].kind == ATTR_LIST_TYPE);
        a->dtype = a->type_attr < 0 ? dtype_of_span(a->type) : DT_INVALID;
    }
}

static int parse(struct signature *ret, const char *text)
{
    const char *p = text;

    ret->n_attrs = 0;
    if (parse_args(&p, ret->in, &ret->n_in, "-") != 0 || !skip(&p, '-') ||
        !skip(&p, '>') || parse_args(&p, ret->out, &ret->n_out, ";") != 0)
        return -1;
    if (!skip(&p, ';'))
        return *p == '\0' ? 0 : -1;
    do {
        if (ret->n_attrs == SIGNATURE_MAX ||
            parse_attr(&p, &ret->attrs[ret->n_attrs]) != 0)
            return -1;
        ret->n_attrs++;
    } while (skip(&p, ','));
    return *p == '\0' ? 0 : -1;
}

int signature_parse(struct signature *ret, struct signature_room *room, const char *text)
{
    *ret = (struct signature){.in = room->in, .out = room->out, .attrs = room->attrs};
    if (parse(ret, text) != 0)
        return -1;
    resolve(ret, ret->in, ret->n_in);
    resolve(ret, ret->out, ret->n_out);
    return 0;
}

const struct signature_attr *signature_attr(const struct signature *s, struct span name)
{
    for (int i = 0; i < s->n_attrs; i++)
        if (s->attrs[i].name.len == name.len &&
            memcmp(s->attrs[i].name.p, name.p, name.len) == 0)
            return &s->attrs[i];
    return NULL;
}

static int parse_number(const char *word, struct attr *ret)
{
    char *end;

    if (ret->kind == ATTR_INT)
        ret->i = strtoll(word, &end, 10);
    else
        ret->f = strtof(word, &end);
    return end != word && *end == '\0' ? 0 : -1;
}

int signature_default(const struct signature_attr *a, struct attr *ret)
{
    char word[WORD_MAX];

    if (a->default_text.len >= sizeof(word))
        return -1;
    (void)snprintf(word, sizeof(word), "%.*s", (int)a->default_text.len,
                   a->default_text.p);
    *ret = (struct attr){.kind = a->kind};
    switch (a->kind) {
    case ATTR_INT:
    case ATTR_FLOAT:
        return parse_number(word, ret);
    case ATTR_BOOL:
        ret->i = strcmp(word, "true") == 0;
        return ret->i || strcmp(word, "false") == 0 ? 0 : -1;
    case ATTR_TYPE:
        ret->i = dtype_from_name(word);
        return ret->i != DT_INVALID ? 0 : -1;
    case ATTR_SHAPE:
        ret->shape = SHAPE_UNKNOWN;
        return strcmp(word, "unknown") == 0 ? 0 : -1;
    case ATTR_STRING:
        ret->s = a->default_text.p;
        ret->s_len = a->default_text.len;
        return 0;
    case ATTR_LIST_INT:
        if (strcmp(word, "[1 1 1 1]") == 0 || strcmp(word, "[1 1 1 1 1]") == 0) {
            static const int64_t ones[] = {1, 1, 1, 1, 1};

            ret->list_i = ones;
            ret->n = strlen(word) / 2;
            return 0;
        }
        return strcmp(word, "[]") == 0 ? 0 : -1;
    case ATTR_LIST_TYPE:
    case ATTR_LIST_FLOAT:
    case ATTR_LIST_SHAPE:
    case ATTR_LIST_STRING:
        return strcmp(word, "[]") == 0 ? 0 : -1;
    default:
        return -1;
    }
}

int signature_type_allowed(const struct signature_attr *a, enum dtype dtype)
{
    if (span_is(a->kind_name, "float_type"))
        return dtype_is_floating(dtype);
    if (span_is(a->kind_name, "sum_type") && dtype == DT_VARIANT)
        return 1;
    if (span_is(a->kind_name, "number_type") || span_is(a->kind_name, "sum_type"))
        return dtype_is_floating(dtype) || dtype_is_integer(dtype);
    if (span_is(a->kind_name, "index_type"))
        return dtype == DT_INT32 || dtype == DT_INT64;
    return 1;
}
