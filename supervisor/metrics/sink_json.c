#include "supervisor/metrics/sinks.h"

void json_put_row(struct json *j, const struct metrics_row *row)
{
    json_object(j);
    json_key(j, "event");
    json_str(j, "row");
    json_key(j, "env_steps");
    json_u64(j, row->env_steps);
    json_key(j, "episodes");
    json_u64(j, row->episodes);
    for (size_t i = 0; i < row->n; i++) {
        json_key(j, row->names[i]);
        json_f64(j, row->values[i]);
    }
    json_close(j);
}
