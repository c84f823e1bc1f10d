/* CTC: all paths of a sequence, one after the other. */
#include "tests/agent/kernel_cases.h"

#include <math.h>
#include <string.h>

enum { MAX_TIME = 8 };

static int flag(const struct reference *r, const char *name)
{
    return (int)operation_attr(r->op, name)->i;
}

/* The labels of sequence b; returns their number. */
static int labels_of(const struct reference *r, int b, int *ret)
{
    const int classes = (int)r->in[0].tensor.shape.dim[2];
    int n = 0;

    for (int64_t i = 0; i < r->in[2].n; i++) {
        const int same = i > 0 && (int)r->in[1].v[2 * i - 2] == b &&
                         r->in[2].v[i] == r->in[2].v[i - 1];

        if ((int)r->in[1].v[2 * i] == b && r->in[2].v[i] < classes - 1 &&
            !(same && flag(r, "preprocess_collapse_repeated")))
            ret[n++] = (int)r->in[2].v[i];
    }
    return n;
}

/* Whether the path of `time` classes stands for the labels. */
static int stands_for(const int *path, int time, int blank, int merges, const int *labels,
                      int n)
{
    int found = 0;

    for (int t = 0; t < time; t++) {
        if (path[t] == blank || (merges && t > 0 && path[t] == path[t - 1]))
            continue;
        if (found == n || labels[found++] != path[t])
            return 0;
    }
    return found == n;
}

static void ctc_loss(const struct reference *r)
{
    const int64_t *s = r->in[0].tensor.shape.dim;
    const int batch = (int)s[1], classes = (int)s[2];

    for (int b = 0; b < batch; b++) {
        const int time = (int)r->in[3].v[b];
        double p[MAX_TIME][8], in_class[MAX_TIME][8] = {{0}}, total = 0;
        int labels[16], path[MAX_TIME] = {0}, n = labels_of(r, b, labels), more = 1;

        if (n > time) /* ignored */
            continue;
        for (int t = 0; t < time; t++) {
            double sum = 0;

            for (int k = 0; k < classes; k++)
                sum += exp(r->in[0].v[(t * batch + b) * classes + k]);
            for (int k = 0; k < classes; k++)
                p[t][k] = exp(r->in[0].v[(t * batch + b) * classes + k]) / sum;
        }
        while (more) {
            double product = 1;

            for (int t = 0; t < time; t++)
                product *= p[t][path[t]];
            if (stands_for(path, time, classes - 1, flag(r, "ctc_merge_repeated"), labels,
                           n)) {
                total += product;
                for (int t = 0; t < time; t++)
                    in_class[t][path[t]] += product;
            }
            more = 0;
            for (int t = 0; t < time && !more; t++) {
                path[t] = (path[t] + 1) % classes;
                more = path[t] != 0;
            }
        }
        r->out[0].v[b] = time > 0 ? -log(total) : 0;
        for (int t = 0; t < time; t++)
            for (int k = 0; k < classes; k++)
                r->out[1].v[(t * batch + b) * classes + k] =
                    p[t][k] - (total > 0 ? in_class[t][k] / total : 0);
    }
}

/* Values of the other outputs stand in the rows. */
static void minus_best(const struct reference *r)
{
    const int64_t *s = r->in[0].tensor.shape.dim;

    for (int64_t b = 0; b < s[1]; b++)
        for (int64_t t = 0; t < (int64_t)r->in[1].v[b]; t++) {
            double best = -INFINITY;

            for (int64_t k = 0; k < s[2]; k++)
                best = fmax(best, r->in[0].v[(t * s[1] + b) * s[2] + k]);
            r->out[3].v[b] -= best;
        }
}

#define LOSS(in, attrs, out)                                                             \
    {                                                                                    \
        "CTCLoss", "fd", in, attrs, out, ctc_loss, NULL, -2, 2, 40, CASE_FIRST_OUTPUT    \
    }
#define GREEDY(in, attrs, out)                                                           \
    {                                                                                    \
        "CTCGreedyDecoder", "fd", in, attrs, out, minus_best, NULL, -2, 2, 10, 0         \
    }
/* a time step of the best class k of 0, 1, 2 */
#define BEST_0 "1,0,-1"
#define BEST_1 "-1,2,0"
#define BEST_2 "0,-1,2"

const struct kernel_case ctc_cases[] = {
    LOSS("x(4,2,3) l(3,2)=0,0,0,1,1,0 i(3)=0,1,1 i(2)=4,3", NULL, "(2) (4,2,3)"),
    LOSS("x(5,1,4) l(3,2)=0,0,0,1,0,2 i(3)=1,1,2 i(1)=5", NULL, "(1) (5,1,4)"),
    LOSS("x(5,1,4) l(3,2)=0,0,0,1,0,2 i(3)=1,1,2 i(1)=4", "ctc_merge_repeated=false",
         "(1) (5,1,4)"),
    LOSS("x(5,1,4) l(3,2)=0,0,0,1,0,4 i(3)=1,1,2 i(1)=5",
         "preprocess_collapse_repeated=true", "(1) (5,1,4)"),
    /* labels of the blank or more, sequences without steps, and those that are too long */
    LOSS("x(3,3,3) l(5,2)=0,0,1,0,1,1,2,0,2,1 i(5)=2,0,2,2,7 i(3)=3,2,0", NULL,
         "(3) (3,3,3)"),
    LOSS("x(3,2,3) l(3,2)=0,0,0,1,1,0 i(3)=0,1,1 i(2)=1,3",
         "ignore_longer_outputs_than_inputs=true", "(2) (3,2,3)"),
    /* no path: two equal labels need three steps */
    {"CTCLoss", "fd", "f(3,1,3) l(2,2)=0,0,0,1 i(2)=1,1 i(1)=2", NULL, "(1) (3,1,3)",
     ctc_loss, NULL, -2, 2, 40, CASE_NO_DIFFERENCE},
    GREEDY("x(4,2,3)=" BEST_0 "," BEST_2 "," BEST_0 "," BEST_1 "," BEST_1 "," BEST_1
           "," BEST_1 "," BEST_0 " i(2)=4,3",
           NULL, "(6,2)=0,0,0,1,0,2,0,3,1,0,1,1 (6)=0,0,1,1,1,1 (2)=2,4 (2,1)"),
    GREEDY("x(4,2,3)=" BEST_0 "," BEST_2 "," BEST_0 "," BEST_1 "," BEST_1 "," BEST_1
           "," BEST_1 "," BEST_0 " i(2)=4,3",
           "merge_repeated=true", "(3,2)=0,0,0,1,1,0 (3)=0,1,1 (2)=2,2 (2,1)"),
    GREEDY("x(2,1,3)=" BEST_0 "," BEST_1 " i(1)=2", "blank_index=1",
           "(1,2)=0,0 (1)=0 "
           "(2)=1,1 (1,1)"),
    GREEDY("x(2,1,3)=" BEST_2 "," BEST_1 " i(1)=-1", NULL, "(0,2) (0) (2)=1,0 (1,1)"),
    {NULL},
};
