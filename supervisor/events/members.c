#include "supervisor/events/members.h"

#include "common/text/scan.h"
#include "supervisor/proc/signals.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- structs ---- */

struct value member_get(const struct member *m, const void *base)
{
    const char *at = (const char *)base + m->offset;
    struct value v = {.type = m->type};

    switch (m->type) {
    case MEMBER_TEXT:
    case MEMBER_CHANGES:
        memcpy(&v.text, at, sizeof(v.text));
        v.is_absent = v.text == NULL;
        break;
    case MEMBER_U64:
    case MEMBER_I64:
        memcpy(&v.whole, at, sizeof(v.whole));
        v.is_absent = m->type == MEMBER_U64 && (uint64_t)v.whole == MEMBER_NO_U64;
        break;
    case MEMBER_INT:
    case MEMBER_CODE:
    case MEMBER_SIGNAL:
    case MEMBER_BOOL:
        v.whole = *(const int *)at;
        v.is_absent = (m->type == MEMBER_CODE && v.whole < 0) ||
                      (m->type == MEMBER_SIGNAL && v.whole == 0);
        break;
    case MEMBER_F64:
    case MEMBER_SECONDS:
        v.real = *(const double *)at;
        v.is_absent = isnan(v.real);
        break;
    case MEMBER_LIST:
        v.list.of = m;
        memcpy(&v.list.begin, at, sizeof(v.list.begin));
        v.list.n = *(const size_t *)((const char *)base + m->count_offset);
        break;
    }
    return v;
}

static void set(const struct member *m, void *base, const struct value *v)
{
    char *at = (char *)base + m->offset;

    switch (m->type) {
    case MEMBER_TEXT:
    case MEMBER_CHANGES:
        memcpy(at, &v->text, sizeof(v->text));
        break;
    case MEMBER_U64:
    case MEMBER_I64:
        memcpy(at, &v->whole, sizeof(v->whole));
        break;
    case MEMBER_INT:
    case MEMBER_CODE:
    case MEMBER_SIGNAL:
    case MEMBER_BOOL:
        *(int *)at = (int)v->whole;
        break;
    case MEMBER_F64:
    case MEMBER_SECONDS:
        *(double *)at = v->real;
        break;
    case MEMBER_LIST:
        memcpy(at, &v->list.begin, sizeof(v->list.begin));
        *(size_t *)((char *)base + m->count_offset) = v->list.n;
        break;
    }
}

static int is_real(const struct member *m)
{
    return m->type == MEMBER_F64 || m->type == MEMBER_SECONDS;
}

static int is_text(enum member_type type)
{
    return type == MEMBER_TEXT || type == MEMBER_CHANGES;
}

static int is_whole(const struct member *m)
{
    return !is_text(m->type) && m->type != MEMBER_LIST && !is_real(m);
}

/* The value of a member that is absent. */
static struct value absent(const struct member *m)
{
    struct value v = {.type = m->type};

    if (m->type == MEMBER_U64 || m->type == MEMBER_I64 || m->type == MEMBER_CODE)
        v.whole = -1;
    else if (is_real(m))
        v.real = NAN;
    return v;
}

/* ---- changes ---- */

/* One change of a list such as "KEY=VALUE,KEY". value: "" if the change has none. */
struct change {
    char key[256], value[256];
    double number; /* the value as a number; NaN if it is not a finite one */
};

/* Reads the change at *text and advances *text past it. Returns 0 at the end of the
 * list. Values contain no commas. */
static int next_change(const char **text, struct change *ret)
{
    const size_t len = strcspn(*text, ","), key_len = strcspn(*text, "=@,");
    const char *value = *text + key_len + (key_len < len);
    char *end;

    (void)snprintf(ret->key, sizeof(ret->key), "%.*s", (int)key_len, *text);
    (void)snprintf(ret->value, sizeof(ret->value), "%.*s", (int)(*text + len - value),
                   value);
    ret->number = strspn(ret->value, "+-.0123456789eE") == strlen(ret->value)
                      ? strtod(ret->value, &end)
                      : (double)NAN;
    if (isfinite(ret->number) && (end == ret->value || *end != '\0'))
        ret->number = (double)NAN;
    *text += len + ((*text)[len] == ',');
    return len > 0;
}

static int is_flag(const struct change *c)
{
    return strcmp(c->value, "true") == 0 || strcmp(c->value, "false") == 0;
}

static void changes_pack(struct msg_out *o, const char *text)
{
    struct change c;
    const char *p = text;
    size_t n = 0;

    while (next_change(&p, &c))
        n++;
    msg_map(o, n);
    while (next_change(&text, &c)) {
        msg_key(o, c.key);
        if (c.value[0] == '\0')
            msg_nil(o);
        else if (is_flag(&c))
            msg_bool(o, c.value[0] == 't');
        else if (isnan(c.number))
            msg_str(o, c.value);
        else if (c.number == floor(c.number) && fabs(c.number) < 0x1p53)
            msg_i64(o, (int64_t)c.number);
        else
            msg_f64(o, c.number);
    }
}

void changes_json(struct json *j, const char *text)
{
    struct change c;

    json_object(j);
    while (next_change(&text, &c)) {
        json_key(j, c.key);
        if (c.value[0] == '\0')
            json_null(j);
        else if (is_flag(&c))
            json_bool(j, c.value[0] == 't');
        else if (isnan(c.number))
            json_str(j, c.value);
        else
            json_f64(j, c.number);
    }
    json_close(j);
}

/* ---- writing ---- */

void value_pack(struct msg_out *o, const struct value *v)
{
    const struct member *m = v->list.of;

    if (v->is_absent) {
        msg_nil(o);
    } else if (v->type == MEMBER_TEXT) {
        msg_str(o, v->text);
    } else if (v->type == MEMBER_CHANGES) {
        changes_pack(o, v->text);
    } else if (v->type == MEMBER_F64 || v->type == MEMBER_SECONDS) {
        msg_f64(o, v->real);
    } else if (v->type == MEMBER_BOOL) {
        msg_bool(o, (int)v->whole);
    } else if (v->type == MEMBER_U64) {
        msg_u64(o, (uint64_t)v->whole);
    } else if (v->type != MEMBER_LIST) {
        msg_i64(o, v->whole);
    } else {
        msg_array(o, v->list.n);
        for (size_t i = 0; i < v->list.n; i++) {
            msg_map(o, m->n_element_members);
            for (size_t k = 0; k < m->n_element_members; k++) {
                const struct value e =
                    member_get(&m->element[k], v->list.begin + i * m->element_bytes);

                msg_key(o, m->element[k].key);
                value_pack(o, &e);
            }
        }
    }
}

void value_json(struct json *j, const struct value *v)
{
    const struct member *m = v->list.of;

    if (v->is_absent) {
        json_null(j);
    } else if (v->type == MEMBER_TEXT) {
        json_str(j, v->text);
    } else if (v->type == MEMBER_CHANGES) {
        changes_json(j, v->text);
    } else if (v->type == MEMBER_F64 || v->type == MEMBER_SECONDS) {
        json_f64(j, v->real);
    } else if (v->type == MEMBER_BOOL) {
        json_bool(j, (int)v->whole);
    } else if (v->type == MEMBER_U64) {
        json_u64(j, (uint64_t)v->whole);
    } else if (v->type != MEMBER_LIST) {
        json_i64(j, v->whole);
    } else {
        json_array(j);
        for (size_t i = 0; i < v->list.n; i++) {
            json_object(j);
            for (size_t k = 0; k < m->n_element_members; k++) {
                const struct value e =
                    member_get(&m->element[k], v->list.begin + i * m->element_bytes);

                json_key(j, m->element[k].key);
                value_json(j, &e);
            }
            json_close(j);
        }
        json_close(j);
    }
}

const char *value_text(const struct value *v, char buf[VALUE_TEXT_BYTES])
{
    if (is_text(v->type))
        return v->text;
    if (v->type == MEMBER_SIGNAL)
        return signal_name((int)v->whole, buf);
    if (v->type == MEMBER_F64)
        return json_format_f64(v->real, buf);
    if (v->type == MEMBER_SECONDS)
        (void)snprintf(buf, VALUE_TEXT_BYTES, "%.3f", v->real);
    else if (v->type == MEMBER_U64)
        (void)snprintf(buf, VALUE_TEXT_BYTES, "%" PRIu64, (uint64_t)v->whole);
    else
        (void)snprintf(buf, VALUE_TEXT_BYTES, "%" PRId64, v->whole);
    return buf;
}

/* ---- reading ---- */

/* Whether an int64_t has room in a member other than a MEMBER_U64. */
static int fits(const struct member *m, int64_t whole)
{
    return m->type == MEMBER_I64 || (whole >= INT_MIN && whole <= INT_MAX);
}

void member_unpack(const struct member *m, void *base, const msgpack_object *map,
                   struct arena *arena)
{
    const msgpack_object *o =
        map->type == MSGPACK_OBJECT_MAP ? msg_get(map, m->key) : NULL;
    const int type = o != NULL ? (int)o->type : MSGPACK_OBJECT_NIL;
    const int is_integer =
        (type == MSGPACK_OBJECT_POSITIVE_INTEGER && o->via.u64 <= INT64_MAX) ||
        type == MSGPACK_OBJECT_NEGATIVE_INTEGER;
    struct value v = absent(m);

    if (type == MSGPACK_OBJECT_STR && m->type == MEMBER_TEXT) {
        v.text = arena_strndup(arena, o->via.str.ptr, o->via.str.size);
    } else if (type == MSGPACK_OBJECT_POSITIVE_INTEGER && m->type == MEMBER_U64) {
        v.whole = (int64_t)o->via.u64;
    } else if (is_integer && m->type != MEMBER_U64 && is_whole(m) &&
               fits(m, o->via.i64)) {
        v.whole = o->via.i64;
    } else if (is_integer && is_real(m)) {
        v.real = (double)o->via.i64;
    } else if ((type == MSGPACK_OBJECT_FLOAT32 || type == MSGPACK_OBJECT_FLOAT64) &&
               is_real(m)) {
        v.real = o->via.f64;
    } else if (type == MSGPACK_OBJECT_BOOLEAN && m->type == MEMBER_BOOL) {
        v.whole = o->via.boolean;
    } else if (type == MSGPACK_OBJECT_ARRAY && m->type == MEMBER_LIST) {
        const size_t n = o->via.array.size;
        char *begin = arena_alloc(arena, n * m->element_bytes + 1);

        v.list.begin = begin;
        v.list.n = n;
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < m->n_element_members; k++)
                member_unpack(&m->element[k], begin + i * m->element_bytes,
                              &o->via.array.ptr[i], arena);
    }
    set(m, base, &v);
}

static int signal_number(const char *name)
{
    char known[SIGNAL_NAME_BYTES];

    for (int i = 1; i < NSIG; i++)
        if (strcmp(signal_name(i, known), name) == 0)
            return i;
    return 0;
}

void member_parse(const struct member *m, void *base, const char *text)
{
    struct value v = absent(m);
    char *end = NULL;
    long long whole;
    uint64_t large;
    double real;

    errno = 0;
    if (is_text(m->type)) {
        v.text = text;
    } else if (text == NULL || *text == '\0') {
        ; /* absent */
    } else if (m->type == MEMBER_SIGNAL) {
        v.whole = signal_number(text);
    } else if (is_real(m)) {
        real = strtod(text, &end);
        if (*end == '\0')
            v.real = real;
    } else if (m->type == MEMBER_U64) {
        if (text_u64(text, &large))
            v.whole = (int64_t)large;
    } else if (is_whole(m)) {
        whole = strtoll(text, &end, 10);
        if (*end == '\0' && errno == 0 && fits(m, whole))
            v.whole = whole;
    }
    set(m, base, &v);
}

void member_own(const struct member *m, void *base, struct arena *arena)
{
    struct value v = member_get(m, base);
    char *begin;

    if (is_text(m->type)) {
        v.text = arena_strdup(arena, v.text);
    } else if (m->type == MEMBER_LIST && v.list.n > 0) {
        v.list.begin = begin =
            arena_memdup(arena, v.list.begin, v.list.n * m->element_bytes);
        for (size_t i = 0; i < v.list.n; i++)
            for (size_t k = 0; k < m->n_element_members; k++)
                member_own(&m->element[k], begin + i * m->element_bytes, arena);
    }
    set(m, base, &v);
}
