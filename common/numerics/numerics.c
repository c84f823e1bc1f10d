#include "common/numerics/numerics.h"

#include "common/err/err.h"

#include <string.h>

const char *const numerics_names[] = {
    [NUMERICS_PORTABLE] = "portable", [NUMERICS_NATIVE] = "native", NULL};

int numerics_find(enum numerics *ret, const char *name)
{
    for (int i = 0; numerics_names[i] != NULL; i++) {
        if (strcmp(numerics_names[i], name) == 0) {
            *ret = (enum numerics)i;
            return 0;
        }
    }
    return ERR_ARG;
}
