/* Arbitrary bytes as sent by a browser: as a request, which is parsed within bounds, and
 * as a token, which is never accepted. */
#include "common/err/check.h"
#include "common/mem/xmalloc.h"
#include "supervisor/web/guard.h"
#include "supervisor/web/request.h"
#include "tests/fuzz/fuzz.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = xcalloc(1, size + 1);
    struct guard guard;
    struct request r;
    struct err err = {0};
    uint64_t number;

    if (size > 0)
        memcpy(text, data, size);
    CHECK(guard_init(&guard, NULL) == 0);
    guard_set_port(&guard, 8123);
    CHECK(!guard_token(&guard, text));
    (void)guard_origin(&guard, text, 1);
    if (request_parse(&r, text, size, &err) == 0) {
        CHECK(r.id > 0 && r.method != NULL && r.n <= REQUEST_MAX_PARAMS);
        for (size_t i = 0; i < r.n; i++) {
            CHECK(r.param[i].key >= text && r.param[i].value > r.param[i].key);
            CHECK(r.param[i].value + strlen(r.param[i].value) <= text + size);
            CHECK(request_get(&r, r.param[i].key) != NULL);
            (void)request_u64(&r, r.param[i].key, &number);
        }
    } else {
        CHECK(err.code < 0 && err.msg[0] != '\0');
    }
    free(text);
    return 0;
}
