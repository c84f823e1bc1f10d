#include "agent/graph/graph_internal.h"

#include "common/err/check.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

/* ---- names ---- */

int name_valid(const char *name, int inside_scope)
{
    unsigned char first = (unsigned char)name[0];

    if (!isalnum(first) && first != '.' &&
        !(inside_scope && strchr("_-/", first) != NULL))
        return 0;
    for (const char *p = name; *p != '\0'; p++)
        if (!isalnum((unsigned char)*p) && strchr("_.-/>", *p) == NULL)
            return 0;
    return name[0] != '\0';
}

static char *lower(struct graph *g, const char *s)
{
    char *copy = arena_strdup(&g->arena, s);

    for (char *p = copy; *p != '\0'; p++)
        *p = (char)tolower((unsigned char)*p);
    return copy;
}

/* Graph.unique_name of TensorFlow 1.13: case is ignored. */
const char *graph_unique_name(struct graph *g, const char *name)
{
    const char *full = arena_join(&g->arena, graph_name_scope(g), name);
    const char *key = lower(g, full), *candidate = key;
    int i = name_table_add(&g->names_in_use, key)->count++;
    char suffix[16];

    if (i == 0)
        return full;
    for (; name_table_find(&g->names_in_use, candidate) != NULL; i++) {
        (void)snprintf(suffix, sizeof(suffix), "_%d", i);
        candidate = arena_join(&g->arena, key, suffix);
    }
    name_table_add(&g->names_in_use, candidate)->count = 1;
    return arena_join(&g->arena, full, suffix);
}

void graph_claim_name(struct graph *g, const char *name)
{
    struct name_entry *e = name_table_add(&g->names_in_use, lower(g, name));

    if (e->count == 0)
        e->count = 1;
}

/* ---- name scopes ---- */

const char *graph_name_scope(const struct graph *g)
{
    const char *scope = ptr_list_last(&g->name_scopes);

    return scope != NULL ? scope : "";
}

void name_scope_enter(struct graph *g, const char *name)
{
    size_t len = strlen(name);
    const char *scope;

    if (len == 0)
        scope = "";
    else if (name[len - 1] == '/')
        scope = arena_strdup(&g->arena, name);
    else
        scope = arena_join(&g->arena, graph_unique_name(g, name), "/");
    if (len != 0 && !name_valid(name, graph_name_scope(g)[0] != '\0'))
        (void)graph_fail(g, ERR_ARG, "'%s' is not a valid scope name", name);
    ptr_list_push(&g->name_scopes, scope);
}

void name_scope_leave(struct graph *g)
{
    (void)ptr_list_pop(&g->name_scopes);
}

/* ---- variable scopes ---- */

struct variable_scope *current_variable_scope(const struct graph *g)
{
    return ptr_list_last(&g->variable_scopes);
}

const char *graph_variable_scope(const struct graph *g)
{
    const struct variable_scope *s = current_variable_scope(g);

    return s != NULL ? s->name : "";
}

static const char *join(struct graph *g, const char *name)
{
    const char *outer = graph_variable_scope(g);

    if (name[0] == '\0')
        return outer;
    return arena_printf(&g->arena, "%s%s%s", outer, outer[0] != '\0' ? "/" : "", name);
}

static int opened(const struct graph *g, const char *full)
{
    const struct name_entry *e = name_table_find(&g->scope_counts, full);

    return e != NULL && e->count != 0;
}

/* default_name, or the first of default_name_1, ... that was not opened in the current
 * scope. */
static const char *unique_scope(struct graph *g, const char *default_name)
{
    const char *full = join(g, default_name), *candidate = full;

    for (int i = 1; opened(g, candidate); i++)
        candidate = arena_printf(&g->arena, "%s_%d", full, i);
    return candidate;
}

void variable_scope_enter(struct graph *g, const char *name, const char *default_name,
                          enum reuse reuse)
{
    const struct variable_scope *outer = current_variable_scope(g);
    struct variable_scope *s = ARENA_NEW(&g->arena, struct variable_scope);

    CHECK(name != NULL || default_name != NULL, "a variable scope needs a name");
    s->name = name != NULL ? join(g, name) : unique_scope(g, default_name);
    s->reuse = reuse == REUSE_INHERIT && outer != NULL ? outer->reuse : reuse;
    if (name == NULL && reuse == REUSE_TRUE)
        (void)graph_fail(g, ERR_ARG, "reuse=True cannot be used without a name_or_scope");
    if (name != NULL && name[0] == '\0')
        name_scope_enter(g, graph_name_scope(g));
    else
        name_scope_enter(g, name != NULL ? name : default_name);
    name_table_add(&g->scope_counts, s->name)->count++;
    ptr_list_push(&g->variable_scopes, s);
}

/* Resets the counters of the scopes inside, so that opening a scope again gives the same
 * default names. */
void variable_scope_leave(struct graph *g)
{
    const struct variable_scope *s = ptr_list_pop(&g->variable_scopes);
    size_t len = strlen(s->name);

    for (size_t i = 0; i < g->scope_counts.cap; i++) {
        struct name_entry *e = &g->scope_counts.entries[i];

        if (e->key != NULL && strncmp(e->key, s->name, len) == 0 && e->key[len] == '/')
            e->count = 0;
    }
    name_scope_leave(g);
}

/* ---- control dependencies, devices, colocation ---- */

void control_dependencies_enter(struct graph *g, struct operation *const *ops, size_t n)
{
    struct control_scope *s = ARENA_NEW(&g->arena, struct control_scope);

    s->ops = arena_memdup(&g->arena, ops, n * sizeof(*ops));
    s->n = n;
    s->first_id = (int)g->ops.n;
    ptr_list_push(&g->control_scopes, s);
}

void control_dependencies_leave(struct graph *g)
{
    (void)ptr_list_pop(&g->control_scopes);
}

static int is_input(const struct operation *op, const struct operation *x)
{
    for (int i = 0; i < op->n_inputs; i++)
        if (op->inputs[i].op == x)
            return 1;
    return 0;
}

/* As in TensorFlow: an op with an input built inside the scope already depends on the
 * scope's control inputs. */
static int waits_already(const struct operation *op, const struct control_scope *s)
{
    for (int i = 0; i < op->n_inputs; i++)
        if (op->inputs[i].op->id >= s->first_id && !op->inputs[i].op->lifted)
            return 1;
    return 0;
}

void control_dependencies_apply(struct graph *g, struct operation *op)
{
    for (size_t i = g->control_scopes.n; i > 0; i--) {
        const struct control_scope *s = g->control_scopes.items[i - 1];

        if (s->n == 0) {
            op->lifted = 1;
            return;
        }
        if (waits_already(op, s))
            continue;
        for (size_t k = 0; k < s->n; k++)
            if (s->ops[k] != NULL && !is_input(op, s->ops[k]))
                (void)operation_add_control_input(op, s->ops[k]);
    }
}

void device_enter(struct graph *g, const char *device)
{
    struct device_scope *s = ARENA_NEW(&g->arena, struct device_scope);

    s->device = device != NULL ? arena_strdup(&g->arena, device) : "";
    ptr_list_push(&g->devices, s);
}

void replica_device_enter(struct graph *g, int n_ps, const char *worker)
{
    device_enter(g, worker != NULL ? worker : "/job:worker");
    ((struct device_scope *)ptr_list_last(&g->devices))->n_ps = n_ps;
}

void device_leave(struct graph *g)
{
    (void)ptr_list_pop(&g->devices);
}

const char *graph_device_for(struct graph *g, const char *type)
{
    struct device_scope *s = ptr_list_last(&g->devices);

    if (s == NULL)
        return "";
    if (s->n_ps > 0 &&
        (strcmp(type, "VariableV2") == 0 || strcmp(type, "Variable") == 0 ||
         strcmp(type, "VarHandleOp") == 0))
        return arena_printf(&g->arena, "/job:ps/task:%d", s->next_ps++ % s->n_ps);
    return s->device;
}

static void push_colocation(struct graph *g, struct colocation c)
{
    ptr_list_push(&g->colocations, arena_memdup(&g->arena, &c, sizeof(c)));
}

void colocate_with_name_enter(struct graph *g, const char *op_name)
{
    struct tensor_string *group = ARENA_NEW(&g->arena, struct tensor_string);
    char *text = arena_printf(&g->arena, "loc:@%s", op_name);

    *group = (struct tensor_string){text, strlen(text)};
    push_colocation(g, (struct colocation){1, group});
}

void colocate_with_enter(struct graph *g, const struct operation *op)
{
    const struct attr *class = op != NULL ? operation_class(op) : NULL;

    if (class != NULL)
        push_colocation(g, (struct colocation){class->n, class->list_s});
    else if (op != NULL)
        colocate_with_name_enter(g, op->name);
    else
        push_colocation(g, (struct colocation){0});
}

struct colocation graph_colocation(const struct graph *g)
{
    const struct colocation *c = ptr_list_last(&g->colocations);

    return c != NULL ? *c : (struct colocation){0};
}

void colocate_with_leave(struct graph *g)
{
    (void)ptr_list_pop(&g->colocations);
}
