#include "common/config/yaml_tree.h"

#include "common/err/check.h"
#include "common/log/log.h"
#include "common/mem/xmalloc.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <yaml.h>

int yaml_vfail(const struct yaml_node *at, const char *path, struct err *err,
               const char *fmt, va_list ap)
{
    /* limited, so that a long --set leaves room for the message */
    char place[ERR_FILE_BYTES];

    (void)snprintf(place, sizeof(place), "%s", at->place);
    (void)err_vset_at(err, ERR_CONFIG,
                      ERR_AT(.file = place, .line = at->line, .key = path), fmt, ap);
    return ERR_CONFIG;
}

int yaml_fail(const struct yaml_node *at, const char *path, struct err *err,
              const char *fmt, ...)
{
    va_list ap;

    va_start(ap, fmt);
    (void)yaml_vfail(at, path, err, fmt, ap);
    va_end(ap);
    return ERR_CONFIG;
}

int yaml_fail_since(const struct yaml_node *at, const char *path, struct err *err,
                    const struct err *why)
{
    int rc = yaml_fail(at, path, err, "%s", why->msg);

    if (!err_is_failure(why->code))
        return rc;
    if (err != NULL)
        err->code = why->code;
    return why->code;
}

struct anchor {
    const char *name;
    struct yaml_node *node; /* NULL: its value is still being read */
};

struct builder {
    yaml_parser_t parser;
    struct arena *arena;
    struct anchor *anchors; /* [n_anchors], the newest last */
    size_t n_anchors;
    const char *place;
    int numbered;
    const char *text; /* text of the whole document */
    size_t len;
    size_t n_values;
    struct err *err;
};

static int fail_at(struct builder *b, size_t line, const char *what, const char *more)
{
    const struct yaml_node at = {.place = b->place,
                                 .line = b->numbered ? (int)line + 1 : 0};

    return yaml_fail(&at, "", b->err, "%s%s", what, more);
}

/* Whether the line (from 0) is indented with a tab. */
static int has_tab(const char *text, size_t len, size_t line)
{
    const char *p = len > 0 ? text : NULL, *end = p != NULL ? p + len : NULL;

    for (; line > 0 && p != NULL; line--) {
        p = memchr(p, '\n', (size_t)(end - p));
        p += p != NULL;
    }
    while (p != NULL && p < end && *p == ' ')
        p++;
    return p != NULL && p < end && *p == '\t';
}

static int next_event(struct builder *b, yaml_event_t *ret)
{
    if (yaml_parser_parse(&b->parser, ret))
        return 0;
    if (has_tab(b->text, b->len, b->parser.problem_mark.line))
        return fail_at(b, b->parser.problem_mark.line,
                       "a tab indents this line, expected spaces", "");
    return fail_at(b, b->parser.problem_mark.line, "not YAML: ",
                   b->parser.problem != NULL ? b->parser.problem : "no memory");
}

static int count_value(struct builder *b, const yaml_event_t *e)
{
    char most[32];

    if (++b->n_values <= YAML_MAX_VALUES)
        return 0;
    (void)snprintf(most, sizeof(most), "%d", YAML_MAX_VALUES);
    return fail_at(b, e->start_mark.line,
                   e->type == YAML_ALIAS_EVENT
                       ? "aliases expand to too many values, at most "
                       : "too many values, at most ",
                   most);
}

static int read_scalar(struct builder *b, const yaml_event_t *e, struct yaml_node *n)
{
    const char *text = (const char *)e->data.scalar.value;

    if (e->data.scalar.tag != NULL)
        return fail_at(b, e->start_mark.line,
                       "tags are not read: ", (const char *)e->data.scalar.tag);
    if (strlen(text) != e->data.scalar.length)
        return fail_at(b, e->start_mark.line, "a text with a NUL byte", "");
    n->kind = YAML_SCALAR;
    n->text = arena_strdup(b->arena, text);
    n->quoted = e->data.scalar.style != YAML_PLAIN_SCALAR_STYLE;
    return 0;
}

static int by_key(const void *a, const void *b)
{
    return strcmp((*(struct yaml_node *const *)a)->key,
                  (*(struct yaml_node *const *)b)->key);
}

/* Returns the children of a map, sorted by key; free(). */
static struct yaml_node **sort_children(const struct yaml_node *map)
{
    struct yaml_node **sorted =
        xreallocarray(NULL, map->n + 1, sizeof(struct yaml_node *));

    if (map->n > 0)
        memcpy(sorted, map->child, map->n * sizeof(struct yaml_node *));
    qsort(sorted, map->n, sizeof(struct yaml_node *), by_key);
    return sorted;
}

static int check_keys_differ(struct builder *b, const struct yaml_node *map)
{
    struct yaml_node **sorted = sort_children(map);
    int rc = 0;

    for (size_t i = 1; rc == 0 && i < map->n; i++) {
        const struct yaml_node *first = sorted[i - 1], *second = sorted[i];

        if (strcmp(first->key, second->key) == 0)
            rc = yaml_fail(first->line > second->line ? first : second, "", b->err,
                           "key '%.60s' is given here and in line %d, expected once",
                           first->key,
                           first->line > second->line ? second->line : first->line);
    }
    free(sorted);
    return rc;
}

static int read_value(struct builder *b, const yaml_event_t *e, int depth,
                      struct yaml_node **ret);

/* Reads one element or entry, whose first event is e. */
static int read_child(struct builder *b, const yaml_event_t *e, int is_map, int depth,
                      struct yaml_node **ret)
{
    const int line = b->numbered ? (int)e->start_mark.line + 1 : 0;
    struct yaml_node key = {0};
    yaml_event_t value;
    int rc;

    if (!is_map)
        return read_value(b, e, depth, ret);
    if (e->type != YAML_SCALAR_EVENT)
        return fail_at(b, e->start_mark.line, "a key is a plain text", "");
    rc = read_scalar(b, e, &key);
    if (rc == 0)
        rc = next_event(b, &value);
    if (rc < 0)
        return rc;
    rc = read_value(b, &value, depth, ret);
    yaml_event_delete(&value);
    if (rc == 0) {
        (*ret)->key = key.text;
        (*ret)->line = line; /* the line that an editor should jump to */
    }
    return rc;
}

/* ---- anchors and aliases ---- */

static const char *anchor_of(const yaml_event_t *e)
{
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        return (const char *)e->data.scalar.anchor;
    case YAML_SEQUENCE_START_EVENT:
        return (const char *)e->data.sequence_start.anchor;
    case YAML_MAPPING_START_EVENT:
        return (const char *)e->data.mapping_start.anchor;
    default:
        return NULL;
    }
}

/* Returns the index of the value's anchor; -1 if it has none. ERR_CONFIG, which is below
 * -1. */
static int add_anchor(struct builder *b, const yaml_event_t *e)
{
    const char *name = anchor_of(e);

    if (name == NULL)
        return -1;
    if (b->n_anchors == YAML_MAX_ANCHORS) {
        (void)fail_at(b, e->start_mark.line, "too many anchors", "");
        return ERR_CONFIG;
    }
    if (b->anchors == NULL)
        b->anchors = ARENA_ARRAY(b->arena, struct anchor, YAML_MAX_ANCHORS);
    b->anchors[b->n_anchors] = (struct anchor){arena_strdup(b->arena, name), NULL};
    return (int)b->n_anchors++;
}

/* Copies the value that an alias refers to, and counts every node of it. */
static int copy_counted(struct builder *b, const yaml_event_t *e,
                        const struct yaml_node *from, int depth, struct yaml_node **ret)
{
    struct yaml_node *n = ARENA_NEW(b->arena, struct yaml_node);
    int rc = count_value(b, e);

    if (rc == 0 && depth > YAML_MAX_DEPTH)
        rc = fail_at(b, e->start_mark.line, "nested too deeply", "");
    if (rc < 0)
        return rc;
    *n = *from;
    n->next = NULL;
    n->child = ARENA_ARRAY(b->arena, struct yaml_node *, n->n);
    for (size_t i = 0; i < n->n && rc == 0; i++)
        rc = copy_counted(b, e, from->child[i], depth + 1, &n->child[i]);
    *ret = n;
    return rc;
}

static int read_alias(struct builder *b, const yaml_event_t *e, int depth,
                      struct yaml_node **ret)
{
    const char *name = (const char *)e->data.alias.anchor;
    size_t i = b->n_anchors;

    while (i > 0 && strcmp(b->anchors[i - 1].name, name) != 0)
        i--;
    if (i == 0)
        return fail_at(b, e->start_mark.line, "there is no anchor above for *", name);
    if (b->anchors[i - 1].node == NULL)
        return fail_at(b, e->start_mark.line, "within its own anchor: *", name);
    return copy_counted(b, e, b->anchors[i - 1].node, depth, ret);
}

/* Replaces a key << by those entries of its maps whose keys the map itself does not
 * have. */
static int take_merge_key(struct builder *b, struct yaml_node *map)
{
    struct yaml_node *from = yaml_find(map, "<<"), *under = NULL;
    const char *key = map->key;

    if (from == NULL)
        return 0;
    yaml_remove(map, from);
    if (from->kind == YAML_LIST && from->n > YAML_MAX_MERGED)
        return yaml_fail(from, "<<", b->err, "found %zu maps, expected at most %d",
                         from->n, YAML_MAX_MERGED);
    for (size_t i = 0; from->kind == YAML_LIST && i < from->n; i++) {
        if (from->child[i]->kind != YAML_MAP)
            return yaml_fail(from->child[i], "<<", b->err, "expected a map");
        under = yaml_merge(b->arena, from->child[i], under);
    }
    if (from->kind == YAML_SCALAR)
        return yaml_fail(from, "<<", b->err, "expected a map or a list of maps");
    *map = *yaml_merge(b->arena, from->kind == YAML_MAP ? from : under, map);
    map->key = key;
    return 0;
}

static int read_children(struct builder *b, struct yaml_node *parent, int depth)
{
    const int is_map = parent->kind == YAML_MAP;
    struct yaml_node *first = NULL, **link = &first;
    int rc = 0, at_end = 0;

    while (rc == 0 && !at_end) {
        yaml_event_t e;

        rc = next_event(b, &e);
        if (rc < 0)
            return rc;
        at_end = e.type == YAML_SEQUENCE_END_EVENT || e.type == YAML_MAPPING_END_EVENT;
        if (!at_end) {
            rc = read_child(b, &e, is_map, depth + 1, link);
            if (rc == 0) {
                link = &(*link)->next;
                parent->n++;
            }
        }
        yaml_event_delete(&e);
    }
    if (rc < 0)
        return rc;
    parent->child = ARENA_ARRAY(b->arena, struct yaml_node *, parent->n);
    for (size_t i = 0; i < parent->n; i++, first = first->next)
        parent->child[i] = first;
    rc = is_map ? check_keys_differ(b, parent) : 0;
    return rc == 0 && is_map ? take_merge_key(b, parent) : rc;
}

static int read_unmarked(struct builder *b, const yaml_event_t *e, int depth,
                         struct yaml_node **ret)
{
    struct yaml_node *n = ARENA_NEW(b->arena, struct yaml_node);
    int rc = count_value(b, e);

    if (rc < 0)
        return rc;
    n->place = b->place;
    n->line = b->numbered ? (int)e->start_mark.line + 1 : 0;
    *ret = n;
    if (depth > YAML_MAX_DEPTH)
        return fail_at(b, e->start_mark.line, "nested too deeply", "");
    switch (e->type) {
    case YAML_SCALAR_EVENT:
        return read_scalar(b, e, n);
    case YAML_SEQUENCE_START_EVENT:
        n->kind = YAML_LIST;
        return read_children(b, n, depth);
    case YAML_MAPPING_START_EVENT:
        n->kind = YAML_MAP;
        return read_children(b, n, depth);
    default:
        return fail_at(b, e->start_mark.line, "expected a value", "");
    }
}

static int read_value(struct builder *b, const yaml_event_t *e, int depth,
                      struct yaml_node **ret)
{
    int anchor, rc;

    if (e->type == YAML_ALIAS_EVENT)
        return read_alias(b, e, depth, ret);
    anchor = add_anchor(b, e);
    if (anchor < -1)
        return anchor;
    rc = read_unmarked(b, e, depth, ret);
    if (rc == 0 && anchor >= 0)
        b->anchors[anchor].node = *ret;
    return rc;
}

/* Reads the events around the only document of the stream; an empty document is null. */
static int read_stream(struct builder *b, struct yaml_node **ret)
{
    struct yaml_node *root = NULL;
    int rc = 0;

    for (int done = 0; rc == 0 && !done;) {
        yaml_event_t e;

        rc = next_event(b, &e);
        if (rc < 0)
            return rc;
        done = e.type == YAML_STREAM_END_EVENT;
        if (e.type == YAML_DOCUMENT_START_EVENT && root != NULL)
            rc = fail_at(b, e.start_mark.line, "a second document, expected one", "");
        else if (e.type != YAML_STREAM_START_EVENT && !done &&
                 e.type != YAML_DOCUMENT_START_EVENT && e.type != YAML_DOCUMENT_END_EVENT)
            rc = read_value(b, &e, 0, &root);
        yaml_event_delete(&e);
    }
    if (rc == 0 && root == NULL) {
        root = ARENA_NEW(b->arena, struct yaml_node);
        *root = (struct yaml_node){
            .place = b->place, .line = b->numbered ? 1 : 0, .text = ""};
    }
    *ret = root;
    return rc;
}

int yaml_tree_parse(struct yaml_node **ret, struct arena *arena, const char *text,
                    size_t len, const char *place, int numbered, struct err *err)
{
    /* editors of Windows put this mark before the text */
    const size_t mark = len >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    struct builder b = {.arena = arena,
                        .place = place,
                        .numbered = numbered,
                        .text = text + mark,
                        .len = len - mark,
                        .err = err};
    int rc;

    if (len > YAML_MAX_BYTES)
        return err_set(err, ERR_LIMIT, "%.160s: %zu bytes of YAML, at most %u are read",
                       place, len, YAML_MAX_BYTES);
    log_debug("yaml: reading %zu bytes of %.160s", len, place);
    if (!yaml_parser_initialize(&b.parser))
        return err_set(err, ERR_NOMEM, "%.160s: no memory", place);
    yaml_parser_set_encoding(&b.parser, YAML_UTF8_ENCODING);
    yaml_parser_set_input_string(&b.parser, (const unsigned char *)b.text, b.len);
    rc = read_stream(&b, ret);
    yaml_parser_delete(&b.parser);
    return rc;
}

int yaml_is_word(const struct yaml_node *n, const char *word, const char *title,
                 const char *upper)
{
    return n->kind == YAML_SCALAR && !n->quoted &&
           (strcmp(n->text, word) == 0 || strcmp(n->text, title) == 0 ||
            strcmp(n->text, upper) == 0);
}

int yaml_is_null(const struct yaml_node *n)
{
    return yaml_is_word(n, "null", "Null", "NULL") || yaml_is_word(n, "", "~", "~");
}

struct yaml_node *yaml_find(const struct yaml_node *map, const char *key)
{
    if (map == NULL || map->kind != YAML_MAP)
        return NULL;
    for (size_t i = 0; i < map->n; i++) {
        if (strcmp(map->child[i]->key, key) == 0)
            return map->child[i];
    }
    return NULL;
}

const struct yaml_node *yaml_find_path(const struct yaml_node *map, const char *path)
{
    char key[ERR_NAME_BYTES];

    while (map != NULL && *path != '\0') {
        const size_t n = strcspn(path, ".");

        (void)snprintf(key, sizeof(key), "%.*s", (int)n, path);
        map = yaml_find(map, key);
        path += n + (path[n] == '.' ? 1 : 0);
    }
    return map;
}

void yaml_add(struct yaml_node *parent, struct yaml_node *child, struct arena *arena)
{
    struct yaml_node **children = ARENA_ARRAY(arena, struct yaml_node *, parent->n + 1);

    for (size_t i = 0; i < parent->n; i++)
        children[i] = parent->child[i];
    children[parent->n++] = child;
    parent->child = children;
}

struct yaml_node *yaml_as(const struct yaml_node *n, const char *key, struct arena *arena)
{
    struct yaml_node *copy = ARENA_NEW(arena, struct yaml_node);

    *copy = *n;
    copy->key = key;
    return copy;
}

void yaml_remove(struct yaml_node *parent, const struct yaml_node *child)
{
    size_t kept = 0;

    for (size_t i = 0; i < parent->n; i++) {
        if (parent->child[i] != child)
            parent->child[kept++] = parent->child[i];
    }
    parent->n = kept;
}

/* ---- merging ---- */

static struct yaml_node *find_sorted(struct yaml_node **sorted, size_t n,
                                     struct yaml_node *like)
{
    struct yaml_node **found = bsearch(&like, sorted, n, sizeof(*sorted), by_key);

    return found != NULL ? *found : NULL;
}

struct yaml_node *yaml_merge(struct arena *arena, struct yaml_node *under,
                             struct yaml_node *over)
{
    static const struct yaml_node nothing = {.kind = YAML_MAP};
    struct yaml_node empty = nothing, *m, **unders, **overs;

    if (over == NULL && under != NULL && under->kind == YAML_MAP)
        over = &empty;
    if (over == NULL || over->kind != YAML_MAP)
        return over != NULL ? over : under;
    if (under == NULL || under->kind != YAML_MAP)
        under = &empty;
    m = ARENA_NEW(arena, struct yaml_node);
    *m = over != &empty ? *over : *under;
    m->child = ARENA_ARRAY(arena, struct yaml_node *, under->n + over->n);
    m->n = 0;
    unders = sort_children(under);
    overs = sort_children(over);
    for (size_t i = 0; i < under->n; i++) {
        struct yaml_node *own = find_sorted(overs, over->n, under->child[i]);

        if (own == NULL || !yaml_is_null(own))
            m->child[m->n++] = yaml_merge(arena, under->child[i], own);
    }
    for (size_t i = 0; i < over->n; i++)
        if (find_sorted(unders, under->n, over->child[i]) == NULL)
            m->child[m->n++] = yaml_merge(arena, NULL, over->child[i]);
    free(unders);
    free(overs);
    return m;
}

struct yaml_node *yaml_tree_copy(const struct yaml_node *n, struct arena *arena)
{
    struct yaml_node *copy = ARENA_NEW(arena, struct yaml_node);

    *copy = *n;
    copy->place = arena_strdup(arena, n->place);
    copy->key = n->key != NULL ? arena_strdup(arena, n->key) : NULL;
    copy->text = n->text != NULL ? arena_strdup(arena, n->text) : NULL;
    copy->child = ARENA_ARRAY(arena, struct yaml_node *, n->n);
    copy->next = NULL;
    for (size_t i = 0; i < n->n; i++)
        copy->child[i] = yaml_tree_copy(n->child[i], arena);
    return copy;
}

/* Whether the text means the same without quotes in every position of a YAML file. */
static int is_plain_text(const char *text)
{
    static const char plain[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                                "0123456789_.+-/";

    return *text != '\0' && text[strspn(text, plain)] == '\0' && strcmp(text, "-") != 0;
}

int yaml_value_parse(struct yaml_node **ret, struct arena *arena, const char *text,
                     const char *place, struct err *err)
{
    if (*text != '\0' && !is_plain_text(text))
        return yaml_tree_parse(ret, arena, text, strlen(text), place, 0, err);
    *ret = ARENA_NEW(arena, struct yaml_node);
    **ret = (struct yaml_node){
        .kind = YAML_SCALAR, .place = place, .text = arena_strdup(arena, text)};
    return 0;
}

static int same_scalar(const struct yaml_node *a, const struct yaml_node *b)
{
    if (yaml_is_null(a) || yaml_is_null(b))
        return yaml_is_null(a) && yaml_is_null(b);
    return strcmp(a->text, b->text) == 0 &&
           (a->quoted == b->quoted || !is_plain_text(a->text));
}

int yaml_tree_equal(const struct yaml_node *a, const struct yaml_node *b)
{
    if (a == NULL || b == NULL)
        return a == b;
    if (a->kind != b->kind || a->n != b->n)
        return 0;
    if (a->kind == YAML_SCALAR)
        return same_scalar(a, b);
    for (size_t i = 0; i < a->n; i++) {
        if (a->kind == YAML_MAP && strcmp(a->child[i]->key, b->child[i]->key) != 0)
            return 0;
        if (!yaml_tree_equal(a->child[i], b->child[i]))
            return 0;
    }
    return 1;
}

/* Writes a text. In double quotes, any text can be written. */
static void write_text(const char *text, int quoted, FILE *f)
{
    if (!quoted && is_plain_text(text)) {
        (void)fputs(text, f);
        return;
    }
    (void)fputc('"', f);
    for (const char *p = text; *p != '\0'; p++) {
        const unsigned char c = (unsigned char)*p;

        if (c == '"' || c == '\\')
            (void)fprintf(f, "\\%c", c);
        else if (c < ' ' || c == 0x7f)
            (void)fprintf(f, "\\x%02x", c);
        else
            (void)fputc(c, f);
    }
    (void)fputc('"', f);
}

void yaml_text_write(const char *text, FILE *f)
{
    const struct yaml_node bare = {.kind = YAML_SCALAR, .text = text};

    write_text(text, yaml_is_null(&bare), f);
}

void yaml_tree_write(const struct yaml_node *n, FILE *f)
{
    if (n->kind == YAML_SCALAR) {
        if (yaml_is_null(n))
            (void)fputc('~', f);
        else
            write_text(n->text, n->quoted, f);
        return;
    }
    (void)fputc(n->kind == YAML_MAP ? '{' : '[', f);
    for (size_t i = 0; i < n->n; i++) {
        (void)fputs(i > 0 ? ", " : "", f);
        if (n->kind == YAML_MAP) {
            write_text(n->child[i]->key, 0, f);
            (void)fputs(": ", f);
        }
        yaml_tree_write(n->child[i], f);
    }
    (void)fputc(n->kind == YAML_MAP ? '}' : ']', f);
}

const char *yaml_tree_text(const struct yaml_node *n, struct arena *arena)
{
    struct xstream text;
    FILE *f = xstream_begin(&text);
    const char *ret;

    yaml_tree_write(n, f);
    (void)xstream_end(&text);
    ret = arena_strndup(arena, text.text, text.len);
    free(text.text);
    return ret;
}

struct assignment {
    const char *place; /* "--set KEY=VALUE" as the user gave it */
    const char *path;  /* the KEY of it */
    const struct yaml_node *value;
    struct arena *arena;
    struct err *err;
};

/* Finds the entry that `path` begins with: the longest existing key, or else the text up
 * to the first dot. *ret_rest: the rest of the path, or NULL at its end. */
static struct yaml_node *step_into_map(struct assignment *a, struct yaml_node *map,
                                       const char *path, const char **ret_rest)
{
    struct yaml_node *found = NULL;
    size_t len = strcspn(path, "."), best = 0;

    for (size_t i = 0; i < map->n; i++) {
        size_t n = strlen(map->child[i]->key);

        if (n > best && strncmp(path, map->child[i]->key, n) == 0 &&
            (path[n] == '.' || path[n] == '\0')) {
            found = map->child[i];
            best = len = n;
        }
    }
    *ret_rest = path[len] == '.' ? path + len + 1 : NULL;
    if (found == NULL) {
        found = yaml_as(&(struct yaml_node){.kind = YAML_MAP, .place = a->place},
                        arena_strndup(a->arena, path, len), a->arena);
        yaml_add(map, found, a->arena);
    }
    return found;
}

static int step_into_list(struct assignment *a, struct yaml_node *list, const char *path,
                          const char **ret_rest, struct yaml_node **ret)
{
    const struct yaml_node at = {.place = a->place};
    char *end;
    unsigned long i = strtoul(path, &end, 10);

    if (*path < '0' || *path > '9' || (*end != '.' && *end != '\0') || i >= list->n)
        return yaml_fail(&at, a->path, a->err,
                         "'%.40s' is no index of a list of %zu, expected 0 to %zu", path,
                         list->n, list->n > 0 ? list->n - 1 : 0);
    *ret_rest = *end == '.' ? end + 1 : NULL;
    *ret = list->child[i];
    return 0;
}

static int assign(struct assignment *a, struct yaml_node *root)
{
    const struct yaml_node at = {.place = a->place};
    struct yaml_node *n = root, *parent = root;
    const char *key;
    int depth = 0;

    for (const char *rest = a->path; rest != NULL; depth++) {
        parent = n;
        if (*rest == '\0' || *rest == '.' || depth == YAML_MAX_DEPTH)
            return yaml_fail(&at, a->path, a->err, "no key path, expected e.g. run.seed");
        if (n->kind == YAML_LIST) {
            int rc = step_into_list(a, n, rest, &rest, &n);

            if (rc < 0)
                return rc;
            continue;
        }
        if (n->kind == YAML_SCALAR && !yaml_is_null(n))
            return yaml_fail(&at, a->path, a->err,
                             "there is nothing under the value '%.40s'", n->text);
        n->kind = YAML_MAP;
        n = step_into_map(a, n, rest, &rest);
    }
    if (parent->kind == YAML_MAP && yaml_is_null(a->value)) {
        yaml_remove(parent, n);
        return 0;
    }
    key = n->key;
    *n = *a->value;
    n->key = key;
    return 0;
}

int yaml_tree_set(struct yaml_node *root, struct arena *arena, const char *option,
                  const char *assignment, struct err *err)
{
    const char *equals = strchr(assignment, '=');
    struct assignment a = {.arena = arena, .err = err};
    struct yaml_node *value;
    int rc;

    a.place = arena_printf(arena, "%s%s", option, assignment);
    if (equals == NULL || equals == assignment)
        return yaml_fail(&(struct yaml_node){.place = a.place}, "", err,
                         "expected KEY=VALUE");
    a.path = arena_strndup(arena, assignment, (size_t)(equals - assignment));
    rc = yaml_value_parse(&value, arena, equals + 1, a.place, err);
    a.value = value;
    return rc < 0 ? rc : assign(&a, root);
}

static int newness(const struct yaml_node *root, const struct yaml_node *n)
{
    if (n == NULL)
        return -1;
    return n->line == 0 ? 2 : strcmp(n->place, root->place) == 0;
}

const struct yaml_node *yaml_newer(const struct yaml_node *root,
                                   const struct yaml_node *a, const struct yaml_node *b)
{
    return newness(root, b) > newness(root, a) ? b : a;
}

enum { NEAREST_MAX = 255 };

size_t yaml_edits(const char *a, const char *b)
{
    size_t row[3][NEAREST_MAX + 1];
    size_t la = strlen(a), lb = strlen(b);

    CHECK(la <= NEAREST_MAX && lb <= NEAREST_MAX);
    for (size_t j = 0; j <= lb; j++)
        row[0][j] = j;
    for (size_t i = 1; i <= la; i++) {
        size_t *now = row[i % 3], *last = row[(i + 2) % 3], *before = row[(i + 1) % 3];

        now[0] = i;
        for (size_t j = 1; j <= lb; j++) {
            size_t d = last[j - 1] + (a[i - 1] != b[j - 1]);

            d = d < last[j] + 1 ? d : last[j] + 1;
            d = d < now[j - 1] + 1 ? d : now[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                d > before[j - 2] + 1)
                d = before[j - 2] + 1;
            now[j] = d;
        }
    }
    return row[la % 3][lb];
}

const char *yaml_nearest(const char *word, const char *const *candidates, size_t n)
{
    const char *nearest = NULL;
    size_t len = strnlen(word, NEAREST_MAX + 1);
    size_t best = 1 + len / 3; /* with more edits than this, a name is another word */

    if (len > NEAREST_MAX)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        size_t d;

        if (candidates[i] == NULL || strlen(candidates[i]) > NEAREST_MAX)
            continue;
        d = yaml_edits(word, candidates[i]);
        if (d == 0) /* the word itself, which is wrong for another reason */
            continue;
        if (d < best || (d == best && nearest == NULL)) {
            best = d;
            nearest = candidates[i];
        }
    }
    return nearest;
}

int yaml_add_nearest(struct err *err, const char *word, const char *const *candidates,
                     size_t n)
{
    const char *nearest = yaml_nearest(word, candidates, n);

    if (nearest != NULL)
        return err_add(err, "did you mean '%s'?", nearest);
    return err != NULL ? err->code : ERR_IO;
}
