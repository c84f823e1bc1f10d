#include "agent/loop/service_internal.h"

#include "common/io/monotonic.h"
#include "common/mem/room.h"
#include "common/mem/xmalloc.h"

#include <errno.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

/* ---- signs of life ---- */

/* Reading the clock at each step would take longer than many steps. */
#define STEPS_PER_LOOK 16

/* Callback of session_set_progress: a step of a plan is finished. */
static void on_step_done(void *ctx)
{
    struct service *s = ctx;
    int64_t now;

    if (++s->n_steps % STEPS_PER_LOOK != 0 || s->progress == NULL)
        return;
    now = monotonic_ms();
    if (now - s->progress_at_ms < SERVICE_PROGRESS_MS)
        return;
    s->progress_at_ms = now;
    s->progress(s->progress_ctx);
}

/* ---- scratch ---- */

int scratch_reserve(struct scratch *s, size_t n, size_t size, struct err *err)
{
    size_t bytes;

    if (!mem_mul(n, size, &bytes))
        return err_set(err, ERR_LIMIT, "%zu elements of %zu bytes", n, size);
    if (bytes <= s->size_bytes)
        return 0;
    free(s->data);
    s->size_bytes = 0;
    s->data = mem_aligned(bytes);
    if (s->data == NULL)
        return err_set(err, ERR_NOMEM, "no memory for %zu bytes", bytes);
    s->size_bytes = bytes;
    return 0;
}

void scratch_done(struct scratch *s)
{
    free(s->data);
    *s = (struct scratch){0};
}

/* ---- the graph and its session ---- */

int service_map(int fd, const char *what, void **ret, size_t *ret_bytes, struct err *err)
{
    struct stat st;
    void *p;

    if (fstat(fd, &st) < 0)
        return errno == EBADF ? 0 : err_errno(err, "looking at %s", what);
    if (!S_ISREG(st.st_mode) || st.st_size == 0)
        return 0;
    p = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE,
             fd, 0);
    if (p == MAP_FAILED)
        return errno == ENOMEM ? room_fail((uint64_t)st.st_size, what, err)
                               : err_errno(err, "mapping %s", what);
    *ret = p;
    *ret_bytes = (size_t)st.st_size;
    return 0;
}

int service_open_session(struct service *s, int restored, struct err *err)
{
    struct session_options options = {.block_holds_state = restored,
                                      .numerics = s->numerics};
    /* without a block (an agent on another machine) the session allocates its own */
    int rc = service_map(AGENT_FD_BLOCK, "what an agent reserves for its variables",
                         &s->block, &s->block_capacity, err);

    if (rc < 0)
        return rc;
    options.block = s->block;
    options.block_capacity = s->block_capacity;
    rc = session_new(&s->session, s->graph, &options, err);
    if (rc == 0)
        session_set_progress(s->session, on_step_done, s);
    return rc < 0 ? rc : session_fix_layout(s->session, err);
}

void service_unconfigure(struct service *s)
{
    algo_free(s->ops, s->algo);
    s->algo = NULL;
    share_free(s->share);
    s->share = NULL;
    if (s->shared != NULL)
        (void)munmap(s->shared, s->shared_bytes);
    s->shared = NULL;
    symmetry_free(s->symmetry);
    s->symmetry = NULL;
    session_free(s->session);
    s->session = NULL;
    graph_free(s->graph);
    s->graph = NULL;
    wbuf_done(&s->metagraph);
    s->metagraph = (struct wbuf){0};
    if (s->block != NULL)
        (void)munmap(s->block, s->block_capacity);
    s->block = NULL;
    proposals_done(&s->proposals);
    reads_done(&s->reads);
    store_view_close(s->store);
    s->store = NULL;
    arena_done(&s->arena);
    s->numerics = NUMERICS_PORTABLE;
    s->state = SERVICE_NEW;
}

/* ---- what the algorithm declares ---- */

int64_t service_carry_width(const struct service *s)
{
    return s->ops->carry_width != NULL ? s->ops->carry_width(s->algo) : 0;
}

size_t service_columns(const struct service *s, struct algo_column *ret)
{
    return s->ops->columns != NULL ? s->ops->columns(s->algo, ret) : 0;
}

const struct stage *service_stages(const struct service *s, size_t *ret_n)
{
    *ret_n = 0;
    return s->ops->stages != NULL ? s->ops->stages(s->algo, ret_n) : NULL;
}

int service_proposes(const struct service *s)
{
    return s->self < s->n_agents && s->ops->act != NULL;
}

/* ---- answers ---- */

int answer_nothing(struct service *s, const struct msg *m, struct msg_out *out,
                   struct err *err)
{
    msg_begin_response(out, m->id);
    msg_map(out, 0);
    return 0;
}

static int is_among(const struct collection_item *items, size_t n,
                    const struct variable *v, size_t *next)
{
    for (size_t i = 0; i < n; i++) {
        const size_t k = (*next + i) % n;

        if (items[k].variable == v) {
            *next = k + 1;
            return 1;
        }
    }
    return 0;
}

void service_pack_variables(struct service *s, struct msg_out *out)
{
    const struct collection_item *saved;
    const size_t n_saved = collection_get(s->graph, GLOBAL_VARIABLES, NULL, &saved);
    const int n = graph_n_variables(s->graph);
    size_t next = 0; /* where to look first: both lists usually have the same order */

    msg_array(out, (size_t)n);
    for (int i = 0; i < n; i++) {
        const struct variable *v = graph_variable_at(s->graph, i);

        msg_array(out, 5);
        msg_str(out, v->name);
        msg_u64(out, v->dtype);
        msg_array(out, (size_t)v->shape.rank);
        for (int d = 0; d < v->shape.rank; d++)
            msg_u64(out, (uint64_t)v->shape.dim[d]);
        msg_u64(out, session_variable_offset(s->session, v));
        msg_str(out,
                is_among(saved, n_saved, v, &next) ? GLOBAL_VARIABLES : LOCAL_VARIABLES);
    }
}
