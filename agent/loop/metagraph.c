/* The request `metagraph`: exports the graph in TensorFlow's format. */
#include "agent/loop/service_internal.h"

#include "agent/saver/metagraph_export.h"
#include "agent/saver/saver.h"
#include "common/msg/frame.h"

#define MESSAGE_ROOM_BYTES 1024

/* Exports the graph, with the nodes of a Saver for the variables that checkpoints hold.
 * Called once, since it adds those nodes to the graph. */
static int export(struct service *s, struct err *err)
{
    struct saver_options options = SAVER_DEFAULTS;
    struct saver *saver = NULL;
    int rc;

    options.allow_empty = 1;
    rc = saver_new(&saver, s->graph, &options, err);
    if (rc < 0)
        return rc;
    metagraph_export(&s->metagraph, s->graph, saver_as_def(saver), NULL);
    saver_free(saver);
    return 0;
}

int handle_metagraph(struct service *s, const struct msg *m, struct msg_out *out,
                     struct err *err)
{
    int rc = s->metagraph.len == 0 ? export(s, err) : 0;

    if (rc == 0 && s->metagraph.len > FRAME_MAX_BYTES - MESSAGE_ROOM_BYTES)
        rc = err_set(err, ERR_LIMIT, "a graph of %zu bytes fits no message",
                     s->metagraph.len);
    if (rc < 0)
        return rc;
    msg_begin_response(out, m->id);
    msg_map(out, 1);
    msg_key(out, "metagraph");
    msg_bin(out, s->metagraph.data, s->metagraph.len);
    return 0;
}
