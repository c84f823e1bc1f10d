/* run_facts.h - where a run stands, live or not: asked, or read from what it left. */
#ifndef SUPERVISOR_CLI_RUN_FACTS_H
#define SUPERVISOR_CLI_RUN_FACTS_H

#include "supervisor/control/client.h"
#include "supervisor/run/run_record.h"

/* A map as status_pack.h has it; is_live: a supervisor holds the run; is_denied: we may
 * not see whether one does (run_record.h). */
struct run_facts {
    const msgpack_object *map;
    int is_live, is_denied;

    struct control_client *client; /* private from here on */
    struct msg_out out;
    struct msg msg;
};

/* path: a run's directory. A run that does not answer within timeout_ms is told by its
 * record, with the state "not answering". */
void run_facts_get(struct run_facts *ret, const char *path, int timeout_ms);
void run_facts_done(struct run_facts *f);

/* The names of its agents, comma between, as many as there is room for; "" where none are
 * known. Returns ret. */
const char *run_agent_names(const char *path, char *ret, size_t size);

uint64_t facts_u64(const msgpack_object *map, const char *key); /* 0 where it is not */
double facts_f64(const msgpack_object *map, const char *key);   /* NaN where it is not */
/* "" where it is not; cut at 63 bytes. Returns ret. */
const char *facts_text(const msgpack_object *map, const char *key, char ret[64]);

#endif
