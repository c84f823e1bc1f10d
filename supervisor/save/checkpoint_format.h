/* checkpoint_format.h - the names and the bytes of a checkpoint.
 *
 *     checkpoints/<step>/run.state
 *     checkpoints/<step>/<agent>/model.ckpt-<step>.{index,data-00000-of-00001,meta}
 *     checkpoints/<step>/<agent>/checkpoint
 *
 * Folders   <step> is committed: every file is complete and on the disk. checkpoints/ may
 *           also hold .tmp-<step> (being written, or interrupted), .del-<step> (being
 *           removed) and .bad-<step> (found damaged, kept for a person to look at).
 * Bundle    model.ckpt-<step>.index and .data: a TensorFlow V2 checkpoint of those
 *           variables of the agent that are in collection "variables", by name. .meta is
 *           the agent's graph (graphs.h).
 * run.state Everything else, little-endian: "brodrun1", u32 version, u32 number of
 *           sections; of each section u32 length and bytes of its name, u64 length and
 *           bytes of its data, u32 masked CRC-32C of name and data. The run's sections
 *           come first (SECTION_ROLLOUT ...), then one SECTION_AGENT for each agent, then
 *           one SECTION_GRAPH for each agent that has a .meta.
 * Agent     The section "agent/<name>": what the bundle lacks of the agent's block: u64
 *           bytes of the block, u32 number of variables; of each variable, in the order of
 *           names, u32 length and bytes of its name, u32 dtype, u32 rank, u64 dims, u64
 *           offset, u32 1 if it is in the bundle; then all bytes of the block that belong
 *           to no variable of the bundle, in their order.
 * Graph     The section "graph/<name>": u64 length and u32 masked CRC-32C of the .meta.
 * Clock     No time is stored: equal runs write equal bytes.
 * Threads   any: nothing here touches a file.
 */
#ifndef SUPERVISOR_SAVE_CHECKPOINT_FORMAT_H
#define SUPERVISOR_SAVE_CHECKPOINT_FORMAT_H

#include "common/err/err.h"
#include "common/msg/msg.h"
#include "common/tensor/tensor.h"
#include "common/wire/cursor.h"

#include <stddef.h>
#include <stdint.h>

/* Names of the sections of run.state. */
#define SECTION_ROLLOUT     "rollout"     /* rollout_state_save */
#define SECTION_EXPERIENCE  "experience"  /* store_state_save */
#define SECTION_BUILD_ID    "build id"    /* text */
#define SECTION_FINGERPRINT "fingerprint" /* text */
#define SECTION_CONFIG      "config"      /* run_config_to_yaml */
/* Text, "portable 1": mode and version. Checkpoints of older builds lack it. */
#define SECTION_NUMERICS    "numerics"
/* Text: the first reason why the run is not exact any more. Exact runs lack it. */
#define SECTION_INEXACT     "inexact"
/* verdict_save. Runs without run.stop_when and checkpoint.keep_best lack it. */
#define SECTION_EVALUATIONS "evaluations"
/* Prefixes, followed by the agent's name. */
#define SECTION_AGENT       "agent/"
#define SECTION_GRAPH       "graph/"

/* "<dir>/<prefix><step>": prefix is "" or one of ".tmp-", ".del-", ".bad-"; free(). */
char *checkpoint_path(const char *dir, const char *prefix, uint64_t step);
/* "<folder>/<agent>/model.ckpt-<step>" of the checkpoint in that folder; free(). */
char *checkpoint_bundle_prefix(const char *folder, uint64_t step, const char *agent);

/* ---- run.state ---- */

enum { CHECKPOINT_MAX_SECTIONS = 100000, CHECKPOINT_SECTION_NAME = 256 /* bytes */ };

struct checkpoint_section {
    const char *name;
    const void *data;
    size_t len;
};

struct checkpoint_state {
    size_t n;
    struct checkpoint_section *sections; /* they point into bytes */
    uint8_t *bytes;                      /* private */
};

void checkpoint_state_put(struct wbuf *b, const struct checkpoint_section *sections,
                          size_t n);
/* Takes ownership of bytes (malloc'd), also on failure. path is for messages. ERR_FORMAT,
 * ERR_CORRUPT (a checksum differs). */
int checkpoint_state_parse(struct checkpoint_state *ret, uint8_t *bytes, size_t len,
                           const char *path, struct err *err);
/* NULL: there is no such section. */
const struct checkpoint_section *checkpoint_state_find(const struct checkpoint_state *s,
                                                       const char *name);
void checkpoint_state_done(struct checkpoint_state *s); /* all-zero is fine */

/* ---- an agent's block ---- */

struct block_variable {
    char *name;
    enum dtype dtype;
    struct shape shape;
    uint64_t offset; /* bytes from the start of the block */
    int in_bundle;   /* collection "variables" */
};

/* Where an agent's variables lie in its block. Each lies inside the block and has a known
 * dtype. */
struct block_table {
    size_t n;
    struct block_variable *variables; /* in the order of their names */
};

/* description: the agent's response to `configure`. ERR_PROTOCOL. */
int block_table_parse(struct block_table *ret, const msgpack_object *description,
                      size_t block_bytes, struct err *err);
void block_table_done(struct block_table *t);

struct agent_section {
    struct block_table table;
    size_t block_bytes;
    const uint8_t *rest; /* borrowed from what was parsed: the bytes outside the bundle */
};

/* ERR_PROTOCOL: variables of the bundle overlap. */
int agent_section_put(struct wbuf *b, const struct block_table *table, const void *block,
                      size_t block_bytes, struct err *err);
/* ERR_FORMAT. */
int agent_section_parse(struct agent_section *ret, const void *data, size_t len,
                        struct err *err);
void agent_section_done(struct agent_section *s);
/* Copies the bytes outside the bundle to their places in block (block_bytes). */
void agent_section_fill(const struct agent_section *s, void *block);
/* 1 if the variables of this table lie in the same places. */
int agent_section_fits(const struct agent_section *s, const struct block_table *table,
                       size_t block_bytes);

/* ---- an agent's graph ---- */

void graph_section_put(struct wbuf *b, const void *meta, size_t len);
/* meta: the content of the .meta. ERR_FORMAT, ERR_CORRUPT; path is for messages. */
int graph_section_check(const struct checkpoint_section *s, const void *meta, size_t len,
                        const char *path, struct err *err);

#endif
