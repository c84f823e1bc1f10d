/* This file alone knows where the sources are, so that the rest is compiled alike in every
 * folder. */
#include "common/io/python_folder.h"

#include "common/io/own_file.h"
#include "common/mem/xmalloc.h"

#include <stdlib.h>
#include <string.h>

char *python_folder(void)
{
    static const char build[] = BROOD_BUILD_ROOT "/";
    char *exe = own_executable(), *ret = NULL;

    if (exe != NULL && strncmp(exe, build, sizeof(build) - 1) != 0)
        ret = own_share("python");
    free(exe);
    return ret != NULL ? ret : xstrdup(BROOD_PYTHON_SOURCE);
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
