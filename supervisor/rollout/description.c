#include "supervisor/rollout/description.h"

#include "common/text/scan.h"

#include <string.h>

/* Methods of the protocol, which a stage must not be named after. */
static const char *const reserved[] = {"act",      "configure", "run",       "set",
                                       "snapshot", "ping",      "restore",   "shutdown",
                                       "hello",    "import",    "metagraph", NULL};

static int identifier_ok(const char *s)
{
    size_t n =
        strspn(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-");

    return n > 0 && s[n] == '\0';
}

static int find_stage(const struct stage_list *l, const char *name, size_t len)
{
    for (int i = 0; i < l->n; i++)
        if (strlen(l->stage[i].name) == len && memcmp(l->stage[i].name, name, len) == 0)
            return i;
    return -1;
}

/* Not run by the learners. */
static int is_single(const struct stage_decl *s)
{
    return s->central || s->ps;
}

/* Parses one entry of reads, e.g. "propose/action" or "own:values/q". */
static int parse_read(struct stage_list *l, struct stage_decl *s, const msgpack_object *o,
                      struct err *err)
{
    struct stage_read *r = &s->reads[s->n_reads];
    char text[STAGE_NAME_MAX + STAGE_OUTPUT_MAX];
    const char *name = text, *after, *slash;

    if (o->type != MSGPACK_OBJECT_STR || o->via.str.size >= sizeof(text))
        return err_set(err, ERR_PROTOCOL, "stage '%s': reads must be short strings",
                       s->name);
    memcpy(text, o->via.str.ptr, o->via.str.size);
    text[o->via.str.size] = '\0';
    if ((after = text_after(name, "own:")) != NULL) {
        r->own = 1;
        name = after;
    }
    if ((after = text_after(name, INPUT_PREVIOUS)) != NULL) {
        r->previous = 1;
        name = after;
    }
    slash = strchr(name, '/');
    if (slash == NULL || strlen(slash + 1) >= sizeof(r->name) ||
        !identifier_ok(slash + 1))
        return err_set(err, ERR_PROTOCOL, "stage '%s' reads '%s', not 'stage/output'",
                       s->name, text);
    r->stage = find_stage(l, name, (size_t)(slash - name));
    if (r->previous && s->turns && text_is_word(name, (size_t)(slash - name), s->name))
        r->stage = l->n;
    else if (r->previous)
        return err_set(err, ERR_PROTOCOL,
                       "stage '%s' reads '%s': not an output of its own turns", s->name,
                       text);
    if (r->stage < 0)
        return err_set(err, ERR_PROTOCOL, "stage '%s' reads '%s': no earlier stage",
                       s->name, text);
    if (r->own && (is_single(s) || is_single(&l->stage[r->stage])))
        return err_set(err, ERR_PROTOCOL,
                       "stage '%s' reads '%s': only learners have outputs of their own",
                       s->name, text);
    memcpy(r->name, slash + 1, strlen(slash + 1) + 1);
    for (int i = 0; i < s->n_reads; i++)
        if (strcmp(s->reads[i].name, r->name) == 0 &&
            l->stage[s->reads[i].stage].central == l->stage[r->stage].central &&
            l->stage[s->reads[i].stage].ps == l->stage[r->stage].ps)
            return err_set(err, ERR_PROTOCOL, "stage '%s' reads two outputs named '%s'",
                           s->name, r->name);
    l->stage[r->stage].is_read = 1;
    s->n_reads++;
    return 0;
}

static int parse_reads(struct stage_list *l, struct stage_decl *s,
                       const msgpack_object *map, struct err *err)
{
    const msgpack_object *reads = NULL;
    int rc = msg_get_array(map, "reads", &reads, err);

    if (rc < 0 || reads == NULL)
        return rc;
    if (reads->via.array.size > STAGE_READS_MAX)
        return err_set(err, ERR_PROTOCOL, "stage '%s' reads more than %d outputs",
                       s->name, STAGE_READS_MAX);
    for (uint32_t i = 0; i < reads->via.array.size; i++)
        if ((rc = parse_read(l, s, &reads->via.array.ptr[i], err)) < 0)
            return rc;
    return 0;
}

/* Repeated ranges of stages must not overlap, so that one counter is enough to say which
 * repetition a stage is in. */
static int parse_repeat(const struct stage_list *l, struct stage_decl *s,
                        const msgpack_object *map, struct err *err)
{
    uint64_t from = (uint64_t)l->n, repeat = 1;
    int rc;

    if ((rc = msg_get_u64(map, "repeat_from", (uint64_t)l->n, &from, err)) < 0 ||
        (rc = msg_get_u64(map, "repeat", STAGE_REPEAT_MAX, &repeat, err)) < 0)
        return rc;
    s->repeat_from = (int)from;
    s->repeat = repeat > 0 ? repeat : 1;
    for (int i = s->repeat_from; s->repeat > 1 && i < l->n; i++)
        if (l->stage[i].repeat > 1)
            return err_set(err, ERR_PROTOCOL,
                           "stage '%s': its repetition overlaps that "
                           "of '%s'",
                           s->name, l->stage[i].name);
    return 0;
}

static int parse_stage(struct stage_list *l, const msgpack_object *map, struct err *err)
{
    struct stage_decl *s = &l->stage[l->n];
    char runner[16] = "";
    int rc;

    if (map->type != MSGPACK_OBJECT_MAP)
        return err_set(err, ERR_PROTOCOL, "stages: not a map");
    if ((rc = msg_get_str(map, "name", s->name, sizeof(s->name), err)) < 0)
        return rc;
    if (!identifier_ok(s->name) || find_stage(l, s->name, strlen(s->name)) >= 0)
        return err_set(err, ERR_PROTOCOL, "malformed or duplicate stage name '%s'",
                       s->name);
    if (text_find(reserved, s->name) >= 0)
        return err_set(err, ERR_PROTOCOL, "stage name '%s' is a method of the protocol",
                       s->name);
    if ((rc = msg_get_str(map, "runner", runner, sizeof(runner), err)) < 0 ||
        (rc = msg_get_bool(map, "writes", &s->writes, err)) < 0)
        return rc;
    s->central = strcmp(runner, "central") == 0;
    s->turns = strcmp(runner, "turns") == 0;
    s->ps = strcmp(runner, "ps") == 0;
    if (!is_single(s) && !s->turns && strcmp(runner, "learners") != 0)
        return err_set(err, ERR_PROTOCOL, "stage '%s': unknown runner '%s'", s->name,
                       runner);
    if ((rc = parse_reads(l, s, map, err)) < 0 || (rc = parse_repeat(l, s, map, err)) < 0)
        return rc;
    l->n++;
    return 0;
}

static int parse_stages(struct stage_list *l, const msgpack_object *body, struct err *err)
{
    const msgpack_object *stages = NULL;
    int rc = msg_get_array(body, "stages", &stages, err);

    if (rc < 0 || stages == NULL)
        return rc;
    if (stages->via.array.size > STAGES_MAX)
        return err_set(err, ERR_PROTOCOL, "more than %d stages", STAGES_MAX);
    for (uint32_t i = 0; i < stages->via.array.size; i++)
        if ((rc = parse_stage(l, &stages->via.array.ptr[i], err)) < 0)
            return rc;
    return 0;
}

static int parse_column(struct description *d, const msgpack_object *map, struct err *err)
{
    struct description_column *c = &d->columns[d->n_columns];
    uint64_t elements = 0;
    int rc;

    if (map->type != MSGPACK_OBJECT_MAP)
        return err_set(err, ERR_PROTOCOL, "columns: not a map");
    if ((rc = msg_get_str(map, "name", c->name, sizeof(c->name), err)) < 0 ||
        (rc = msg_get_u64(map, "elements", DESCRIPTION_WIDTH, &elements, err)) < 0)
        return rc;
    if (!identifier_ok(c->name) || elements == 0)
        return err_set(err, ERR_PROTOCOL, "bad column '%s'", c->name);
    c->elements = (uint32_t)elements;
    d->n_columns++;
    return 0;
}

static int parse_columns(struct description *d, const msgpack_object *body,
                         struct err *err)
{
    const msgpack_object *columns = NULL;
    int rc = msg_get_array(body, "columns", &columns, err);

    if (rc < 0 || columns == NULL)
        return rc;
    if (columns->via.array.size > DESCRIPTION_COLUMNS)
        return err_set(err, ERR_PROTOCOL, "more than %d columns", DESCRIPTION_COLUMNS);
    for (uint32_t i = 0; i < columns->via.array.size; i++)
        if ((rc = parse_column(d, &columns->via.array.ptr[i], err)) < 0)
            return rc;
    return 0;
}

static int parse_rows(struct description *d, const msgpack_object *body, struct err *err)
{
    const msgpack_object *map = NULL;
    char kind[16] = "transitions";
    uint64_t length = 1;
    int rc = msg_get_map(body, "rows", &map, err), k;

    if (rc == 0 && map != NULL &&
        (rc = msg_get_str(map, "kind", kind, sizeof(kind), err)) == 0)
        rc = msg_get_u64(map, "length", DESCRIPTION_LENGTH, &length, err);
    if (rc < 0)
        return rc;
    k = text_find(rows_kind_names, kind);
    if (k < 0 || (k == ROWS_TRANSITIONS && length == 0))
        return err_set(err, ERR_PROTOCOL, "unknown rows '%s' of length %llu", kind,
                       (unsigned long long)length);
    d->rows = (enum rows_kind)k;
    d->length = (uint32_t)length;
    return 0;
}

static int parse_shared(struct description *d, const msgpack_object *body,
                        struct err *err)
{
    const msgpack_object *map = NULL;
    int rc = msg_get_map(body, "shared", &map, err);

    if (rc < 0 || map == NULL)
        return rc;
    rc = msg_get_u64(map, "elements", UINT64_MAX, &d->shared, err);
    return rc < 0 ? rc : msg_get_u64(map, "layout", UINT64_MAX, &d->shared_layout, err);
}

int description_parse(struct description *ret, const msgpack_object *body,
                      const char *agent, struct err *err)
{
    struct description d = {0};
    uint64_t carry = 0;
    int rc;

    if (body->type != MSGPACK_OBJECT_MAP)
        rc = err_set(err, ERR_PROTOCOL, "not a map");
    else if ((rc = parse_stages(&d.stages, body, err)) == 0 &&
             (rc = msg_get_bool(body, "proposes", &d.proposes, err)) == 0 &&
             (rc = msg_get_u64(body, "carry", DESCRIPTION_WIDTH, &carry, err)) == 0 &&
             (rc = parse_shared(&d, body, err)) == 0 &&
             (rc = parse_columns(&d, body, err)) == 0)
        rc = parse_rows(&d, body, err);
    if (rc < 0) {
        (void)err_wrap(err, "%s: answer to configure", agent);
        (void)err_note(err, ERR_AT(.agent = agent));
        return rc;
    }
    d.carry = (uint32_t)carry;
    *ret = d;
    return 0;
}

static int parse_log_read(uint8_t *ret, const struct store_layout *l,
                          const msgpack_object *o, struct err *err)
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
        rc = parse_log_read(ret, l, &reads->via.array.ptr[i], err);
    for (uint32_t c = 0; rc == 0 && c < l->n_columns; c++)
        if (ret[c] && l->columns[c].stack > 0)
            ret[store_layout_earlier(l, (int)c)] =
                ret[store_layout_find(l, NULL, "first")] = 1;
    if (rc < 0) {
        (void)err_wrap(err, "%s: answer to configure", agent);
        (void)err_note(err, ERR_AT(.agent = agent));
    }
    return rc;
}

static int stage_equal(const struct stage_decl *a, const struct stage_decl *b)
{
    if (strcmp(a->name, b->name) != 0 || a->central != b->central || a->ps != b->ps ||
        a->turns != b->turns || a->writes != b->writes ||
        a->repeat_from != b->repeat_from || a->repeat != b->repeat ||
        a->n_reads != b->n_reads)
        return 0;
    for (int i = 0; i < a->n_reads; i++)
        if (a->reads[i].stage != b->reads[i].stage ||
            a->reads[i].own != b->reads[i].own ||
            a->reads[i].previous != b->reads[i].previous ||
            strcmp(a->reads[i].name, b->reads[i].name) != 0)
            return 0;
    return 1;
}

int stage_list_equal(const struct stage_list *a, const struct stage_list *b)
{
    if (a->n != b->n)
        return 0;
    for (int i = 0; i < a->n; i++)
        if (!stage_equal(&a->stage[i], &b->stage[i]))
            return 0;
    return 1;
}

const struct stage_decl *stage_list_find(const struct stage_list *l, const char *name)
{
    int i = find_stage(l, name, strlen(name));

    return i < 0 ? NULL : &l->stage[i];
}

int stage_list_writes(const struct stage_list *l)
{
    for (int i = 0; i < l->n; i++)
        if (l->stage[i].writes)
            return 1;
    return 0;
}

int stage_list_read_by_all(const struct stage_list *l, int stage)
{
    for (int i = stage + 1; i < l->n; i++)
        for (int k = 0; k < l->stage[i].n_reads; k++)
            if (l->stage[i].reads[k].stage == stage && !l->stage[i].reads[k].own)
                return 1;
    return 0;
}
