/* signature.h - an op's arguments and attributes, read from its row's text.
 *
 *     signature = [arg {"," arg}] "->" [arg {"," arg}] [";" attr {"," attr}]
 *     arg       = name ":" ["&"] [number "*"] type     "&": a variable's reference
 *     type      = a dtype's name | "#" and its number | a type or list(type) attribute
 *     number    = an int attribute: that many tensors
 *     attr      = name ":" kind ["=" default]
 *     kind      = type | number_type | sum_type | float_type | index_type | int | float |
 *                 bool | shape | string | tensor | func | list(int) | list(type) |
 *                 list(float) | list(bool) | list(shape) | list(string) |
 *                 list(tensor) | list(func)
 *
 * number_type and float_type are types that may only be (floating) numbers, sum_type numbers
 * or variants. A default is
 * written as in C; `unknown` is the shape of unknown rank, `[]` the empty list, `[1 1 1 1]`
 * and `[1 1 1 1 1]` (the only other lists) four and five ones; no text is the empty string.
 * An attribute that has no default and is not determined by an input must be given.
 */
#ifndef AGENT_GRAPH_SIGNATURE_H
#define AGENT_GRAPH_SIGNATURE_H

#include "agent/graph/graph.h"

enum { SIGNATURE_MAX = 18 };

/* A piece of the text; not terminated. */
struct span {
    const char *p;
    size_t len;
};

struct signature_arg {
    struct span name;
    struct span type;
    struct span number; /* len 0: one tensor */
    int is_ref;

    int type_attr, number_attr; /* their indices among the attributes; -1: none */
    int is_list;                /* any number of tensors */
    enum dtype dtype;           /* without a type attribute */
};

struct signature_attr {
    struct span name;
    struct span kind_name;
    enum attr_kind kind;
    struct span default_text;
    int has_default;
    const char *text; /* the name, terminated; NULL: not made yet (graph.c) */
};

struct signature {
    int n_in, n_out, n_attrs;
    struct signature_arg *in, *out;
    struct signature_attr *attrs;
};

/* Room for the largest one. Graphs keep copies of the size they need. */
struct signature_room {
    struct signature_arg in[SIGNATURE_MAX], out[SIGNATURE_MAX];
    struct signature_attr attrs[SIGNATURE_MAX];
};

/* The result points into `room`. 0, or -1 if the text is not a signature; a test parses
 * those of all rows of the table. */
int signature_parse(struct signature *ret, struct signature_room *room, const char *text);
const struct signature_attr *signature_attr(const struct signature *s, struct span name);
/* The default as an attribute without a name; a string is not terminated. 0, or -1 if the
 * text is malformed. */
int signature_default(const struct signature_attr *a, struct attr *ret);
/* Whether a type attribute of this kind may be `dtype`. */
int signature_type_allowed(const struct signature_attr *a, enum dtype dtype);

int span_is(struct span s, const char *text);
struct span span_of(const char *text);

#endif
