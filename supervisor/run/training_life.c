/* Performs the actions of a run's state machine (life_fsm.h). */
#include "supervisor/run/training_internal.h"

#include "common/err/check.h"
#include "common/log/log.h"

#include <stdlib.h>

/* For all processes together, from the request to end until SIGKILL. */
enum { STOP_DEADLINE_MS = 5000 };

/* Time until the next attempt to write to a full disk. */
enum { SPACE_MS = 1000 };

/* ---- actions ---- */

static void do_start_agents(struct training *t, const struct err *why)
{
    struct err err = {0};

    if (agent_table_start(t->agents, &err) < 0)
        training_fail(t, &err);
}

static void do_record_stop(struct training *t, const struct err *why)
{
    t->result->end = TRAINING_STOPPED;
    training_event(t, STOP);
    training_end_restart_delays(t);
}

static void do_report_pause(struct training *t, const struct err *why)
{
    training_event(t, PAUSE);
    training_log(t, "paused at step %llu", (unsigned long long)training_steps(t));
}

static void do_answer_pause(struct training *t, const struct err *why)
{
    training_answer_pause(t, NULL);
}

static void do_report_continue(struct training *t, const struct err *why)
{
    training_event(t, CONTINUE);
    training_log(t, "continued");
}

static void do_report_full(struct training *t, const struct err *why)
{
    training_log_error(t, "%s: the run waits for space", why->msg);
    training_event(t, FULL, .error = why->msg);
}

/* If there is still no space, the driver raises FULL again during rollout_try_again, which
 * starts the timer. */
static void on_space(uv_timer_t *timer)
{
    struct training *t = timer->data;

    if (t->state != LIFE_FULL)
        return;
    rollout_try_again(t->rollout);
    if (!uv_is_active((uv_handle_t *)timer))
        training_feed(t, LIFE_EV_SPACE, NULL);
}

static void do_try_later(struct training *t, const struct err *why)
{
    CHECK(uv_timer_start(&t->space, on_space, SPACE_MS, 0) == 0);
}

static void do_report_space(struct training *t, const struct err *why)
{
    training_log(t, "there is space again: the run continues");
    training_event(t, SPACE);
}

static void do_ask_stop(struct training *t, const struct err *why)
{
    rollout_request_stop(t->rollout);
}

/* The run can be resumed only from its newest checkpoint. */
static void do_discard_round(struct training *t, const struct err *why)
{
    if (why != NULL)
        training_log_error(t, "%s", why->msg);
    training_log_error(t, "the disk is full: the round that has begun is lost");
    training_event(t, STOPPED);
}

static void do_refresh(struct training *t, const struct err *why)
{
    training_refresh(t);
}

static void end_processes(struct training *t, uint64_t deadline_ms)
{
    training_refuse_changes(t);
    if (t->rollout != NULL)
        rollout_abort(t->rollout);
    if (t->cluster != NULL)
        cluster_stop(t->cluster);
    env_host_stop(t->env_host, deadline_ms);
    agent_table_stop(t->agents, deadline_ms);
}

static void do_end(struct training *t, const struct err *why)
{
    end_processes(t, STOP_DEADLINE_MS);
}

static void do_kill(struct training *t, const struct err *why)
{
    end_processes(t, 0);
}

static void do_take_checkpoint(struct training *t, const struct err *why)
{
    training_retry_checkpoint(t);
}

static void do_make_change(struct training *t, const struct err *why)
{
    training_retry_change(t);
}

static void do_write_last(struct training *t, const struct err *why)
{
    training_write_last(t);
}

static void do_unwatch(struct training *t, const struct err *why)
{
    if (t->cluster != NULL)
        cluster_close(t->cluster);
    if (t->args->keeper != NULL)
        keeper_rest(t->args->keeper);
    uv_close((uv_handle_t *)&t->tick, NULL);
    uv_close((uv_handle_t *)&t->space, NULL);
    training_unwatch(t);
}

static void do_close(struct training *t, const struct err *why)
{
    if (run_saver_is_busy(t->saver))
        return; /* WRITER_FREE follows */
    training_check_dir(t);
    if (!training_rescue(t))
        training_feed(t, LIFE_EV_CLOSED, NULL);
}

static void do_answer_all(struct training *t, const struct err *why)
{
    training_fail_if_unsaved(t);
    training_answer_all(t);
    for (size_t i = 0; i < t->args->n_observers; i++)
        if (t->args->observers[i].on_close != NULL)
            t->args->observers[i].on_close(t->args->observers[i].ctx);
}

#define BIT(action) __builtin_ctz(action)

static void (*const actions[])(struct training *t, const struct err *why) = {
    [BIT(LIFE_DO_RECORD_STOP)] = do_record_stop,
    [BIT(LIFE_DO_REPORT_PAUSE)] = do_report_pause,
    [BIT(LIFE_DO_ANSWER_PAUSE)] = do_answer_pause,
    [BIT(LIFE_DO_REPORT_CONTINUE)] = do_report_continue,
    [BIT(LIFE_DO_REPORT_FULL)] = do_report_full,
    [BIT(LIFE_DO_TRY_LATER)] = do_try_later,
    [BIT(LIFE_DO_REPORT_SPACE)] = do_report_space,
    [BIT(LIFE_DO_ASK_STOP)] = do_ask_stop,
    [BIT(LIFE_DO_DISCARD_ROUND)] = do_discard_round,
    [BIT(LIFE_DO_REFRESH)] = do_refresh,
    [BIT(LIFE_DO_END)] = do_end,
    [BIT(LIFE_DO_KILL)] = do_kill,
    [BIT(LIFE_DO_TAKE_CHECKPOINT)] = do_take_checkpoint,
    [BIT(LIFE_DO_MAKE_CHANGE)] = do_make_change,
    [BIT(LIFE_DO_WRITE_LAST)] = do_write_last,
    [BIT(LIFE_DO_UNWATCH)] = do_unwatch,
    [BIT(LIFE_DO_CLOSE)] = do_close,
    [BIT(LIFE_DO_ANSWER_ALL)] = do_answer_all,
    [BIT(LIFE_DO_START_AGENTS)] = do_start_agents,
};

void training_feed(struct training *t, enum life_event event, const struct err *why)
{
    const struct life_step step = life_fsm_step(t->state, event);

    CHECK((step.actions & LIFE_DO_BUG) == 0, "the run is %s: %s",
          life_state_name(t->state), life_event_name(event));
    log_verbose("run: %s, %s -> %s", life_event_name(event), life_state_name(t->state),
                life_state_name(step.next));
    t->state = step.next;
    for (unsigned left = step.actions; left != 0 && t->state == step.next;
         left &= left - 1)
        actions[BIT(left)](t, why);
}

/* ---- events that also set the result or save a checkpoint ---- */

void training_fail(struct training *t, const struct err *err)
{
    if (t->failure.code == 0) {
        t->failure = *err;
        training_record_failure(t, err);
    }
    t->result->end = TRAINING_FAILED;
    training_feed(t, LIFE_EV_FAIL, NULL);
}

void training_on_paused(void *ctx, const struct rollout_progress *at)
{
    training_feed(ctx, LIFE_EV_PAUSED, NULL);
}

void training_on_full(void *ctx, const struct err *why)
{
    training_feed(ctx, LIFE_EV_FULL, why);
}

/* The run's evaluations may have ended it: says so. */
static void record_done(struct training *t)
{
    const struct stop_when_config *rule = &t->config->run.stop_when;
    char *why = NULL;

    if (t->config->run.has_stop_when && verdict_ends(rollout_verdict(t->rollout), rule))
        why = stop_when_text(rule);
    if (why != NULL)
        training_log(t, "stopped at step %llu: %s", (unsigned long long)training_steps(t),
                     why);
    training_event(t, DONE, .why = why);
    free(why);
}

void training_on_done(void *ctx, int stopped)
{
    struct training *t = ctx;

    if (stopped) {
        t->result->end = TRAINING_STOPPED;
        training_event(t, STOPPED);
    } else {
        t->result->end = TRAINING_DONE;
        record_done(t);
    }
    t->kind->on_done(t);
}

void training_on_failed(void *ctx, const struct err *why)
{
    struct training *t = ctx;

    t->kind->on_failed(t);
    training_fail(t, why);
}
