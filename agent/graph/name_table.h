/* name_table.h - maps names of operations and scopes to a pointer and a count. */
#ifndef AGENT_GRAPH_NAME_TABLE_H
#define AGENT_GRAPH_NAME_TABLE_H

#include <stddef.h>
#include <stdint.h>

struct name_entry {
    const char *key; /* borrowed: must outlive the table */
    void *value;
    int count;
    uint32_t hash; /* private */
};

/* An all-zero struct is an empty table. */
struct name_table {
    struct name_entry *entries; /* open addressing; key NULL: unused */
    size_t n, cap;
};

/* Entries move when one is added, so the pointer is valid only until then. */
struct name_entry *name_table_find(const struct name_table *t, const char *key);
/* The entry of `key`. If there is none, adds an all-zero one, which keeps the pointer
 * `key`. */
struct name_entry *name_table_add(struct name_table *t, const char *key);
void name_table_done(struct name_table *t);

#endif
