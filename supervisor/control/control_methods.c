#include "supervisor/control/control_methods.h"

#include "common/mem/xmalloc.h"
#include "common/msg/protocol.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_CHANGES = 256, CHANGE_MAX_BYTES = 512 };

/* ---- answers at once ---- */

static int answer_status(struct training *t, const struct msg *m, struct msg_out *o,
                         struct err *err)
{
    struct rollout_progress at;
    const struct agent_table *agents = training_look(t, &at);
    size_t n = agent_table_count(agents);

    msg_map(o, 4);
    msg_key(o, "run");
    msg_str(o, training_name(t));
    msg_key(o, "state");
    msg_str(o, at.state);
    msg_key(o, "env_steps");
    msg_u64(o, at.env_steps);
    msg_key(o, "agents");
    msg_array(o, n);
    for (size_t i = 0; i < n; i++) {
        struct agent_info info;

        agent_table_info(agents, i, &info);
        msg_map(o, 4);
        msg_key(o, "name");
        msg_str(o, info.name);
        msg_key(o, "pid");
        msg_u64(o, (uint64_t)info.pid);
        msg_key(o, "state");
        msg_str(o, agent_state_name(info.state));
        msg_key(o, "restarts");
        msg_u64(o, info.restarts);
    }
    return 0;
}

/* Copies of the assignments, terminated; free() each. */
static int read_changes(const struct msg *m, char **words, size_t *ret_n, struct err *err)
{
    const msgpack_object *list = NULL;
    int rc = msg_get_array(&m->body, "changes", &list, err);

    *ret_n = 0;
    if (rc < 0)
        return rc;
    if (list == NULL || list->via.array.size > MAX_CHANGES)
        return err_set(err, ERR_PROTOCOL, "changes: a list of at most %d KEY=VALUE",
                       MAX_CHANGES);
    for (uint32_t i = 0; i < list->via.array.size; i++) {
        const msgpack_object *o = &list->via.array.ptr[i];

        if (o->type != MSGPACK_OBJECT_STR || o->via.str.size > CHANGE_MAX_BYTES ||
            memchr(o->via.str.ptr, '\0', o->via.str.size) != NULL)
            return err_set(err, ERR_PROTOCOL, "changes: texts of at most %d bytes",
                           CHANGE_MAX_BYTES);
        words[(*ret_n)++] = xstrndup(o->via.str.ptr, o->via.str.size);
    }
    return 0;
}

static int answer_set(struct training *t, const struct msg *m, struct msg_out *o,
                      struct err *err)
{
    struct training_set_result r = {0};
    char *words[MAX_CHANGES];
    uint64_t at = TRAINING_SOON;
    size_t n;
    int rc = read_changes(m, words, &n, err);

    if (rc == 0)
        rc = msg_get_u64(&m->body, "at", TRAINING_SOON, &at, err);
    if (rc == 0)
        rc = training_set(t, (const char *const *)words, n, at, &r, err);
    for (size_t i = 0; i < n; i++)
        free(words[i]);
    if (rc < 0)
        return rc;
    msg_map(o, 3);
    msg_key(o, "at");
    msg_u64(o, r.at);
    msg_key(o, "changes");
    msg_str(o, r.changes);
    msg_key(o, "waits");
    msg_str(o, r.waits);
    training_set_result_done(&r);
    return 0;
}

static int read_agent(struct training *t, const struct msg *m, size_t *ret,
                      struct err *err)
{
    struct rollout_progress at;
    const struct agent_table *agents = training_look(t, &at);
    char name[AGENT_NAME_MAX] = "";
    int rc = msg_get_str(&m->body, "agent", name, sizeof(name), err);

    if (rc < 0)
        return rc;
    *ret = agent_table_find(agents, name);
    return *ret < agent_table_count(agents)
               ? 0
               : err_set(err, ERR_NOT_FOUND, "there is no agent '%s'", name);
}

static int answer_respawn(struct training *t, const struct msg *m, struct msg_out *o,
                          struct err *err)
{
    size_t agent;
    int rc = read_agent(t, m, &agent, err);

    if (rc == 0)
        rc = training_respawn_agent(t, agent, err);
    msg_map(o, 0);
    return rc;
}

static int answer_checkpoint(struct training *t, const struct msg *m, struct msg_out *o,
                             struct err *err)
{
    msg_map(o, 0);
    return training_ask_checkpoint(t, err);
}

static int answer_stop(struct training *t, const struct msg *m, struct msg_out *o,
                       struct err *err)
{
    msg_map(o, 0);
    return training_ask_stop(t, err);
}

/* ---- run: the answer comes later ---- */

struct asked {
    struct client *client;
    uint32_t id;
};

static void on_run(void *ctx, void *client, const msgpack_object *result,
                   const struct err *why)
{
    struct asked *a = ctx;
    struct msg_out o;

    if (client != NULL && why != NULL) {
        control_send_error(a->client, a->id, why);
    } else if (client != NULL) {
        msg_out_init(&o);
        msg_begin_response(&o, a->id);
        msgpack_pack_object(&o.pk, *result);
        control_send(a->client, &o);
        msg_out_done(&o);
    }
    free(a);
}

static int begin_run(struct training *t, struct client *k, const struct msg *m,
                     struct err *err)
{
    struct asked *a;
    size_t agent;
    int rc = read_agent(t, m, &agent, err);

    if (rc < 0)
        return rc;
    a = xcalloc(1, sizeof(*a));
    a->client = k;
    a->id = m->id;
    rc = training_drive(t, agent, &m->body, on_run, a, k, err);
    if (rc < 0)
        free(a);
    return rc;
}

/* ---- the table ---- */

static const struct method {
    const char *name;
    int (*answer)(struct training *t, const struct msg *m, struct msg_out *o,
                  struct err *err);
} methods[] = {
    {"status", answer_status},         {"set", answer_set},   {"respawn", answer_respawn},
    {"checkpoint", answer_checkpoint}, {"stop", answer_stop},
};

static int answer(struct training *t, struct client *k, const struct msg *m,
                  struct msg_out *o, struct err *err)
{
    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++)
        if (strcmp(methods[i].name, m->method) == 0)
            return methods[i].answer(t, m, o, err);
    return err_set(err, ERR_NOT_FOUND, "there is no method '%s'", m->method);
}

void control_handle(struct training *t, struct client *k, const struct msg *m)
{
    struct err err = {0};
    struct msg_out o;
    int rc;

    if (strcmp(m->method, "run") == 0) {
        rc = begin_run(t, k, m, &err);
        if (rc < 0)
            control_send_error(k, m->id, &err);
        return;
    }
    msg_out_init(&o);
    msg_begin_response(&o, m->id);
    rc = answer(t, k, m, &o, &err);
    if (rc < 0)
        control_send_error(k, m->id, &err);
    else
        control_send(k, &o);
    msg_out_done(&o);
}
