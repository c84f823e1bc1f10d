#include "agent/algo/share.h"

#include "agent/graph/ops.h"
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "common/wire/crc32c.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_OF_CALLER = 16, ALIGN_FLOATS = 16 };

const struct stage share_stages[SHARE_N_STAGES] = {
    {.name = "gradients", .runner = STAGE_LEARNERS, .repeat_from = 0},
    {.name = "apply", .runner = STAGE_PS, .writes = 1, .repeat_from = 1},
    {.name = "assign", .runner = STAGE_LEARNERS, .writes = 1, .repeat_from = 2},
};

struct shared_variable {
    struct variable *variable;
    struct output gradient; /* members: the gradient; ps: its placeholder */
    size_t at;              /* place in the vector, in floats */
};

struct share {
    struct share_group group;
    struct shared_variable *variables;
    size_t n;
    size_t part[SHARE_MAX_PARTS + 1]; /* where each part's variables begin and end */
    size_t n_parts;
    uint64_t elements; /* P */
    uint32_t layout;
    struct share_ring ring;
    uint8_t *memory;                          /* the group's; NULL: not set yet */
    struct operation *steps[SHARE_MAX_PARTS]; /* ps */
    size_t n_steps;
    float *mean; /* ps: (P) */
    /* Of a run: the caller's, then those of the variables. */
    struct output *fetches;
    struct tensor *values;
    struct feed *feeds;
    struct operation **targets;
};

struct share *share_new(const struct share_group *group)
{
    struct share *s = xcalloc(1, sizeof(*s));

    s->group = *group;
    return s;
}

void share_free(struct share *s)
{
    if (s == NULL)
        return;
    free(s->variables);
    free(s->mean);
    free(s->fetches);
    free(s->values);
    free(s->feeds);
    free(s->targets);
    free(s);
}

int share_set_memory(struct share *s, void *memory, size_t memory_bytes, struct err *err)
{
    if (memory_bytes < s->ring.bytes)
        return err_set(err, ERR_LIMIT,
                       "the group's memory has %zu bytes, its gradients need %zu",
                       memory_bytes, s->ring.bytes);
    s->memory = memory;
    return 0;
}

int share_is_ps(const struct share *s)
{
    return s->group.self == s->group.n;
}

int share_makes_steps(const struct share *s)
{
    return s == NULL || share_is_ps(s);
}

int share_learns(const struct share *s)
{
    return s == NULL || !share_is_ps(s);
}

const struct share_group *share_group(const struct share *s)
{
    return &s->group;
}

uint64_t share_elements(const struct share *s)
{
    return s->elements;
}

uint32_t share_layout(const struct share *s)
{
    return s->layout;
}

/* ---- building ---- */

/* Gives each of the scope's variables its place; returns how many there are. */
static size_t place_variables(struct share *s, struct graph *g, const char *scope)
{
    const struct collection_item *items;
    const size_t n = collection_get(g, TRAINABLE_VARIABLES, scope, &items);

    s->variables = xreallocarray(s->variables, s->n + n + 1, sizeof(*s->variables));
    for (size_t i = 0; i < n; i++) {
        struct variable *v = items[i].variable;
        const char *slash = strchr(v->name, '/'); /* after the process's own name */
        const char *name = slash != NULL ? slash : v->name;
        const char *shape = shape_text(&v->shape);
        const size_t elements = (size_t)shape_elements(&v->shape);

        s->variables[s->n + i] =
            (struct shared_variable){.variable = v, .at = (size_t)s->elements};
        s->elements += (elements + ALIGN_FLOATS - 1) / ALIGN_FLOATS * ALIGN_FLOATS;
        s->layout = crc32c_extend(s->layout, name, strlen(name) + 1);
        s->layout = crc32c_extend(s->layout, shape, strlen(shape) + 1);
    }
    s->n += n;
    return n;
}

static int check_variables(const struct share *s, size_t first, const char *scope,
                           struct err *err)
{
    if (first == s->n)
        return err_set(err, ERR_ARG, "scope '%s' has no variables to share", scope);
    for (size_t i = first; i < s->n; i++)
        if (s->variables[i].variable->dtype != DT_FLOAT)
            return err_set(err, ERR_DTYPE, "variable %s is %s; only float32 is shared",
                           s->variables[i].variable->name,
                           dtype_name(s->variables[i].variable->dtype));
    return 0;
}

/* Members: gradients of the part's loss. */
static int build_gradients(struct share *s, struct graph *g, const struct share_part *p,
                           size_t first, struct err *err)
{
    const size_t n = s->n - first;
    struct variable **vars = xcalloc(n, sizeof(struct variable *));
    struct gradient *grads = xcalloc(n, sizeof(*grads));
    int r;

    for (size_t i = 0; i < n; i++)
        vars[i] = s->variables[first + i].variable;
    r = compute_gradients(g, p->loss, vars, n, grads, err);
    for (size_t i = 0; r == 0 && i < n; i++) {
        s->variables[first + i].gradient = grads[i].grad;
        if (!output_valid(grads[i].grad))
            r = err_set(err, ERR_ARG, "the loss does not depend on shared variable %s",
                        vars[i]->name);
    }
    free(vars);
    free(grads);
    return r;
}

/* ps: builds a step with gradients that are fed. */
static int build_step(struct share *s, struct graph *g, struct share_part *p,
                      size_t first, struct err *err)
{
    const size_t n = s->n - first;
    struct gradient *grads = xcalloc(n + p->n_own, sizeof(*grads));
    struct operation *step;

    for (size_t i = 0; i < n; i++) {
        struct shared_variable *v = &s->variables[first + i];

        v->gradient = placeholder(g, DT_FLOAT, &v->variable->shape, "gradient");
        grads[i] = (struct gradient){v->gradient, v->variable};
    }
    for (size_t i = 0; i < p->n_own; i++)
        grads[n + i] = p->own[i];
    step = apply_clipped(g, grads, n + p->n_own, &p->step);
    free(grads);
    s->steps[s->n_steps++] = step;
    return step != NULL ? 0 : err_pass(err, graph_error(g));
}

int share_build(struct share *s, struct graph *g, struct share_part *parts, size_t n,
                struct err *err)
{
    int r = 0;

    CHECK(s->elements == 0 && n <= SHARE_MAX_PARTS);
    for (size_t i = 0; r == 0 && i < n; i++) {
        const size_t first = s->n;

        (void)place_variables(s, g, parts[i].step.scope);
        r = check_variables(s, first, parts[i].step.scope, err);
        if (r == 0)
            r = share_is_ps(s) ? build_step(s, g, &parts[i], first, err)
                               : build_gradients(s, g, &parts[i], first, err);
        s->part[++s->n_parts] = s->n;
    }
    if (r == 0)
        r = share_ring_init(&s->ring, s->group.n, s->elements, err);
    if (r < 0)
        return r;
    const size_t most = s->n + MAX_OF_CALLER;
    s->fetches = xcalloc(most, sizeof(*s->fetches));
    s->values = xcalloc(most, sizeof(*s->values));
    s->feeds = xcalloc(most, sizeof(*s->feeds));
    s->targets = xcalloc(MAX_OF_CALLER + SHARE_MAX_PARTS, sizeof(struct operation *));
    s->mean = share_is_ps(s) ? mem_aligned((size_t)s->elements * sizeof(float)) : NULL;
    if (share_is_ps(s) && s->mean == NULL)
        return err_set(err, ERR_NOMEM, "no memory for %" PRIu64 " gradients",
                       s->elements);
    return 0;
}

/* The part behind the last one of a range. */
static size_t end_of(const struct share *s, struct share_range parts)
{
    const size_t end = parts.first + parts.n;

    return end < s->n_parts ? end : s->n_parts;
}

/* ---- slots ---- */

static int check_slot(const struct share *s, const struct stage_args *args,
                      struct err *err)
{
    if (s->memory == NULL)
        return err_set(err, ERR_STATE, "stage %s: the group has no memory",
                       args->stage->name);
    if (args->slot >= s->ring.slots)
        return err_set(err, ERR_PROTOCOL,
                       "stage %s: slot %" PRIu64 " of a group with %" PRIu64,
                       args->stage->name, args->slot, s->ring.slots);
    return 0;
}

/* The floats behind a vector's header. */
static float *vector_at(const struct share *s, uint64_t slot, uint64_t vector,
                        struct share_header **ret_header)
{
    uint8_t *p = s->memory + share_ring_offset(&s->ring, slot, vector);

    *ret_header = (struct share_header *)(void *)p;
    return (float *)(void *)(p + sizeof(struct share_header));
}

/* What was written of the same step, of other parts and measured, stays. */
static void write_header(const struct share *s, struct share_range parts,
                         const struct stage_args *args, float weight,
                         struct share_header *h)
{
    const int is_same = h->elements == s->elements && h->update == args->update &&
                        h->repeat == args->repeat;

    if (!is_same)
        *h = (struct share_header){
            .elements = s->elements, .update = args->update, .repeat = args->repeat};
    for (size_t i = parts.first; i < end_of(s, parts); i++)
        h->weight[i] = weight;
}

/* Finds a vector that another process wrote for this step, and copies its header. */
static int read_vector(const struct share *s, const struct stage_args *args,
                       uint64_t vector, const float **ret, struct share_header *h,
                       struct err *err)
{
    struct share_header *at;
    int is_fine;

    *ret = vector_at(s, args->slot, vector, &at);
    memcpy(h, at, sizeof(*h));
    is_fine = h->elements == s->elements && h->update == args->update &&
              h->repeat == args->repeat;
    for (size_t i = 0; i < SHARE_MAX_PARTS; i++)
        is_fine = is_fine && h->weight[i] >= 0 && isfinite(h->weight[i]);
    return is_fine ? 0
                   : err_set(err, ERR_STATE,
                             "stage %s of update %" PRIu64 ": slot %" PRIu64
                             " of the shared memory does not hold vector %" PRIu64
                             " of this step",
                             args->stage->name, args->update, args->slot, vector);
}

static struct tensor view(const struct shared_variable *v, float *vector)
{
    return tensor_view(DT_FLOAT, v->variable->shape, vector + v->at);
}

/* ---- stages ---- */

/* The variables of the parts: first .. end-1. */
static void find_variables(const struct share *s, struct share_range parts,
                           size_t *ret_first, size_t *ret_end)
{
    CHECK(parts.first < s->n_parts, "part %zu of %zu", parts.first, s->n_parts);
    *ret_first = s->part[parts.first];
    *ret_end = s->part[end_of(s, parts)];
}

int share_gradients(struct share *s, struct share_range parts, struct session *session,
                    const struct run_args *run, struct tensor *values,
                    const struct stage_args *args, float weight, struct err *err)
{
    const size_t n = run->n_fetches;
    struct run_args all = *run;
    struct share_header *header;
    size_t first, end;
    float *vector;
    int r = check_slot(s, args, err);

    CHECK(n <= MAX_OF_CALLER && !share_is_ps(s));
    if (r < 0)
        return r;
    find_variables(s, parts, &first, &end);
    vector = vector_at(s, args->slot, s->group.self, &header);
    for (size_t i = 0; i < n; i++) {
        s->fetches[i] = run->fetches[i];
        s->values[i] = values[i];
    }
    for (size_t i = first; i < end; i++) {
        s->fetches[n + i - first] = s->variables[i].gradient;
        s->values[n + i - first] = view(&s->variables[i], vector);
    }
    all.fetches = s->fetches;
    all.n_fetches = n + end - first;
    r = session_run(session, &all, s->values, err);
    for (size_t i = 0; r == 0 && i < n; i++)
        values[i] = s->values[i];
    if (r == 0)
        write_header(s, parts, args, weight, header);
    return r;
}

/* to = w x, or to += w x. A weight of 1 changes no bit of x. */
static void add_weighted(float *restrict to, const float *restrict x, float w, size_t n,
                         int is_first)
{
    if (is_first)
        for (size_t i = 0; i < n; i++)
            to[i] = w * x[i];
    else
        for (size_t i = 0; i < n; i++)
            to[i] += w * x[i];
}

/* The mean of the gradients of a part. */
static int form_mean(struct share *s, const struct stage_args *args, size_t part,
                     struct err *err)
{
    const size_t first = s->part[part], end = s->part[part + 1];
    const size_t begin = s->variables[first].at;
    const size_t n = (end < s->n ? s->variables[end].at : (size_t)s->elements) - begin;
    float *mean = s->mean + begin;
    float total = 0, scale;

    for (size_t i = 0; i < s->group.n; i++) {
        struct share_header h;
        const float *x;
        const int r = read_vector(s, args, i, &x, &h, err);

        if (r < 0)
            return r;
        add_weighted(mean, x + begin, h.weight[part], n, i == 0);
        total += h.weight[part];
    }
    scale = total > 0 ? 1.0f / total : 0.0f;
    for (size_t i = 0; i < n; i++)
        mean[i] *= scale;
    return 0;
}

static int write_values(struct share *s, struct share_range parts,
                        struct session *session, const struct stage_args *args,
                        struct err *err)
{
    struct share_header *header;
    float *vector = vector_at(s, args->slot, s->group.n, &header);
    size_t first, end;

    find_variables(s, parts, &first, &end);
    for (size_t i = first; i < end; i++) {
        struct tensor t;
        const int r = session_variable(session, s->variables[i].variable, &t, err);

        if (r < 0)
            return r;
        memcpy(vector + s->variables[i].at, t.data, tensor_bytes(&t));
    }
    write_header(s, parts, args, 1, header);
    return 0;
}

int share_apply(struct share *s, struct share_range parts, struct session *session,
                const struct run_args *run, struct tensor *values,
                const struct stage_args *args, struct err *err)
{
    struct run_args all = *run;
    size_t first, end;
    int r = check_slot(s, args, err);

    CHECK(run->n_feeds <= MAX_OF_CALLER && run->n_targets <= MAX_OF_CALLER &&
          share_is_ps(s));
    find_variables(s, parts, &first, &end);
    for (size_t i = parts.first; r == 0 && i < end_of(s, parts); i++)
        r = form_mean(s, args, i, err);
    if (r < 0)
        return r;
    for (size_t i = 0; i < run->n_feeds; i++)
        s->feeds[i] = run->feeds[i];
    all.feeds = s->feeds;
    for (size_t i = first; i < end; i++)
        s->feeds[all.n_feeds++] =
            (struct feed){s->variables[i].gradient, view(&s->variables[i], s->mean)};
    for (size_t i = 0; i < run->n_targets; i++)
        s->targets[i] = run->targets[i];
    all.targets = s->targets;
    for (size_t i = parts.first; i < s->n_steps && i < parts.first + parts.n; i++)
        s->targets[all.n_targets++] = s->steps[i];
    r = session_run(session, &all, values, err);
    return r < 0 ? r : write_values(s, parts, session, args, err);
}

int share_step(struct share *s, struct share_range parts, struct session *session,
               const struct run_args *run, struct tensor *values,
               const struct stage_args *args, float weight, struct err *err)
{
    struct run_args rest = *run;

    if (s == NULL)
        return session_run(session, run, values, err);
    rest.n_targets = 0;
    return share_is_ps(s)
               ? share_apply(s, parts, session, &rest, values, args, err)
               : share_gradients(s, parts, session, &rest, values, args, weight, err);
}

int share_measure(struct share *s, const struct stage_args *args, double sum, double rows,
                  struct err *err)
{
    struct share_header *header;
    const int rc = check_slot(s, args, err);

    if (rc < 0)
        return rc;
    (void)vector_at(s, args->slot, s->group.self, &header);
    header->measure = sum;
    header->measured_rows = rows;
    return 0;
}

int share_measured(struct share *s, const struct stage_args *args, double *ret_mean,
                   struct err *err)
{
    const uint64_t first = share_is_ps(s) ? 0 : s->group.n;
    const uint64_t end = share_is_ps(s) ? s->group.n : first + 1;
    double sum = 0, rows = 0;
    int rc = check_slot(s, args, err);

    for (uint64_t i = first; rc == 0 && i < end; i++) {
        struct share_header h;
        const float *vector;

        rc = read_vector(s, args, i, &vector, &h, err);
        sum += h.measure;
        rows += h.measured_rows;
    }
    if (rc == 0 && share_is_ps(s)) {
        struct share_header *own;

        (void)vector_at(s, args->slot, s->group.n, &own);
        own->measure = sum;
        own->measured_rows = rows;
    }
    *ret_mean = rows > 0 ? sum / rows : 0;
    return rc;
}

int share_assign(struct share *s, struct share_range parts, struct session *session,
                 const struct stage_args *args, struct err *err)
{
    struct share_header header;
    const float *vector;
    size_t first, end;
    int r = check_slot(s, args, err);

    find_variables(s, parts, &first, &end);
    if (r == 0)
        r = read_vector(s, args, s->group.n, &vector, &header, err);
    for (size_t i = first; r == 0 && i < end; i++) {
        const struct shared_variable *v = &s->variables[i];
        const struct tensor t =
            tensor_const_view(DT_FLOAT, v->variable->shape, vector + v->at);

        r = session_variable_set(session, v->variable, &t, err);
    }
    return r;
}
