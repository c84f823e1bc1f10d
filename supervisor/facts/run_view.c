#include "supervisor/facts/run_view.h"

#include "common/mem/xmalloc.h"
#include "supervisor/facts/record.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHOWN_DIGITS = 5 };

void run_view_put(const struct run_view *v, struct json *j)
{
    json_object(j);
    json_put_str(j, "push", "run");
    json_put_str(j, "run", v->name);
    json_put_bool(j, "live", v->is_live);
    json_put_bool(j, "denied", v->is_denied);
    json_put_u64(j, "rows", v->stamps.rows);
    json_put_u64(j, "journal", v->stamps.journal);
    json_put_u64(j, "config", v->stamps.config);
    json_put_u64(j, "checkpoints", v->stamps.checkpoints);
    json_put_object(j, "status");
    run_status_json(j, v->status);
    run_tags_json(v->tags, j);
    json_close(j);
    json_close(j);
}

/* Puts the return of each row that has any or, of many, RUN_SPARK of them. */
static void put_spark(const struct progress *p, struct json *j)
{
    const size_t n_rows = progress_n_rows(p);
    const int is_trained = !isnan(progress_team_return(p));
    const size_t evaluated = progress_find_return(p, n_rows);
    double *values = xcalloc(n_rows + 1, sizeof(*values));
    size_t n = 0;

    for (size_t i = 0; i < n_rows && (is_trained || evaluated < progress_n_columns(p));
         i++) {
        values[n] =
            is_trained ? progress_team_return_in(p, i) : progress_value(p, i, evaluated);
        n += isfinite(values[n]) != 0;
    }
    for (size_t i = 0; i < n && i < RUN_SPARK; i++) {
        char text[32];
        const size_t at = n <= RUN_SPARK ? i : i * (n - 1) / (RUN_SPARK - 1);

        (void)snprintf(text, sizeof(text), "%.*g", SHOWN_DIGITS, values[at]);
        json_raw(j, text, strlen(text));
    }
    free(values);
}

/* Of the newest row, though the run may be over. */
static void put_speed(const struct progress *p, struct json *j)
{
    const size_t column = progress_find(p, PROGRESS_SPEED);

    if (column < progress_n_columns(p))
        json_put_f64(j, "steps_per_second", progress_newest(p, column));
}

void run_summary_put(const struct run_view *v, const char *study,
                     const struct run_config *config, const struct progress *p,
                     struct json *j)
{
    static const char *const keys[] = {
        "began",          "state",           "exit_code",
        "env_steps",      "total_steps",     "episodes",
        "total_episodes", "checkpoint_step", "team_return_mean",
        "returns"};

    const struct run_status *s = v->status;
    uint64_t given_up = 0;

    json_put_str(j, "run", v->name);
    json_put_str(j, "study", study);
    run_status_json_some(j, s, keys, sizeof(keys) / sizeof(keys[0]));
    json_put_bool(j, "live", v->is_live);
    for (size_t i = 0; i < s->n_agents; i++)
        given_up += s->agents[i].given_up != NULL;
    json_put_u64(j, "agents", s->learners != RUN_UNKNOWN ? s->learners : s->n_agents);
    json_put_known(j, "restarts", s->total_restarts != RUN_UNKNOWN, s->total_restarts);
    json_put_u64(j, "given_up", given_up);
    run_setup_put(config, j);
    run_tags_json(v->tags, j);
    if (p != NULL)
        put_speed(p, j);
    json_put_array(j, "spark");
    if (p != NULL)
        put_spark(p, j);
    json_close(j);
}
