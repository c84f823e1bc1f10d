#include "supervisor/rollout/exchange.h"

#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/msg/protocol.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct output {
    char name[STAGE_OUTPUT_MAX];
    enum dtype dtype;
    struct shape shape;
    uint8_t *data;
    size_t len, cap;
};

struct outputs { /* of one stage of one runner */
    int n;
    int is_absent; /* the runner is absent: all outputs are zero */
    struct output output[EXCHANGE_MAX_OUTPUTS];
};

struct exchange {
    const struct update_plan *plan;
    const char *const *names;
    const struct env_spec *spec;
    size_t n_learners, n_runners;
    const struct sharing *sharing;
    struct outputs *outputs; /* (stages, n_runners) */
    float *ones;             /* [n_ones] 1.0 */
    size_t n_ones;
};

static size_t n_outputs(const struct exchange *x)
{
    return (size_t)x->plan->n * x->n_runners;
}

struct exchange *exchange_new(const struct update_plan *plan, const char *const *names,
                              const struct env_spec *spec, const struct sharing *sharing)
{
    struct exchange *x = xcalloc(1, sizeof(*x));

    x->plan = plan;
    x->names = names;
    x->spec = spec;
    x->n_learners = spec->n_agents;
    x->n_runners = spec->n_agents + 1 + sharing->n_groups;
    x->sharing = sharing;
    x->outputs = xcalloc(n_outputs(x), sizeof(*x->outputs));
    return x;
}

void exchange_free(struct exchange *x)
{
    if (x == NULL)
        return;
    for (size_t i = 0; i < n_outputs(x); i++)
        for (int k = 0; k < EXCHANGE_MAX_OUTPUTS; k++)
            free(x->outputs[i].output[k].data);
    free(x->outputs);
    free(x->ones);
    free(x);
}

static struct outputs *outputs_of(const struct exchange *x, int stage, size_t runner)
{
    return &x->outputs[(size_t)stage * x->n_runners + runner];
}

static int put_output(struct outputs *to, const msgpack_object *name,
                      const msgpack_object *value, int finite, struct err *err)
{
    struct output *o = &to->output[to->n];
    struct tensor t;
    int rc;

    if (name->type != MSGPACK_OBJECT_STR || name->via.str.size >= sizeof(o->name) ||
        to->n == EXCHANGE_MAX_OUTPUTS)
        return err_set(err, ERR_PROTOCOL, "bad name or more than %d outputs",
                       EXCHANGE_MAX_OUTPUTS);
    memcpy(o->name, name->via.str.ptr, name->via.str.size);
    o->name[name->via.str.size] = '\0';
    if ((rc = msg_to_tensor(value, o->name, &t, err)) < 0 ||
        (finite && (rc = tensor_expect_finite(&t, o->name, err)) < 0))
        return rc;
    o->dtype = t.dtype;
    o->shape = t.shape;
    o->len = tensor_bytes(&t);
    if (o->len > o->cap) {
        o->data = xrealloc(o->data, o->len);
        o->cap = o->len;
    }
    if (o->len > 0)
        memcpy(o->data, t.data, o->len);
    to->n++;
    return 0;
}

int exchange_put(struct exchange *x, int stage, size_t runner,
                 const msgpack_object *outputs, int finite, struct err *err)
{
    struct outputs *to = outputs_of(x, stage, runner);

    to->n = 0;
    to->is_absent = 0;
    if (outputs == NULL || !x->plan->stage[stage].is_read)
        return 0;
    for (uint32_t i = 0; i < outputs->via.map.size; i++) {
        const msgpack_object_kv *kv = &outputs->via.map.ptr[i];
        int rc = put_output(to, &kv->key, &kv->val, finite, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

void exchange_put_nothing(struct exchange *x, int stage, size_t runner)
{
    struct outputs *to = outputs_of(x, stage, runner);

    to->is_absent = 1;
    for (int i = 0; i < to->n; i++)
        if (to->output[i].len > 0)
            memset(to->output[i].data, 0, to->output[i].len);
}

static const struct output *find_output(const struct outputs *from, const char *name)
{
    for (int i = 0; i < from->n; i++)
        if (strcmp(from->output[i].name, name) == 0)
            return &from->output[i];
    return NULL;
}

/* Adds an output of zeros, or makes the one of that name zeros. Returns NULL if there are too
 * many. */
static const struct output *put_zeros(struct outputs *to, const char *name,
                                      enum dtype dtype, const struct shape *shape)
{
    int i = 0;

    while (i < to->n && strcmp(to->output[i].name, name) != 0)
        i++;
    if (i == EXCHANGE_MAX_OUTPUTS)
        return NULL;
    to->n = i < to->n ? to->n : i + 1;
    (void)snprintf(to->output[i].name, sizeof(to->output[i].name), "%s", name);
    to->output[i].dtype = dtype;
    to->output[i].shape = *shape;
    to->output[i].len = (size_t)shape_elements(shape) * dtype_size(dtype);
    to->output[i].cap = to->output[i].len;
    free(to->output[i].data);
    to->output[i].data = xcalloc(to->output[i].len, 1);
    return &to->output[i];
}

/* Returns what stands for an output of a learner that was given up: zeros. The shape of
 * actions follows from the rows, of which there may be other numbers than before. That of
 * others is the one of its newest output; if there never was one, that of a peer's; if all
 * learners were given up before, that of the rows. */
static const struct output *stand_in(struct exchange *x, const struct stage_read *r,
                                     size_t from, const struct shape *rows)
{
    struct outputs *to = outputs_of(x, r->stage, from);
    const struct output *known = find_output(to, r->name), *like = known;
    const int is_action = strcmp(x->plan->stage[r->stage].name, STAGE_PROPOSE) == 0 &&
                          strcmp(r->name, "action") == 0;
    struct shape shape = *rows;

    for (size_t i = 0; i < x->n_learners && like == NULL; i++)
        like = find_output(outputs_of(x, r->stage, i), r->name);
    if (is_action)
        shape = SHAPE(rows->dim[0], rows->dim[1] * rows->dim[2],
                      x->spec->agents[from].space.width);
    else if (like != NULL)
        shape = like->shape;
    if (known != NULL && shape_equal(&known->shape, &shape))
        return known;
    return put_zeros(to, r->name, like != NULL ? like->dtype : DT_FLOAT, &shape);
}

static int pack_output(struct exchange *x, const struct stage_read *r, size_t from,
                       const struct shape *rows, struct msg_out *o, struct err *err)
{
    const char *name = from < x->n_learners    ? x->names[from]
                       : from == x->n_learners ? "central"
                                               : "ps";
    const struct output *out = find_output(outputs_of(x, r->stage, from), r->name);
    char key[AGENT_NAME_MAX + STAGE_OUTPUT_MAX];
    struct tensor t;

    if (from < x->n_learners && outputs_of(x, r->stage, from)->is_absent)
        out = stand_in(x, r, from, rows);
    if (out == NULL)
        return err_set(err, ERR_PROTOCOL, "%s: stage '%s' gave no output '%s'", name,
                       x->plan->stage[r->stage].name, r->name);
    (void)snprintf(key, sizeof(key), "%s/%s", name, r->name);
    t = tensor_const_view(out->dtype, out->shape, out->data);
    msg_key(o, key);
    msg_tensor(o, &t);
    return 0;
}

/* Whether the reader reads the output of runner `from`. r: of its stage's `reads`. */
static int reads_from(const struct exchange *x, const struct stage_read *r, size_t reader,
                      size_t from)
{
    const struct stage_decl *s = &x->plan->stage[r->stage];
    const size_t first_ps = x->n_learners + 1;

    if (r->previous)
        return 0; /* pack_previous */
    if (s->central)
        return from == x->n_learners;
    if (s->ps)
        return reader < x->n_learners && x->sharing->group_of[reader] != SHARING_NONE &&
               from == first_ps + x->sharing->group_of[reader];
    if (r->own)
        return from == reader;
    return from < x->n_learners && update_plan_plays(x->plan, r->stage, from) &&
           (reader < first_ps || x->sharing->group_of[from] == reader - first_ps);
}

static void pack_ones(struct exchange *x, const struct shape *shape, struct msg_out *o)
{
    const size_t n = (size_t)shape_elements(shape);
    struct tensor t;

    if (n > x->n_ones) {
        x->ones = xreallocarray(x->ones, n, sizeof(*x->ones));
        while (x->n_ones < n)
            x->ones[x->n_ones++] = 1.0f;
    }
    t = tensor_view(DT_FLOAT, *shape, x->ones);
    msg_tensor(o, &t);
}

/* Packs the output of the last learner that had a turn before the reader. Learners that
 * were given up, and those of other groups, have no turn and are skipped. */
static int pack_previous(struct exchange *x, const struct stage_read *r,
                         const struct exchange_turn *turn, const struct shape *rows,
                         struct msg_out *o, struct err *err)
{
    char key[sizeof(INPUT_PREVIOUS) + STAGE_OUTPUT_MAX + 1];
    const struct output *out;
    size_t n = turn->n;
    struct tensor t;

    (void)snprintf(key, sizeof(key), INPUT_PREVIOUS "/%s", r->name);
    msg_key(o, key);
    while (n > 0 && (outputs_of(x, r->stage, turn->before[n - 1])->is_absent ||
                     !update_plan_plays(x->plan, r->stage, turn->before[n - 1])))
        n--;
    if (n == 0) {
        pack_ones(x, rows, o);
        return 0;
    }
    out = find_output(outputs_of(x, r->stage, turn->before[n - 1]), r->name);
    if (out == NULL)
        return err_set(err, ERR_PROTOCOL, "%s: stage '%s' gave no output '%s'",
                       x->names[turn->before[n - 1]], x->plan->stage[r->stage].name,
                       r->name);
    t = tensor_const_view(out->dtype, out->shape, out->data);
    msg_tensor(o, &t);
    return 0;
}

int exchange_pack(struct exchange *x, int stage, size_t runner,
                  const struct exchange_turn *turn, const struct shape *rows,
                  struct msg_out *o, struct err *err)
{
    const struct stage_decl *s = &x->plan->stage[stage];
    size_t n = 0;

    for (int i = 0; i < s->n_reads; i++) {
        n += (size_t)s->reads[i].previous;
        for (size_t from = 0; from < x->n_runners; from++)
            n += (size_t)reads_from(x, &s->reads[i], runner, from);
    }
    msg_map(o, n);
    for (int i = 0; i < s->n_reads; i++) {
        int rc = 0;

        if (s->reads[i].previous)
            rc = pack_previous(x, &s->reads[i], turn, rows, o, err);
        for (size_t from = 0; from < x->n_runners && rc == 0; from++)
            if (reads_from(x, &s->reads[i], runner, from))
                rc = pack_output(x, &s->reads[i], from, rows, o, err);
        if (rc < 0)
            return rc;
    }
    return 0;
}

/* ---- shapes ---- */

void exchange_state_save(const struct exchange *x, struct wbuf *b)
{
    for (size_t i = 0; i < n_outputs(x); i++) {
        const struct outputs *from = &x->outputs[i];

        wbuf_u8(b, (uint8_t)from->n);
        for (int k = 0; k < from->n; k++) {
            const struct output *o = &from->output[k];

            wbuf_bytes(b, o->name, sizeof(o->name));
            wbuf_u8(b, (uint8_t)o->dtype);
            wbuf_u8(b, (uint8_t)o->shape.rank);
            for (int d = 0; d < o->shape.rank; d++)
                wbuf_u64(b, (uint64_t)o->shape.dim[d]);
        }
    }
}

static int load_output(struct output *o, struct cursor *c)
{
    const uint8_t *name = cursor_bytes(c, sizeof(o->name));
    const int dtype = cursor_u8(c), rank = cursor_u8(c);
    int64_t n;

    if (c->failed || !dtype_valid(dtype) || rank > SHAPE_MAX_RANK)
        return 0;
    memcpy(o->name, name, sizeof(o->name));
    o->dtype = (enum dtype)dtype;
    o->shape.rank = rank;
    for (int d = 0; d < rank; d++)
        o->shape.dim[d] = (int64_t)cursor_u64(c);
    n = shape_elements(&o->shape);
    if (c->failed || o->name[sizeof(o->name) - 1] != '\0' || n < 0 ||
        (uint64_t)n > FRAME_MAX_BYTES / (dtype_size(o->dtype) + 1))
        return 0;
    o->len = o->cap = (size_t)n * dtype_size(o->dtype);
    o->data = xcalloc(o->len, 1);
    return 1;
}

int exchange_state_load(struct exchange *x, struct cursor *c, struct err *err)
{
    for (size_t i = 0; i < n_outputs(x); i++) {
        struct outputs *to = &x->outputs[i];
        const int n = cursor_u8(c);

        for (to->n = 0; to->n < n; to->n++)
            if (n > EXCHANGE_MAX_OUTPUTS || !load_output(&to->output[to->n], c))
                return err_set(err, ERR_FORMAT, "driver state: no outputs of stages");
    }
    return 0;
}
