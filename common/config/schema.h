/* schema.h - tables that describe the maps of the configuration: one row per key.
 *
 * A row has a value's place in a struct, its allowed values, its default and a line of
 * documentation. Reading, defaults, writing, comparing and the printed list of keys all use
 * the same tables.
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
    FIELD_F64_OR_NONE, /* none: 0 */
    FIELD_SCHEDULE, /* struct schedule: 0.1, or 1 to 0.05 over 50000; written without comma */
    FIELD_BOOL,     /* int */
    FIELD_NAME,     /* const char *: [A-Za-z0-9_.-], not beginning with . or - */
    FIELD_TEXT,     /* const char *: 1 to 4095 bytes; NULL: not given */
    FIELD_NAMES,   /* const char *: a name, or a list of names as "a b c", at most 4095
                       bytes in all; NULL: not given */
    FIELD_ENUM,    /* an enum, or int */
    FIELD_BYTES,   /* int64_t: 512M, 1000B, none: 0 */
    FIELD_SECONDS, /* double: 100ms, 30s, 5m, 1h */
    FIELD_MODE,    /* int64_t: permissions in octal, 0700 at least: 0750 */
    FIELD_SIZES,   /* struct layer_sizes */
    FIELD_CONVS,   /* struct conv_layers: [[filters, kernel, stride], ...] */
    FIELD_MAP,     /* `schema`, at this offset */
    FIELD_OPTIONAL_MAP, /* the same; the int at has_offset says whether it was given */
    FIELD_TREE,         /* const struct yaml_node *: a map of any form; NULL if not given,
                           but never an empty map if there is a default */
    FIELD_WORDS,        /* const struct yaml_node *: a non-empty list of texts; or NULL */
    FIELD_RAW,          /* read by the table's owner, not by schema_read */
};

/* What a value is in the struct. */
enum field_storage {
    STORED_CHOICE,   /* int */
    STORED_WHOLE,    /* int64_t, or uint64_t */
    STORED_REAL,     /* double */
    STORED_SCHEDULE, /* struct schedule; the kinds up to here have no pointers */
    STORED_TEXT,     /* const char * */
    STORED_TREE,     /* const struct yaml_node * */
    STORED_SIZES,
    STORED_CONVS,
    STORED_MAP,
    STORED_NOTHING, /* FIELD_RAW */
};

enum field_flags {
    FIELD_ABOVE_MIN = 1, /* the minimum itself is too small */
    FIELD_SKIP_ZERO = 2, /* 0 means not given and is not written */
    FIELD_MEANING = 4,   /* of environments: changing the value changes the meaning of
                            observations or actions, though not their form */
    FIELD_VARIABLES = 8, /* changing the value may change a network's variables */
    FIELD_ENDS_AT_MIN =
        16, /* FIELD_SCHEDULE, with FIELD_ABOVE_MIN: `to` may be the minimum */
    FIELD_NONE_IS_ZERO = 32,  /* FIELD_I64, FIELD_SECONDS: may be given as none */
    FIELD_LISTED = 64,        /* FIELD_OPTIONAL_MAP: schema_print lists its keys, too */
    FIELD_INHERITS = 1 << 22, /* FIELD_OPTIONAL_MAP: what is not given is "unset" */
    /* What a setting of an algorithm means to the supervisor (algorithms.h): */
    FIELD_OWN_ROWS = 1 << 7,  /* FIELD_BOOL: each agent draws rows of its own */
    FIELD_SYMMETRY = 1 << 8,  /* FIELD_ENUM: but for the first choice, the agent sees rows
                                 under symmetries of the environment */
    FIELD_UNITS = 1 << 9,     /* units of a layer: they count in estimates of memory */
    FIELD_BOX_ONLY = 1 << 10, /* FIELD_ENUM: all but the first choice need continuous
                                 actions */
    FIELD_REPEATS = 1 << 11,  /* how often stages are repeated: one value for agents that
                                 share parameters and learn together */
    FIELD_PARTS = 1 << 12,    /* parts that the rows of an update are cut into */
    FIELD_CENTRAL = 1 << 13,  /* the central process, one for all teams, uses it */
    FIELD_TARGETS = 1 << 14,  /* the central process computes targets with it */
    FIELD_CHECKPOINT = 1 << 15, /* FIELD_TEXT: the checkpoint that brings the graph */
    FIELD_CHECKPOINT_AGENT = 1 << 16, /* FIELD_NAME: whose of that run */
    FIELD_FOREIGN = 1 << 17,  /* FIELD_TEXT: given if that graph is not one of brood's */
    FIELD_OUTPUT = 1 << 18,   /* of the run: has no effect on any round */
    FIELD_PROGRAM = 1 << 19,  /* of an agent: only one that is a program has it */
    FIELD_EXTERNAL = 1 << 20, /* of `env`: only an external environment has it ... */
    FIELD_NATIVE = 1 << 21,   /* ... or only one that is built in */
};
/* Names of the flags that a description may give a setting, by bit; NULL: other flags. */
extern const char *const field_flag_names[18];

/* What a change of the value needs in a live run. */
enum field_change {
    CHANGE_RESTART, /* a new run */
    CHANGE_LIVE,    /* nothing: the supervisor applies it from the next round on */
    CHANGE_SETTING, /* nothing: a number that the agent applies (agent/algo/live.h) */
    CHANGE_RESPAWN, /* a new process of the agent, which keeps its variables */
};

/* Real numbers and enums without a default start as "unset"; their owner fills them in. */
#define FIELD_UNSET_ENUM (-1)
int field_is_unset(double v);

struct schema;
struct field;

/* For the rows of a table. */
#define SCHEMA_TABLE(rows)      .fields = (rows), .n = sizeof(rows) / sizeof((rows)[0])
#define SCHEMA_AT(type, member) .offset = offsetof(type, member)
#define SCHEMA_FROM(lo)         .min = (lo), .max = HUGE_VAL
#define SCHEMA_WITHIN(lo, hi)   .min = (lo), .max = (hi)
#define SCHEMA_ABOVE(lo)        .flags = FIELD_ABOVE_MIN, .min = (lo), .max = HUGE_VAL
#define SCHEMA_NAMES(...)                                                                \
    .names = (const char *const[])                                                       \
    {                                                                                    \
        __VA_ARGS__, NULL                                                                \
    }

struct field {
    const char *key;
    enum field_type type;
    unsigned flags;
    size_t offset;               /* from the struct that the table is of */
    size_t has_offset;           /* FIELD_OPTIONAL_MAP */
    double min, max;             /* of numbers, inclusive */
    const char *const *names;    /* FIELD_ENUM: by value, NULL-terminated */
    const struct schema *schema; /* of a map; or NULL, and: */
    /* A map whose keys depend on the section at the root of the tables (its keys: those that
     * it can have in any section, if that is NULL). */
    const struct schema *(*schema_of)(const void *root);
    enum field_change change;
    const char *default_text; /* YAML; NULL: 0, NULL or unset */
    const char *doc;          /* one line */
};

struct schema {
    const struct field *fields;
    size_t n;
    size_t bytes; /* size of the struct, for code that allocates one for a table */
    /* Whether the field is used, given the section's other values; unused fields are not
     * written. NULL: all fields are used. */
    int (*applies)(const void *root, const void *section, const struct field *field);
};

/* The table of a map's keys, in a section of that root; NULL: the field is no map. */
static inline const struct schema *schema_below(const struct field *f, const void *root)
{
    return f->schema_of != NULL ? f->schema_of(root) : f->schema;
}

/* In what follows, `root` is the struct of the outermost table and `base` (or `section`) the
 * part of it that the table s describes; where only base is given, it is the root. */

/* Fills the struct with the defaults. */
void schema_defaults(const struct schema *s, void *base, struct arena *arena);

/* Stores the map's values in the struct and leaves all others unchanged (all of them if
 * the map is null). path: of the map, for messages. */
int schema_read(const struct schema *s, const struct yaml_node *map, const char *path,
                void *base, struct arena *arena, struct err *err);

/* The field of that key, or NULL. */
const struct field *schema_find(const struct schema *s, const char *key);

/* Whether the text is a valid name of an agent or a run: 1 to 63 bytes of [A-Za-z0-9_.-],
 * not starting with . or - (names become folders and arguments). */
int schema_is_name(const char *text);
#define SCHEMA_NAME_EXPECTED                                                             \
    "a name of at most 63 of A-Z a-z 0-9 _ . -, with a letter, digit or _ first"

/* Whether that name stands for something else in a run: a process ("supervisor", "central",
 * "hooks", "env_0", "eval_env_0"), or a file of its checkpoints ("run.state"). */
int schema_is_reserved(const char *name);

/* "found 'x', expected one of a, b; did you mean 'a'?" */
int schema_fail_choice(const struct yaml_node *at, const char *path, const char *found,
                       const char *const *choices, size_t n, struct err *err);

/* Writes the section as YAML, indented by `indent` spaces; if `but` is not NULL, only values
 * that differ from it. Returns whether anything was written. */
int schema_write(const struct schema *s, const void *base, const void *but, int indent,
                 FILE *f);

/* schema_write under a key; an empty map is written as "{}" or, if `but` is given, left out. */
int schema_write_map(const char *key, const struct schema *s, const void *base,
                     const void *but, int indent, FILE *f);

/* The field of another table that has the key and form of a field of s, so that values can be
 * copied between them; NULL: there is none. */
const struct field *schema_counterpart(const struct schema *s, const struct field *field,
                                       const struct schema *other);

/* Whether the field is used in this section and has a value. */
int schema_is_given(const struct schema *s, const void *root, const void *base,
                    const struct field *field);

/* Calls fn for every value that differs between the sections `was` and `is`. text: the new
 * value as it is written, "" if it was removed. A map that was added or removed counts as
 * one value. */
struct schema_difference {
    const struct field *field;
    const char *path; /* path and text are valid during the call */
    const char *text;
    const void *was, *value; /* the old and the new value; NULL: absent */
};
typedef void (*schema_difference_fn)(void *ctx, const struct schema_difference *d);
void schema_compare(const struct schema *s, const char *path, const void *was,
                    const void *is, schema_difference_fn fn, void *ctx);

/* Assigns the value of `is` to every value of `section` that equals the one of `was`. */
void schema_follow(const struct schema *s, const void *was, const void *is,
                   void *section);

/* Finds the value of a path in a section. ERR_NOT_FOUND: there is no such key. */
struct schema_place {
    const struct schema *schema;
    const struct field *field;
    void *section; /* the struct that holds the field, described by `schema` */
    void *value;
    const char *rest; /* the rest of the path, within a list or tree; or "" */
};
int schema_locate(const struct schema *s, const char *path, void *base,
                  struct schema_place *ret);

/* Copies the value at that path of a section, or all of them for "", from `from`, a section of the
 * same table. Values that are not given there, and all if `from` is NULL, get their default or
 * become "unset". A path into a list or tree: nothing is copied. */
void schema_reset(const struct schema *s, const char *path, void *base, void *from,
                  struct arena *arena);

/* ---- single values: of fields that are no maps ---- */

enum field_storage schema_storage(const struct field *f);
/* Bytes of a value; of a number at most those of a struct schedule. */
size_t schema_value_size(enum field_type type);
static inline int schema_is_text(const struct field *f)
{
    return schema_storage(f) == STORED_TEXT;
}
/* Whether it is a number, flag, choice or schedule. */
static inline int schema_is_number(const struct field *f)
{
    return schema_storage(f) <= STORED_SCHEDULE;
}
/* Whether it may be given as `none`, which is 0. */
int schema_may_be_none(const struct field *f);

/* A number as a double, a choice by its index, a schedule's first value; other values: 0. Whole
 * numbers are at most 2^53, so this is exact. */
double schema_number(const struct field *f, const void *value);

/* Stores the default or, without one, 0 or "unset". */
void schema_default(const struct field *field, void *ret, struct arena *arena);
/* Stores the value of a node. path: of the node, for messages. arena: for texts and trees. */
int schema_read_node(const struct field *field, const struct yaml_node *node,
                     const char *path, void *ret, struct arena *arena, struct err *err);
/* Stores the value of a text that is known to fit. */
void schema_put_text(const struct field *field, const char *text, void *ret,
                     struct arena *arena);
/* Parses the text of a number. It may be empty for a field with FIELD_SKIP_ZERO. */
int schema_read_text(const struct field *field, const char *text, const char *place,
                     void *ret, struct err *err);

/* Copies all names, texts and trees of the section into the arena. */
void schema_copy_texts(const struct schema *s, void *base, struct arena *arena);

/* schema_text_of: a value as YAML. schema_bounds_text: the allowed values, such as "1 to 9" or
 * "own or all"; "" if there is no such short form. free() the results. */
char *schema_text_of(const struct field *field, const void *value);
char *schema_bounds_text(const struct field *field);

/* Prints what a key means, and its choices: "kind of the action spaces (discrete or ...)". */
void schema_print_doc(const struct field *field, FILE *f);
/* Prints a line of a configuration, without a newline at its end; behind it, from that column
 * on, what the key means. field: NULL, or one without a meaning: the line alone. */
void schema_print_commented(const char *line, const struct field *field, int column,
                            FILE *f);
/* Prints one line per key: path, default, meaning. */
void schema_print(const struct schema *s, const char *path, FILE *f);

/* For messages: "a, b or c"; "a, b, ..." if it would be longer. */
void schema_join_choices(char *ret, size_t size, const char *const *choices, size_t n);

#endif
