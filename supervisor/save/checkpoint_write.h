/* checkpoint.h - a run's checkpoints: written whole or not at all.
 *
 *     checkpoints/<step>/  <agent>/model.ckpt-<step>.{index,data-00000-of-00001,meta}
 *                          <agent>/checkpoint   run.state
 *
 * Commit   everything goes to .tmp-<step>; rows of the experience log are read again and
 *          compared with their checksums; files, folders and the log are fsynced; a damaged
 *          <step> in the way becomes .bad-<step>; rename; fsync of the parent; only then
 *          old ones go, each through .del-<step>. Whatever interrupts it, the older ones
 *          stay whole.
 * Bytes    no clock inside: equal runs give equal files.
 * Files    TensorFlow V2 bundles of the variables whose collection is "variables", by
 *          name; everything else of the block is in run.state (block_image.h), so that
 *          nothing is there twice.
 * run.state  "brodrun1", u32 version, u32 number of sections; a section is a name
 *          (u32 length, bytes), u64 length, bytes, u32 masked CRC-32C of name and bytes.
 *          The caller's sections come first, then of each agent "agent/<name>", then
 *          "graph/<name>": u64 bytes and u32 masked CRC-32C of its .meta.
 * Threads  any, one at a time for one folder: only files are touched.
 */
#ifndef SUPERVISOR_SAVE_CHECKPOINT_WRITE_H
#define SUPERVISOR_SAVE_CHECKPOINT_WRITE_H

#include "common/err/err.h"
#include "common/msg/msg.h"
#include "common/tensor/tensor.h"
#include "supervisor/save/block_image.h"
#include "supervisor/store/store.h"

#include <stddef.h>
#include <stdint.h>

#define AGENT_SECTION "agent/"
#define GRAPH_SECTION "graph/"

struct checkpoint_agent {
    const char *name;
    const msgpack_object *description; /* body of the answer to configure */
    const void *block;
    size_t block_bytes;
    /* Its .meta, into which the settings in force are written (graph_settings.h); NULL: none
     * is written. */
    const void *metagraph;
    size_t metagraph_bytes;
};

struct checkpoint_section { /* of run.state */
    const char *name;
    const void *data;
    size_t len;
};

/* Which stay: the newest `max`, and as TensorFlow's Saver has it with
 * keep_checkpoint_every_n_hours, now and then one for good. */
struct checkpoint_retention {
    size_t max;        /* 0: all */
    double every_s;    /* 0: none for good */
    double began_unix; /* the run's beginning, seconds since 1970 */
};

struct checkpoint_args { /* all borrowed */
    const char *dir;     /* the run's checkpoints/, which is there */
    uint64_t step;
    const struct checkpoint_agent *agents;
    size_t n_agents;
    const struct checkpoint_section *sections;
    size_t n_sections;
    struct checkpoint_retention keep;
    struct store *log; /* on the disk before the checkpoint is one; NULL: there is none */
    const void *log_sums;  /* store_sums_save, of rows that must still be as appended */
    size_t log_sums_bytes; /* 0: they are not looked at */
};

/* Makes the folder that it is written into, so that whoever looks sees it has begun. What
 * goes wrong is told by the commit. */
void checkpoint_announce(const char *dir, uint64_t step);
/* Writes and commits one, then drops old ones; those that cannot be dropped are tried
 * again by the next. A checkpoint of this step that is there already is replaced.
 * ERR_CORRUPT: the experience log has been damaged (store_check); nothing is committed. */
int checkpoint_commit(const struct checkpoint_args *args, struct err *err);

/* Steps of the committed checkpoints in dir, ascending; free(). 0 of them is no error. */
int checkpoint_list(const char *dir, uint64_t **ret, size_t *ret_n, struct err *err);
/* The checkpoint of a step given as text. ERR_NOT_FOUND says which there are. */
int checkpoint_choose(const char *dir, const char *text, uint64_t *ret, struct err *err);

/* Before a run goes on from `step`: later ones belong to a future that will not be. Whole
 * ones are dropped, damaged ones become .bad-<step>. */
int checkpoint_drop_newer(const char *dir, uint64_t step, struct err *err);

/* Gives back the rows that nobody will read again, once there is a checkpoint of `step`:
 * those older than the window of the oldest checkpoint in dir. A step is a row. */
int checkpoint_forget_rows(const char *dir, uint64_t step, struct store *store,
                           struct err *err);

/* run.state of one checkpoint, verified: the sections point into it. */
struct checkpoint_state {
    size_t n;
    struct checkpoint_section *sections;
    uint8_t *bytes; /* private */
};
/* ERR_FORMAT, ERR_CORRUPT, or -errno. */
int checkpoint_state_read(struct checkpoint_state *ret, const char *dir, uint64_t step,
                          struct err *err);
/* NULL: there is no such section. */
const struct checkpoint_section *checkpoint_state_find(const struct checkpoint_state *s,
                                                       const char *name);
void checkpoint_state_done(struct checkpoint_state *s);

/* The named tensors of one agent; each owns its data. */
struct checkpoint_values {
    size_t n;
    char **names;
    struct tensor *tensors;
};
int checkpoint_load(struct checkpoint_values *ret, const char *dir, uint64_t step,
                    const char *agent, struct err *err);
void checkpoint_values_done(struct checkpoint_values *v);

/* One agent's block, whole. */
struct checkpoint_block {
    const char *agent;        /* borrowed from the section, as the image's rest is */
    struct block_image image; /* where its variables lie */
    uint8_t *bytes;           /* image.block_bytes */
};
/* section: AGENT_SECTION "<name>" of that checkpoint's run.state. Every byte is verified:
 * ERR_FORMAT, ERR_CORRUPT, ... name the agent. */
int checkpoint_block_load(struct checkpoint_block *ret, const char *dir, uint64_t step,
                          const struct checkpoint_section *section, struct err *err);
void checkpoint_block_done(struct checkpoint_block *b);

/* Appends the bytes of an agent's .meta, verified; nothing where the checkpoint has none.
 * ERR_CORRUPT, ERR_FORMAT, -errno. */
int checkpoint_metagraph_load(struct wbuf *ret, const char *dir, uint64_t step,
                              const struct checkpoint_state *state, const char *agent,
                              struct err *err);

#endif
