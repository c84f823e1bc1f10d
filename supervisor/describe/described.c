/* The algorithms of the brood-agent that was built with this brood (algorithms.h). */
#include "supervisor/describe/packed.h"

#include "common/config/algorithms.h"
#include "common/err/check.h"
#include "common/msg/algorithm_msg.h"
#include "common/msg/frame.h"

enum { MAX_ALGORITHMS = 64 };

/* Lives as long as the process, as the descriptions do. */
static struct arena arena;
static struct algorithm_info all[MAX_ALGORITHMS + 1]; /* up to one without a name */

static int unpack(struct err *err)
{
    const msgpack_object *list = NULL;
    struct msg answer;
    int rc = msg_parse(&answer, described_frame + FRAME_HEADER_BYTES,
                       described_frame_bytes - FRAME_HEADER_BYTES, err);

    if (rc < 0)
        return rc;
    rc = msg_get_array(&answer.body, "algorithms", &list, err);
    for (uint32_t i = 0; rc == 0 && list != NULL && i < list->via.array.size; i++) {
        CHECK(i < MAX_ALGORITHMS);
        rc = msg_to_algorithm(&list->via.array.ptr[i], &all[i], &arena, err);
    }
    msg_done(&answer);
    return rc;
}

const struct algorithm_info *algorithm_at(size_t i)
{
    struct err err = {0};

    CHECK(all[0].name != NULL || unpack(&err) == 0, "brood-agent describe: %s", err.msg);
    return i < MAX_ALGORITHMS && all[i].name != NULL ? &all[i] : NULL;
}
