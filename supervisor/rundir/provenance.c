/* Writes what produced a run, so that it can be reproduced. */
#include "supervisor/rundir/run_dir.h"

#include "common/io/shell_quote.h"
#include "common/mem/xmalloc.h"
#include "common/numerics/cpu_kernels.h"
#include "common/wire/cursor.h"

#include <gnu/libc-version.h>
#include <msgpack.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <uv.h>
#include <yaml.h>

enum { PROVENANCE_MAX = 64 << 10 };

/* The first "model name" of /proc/cpuinfo. */
static void put_cpu(FILE *out)
{
    FILE *in = fopen("/proc/cpuinfo", "re");
    char line[512];
    const char *model = "unknown\n";

    while (in != NULL && fgets(line, sizeof(line), in) != NULL) {
        char *colon = strchr(line, ':');

        if (strncmp(line, "model name", 10) == 0 && colon != NULL) {
            model = colon + 1 + strspn(colon + 1, " ");
            break;
        }
    }
    (void)fprintf(out, "cpu: %s", model);
    if (in != NULL)
        (void)fclose(in);
}

int run_dir_write_provenance(struct run_dir *d, int argc, char *const *argv,
                             const char *build_id, enum numerics numerics,
                             struct err *err)
{
    struct utsname host;
    struct xstream text;
    FILE *out;
    int rc;

    if (uname(&host) < 0)
        return err_errno(err, "provenance");
    out = xstream_begin(&text);
    (void)fputs("command:", out);
    for (int i = 0; i < argc; i++) {
        char *word = shell_word(argv[i]);

        (void)fprintf(out, " %s", word);
        free(word);
    }
    (void)fprintf(out,
                  "\nbrood: %s\nagent build id: %s\nnumerics: %s, version %d\n"
                  "kernels: %s\ncompiler: %s\nlibuv: %s\n"
                  "msgpack-c: %s\nlibyaml: %s\nOpenBLAS: %s\nlibc: %s\nkernel: %s %s\n",
                  BROOD_VERSION, build_id, numerics_names[numerics], NUMERICS_VERSION,
                  cpu_kernels_name(cpu_kernels()), __VERSION__, uv_version_string(),
                  msgpack_version(), yaml_get_version_string(), BROOD_BLAS,
                  gnu_get_libc_version(), host.sysname, host.release);
    put_cpu(out);
    (void)xstream_end(&text);
    rc = run_dir_write(d, "provenance", text.text, text.len, err);
    free(text.text);
    return rc;
}

void run_dir_each_provenance(const char *path, run_dir_provenance_fn fn, void *ctx)
{
    char *file = xasprintf("%s/provenance", path), *rest = NULL;
    struct wbuf text = {0};

    if (wbuf_read_file(&text, file, PROVENANCE_MAX, NULL) < 0)
        wbuf_done(&text);
    wbuf_u8(&text, '\0');
    for (char *line = strtok_r((char *)text.data, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        char *colon = strstr(line, ": ");

        if (colon == NULL)
            continue;
        *colon = '\0';
        fn(ctx, line, colon + 2);
    }
    wbuf_done(&text);
    free(file);
}
