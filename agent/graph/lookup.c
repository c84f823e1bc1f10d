#include "agent/graph/lookup.h"

#include "common/config/yaml_tree.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

static const char *nearest_operation(const struct graph *g, const char *name)
{
    const size_t n = (size_t)graph_n_operations(g);
    const char **names = xcalloc(n + 1, sizeof(*names));
    const char *ret;

    for (size_t i = 0; i < n; i++)
        names[i] = operation_name(graph_operation_at(g, (int)i));
    ret = yaml_nearest(name, names, n);
    free(names);
    return ret;
}

/* Sets the error `why` and appends the most similar name; index: ":0", or "". */
static int fail(const struct graph *g, const char *name, const char *index,
                struct err *why, struct err *err)
{
    const char *nearest = nearest_operation(g, name);

    if (nearest != NULL)
        (void)err_add(why, "did you mean '%s%s'?", nearest, index);
    return err_pass(err, why);
}

int lookup_tensor(const struct graph *g, const char *name, struct output *ret,
                  struct err *err)
{
    const char *index = strrchr(name, ':');
    struct err why = {0};
    char *operation;
    int rc = graph_tensor(g, name, ret, &why);

    if (rc == 0)
        return 0;
    operation = index != NULL ? xstrndup(name, (size_t)(index - name)) : xstrdup(name);
    rc = fail(g, operation, index != NULL ? index : ":0", &why, err);
    free(operation);
    return rc;
}

int lookup_operation(const struct graph *g, const char *name, struct operation **ret,
                     struct err *err)
{
    struct err why = {0};

    *ret = graph_operation(g, name);
    if (*ret != NULL)
        return 0;
    (void)err_set(&why, ERR_NOT_FOUND, "no operation '%s' in the graph", name);
    return fail(g, name, "", &why, err);
}
