#include "supervisor/events/run_event.h"

#include "common/mem/xmalloc.h"
#include "supervisor/events/run_model.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- the fields of each kind, in the journal's order ---- */

#define OF(kind, member)         MEMBER(struct run_event, kind, member)
#define OF_AS(kind, key, member) MEMBER_AS(struct run_event, kind, key, member)
#define OF_PROCESS(kind, member)                                                         \
    MEMBER_AS(struct run_event, kind, #member, process.member)

static const struct member begin_fields[] = {
    OF_AS(INT, "pid", begin.pid),         OF_AS(INT, "keeper", begin.keeper),
    OF_AS(TEXT, "build", begin.build),    OF_AS(TEXT, "numerics", begin.numerics),
    OF_AS(INT, "version", begin.version), OF_AS(TEXT, "anyway", begin.anyway),
};
static const struct member failure_fields[] = {
    OF_AS(TEXT, "error", failure.error),
    OF_AS(TEXT, "agent", failure.agent),
    OF_AS(TEXT, "file", failure.file),
    OF_AS(U64, "line", failure.line),
};
static const struct member end_fields[] = {
    OF_AS(TEXT, "state", end.state),
    OF_AS(CODE, "code", end.code),
    OF_AS(INT, "pid", end.pid),
    OF_AS(U64, "episodes", end.episodes),
    OF_AS(U64, "rounds", end.rounds),
    OF_AS(U64, "updates", end.updates),
    OF_AS(U64, "restarts", end.restarts),
    OF_AS(SECONDS, "seconds", end.seconds),
    OF_AS(F64, "return", end.team_return),
    OF_AS(SIGNAL, "signal", end.signal),
};
static const struct member stall_fields[] = {
    OF_AS(INT, "pid", stall.pid),
    OF_AS(TEXT, "since", stall.since),
    OF_AS(TEXT, "why", stall.why),
};
static const struct member life_fields[] = {
    OF_PROCESS(TEXT, agent),
    OF_PROCESS(TEXT, environment),
    OF_PROCESS(INT, pid),
    OF_PROCESS(U64, replayed),
};
static const struct member exit_fields[] = {
    OF_PROCESS(TEXT, agent),    OF_PROCESS(TEXT, environment), OF_PROCESS(INT, pid),
    OF_PROCESS(SIGNAL, signal), OF_PROCESS(CODE, code),        OF_PROCESS(TEXT, in),
    OF_PROCESS(TEXT, limit),    OF_PROCESS(SECONDS, seconds),  OF_PROCESS(TEXT, why),
    OF_PROCESS(TEXT, lines),
};
static const struct member slow_fields[] = {
    OF_PROCESS(TEXT, agent),
    OF_PROCESS(TEXT, environment),
    OF_PROCESS(INT, pid),
    OF_PROCESS(SECONDS, seconds),
};
static const struct member wait_fields[] = {
    OF_PROCESS(TEXT, agent),
    OF_PROCESS(TEXT, environment),
    OF_PROCESS(U64, delay_ms),
};
static const struct member mode_fields[] = {
    OF_PROCESS(TEXT, agent), OF_PROCESS(TEXT, mode), OF_PROCESS(U64, position),
    OF_PROCESS(U64, lost),   OF_PROCESS(TEXT, why),
};
static const struct member skip_fields[] = {
    OF_AS(TEXT, "environment", skip.environment),
    OF_AS(U64, "copy", skip.copy),
    OF_AS(U64, "episode", skip.episode),
    OF_AS(BOOL, "evaluation", skip.evaluation),
    OF_AS(U64, "seed", skip.seed),
    OF_AS(U64, "at", skip.at),
    OF_AS(U64, "sum", skip.sum),
    OF_AS(TEXT, "why", skip.why),
};
#define OF_NODE(kind, member) MEMBER_AS(struct run_event, kind, #member, node.member)
static const struct member node_fields[] = {OF_NODE(TEXT, node), OF_NODE(TEXT, host),
                                            OF_NODE(U64, generation)};
static const struct member node_pid_fields[] = {OF_NODE(TEXT, node), OF_NODE(TEXT, host),
                                                OF_NODE(U64, generation),
                                                OF_NODE(INT, pid)};
static const struct member node_why_fields[] = {
    OF_NODE(TEXT, node), OF_NODE(TEXT, host), OF_NODE(U64, generation),
    OF_NODE(TEXT, to),   OF_NODE(TEXT, why),
};
static const struct member node_wait_fields[] = {OF_NODE(TEXT, node),
                                                 OF_NODE(U64, delay_ms)};
static const struct member change_fields[] = {
    OF_AS(U64, "at", change.at),
    OF_AS(CHANGES, "changes", change.changes),
};
static const struct member message_fields[] = {
    OF_AS(TEXT, "text", message.text),
    OF_AS(BOOL, "error", message.error),
};
static const struct member why_fields[] = {OF(TEXT, why)};
static const struct member error_fields[] = {OF(TEXT, error)};
static const struct member name_fields[] = {OF(TEXT, name)};

#define FIELDS(table) table, sizeof(table) / sizeof((table)[0])

enum {
    J = RUN_EVENT_IN_JOURNAL,
    C = RUN_EVENT_IN_JOURNAL | RUN_EVENT_COMMITTED,
    P = RUN_EVENT_PRINTED,
    U = RUN_EVENT_CHANGES_RUN,
    H = RUN_EVENT_HAPPENS_TO_RUN,
};

/* All that is particular to a kind. */
static const struct kind {
    const char *name;
    unsigned readers;
    const struct member *fields;
    size_t n_fields;
    run_fold *fold;    /* NULL: it changes nothing in the model */
    const char *state; /* of the run, process or node afterwards */
} kinds[RUN_EVENT_COUNT] = {
    /* Not printed: `run --json` writes its first and last object itself
     * (cli/train.c). */
    [RUN_EVENT_START] = {"start", J | U, FIELDS(begin_fields), run_fold_begin,
                         "starting"},
    [RUN_EVENT_RESUME] = {"resume", J | U, FIELDS(begin_fields), run_fold_begin,
                          "starting"},
    [RUN_EVENT_FORK] = {"fork", J | U, FIELDS(name_fields)},
    [RUN_EVENT_UNDER_WAY] = {"under-way", 0, NULL, 0},
    [RUN_EVENT_DONE] = {"done", J | U, FIELDS(why_fields), run_fold_done, "stopping"},
    [RUN_EVENT_STOPPED] = {"stopped", J, NULL, 0, run_fold_run, "stopping"},
    [RUN_EVENT_FAILED] = {"failed", J | H, FIELDS(failure_fields), run_fold_failed,
                          "stopping"},
    [RUN_EVENT_END] = {"end", C | U, FIELDS(end_fields), run_fold_end},
    [RUN_EVENT_SUPERVISOR_EXIT] = {"supervisor-exit", J | H, FIELDS(end_fields),
                                   run_fold_supervisor_exit},
    [RUN_EVENT_STALLS] = {"supervisor-stalls", J | H, FIELDS(stall_fields),
                          run_fold_stalls},
    [RUN_EVENT_GOES_ON] = {"supervisor-goes-on", J | H, FIELDS(stall_fields),
                           run_fold_stalls},
    [RUN_EVENT_INEXACT] = {"inexact", J | P | H, FIELDS(why_fields), run_fold_inexact},
    [RUN_EVENT_EXACT] = {"exact", J | P, FIELDS(why_fields)},
    [RUN_EVENT_NOT_PORTABLE] = {"not-portable", J | P, FIELDS(why_fields),
                                run_fold_not_portable},
    [RUN_EVENT_WARNING] = {"warning", J | P, FIELDS(why_fields)},
    [RUN_EVENT_OPENED] = {"opened", J | P, FIELDS(why_fields)},
    [RUN_EVENT_SPAWN] = {"spawn", J | P, FIELDS(life_fields), run_fold_spawn, "starting"},
    [RUN_EVENT_HELLO] = {"hello", J | P, FIELDS(life_fields), run_fold_process},
    [RUN_EVENT_READY] = {"ready", J | P, FIELDS(life_fields), run_fold_ready, "idle"},
    [RUN_EVENT_EXIT] = {"exit", J | P | H, FIELDS(exit_fields), run_fold_exit, "gone"},
    [RUN_EVENT_SLOW] = {"slow-answer", J | P, FIELDS(slow_fields), run_fold_slow},
    [RUN_EVENT_RESPAWN] = {"respawn", J | P | H, FIELDS(life_fields), run_fold_spawn,
                           "starting"},
    [RUN_EVENT_WAIT] = {"wait", J | P | H, FIELDS(wait_fields), run_fold_process,
                        "waiting"},
    [RUN_EVENT_GIVE_UP] = {"give-up", C | P | H, FIELDS(mode_fields), run_fold_mode},
    [RUN_EVENT_REINSTATE] = {"take-back", C | P | H, FIELDS(mode_fields),
                             run_fold_process},
    [RUN_EVENT_MODE] = {"turned", J | P | H, FIELDS(mode_fields), run_fold_mode},
    [RUN_EVENT_SKIP] = {"skip-episode", C | P | H, FIELDS(skip_fields), run_fold_skip},
    [RUN_EVENT_NODE_START] = {"node-start", J | P, FIELDS(node_pid_fields), run_fold_node,
                              "starting"},
    [RUN_EVENT_NODE_RESTART] = {"node-restart", J | P | H, FIELDS(node_pid_fields),
                                run_fold_node, "starting"},
    [RUN_EVENT_NODE_CONNECT] = {"node-connect", J | P, FIELDS(node_pid_fields),
                                run_fold_node, "filling"},
    [RUN_EVENT_NODE_UP] = {"node-up", J | P, FIELDS(node_fields), run_fold_node, "up"},
    [RUN_EVENT_NODE_LOST] = {"node-lost", J | P | H, FIELDS(node_why_fields),
                             run_fold_node_lost, "ending"},
    [RUN_EVENT_NODE_FENCE] = {"node-fence", J | P, FIELDS(node_fields)},
    [RUN_EVENT_NODE_WAIT] = {"node-wait", J | P, FIELDS(node_wait_fields), run_fold_node,
                             "waiting"},
    [RUN_EVENT_NODE_GIVE_UP] = {"node-give-up", J | P | H, FIELDS(node_why_fields),
                                run_fold_node, "gone"},
    [RUN_EVENT_SET] = {"set", C | P | U, FIELDS(change_fields)},
    [RUN_EVENT_WAITS] = {"waits", C | P | U, FIELDS(change_fields)},
    [RUN_EVENT_CANCEL] = {"cancel", C | P | U, FIELDS(change_fields)},
    [RUN_EVENT_CHANGED] = {"changed", J | P | U, FIELDS(change_fields)},
    [RUN_EVENT_REFUSED] = {"refused", J | P | U, FIELDS(error_fields)},
    [RUN_EVENT_PAUSE] = {"pause", J | P | U, NULL, 0, run_fold_run, "paused"},
    [RUN_EVENT_CONTINUE] = {"continue", J | P | U, NULL, 0, run_fold_run, "running"},
    [RUN_EVENT_STOP] = {"stop", J | P | U, NULL, 0, run_fold_run, "stopping"},
    [RUN_EVENT_SIGNAL] = {"signal", J | P | U, FIELDS(name_fields)},
    [RUN_EVENT_CHECKPOINT] = {"checkpoint", J | P, NULL, 0},
    [RUN_EVENT_CHECKPOINT_FAILED] = {"checkpoint-failed", J | P | H,
                                     FIELDS(error_fields)},
    [RUN_EVENT_FULL] = {"full", J | P | H, FIELDS(error_fields)},
    [RUN_EVENT_SPACE] = {"space", J | P | H, NULL, 0},
    [RUN_EVENT_LOG_DROPPED] = {"log-dropped", J | P, NULL, 0},
    [RUN_EVENT_DELETED] = {"deleted", J | P, NULL, 0},
    [RUN_EVENT_ROW] = {"row", P, NULL, 0, run_fold_row},
    [RUN_EVENT_EVALUATION] = {"evaluation", P, NULL, 0},
    [RUN_EVENT_MESSAGE] = {"message", 0, FIELDS(message_fields)},
};

unsigned run_event_readers(enum run_event_kind kind)
{
    return kinds[kind].readers;
}

void run_event_process_init(struct run_event_process *p, const char *agent,
                            const char *environment)
{
    *p = (struct run_event_process){.agent = agent,
                                    .environment = environment,
                                    .code = -1,
                                    .replayed = MEMBER_NO_U64,
                                    .delay_ms = MEMBER_NO_U64,
                                    .seconds = (double)NAN,
                                    .position = MEMBER_NO_U64,
                                    .lost = MEMBER_NO_U64};
}

void run_event_set_failure(struct run_event *e, const struct err *why)
{
    e->failure.error = why->msg;
    e->failure.agent = *why->agent != '\0' ? why->agent : NULL;
    e->failure.file = *why->file != '\0' ? why->file : NULL;
    e->failure.line = why->line > 0 ? (uint64_t)why->line : MEMBER_NO_U64;
}

void run_event_node_init(struct run_event_node *n, const char *node, const char *host)
{
    *n = (struct run_event_node){.node = node,
                                 .host = host,
                                 .generation = MEMBER_NO_U64,
                                 .delay_ms = MEMBER_NO_U64};
}

int run_event_fold(struct run_model *m, const struct run_event *e)
{
    const struct kind *kind = e->kind != RUN_EVENT_COUNT ? &kinds[e->kind] : NULL;
    const int ret = kind != NULL && (kind->fold == NULL || kind->fold(m, e, kind->state));

    run_model_note(m, e);
    return ret;
}

/* ---- pairs of key and value, from which every encoding is made ---- */

struct pair {
    const char *key;
    struct value value;
};

struct pairs {
    struct pair *pair;
    size_t n;
    struct arena arena;
};

static void add_text(struct pairs *p, const char *key, const char *v)
{
    p->pair[p->n++] = (struct pair){key, {.type = MEMBER_TEXT, .text = v}};
}

static void add_number(struct pairs *p, const char *key, double v)
{
    p->pair[p->n++] = (struct pair){key, {.type = MEMBER_F64, .real = v}};
}

static void add_whole(struct pairs *p, const char *key, uint64_t v)
{
    p->pair[p->n++] = (struct pair){key, {.type = MEMBER_I64, .whole = (int64_t)v}};
}

/* Adds the columns of a row of metrics. An evaluation's numbers get the names of the
 * corresponding columns. */
static void add_metrics(struct pairs *p, const struct run_event *e)
{
    const struct evaluation_result *result = e->evaluation.result;

    if (e->kind == RUN_EVENT_ROW) {
        add_whole(p, "episodes", e->row->episodes);
        for (size_t i = 0; i < e->row->n; i++)
            add_number(p, e->row->names[i], e->row->values[i]);
    } else if (e->kind == RUN_EVENT_EVALUATION) {
        add_whole(p, "episodes", result->episodes);
        for (size_t i = 0; i < result->n_agents; i++)
            add_number(p, arena_join(&p->arena, "eval/return/", e->evaluation.agents[i]),
                       result->return_mean[i]);
        add_number(p, "eval/episode_length", result->length_mean);
        for (size_t i = 0; i < result->n_metrics; i++)
            add_number(p, arena_join(&p->arena, "eval/metric/", result->metrics[i]),
                       result->metric_mean[i]);
    }
}

/* Which pairs precede an event's own fields. */
enum head { HEAD_NONE, HEAD_STEP, HEAD_ALL, HEAD_MAX_PAIRS = 3 };

/* Returns the head's pairs and those of all fields that have a value. */
static struct pairs pairs_of(const struct run_event *e, enum head head)
{
    const struct kind *kind = &kinds[e->kind];
    const size_t n_metrics =
        e->kind == RUN_EVENT_ROW ? e->row->n
        : e->kind == RUN_EVENT_EVALUATION
            ? e->evaluation.result->n_agents + e->evaluation.result->n_metrics
            : 0;
    struct pairs p = {0};

    p.pair = ARENA_ARRAY(&p.arena, struct pair,
                         kind->n_fields + n_metrics + 2 + HEAD_MAX_PAIRS);
    if (head == HEAD_ALL) {
        char *name = arena_strdup(&p.arena, kind->name);

        for (char *at = name;
             (at = strchr(at, '-')) != NULL;) /* "give_up" for "give-up" */
            *at = '_';
        add_text(&p, "time", e->time);
        add_text(&p, "event", name);
    }
    if (head != HEAD_NONE)
        add_whole(&p, "env_steps", e->env_steps);
    for (size_t i = 0; i < kind->n_fields; i++) {
        p.pair[p.n] = (struct pair){kind->fields[i].key, member_get(&kind->fields[i], e)};
        p.n += !p.pair[p.n].value.is_absent;
    }
    add_metrics(&p, e);
    return p;
}

/* ---- the journal ---- */

static int is_plain(const char *value)
{
    for (const char *p = value; *p != '\0'; p++)
        if (*p <= ' ' || *p > '~' || *p == '"' || *p == '\\')
            return 0;
    return *value != '\0';
}

static void put_text(FILE *out, const char *value)
{
    struct json j = {0};
    const char *text;
    size_t len;

    if (is_plain(value)) {
        (void)fputs(value, out);
        return;
    }
    json_str(&j, value);
    text = json_line(&j, &len);
    (void)fwrite(text, 1, len - 1, out);
    json_done(&j);
}

char *run_event_line(const struct run_event *e)
{
    char buf[VALUE_TEXT_BYTES];
    struct xstream line;
    struct pairs p;
    FILE *out;

    if ((kinds[e->kind].readers & RUN_EVENT_IN_JOURNAL) == 0)
        return NULL;
    out = xstream_begin(&line);
    (void)fprintf(out, "%s step=%" PRIu64 " event=%s", e->time, e->env_steps,
                  kinds[e->kind].name);
    p = pairs_of(e, HEAD_NONE);
    for (size_t i = 0; i < p.n; i++) {
        (void)fprintf(out, " %s=", p.pair[i].key);
        put_text(out, value_text(&p.pair[i].value, buf));
    }
    arena_done(&p.arena);
    return xstream_end(&line);
}

enum run_event_kind run_event_kind_of(const char *name)
{
    int kind = 0;

    while (kind < RUN_EVENT_COUNT && strcmp(kinds[kind].name, name) != 0)
        kind++;
    return (enum run_event_kind)kind;
}

void run_event_parse(struct run_event *ret,
                     const char *(*find)(const void *ctx, const char *key),
                     const void *ctx)
{
    const struct kind *kind = &kinds[ret->kind];

    for (size_t i = 0; i < kind->n_fields; i++)
        member_parse(&kind->fields[i], ret, find(ctx, kind->fields[i].key));
}

enum member_type run_event_type_of(const char *key)
{
    for (size_t k = 0; k < RUN_EVENT_COUNT; k++) {
        for (size_t i = 0; i < kinds[k].n_fields; i++) {
            const struct member *m = &kinds[k].fields[i];

            if ((kinds[k].readers & RUN_EVENT_IN_JOURNAL) != 0 &&
                strcmp(m->key, key) == 0)
                return m->type;
        }
    }
    return MEMBER_TEXT;
}

/* ---- maps and objects ---- */

static void pack(struct msg_out *o, const struct run_event *e, enum head head)
{
    struct pairs p = pairs_of(e, head);

    msg_map(o, p.n);
    for (size_t i = 0; i < p.n; i++) {
        msg_key(o, p.pair[i].key);
        value_pack(o, &p.pair[i].value);
    }
    arena_done(&p.arena);
}

void run_event_pack(struct msg_out *o, const struct run_event *e)
{
    pack(o, e, HEAD_ALL);
}

void run_event_pack_row(struct msg_out *o, const struct run_event *row)
{
    pack(o, row, HEAD_STEP);
}

void run_event_json(struct json *j, const struct run_event *e)
{
    struct pairs p = pairs_of(e, HEAD_ALL);

    json_object(j);
    for (size_t i = 0; i < p.n; i++) {
        json_key(j, p.pair[i].key);
        value_json(j, &p.pair[i].value);
    }
    json_close(j);
    arena_done(&p.arena);
}
