/* run_state.h - the file run.state of a checkpoint (format: checkpoint.h). */
#ifndef SUPERVISOR_SAVE_CHECKPOINT_FORMAT_H
#define SUPERVISOR_SAVE_CHECKPOINT_FORMAT_H

#include "supervisor/save/checkpoint_write.h"

/* Whole or not at all; its durability is the folder's business (tree_sync_all). */
int run_state_write(const char *path, const struct checkpoint_section *sections, size_t n,
                    struct err *err);
/* Release with checkpoint_state_done. */
int run_state_read(struct checkpoint_state *ret, const char *path, struct err *err);

#endif
