/* node_files.h - what the processes of a node map besides their blocks: its copy of the
 * experience log, and the memory of groups that share parameters.
 *
 * Log      an unnamed sparse file in $TMPDIR, /var/tmp or /tmp, else in memory. It holds the
 *          parts of rows that came, at their offsets in the supervisor's log, and zeros or holes.
 * Nothing of both remains when the last process that has them open has ended.
 */
#ifndef SUPERVISOR_NODE_NODE_FILES_H
#define SUPERVISOR_NODE_NODE_FILES_H

#include "common/err/err.h"
#include "supervisor/node/node_feed.h"
#include "supervisor/node/row_parts.h"
#include "supervisor/proc/block.h"

#include <stddef.h>
#include <stdint.h>

struct node_group {
    uint32_t number;
    struct block memory;
};

struct node_files {
    int log_fd;      /* to write */
    int log_read_fd; /* for the agents */
    struct row_parts parts[NODE_PASS_COUNT];
    uint64_t end_row; /* behind the last row that came */
    uint8_t *rows;    /* room for some whole ones, or NULL */
    size_t rows_bytes;
    struct node_group *groups;
    size_t n_groups;
};

#define NODE_FILES_NONE ((struct node_files){.log_fd = -1, .log_read_fd = -1})

int node_files_init(struct node_files *f, struct err *err);
void node_files_done(struct node_files *f); /* NODE_FILES_NONE is fine */

/* ERR_PROTOCOL: the message is no part of a log; -errno. */
int node_files_header(struct node_files *f, const void *data, size_t len,
                      struct err *err);
int node_files_columns(struct node_files *f, const struct node_message *m,
                       struct err *err);
int node_files_rows(struct node_files *f, const struct node_message *m, struct err *err);
int node_files_forget(struct node_files *f, uint64_t offset, struct err *err);

/* The descriptor of a group's memory, which is made if it does not exist yet. */
int node_files_group(struct node_files *f, uint32_t group, struct err *err);
int node_files_shared(struct node_files *f, uint32_t group, uint64_t offset,
                      const void *data, size_t len, struct err *err);

#endif
