#include "agent/loop/service_internal.h"
#include "common/io/write_all.h"
#include "common/log/log.h"
#include "common/msg/algorithm_msg.h"
#include "common/msg/protocol.h"

#include <unistd.h>

/* All of the registry: the answer does not depend on the request. */
static void answer(struct msg_out *out, uint32_t id)
{
    const struct algorithm_info *a;
    size_t n = 0;

    while (algorithm_at(n) != NULL)
        n++;
    msg_begin_response(out, id);
    msg_map(out, 2);
    msg_put_u64(out, "protocol", PROTOCOL_VERSION);
    msg_key(out, "algorithms");
    msg_array(out, n);
    for (size_t i = 0; (a = algorithm_at(i)) != NULL; i++)
        msg_algorithm(out, a);
}

int handle_describe(struct service *s, const struct msg *m, struct msg_out *out,
                    struct err *err)
{
    answer(out, m->id);
    return 0;
}

int describe_main(void)
{
    struct msg_out out;
    struct err err;
    const uint8_t *frame;
    size_t len;
    int rc;

    msg_out_init(&out);
    answer(&out, 0);
    msg_end(&out, &frame, &len);
    rc = write_all(STDOUT_FILENO, frame, len);
    if (rc < 0) {
        (void)err_errno(&err, "standard output");
        log_error("%s", err.msg);
    }
    msg_out_done(&out);
    return rc < 0;
}
