#include "common/io/own_file.h"

#include "common/mem/xmalloc.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

char *own_executable(void)
{
    char path[PATH_MAX];
    const ssize_t n = readlink("/proc/self/exe", path, sizeof(path));

    return n > 0 && n < (ssize_t)sizeof(path) ? xstrndup(path, (size_t)n) : NULL;
}

/* The folder of the executable; free(). */
static char *own_folder(void)
{
    char *path = own_executable();
    char *slash = path != NULL ? strrchr(path, '/') : NULL;

    if (slash != NULL)
        *slash = '\0';
    return path;
}

/* From the folder of an executable, bin or libexec/brood, to the prefix. */
static const char *const ups[] = {"..", "../.."};
enum { N_UPS = sizeof(ups) / sizeof(ups[0]) };

char *own_share(const char *name)
{
    char *folder = own_folder(), *ret = NULL;

    for (int i = 0; folder != NULL && i < N_UPS; i++) {
        ret = xasprintf("%s/%s/share/brood/%s", folder, ups[i], name);
        if (access(ret, F_OK) == 0)
            break;
        free(ret);
        ret = NULL;
    }
    free(folder);
    return ret;
}

/* Whether PREFIX is a Python environment: of venv, or of conda. */
static int is_environment(const char *prefix)
{
    static const char *const marks[] = {"pyvenv.cfg", "conda-meta"};
    int is_one = 0;

    for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
        char *mark = xasprintf("%s/%s", prefix, marks[i]);

        is_one |= access(mark, F_OK) == 0;
        free(mark);
    }
    return is_one;
}

void own_python_environment(void)
{
    const char *given = getenv("PATH");
    char *folder = own_folder();

    for (int i = 0; folder != NULL && i < N_UPS; i++) {
        char *up = xasprintf("%s/%s", folder, ups[i]);
        char *prefix = realpath(up, NULL);

        if (prefix != NULL && is_environment(prefix)) {
            char *path = xasprintf("%s/bin%s%s", prefix, given != NULL ? ":" : "",
                                   given != NULL ? given : "");

            (void)setenv("PATH", path, 1);
            free(path);
        }
        free(prefix);
        free(up);
    }
    free(folder);
}
