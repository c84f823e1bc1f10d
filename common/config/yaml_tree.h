/* yaml_tree.h - a YAML document as a tree in which each value has its file and line.
 *
 * Bounds   1 MiB of text, 32 levels, 1000 anchors, 100,000 values, of which aliases count as
 *          often as they are used. Tags, and duplicate keys in a map, are refused.
 * Aliases  *a is a copy of the value that the last &a before it marks; its lines are those
 *          of the anchor. A key << adds the entries of a map, or of each map of a list,
 *          whose keys are neither in the map itself nor in an earlier map of the list.
 * Errors   ERR_CONFIG or ERR_LIMIT, one line "place:line: path: what"; the parts are also
 *          stored in the fields of struct err.
 * Owns     nodes and strings live in the caller's arena.
 */
#ifndef COMMON_CONFIG_YAML_TREE_H
#define COMMON_CONFIG_YAML_TREE_H

#include "common/err/err.h"
#include "common/mem/arena.h"

#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>

#define YAML_MAX_BYTES   (1u << 20)
#define YAML_MAX_DEPTH   32
#define YAML_MAX_VALUES  100000
#define YAML_MAX_ANCHORS 1000
#define YAML_MAX_MERGED  20 /* maps in the list of a key << */

enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP };

struct yaml_node {
    enum yaml_kind kind;
    const char *place; /* file name; for values of yaml_tree_set: "--set KEY=VALUE" */
    int line;          /* from 1; 0: the place is not a file */
    const char *key;   /* in a map; otherwise NULL */
    const char *text;  /* scalars */
    int quoted;        /* a scalar in quotes: never null; a text where any kind fits */
    size_t n;          /* lists, maps */
    struct yaml_node **child;
    struct yaml_node *next; /* private: used while the parent is being read */
};

/* Parses a document. `place` is borrowed, not copied. Lines count from 1; if !numbered, all
 * are 0. */
int yaml_tree_parse(struct yaml_node **ret, struct arena *arena, const char *text,
                    size_t len, const char *place, int numbered, struct err *err);
/* Parses one value from a command line or a table. A word or number of [A-Za-z0-9_.+-/]
 * becomes a scalar, an empty text becomes null; other texts (lists, maps, quoted texts) are
 * parsed as YAML documents. */
int yaml_value_parse(struct yaml_node **ret, struct arena *arena, const char *text,
                     const char *place, struct err *err);

/* Whether the value is this word without quotes, in one of the spellings that YAML's core
 * schema has for it: "true", "True", "TRUE". */
int yaml_is_word(const struct yaml_node *n, const char *word, const char *title,
                 const char *upper);
/* Whether the value is null: nothing after the colon, "~", "null", "Null" or "NULL". */
int yaml_is_null(const struct yaml_node *n);
/* The child with that key; NULL if there is none, or map is NULL or not a map. */
struct yaml_node *yaml_find(const struct yaml_node *map, const char *key);
/* Adds a child at the end of a list or, with its key, of a map. */
void yaml_add(struct yaml_node *parent, struct yaml_node *child, struct arena *arena);
/* A new node like this one, with another key. It has the same children. */
struct yaml_node *yaml_as(const struct yaml_node *n, const char *key,
                          struct arena *arena);
/* Removes a child from its list or map. */
void yaml_remove(struct yaml_node *parent, const struct yaml_node *child);
/* Finds a value by its dotted path, "settings.policy"; "" is the map itself. */
const struct yaml_node *yaml_find_path(const struct yaml_node *map, const char *path);

/* Applies "KEY.PATH=VALUE" to the tree. The value is parsed as YAML; missing maps on the
 * path are created; an empty value or "~" removes the key; an element of a list is named by
 * its index. An existing key that contains dots is found, too. option: printed before the
 * assignment in messages, "--set " or "". */
int yaml_tree_set(struct yaml_node *root, struct arena *arena, const char *option,
                  const char *assignment, struct err *err);

/* Merges two trees: maps key by key, `under`'s keys first. Any other value of `over`
 * replaces the one in `under`; null removes the key. Either may be NULL. The maps of the
 * result are new, lists and scalars are shared. */
struct yaml_node *yaml_merge(struct arena *arena, struct yaml_node *under,
                             struct yaml_node *over);
/* Makes a deep copy in another arena. */
struct yaml_node *yaml_tree_copy(const struct yaml_node *n, struct arena *arena);
/* Whether kinds, keys and texts are equal and in the same order; places are not compared.
 * NULL equals only NULL. */
int yaml_tree_equal(const struct yaml_node *a, const struct yaml_node *b);
/* Writes the tree on one line in flow style, {agents: 3, table: [1, 2]}, such that parsing
 * it gives an equal tree. */
void yaml_tree_write(const struct yaml_node *n, FILE *f);
/* That line, in the arena. */
const char *yaml_tree_text(const struct yaml_node *n, struct arena *arena);
/* Writes a text, in quotes if it would otherwise be parsed as something else. */
void yaml_text_write(const char *text, FILE *f);

/* Sets "place:line: path: ..." and returns ERR_CONFIG. An empty path is left out. */
int yaml_fail(const struct yaml_node *at, const char *path, struct err *err,
              const char *fmt, ...) __attribute__((format(printf, 4, 5)));
int yaml_vfail(const struct yaml_node *at, const char *path, struct err *err,
               const char *fmt, va_list ap) __attribute__((format(printf, 4, 0)));
/* Of two values that do not fit each other, the one to blame: that of the command line, or else of
 * the file rather than of one that it extends, which fits in its other uses; otherwise a. Either may
 * be NULL: not given. */
const struct yaml_node *yaml_newer(const struct yaml_node *root,
                                   const struct yaml_node *a, const struct yaml_node *b);
/* yaml_fail with the message of *why, and its code if it is a failure of the machine
 * (err_is_failure), such as a file that cannot be read. */
int yaml_fail_since(const struct yaml_node *at, const char *path, struct err *err,
                    const struct err *why);

/* The number of edits (insert, delete, replace, swap of neighbours) that turn a into b, which
 * are at most 255 bytes long. */
size_t yaml_edits(const char *a, const char *b);
/* Returns the candidate with the fewest edits from `word`, never `word` itself, or NULL if
 * none is similar. candidates: n names, of which some may be NULL. */
const char *yaml_nearest(const char *word, const char *const *candidates, size_t n);
/* Appends "did you mean 'x'?" to the error, if there is such a candidate; returns its
 * code. */
int yaml_add_nearest(struct err *err, const char *word, const char *const *candidates,
                     size_t n);

#endif
