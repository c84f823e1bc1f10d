/* schema_internal.h - functions shared by the files that implement schema.h. */
#ifndef COMMON_CONFIG_SCHEMA_INTERNAL_H
#define COMMON_CONFIG_SCHEMA_INTERNAL_H

#include "common/config/schema.h"

#include <stddef.h>

enum { PATH_MAX_BYTES = 200, LIST_MAX_BYTES = 480 };

/* A section of a configuration: the part `base` of the struct `root`, which the table describes;
 * base NULL: there is none. */
struct section {
    const struct schema *schema;
    const void *root, *base;
};

/* The value of a field in a section; all-zero: there is no such field, or section. */
struct member {
    const struct field *field;
    const void *value;
    int is_given;
    struct section inner; /* of a map */
};
struct member schema_member(const struct section *s, const struct field *f);
/* That of the counterpart of a field of another table. */
struct member schema_member_like(const struct section *s, const struct schema *of,
                                 const struct field *f);

/* "path.key", or "key" if path is empty. */
void schema_join_path(char ret[PATH_MAX_BYTES], const char *path, const char *key);
/* Makes the value "unset", if its type has that. */
void schema_unset(const struct field *f, void *ret);
/* Writes a value as YAML. */
void schema_write_value(const struct field *f, const void *p, FILE *out);
int schema_same_value(const struct field *f, const void *a, const void *b);
/* Whether the value counts as not given. */
int schema_is_empty(const struct field *f, const void *p);
/* Replaces what the value points to by a copy in the arena. */
void schema_own_value(const struct field *f, void *p, struct arena *arena);
size_t schema_count_names(const char *const *names); /* of a NULL-terminated list */

#endif
