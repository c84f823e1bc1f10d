/* yaml_tree.h - a YAML document as a tree that remembers where each value stood.
 *
 * Bounds   1 MiB of text, 32 levels, 100,000 values; no aliases and no tags (a document
 *          that grows when read is refused), no key twice in one map.
 * Errors   ERR_CONFIG or ERR_LIMIT, one line "place:line: path: what", with these fields.
 * Owns     nodes and strings live in the arena given.
 */
#ifndef COMMON_CONFIG_YAML_TREE_H
#define COMMON_CONFIG_YAML_TREE_H

#include "common/err/err.h"
#include "common/mem/arena.h"

#include <stddef.h>
#include <stdio.h>

#define YAML_MAX_BYTES  (1u << 20)
#define YAML_MAX_DEPTH  32
#define YAML_MAX_VALUES 100000

enum yaml_kind { YAML_SCALAR, YAML_LIST, YAML_MAP };

struct yaml_node {
    enum yaml_kind kind;
    const char *place; /* file name, or of yaml_tree_set: "--set KEY=VALUE" */
    int line;          /* 1 is the first; 0: the place is no file */
    const char *key;   /* in a map; otherwise NULL */
    const char *text;  /* scalars */
    int quoted;        /* scalars: never a number, never empty */
    size_t n;          /* lists, maps */
    struct yaml_node **child;
    struct yaml_node *next; /* private: while the parent is being read */
};

/* `place` is kept, not copied. Lines count from 1, or are 0 throughout if !numbered. */
int yaml_tree_parse(struct yaml_node **ret, struct arena *arena, const char *text,
                    size_t len, const char *place, int numbered, struct err *err);
/* One value as it is given on a command line or in a table: a word or number of
 * [A-Za-z0-9_.+-/] becomes a scalar as it is, an empty text null; only other texts
 * (lists, maps, quoted texts) are parsed as YAML documents. */
int yaml_value_parse(struct yaml_node **ret, struct arena *arena, const char *text,
                     const char *place, struct err *err);

/* Null: nothing behind the colon, "~" or "null". */
int yaml_is_null(const struct yaml_node *n);
/* The child of that key, or NULL (also if map is NULL or no map). */
struct yaml_node *yaml_find(const struct yaml_node *map, const char *key);
/* By keys with dots between, "settings.policy"; "" is the map itself. */
const struct yaml_node *yaml_find_path(const struct yaml_node *map, const char *path);

/* Puts "KEY.PATH=VALUE" into the tree: the value is parsed as YAML, maps on the way are
 * made, an empty value or "~" takes the key out, an element of a list is named by its
 * index. A key that holds dots is found if it is there. option: what messages say before
 * it, "--set " or "". */
int yaml_tree_set(struct yaml_node *root, struct arena *arena, const char *option,
                  const char *assignment, struct err *err);

/* A copy that owes nothing to the arena n lives in. */
struct yaml_node *yaml_tree_copy(const struct yaml_node *n, struct arena *arena);
/* Same kinds, keys and texts in the same order; places do not count. NULL is only NULL.
 */
int yaml_tree_equal(const struct yaml_node *a, const struct yaml_node *b);
/* On one line, in flow style: {agents: 3, table: [1, 2]}; reads back as an equal tree. */
void yaml_tree_write(const struct yaml_node *n, FILE *f);
/* One text, in quotes where it would not read back as itself without. */
void yaml_text_write(const char *text, FILE *f);

/* Sets "place:line: path: ..." and returns the code. An empty path is left out. */
int yaml_fail(const struct yaml_node *at, const char *path, struct err *err,
              const char *fmt, ...) __attribute__((format(printf, 4, 5)));

/* The candidate (of n, names of which may be NULL) nearest to `word` by edits, or NULL if
 * none is near enough to be meant. */
const char *yaml_nearest(const char *word, const char *const *candidates, size_t n);

#endif
