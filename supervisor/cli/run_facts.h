/* run_facts.h - where a run stands, live or not: asked, or read from what it left. */
#ifndef SUPERVISOR_CLI_RUN_FACTS_H
#define SUPERVISOR_CLI_RUN_FACTS_H

#include "supervisor/control/client.h"
#include "supervisor/run/run_record.h"

struct run_facts {
    struct run_status status; /* points into the facts */
    int is_live;              /* a supervisor holds the run */
    int is_denied;            /* we may not see whether one does (run_record.h) */
    struct arena arena;       /* private */
};

/* path: a run's directory. Of a run that does not answer within timeout_ms its record
 * tells, with the state "not answering". */
void run_facts_get(struct run_facts *ret, const char *path, int timeout_ms);
void run_facts_done(struct run_facts *f);
/* The status as one JSON object: a line to stdout. */
void run_facts_print_json(const struct run_facts *f);

/* The names of its agents, comma between, as many as there is room for; "" where none are
 * known. Returns ret. */
const char *run_agent_names(const char *path, char *ret, size_t size);

/* Lookups in an answer's map. 0, NaN or "" (cut at 63 bytes) where there is none. */
uint64_t facts_u64(const msgpack_object *map, const char *key);
double facts_f64(const msgpack_object *map, const char *key);
const char *facts_text(const msgpack_object *map, const char *key, char ret[64]);

#endif
