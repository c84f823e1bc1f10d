#include "supervisor/cli/journal_json.h"

#include "supervisor/cli/msg_json.h"
#include "supervisor/run/journal_read.h"

int journal_json_print(char *line)
{
    struct journal_event e;
    struct json j = {0};
    int rc = journal_parse(line, &e);

    if (rc < 0)
        return rc;
    json_begin(&j);
    json_object(&j);
    json_key(&j, "time");
    json_str(&j, e.time);
    if (e.env_steps != JOURNAL_NO_STEP) {
        json_key(&j, "env_steps");
        json_u64(&j, e.env_steps);
    }
    json_key(&j, "event");
    json_str(&j, e.name);
    for (size_t i = 0; i < e.n_pairs; i++) {
        json_key(&j, e.pairs[i].key);
        json_str(&j, e.pairs[i].value);
    }
    json_close(&j);
    msg_json_print(&j);
    json_done(&j);
    return 0;
}
