/* Tensors that a request for act or a stage asks for besides its answer, and `find`. */
#include "agent/loop/service_internal.h"

#include "agent/graph/op_def.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* MAX_BYTES: of all fetched tensors; the rest of a message is the answer's. */
enum { MAX_BYTES = FRAME_MAX_BYTES / 2, MAX_ORIGINS = 16, MAX_PLACES = 16 };

struct fetched {
    size_t which; /* index into outputs */
    unsigned run;
    struct tensor value; /* without data: too large */
};

/* A tensor that is not finite, though it was computed from finite ones. */
struct origin {
    struct output output;
    unsigned run;
    int64_t count;             /* of values that are not finite */
    int64_t place[MAX_PLACES]; /* of the first one in each row that has any */
    int n_places;
    struct shape shape;
};

struct fetch {
    struct session_tap tap;
    struct output *outputs; /* [tap.n] the named ones; for origins, then all */
    char **names;           /* [n_names] */
    size_t n_names;
    struct fetched *list;
    size_t n, cap, bytes;
    int wants_origins;
    uint8_t *is_bad;        /* [operations] 1: has an output that is not finite ... */
    unsigned bad_run;       /* ... in this run */
    struct origin *origins; /* [MAX_ORIGINS] */
    size_t n_origins;
    char *ends; /* why the request failed (fetch_note_failure), or NULL */
};

/* ---- what the runs compute ---- */

static void keep(struct fetch *f, size_t i, const struct tensor *value)
{
    struct fetched *x;

    ARRAY_GROW(f->list, f->n, f->cap);
    x = &f->list[f->n++];
    *x = (struct fetched){.which = i, .run = f->tap.runs - 1, .value = *value};
    x->value.data = NULL;
    x->value.owned = 0;
    if (tensor_bytes(value) > MAX_BYTES - f->bytes ||
        tensor_copy(&x->value, value, NULL) < 0)
        return;
    f->bytes += tensor_bytes(value);
}

/* Counts the values that are not finite, and finds the first one of each row. */
static void find_bad(struct origin *o, const struct tensor *t)
{
    const float *x = tensor_f32(t);
    const int64_t n = tensor_elements(t);
    const int64_t width =
        t->shape.rank > 0 && t->shape.dim[0] > 0 ? n / t->shape.dim[0] : 1;

    for (int64_t i = 0; i < n; i++) {
        if (isfinite(x[i]))
            continue;
        o->count++;
        if (o->n_places < MAX_PLACES &&
            (o->n_places == 0 || o->place[o->n_places - 1] / width != i / width))
            o->place[o->n_places++] = i;
    }
}

static int has_bad_input(const struct fetch *f, const struct operation *op)
{
    for (int i = 0; i < operation_n_inputs(op); i++)
        if (f->is_bad[operation_id(operation_input(op, i).op)])
            return 1;
    return 0;
}

/* The outputs come in the order in which their operations were created, inputs first. */
static void look_for_origin(struct fetch *f, struct output x, const struct tensor *value)
{
    struct origin o = {.output = x, .run = f->tap.runs - 1, .shape = value->shape};

    if (f->n_origins > 0 && f->origins[0].run != o.run)
        return; /* an earlier run has origins; they caused what is bad in later runs */
    if (f->bad_run != f->tap.runs) {
        f->bad_run = f->tap.runs;
        memset(f->is_bad, 0, (size_t)graph_n_operations(operation_graph(x.op)));
    }
    find_bad(&o, value);
    if (o.count == 0)
        return;
    if (operation_n_inputs(x.op) == 1 && output_is_ref(operation_input(x.op, 0)))
        o.output = operation_input(x.op, 0); /* report the variable that it reads */
    if (!has_bad_input(f, x.op) && !f->is_bad[operation_id(x.op)] &&
        f->n_origins < MAX_ORIGINS)
        f->origins[f->n_origins++] = o;
    f->is_bad[operation_id(x.op)] = 1;
}

static void on_value(void *ctx, size_t i, const struct tensor *value)
{
    struct fetch *f = ctx;

    if (i < f->n_names)
        keep(f, i, value);
    else
        look_for_origin(f, f->outputs[i], value);
}

/* ---- the request ---- */

/* Adds the float32 outputs of all operations, but not the reference of a variable:
 * fetched, it could have the variable's value after the run. Its Identity `read` shows
 * the value that the run used. */
static void add_all(struct fetch *f, const struct graph *g)
{
    const int n = graph_n_operations(g);

    f->is_bad = xcalloc((size_t)n + 1, 1);
    f->origins = xcalloc(MAX_ORIGINS, sizeof(*f->origins));
    for (int i = 0; i < n; i++) {
        struct operation *op = graph_operation_at(g, i);
        const int writes = (operation_def(op)->flags & OP_WRITES) != 0;

        for (int k = 0; k < operation_n_outputs(op); k++) {
            const struct output x = {op, k};

            if (output_dtype(x) != DT_FLOAT || (output_is_ref(x) && !writes))
                continue;
            f->outputs = xreallocarray(f->outputs, f->tap.n + 1, sizeof(*f->outputs));
            f->outputs[f->tap.n++] = x;
        }
    }
}

int fetch_begin(struct fetch **ret, struct service *s, const msgpack_object *body,
                struct err *err)
{
    const msgpack_object *names = NULL;
    struct fetch *f;
    int origins = 0, rc;

    *ret = NULL;
    if ((rc = msg_get_array(body, "fetches", &names, err)) < 0 ||
        (rc = msg_get_bool(body, "origins", &origins, err)) < 0 || names == NULL)
        return rc;
    f = xcalloc(1, sizeof(*f));
    f->outputs = xcalloc(names->via.array.size + 1, sizeof(*f->outputs));
    f->names = xcalloc(names->via.array.size + 1, sizeof(*f->names));
    for (uint32_t i = 0; i < names->via.array.size; i++) {
        char name[SERVICE_MAX_NAME];

        if ((rc = service_read_name(&names->via.array.ptr[i], name, err)) < 0) {
            fetch_end(f, s);
            return rc;
        }
        if (service_find_tensor(s, name, &f->outputs[f->n_names], NULL) == 0)
            f->names[f->n_names++] = xstrdup(name);
    }
    f->tap.n = f->n_names;
    f->wants_origins = origins;
    if (origins)
        add_all(f, s->graph);
    f->tap.outputs = f->outputs;
    f->tap.fn = on_value;
    f->tap.ctx = f;
    session_set_tap(s->session, f->tap.n > 0 ? &f->tap : NULL);
    *ret = f;
    return 0;
}

void fetch_end(struct fetch *f, struct service *s)
{
    if (f == NULL)
        return;
    session_set_tap(s->session, NULL);
    for (size_t i = 0; i < f->n; i++)
        tensor_free(&f->list[i].value);
    for (size_t i = 0; i < f->n_names; i++)
        free(f->names[i]);
    free(f->names);
    free(f->outputs);
    free(f->list);
    free(f->is_bad);
    free(f->origins);
    free(f->ends);
    free(f);
}

int fetch_note_failure(struct fetch *f, const struct err *why)
{
    if (f == NULL)
        return 0;
    f->ends = xstrdup(why->msg);
    return 1;
}

/* ---- the answer ---- */

size_t fetch_pairs(const struct fetch *f)
{
    return f == NULL ? 0 : 1u + (f->wants_origins != 0) + (f->ends != NULL);
}

static void pack_output(struct output x, struct msg_out *o)
{
    char name[SERVICE_MAX_NAME];

    msg_str(o, output_name(x, name, sizeof(name)));
}

static void pack_origin(const struct origin *x, struct msg_out *o)
{
    msg_map(o, 7);
    msg_key(o, "name");
    pack_output(x->output, o);
    msg_put_str(o, "op", operation_type(x->output.op));
    msg_put_u64(o, "run", x->run);
    msg_key(o, "inputs");
    msg_array(o, (size_t)operation_n_inputs(x->output.op));
    for (int i = 0; i < operation_n_inputs(x->output.op); i++)
        pack_output(operation_input(x->output.op, i), o);
    msg_key(o, "shape");
    msg_array(o, (size_t)x->shape.rank);
    for (int i = 0; i < x->shape.rank; i++)
        msg_i64(o, x->shape.dim[i]);
    msg_put_i64(o, "count", x->count);
    msg_key(o, "places");
    msg_array(o, (size_t)x->n_places);
    for (int i = 0; i < x->n_places; i++)
        msg_i64(o, x->place[i]);
}

void fetch_pack(const struct fetch *f, struct msg_out *o)
{
    if (f == NULL)
        return;
    msg_key(o, "fetched");
    msg_array(o, f->n);
    for (size_t i = 0; i < f->n; i++) {
        const struct fetched *x = &f->list[i];

        msg_map(o, x->value.data != NULL || tensor_bytes(&x->value) == 0 ? 3 : 2);
        msg_put_str(o, "name", f->names[x->which]);
        msg_put_u64(o, "run", x->run);
        if (x->value.data == NULL && tensor_bytes(&x->value) > 0)
            continue;
        msg_key(o, "value");
        msg_tensor(o, &x->value);
    }
    if (f->wants_origins) {
        msg_key(o, "origins");
        msg_array(o, f->n_origins);
        for (size_t i = 0; i < f->n_origins; i++)
            pack_origin(&f->origins[i], o);
    }
    if (f->ends != NULL) {
        msg_put_str(o, "ends", f->ends);
    }
}

int handle_find(struct service *s, const struct msg *m, struct msg_out *out,
                struct err *err)
{
    const msgpack_object *names = NULL;
    int rc = msg_get_array(&m->body, "fetches", &names, err);
    const uint32_t n = names != NULL ? names->via.array.size : 0;

    if (rc < 0)
        return rc;
    msg_begin_response(out, m->id);
    msg_map(out, 1);
    msg_key(out, "missing");
    msg_array(out, n);
    for (uint32_t i = 0; i < n; i++) {
        struct err why = {0};
        struct output x;
        char name[SERVICE_MAX_NAME];

        if (service_read_name(&names->via.array.ptr[i], name, &why) < 0 ||
            service_find_tensor(s, name, &x, &why) < 0)
            msg_str(out, why.msg);
        else
            msg_str(out, "");
    }
    return 0;
}
