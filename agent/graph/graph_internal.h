/* graph_internal.h - the structs of a graph and its operations; private to
 * agent/graph. */
#ifndef AGENT_GRAPH_GRAPH_INTERNAL_H
#define AGENT_GRAPH_GRAPH_INTERNAL_H

#include "agent/graph/graph.h"
#include "agent/graph/name_table.h"
#include "agent/graph/op_def.h"
#include "agent/graph/signature.h"
#include "common/mem/arena.h"

struct output_info {
    enum dtype dtype;
    int is_ref;
    struct shape shape;
};

struct operation {
    struct graph *graph;
    const struct op_def *def;
    const struct signature *sig;
    const char *name;
    const char *device;
    int id;
    int n_inputs;
    struct output *inputs;
    int n_control, cap_control;
    struct operation **control;
    int n_outputs;
    struct output_info *outputs;
    int n_attrs;
    struct attr *attrs;
    const char *reason; /* operation_explain; NULL: none */
    int lifted;         /* built while control dependencies were suspended */
};

/* The operation's colocation groups, "loc:@name"; NULL: none. An imported graph may have
 * an attribute "_class" of another kind, which is ignored. */
const struct attr *operation_class(const struct operation *op);

/* A growing array of pointers; an all-zero struct is empty. */
struct ptr_list {
    void **items;
    size_t n, cap;
};
void ptr_list_push(struct ptr_list *l, const void *item);
void *ptr_list_pop(struct ptr_list *l);
void *ptr_list_last(const struct ptr_list *l); /* NULL if empty */

/* A row of the table that the graph uses. */
struct known_op {
    const struct op_def *def;
    const struct signature *sig;
};

/* An operation under construction. */
struct op_builder {
    struct graph *graph;
    const char *type;
    const char *name;         /* NULL: the name is invalid */
    const struct op_def *def; /* NULL: unknown type */
    const struct signature *sig;
    int open;
    int imported; /* ignores the current scopes */
    struct output *inputs;
    int n_inputs, cap_inputs;
    struct attr *attrs;
    int n_attrs, cap_attrs;
    struct ptr_list control; /* struct operation */
    const char *device;
    struct ptr_list colocate; /* "loc:@name" */
};

struct variable_scope {
    const char *name; /* "" or "a/b" */
    enum reuse reuse;
};

struct control_scope {
    struct operation **ops;
    size_t n; /* 0: clears the dependencies of the enclosing scopes, too */
    int first_id;
};

struct colocation { /* n 0: none */
    size_t n;
    const struct tensor_string *groups; /* "loc:@name" */
};

struct device_scope {
    const char *device;
    int n_ps, next_ps; /* of a replica_device_setter; 0: none */
};

struct collection {
    const char *key;
    struct collection_item *items;
    size_t n, cap;
};

struct graph {
    const struct op_table *types;
    struct arena arena;
    struct err error;
    struct ptr_list builders; /* struct op_builder, reused */
    struct ptr_list ops;      /* struct operation by id */
    struct name_table op_by_name;
    struct name_table known_ops;    /* struct known_op by type */
    struct name_table names_in_use; /* lower-cased; count: next suffix */
    struct ptr_list name_scopes;    /* "" or "a/b/" */
    struct ptr_list variable_scopes;
    struct name_table scope_counts; /* variable scopes opened, by full name */
    struct ptr_list control_scopes;
    struct ptr_list devices;     /* struct device_scope */
    struct ptr_list colocations; /* struct colocation */
    struct ptr_list collections; /* struct collection, in order of creation */
    struct name_table collection_by_key;
    struct ptr_list parts;               /* struct graph_part_bytes */
    struct ptr_list variables;           /* struct variable, in order of creation */
    struct name_table shared_variables;  /* those of get_variable */
    const char *draws_prefix, *draws_as; /* of graph_alias_draws; NULL: none */
};

struct variable_scope *current_variable_scope(const struct graph *g);
/* Marks a name as used that did not come from graph_unique_name. */
void graph_claim_name(struct graph *g, const char *name);
/* Like colocate_with_enter, for an op that does not exist yet. */
void colocate_with_name_enter(struct graph *g, const char *op_name);
/* The colocation groups of ops built now. */
struct colocation graph_colocation(const struct graph *g);
/* A copy in the graph's arena; NULL if the text is malformed. */
const struct signature *graph_read_signature(struct graph *g, const char *text);
/* The device of an op of this type; "" outside of device scopes. */
const char *graph_device_for(struct graph *g, const char *type);
/* Adds the control inputs required by the current scopes. */
void control_dependencies_apply(struct graph *g, struct operation *op);
/* Names of ops: [A-Za-z0-9.][A-Za-z0-9_.\-/]*; inside a scope, the first character may be
 * any of these. */
int name_valid(const char *name, int inside_scope);

#endif
