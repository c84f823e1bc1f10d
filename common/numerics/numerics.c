#include "common/numerics/numerics.h"

const char *const numerics_names[NUMERICS_COUNT] = {
    [NUMERICS_PORTABLE] = "portable", [NUMERICS_NATIVE] = "native"};
