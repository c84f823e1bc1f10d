#include "agent/loop/service.h"

#include "common/msg/protocol.h"
#include "common/numerics/numerics.h"

#include <cblas.h>
#include <elf.h>
#include <link.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ---- build id ---- */

struct build_id {
    const uint8_t *bytes;
    size_t n;
};

/* A note is three words (name size, descriptor size, type), then name and descriptor,
 * each padded to 4 bytes (elf(5)). */
static void find_in_notes(const uint8_t *p, size_t len, struct build_id *ret)
{
    const uint8_t *end = p + len;

    while ((size_t)(end - p) >= sizeof(ElfW(Nhdr))) {
        ElfW(Nhdr) note;
        const uint8_t *name = p + sizeof(note), *desc;

        memcpy(&note, p, sizeof(note));
        desc = name + ((note.n_namesz + 3u) & ~3u);
        p = desc + ((note.n_descsz + 3u) & ~3u);
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == 4 &&
            memcmp(name, "GNU", 4) == 0) {
            *ret = (struct build_id){desc, note.n_descsz};
            return;
        }
    }
}

/* The first object is the program itself. */
static int visit_program(struct dl_phdr_info *info, size_t size, void *ctx)
{
    for (int i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &info->dlpi_phdr[i];

        if (h->p_type == PT_NOTE)
            find_in_notes((const uint8_t *)(info->dlpi_addr + h->p_vaddr), h->p_memsz,
                          ctx);
    }
    return 1;
}

/* The linker's build id of this program as hex; "unknown" if it has none. Returns buf. */
static const char *build_id(char *buf, size_t size)
{
    struct build_id id = {0};

    (void)dl_iterate_phdr(visit_program, &id);
    (void)snprintf(buf, size, "unknown");
    for (size_t i = 0; i < id.n && 2 * i + 2 < size; i++)
        (void)snprintf(buf + 2 * i, size - 2 * i, "%02x", id.bytes[i]);
    return buf;
}

/* ---- fingerprint: what differs between machines of one build ---- */

#define PRINT_MAX 64 /* largest side of a product */

static uint64_t hash_bytes(uint64_t h, const void *p, size_t n)
{
    const uint8_t *bytes = p;

    for (size_t i = 0; i + 4 <= n; i += 4) { /* FNV-1a, a word at a time */
        uint32_t word;

        memcpy(&word, bytes + i, 4);
        h = (h ^ word) * UINT64_C(0x100000001b3);
    }
    return h;
}

/* Fixed numbers in [0.25, 1.75); nearly all are no short binary fractions. */
static void hello_fill(float *x, size_t n, uint32_t salt)
{
    for (size_t i = 0; i < n; i++)
        x[i] = 0.25f +
               (float)(((uint32_t)i * 2654435761u + salt) >> 9) * (1.5f / 8388608.0f);
}

static uint64_t hash_products(uint64_t h)
{
    static const struct {
        int m, n, k, transpose_a, transpose_b;
    } products[] = {
        {1, 5, 64, 0, 0},   {3, 64, 18, 0, 0},  {7, 7, 7, 0, 0},    {16, 16, 16, 0, 0},
        {17, 33, 9, 0, 0},  {32, 64, 23, 0, 0}, {64, 1, 64, 0, 0},  {64, 64, 64, 0, 0},
        {18, 64, 32, 1, 0}, {64, 5, 33, 1, 0},  {33, 18, 64, 0, 1}, {64, 15, 64, 0, 1},
    };
    float a[PRINT_MAX * PRINT_MAX], b[PRINT_MAX * PRINT_MAX], c[PRINT_MAX * PRINT_MAX];

    hello_fill(a, PRINT_MAX * PRINT_MAX, 1);
    hello_fill(b, PRINT_MAX * PRINT_MAX, 2);
    for (size_t i = 0; i < sizeof(products) / sizeof(products[0]); i++) {
        const int m = products[i].m, n = products[i].n, k = products[i].k;
        const int ta = products[i].transpose_a, tb = products[i].transpose_b;

        cblas_sgemm(CblasRowMajor, ta ? CblasTrans : CblasNoTrans,
                    tb ? CblasTrans : CblasNoTrans, m, n, k, 1.0f, a, ta ? m : k, b,
                    tb ? k : n, 0.0f, c, n);
        h = hash_bytes(h, c, (size_t)(m * n) * sizeof(float));
    }
    return h;
}

/* The functions of libm that operations may call. */
static uint64_t hash_libm(uint64_t h)
{
    for (int i = 1; i <= 4; i++) {
        volatile double third =
            i / 3.0; /* otherwise the compiler would compute the result */
        const double x = third;
        const double y[] = {exp(x),
                            expm1(x),
                            log(x),
                            log1p(x),
                            tanh(x),
                            pow(x, 0.7),
                            (double)powf((float)x, 0.7f)};

        h = hash_bytes(h, y, sizeof(y));
    }
    return h;
}

/* A hash of results that can differ between machines: a dozen products of the matrix
 * library, and functions of libm. The results of brood's own kernels are the same
 * everywhere and are not included (numerics.h). */
static uint64_t fingerprint(void)
{
    return hash_libm(hash_products(UINT64_C(0xcbf29ce484222325)));
}

void hello_pack(struct msg_out *out)
{
    char id[128], print[32];

    (void)snprintf(print, sizeof(print), "%016llx", (unsigned long long)fingerprint());
    msg_begin_notification(out, "hello");
    msg_map(out, 5);
    msg_put_u64(out, "protocol", PROTOCOL_VERSION);
    msg_put_u64(out, "numerics", NUMERICS_VERSION);
    msg_put_u64(out, "pid", (uint64_t)getpid());
    msg_put_str(out, "build_id", build_id(id, sizeof(id)));
    msg_put_str(out, "fingerprint", print);
}
