/* lists_internal.h - what lists and their elements are, shared by lists_memory.c and lists.c. */
#ifndef AGENT_FLOW_LISTS_INTERNAL_H
#define AGENT_FLOW_LISTS_INTERNAL_H

#include "agent/flow/lists.h"

struct item {
    int refs;
    struct tensor value;
};

/* An array that lists share. A list sees its first list.n items; a list with all of them may
 * append another. */
struct items {
    int refs;
    int64_t n, cap;
    struct item **at; /* NULL: never set */
};

struct list {
    enum dtype dtype;
    struct shape shape; /* of each element; unknown sizes are -1 */
    int64_t n, max;     /* elements; -1: any number */
    struct items *items;
    int is_optional;
    int is_found; /* by lists_sweep */
};

struct list_call {
    struct lists *l;
    const struct operation *op;
    const struct contained *in;
    struct contained *ret;
    struct list *x; /* the list in input 0 */
    struct err *err;
};

#define lists_fail(q, code, ...) contained_refuse((q)->op, (q)->err, (code), __VA_ARGS__)

/* The list that a scalar names; NULL: none. */
struct list *lists_find(const struct lists *l, const struct tensor *t);
/* Makes output i a list, which takes the items (NULL: the error is set). */
int lists_give(struct list_call *q, int i, struct list x);

/* A new item, which takes the value. NULL: the error is set and the value freed. */
struct item *lists_new_item(struct list_call *q, struct tensor value);
/* A new item with a copy of the value. */
struct item *lists_copy_item(struct list_call *q, const struct tensor *value);
/* One reference less; NULL: nothing. */
void lists_drop_item(struct lists *l, struct item *e);

/* An array of its own for n elements: the first are those of `from` (NULL: none), the others
 * are not set. NULL: the error is set. */
struct items *lists_own_items(struct list_call *q, const struct list *from, int64_t n);
/* Makes room for n items, all of which are unset from s->n on. ERR_LIMIT, ERR_NOMEM. */
int lists_grow(struct list_call *q, struct items *s, int64_t n);
/* One reference less; NULL: nothing. */
void lists_drop_items(struct lists *l, struct items *s);

#endif
