/* Arbitrary bytes as the messages of an environment process: its description, its answers
 * to resets and steps, and the answers of a new process to the same requests. Each answer
 * is accepted or refused; accepted values are finite, and the history can be saved and
 * loaded. After a first byte of 0 the input consists of frames (a length, a message);
 * after any other byte it is the saved state of such a history. */
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "supervisor/env/env_class.h"
#include "supervisor/env/external_internal.h"
#include "tests/fuzz/fuzz.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { COPIES = 3, MAX_WIDTH = 256, MAX_FRAMES = 32 };

struct input {
    const uint8_t *p;
    size_t left;
};

/* vec_env's arrays, [A] (E, width). */
struct arrays {
    float *obs[ENV_MAX_AGENTS], *next_obs[ENV_MAX_AGENTS], *actions[ENV_MAX_AGENTS];
    uint8_t *allowed[ENV_MAX_AGENTS], *next_allowed[ENV_MAX_AGENTS];
    double *reward[ENV_MAX_AGENTS];
    uint8_t *terminated[ENV_MAX_AGENTS], *present[ENV_MAX_AGENTS];
    const float *action_rows[ENV_MAX_AGENTS];
};

static const struct external external = {.processes = 1};

static void on_event(void *ctx, const struct agent_event *e, const char *process)
{
}

static void on_inexact(void *ctx, const char *line)
{
    CHECK(line[0] != '\0' && strchr(line, '\n') == NULL);
}

static void on_warning(void *ctx, const char *process, const char *line)
{
    for (; *line != '\0'; line++)
        CHECK(*line >= ' ' && *line <= '~');
}

static void on_failed(void *ctx, const struct err *why)
{
}

static void on_stopped(void *ctx)
{
}

/* ---- a world ---- */

static int is_small(const struct env_spec *spec)
{
    size_t width = 0;

    for (size_t a = 0; a < spec->n_agents; a++)
        width += (size_t)spec->agents[a].obs_width + (size_t)spec->agents[a].space.width;
    return width <= MAX_WIDTH;
}

/* Each array is allocated separately, so that a sanitizer notices writes outside of
 * it. */
static void make_arrays(struct arrays *x, const struct env_spec *spec)
{
    for (size_t a = 0; a < spec->n_agents; a++) {
        const size_t u = COPIES * (size_t)spec->agents[a].space.width;

        x->obs[a] = xcalloc(COPIES, env_obs_bytes(&spec->agents[a]));
        x->next_obs[a] = xcalloc(COPIES, env_obs_bytes(&spec->agents[a]));
        x->actions[a] = xcalloc(u, sizeof(float));
        x->allowed[a] = xcalloc(u, sizeof(uint8_t));
        x->next_allowed[a] = xcalloc(u, sizeof(uint8_t));
        x->reward[a] = xcalloc(COPIES, sizeof(double));
        x->action_rows[a] = x->actions[a];
        x->terminated[a] = xcalloc(COPIES, sizeof(uint8_t));
        x->present[a] = xcalloc(COPIES, sizeof(uint8_t));
    }
}

static void free_arrays(struct arrays *x, const struct env_spec *spec)
{
    for (size_t a = 0; a < spec->n_agents; a++) {
        free(x->obs[a]);
        free(x->next_obs[a]);
        free(x->actions[a]);
        free(x->allowed[a]);
        free(x->next_allowed[a]);
        free(x->reward[a]);
        free(x->terminated[a]);
        free(x->present[a]);
    }
}

static struct external_world *make_world(const struct env_spec *spec,
                                         const struct arrays *x)
{
    static const struct external_listener nobody;
    const struct external_views views = {.obs = x->obs,
                                         .allowed = spec->masks ? x->allowed : NULL,
                                         .next_obs = x->next_obs,
                                         .next_allowed =
                                             spec->masks ? x->next_allowed : NULL,
                                         .reward = x->reward,
                                         .terminated = x->terminated,
                                         .present = x->present};

    return external_world_new(&external, spec, COPIES, &views, &nobody);
}

static void check_finite(const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        CHECK(isfinite(x[i]));
}

static void check_views(const struct external_world *w)
{
    for (size_t a = 0; a < w->spec->n_agents; a++) {
        const size_t o = COPIES * (size_t)w->spec->agents[a].obs_width;

        if (!w->spec->agents[a].obs_is_u8) {
            check_finite(w->views.obs[a], o);
            check_finite(w->views.next_obs[a], o);
        }
        for (size_t c = 0; c < COPIES; c++)
            CHECK(isfinite(w->views.reward[a][c]) && w->views.present[a][c] <= 1);
    }
}

/* Saving, loading and saving again gives the same bytes. */
static void check_state(const struct external_world *w, const struct arrays *x)
{
    const size_t len = external_world_state_bytes(w);
    struct external_world *again = make_world(w->spec, x);
    char *first = xmalloc(len), *second = xmalloc(len);

    external_world_save(w, first);
    CHECK(external_world_load(again, first, len, NULL) == 0);
    CHECK(external_world_state_bytes(again) == len);
    external_world_save(again, second);
    CHECK(memcmp(first, second, len) == 0);
    free(first);
    free(second);
    external_world_free(again);
}

/* ---- what the environment process answers ---- */

static int next_message(struct input *in, struct msg *ret)
{
    uint32_t len;

    if (in->left < sizeof(len))
        return 0;
    memcpy(&len, in->p, sizeof(len));
    in->p += sizeof(len);
    in->left -= sizeof(len);
    if (len > in->left || msg_reparse(ret, in->p, len, NULL) < 0)
        return 0;
    in->p += len;
    in->left -= len;
    return 1;
}

static void check_refusal(int r, const struct err *err)
{
    CHECK(r == err->code && err->msg[0] != '\0');
}

/* Handles one answer to a request about all copies. 0: the answer ends the run. */
static int take(struct external_world *w, enum external_kind kind, const struct msg *m)
{
    struct external_process *p = &w->processes[0];
    struct external_answer x;
    struct err err = {0};
    int r = external_parse_answer(w, p, &p->asked, kind, &m->body, &x, &err);

    p->kind = kind;
    if (r == 0)
        r = external_check_finite(w, p, &x, &err);
    if (r == 0)
        r = external_check_presence(w, p, &x, &err);
    if (r == 0)
        r = external_take_warnings(w, p, &m->body, &err);
    if (r < 0) {
        check_refusal(r, &err);
        return 0;
    }
    for (size_t i = 0; i < x.n; i++) {
        struct external_episode *e = &w->episodes[p->asked.copies[i]];

        if (kind == EXTERNAL_RESET) {
            external_write_now(w, EXTERNAL_RESET, &x, i, p->asked.copies[i]);
            external_record_reset(e, external_sum(w, kind, &x, i, 0));
            continue;
        }
        external_write_step(w, &x, i, p->asked.copies[i]);
        external_record_step(w, p->asked.copies[i],
                             external_sum(w, kind, &x, i, e->sums[e->n_steps]));
    }
    check_views(w);
    return 1;
}

/* Feeds the answers of a new process to which the episodes are replayed. */
static void revive(struct external_world *w, struct input *in, struct msg *m)
{
    struct msg_out out;
    struct err err = {0};
    int r = 0;

    msg_out_init(&out);
    for (size_t i = 0; r == 0 && external_revival.pack(w, 0, i, 1, &out); i++) {
        if (!next_message(in, m))
            break;
        r = external_revival.check(w, 0, i, m, &err);
        if (r < 0)
            check_refusal(r, &err);
    }
    check_views(w);
    msg_out_done(&out);
}

static void converse(struct external_world *w, const struct arrays *x, struct input *in,
                     struct msg *m)
{
    struct external_batch *asked = &w->processes[0].asked;
    int n = 0;

    w->actions = x->action_rows;
    for (size_t c = 0; c < COPIES; c++)
        asked->copies[asked->n++] = c;
    /* a message that is nil ends this process; a new one answers from there on */
    while (n < MAX_FRAMES && next_message(in, m) && m->body.type != MSGPACK_OBJECT_NIL) {
        if (!take(w, n == 0 ? EXTERNAL_RESET : EXTERNAL_STEP, m))
            return;
        n++;
    }
    if (n == 0)
        return;
    check_state(w, x);
    revive(w, in, m);
    check_state(w, x);
}

static void run_dialogue(struct input *in, struct arena *arena)
{
    const struct env_host_args args = {.on_event = on_event,
                                       .on_inexact = on_inexact,
                                       .on_failed = on_failed,
                                       .on_warning = on_warning,
                                       .on_stopped = on_stopped};
    struct env_host *host = env_host_new(&args);
    struct msg m = {0};
    struct env_spec spec, same;
    struct arrays x;
    struct err err = {0};
    struct external_world *w;
    int r = next_message(in, &m) ? external_parse(&spec, &m.body, arena, &err) : 1;

    if (r < 0)
        check_refusal(r, &err);
    if (r == 0 && is_small(&spec)) {
        CHECK(external_parse(&same, &m.body, arena, NULL) == 0);
        CHECK(external_same_spec(&spec, &same));
        make_arrays(&x, &spec);
        w = make_world(&spec, &x);
        w->host = host;
        converse(w, &x, in, &m);
        external_world_free(w);
        free_arrays(&x, &spec);
    }
    msg_done(&m);
    env_host_free(host);
}

static void run_state(const struct input *in)
{
    static struct env_agent agents[2] = {
        {.name = "a", .obs_width = 1, .space = {.n_heads = 1, .heads = {2}, .width = 2}},
        {.name = "b", .obs_width = 2, .space = {.kind = SPACE_BOX, .width = 1}}};
    static const struct env_spec spec = {.n_agents = 2, .agents = agents};
    struct arrays x;
    struct external_world *w;
    struct err err = {0};
    int r;

    make_arrays(&x, &spec);
    w = make_world(&spec, &x);
    r = external_world_load(w, in->p, in->left, &err);
    if (r < 0)
        check_refusal(r, &err);
    check_state(w, &x);
    external_world_free(w);
    free_arrays(&x, &spec);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena arena = ARENA_ZERO;
    struct input in;

    if (size == 0)
        return 0;
    in = (struct input){data + 1, size - 1};
    if (data[0] == 0)
        run_dialogue(&in, &arena);
    else
        run_state(&in);
    arena_done(&arena);
    return 0;
}
