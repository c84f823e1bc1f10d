/* schema.h - what a map in the configuration may hold: one table row per key.
 *
 * A table says where in a struct each value lives, what it may be, its default and what
 * it is for. Reading, defaults, writing, comparing and the printed list of keys all
 * follow the same tables.
 *
 * Errors   ERR_CONFIG: "place:line: key.path: what was found, what was expected".
 */
#ifndef COMMON_CONFIG_SCHEMA_H
#define COMMON_CONFIG_SCHEMA_H

#include "common/config/run_config.h"
#include "common/config/yaml_tree.h"
#include "common/err/err.h"
#include "common/mem/arena.h"

#include <stddef.h>
#include <stdio.h>

enum field_type {
    FIELD_I64,
    FIELD_U64,
    FIELD_F64,
    FIELD_F64_OR_NONE,  /* none: 0 */
    FIELD_BOOL,         /* int */
    FIELD_NAME,         /* const char *: [A-Za-z0-9_.-], begins with none of . - */
    FIELD_TEXT,         /* const char *: 1 to 4095 bytes; NULL: not given */
    FIELD_ENUM,         /* an enum, or int */
    FIELD_BYTES,        /* int64_t: 512M, none: 0 */
    FIELD_SECONDS,      /* double: 100ms, 30s, 5m, 1h */
    FIELD_MODE,         /* int64_t: permissions in octal, 0700 at least: 0750 */
    FIELD_SIZES,        /* struct layer_sizes */
    FIELD_MAP,          /* `schema`, at this offset */
    FIELD_OPTIONAL_MAP, /* the same; the int at has_offset says whether it was given */
    FIELD_TREE,         /* const struct yaml_node *: a map for others to read; NULL, but
                           never empty where there is a default */
    FIELD_WORDS,        /* const struct yaml_node *: a list of texts, not empty; NULL */
    FIELD_RAW,          /* read by the owner of the table */
};

enum field_flags {
    FIELD_ABOVE_MIN = 1, /* the minimum itself is too small */
    FIELD_SKIP_ZERO = 2, /* 0 means not given: not written */
    FIELD_MEANING = 4,   /* with another value, observations or actions that look the same
                            mean something else (of environments) */
    FIELD_VARIABLES = 8, /* with another value, a network may have other variables */
};

/* What it takes to change a value of a run that lives. */
enum field_change {
    CHANGE_RESTART, /* a new run */
    CHANGE_LIVE,    /* the supervisor minds it from the next round */
    CHANGE_SETTING, /* live, too: the agent's own, a number (agent/algo/live.h) */
    CHANGE_RESPAWN, /* the agent's next process can begin with it: same variables */
};

/* A real or enum without a default begins as "unset", for its owner to fill in. */
#define FIELD_UNSET_ENUM (-1)
int field_is_unset(double v);

struct schema;

/* For the rows of a table. */
#define SCHEMA_TABLE(rows)      .fields = (rows), .n = sizeof(rows) / sizeof((rows)[0])
#define SCHEMA_AT(type, member) .offset = offsetof(type, member)
#define SCHEMA_FROM(lo)         .min = (lo), .max = HUGE_VAL
#define SCHEMA_WITHIN(lo, hi)   .min = (lo), .max = (hi)

struct field {
    const char *key;
    enum field_type type;
    unsigned flags;
    size_t offset;            /* from the struct that the table is of */
    size_t has_offset;        /* FIELD_OPTIONAL_MAP */
    double min, max;          /* numbers, both allowed */
    const char *const *names; /* FIELD_ENUM: by value, NULL-terminated */
    const struct schema *schema;
    enum field_change change;
    const char *default_text; /* YAML; NULL: 0, NULL or unset */
    const char *doc;          /* one line */
};

struct schema {
    const struct field *fields;
    size_t n;
    size_t bytes; /* of the struct, where somebody who does not know it makes one */
    /* Whether the field means anything in this section of root; NULL: all always do.
     * Those that do not are not written. */
    int (*applies)(const void *root, const void *section, const struct field *field);
};

/* Fills the struct with the defaults. */
void schema_defaults(const struct schema *s, void *base, struct arena *arena);

/* Reads a map (or null: nothing) over what the struct holds; path is the map's own. */
int schema_read(const struct schema *s, const struct yaml_node *map, const char *path,
                void *base, struct arena *arena, struct err *err);

/* The field of that key, or NULL. */
const struct field *schema_find(const struct schema *s, const char *key);

/* Whether it may name an agent or a run: 1 to 63 bytes of [A-Za-z0-9_.-], neither . nor -
 * first (names become folders and arguments). */
int schema_is_name(const char *text);
#define SCHEMA_NAME_EXPECTED                                                             \
    "a name of at most 63 of A-Z a-z 0-9 _ . -, with a letter, digit or _ first"

/* "found 'x', expected one of a, b; did you mean 'a'?" */
int schema_fail_choice(const struct yaml_node *at, const char *path, const char *found,
                       const char *const *choices, size_t n, struct err *err);

/* Writes the section as YAML, indented by n spaces. Where `but` is not NULL, only what
 * differs from it; returns whether anything was written. */
int schema_write(const struct schema *s, const void *root, const void *base,
                 const void *but_root, const void *but, int indent, FILE *f);

/* The same under a key; an empty map is "{}", or nothing where `but` is given. */
int schema_write_map(const char *key, const struct schema *s, const void *root,
                     const void *base, const void *but_root, const void *but, int indent,
                     FILE *f);

/* Whether the field has a value in this section: it means something there, and is given.
 */
int schema_is_given(const struct schema *s, const void *root, const void *base,
                    const struct field *field);

/* Calls fn for every value of the section that is another one in `is` than it was; text:
 * how it is written now, "" if it is not any more. A map that came or went is one value.
 */
struct schema_difference {
    const struct field *field;
    const char *path; /* borrowed for the call, as text is */
    const char *text;
    const void *was, *value; /* NULL: there is none */
};
typedef void (*schema_difference_fn)(void *ctx, const struct schema_difference *d);
void schema_compare(const struct schema *s, const char *path, const void *was_root,
                    const void *was, const void *is_root, const void *is,
                    schema_difference_fn fn, void *ctx);

/* Every value of the section that is as in `was` becomes as in `is`. */
void schema_follow(const struct schema *s, const void *was, const void *is,
                   void *section);

/* Where in a section the value of a path is. ERR_NOT_FOUND: there is no such key. */
struct schema_place {
    const struct schema *schema;
    const struct field *field;
    void *section; /* the field's own, of `schema` */
    void *value;
    const char *rest; /* of the path, within a list or tree; "" */
};
int schema_locate(const struct schema *s, const char *path, void *base,
                  struct schema_place *ret);

/* The values of a section, or the one at a place, become what they are in `from`; what has
 * no value there, and everything if it is NULL, gets its default or becomes "unset". */
void schema_reset(const struct schema *s, void *base, const void *from_root,
                  const void *from, struct arena *arena);
void schema_reset_place(const struct schema_place *at, const void *from_root,
                        const struct schema_place *from, struct arena *arena);

/* Numbers, flags and choices: schema_value_size bytes, at most 8, without a pointer. */
int schema_is_number(const struct field *field);
/* Reads such a value from its text; an empty one where 0 means not given. */
int schema_read_text(const struct field *field, const char *text, const char *place,
                     void *ret, struct err *err);

/* All names, texts and trees of the section are copied into the arena. */
void schema_copy_texts(const struct schema *s, void *base, struct arena *arena);

/* One value of the section as YAML; what it may be: "1 to 9", "own or all"; "" if that is
 * not told in so few words. free() them. */
char *schema_value_text(const struct field *field, const void *base);
char *schema_text_of(const struct field *field, const void *value);
char *schema_bounds_text(const struct field *field);

/* One line per key: path, default, what it is for. */
void schema_print(const struct schema *s, const char *path, FILE *f);

#endif
