/* ctc.c - connectionist temporal classification (Graves et al. 2006): the loss of sequences of
 * labels that are shorter than the outputs, and the best path.
 *
 * inputs (time, batch, classes) are logits; the last class is the blank. A path of one class for
 * each time step stands for the labels that remain when repetitions are merged and blanks are
 * removed. With blanks around all labels, l' = blank l_1 blank l_2 ... blank,
 *     alpha(t, u)  the logarithm of the probability of all beginnings of paths up to time t
 *                  that have reached l'_u,
 *     beta(t, u)   that of all their ends after time t,
 *     loss = -log p,  p = sum over u of alpha(t, u) beta(t, u), at any t,
 *     d loss / d logit(t, k) = softmax(t, k) - (sum over u with l'_u = k) / p
 * All sums are in float64. Labels of the blank's number or more end a sequence of labels.
 */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"

#include <math.h>

static double real_at(const struct tensor *t, int64_t i)
{
    return t->dtype == DT_DOUBLE ? ((const double *)t->data)[i]
                                 : (double)((const float *)t->data)[i];
}

static void real_set(const struct tensor *t, int64_t i, double v)
{
    if (t->dtype == DT_DOUBLE)
        ((double *)t->data)[i] = v;
    else
        ((float *)t->data)[i] = (float)v;
}

static int want_real(const struct kernel_args *a)
{
    return a->in[0]->dtype == DT_DOUBLE || a->in[0]->dtype == DT_FLOAT
               ? 0
               : err_set(a->err, ERR_UNSUPPORTED, "%s: no %s of %s",
                         operation_name(a->op), operation_type(a->op),
                         dtype_name(a->in[0]->dtype));
}

/* ---- the loss ---- */

struct ctc {
    const struct kernel_args *a;
    int64_t time, batch, classes;
    int64_t room; /* labels that may be kept: longer sequences have no path */
    int merges;   /* ctc_merge_repeated */
    /* scratch, for one sequence: */
    double *logs;  /* (time, classes) log softmax */
    double *alpha; /* (time, 2 room + 1) */
    double *beta;  /* (2, 2 room + 1): a time step and the next */
    double *sum;   /* (classes) */
    int32_t *label;
};

/* How many floats take the room of all arrays, or -1. */
static int64_t ctc_floats(const struct shape_args *args)
{
    const int64_t time = dim_of(&args->in[0], 0), classes = dim_of(&args->in[0], 2);
    const int64_t labels = dim_of(&args->in[1], 0), room = labels < time ? labels : time;
    int64_t logs, alpha, all;

    if (__builtin_mul_overflow(time, classes, &logs) || room > INT64_MAX / 16 ||
        __builtin_mul_overflow(time + 2, 2 * room + 1, &alpha) ||
        __builtin_add_overflow(logs, alpha, &all) ||
        __builtin_add_overflow(all, classes + room, &all) ||
        __builtin_mul_overflow(all, 2, &all))
        return -1;
    return all;
}

static void ctc_init(struct ctc *c, const struct kernel_args *a)
{
    const int64_t *s = a->in[0]->shape.dim, labels = a->in[1]->shape.dim[0];

    *c = (struct ctc){.a = a,
                      .time = s[0],
                      .batch = s[1],
                      .classes = s[2],
                      .room = labels < s[0] ? labels : s[0],
                      .merges = (int)attr_int(a->op, "ctc_merge_repeated")};
    c->logs = a->n_out > 2 ? a->out[2]->data : NULL;
    c->alpha = c->logs + c->time * c->classes;
    c->beta = c->alpha + c->time * (2 * c->room + 1);
    c->sum = c->beta + 2 * (2 * c->room + 1);
    c->label = (int32_t *)(c->sum + c->classes);
}

/* Checks that the entries (sequence, place) of the labels are in order and inside. */
static int check_entries(const struct ctc *c)
{
    const struct kernel_args *a = c->a;
    const int64_t *entry = a->in[1]->data;

    for (int64_t i = 0; i < a->in[1]->shape.dim[0]; i++, entry += 2) {
        if (entry[0] < 0 || entry[0] >= c->batch || entry[1] < 0)
            return err_set(a->err, ERR_ARG,
                           "%s: labels_indices[%lld], (%lld, %lld), is not in "
                           "a batch of %lld",
                           operation_name(a->op), (long long)i, (long long)entry[0],
                           (long long)entry[1], (long long)c->batch);
        if (i > 0 &&
            (entry[0] < entry[-2] || (entry[0] == entry[-2] && entry[1] <= entry[-1])))
            return err_set(a->err, ERR_ARG, "%s: labels_indices[%lld] is out of order",
                           operation_name(a->op), (long long)i);
    }
    return 0;
}

/* Reads the labels of sequence b, which begin with entry *at, and moves it past them. Keeps at
 * most `room`. Returns their number, or ERR_ARG. */
static int64_t read_labels(const struct ctc *c, int64_t b, int64_t *at)
{
    const struct kernel_args *a = c->a;
    const int64_t *entry = a->in[1]->data, n = a->in[1]->shape.dim[0], first = *at;
    const int32_t *value = a->in[2]->data;
    const int collapses = (int)attr_int(a->op, "preprocess_collapse_repeated");
    int64_t found = 0;
    int ended = 0;

    for (; *at < n && entry[2 * *at] == b; ++*at) {
        const int32_t label = value[*at];

        if (collapses && *at > first && label == value[*at - 1])
            continue;
        if (label < 0)
            return err_set(a->err, ERR_ARG, "%s: label %d of sequence %lld is negative",
                           operation_name(a->op), label, (long long)b);
        if (label >= c->classes - 1) {
            ended = 1;
            continue;
        }
        if (ended)
            return err_set(a->err, ERR_ARG,
                           "%s: label %d of sequence %lld follows one of %lld or more",
                           operation_name(a->op), label, (long long)b,
                           (long long)(c->classes - 1));
        if (found < c->room)
            c->label[found] = label;
        found++;
    }
    return *at > first ? found
                       : err_set(a->err, ERR_ARG, "%s: sequence %lld has no labels",
                                 operation_name(a->op), (long long)b);
}

static double log_add(double x, double y)
{
    const double top = x > y ? x : y, low = x > y ? y : x;

    return low == -HUGE_VAL ? top : top + log1p(exp(low - top));
}

/* l'_u */
static int64_t symbol(const struct ctc *c, int64_t u)
{
    return u % 2 == 0 ? c->classes - 1 : c->label[u / 2];
}

/* Whether a path may go from l'_u to l'_(u + 2): two labels, which do not merge. */
static int skips(const struct ctc *c, int64_t u)
{
    return u % 2 == 1 && !(c->merges && symbol(c, u) == symbol(c, u + 2));
}

/* Whether a path may stay at l'_u. */
static int stays(const struct ctc *c, int64_t u)
{
    return c->merges || u % 2 == 0;
}

static void log_softmax_of(struct ctc *c, int64_t b, int64_t time)
{
    const struct tensor *x = c->a->in[0];

    for (int64_t t = 0; t < time; t++) {
        const int64_t at = (t * c->batch + b) * c->classes;
        double *to = c->logs + t * c->classes, top = -HUGE_VAL, sum = 0;

        for (int64_t k = 0; k < c->classes; k++)
            top = real_at(x, at + k) > top ? real_at(x, at + k) : top;
        for (int64_t k = 0; k < c->classes; k++)
            sum += exp(real_at(x, at + k) - top);
        for (int64_t k = 0; k < c->classes; k++)
            to[k] = real_at(x, at + k) - top - log(sum);
    }
}

/* n: the length of l'. Returns log p. */
static double forward(struct ctc *c, int64_t time, int64_t n)
{
    for (int64_t t = 0; t < time; t++) {
        const double *logs = c->logs + t * c->classes;
        double *alpha = c->alpha + t * n;
        const double *before = t > 0 ? alpha - n : NULL;

        for (int64_t u = 0; u < n; u++) {
            double sum = t == 0 && u < 2 ? 0 : -HUGE_VAL;

            if (t > 0 && stays(c, u))
                sum = before[u];
            if (t > 0 && u > 0)
                sum = log_add(sum, before[u - 1]);
            if (t > 0 && u > 1 && skips(c, u - 2))
                sum = log_add(sum, before[u - 2]);
            alpha[u] = sum + logs[symbol(c, u)];
        }
    }
    const double *last = c->alpha + (time - 1) * n;
    return n > 1 ? log_add(last[n - 1], last[n - 2]) : last[0];
}

/* Writes the gradient of time step t of sequence b from alpha and beta there. */
static void gradient_of(struct ctc *c, int64_t b, int64_t t, int64_t n,
                        const double *beta, double log_p)
{
    const double *alpha = c->alpha + t * n, *logs = c->logs + t * c->classes;
    const int64_t at = (t * c->batch + b) * c->classes;

    for (int64_t k = 0; k < c->classes; k++)
        c->sum[k] = -HUGE_VAL;
    for (int64_t u = 0; u < n; u++)
        c->sum[symbol(c, u)] = log_add(c->sum[symbol(c, u)], alpha[u] + beta[u]);
    for (int64_t k = 0; k < c->classes; k++)
        real_set(c->a->out[1], at + k,
                 exp(logs[k]) - (log_p == -HUGE_VAL ? 0 : exp(c->sum[k] - log_p)));
}

/* From the last time step to the first. */
static void backward(struct ctc *c, int64_t b, int64_t time, int64_t n, double log_p)
{
    for (int64_t t = time - 1; t >= 0; t--) {
        const double *logs = c->logs + (t + 1) * c->classes;
        const double *after = c->beta + (t + 1) % 2 * n;
        double *beta = c->beta + t % 2 * n;

        for (int64_t u = 0; u < n; u++) {
            double sum = t == time - 1 && u >= n - 2 ? 0 : -HUGE_VAL;

            if (t < time - 1 && stays(c, u))
                sum = after[u] + logs[symbol(c, u)];
            if (t < time - 1 && u + 1 < n)
                sum = log_add(sum, after[u + 1] + logs[symbol(c, u + 1)]);
            if (t < time - 1 && u + 2 < n && skips(c, u))
                sum = log_add(sum, after[u + 2] + logs[symbol(c, u + 2)]);
            beta[u] = sum;
        }
        gradient_of(c, b, t, n, beta, log_p);
    }
}

/* in: inputs, labels_indices, labels_values, sequence_length; out: loss, gradient, scratch */
static int kern_ctc_loss(const struct kernel_args *a)
{
    const int ignores = (int)attr_int(a->op, "ignore_longer_outputs_than_inputs");
    const int32_t *lengths = a->in[3]->data;
    int64_t at = 0;
    struct ctc c;

    ctc_init(&c, a);
    clear(a->out[0]);
    clear(a->out[1]);
    if (want_real(a) < 0 || check_entries(&c) < 0)
        return a->err->code;
    for (int64_t b = 0; b < c.batch; b++) {
        const int64_t time = lengths[b], n = read_labels(&c, b, &at);
        double log_p;

        if (n < 0)
            return ERR_ARG;
        if (time < 0 || time > c.time)
            return err_set(a->err, ERR_ARG, "%s: sequence_length[%lld] is %lld of %lld",
                           operation_name(a->op), (long long)b, (long long)time,
                           (long long)c.time);
        if (n > time && !ignores)
            return err_set(
                a->err, ERR_ARG, "%s: sequence %lld has %lld labels in %lld steps",
                operation_name(a->op), (long long)b, (long long)n, (long long)time);
        if (n > time || time == 0)
            continue;
        log_softmax_of(&c, b, time);
        log_p = forward(&c, time, 2 * n + 1);
        real_set(a->out[0], b, -log_p);
        backward(&c, b, time, 2 * n + 1, log_p);
    }
    return 0;
}

static int ctc_loss_shape(const struct shape_args *args)
{
    struct shape rows = SHAPE(dim_of(&args->in[0], 1)),
                 n = SHAPE(dim_of(&args->in[1], 0));

    if (shape_merge(&rows, &args->in[3], &rows) != 0)
        return err_set(args->err, ERR_SHAPE, "sequence_length %s for inputs %s",
                       shape_text(&args->in[3]), shape_text(&args->in[0]));
    if (shape_merge(&n, &args->in[2], &n) != 0 ||
        (dim_of(&args->in[1], 1) >= 0 && dim_of(&args->in[1], 1) != 2))
        return err_set(args->err, ERR_SHAPE, "labels_indices %s for labels_values %s",
                       shape_text(&args->in[1]), shape_text(&args->in[2]));
    if (rows.dim[0] == 0 || dim_of(&args->in[0], 2) == 0 ||
        (args->is_planning && ctc_floats(args) < 0))
        return err_set(args->err, ERR_SHAPE, "inputs %s", shape_text(&args->in[0]));
    args->out[0] = rows;
    args->out[1] = SHAPE(dim_of(&args->in[0], 0), rows.dim[0], dim_of(&args->in[0], 2));
    return 0;
}

GRAD(ctc_loss_grad)
{
    struct output d = output_of(op, 1), column;
    struct op_builder *b;

    if (!output_valid(grad_out[0]))
        return 0;
    b = op_begin(g, "PreventGradient", NULL);
    op_input(b, d);
    op_attr_string(
        b, "message",
        "Currently there is no way to take the second  derivative of ctc_loss due "
        "to the fused implementation's interaction  with tf.gradients()");
    d = (struct output){op_finish(b), 0};
    column = constant_i32(g, -1, "ExpandDims/dim");
    column = binary(g, "ExpandDims", grad_out[0], column, NULL);
    grad_in[0] = binary(g, "Mul", column, d, "mul");
    return grad_done(grad_in, 1);
}

/* ---- the best path ---- */

/* The best class at time t of sequence b, the first of equal ones. */
static int64_t best_class(const struct tensor *x, int64_t t, int64_t b, double *ret)
{
    const int64_t classes = x->shape.dim[2], at = (t * x->shape.dim[1] + b) * classes;
    int64_t best = 0;

    for (int64_t k = 1; k < classes; k++)
        if (real_at(x, at + k) > real_at(x, at + best))
            best = k;
    *ret = real_at(x, at + best);
    return best;
}

/* Finds the labels on the best paths of all sequences. Writes them with their entries
 * (sequence, place) where entries is not NULL, and minus the sum of each path's logits where
 * minus_sums is not. Returns their number, or ERR_ARG; ret_longest: of one sequence. */
static int64_t decode(const struct operation *op, const struct tensor *x,
                      const struct tensor *lengths, int64_t *entries, int64_t *labels,
                      const struct tensor *minus_sums, int64_t *ret_longest,
                      struct err *err)
{
    const int64_t time = x->shape.dim[0], batch = x->shape.dim[1],
                  classes = x->shape.dim[2];
    const int merges = (int)attr_int(op, "merge_repeated");
    int64_t blank = attr_int(op, "blank_index"), n = 0;

    *ret_longest = 0;
    blank += blank < 0 ? classes : 0;
    if (blank < 0 || blank >= classes)
        return err_set(err, ERR_ARG, "blank_index %lld of %lld classes",
                       (long long)attr_int(op, "blank_index"), (long long)classes);
    for (int64_t b = 0; b < batch; b++) {
        const int64_t length = ((const int32_t *)lengths->data)[b];
        int64_t before = -1, own = 0;
        double sum = 0, value;

        if (length > time)
            return err_set(err, ERR_ARG, "sequence_length[%lld] is %lld of %lld",
                           (long long)b, (long long)length, (long long)time);
        for (int64_t t = 0; t < length; t++) {
            const int64_t k = best_class(x, t, b, &value);

            sum -= value;
            if (k != blank && !(merges && k == before)) {
                if (entries != NULL) {
                    entries[2 * n] = b;
                    entries[2 * n + 1] = own;
                    labels[n] = k;
                }
                n++;
                own++;
            }
            before = k;
        }
        if (minus_sums != NULL)
            real_set(minus_sums, b, sum);
        *ret_longest = own > *ret_longest ? own : *ret_longest;
    }
    return n;
}

/* out: decoded_indices, decoded_values, decoded_shape, log_probability */
static int kern_ctc_greedy(const struct kernel_args *a)
{
    int64_t *shape = a->out[2]->data, longest, n;

    if (want_real(a) < 0)
        return ERR_UNSUPPORTED;
    n = decode(a->op, a->in[0], a->in[1], a->out[0]->data, a->out[1]->data, a->out[3],
               &longest, a->err);
    if (n < 0)
        return err_wrap(a->err, "%s", operation_name(a->op));
    shape[0] = a->in[0]->shape.dim[1];
    shape[1] = longest;
    return 0;
}

static int ctc_greedy_shape(const struct shape_args *args)
{
    const struct tensor *x = args->value[0], *lengths = args->value[1];
    struct shape rows = SHAPE(dim_of(&args->in[0], 1));
    int64_t n = -1, longest;

    if (shape_merge(&rows, &args->in[1], &rows) != 0)
        return err_set(args->err, ERR_SHAPE, "sequence_length %s for inputs %s",
                       shape_text(&args->in[1]), shape_text(&args->in[0]));
    if (rows.dim[0] == 0 || dim_of(&args->in[0], 2) == 0)
        return err_set(args->err, ERR_SHAPE, "inputs %s", shape_text(&args->in[0]));
    if (args->is_planning && x != NULL && lengths != NULL &&
        (x->dtype == DT_FLOAT || x->dtype == DT_DOUBLE)) {
        n = decode(args->op, x, lengths, NULL, NULL, NULL, &longest, args->err);
        if (n < 0)
            return ERR_ARG;
    }
    args->out[0] = SHAPE(n, 2);
    args->out[1] = SHAPE(n);
    args->out[2] = SHAPE(2);
    args->out[3] = SHAPE(rows.dim[0], 1);
    return 0;
}

/* ---- the rows ---- */

static const struct op_def rows[] = {
    {"CTCLoss", OP_LIBM, ctc_loss_shape, ctc_loss_grad, CALL(kern_ctc_loss),
     "inputs:T, labels_indices:int64, labels_values:int32, sequence_length:int32 -> "
     "loss:T, gradient:T; preprocess_collapse_repeated:bool=false, "
     "ctc_merge_repeated:bool=true, ignore_longer_outputs_than_inputs:bool=false, "
     "T:float_type=float32",
     .ranks = "3211", .scratch = ctc_floats},
    {"CTCGreedyDecoder", OP_NO_GRADIENT, ctc_greedy_shape, NULL, CALL(kern_ctc_greedy),
     "inputs:T, sequence_length:int32 -> decoded_indices:int64, decoded_values:int64, "
     "decoded_shape:int64, log_probability:T; merge_repeated:bool=false, "
     "blank_index:int=-1, "
     "T:float_type=float32",
     .ranks = "31", .sized_by = "inputs sequence_length"},
};

const struct op_family ops_of_ctc = OP_FAMILY(rows);
