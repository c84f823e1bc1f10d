/* service_internal.h - struct service, and the functions that the handlers share. */
#ifndef AGENT_LOOP_SERVICE_INTERNAL_H
#define AGENT_LOOP_SERVICE_INTERNAL_H

#include "agent/algo/propose.h"
#include "agent/algo/reads.h"
#include "agent/algo/share.h"
#include "agent/loop/service.h"

#include "agent/algo/symmetry.h"
#include "common/mem/arena.h"
#include "common/msg/symmetry_msg.h"
#include "common/numerics/numerics.h"
#include "common/wire/cursor.h"

enum service_state {
    SERVICE_NEW,
    SERVICE_CONFIGURED, /* an algorithm's graph */
    SERVICE_IMPORTED,   /* a file's graph: no algorithm, no agents */
    SERVICE_STATE_COUNT
};

/* Memory that grows on demand and is kept, so that steady requests allocate nothing. */
struct scratch {
    void *data; /* 64-byte aligned */
    size_t size_bytes;
};

struct service {
    const struct algo_ops *forced;
    enum service_state state;
    int check_pure;

    void (*progress)(void *ctx); /* NULL: not reported */
    void *progress_ctx;
    unsigned n_steps;       /* of plans, done so far */
    int64_t progress_at_ms; /* time of the last notification, or start of the request */

    /* set by configure */
    struct arena arena; /* config, agents */
    struct agent_config config;
    struct algorithm_settings settings; /* of config */
    char name[AGENT_NAME_MAX];
    uint64_t seed;
    enum numerics numerics;
    struct space *agents;
    size_t n_agents;
    size_t self;             /* n_agents: the central process, or a ps */
    char ps[AGENT_NAME_MAX]; /* the ps of its group; "": it shares nothing */
    size_t *members;         /* [n_members] of the group */
    size_t n_members;
    struct share *share; /* NULL: it shares nothing */
    void *shared;        /* the group's memory, mapped; or NULL */
    size_t shared_bytes;
    struct symmetry_group symmetry_group;
    struct symmetry *symmetry; /* NULL: the settings ask for none */
    struct graph *graph;
    struct session *session;
    const struct algo_ops *ops;
    struct algo *algo;
    struct wbuf metagraph; /* the exported graph; empty until it is requested */
    void *block;           /* the mapped memfd, or NULL: the session has its own */
    size_t block_capacity;

    struct store_view *store; /* mapped at the first stage that names rows */
    struct scratch obs, actions, carry, counters, draw_first, pure_copy;
    struct scratch columns[ALGO_MAX_COLUMNS];
    struct proposals proposals;
    struct reads reads; /* what the algorithm and the proposals read of the log */
};

/* ---- shared.c: what the handlers share ---- */

/* Room for n elements of `size` bytes. ERR_NOMEM. */
int scratch_reserve(struct scratch *s, size_t n, size_t size, struct err *err);
void scratch_done(struct scratch *s);

/* Maps the memory of a descriptor that the supervisor has passed; it outlives this process.
 * *ret stays as it is if there is none. what: for errors. */
int service_map(int fd, const char *what, void **ret, size_t *ret_bytes, struct err *err);
/* Opens the session, on the mapped block or on one of its own. The graph must be
 * complete. */
int service_open_session(struct service *s, int restored, struct err *err);
/* Frees what configure or import made, complete or not; the state is SERVICE_NEW
 * again. */
void service_unconfigure(struct service *s);
/* H, the width of what the agent carries from step to step; 0: nothing. */
int64_t service_carry_width(const struct service *s);
/* The columns that the algorithm adds to a row: ALGO_MAX_COLUMNS at most. */
size_t service_columns(const struct service *s, struct algo_column *ret);
/* The stages that the algorithm declares. */
const struct stage *service_stages(const struct service *s, size_t *ret_n);
/* Whether it can answer `propose`: it is an agent, and has a policy. */
int service_proposes(const struct service *s);
/* Packs the table of variables as an array. */
void service_pack_variables(struct service *s, struct msg_out *out);

/* ---- handlers: on success the response is in `out`, up to msg_end. On failure nothing has
 * changed, unless the error says that the work itself failed. ---- */

typedef int (*handler_fn)(struct service *s, const struct msg *m, struct msg_out *out,
                          struct err *err);
int answer_nothing(struct service *s, const struct msg *m, struct msg_out *out,
                   struct err *err); /* an empty map */

int handle_describe(struct service *s, const struct msg *m, struct msg_out *out,
                    struct err *err);
int handle_configure(struct service *s, const struct msg *m, struct msg_out *out,
                     struct err *err);
int handle_import(struct service *s, const struct msg *m, struct msg_out *out,
                  struct err *err);
int handle_metagraph(struct service *s, const struct msg *m, struct msg_out *out,
                     struct err *err);
int handle_act(struct service *s, const struct msg *m, struct msg_out *out,
               struct err *err);
/* Reads the name of a tensor or an operation from a request; finds a tensor by its name
 * (lookup.h), and refuses dtypes that no message can carry. */
#define SERVICE_MAX_NAME 1024
int service_read_name(const msgpack_object *o, char name[SERVICE_MAX_NAME],
                      struct err *err);
int service_find_tensor(const struct service *s, const char *name, struct output *ret,
                        struct err *err);
int handle_run(struct service *s, const struct msg *m, struct msg_out *out,
               struct err *err);
/* The stage of that name: one that the algorithm declares, or `propose`, which every
 * agent with a policy has. NULL if there is none. */
const struct stage *service_find_stage(const struct service *s, const char *name);
int handle_stage(struct service *s, const struct msg *m, struct msg_out *out,
                 struct err *err);
/* Reports which of the requested names are no tensors of the graph: fetch.c. */
int handle_find(struct service *s, const struct msg *m, struct msg_out *out,
                struct err *err);
int handle_set(struct service *s, const struct msg *m, struct msg_out *out,
               struct err *err);
int handle_snapshot(struct service *s, const struct msg *m, struct msg_out *out,
                    struct err *err);
int handle_restore(struct service *s, const struct msg *m, struct msg_out *out,
                   struct err *err);

/* ---- fetch.c: tensors that a request for `act` or a stage asks for besides its answer
 * (protocol.h: fetches, origins), as `brood replay` does. They do not change the answer. ---- */

struct fetch; /* opaque */

/* Starts to watch the runs of the session. *ret is NULL if the request has no fetches;
 * all calls below accept NULL. */
int fetch_begin(struct fetch **ret, struct service *s, const msgpack_object *body,
                struct err *err);
/* Records `why` in the answer instead of failing the request. Returns 1 if the request asked
 * for tensors, else 0 and nothing is recorded. */
int fetch_note_failure(struct fetch *f, const struct err *why);
/* The pairs that fetch_pack adds to the answer's map. */
size_t fetch_pairs(const struct fetch *f);
void fetch_pack(const struct fetch *f, struct msg_out *out);
void fetch_end(struct fetch *f, struct service *s);

#endif
