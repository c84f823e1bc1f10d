#include "supervisor/rollout/log_reads.h"

#include <string.h>

static int parse_one(uint8_t *ret, const struct store_layout *l, const msgpack_object *o,
                     struct err *err)
{
    char name[STORE_COLUMN_NAME_MAX];
    int c;

    if (o->type != MSGPACK_OBJECT_STR || o->via.str.size >= sizeof(name))
        return err_set(err, ERR_PROTOCOL, "reads: names of columns expected");
    memcpy(name, o->via.str.ptr, o->via.str.size);
    name[o->via.str.size] = '\0';
    c = strlen(name) == o->via.str.size ? store_layout_find(l, NULL, name) : -1;
    if (c < 0)
        return err_set(err, ERR_PROTOCOL, "reads: the experience log has no column '%s'",
                       name);
    if (ret[c])
        return err_set(err, ERR_PROTOCOL, "reads: column '%s' twice", name);
    ret[c] = 1;
    return 0;
}

int log_reads_parse(uint8_t *ret, const struct store_layout *l,
                    const msgpack_object *body, const char *agent, struct err *err)
{
    const msgpack_object *reads = NULL;
    int rc = msg_get_array(body, "reads", &reads, err);

    memset(ret, 0, l->n_columns);
    for (uint32_t i = 0; rc == 0 && reads != NULL && i < reads->via.array.size; i++)
        rc = parse_one(ret, l, &reads->via.array.ptr[i], err);
    if (rc < 0) {
        (void)err_wrap(err, "%s: answer to configure", agent);
        (void)err_note(err, ERR_AT(.agent = agent));
    }
    return rc;
}
