/* description.h - parses and checks an agent's answer to `configure`: its stages, columns
 * and carry width.
 *
 * The answer comes from another process: counts, names and indices are bounded, and an
 * inconsistent answer is ERR_PROTOCOL, naming agent and key.
 */
#ifndef SUPERVISOR_ROLLOUT_DESCRIPTION_H
#define SUPERVISOR_ROLLOUT_DESCRIPTION_H

#include "common/config/algorithms.h"
#include "common/err/err.h"
#include "common/msg/msg.h"
#include "common/msg/protocol.h"
#include "common/store/layout.h"

#include <stdint.h>

#define STAGES_MAX          16
#define STAGE_READS_MAX     8
#define STAGE_REPEAT_MAX    100000u
#define STAGE_OUTPUT_MAX    48 /* bytes of an output's name, with the terminator */
#define DESCRIPTION_COLUMNS 8
#define DESCRIPTION_WIDTH   65536u /* of carry and columns */
#define DESCRIPTION_LENGTH  65536u /* of sequences of rows */

/* One output of an earlier stage that a stage reads. */
struct stage_read {
    int stage;    /* index of the earlier stage */
    int own;      /* 1: the reader's own output; 0: every learner's */
    int previous; /* 1: the output of the learner of the turn before */
    char name[STAGE_OUTPUT_MAX];
};

struct stage_decl {
    char name[STAGE_NAME_MAX];
    size_t group; /* of learners, in a plan (update_plan.h) */
    int turns;    /* 1: the learners run it one after another */
    int central;  /* 1: run by the central process */
    int ps;       /* 1: run by each group's ps; central, ps 0: by every learner */
    int writes;   /* changes variables */
    int is_read;  /* a later stage reads its outputs */
    /* Stages repeat_from .. this one are run `repeat` times in all; at least 1. */
    int repeat_from;
    uint64_t repeat;
    int n_reads;
    struct stage_read reads[STAGE_READS_MAX];
};

struct stage_list {
    int n;
    struct stage_decl stage[STAGES_MAX];
};

struct description_column {
    char name[STAGE_OUTPUT_MAX];
    uint32_t elements; /* X */
};

struct description {
    struct stage_list stages;
    uint64_t shared,
        shared_layout; /* elements of a shared vector; 0: nothing is shared */
    uint32_t carry;    /* H */
    int n_columns;
    struct description_column columns[DESCRIPTION_COLUMNS];
    enum rows_kind rows;
    uint32_t length; /* L; episodes: 0: env.max_steps; window: not used */
    int proposes;    /* 1: it answers the stage `propose`, even if undeclared */
};

/* body: the answer to configure. agent: for messages. */
int description_parse(struct description *ret, const msgpack_object *body,
                      const char *agent, struct err *err);
/* The columns of the experience log that the process reads: ret [n_columns], 1 for a column
 * that is read, otherwise 0. A name that the log does not have, or one that comes twice, is
 * ERR_PROTOCOL. An answer without the key `reads` reads none. Stacked columns are read with
 * what they are put together from (layout.h). */
int log_reads_parse(uint8_t *ret, const struct store_layout *l,
                    const msgpack_object *body, const char *agent, struct err *err);
int stage_list_equal(const struct stage_list *a, const struct stage_list *b);
/* The stage of that name, or NULL. */
const struct stage_decl *stage_list_find(const struct stage_list *l, const char *name);
/* 1 if a stage writes, that is, if the agent learns. */
int stage_list_writes(const struct stage_list *l);
/* 1 if a stage after `stage` reads every learner's output of it. */
int stage_list_read_by_all(const struct stage_list *l, int stage);

#endif
