#include "common/confine/confine.h"

#include "common/confine/call_filter.h"
#include "common/mem/xmalloc.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { IS_POSSIBLE = 0 };
#else
enum { IS_POSSIBLE = 1 };
#endif

void confine_memory(void)
{
    const char *debug = getenv("BROOD_DEBUG");

    if (debug == NULL || strcmp(debug, "1") != 0)
        (void)prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* ---- Landlock ---- */

/* The layout of the newest kernels; older ones read only its beginning. */
struct ruleset {
    uint64_t files, net, scoped;
};

enum {
    REFER = 1 << 13,             /* ABI 2 */
    ALL_FILES_1 = (1 << 13) - 1, /* execute, write, read, ..., make_sym */
    READS = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR,
    TRUNCATE = 1 << 14, /* 3 */
    IOCTL = 1 << 15,    /* 5 */
    BIND_CONNECT = 3,   /* 4 */
    SIGNALS = 2,        /* 6 */
    SOCKETS_SIGNALS = 3,
};

static long landlock_abi(void)
{
    return syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

/* Rules for all that is below a folder. -1: it does not apply. */
static int allow_below(int ruleset, const char *folder, uint64_t access)
{
    struct landlock_path_beneath_attr a = {.allowed_access = access,
                                           .parent_fd = open(folder, O_PATH | O_CLOEXEC)};
    int rc;

    if (a.parent_fd < 0)
        return -1;
    rc = (int)syscall(SYS_landlock_add_rule, ruleset, LANDLOCK_RULE_PATH_BENEATH, &a, 0);
    (void)close(a.parent_fd);
    return rc;
}

/* ruleset: of r; closed. */
static int restrict_self(int ruleset)
{
    const int rc = (int)syscall(SYS_landlock_restrict_self, ruleset, 0);

    (void)close(ruleset);
    return rc;
}

/* ABI 4 and 6 added members; an older kernel takes no more than it knows. */
static int make_ruleset(const struct ruleset *r, long abi)
{
    const size_t size = abi >= 6   ? sizeof(*r)
                        : abi >= 4 ? sizeof(r->files) + sizeof(r->net)
                                   : sizeof(r->files);

    return (int)syscall(SYS_landlock_create_ruleset, r, size, 0);
}

/* Allows what the ruleset forbids of a path. Some rights are those of folders. */
static int allow_path(int ruleset, const struct confine_path *p, uint64_t files)
{
    uint64_t access = files & (LANDLOCK_ACCESS_FS_WRITE_FILE | TRUNCATE);
    struct stat st;

    if (stat(p->path, &st) < 0)
        return -1;
    if (S_ISDIR(st.st_mode))
        access = files & ~(uint64_t)(LANDLOCK_ACCESS_FS_MAKE_CHAR |
                                     LANDLOCK_ACCESS_FS_MAKE_BLOCK | IOCTL);
    if (p->is_device)
        access |= files & IOCTL;
    return allow_below(ruleset, p->path, access);
}

/* A ruleset forbids what it handles, unless a rule allows it. Some libraries are loaded when
 * first needed (isal.h). */
int confine_files(enum confine_files files, const struct confine_path *paths,
                  const char **ret_bad)
{
    const long abi = IS_POSSIBLE ? landlock_abi() : 0;
    struct ruleset r = {
        .files = ALL_FILES_1, .net = BIND_CONNECT, .scoped = SOCKETS_SIGNALS};
    int fd;

    if (abi < 1)
        return 0;
    r.files |=
        (abi >= 2 ? REFER : 0u) | (abi >= 3 ? TRUNCATE : 0u) | (abi >= 5 ? IOCTL : 0u);
    if (files != CONFINE_ALL)
        r.files &= ~(uint64_t)READS;
    if (files == CONFINE_RUNS)
        r.files &= ~(uint64_t)LANDLOCK_ACCESS_FS_EXECUTE;
    fd = make_ruleset(&r, abi);
    if (fd < 0)
        return 0;
    for (size_t i = 0; paths != NULL && paths[i].path != NULL; i++) {
        if (allow_path(fd, &paths[i], r.files) == 0)
            continue;
        *ret_bad = paths[i].path;
        (void)close(fd);
        return -1;
    }
    if (files == CONFINE_ALL)
        (void)allow_below(fd, "/usr/lib", LANDLOCK_ACCESS_FS_READ_FILE);
    if (files == CONFINE_RUNS)
        (void)allow_below(fd, "/dev/null", LANDLOCK_ACCESS_FS_WRITE_FILE);
    (void)restrict_self(fd);
    return 0;
}

/* A process in a domain can look only into those of the same domain: into what it started. A
 * domain has to forbid something: new block devices, which only root could make. Without the
 * rule, no file could be moved to another folder. Returns whether it is in a domain. */
static int enter_domain(void)
{
    const long abi = landlock_abi();
    const struct ruleset r = {.files = LANDLOCK_ACCESS_FS_MAKE_BLOCK | REFER,
                              .scoped = SIGNALS};
    int fd = abi >= 2 ? make_ruleset(&r, abi) : -1;

    if (fd >= 0 && allow_below(fd, "/", REFER) < 0) {
        (void)close(fd);
        fd = -1;
    }
    return fd >= 0 && restrict_self(fd) == 0;
}

/* ---- seccomp ---- */

static int is_without_files;

int confine_is_without_files(void)
{
    return is_without_files;
}

void confine_calls(enum confine_kind kind)
{
    const struct rlimit none = {0, 0}, files = {64, 64};
    int debugs = 0;

    if (!IS_POSSIBLE)
        return;
    if (kind == CONFINE_AGENT) {
        (void)setrlimit(RLIMIT_NPROC, &none);
        (void)setrlimit(RLIMIT_NOFILE, &files);
    } else {
        debugs = enter_domain() ? CALLS_DEBUGS : 0;
    }
    is_without_files = call_filter_install(kind, debugs) == 0 && kind == CONFINE_AGENT;
}

char *confine_fence(int opens)
{
    static const char digits[] = "0123456789abcdef";
    struct sock_filter code[CALL_FILTER_MAX];
    const uint8_t *bytes = (const uint8_t *)code;
    const int more = ((opens & CONFINE_OPENS_THREADS) != 0 ? CALLS_THREADS : 0) |
                     ((opens & CONFINE_OPENS_FILES) != 0 ? CALLS_WRITES : 0);
    size_t n;
    char *ret;

    if (!IS_POSSIBLE || !call_filter_is_possible())
        return NULL;
    n = sizeof(code[0]) *
        call_filter_make(code, CONFINE_PROGRAM, more, CONFINE_PID_PLACE);
    ret = xmalloc(2 * n + 1);
    for (size_t i = 0; i < n; i++) {
        ret[2 * i] = digits[bytes[i] >> 4];
        ret[2 * i + 1] = digits[bytes[i] & 15];
    }
    ret[2 * n] = '\0';
    return ret;
}

/* ---- which of this the kernel supports ---- */

const char *confine_describe(char ret[64])
{
    const int has_seccomp = IS_POSSIBLE && call_filter_is_possible();
    const long abi = IS_POSSIBLE ? landlock_abi() : 0;
    char landlock[32] = "";

    if (abi > 0)
        (void)snprintf(landlock, sizeof(landlock), "landlock %ld", abi);
    (void)snprintf(ret, 64, "%s%s%s", has_seccomp ? "seccomp" : "",
                   has_seccomp && abi > 0 ? ", " : "",
                   abi > 0       ? landlock
                   : has_seccomp ? ""
                                 : "none");
    return ret;
}
