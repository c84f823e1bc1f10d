#include "supervisor/cli/checkpoint_names.h"

#include "common/config/yaml_tree.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>

int checkpoint_find_tensor(struct bundle_reader *r, const char *name,
                           const struct bundle_entry **ret, struct err *err)
{
    const size_t n = bundle_reader_count(r);
    const char **names;

    *ret = bundle_reader_find(r, name);
    if (*ret != NULL)
        return 0;
    names = xcalloc(n + 1, sizeof(*names));
    for (size_t i = 0; i < n; i++)
        names[i] = bundle_reader_entry(r, i)->name;
    (void)err_set(err, ERR_NOT_FOUND, "Tensor %s not found in checkpoint", name);
    (void)yaml_add_nearest(err, name, names, n);
    free(names);
    (void)err_note(err, ERR_AT(.tensor = name));
    return ERR_NOT_FOUND;
}
