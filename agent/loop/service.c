#include "agent/loop/service.h"

#include "agent/loop/service_internal.h"
#include "common/err/check.h"
#include "common/io/monotonic.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

#define HAS_GRAPH (1u << SERVICE_CONFIGURED | 1u << SERVICE_IMPORTED)

/* The methods of an agent, besides the stages of its algorithm. */
static const struct method {
    const char *name;
    unsigned states; /* a bit for each state it is allowed in */
    int writes;      /* may change the block */
    int ends;        /* the agent exits after the response */
    handler_fn handle;
} methods[] = {
    {"describe", ~0u, 0, 0, handle_describe},
    {"configure", 1u << SERVICE_NEW, 1, 0, handle_configure},
    {"import", 1u << SERVICE_NEW, 1, 0, handle_import},
    {"metagraph", 1u << SERVICE_CONFIGURED, 0, 0, handle_metagraph},
    {"act", 1u << SERVICE_CONFIGURED, 0, 0, handle_act},
    {"run", HAS_GRAPH, 1, 0, handle_run},
    {"find", 1u << SERVICE_CONFIGURED, 0, 0, handle_find},
    {"set", 1u << SERVICE_CONFIGURED, 1, 0, handle_set},
    {"snapshot", HAS_GRAPH, 0, 0, handle_snapshot},
    {"restore", HAS_GRAPH, 1, 0, handle_restore},
    {"ping", ~0u, 0, 0, answer_nothing},
    {"shutdown", ~0u, 0, 1, answer_nothing},
};

static const char *const state_texts[SERVICE_STATE_COUNT] = {
    [SERVICE_NEW] = "not configured yet",
    [SERVICE_CONFIGURED] = "configured already",
    [SERVICE_IMPORTED] = "it holds an imported graph",
};

static int find_method(const struct service *s, const char *name, struct method *ret,
                       struct err *err)
{
    const struct stage *stage;

    for (size_t i = 0; i < sizeof(methods) / sizeof(methods[0]); i++) {
        if (strcmp(methods[i].name, name) != 0)
            continue;
        *ret = methods[i];
        if ((ret->states & 1u << s->state) != 0)
            return 0;
        return err_set(err, ERR_STATE, "%s: %s", name, state_texts[s->state]);
    }
    stage = s->state == SERVICE_CONFIGURED ? service_find_stage(s, name) : NULL;
    if (stage == NULL)
        return err_set(err, ERR_NOT_FOUND, "no method '%s'", name);
    *ret = (struct method){stage->name, 0, stage->writes, 0, handle_stage};
    return 0;
}

/* ---- signs of life ---- */

void service_set_progress(struct service *s, void (*fn)(void *ctx), void *ctx)
{
    s->progress = fn;
    s->progress_ctx = ctx;
}

/* ---- debug: a pure request changes no byte ---- */

static int call(struct service *s, const struct method *method, const struct msg *m,
                struct msg_out *out, struct err *err)
{
    const int check = s->check_pure && !method->writes && s->session != NULL;
    const size_t n = check ? session_block_bytes(s->session) : 0;
    int rc = check ? scratch_reserve(&s->pure_copy, n, 1, err) : 0;

    if (rc == 0 && n > 0)
        memcpy(s->pure_copy.data, session_block(s->session), n);
    if (rc == 0)
        rc = method->handle(s, m, out, err);
    if (rc == 0 && check && memcmp(s->pure_copy.data, session_block(s->session), n) != 0)
        rc = err_set(err, ERR_STATE, "%s is declared pure but changed the variables",
                     method->name);
    return rc;
}

int service_handle(void *ctx, const struct msg *request, struct msg_out *out)
{
    struct service *s = ctx;
    struct method method = {0};
    struct err err = {0};
    int rc = find_method(s, request->method, &method, &err);

    s->progress_at_ms = monotonic_ms();
    if (rc == 0)
        rc = call(s, &method, request, out, &err);
    if (rc < 0) {
        log_error("%s: %s", request->method, err.msg);
        msg_error_response(out, request->id, &err);
        return 0;
    }
    return method.ends;
}

/* ---- lifetime ---- */

struct service *service_new(const struct algo_ops *algorithm)
{
    struct service *s = xcalloc(1, sizeof(*s));
    const char *check = getenv("BROOD_CHECK_PURE");

    s->forced = algorithm;
    s->check_pure = check != NULL && strcmp(check, "1") == 0;
    return s;
}

void service_free(struct service *s)
{
    struct scratch *scratches[] = {&s->actions, &s->carry, &s->counters, &s->draw_first,
                                   &s->pure_copy};

    if (s == NULL)
        return;
    service_unconfigure(s);
    for (size_t i = 0; i < sizeof(scratches) / sizeof(scratches[0]); i++)
        scratch_done(scratches[i]);
    for (int i = 0; i < ALGO_MAX_COLUMNS; i++)
        scratch_done(&s->columns[i]);
    scratch_done(&s->obs);
    free(s);
}
