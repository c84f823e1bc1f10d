/* boxes.c - boxes in images: which of those that overlap are kept.
 *
 * Source   tensorflow/core/kernels/image/non_max_suppression_op.cc. A box is two opposite corners,
 *          in any order: (y, x, y, x). float32 alone. */
#include "agent/ops/kernel_parts.h"
#include "agent/ops/op_rules.h"
#include "common/numerics/elementary.h"

#include <math.h>
#include <stdlib.h>

enum { BOXES, SCORES, MOST, OVERLAP, LEAST, SIGMA };

struct candidate {
    int32_t box;
    float score;
    int64_t n_seen; /* selected boxes that have lowered its score already */
};

/* A selection of at most `most` boxes of n by their scores: each overlaps with none of a better
 * score by more than `overlap`, or, with soft > 0, loses some of its score by that. */
struct selection {
    const float *boxes;    /* n x 4; NULL: */
    const float *overlaps; /* n x n */
    const float *scores;
    int64_t n, most;
    float overlap, least, soft;
    struct candidate *heap; /* the best one first */
    int64_t n_heap;
    int32_t *box; /* what is selected */
    float *score;
    int64_t n_selected;
};

/* ---- overlaps ---- */

static float area(const float *b)
{
    return fabsf(b[2] - b[0]) * fabsf(b[3] - b[1]);
}

/* Of one axis (0: y, 1: x): how much of both is in both. */
static float common(const float *a, const float *b, int axis)
{
    const float low = fmaxf(fminf(a[axis], a[axis + 2]), fminf(b[axis], b[axis + 2])),
                high = fminf(fmaxf(a[axis], a[axis + 2]), fmaxf(b[axis], b[axis + 2]));

    return fmaxf(high - low, 0);
}

/* The common area as a part of the area of both together. */
static float overlap(const struct selection *s, int32_t i, int32_t j)
{
    const float *a, *b;
    float both;

    if (s->boxes == NULL)
        return s->overlaps[(int64_t)i * s->n + j];
    a = s->boxes + (int64_t)4 * i;
    b = s->boxes + (int64_t)4 * j;
    if (!(area(a) > 0) || !(area(b) > 0))
        return 0;
    both = common(a, b, 0) * common(a, b, 1);
    return both / (area(a) + area(b) - both);
}

/* ---- candidates ---- */

static int is_before(const struct candidate *a, const struct candidate *b)
{
    return a->score > b->score || (a->score == b->score && a->box < b->box);
}

static void swap(struct candidate *a, struct candidate *b)
{
    const struct candidate old = *a;

    *a = *b;
    *b = old;
}

static void push(struct selection *s, struct candidate c)
{
    int64_t at = s->n_heap++;

    s->heap[at] = c;
    while (at > 0 && is_before(&s->heap[at], &s->heap[(at - 1) / 2])) {
        swap(&s->heap[at], &s->heap[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

static struct candidate pop(struct selection *s)
{
    const struct candidate ret = s->heap[0];

    s->heap[0] = s->heap[--s->n_heap];
    for (int64_t at = 0, best; 2 * at + 1 < s->n_heap; at = best) {
        best = 2 * at + 1;
        if (best + 1 < s->n_heap && is_before(&s->heap[best + 1], &s->heap[best]))
            best++;
        if (!is_before(&s->heap[best], &s->heap[at]))
            break;
        swap(&s->heap[best], &s->heap[at]);
    }
    return ret;
}

/* Compares the candidate with what was selected since it was last looked at. Returns 0 if it
 * overlaps too much; its score may fall. */
static int may_stay(const struct selection *s, struct candidate *c)
{
    for (int64_t j = s->n_selected - 1; j >= c->n_seen; j--) {
        const float o = overlap(s, c->box, s->box[j]);

        if (s->soft > 0)
            c->score *= (float)exp_f64((double)(-0.5F / s->soft * o * o));
        else if (o > s->overlap)
            return 0;
        if (c->score <= s->least)
            break;
    }
    c->n_seen = s->n_selected;
    return 1;
}

static void boxes_fill(struct selection *s)
{
    for (int64_t i = 0; i < s->n; i++)
        if (s->scores[i] > s->least)
            push(s, (struct candidate){(int32_t)i, s->scores[i], 0});
    while (s->n_selected < s->most && s->n_heap > 0) {
        struct candidate c = pop(s);
        const float score = c.score;

        if (!may_stay(s, &c))
            continue;
        if (c.score == score) {
            s->box[s->n_selected] = c.box;
            s->score[s->n_selected++] = c.score;
        } else if (c.score > s->least) {
            push(s, c);
        }
    }
}

/* ---- the operations ---- */

static int is_padded(const struct operation *op)
{
    return operation_attr(op, "pad_to_max_output_size") != NULL &&
           attr_int(op, "pad_to_max_output_size") != 0;
}

static float number_at(const struct tensor *const *in, int n_in, int i, float otherwise)
{
    return i < n_in ? *(const float *)in[i]->data : otherwise;
}

/* Selects by the values of all inputs; select_done frees what it made. */
static int select_boxes(const struct operation *op, const struct tensor *const *in,
                        int n_in, struct selection *s, struct err *err)
{
    const int has_boxes = !operation_is(op, "NonMaxSuppressionWithOverlaps");
    const int64_t most = tensor_int(in[MOST], 0);

    *s = (struct selection){.n = tensor_elements(in[SCORES])};
    for (int i = 0; i < n_in; i++)
        if (i != MOST && in[i]->dtype != DT_FLOAT)
            return err_set(err, ERR_UNSUPPORTED, "no %s of %s", operation_type(op),
                           dtype_name(in[i]->dtype));
    if (has_boxes)
        s->boxes = in[BOXES]->data;
    else
        s->overlaps = in[BOXES]->data;
    s->scores = in[SCORES]->data;
    s->overlap = number_at(in, n_in, OVERLAP, float_attr(op, "iou_threshold", 0.5F));
    s->least = number_at(in, n_in, LEAST, -INFINITY);
    s->soft = number_at(in, n_in, SIGMA, 0);
    if (most < 0)
        return err_set(err, ERR_ARG, "max_output_size is %lld, below 0", (long long)most);
    if (has_boxes && !(s->overlap >= 0 && s->overlap <= 1))
        return err_set(err, ERR_ARG, "iou_threshold must be in [0, 1]");
    if (s->soft < 0)
        return err_set(err, ERR_ARG, "soft_nms_sigma is below 0");
    s->most = most < s->n ? most : s->n;
    s->heap = calloc((size_t)s->n + 1, sizeof(*s->heap));
    s->box = calloc((size_t)s->most + 1, sizeof(*s->box));
    s->score = calloc((size_t)s->most + 1, sizeof(*s->score));
    if (s->heap == NULL || s->box == NULL || s->score == NULL)
        return err_set(err, ERR_NOMEM, "no memory for %lld boxes", (long long)s->n);
    boxes_fill(s);
    return 0;
}

static void select_done(struct selection *s)
{
    free(s->heap);
    free(s->box);
    free(s->score);
}

static int check_boxes(const struct shape_args *args)
{
    const int64_t n = dim_of(&args->in[BOXES], 0), scores = dim_of(&args->in[SCORES], 0),
                  columns = dim_of(&args->in[BOXES], 1);
    const int64_t want = operation_is(args->op, "NonMaxSuppressionWithOverlaps") ? n : 4;

    if (n >= 0 && scores >= 0 && n != scores)
        return err_set(args->err, ERR_SHAPE, "%lld boxes, but %lld scores", (long long)n,
                       (long long)scores);
    if (columns >= 0 && want >= 0 && columns != want)
        return err_set(args->err, ERR_SHAPE, "boxes of %lld numbers, not %lld",
                       (long long)columns, (long long)want);
    return 0;
}

/* selected_indices, of as many as are selected or, padded, may be; then, in later versions, their
 * scores, and the number of those that are no padding */
static int suppression_shape(const struct shape_args *args)
{
    const int n_out = operation_n_outputs(args->op);
    const struct tensor *most = args->value[MOST];
    struct selection s;
    int64_t n = -1;
    int rc = check_boxes(args), is_known = args->is_planning;

    for (int i = 0; i < args->n_in; i++)
        is_known &= args->value[i] != NULL;
    if (rc == 0 && is_padded(args->op)) {
        n = most != NULL && tensor_int(most, 0) >= 0 ? tensor_int(most, 0) : -1;
    } else if (rc == 0 && is_known) {
        rc = select_boxes(args->op, args->value, args->n_in, &s, args->err);
        n = s.n_selected;
        select_done(&s);
    }
    args->out[0] = SHAPE(n);
    if (n_out > 2)
        args->out[1] = SHAPE(n);
    if (n_out > 1)
        args->out[n_out - 1] = SHAPE_SCALAR;
    return rc;
}

static int kern_suppression(const struct kernel_args *a)
{
    const int64_t n = tensor_elements(a->out[0]);
    struct selection s;
    int rc =
        select_boxes(a->op, (const struct tensor *const *)a->in, a->n_in, &s, a->err);

    if (rc == 0 && (s.n_selected > n || (!is_padded(a->op) && s.n_selected != n)))
        rc = err_set(a->err, ERR_SHAPE, "%lld boxes, not %lld", (long long)s.n_selected,
                     (long long)n);
    for (int64_t i = 0; rc == 0 && i < n; i++) {
        tensor_set_int(a->out[0], i, i < s.n_selected ? s.box[i] : 0);
        if (a->n_out > 2)
            ((float *)a->out[1]->data)[i] = i < s.n_selected ? s.score[i] : 0;
    }
    if (rc == 0 && a->n_out > 1)
        tensor_set_int(a->out[a->n_out - 1], 0, s.n_selected);
    select_done(&s);
    return rc == 0 ? 0 : err_wrap(a->err, "%s", operation_name(a->op));
}

/* ---- the rows ---- */

#define SUPPRESSION OP_NO_GRADIENT, suppression_shape, NULL, CALL(kern_suppression)

static const struct op_def rows[] = {
    {"NonMaxSuppression", SUPPRESSION,
     "boxes:float32, scores:float32, max_output_size:int32 -> selected_indices:int32; "
     "iou_threshold:float=0.5",
     .ranks = "210", .sized_by = "boxes scores max_output_size"},
    {"NonMaxSuppressionV2", SUPPRESSION,
     "boxes:T, scores:T, max_output_size:int32, iou_threshold:T_threshold -> "
     "selected_indices:int32; T:float_type=float32, T_threshold:float_type=float32",
     .ranks = "2100", .sized_by = "boxes scores max_output_size iou_threshold"},
    {"NonMaxSuppressionV3", SUPPRESSION,
     "boxes:T, scores:T, max_output_size:int32, iou_threshold:T_threshold, "
     "score_threshold:T_threshold -> selected_indices:int32; T:float_type=float32, "
     "T_threshold:float_type=float32",
     .ranks = "21000",
     .sized_by = "boxes scores max_output_size iou_threshold score_threshold"},
    {"NonMaxSuppressionV4", SUPPRESSION,
     "boxes:T, scores:T, max_output_size:int32, iou_threshold:T_threshold, "
     "score_threshold:T_threshold -> selected_indices:int32, valid_outputs:int32; "
     "T:float_type=float32, T_threshold:float_type=float32, "
     "pad_to_max_output_size:bool=false",
     .ranks = "21000",
     .sized_by = "boxes scores max_output_size iou_threshold score_threshold"},
    {"NonMaxSuppressionV5", SUPPRESSION,
     "boxes:T, scores:T, max_output_size:int32, iou_threshold:T, score_threshold:T, "
     "soft_nms_sigma:T -> selected_indices:int32, selected_scores:T, "
     "valid_outputs:int32; T:float_type=float32, pad_to_max_output_size:bool=false",
     .ranks = "210000",
     .sized_by =
         "boxes scores max_output_size iou_threshold score_threshold soft_nms_sigma"},
    {"NonMaxSuppressionWithOverlaps", SUPPRESSION,
     "overlaps:float32, scores:float32, max_output_size:int32, "
     "overlap_threshold:float32, score_threshold:float32 -> selected_indices:int32",
     .ranks = "21000",
     .sized_by = "overlaps scores max_output_size overlap_threshold score_threshold"},
};

const struct op_family ops_of_boxes = OP_FAMILY(rows);
