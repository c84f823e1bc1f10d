/* checkpoint_read.h - lists a run's checkpoints, and reads them.
 *
 * Arguments  dir is a run's checkpoints/; a step names the checkpoint <dir>/<step>.
 * Errors     All data is verified against its checksums: ERR_CORRUPT (a checksum differs,
 *            or a part is missing), ERR_FORMAT (malformed), ERR_LIMIT (a .meta too large to be
 *            sent), ERR_TIMEOUT (the disk does not answer), -errno, ERR_NOMEM.
 * Threads    any: only files are touched.
 */
#ifndef SUPERVISOR_SAVE_CHECKPOINT_READ_H
#define SUPERVISOR_SAVE_CHECKPOINT_READ_H

#include "supervisor/save/checkpoint_format.h"

/* Steps of the committed checkpoints, ascending; free(). An empty list is no error. */
int checkpoint_list(const char *dir, uint64_t **ret, size_t *ret_n, struct err *err);
/* Whether the checkpoint is there. 0: a live run has removed it meanwhile. 1 after reading: what was
 * read was whole, as a run renames a folder before it removes what is in it. */
int checkpoint_is_there(const char *dir, uint64_t step);

/* The names of a checkpoint's agents, one folder each, in the order of the alphabet:
 * checkpoint_agents_free. -errno. */
int checkpoint_agents(const char *dir, uint64_t step, char ***ret, size_t *ret_n,
                      struct err *err);
void checkpoint_agents_free(char **names, size_t n);

/* Reads run.state; checkpoint_state_done. */
int checkpoint_state_read(struct checkpoint_state *ret, const char *dir, uint64_t step,
                          struct err *err);
/* Reads one section of run.state, of at most max_bytes, and only the heads of those before it. ret
 * has this section, or none if there is none; checkpoint_state_done. ERR_LIMIT: it is longer. */
int checkpoint_section_read(struct checkpoint_state *ret, const char *dir, uint64_t step,
                            const char *name, uint64_t max_bytes, struct err *err);

/* The tensors of one agent's bundle; each owns its data. */
struct checkpoint_values {
    size_t n;
    char **names;
    struct tensor *tensors;
};
int checkpoint_load(struct checkpoint_values *ret, const char *dir, uint64_t step,
                    const char *agent, struct err *err);
/* checkpoint_load from the prefix of a bundle. */
int checkpoint_load_from(struct checkpoint_values *ret, const char *prefix,
                         struct err *err);
/* Variables are named after their agent, agent_0/p_func/w: gives those of agent `from` the name
 * of `to`. */
void checkpoint_values_rename(struct checkpoint_values *v, const char *from,
                              const char *to);
/* ret owns all its data. ERR_NOMEM. */
int checkpoint_values_copy(struct checkpoint_values *ret,
                           const struct checkpoint_values *from, struct err *err);
void checkpoint_values_done(struct checkpoint_values *v);

/* One agent's block, combined from its bundle and its section of run.state. */
struct checkpoint_block {
    const char *agent;            /* borrowed from the section, like section.rest */
    struct agent_section section; /* where its variables lie */
    uint8_t *bytes;               /* section.block_bytes */
};
/* section: SECTION_AGENT "<name>" of that checkpoint. Errors name the agent. */
int checkpoint_block_load(struct checkpoint_block *ret, const char *dir, uint64_t step,
                          const struct checkpoint_section *section, struct err *err);
void checkpoint_block_done(struct checkpoint_block *b);

/* As checkpoint_block_load, after verifying the agent's .meta against the state. A checkpoint
 * without a .meta passes. */
int checkpoint_agent_load(struct checkpoint_block *ret, const char *dir, uint64_t step,
                          const struct checkpoint_state *state,
                          const struct checkpoint_section *section, struct err *err);

/* An agent's .meta, verified against the state. *ret: malloc'd; NULL if there is none. */
int checkpoint_graph_read(uint8_t **ret, size_t *ret_len, const char *dir, uint64_t step,
                          const struct checkpoint_state *state, const char *agent,
                          struct err *err);

/* 1 if run.state, a bundle or a .meta of the checkpoint cannot be read, for whatever reason, or has
 * another checksum. Reads all of them. */
int checkpoint_is_damaged(const char *dir, uint64_t step);

#endif
