/* `brood replay`: plays a part of a run again and shows what its agents computed there. */
#include "common/io/write_all.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/msg/frame.h"
#include "common/store/layout.h"
#include "common/store/store_view.h"
#include "supervisor/cli/cli.h"
#include "supervisor/cli/tensor_text.h"
#include "supervisor/control/msg_json.h"
#include "supervisor/env/env.h"
#include "supervisor/export/npy.h"
#include "supervisor/rollout/probe.h"
#include "supervisor/run/replay.h"
#include "supervisor/store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* What a replay shows of a round. It is collected, and printed when the replay is known to equal
 * the run, or has failed for another reason than a difference.
 *
 * Order    by process; of each, in the order in which it was asked.
 * Text     a line of where each value comes from, then the array as `brood inspect` prints
 *          it. JSON: one object per line.
 */

struct replay_view {
    struct replay_item *items; /* private */
    size_t n, cap;
    int with_requests; /* show them, too */
    const char *agent; /* show only this process; NULL: all of them */
    char *ends;        /* a result that would have ended the run; NULL: none */
    char *ends_agent;  /* private */
    /* rows of the log that the requests name: their numbers, and a JSON line of each
     * (private) */
    uint64_t *rows;
    char **row_lines;
    size_t n_rows;
};

enum kind { A_VALUE, A_SCALAR, AN_ORIGIN, A_REQUEST };

struct replay_item {
    enum kind kind;
    struct probe_place at; /* its texts are owned; rows: NULL */
    uint64_t run;
    char *name; /* A_VALUE, A_SCALAR */
    double scalar;
    struct tensor value;   /* A_VALUE; without data: it was too large */
    msgpack_sbuffer bytes; /* the memory of body */
    struct msg body;       /* AN_ORIGIN: the map; A_REQUEST: the request's parameters */
    uint64_t *rows;        /* of the log: AN_ORIGIN those of its places, A_REQUEST all */
    size_t n_rows;
    size_t place; /* in the order of arrival */
};

static struct replay_item *add(struct replay_view *v, enum kind kind,
                               const struct probe_place *at)
{
    struct replay_item *x;

    ARRAY_GROW(v->items, v->n, v->cap);
    x = &v->items[v->n];
    *x = (struct replay_item){.kind = kind, .at = *at, .place = v->n};
    x->at.agent = xstrdup(at->agent);
    x->at.stage = xstrdup(at->stage);
    x->at.rows = NULL;
    v->n++;
    return x;
}

/* ---- collecting ---- */

static int is_wanted(const struct replay_view *v, const struct probe_place *at)
{
    return v->agent == NULL || strcmp(v->agent, at->agent) == 0;
}

static void on_value(void *ctx, const struct probe_value *from)
{
    struct replay_item *x = add(ctx, A_VALUE, from->at);

    x->run = from->run;
    x->name = xstrdup(from->name);
    if (from->value != NULL)
        (void)tensor_copy(&x->value, from->value, NULL);
}

static void on_scalar(void *ctx, const struct probe_place *at, const char *name,
                      double value)
{
    struct replay_item *x;

    if (!is_wanted(ctx, at))
        return;
    x = add(ctx, A_SCALAR, at);
    x->name = xstrdup(name);
    x->scalar = value;
}

static size_t n_rows_of(const struct probe_place *at)
{
    return at->rows != NULL ? at->groups * at->batch * at->length : 0;
}

/* Whether this is a list of numbers: an agent's answer may have any list, or none. */
static int are_numbers(const msgpack_object *list)
{
    for (uint32_t i = 0; list != NULL && i < list->via.array.size; i++)
        if (list->via.array.ptr[i].type != MSGPACK_OBJECT_POSITIVE_INTEGER)
            return 0;
    return list != NULL;
}

/* Finds the rows of the log from which the places of the tensor come, if its first
 * dimension is that of the batch. */
static void find_rows(struct replay_item *x, const struct probe_place *at)
{
    const msgpack_object *shape = NULL, *places = NULL;
    const size_t n = n_rows_of(at);
    uint64_t width = 1;

    if (n == 0 || at->groups > 1 ||
        msg_get_array(&x->body.body, "shape", &shape, NULL) < 0 ||
        msg_get_array(&x->body.body, "places", &places, NULL) < 0 ||
        !are_numbers(shape) || !are_numbers(places) || shape->via.array.size == 0 ||
        shape->via.array.ptr[0].via.u64 != n)
        return;
    for (uint32_t i = 1; i < shape->via.array.size; i++)
        width *= shape->via.array.ptr[i].via.u64;
    if (width == 0)
        return;
    x->rows = xcalloc(places->via.array.size, sizeof(*x->rows));
    for (uint32_t i = 0; i < places->via.array.size; i++) {
        const uint64_t row = at->rows[places->via.array.ptr[i].via.u64 / width % n];
        size_t k = 0;

        while (k < x->n_rows && x->rows[k] != row)
            k++;
        x->rows[k] = row; /* a batch may have a row twice */
        x->n_rows += k == x->n_rows;
    }
}

static void on_origin(void *ctx, const struct probe_place *at, const msgpack_object *o)
{
    struct replay_item *x = add(ctx, AN_ORIGIN, at);
    msgpack_packer pk;

    /* a copy of the object, as the parameters of a notification */
    msgpack_packer_init(&pk, &x->bytes, msgpack_sbuffer_write);
    msgpack_pack_array(&pk, 3);
    msgpack_pack_uint8(&pk, 2);
    msgpack_pack_str(&pk, 1);
    msgpack_pack_str_body(&pk, "-", 1);
    msgpack_pack_object(&pk, *o);
    (void)msg_parse(&x->body, x->bytes.data, x->bytes.size, NULL);
    (void)msg_get_u64(&x->body.body, "run", UINT64_MAX, &x->run, NULL);
    find_rows(x, at);
}

static void on_request(void *ctx, const struct probe_place *at, const void *frame,
                       size_t len)
{
    struct replay_view *v = ctx;
    struct replay_item *x;

    if (!v->with_requests || !is_wanted(v, at))
        return;
    x = add(v, A_REQUEST, at);
    x->n_rows = n_rows_of(at);
    x->rows = xcalloc(x->n_rows, sizeof(*x->rows));
    if (x->n_rows > 0)
        memcpy(x->rows, at->rows, x->n_rows * sizeof(*x->rows));
    (void)msgpack_sbuffer_write(&x->bytes, (const char *)frame + FRAME_HEADER_BYTES,
                                len - FRAME_HEADER_BYTES);
    (void)msg_parse(&x->body, x->bytes.data, x->bytes.size, NULL);
}

static void on_ends(void *ctx, const struct probe_place *at, const char *why)
{
    struct replay_view *v = ctx;

    /* Several agents may report one. Keep that of the first by name: which of them
     * answers first depends on the machine. */
    if (v->ends != NULL && strverscmp(at->agent, v->ends_agent) >= 0)
        return;
    free(v->ends_agent);
    free(v->ends);
    v->ends_agent = xstrdup(at->agent);
    v->ends = xasprintf("%s, %s of update %" PRIu64 ": %s", at->agent, at->stage,
                        at->update, why);
}

/* ---- printing ---- */

static void print_place(const struct replay_item *x)
{
    (void)printf("%s, ", x->at.agent);
    if (strcmp(x->at.stage, PROBE_ACT) == 0)
        (void)printf("act of step %" PRIu64, x->at.step);
    else if (strcmp(x->at.stage, PROBE_AFTER) == 0)
        (void)printf("after the round, at step %" PRIu64, x->at.step);
    else
        (void)printf("%s of update %" PRIu64 ", pass %" PRIu64 ", at step %" PRIu64,
                     x->at.stage, x->at.update, x->at.pass, x->at.step);
    if (x->run > 0)
        (void)printf(", run %" PRIu64, x->run);
    (void)puts(":");
}

static int is_same_place(const struct replay_item *x, const struct replay_item *y)
{
    return strcmp(x->at.agent, y->at.agent) == 0 &&
           strcmp(x->at.stage, y->at.stage) == 0 && x->at.step == y->at.step &&
           x->at.update == y->at.update && x->at.pass == y->at.pass && x->run == y->run;
}

static void begin_json(struct json *j, const char *event, const struct replay_item *x)
{
    msg_json_begin_event(j, event);
    json_put_str(j, "agent", x->at.agent);
    json_put_str(j, "stage", x->at.stage);
    json_put_u64(j, "env_steps", x->at.step);
    if (strcmp(x->at.stage, PROBE_ACT) == 0 || strcmp(x->at.stage, PROBE_AFTER) == 0)
        return;
    json_put_u64(j, "update", x->at.update);
    json_put_u64(j, "pass", x->at.pass);
}

static void print_value(const struct replay_item *x, int json)
{
    const struct tensor *value = x->value.dtype != DT_INVALID ? &x->value : NULL;

    if (json) {
        struct json j = {0};

        begin_json(&j, "tensor", x);
        json_put_u64(&j, "run", x->run);
        if (value != NULL) {
            tensor_put_json(&j, x->name, value->dtype, &value->shape, value);
        } else {
            json_put_str(&j, "name", x->name);
        }
        json_print(&j, stdout);
        return;
    }
    if (value != NULL)
        tensor_print_value(x->name, value);
    else
        (void)printf("tensor: %s is too large for a message\n", x->name);
}

static void print_scalar(const struct replay_item *x, int json)
{
    struct json j = {0};

    if (!json) {
        (void)printf("  %s %.9g\n", x->name, x->scalar);
        return;
    }
    begin_json(&j, "scalar", x);
    json_put_str(&j, "name", x->name);
    json_put_f64(&j, "value", x->scalar);
    json_print(&j, stdout);
}

/* "critic/MatMul:0 is the first that is not finite (MatMul of a:0, b:0): 64 of 65536 values,
 * from rows 12, 34 of the log" */
static void print_origin(const struct replay_item *x, int json)
{
    const msgpack_object *body = &x->body.body, *inputs = NULL, *shape = NULL;
    char name[1024] = "", op[256] = "";
    uint64_t count = 0, all = 1;

    if (json) {
        struct json j = {0};

        begin_json(&j, "nonfinite", x);
        msg_json_put_pairs(&j, body);
        json_put_array(&j, "rows");
        for (size_t i = 0; i < x->n_rows; i++)
            json_u64(&j, x->rows[i]);
        json_close(&j);
        json_print(&j, stdout);
        return;
    }
    (void)msg_get_str(body, "name", name, sizeof(name), NULL);
    (void)msg_get_str(body, "op", op, sizeof(op), NULL);
    (void)msg_get_u64(body, "count", UINT64_MAX, &count, NULL);
    (void)msg_get_array(body, "inputs", &inputs, NULL);
    (void)msg_get_array(body, "shape", &shape, NULL);
    for (uint32_t i = 0; are_numbers(shape) && i < shape->via.array.size; i++)
        all *= shape->via.array.ptr[i].via.u64;
    (void)printf("  not finite: %s, %" PRIu64 " of %" PRIu64 " values: %s", name, count,
                 all, strcmp(op, "Placeholder") == 0 ? "fed" : op);
    if (inputs != NULL && inputs->via.array.size > 0) {
        (void)fputs(" of finite ", stdout);
        for (uint32_t i = 0; i < inputs->via.array.size; i++)
            if (inputs->via.array.ptr[i].type == MSGPACK_OBJECT_STR)
                (void)printf("%s%.*s", i > 0 ? ", " : "",
                             (int)inputs->via.array.ptr[i].via.str.size,
                             inputs->via.array.ptr[i].via.str.ptr);
    }
    if (x->n_rows > 0)
        (void)fputs("; from rows", stdout);
    for (size_t i = 0; i < x->n_rows; i++)
        (void)printf("%s %" PRIu64, i > 0 ? "," : "", x->rows[i]);
    (void)puts(x->n_rows > 0 ? " of the log" : "");
}

/* Puts a request's parameter; a tensor with its values. */
static void put_parameter(struct json *j, const msgpack_object *o)
{
    struct tensor t;

    if (o->type == MSGPACK_OBJECT_MAP) {
        json_object(j);
        for (uint32_t i = 0; i < o->via.map.size; i++) {
            const msgpack_object_kv *kv = &o->via.map.ptr[i];
            char key[256] = "";

            if (kv->key.type != MSGPACK_OBJECT_STR)
                continue;
            (void)snprintf(key, sizeof(key), "%.*s", (int)kv->key.via.str.size,
                           kv->key.via.str.ptr);
            json_key(j, key);
            put_parameter(j, &kv->val);
        }
        json_close(j);
    } else if (o->type == MSGPACK_OBJECT_ARRAY && o->via.array.size == 3 &&
               o->via.array.ptr[2].type == MSGPACK_OBJECT_BIN &&
               msg_to_tensor(o, "a tensor", &t, NULL) == 0) {
        json_object(j);
        tensor_put_json(j, NULL, t.dtype, &t.shape, &t);
        json_close(j);
    } else if (o->type == MSGPACK_OBJECT_BIN) {
        json_array(j);
        for (uint32_t i = 0; i < o->via.bin.size; i++)
            json_u64(j, (uint8_t)o->via.bin.ptr[i]);
        json_close(j);
    } else {
        msg_json_put(j, o);
    }
}

/* ---- rows of the log ---- */

static int compare_numbers(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* The numbers of all rows that requests name, ascending, each once. */
static void list_rows(struct replay_view *v)
{
    size_t all = 0, n = 0;

    for (size_t i = 0; i < v->n; i++)
        all += v->items[i].kind == A_REQUEST ? v->items[i].n_rows : 0;
    free(v->rows);
    v->rows = xcalloc(all + 1, sizeof(*v->rows));
    for (size_t i = 0; i < v->n; i++)
        for (size_t k = 0; v->items[i].kind == A_REQUEST && k < v->items[i].n_rows; k++)
            v->rows[n++] = v->items[i].rows[k];
    qsort(v->rows, n, sizeof(*v->rows), compare_numbers);
    v->n_rows = 0;
    for (size_t i = 0; i < n; i++)
        if (v->rows[i] != ROW_NONE && (i == 0 || v->rows[i] != v->rows[i - 1]))
            v->rows[v->n_rows++] = v->rows[i];
}

static char *row_line(const struct store_layout *l, uint64_t number, const uint8_t *row)
{
    struct json j = {0};
    char *line;

    msg_json_begin_event(&j, "row");
    json_put_u64(&j, "row", number);
    json_put_object(&j, "columns");
    for (uint32_t c = 0; c < l->n_columns; c++) {
        const struct store_column *col = &l->columns[c];

        json_put_array(&j, col->name);
        for (uint32_t i = 0; i < col->elements; i++)
            json_f64(&j, store_column_value(col, row, i));
        json_close(&j);
    }
    json_close(&j);
    json_close(&j);
    line = xstrdup(json_line(&j, NULL));
    json_done(&j);
    return line;
}

static void free_lines(struct replay_view *v)
{
    for (size_t i = 0; v->row_lines != NULL && i < v->n_rows; i++)
        free(v->row_lines[i]);
    free(v->row_lines);
    v->row_lines = NULL;
}

/* "agent_2" comes before "agent_10". */
static int compare(const void *a, const void *b)
{
    const struct replay_item *x = a, *y = b;
    const int order = strverscmp(x->at.agent, y->at.agent);

    return order != 0 ? order : (x->place > y->place) - (x->place < y->place);
}

static void sort(struct replay_view *v)
{
    if (v->n > 0)
        qsort(v->items, v->n, sizeof(*v->items), compare);
}

static void replay_view_print(struct replay_view *v, int json)
{
    sort(v);
    for (size_t i = 0; i < v->n; i++) {
        const struct replay_item *x = &v->items[i];

        if (!json && (i == 0 || !is_same_place(x, x - 1)))
            print_place(x);
        if (x->kind == A_VALUE)
            print_value(x, json);
        else if (x->kind == A_SCALAR)
            print_scalar(x, json);
        else if (x->kind == AN_ORIGIN)
            print_origin(x, json);
        else { /* a request: a line of JSON, also in text mode */
            struct json j = {0};

            begin_json(&j, "request", x);
            json_key(&j, "params");
            put_parameter(&j, &x->body.body);
            json_print(&j, stdout);
        }
    }
    for (size_t i = 0; v->row_lines != NULL && i < v->n_rows; i++)
        if (v->row_lines[i] != NULL)
            (void)fputs(v->row_lines[i], stdout);
}

/* Writes all values as an .npz; their names are AGENT/STAGE/UPDATE.PASS.RUN/TENSOR. */
static int replay_view_write(struct replay_view *v, const char *path, struct err *err)
{
    struct npz *z;
    int rc = npz_begin(&z, path, err);

    if (rc < 0)
        return rc;
    sort(v);
    for (size_t i = 0; i < v->n && rc == 0; i++) {
        const struct replay_item *x = &v->items[i];
        char *name;

        if (x->kind != A_VALUE || x->value.dtype == DT_INVALID)
            continue;
        name = xasprintf("%s/%s/%" PRIu64 ".%" PRIu64 ".%" PRIu64 "/%s", x->at.agent,
                         x->at.stage, x->at.update, x->at.pass, x->run, x->name);
        rc = npz_add(z, name, &x->value, err);
        free(name);
    }
    return npz_end(z, rc, err);
}

static void replay_view_done(struct replay_view *v)
{
    for (size_t i = 0; i < v->n; i++) {
        struct replay_item *x = &v->items[i];

        free((char *)(uintptr_t)x->at.agent);
        free((char *)(uintptr_t)x->at.stage);
        free(x->name);
        free(x->rows);
        tensor_free(&x->value);
        msg_done(&x->body);
        msgpack_sbuffer_destroy(&x->bytes);
    }
    free(v->items);
    free_lines(v);
    free(v->rows);
    free(v->ends_agent);
    free(v->ends);
    *v = (struct replay_view){0};
}

struct replay_options {
    const char *from, *agent, *out, *trace;
    struct cli_texts fetches;
    struct replay_condition until;
    long long to;
    int has_until, messages, trust;
};

static int take_condition(const struct cli *cli, const char *text, void *to)
{
    struct replay_options *o = to;
    struct err err = {0};

    o->has_until = 1;
    return replay_condition_parse(&o->until, text, &err) < 0
               ? cli_usage(cli, "--until %s", err.msg)
               : 0;
}

/* ---- progress, on a terminal ---- */

struct progress_line {
    const struct cli *cli;
    struct replay_view *view;
    int is_shown;
};

static void on_progress(void *ctx, uint64_t from, uint64_t step, uint64_t total)
{
    struct progress_line *p = ctx;

    if (p->cli->quiet || p->cli->json || !isatty(STDERR_FILENO) || total <= from)
        return;
    p->is_shown = 1;
    (void)fprintf(stderr, "\rreplaying from step %" PRIu64 ": %3.0f %% ", from,
                  100.0 * (double)(step > from ? step - from : 0) /
                      (double)(total - from));
}

static void on_skipped(void *ctx, const char *line)
{
    const struct progress_line *p = ctx;

    (void)fprintf(stderr, "brood %s: %s; trying another one\n", p->cli->command->name,
                  line);
}

/* Reads the rows that the requests name, when the replay is over. */
static void on_log(void *ctx, const struct store_layout *layout, int fd)
{
    struct replay_view *v = ((const struct progress_line *)ctx)->view;
    const size_t bytes = (size_t)layout->row_bytes;
    uint8_t *row = xmalloc(bytes);

    free_lines(v);
    list_rows(v);
    v->row_lines = xcalloc(v->n_rows + 1, sizeof(*v->row_lines));
    for (size_t i = 0; i < v->n_rows; i++) {
        const uint64_t at = STORE_HEADER_BYTES + v->rows[i] * layout->row_bytes;

        if (pread_all(fd, row, bytes, at) == (ssize_t)bytes)
            v->row_lines[i] = row_line(layout, v->rows[i], row);
    }
    free(row);
}

/* ---- the result ---- */

static void print_json(const char *run, const struct replay_options *o,
                       const struct replay_view *v, const struct replay_result *r)
{
    struct json j = {0};

    msg_json_begin_event(&j, "done");
    json_put_str(&j, "run", run);
    json_put_u64(&j, "from_checkpoint", r->from);
    json_put_u64(&j, "env_steps", r->to);
    json_put_u64(&j, "rows_compared", r->compared);
    if (r->found) {
        json_put_str(&j, "column", o->until.column);
        json_put_f64(&j, "value", r->value);
    }
    if (r->found && r->has_update)
        json_put_u64(&j, "update", r->update);
    json_put_str(&j, "ends", v->ends);
    json_print(&j, stdout);
}

static void print(const struct cli *cli, const char *run, const struct replay_options *o,
                  struct replay_view *v, const struct replay_result *r)
{
    if (!cli->json) {
        (void)printf("%s: played from the checkpoint of step %" PRIu64 " to step %" PRIu64
                     "; %" PRIu64 " rows are those of its log\n",
                     run, r->from, r->to, r->compared);
        if (r->found)
            (void)printf("%s is %.9g ", o->until.column, r->value);
        if (r->found && r->has_update)
            (void)printf("in update %" PRIu64 " (the first is 0) ", r->update);
        if (r->found)
            (void)printf("at step %" PRIu64 "\n", r->to);
        if (v->ends != NULL)
            (void)printf("there the run ended: %s\n", v->ends);
    }
    replay_view_print(v, cli->json);
    if (cli->json)
        print_json(run, o, v, r);
}

/* Reports a tensor that exists but was not computed in that round. */
static int check_fetched(const struct cli *cli, const struct replay_options *o,
                         const struct replay_view *v)
{
    struct err err = {0};

    for (size_t i = 0; i < o->fetches.n; i++) {
        size_t k = 0;

        while (k < v->n && (v->items[k].kind != A_VALUE ||
                            strcmp(v->items[k].name, o->fetches.text[i]) != 0))
            k++;
        if (k < v->n)
            continue;
        (void)err_set(
            &err, ERR_NOT_FOUND,
            "%s was not computed in that round; if an update computes it, choose a "
            "step with one",
            o->fetches.text[i]);
        return cli_fail(cli, CLI_FAILED, &err);
    }
    return CLI_DONE;
}

static int exit_code(int rc)
{
    switch (rc) {
    case ERR_NOT_FOUND:
        return CLI_NOT_THERE;
    case ERR_CONFIG:
    case ERR_ARG:
        return CLI_USAGE;
    default:
        return CLI_FAILED;
    }
}

static int replay(const struct cli *cli, const struct replay_options *o,
                  struct run_dir *dir, const struct binaries *bin)
{
    struct replay_view view = {.with_requests = o->messages, .agent = o->agent};
    struct progress_line line = {.cli = cli, .view = &view};
    struct replay_args args = {
        .dir = dir,
        .binaries = bin,
        .keeper = &cli->keeper,
        .env_names = env_agent_names,
        .from = o->from,
        .to = (uint64_t)o->to,
        .trace = o->trace,
        .until = o->has_until ? &o->until : NULL,
        .probe = {.fetches = o->fetches.text,
                  .n = o->fetches.n,
                  .agent = o->agent,
                  .origins = o->has_until ? o->until.relation == REPLAY_NONFINITE
                                          : o->fetches.n == 0,
                  .on_value = on_value,
                  .on_scalar = on_scalar,
                  .on_origin = on_origin,
                  .on_request = on_request,
                  .on_ends = on_ends,
                  .ctx = &view},
        .on_skipped = on_skipped,
        .on_progress = on_progress,
        .on_log = o->messages ? on_log : NULL,
        .ctx = &line};
    struct replay_result result;
    struct err err = {0};
    int rc, code = CLI_DONE;

    rc = replay_run(&args, &result, &err);
    if (line.is_shown)
        (void)fputs("\r\033[K", stderr);
    if (rc < 0) {
        if (rc != ERR_CORRUPT) /* ERR_CORRUPT: it is not the run's round */
            replay_view_print(&view, cli->json);
        code = cli_fail(cli, exit_code(rc), &err);
    } else
        print(cli, run_dir_name(dir), o, &view, &result);
    if (code == CLI_DONE && o->out != NULL && replay_view_write(&view, o->out, &err) < 0)
        code = cli_fail(cli, CLI_FAILED, &err);
    if (code == CLI_DONE)
        code = check_fetched(cli, o, &view);
    replay_view_done(&view);
    return code;
}

static int run_replay(struct cli *cli, void *values, int argc, char **argv)
{
    const struct replay_options *o = values;
    struct run_dir *dir = NULL;
    struct binaries bin;
    struct err err = {0};
    char *path = NULL;
    int code;

    if ((o->to > 0) == o->has_until)
        return cli_usage(cli, "expected --to STEP or --until CONDITION");
    if (o->out != NULL && o->fetches.n == 0)
        return cli_usage(cli, "--out is for the values of --fetch TENSOR");
    if (!cli_keep(cli, 0, &code))
        return code;
    if (log_get_level() == LOG_LEVEL_INFO)
        log_set_level(LOG_LEVEL_WARN); /* the run's own lines are in its logs */
    if (run_dir_find(cli->runs_dir, argv[0], &path, &err) < 0)
        return cli_fail(cli, CLI_NOT_THERE, &err);
    if (binaries_find(&bin, &err) < 0)
        code = cli_fail(cli, CLI_FAILED, &err);
    else if ((!o->trust && run_dir_check_trust(path, &err) < 0) ||
             run_dir_open(&dir, path, 0, &err) < 0)
        code = cli_fail(cli, CLI_USAGE, &err);
    else
        code = replay(cli, o, dir, &bin);
    run_dir_free(dir);
    free(path);
    return code;
}

static const struct cli_option options[] = {
    {"to", "STEP", "play to the round that reaches this step; or",
     CLI_NUMBER(struct replay_options, to, 1, INT64_MAX)},
    {"until", "CONDITION",
     "to the first value of a metric for which this holds:\n"
     "'COLUMN > NUMBER' (<, >=, <=) or 'COLUMN is nonfinite'",
     CLI_TAKE(take_condition)},
    {"fetch", "TENSOR",
     "show this tensor of that round: of act, of each stage of its\n"
     "updates, and after it; repeatable",
     CLI_TEXTS(struct replay_options, fetches)},
    {"agent", "AGENT", "of this process alone; default: all that have it",
     CLI_TEXT(struct replay_options, agent)},
    {"messages", NULL,
     "show the requests of that round, with all that they hold, and\n"
     "the rows of their batches, as lines of JSON",
     CLI_FLAG(struct replay_options, messages)},
    {"out", "FILE",
     "also write the tensors as an .npz; names in it are\n"
     "AGENT/STAGE/UPDATE.PASS.RUN/TENSOR",
     CLI_TEXT(struct replay_options, out)},
    {"trace", "FILE", "record that round as `brood trace` does",
     CLI_TEXT(struct replay_options, trace)},
    {"from", "STEP",
     "the checkpoint to play from; default: the newest one before\n"
     "that point, or for most conditions the oldest one",
     CLI_TEXT(struct replay_options, from)},
    {"trust", NULL,
     "replay another user's run; programs that its configuration\n"
     "names are executed",
     CLI_FLAG(struct replay_options, trust)},
    {0}};

const struct command cmd_replay = {
    .name = "replay",
    .arguments = "[RUN] [options]",
    .one = "run",
    .summary = "Play a part of a run again and show any tensor there",
    .options = options,
    CLI_INTO(struct replay_options, 0),
    .help =
        "\nNothing of the run changes, which may be live or over. Rows that the replay\n"
        "appends are compared with the run's log: a difference is an error. The metrics\n"
        "of the round's updates are shown, too; with 'is nonfinite', or without "
        "--fetch,\n"
        "also the tensors that are not finite though computed from finite ones. A\n"
        "condition is tested on each value: each pass of an update, each episode.\n"
        "`brood graph RUN/checkpoints/STEP/AGENT --nodes` lists tensors.\n"
        "\nexample: brood replay simple_spread-1 --to 625000 --agent agent_0\n",
    .run = run_replay,
};
