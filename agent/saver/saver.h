/* saver.h - tf.train.Saver: variables of a graph to and from TensorFlow checkpoints.
 *
 * A Saver adds the nodes that TensorFlow's adds (save/Const, save/SaveV2, save/Assign...,
 * save/restore_all), under the same names, so that TensorFlow can use the graph's
 * `.meta`. Saving and restoring have the effect of running these nodes, but access the
 * session's block directly.
 *
 * Files    <prefix>.index, <prefix>.data-SSSSS-of-NNNNN (common/ckpt/bundle.h), or one V1
 *          checkpoint <prefix> or its shards (v1_writer.h), then
 *          `checkpoint` in the same directory, then deletion of the oldest, then
 *          <prefix>.meta, in this order, each whole or not at all. The prefix is the
 *          path, with "-<step>" if a step is given.
 * Errors   have TensorFlow's messages. A failed save does not change the files after the
 *          one that failed. A failed restore has changed no variable, unless it failed
 *          while reading values from a damaged file.
 * Threads  as the session's.
 * Source   tensorflow/python/training/saver.py and checkpoint_management.py, 1.13
 */
#ifndef AGENT_SAVER_SAVER_H
#define AGENT_SAVER_SAVER_H

#include "agent/saver/checkpoints.h"
#include "agent/session/session.h"

struct saver;

/* Which nodes of a graph save and restore its variables. */
struct saver_def {
    const char *filename_tensor; /* "save/Const:0": fed with the prefix */
    const char *save_tensor;     /* "save/control_dependency:0": gives the prefix */
    const char *restore_op;      /* "save/restore_all" */
    int max_to_keep;             /* 0: all */
    int sharded;
    float keep_every_n_hours;
    int version; /* SAVER_V1: it writes V1 checkpoints; any other: V2 */
};

struct saver_item {
    const char *name; /* in the checkpoint; NULL: the variable's */
    struct variable *variable;
    /* for a part of a partitioned variable: which part of the whole it is, as SaveV2
     * writes it, "4 10 0,2:-"; NULL: not a part. Set only for the nodes of a
     * saver_def. */
    const char *slice;
    /* instead of a variable, the value of a Const, as TensorFlow 2 saves the graph of its
     * objects: it is saved with the variables, and not restored. Set as `slice` is. */
    const struct tensor *constant;
};

enum { SAVER_V1 = 1, SAVER_V2 = 2 };

struct saver_options {
    const struct saver_item *vars; /* NULL: all of collection "variables" */
    size_t n_vars;
    int reshape;               /* restoring: the same number of elements is enough */
    int sharded;               /* a data file for each device */
    int max_to_keep;           /* 0: delete nothing, and list only the newest */
    double keep_every_n_hours; /* one checkpoint per that many hours is never deleted */
    const char *name;          /* scope of the nodes; NULL: "save" */
    int restore_sequentially;  /* without effect, as in TensorFlow */
    const struct saver_def *saver_def; /* use these existing nodes, add none */
    const void *builder;               /* must be NULL (ERR_UNSUPPORTED) */
    int defer_build;                   /* add the nodes later, in saver_build */
    int allow_empty;                   /* no variables: saving and restoring do nothing */
    int write_version;   /* SAVER_V2, SAVER_V1; with a saver_def, what its nodes write */
    int pad_step_number; /* "-00000010" */
    int save_relative_paths; /* in `checkpoint`, so that the folder can be moved */
    const char *filename;    /* of the filename node; NULL: "model" */
    /* not TensorFlow's: */
    int durable;              /* fsync every file */
    double (*now)(void *ctx); /* seconds since the epoch; NULL: the clock */
    void *now_ctx;
};
/* The defaults of TensorFlow's constructor; set other options from here. */
#define SAVER_DEFAULTS                                                                   \
    ((struct saver_options){                                                             \
        .max_to_keep = 5, .keep_every_n_hours = 10000.0, .write_version = SAVER_V2})

/* Adds the Saver's nodes to the graph. ERR_ARG ("No variables to save"; two variables of
 * one name), ERR_UNSUPPORTED, or the graph's error. Names and items are copied; variables
 * belong to the graph, which must outlive the Saver. */
int saver_new(struct saver **ret, struct graph *g, const struct saver_options *o,
              struct err *err);
int saver_build(struct saver *s, struct err *err);
void saver_free(struct saver *s); /* NULL is fine */

/* NULL if the Saver has nothing to save or is not built. The Saver owns the result. */
const struct saver_def *saver_as_def(const struct saver *s);
size_t saver_n_items(const struct saver *s);
const struct saver_item *saver_item_at(const struct saver *s, size_t i); /* by name */

struct saver_save_options { /* all zero: TensorFlow's defaults */
    int has_step;
    int64_t step;
    struct output step_tensor;     /* instead: an integer scalar of the graph ... */
    const char *step_name;         /* ... or its name, "global_step:0" */
    const char *latest_filename;   /* NULL: "checkpoint" */
    const char *meta_graph_suffix; /* NULL: "meta" */
    int no_meta_graph;
    int no_state; /* writes no `checkpoint` and deletes nothing */
    int strip_default_attrs;
    /* also writes <prefix>_debug.<suffix>: GraphDebugInfo with the names of the nodes,
     * without call stacks */
    int save_debug_info;
};

/* *ret_prefix (may be NULL): the prefix that was written, which the caller frees, of shards of
 * a V1 checkpoint "<prefix>-?????-of-NNNNN"; NULL if the Saver is empty. o may be NULL. The
 * directory is created if only its last part is missing. */
int saver_save(struct saver *s, struct session *session, const char *path,
               const struct saver_save_options *o, char **ret_prefix, struct err *err);

/* Other variables stay unchanged; no variable needs to be initialised. */
int saver_restore(struct saver *s, struct session *session, const char *prefix,
                  struct err *err);

/* The checkpoints that are not deleted yet, oldest first. The Saver owns the prefixes. */
size_t saver_n_last_checkpoints(const struct saver *s);
const char *saver_last_checkpoint(const struct saver *s, size_t i);
/* Replaces the list. These checkpoints count as infinitely new, so keep_every_n_hours
 * keeps each of them for good. */
void saver_set_last_checkpoints(struct saver *s, const char *const *prefixes, size_t n);
/* After a restart: sets the list to those that exist, with the times of their files. */
void saver_recover_last_checkpoints(struct saver *s, const char *const *prefixes,
                                    size_t n);

/* Writes the graph with this Saver to a file. */
int saver_export_meta_graph(struct saver *s, const char *path, int strip_default_attrs,
                            int clear_devices, struct err *err);

/* tf.report_uninitialized_variables: global and local variables without a value, in order
 * of creation. ret[max] receives the first ones; returns the number of all. */
size_t report_uninitialized_variables(struct graph *g, struct session *session,
                                      const char **ret, size_t max);

#endif
