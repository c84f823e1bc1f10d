/* members.h - describes the members of a struct in a table, and encodes them by it: as
 * text for the journal, msgpack for the control socket, JSON for programs.
 *
 *     static const struct member point[] = {MEMBER(struct point, U64, x), ...};
 *
 * A value may be absent; each type has a value that means so. Absent is nil in msgpack and
 * null in JSON. Reading is lenient: a value that is missing, of another type or out of
 * range becomes absent.
 */
#ifndef SUPERVISOR_EVENTS_MEMBERS_H
#define SUPERVISOR_EVENTS_MEMBERS_H

#include "common/mem/arena.h"
#include "common/msg/msg.h"
#include "supervisor/metrics/json.h"

#include <stddef.h>
#include <stdint.h>

enum member_type {
    MEMBER_TEXT,    /* const char *; absent: NULL */
    MEMBER_CHANGES, /* const char *, "KEY=VALUE,KEY=VALUE" or "KEY@STEP,KEY"; absent: NULL.
                       In msgpack and JSON a map {KEY: VALUE} or {KEY: STEP, KEY: nil} */
    MEMBER_U64,     /* uint64_t; absent: MEMBER_NO_U64 */
    MEMBER_I64,     /* int64_t; never absent, -1 if it cannot be read */
    MEMBER_INT,     /* int, pid_t; never absent, 0 if it cannot be read */
    MEMBER_CODE,    /* int, an exit code; absent: below 0 */
    MEMBER_SIGNAL,  /* int; absent: 0. A number, but "SIGKILL" in text */
    MEMBER_F64,     /* double; absent: NaN */
    MEMBER_SECONDS, /* as MEMBER_F64, but with three decimals in text */
    MEMBER_BOOL,    /* int: 0, 1 */
    MEMBER_LIST,    /* a pointer to structs, and their number in a size_t */
};

#define MEMBER_NO_U64 UINT64_MAX

struct member {
    const char *key;
    enum member_type type;
    size_t offset;
    /* MEMBER_LIST: the offset of the number of elements, and the table of an element. */
    size_t count_offset, element_bytes;
    const struct member *element;
    size_t n_element_members;
};

#define MEMBER(type_, kind, member) MEMBER_AS(type_, kind, #member, member)
#define MEMBER_AS(type_, kind, key_, member)                                             \
    {                                                                                    \
        key_, MEMBER_##kind, offsetof(type_, member)                                     \
    }
/* table: an array of struct member that describes one element. */
#define MEMBER_LIST_OF(type_, member, count, element_type, table)                        \
    {                                                                                    \
#member, MEMBER_LIST, offsetof(type_, member), offsetof(type_, count),           \
            sizeof(element_type), table, sizeof(table) / sizeof((table)[0])              \
    }

/* A member's value. */
struct value {
    enum member_type type; /* of the member; U64, I64, INT and CODE are `whole` */
    int is_absent;
    union {
        const char *text;
        int64_t whole; /* also SIGNAL and BOOL; of U64 the bits, to be cast to uint64_t */
        double real;
        struct {
            const struct member *of;
            const char *begin;
            size_t n;
        } list;
    };
};

struct value member_get(const struct member *m, const void *base);
void value_pack(struct msg_out *o, const struct value *v);
void value_json(struct json *j, const struct value *v);
/* Writes a MEMBER_CHANGES as an object; its numbers, true and false become JSON's. */
void changes_json(struct json *j, const char *text);
/* Returns the value's own text, or one written into buf. Not for lists. */
#define VALUE_TEXT_BYTES JSON_NUMBER_MAX
const char *value_text(const struct value *v, char buf[VALUE_TEXT_BYTES]);

/* Sets the member from its value in a map; texts and lists are copied into the arena. */
void member_unpack(const struct member *m, void *base, const msgpack_object *map,
                   struct arena *arena);
/* Sets the member from its text (NULL: absent), which MEMBER_TEXT borrows. No lists. */
void member_parse(const struct member *m, void *base, const char *text);
/* Copies what a text or a list points to into the arena. */
void member_own(const struct member *m, void *base, struct arena *arena);

#endif
