#include "common/numerics/numerics.h"

#include "common/err/err.h"
#include "common/text/scan.h"

const char *const numerics_names[] = {
    [NUMERICS_PORTABLE] = "portable", [NUMERICS_NATIVE] = "native", NULL};

int numerics_find(enum numerics *ret, const char *name)
{
    const int i = text_find(numerics_names, name);

    if (i < 0)
        return ERR_ARG;
    *ret = (enum numerics)i;
    return 0;
}
