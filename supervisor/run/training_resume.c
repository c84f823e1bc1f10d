/* Resuming a run. Nothing in the run directory changes until everything is loaded. */
#include "supervisor/run/training_internal.h"

#include "common/io/tree.h"
#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <string.h>

/* Records why the run will not end with the bytes of an undisturbed one; only the first
 * reason is kept. */
static void mark_inexact(struct training *t, const char *why, size_t len)
{
    if (t->inexact != NULL)
        return;
    t->inexact = xstrndup(why, len);
    training_event(t, INEXACT, .why = t->inexact);
}

void training_lose_bits(struct training *t, const char *agent, const char *since)
{
    char line[AGENT_NAME_MAX + 128];

    if (t->inexact != NULL)
        return;
    (void)snprintf(line, sizeof(line),
                   "%s, and the program of %s need not repeat its bits", since, agent);
    training_log(t, "from here on the run is not exact: %s", line);
    mark_inexact(t, line, strlen(line));
}

/* A program that need not repeat its bits is another one after a resume. */
static void mark_programs(struct training *t)
{
    const struct run_config *c = t->args->config;

    for (size_t i = 0; t->args->resume != NULL && i < c->n_agents; i++)
        if (c->agents[i].is_inexact)
            training_lose_bits(t, c->agents[i].name, "the run was resumed");
}

/* A resume that fails before it is committed leaves no line in the journal. But if the
 * keeper started this supervisor after another one had died, the journal must record how
 * this one ends. */
int training_begin_resume(struct training *t, struct err *err)
{
    const struct training_args *args = t->args;
    struct keeper_task again;
    const struct checkpoint_section *was =
        args->resume != NULL ? resume_section(args->resume, SECTION_INEXACT) : NULL;

    if (was != NULL)
        mark_inexact(t, was->data, was->len);
    if (args->differs.code != 0)
        mark_inexact(t, args->differs.msg, strlen(args->differs.msg));
    mark_programs(t);
    t->committed = args->resume == NULL;
    return t->committed || keeper_resume_task(&again) ? journal_begin(t->journal, err)
                                                      : 0;
}

static int check_fingerprint(struct training *t, struct err *err)
{
    struct err why = {0};

    if (resume_check_fingerprint(t->args->resume, t->agents, &why) == 0)
        return 0;
    if (!t->args->anyway) {
        *err = why;
        return why.code;
    }
    training_log_error(t, "%s", why.msg);
    mark_inexact(t, why.msg, strlen(why.msg));
    return 0;
}

/* Reports that the build or the CPU is another than the checkpoint's, with the same
 * results. */
static void report_exact(struct training *t)
{
    const struct resume *from = t->args->resume;
    const int build = !resume_is_same_build(from, t->args->binaries->build_id);
    const int cpu = resume_check_fingerprint(from, t->agents, NULL) != 0;
    char line[96];

    if (t->inexact != NULL || (!build && !cpu))
        return;
    (void)snprintf(line, sizeof(line), "another %s exactly: numerics %d",
                   build && cpu ? "build and another CPU continue"
                   : build      ? "build continues"
                                : "CPU continues",
                   NUMERICS_VERSION);
    training_log(t, "%s", line);
    training_event(t, EXACT, .why = line);
}

/* Whether the rows of metrics can be continued: what cannot be is refused while nothing is
 * removed yet. A missing folder is made. */
static int check_sinks(struct training *t, struct err *err)
{
    const char *csv = run_dir_file(t->args->dir, "metrics/progress.csv");
    const char *folder = run_dir_file(t->args->dir, "metrics");
    int rc = tree_make(folder, err);

    if (rc == 0)
        rc = csv_sink_check(csv, t->metrics, err);
    return rc < 0 ? rc : event_sink_check(folder, err);
}

/* Records what the command changes, so that a resume from an earlier step finds it. */
static int record_changes(struct training *t, struct err *err)
{
    const struct training_args *args = t->args;
    const uint64_t step = training_steps(t);
    const struct run_event e = {
        .kind = RUN_EVENT_CANCEL,
        .env_steps = step,
        .change = {.at = MEMBER_NO_U64, .changes = args->cancelled}};
    int rc = 0;

    /* in this order: with the first line alone, the next resume finds the same length */
    if (args->given != NULL)
        rc = training_write_settings(t, RUN_EVENT_SET, step, args->given, err);
    if (rc == 0 && args->cancelled != NULL) {
        rc = training_event_at(t, &e, err);
        training_log(t, "cancelled: %s", args->cancelled);
    }
    return rc;
}

/* Begins to change the run directory: writes config.yaml, begins the journal, removes
 * later checkpoints and rows. */
int training_commit_resume(struct training *t, struct err *err)
{
    int rc = check_sinks(t, err);

    if (rc == 0)
        rc = training_write_config(t, err);
    if (rc == 0)
        rc = journal_begin(t->journal, err);
    if (rc == 0)
        rc = record_changes(t, err);
    if (rc == 0)
        rc = resume_discard_later(t->args->resume, t->store, err);
    if (rc < 0)
        return rc;
    t->committed = 1;
    if (t->args->keeper != NULL)
        keeper_send_committed(t->args->keeper);
    return 0;
}

int training_preload(struct training *t, struct err *err)
{
    const struct resume *from = t->args->resume;
    const struct checkpoint_section *state = resume_section(from, SECTION_ROLLOUT);
    int rc = resume_preload(from, t->agents, err);

    return rc < 0 ? rc
                  : rollout_state_positions(t->agents, vec_env_spec(t->env)->n_agents,
                                            state->data, state->len, err);
}

/* The evaluations up to the checkpoint. A best one whose checkpoint is not there is none: a fork has
 * only the one that it begins with. */
static int load_verdict(struct training *t, struct err *err)
{
    const char *checkpoints = run_dir_file(t->args->dir, "checkpoints");
    struct verdict v;
    const int rc = resume_verdict(t->args->resume, t->config, &v, err);

    if (rc == 0 && v.kept.is_known && !checkpoint_is_there(checkpoints, v.kept.step))
        v.kept = v.kept_before = (struct best_value){0};
    if (rc == 0)
        rollout_set_verdict(t->rollout, &v);
    return rc;
}

int training_load_state(struct training *t, struct err *err)
{
    const struct resume *from = t->args->resume;
    const struct checkpoint_section *state = resume_section(from, SECTION_ROLLOUT);
    int rc = t->model.status.not_portable != NULL ? check_fingerprint(t, err) : 0;

    if (rc == 0) {
        report_exact(t);
        rc = resume_check_agents(from, t->agents, err);
    }
    if (rc == 0)
        rc = rollout_state_load(t->rollout, state->data, state->len, err);
    if (rc == 0)
        rc = load_verdict(t, err);
    if (rc == 0)
        rc = training_plan_mode_changes(t, err);
    return rc < 0 ? rc : t->kind->commit_resume(t, err);
}
