/* This file alone knows where the sources are, so that the rest is compiled alike in every
 * folder. */
#include "common/io/python_folder.h"

#include "common/mem/xmalloc.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *python_folder(void)
{
    static const char build[] = BROOD_BUILD_ROOT "/";
    static const char *const installed[] = {"../share/brood/python",
                                            "../../share/brood/python"};
    char exe[PATH_MAX] = "";
    const ssize_t n = readlink("/proc/self/exe", exe, sizeof(exe) - 1);
    char *slash = n > 0 ? strrchr(exe, '/') : NULL, *ret = NULL;

    if (slash == NULL || strncmp(exe, build, sizeof(build) - 1) == 0)
        return xstrdup(BROOD_PYTHON_SOURCE);
    *slash = '\0';
    for (size_t i = 0; i < sizeof(installed) / sizeof(installed[0]); i++) {
        free(ret);
        ret = xasprintf("%s/%s", exe, installed[i]);
        if (access(ret, F_OK) == 0)
            break;
    }
    return ret;
}

void python_folder_add(const char *folder)
{
    const char *given = getenv("PYTHONPATH");
    char *own = folder == NULL ? python_folder() : NULL;
    char *path = xasprintf("%s%s%s", own != NULL ? own : folder, given != NULL ? ":" : "",
                           given != NULL ? given : "");

    (void)setenv("PYTHONPATH", path, 1);
    free(path);
    free(own);
}
