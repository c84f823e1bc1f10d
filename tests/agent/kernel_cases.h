/* kernel_cases.h - one table of cases for all ops: inputs as text, a naive reference.
 *
 * Inputs   words such as "x(2,3) i(2)=0,1 F": a type, a shape (none: a scalar), values
 *          (none: drawn from [low, high)). Types are f float32, d float64, i int32,
 *          l int64, s int16, c int8, u uint8, w uint16, b bool and x, which stands for
 *          each of the case's types in turn. A small letter is fed, a capital one is a
 *          Const, as shape rules need it.
 * Attrs    words such as "axis=1 alpha=0.5 keep_dims=true T=@f dims=[1,0] limits=[0.5]
 *          shape=(2)".
 * Outputs  words such as "(2,3) (2)=1,5": each output's shape, and values for references
 *          that read them there. NULL: one output, the inputs' broadcast shape.
 * The reference computes in double, element by element, from the same rounded inputs.
 */
#ifndef TESTS_AGENT_KERNEL_CASES_H
#define TESTS_AGENT_KERNEL_CASES_H

#include "agent/session/session.h"

#define MAX_OPERANDS 18

struct array {
    struct tensor tensor;
    double *v; /* the elements of `tensor`, after rounding */
    int64_t n;
    char letter; /* of the text: x, f, F, ... */
};

struct reference {
    const struct operation *op;
    const struct array *in;
    struct array *out; /* v is preset to the values in the text, or zeros */
    int n_in, n_out;
};
typedef void (*reference_fn)(const struct reference *r);
/* One element, from one element of each input. */
typedef double (*element_fn)(const double *x, const struct operation *op);

enum case_flags {
    CASE_NO_DIFFERENCE = 1, /* the gradient is not the derivative; the row says why */
    CASE_KNOWN_RANKS = 2,   /* unknown dimensions would hide what the gradient needs */
    CASE_LAST_OUTPUT = 8,   /* only the last one, likewise */
    CASE_FIRST_OUTPUT = 4,  /* only output 0 passes a gradient on, as in TensorFlow */
};

struct kernel_case {
    const char *op, *types, *inputs, *attrs, *outputs;
    reference_fn want;
    element_fn element; /* instead: element by element, inputs broadcast */
    double low, high;
    double ulps; /* of max(1, |result|), for floating types */
    unsigned flags;
};

/* Tables end with op NULL. */
#define CASE_TABLES(X)                                                                   \
    X(math)                                                                              \
    X(array)                                                                             \
    X(piece)                                                                             \
    X(nn)                                                                                \
    X(conv)                                                                              \
    X(scatter)                                                                           \
    X(ctc)                                                                               \
    X(rnn)                                                                               \
    X(set)                                                                               \
    X(norm)                                                                              \
    X(segment)                                                                           \
    X(diagonal)                                                                          \
    X(function)                                                                          \
    X(axes)                                                                              \
    X(image)                                                                             \
    X(order)                                                                             \
    X(einsum)                                                                            \
    X(solve)                                                                             \
    X(sparse)                                                                            \
    X(box)
#define CASE_TABLE_DECLARED(name) extern const struct kernel_case name##_cases[];
CASE_TABLES(CASE_TABLE_DECLARED)
#undef CASE_TABLE_DECLARED
/* Case i of all tables; NULL past the end. */
const struct kernel_case *kernel_case_at(int i);
/* Whether there is a case of this op. */
int kernel_cases_have(const char *op);

/* Large allocations of this process fail from now on, so that strange sizes are harmless. */
void limit_memory(void);

enum feeding {
    FEED_KNOWN,    /* placeholders of the exact shape */
    FEED_UNKNOWN,  /* placeholders that know only the rank */
    FEED_CONSTANT, /* no placeholders: everything is a Const */
    N_FEEDINGS,
    FEED_ALL = N_FEEDINGS, /* placeholders that know the rank, also for capital letters */
};

/* A case, built in a graph of its own. */
struct stage {
    const struct kernel_case *c;
    struct graph *g;
    struct session *s;
    struct operation *op; /* NULL: refused, graph_error says why */
    struct array in[MAX_OPERANDS], want[MAX_OPERANDS];
    struct output input[MAX_OPERANDS];
    struct feed feeds[2 * MAX_OPERANDS];
    size_t n_feeds;
    int n_in, n_want;
};
void stage_init(struct stage *s, const struct kernel_case *c, enum dtype x,
                enum feeding feeding);
void stage_done(struct stage *s);
/* Computes the expected values into s->want. */
void stage_refer(struct stage *s);
/* Runs the case and fetches every output. */
int stage_run(struct stage *s, struct tensor *ret /* [n outputs] */, struct err *err);

enum dtype case_dtype(char letter);  /* of a small or capital letter, or DT_INVALID */
int case_readable(enum dtype dtype); /* 1 if the type has a letter */
double element_get(const struct tensor *t, int64_t i);
void element_set(const struct tensor *t, int64_t i, double v); /* wraps, rounds */

/* For references: position i of a row-major array as one index per dimension, and back
 * into an array that it broadcasts to. */
void unravel(const struct shape *s, int64_t i, int64_t *ret);
int64_t ravel(const struct shape *s, const int64_t *index, int rank);

#endif
