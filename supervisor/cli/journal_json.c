#include "supervisor/cli/journal_json.h"

#include "supervisor/cli/msg_json.h"
#include "supervisor/run/journal_read.h"

#include <math.h>

static void put_value(struct json *j, const struct journal_event *e,
                      const struct journal_pair *pair)
{
    const uint64_t whole = journal_number(e, pair->key, UINT64_MAX);
    const double real = journal_real(e, pair->key, NAN);

    const enum member_type type = run_event_type_of(pair->key);

    if (type == MEMBER_CHANGES)
        changes_json(j, pair->value);
    else if (type == MEMBER_TEXT || type == MEMBER_SIGNAL || isnan(real))
        json_str(j, pair->value);
    else if (whole != UINT64_MAX)
        json_u64(j, whole);
    else
        json_f64(j, real);
}

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
        put_value(&j, &e, &e.pairs[i]);
    }
    json_close(&j);
    msg_json_print(&j);
    json_done(&j);
    return 0;
}
