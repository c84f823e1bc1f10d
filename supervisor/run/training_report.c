#include "supervisor/run/training_internal.h"

#include "common/log/log.h"
#include "common/mem/xmalloc.h"
#include "common/msg/protocol.h"
#include "supervisor/metrics/json.h"
#include "supervisor/proc/signals.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

double training_now_unix(void)
{
    struct timespec t;

    (void)clock_gettime(CLOCK_REALTIME, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

const char *training_end_name(enum training_end end)
{
    static const char *const names[] = {[TRAINING_DONE] = "done",
                                        [TRAINING_STOPPED] = "stopped",
                                        [TRAINING_CUT_OFF] = "cut off",
                                        [TRAINING_FAILED] = "failed"};

    return names[end];
}

void training_journal_begin(struct training *t)
{
    const char *event = t->args->resume != NULL ? "resume" : "start";
    char pid[24], keeper[24], version[24];

    if (t->journal == NULL)
        return;
    (void)snprintf(version, sizeof(version), "%d", NUMERICS_VERSION);
    (void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
    (void)snprintf(keeper, sizeof(keeper), "%d", (int)keeper_pid());
    journal_write(t->journal, training_steps(t), event, "pid", pid, "keeper", keeper,
                  "build", t->args->binaries->build_id, "numerics",
                  numerics_names[t->config->run.numerics], "version", version, NULL);
}

/* "op Pow (layer/Pow) of agent_0", for the first agent whose graph has such a one; free().
 * NULL: there is none. */
static char *first_op_of_libm(const struct training *t)
{
    for (size_t i = 0; i < t->specs.n; i++) {
        const msgpack_object *body = &agent_table_description(t->agents, i)->body;
        char op[256] = "";
        int portable = 1;

        (void)msg_get_bool(body, "portable", &portable, NULL);
        (void)msg_get_str(body, "because", op, sizeof(op), NULL);
        if (!portable)
            return xasprintf("%s of %s", op, t->specs.spec[i].name);
    }
    return NULL;
}

void training_judge_portable(struct training *t)
{
    if (t->config->run.numerics == NUMERICS_NATIVE)
        t->not_portable = xstrdup("run.numerics is native");
    else if (env_config_is_foreign(&t->config->env))
        t->not_portable = xasprintf("an environment of others' (env.%s)",
                                    t->config->env.plugin != NULL ? "plugin" : "command");
    else
        t->not_portable = first_op_of_libm(t);
    if (t->not_portable != NULL)
        journal_write(t->journal, training_steps(t), "not-portable", "why",
                      t->not_portable, NULL);
}

static int exit_code(const struct training_result *r, int rc)
{
    switch (r->end) {
    case TRAINING_DONE:
        return RUN_EXIT_DONE;
    case TRAINING_STOPPED:
        return RUN_EXIT_STOPPED;
    case TRAINING_CUT_OFF:
        return RUN_EXIT_SIGNALLED + r->signum;
    case TRAINING_FAILED:
        break;
    }
    return rc == ERR_CONFIG ? RUN_EXIT_CONFIG : RUN_EXIT_FAILED;
}

void training_journal_end(struct training *t, int rc)
{
    struct training_result *r = t->result;
    struct rollout_progress at = {0};
    char code[24], pid[24], episodes[24], rounds[24], updates[24], restarts[24], s[32];
    char mean[JSON_NUMBER_MAX] = "";
    struct err err = {0};

    r->exit_code = exit_code(r, rc);
    if (t->journal == NULL)
        return;
    if (t->rollout != NULL)
        rollout_progress(t->rollout, &at);
    (void)snprintf(code, sizeof(code), "%d", r->exit_code);
    (void)snprintf(pid, sizeof(pid), "%d", (int)getpid());
    (void)snprintf(episodes, sizeof(episodes), "%" PRIu64, at.episodes);
    (void)snprintf(rounds, sizeof(rounds), "%" PRIu64, at.round);
    (void)snprintf(updates, sizeof(updates), "%" PRIu64, at.updates);
    (void)snprintf(restarts, sizeof(restarts), "%" PRIu64, r->restarts);
    (void)snprintf(s, sizeof(s), "%.3f", r->wall_seconds);
    if (!isnan(r->team_return_mean))
        (void)json_format_f64(r->team_return_mean, mean);
    if (journal_commit(t->journal, &err, training_steps(t), "end", "state",
                       training_end_name(r->end), "code", code, "pid", pid, "episodes",
                       episodes, "rounds", rounds, "updates", updates, "restarts",
                       restarts, "seconds", s, *mean != '\0' ? "return" : NULL, mean,
                       NULL) < 0)
        log_warn("%s", err.msg);
}

void training_say(struct training *t, const char *fmt, ...)
{
    char line[1024];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    log_info("%s", line);
    training_tell(t, on_message, 0, line);
}

void training_complain(struct training *t, const char *fmt, ...)
{
    char line[1024];
    va_list ap;

    va_start(ap, fmt);
    (void)vsnprintf(line, sizeof(line), fmt, ap);
    va_end(ap);
    log_error("%s", line);
    training_tell(t, on_message, 1, line);
}

uint64_t training_steps(const struct training *t)
{
    struct rollout_progress at = {0};

    if (t->rollout != NULL)
        rollout_progress(t->rollout, &at);
    else if (t->args->resume != NULL)
        at = *resume_progress(t->args->resume);
    return at.env_steps;
}

void training_show(struct training *t)
{
    struct rollout_progress at = {.state = "starting"};

    if (t->rollout != NULL)
        rollout_progress(t->rollout, &at);
    training_take_rate(t);
    training_tell(t, on_tick, t->agents, &at);
}

int training_on_row(void *ctx, const struct metrics_row *row, struct err *err)
{
    struct training *t = ctx;
    double sum = 0;
    int teams = 0, rc;

    for (size_t i = 0; i < row->n; i++) {
        if (strncmp(row->names[i], "rollout/team_return/", 20) == 0 &&
            !isnan(row->values[i])) {
            sum += row->values[i];
            teams++;
        }
    }
    if (teams > 0)
        t->result->team_return_mean = sum / teams;
    rc = csv_sink_write(t->csv, row, err);
    if (rc == 0)
        rc = event_sink_write(t->events, row, training_now_unix(), err);
    if (rc == 0)
        training_tell(t, on_row, row);
    return rc;
}

void training_on_evaluation(void *ctx, const struct evaluation_result *result)
{
    struct training *t = ctx;

    training_tell(t, on_evaluation, training_steps(t), result);
}

/* How a process, of an agent or of an environment (kind), ended is told by its signal or
 * its code; what it had to say about that, where nobody wanted it to end. */
static void journal_exit(struct training *t, const char *kind, const char *process,
                         const struct agent_event *e)
{
    char pid[24], code[24], name[SIGNAL_NAME_BYTES];
    const char *more[6] = {NULL};
    size_t n = 0;

    (void)snprintf(pid, sizeof(pid), "%d", (int)e->pid);
    (void)snprintf(code, sizeof(code), "%d", e->exit_code);
    if (e->limit != NULL) {
        more[n++] = "limit";
        more[n++] = e->limit;
    }
    if (e->text != NULL) {
        more[n++] = "why";
        more[n++] = e->text;
    }
    if (*e->lines != '\0' && (e->signal != 0 || e->exit_code != 0)) {
        more[n++] = "lines";
        more[n++] = e->lines;
    }
    journal_write(t->journal, training_steps(t), "exit", kind, process, "pid", pid,
                  e->signal != 0 ? "signal" : "code",
                  e->signal != 0 ? signal_name(e->signal, name) : code, "in",
                  agent_state_name((enum agent_state)e->state), more[0], more[1], more[2],
                  more[3], more[4], more[5], NULL);
}

static void journal_process(struct training *t, const char *kind, const char *process,
                            const struct agent_event *e, const char *event)
{
    char pid[24], replayed[24];

    (void)snprintf(pid, sizeof(pid), "%d", (int)e->pid);
    (void)snprintf(replayed, sizeof(replayed), "%" PRIu64, e->replayed);
    journal_write(t->journal, training_steps(t), event, kind, process, "pid", pid,
                  e->replayed > 0 ? "replayed" : NULL, replayed, NULL);
}

static void journal_wait(struct training *t, const char *kind, const char *name,
                         const struct agent_event *e)
{
    char delay[24];

    (void)snprintf(delay, sizeof(delay), "%llu", (unsigned long long)e->delay_ms);
    journal_write(t->journal, training_steps(t), "wait", kind, name, "delay_ms", delay,
                  NULL);
}

static void say_exit(struct training *t, const char *name, const struct agent_event *e)
{
    const int is_ending = life_state_is_ending(t->state);
    char signal_text[SIGNAL_NAME_BYTES];

    if (is_ending && e->text != NULL && e->signal == 0)
        training_say(t, "%s (pid %d): %s", name, (int)e->pid, e->text);
    if (is_ending || e->failed)
        return;
    if (e->text != NULL)
        training_say(t, "%s (pid %d) was killed: %s", name, (int)e->pid, e->text);
    else if (e->signal != 0)
        training_say(t, "%s (pid %d) was ended by %s", name, (int)e->pid,
                     signal_name(e->signal, signal_text));
    else if (e->exit_code != AGENT_EXIT_NO_RESPAWN)
        training_say(t, "%s (pid %d) ended with code %d", name, (int)e->pid,
                     e->exit_code);
}

void training_note_process(struct training *t, const char *kind, const char *name,
                           const struct agent_event *e)
{
    switch (e->kind) {
    case AGENT_EVENT_SPAWN:
        journal_process(t, kind, name, e, "spawn");
        break;
    case AGENT_EVENT_HELLO:
        journal_process(t, kind, name, e, "hello");
        break;
    case AGENT_EVENT_READY:
        journal_process(t, kind, name, e, "ready");
        break;
    case AGENT_EVENT_EXIT:
        journal_exit(t, kind, name, e);
        say_exit(t, name, e);
        break;
    case AGENT_EVENT_RESPAWN:
        t->result->restarts++;
        journal_process(t, kind, name, e, "respawn");
        training_say(t, "%s lives on as pid %d", name, (int)e->pid);
        break;
    case AGENT_EVENT_WAIT:
        journal_wait(t, kind, name, e);
        training_say(t, "%s is started again in %.1f s", name,
                     (double)e->delay_ms / 1000);
        break;
    case AGENT_EVENT_GIVE_UP:
    case AGENT_EVENT_TAKE_BACK:
    case AGENT_EVENT_TURNED:
        training_note_mode_change(t, name, e);
        break;
    }
}

void training_on_agent_event(void *ctx, const struct agent_event *e)
{
    struct training *t = ctx;
    const char *name = t->specs.spec[e->agent].name;

    training_note_process(t, "agent", name, e);
    if (e->kind == AGENT_EVENT_READY) {
        training_feed(t, LIFE_EV_AGENT_READY, NULL);
        training_settle_respawn(t, e->agent);
    } else if (e->kind == AGENT_EVENT_EXIT) {
        training_note_exit(&t->last_exit[e->agent], e);
    }
    training_tell(t, on_agent, e, name);
}
