/* The variables of a checkpoint. */
#include "supervisor/diff/parting_internal.h"

#include "common/mem/xmalloc.h"
#include "common/text/scan.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void snapshot_done(struct snapshot *s)
{
    for (size_t i = 0; i < s->n; i++)
        checkpoint_block_done(&s->block[i]);
    free(s->block);
    checkpoint_state_done(&s->state);
    *s = (struct snapshot){0};
}

int snapshot_load(struct snapshot *ret, struct run_dir *dir, uint64_t step,
                  struct err *err)
{
    const char *folder = run_dir_file(dir, "checkpoints");
    struct snapshot s = {0};
    int rc = checkpoint_state_read(&s.state, folder, step, err);

    s.block = xcalloc(s.state.n + 1, sizeof(*s.block));
    for (size_t i = 0; rc == 0 && i < s.state.n; i++) {
        if (text_after(s.state.sections[i].name, SECTION_AGENT) == NULL)
            continue;
        rc =
            checkpoint_block_load(&s.block[s.n], folder, step, &s.state.sections[i], err);
        s.n += rc == 0;
    }
    if (rc < 0) {
        (void)err_wrap(err, "%s@%" PRIu64, run_dir_name(dir), step);
        snapshot_done(&s);
        return rc;
    }
    *ret = s;
    return 0;
}

size_t snapshot_find(const struct snapshot *s, const char *agent)
{
    size_t i = 0;

    while (i < s->n && strcmp(s->block[i].agent, agent) != 0)
        i++;
    return i;
}
