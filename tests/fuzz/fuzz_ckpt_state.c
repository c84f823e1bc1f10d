/* Arbitrary text as a `checkpoint` file: what can be parsed can be written, and parses to
 * the same content. */
#include "common/ckpt/ckpt_state.h"
#include "common/err/check.h"
#include "tests/fuzz/fuzz.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct ckpt_state s, again;
    struct wbuf b = {0};

    if (ckpt_state_parse(&s, (const char *)data, size, NULL) != 0)
        return 0;
    ckpt_state_put(&b, &s);
    CHECK(ckpt_state_parse(&again, (const char *)b.data, b.len, NULL) == 0);
    CHECK(strcmp(s.newest, again.newest) == 0 && s.n_all == again.n_all);
    for (size_t i = 0; i < s.n_all; i++)
        CHECK(strcmp(s.all[i], again.all[i]) == 0);
    wbuf_done(&b);
    ckpt_state_done(&again);
    ckpt_state_done(&s);
    return 0;
}
