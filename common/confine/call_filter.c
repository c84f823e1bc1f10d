#include "common/confine/call_filter.h"

#include "common/err/check.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/seccomp.h>
#include <sys/syscall.h>
#include <unistd.h>

#if defined(__x86_64__)
#define ARCH AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define ARCH AUDIT_ARCH_AARCH64
#else
#define ARCH 0
#endif

/* Numbers from `from` up to the next range's have one verdict. */
struct range {
    uint32_t from;
    enum call_verdict verdict;
};

enum { MAX_RANGES = 256 };

/* BPF only jumps forward. A jump to what follows a verdict has its number in k until all
 * places are known. */
struct program {
    struct sock_filter *code;
    uint8_t is_jump[CALL_FILTER_MAX];
    size_t n, at[CALL_VERDICTS];
};

static size_t call_filter_put(struct program *p, int code, uint32_t k, size_t yes,
                              size_t no)
{
    CHECK(p->n < CALL_FILTER_MAX && yes <= UINT8_MAX && no <= UINT8_MAX);
    p->code[p->n] = (struct sock_filter){
        .code = (uint16_t)code, .k = k, .jt = (uint8_t)yes, .jf = (uint8_t)no};
    return p->n++;
}

/* The end of a decision: the answer, or a jump to the checks. */
static void put_verdict(struct program *p, enum call_verdict v)
{
    if (v >= CALL_CHECKS)
        p->is_jump[call_filter_put(p, BPF_JMP | BPF_JA, v, 0, 0)] = 1;
    else
        (void)call_filter_put(p, BPF_RET | BPF_K,
                              v == CALL_ALLOW ? SECCOMP_RET_ALLOW
                                              : SECCOMP_RET_ERRNO |
                                                    (v == CALL_ENOSYS ? ENOSYS : EPERM),
                              0, 0);
}

/* A binary search: the kernel runs the filter for every number when it installs it. */
static void put_search(struct program *p, const struct range *r, size_t n)
{
    const size_t half = n / 2;
    size_t split;

    if (n == 1) {
        put_verdict(p, r->verdict);
        return;
    }
    split = call_filter_put(p, BPF_JMP | BPF_JGE | BPF_K, r[half].from, 0, 0);
    put_search(p, r, half);
    CHECK(p->n - split - 1 <= UINT8_MAX);
    p->code[split].jt = (uint8_t)(p->n - split - 1);
    put_search(p, r + half, n - half);
}

static size_t find_ranges(struct range ret[MAX_RANGES], enum confine_kind kind, int more)
{
    uint8_t verdicts[CALLS_END];
    size_t n = 0;

    call_sets_fill(verdicts, kind, more);
    CHECK(verdicts[CALLS_END - 1] == CALL_ENOSYS); /* so is everything above */
    for (uint32_t nr = 0; nr < CALLS_END; nr++) {
        if (n > 0 && ret[n - 1].verdict == verdicts[nr])
            continue;
        CHECK(n < MAX_RANGES);
        ret[n++] = (struct range){nr, verdicts[nr]};
    }
    return n;
}

/* Arguments are pairs of halves, as this is a little endian machine. */
static void put_check(struct program *p, enum call_verdict v, uint32_t pid)
{
    const struct call_check *c = &call_checks[v];
    const int equals = BPF_JMP | BPF_JEQ | BPF_K;
    const uint32_t itself[] = {0, pid};
    const uint32_t *values = c->how == CHECK_ITSELF ? itself : c->values;
    const size_t n = c->how == CHECK_ITSELF ? 2 : c->n_values;
    const int is_for_equal = c->how == CHECK_ONE_OF || c->how == CHECK_ITSELF;

    p->at[v] = p->n;
    (void)call_filter_put(
        p, BPF_LD | BPF_W | BPF_ABS,
        (uint32_t)(offsetof(struct seccomp_data, args) + sizeof(uint32_t) * c->half), 0,
        0);
    /* Each comparison that decides jumps over the rest and the first of two ends. */
    for (size_t i = 0; i < n; i++)
        (void)call_filter_put(
            p, c->how == CHECK_NO_BITS ? BPF_JMP | BPF_JSET | BPF_K : equals, values[i],
            n - i, 0);
    put_verdict(p, is_for_equal ? c->otherwise : c->then);
    put_verdict(p, is_for_equal ? c->then : c->otherwise);
}

size_t call_filter_make(struct sock_filter ret[CALL_FILTER_MAX], enum confine_kind kind,
                        int more, uint32_t pid)
{
    struct program p = {.code = ret};
    struct range ranges[MAX_RANGES];
    const size_t n = find_ranges(ranges, kind, more);

    (void)call_filter_put(&p, BPF_LD | BPF_W | BPF_ABS,
                          offsetof(struct seccomp_data, arch), 0, 0);
    (void)call_filter_put(&p, BPF_JMP | BPF_JEQ | BPF_K, ARCH, 1, 0);
    put_verdict(&p, CALL_ENOSYS);
    (void)call_filter_put(&p, BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr),
                          0, 0);
    put_search(&p, ranges, n);
    for (enum call_verdict v = CALL_CHECKS; v < CALL_VERDICTS; v++)
        put_check(&p, v, pid);
    for (size_t i = 0; i < p.n; i++)
        if (p.is_jump[i])
            p.code[i].k = (uint32_t)(p.at[p.code[i].k] - i - 1);
    return p.n;
}

int call_filter_install(enum confine_kind kind, int more)
{
    struct sock_filter code[CALL_FILTER_MAX];
    struct sock_fprog f = {.filter = code};

    if (ARCH == 0)
        return -1;
    f.len = (unsigned short)call_filter_make(code, kind, more, (uint32_t)getpid());
    return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_SPEC_ALLOW,
                   &f) == 0
               ? 0
               : -1;
}

int call_filter_is_possible(void)
{
    const uint32_t action = SECCOMP_RET_ERRNO;

    return ARCH != 0 && syscall(SYS_seccomp, SECCOMP_GET_ACTION_AVAIL, 0, &action) == 0;
}
