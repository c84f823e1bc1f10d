/* Records some rounds of a live run, for `brood trace`. */
#include "supervisor/run/training_internal.h"

#include "common/ckpt/atomic_file.h"
#include "common/mem/xmalloc.h"
#include "supervisor/trace/trace.h"

#include <stdlib.h>

struct training_trace {
    uint64_t rounds; /* to record */
    uint64_t first;  /* the first round; UINT64_MAX: the recording has not begun */
    uint64_t idle_ns;
    const char *path;
    training_trace_fn fn;
    int (*is_awaited)(void *ctx);
    void *ctx;
};

static int write_file(const char *path, struct err *err)
{
    struct atomic_file *f = NULL;
    int rc = atomic_file_new(&f, path, 0, err);

    if (rc == 0) {
        trace_write(atomic_file_stream(f));
        rc = atomic_file_commit(f, err);
    }
    atomic_file_free(f);
    return rc;
}

static void answer(struct training *t, const struct training_trace *trace, uint64_t round)
{
    const struct training_trace_result result = {
        .path = trace->path,
        .rounds = round - trace->first,
        .seconds = (double)trace_length_ns() / 1e9,
        .waiting_seconds =
            (double)(uv_metrics_idle_time(&t->loop) - trace->idle_ns) / 1e9,
        .left_out = trace_left_out(),
    };
    struct err err = {0};

    if (write_file(result.path, &err) < 0)
        trace->fn(trace->ctx, NULL, &err);
    else
        trace->fn(trace->ctx, &result, NULL);
}

/* why: the error with which the request is answered; NULL: write the file. */
static void end(struct training *t, uint64_t round, const struct err *why)
{
    struct training_trace *trace = t->trace;

    trace_stop();
    t->trace = NULL;
    if (why != NULL)
        trace->fn(trace->ctx, NULL, why);
    else
        answer(t, trace, round);
    trace_clear();
    free(trace);
}

/* Ends a recording that nobody waits for any more. */
static void end_unawaited(struct training *t)
{
    const struct training_trace *trace = t->trace;
    struct err gone = {0};

    if (trace == NULL || trace->is_awaited == NULL || trace->is_awaited(trace->ctx))
        return;
    (void)err_set(&gone, ERR_STATE, "nobody waits for the trace");
    if (trace->first != UINT64_MAX)
        agent_table_trace(t->agents, 0);
    end(t, 0, &gone);
}

int training_trace(struct training *t, uint64_t rounds, const char *path,
                   training_trace_fn fn, int (*is_awaited)(void *ctx), void *ctx,
                   struct err *err)
{
    end_unawaited(t);
    if (life_state_is_ending(t->state))
        return err_set(err, ERR_STATE, "the run is stopping");
    if (training_is_driven(t))
        return err_set(err, ERR_STATE, "a run without an environment has no rounds");
    if (t->trace != NULL)
        return err_set(err, ERR_STATE, "this run is being traced already");
    t->trace = xcalloc(1, sizeof(*t->trace));
    *t->trace = (struct training_trace){
        .rounds = rounds,
        .first = UINT64_MAX,
        .path = path != NULL ? path : run_dir_file(t->args->dir, "trace.json"),
        .fn = fn,
        .is_awaited = is_awaited,
        .ctx = ctx};
    return 0;
}

void training_trace_round(struct training *t, uint64_t round)
{
    struct training_trace *trace;

    end_unawaited(t);
    trace = t->trace;
    if (trace == NULL)
        return;
    if (trace->first == UINT64_MAX) {
        (void)uv_loop_configure(&t->loop, UV_METRICS_IDLE_TIME);
        trace->first = round;
        trace->idle_ns = uv_metrics_idle_time(&t->loop);
        trace_start();
        agent_table_trace(t->agents, 1);
    } else if (round - trace->first >= trace->rounds) {
        agent_table_trace(t->agents, 0);
        end(t, round, NULL);
    }
}

void training_trace_end(struct training *t)
{
    struct err over = {0};

    if (t->trace == NULL)
        return;
    (void)err_set(&over, ERR_STATE, "the run ended before the rounds were recorded");
    end(t, 0, &over);
}
