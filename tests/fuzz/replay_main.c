/* Runs a fuzz target on every file of a corpus folder, and on mutations of each that are
 * the same every time.
 *
 *     fuzz_msg [-v] FOLDER      -v names each input before it runs
 */
#include "common/mem/xmalloc.h"
#include "common/rng/rng.h"
#include "tests/fuzz/fuzz.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define MUTATIONS_PER_FILE 300
#define GROWTH_BYTES       256 /* room for what mutations insert */

struct input {
    uint8_t *data;
    size_t len, cap;
};

static const uint8_t interesting[] = {0x00, 0x01, 0x7f, 0x80, 0xff, '\n', ' ',  ':',
                                      '[',  '{',  '&',  '*',  0xdd, 0xdf, 0xc6, 0x91};

static void insert(struct input *in, size_t at, const uint8_t *p, size_t n)
{
    if (n > in->cap - in->len)
        return;
    memmove(in->data + at + n, in->data + at, in->len - at);
    memmove(in->data + at, p, n);
    in->len += n;
}

/* One change, chosen by four random words. */
static void mutate(struct input *in, const uint32_t r[4])
{
    size_t at = in->len > 0 ? r[1] % in->len : 0;
    size_t left = in->len - at;
    size_t n = left > 0 ? 1 + r[2] % (left < 16 ? left : 16) : 0;
    uint8_t byte = interesting[r[3] % sizeof(interesting)];
    uint8_t copy[16];

    memcpy(copy, in->data + at, n);
    switch (r[0] % (in->len > 0 ? 6 : 1)) {
    case 0:
        insert(in, at, &byte, 1);
        break;
    case 1:
        in->data[at] ^= (uint8_t)(1u << (r[2] % 8));
        break;
    case 2:
        in->data[at] = byte;
        break;
    case 3: /* copies a piece to another place */
        insert(in, r[3] % in->len, copy, n);
        break;
    case 4:
        memmove(in->data + at, in->data + at + n, left - n);
        in->len -= n;
        break;
    default:
        in->len = at;
        break;
    }
}

/* The target gets memory of exactly the input's size, so that a sanitizer notices reads
 * past its end. */
static void run(const struct input *in)
{
    uint8_t *exact = xmalloc(in->len);

    memcpy(exact, in->data, in->len);
    (void)LLVMFuzzerTestOneInput(exact, in->len);
    free(exact);
}

static void replay(const char *name, const struct input *original, int verbose)
{
    struct rng_key key = rng_key_make(0, name, "mutation");
    struct input in = {.cap = original->len + GROWTH_BYTES};

    in.data = xmalloc(in.cap);
    for (uint64_t i = 0; i <= MUTATIONS_PER_FILE; i++) {
        uint32_t r[4];

        memcpy(in.data, original->data, original->len);
        in.len = original->len;
        rng_block(key, i, 0, r);
        for (uint64_t k = 1; i > 0 && k <= 1 + r[0] % 4; k++) { /* i = 0: unchanged */
            uint32_t words[4];

            rng_block(key, i, k, words);
            mutate(&in, words);
        }
        if (verbose)
            (void)fprintf(stderr, "%s, mutation %llu\n", name, (unsigned long long)i);
        run(&in);
    }
    free(in.data);
}

static int read_file(const char *path, struct input *ret)
{
    FILE *f = fopen(path, "rb");
    struct stat st;
    int ok = 0;

    if (f == NULL)
        return 0;
    if (fstat(fileno(f), &st) == 0 && S_ISREG(st.st_mode)) {
        ret->len = (size_t)st.st_size;
        ret->data = xmalloc(ret->len);
        ok = fread(ret->data, 1, ret->len, f) == ret->len;
    }
    (void)fclose(f);
    return ok;
}

static int replay_folder(const char *folder, int verbose)
{
    struct dirent **files;
    int n = scandir(folder, &files, NULL, alphasort);
    int n_run = 0;

    for (int i = 0; i < n; i++) {
        char *path = xasprintf("%s/%s", folder, files[i]->d_name);
        struct input in = {0};

        if (files[i]->d_name[0] != '.' && read_file(path, &in)) {
            replay(files[i]->d_name, &in, verbose);
            n_run++;
        }
        free(in.data);
        free(path);
        free(files[i]);
    }
    if (n >= 0)
        free(files);
    return n_run;
}

int main(int argc, char **argv)
{
    int verbose = argc == 3 && strcmp(argv[1], "-v") == 0;
    int n;

    if (argc != 2 + verbose) {
        (void)fprintf(stderr, "usage: %s [-v] FOLDER\n", argv[0]);
        return 2;
    }
    n = replay_folder(argv[argc - 1], verbose);
    (void)printf("%d files, %d mutations of each\n", n, MUTATIONS_PER_FILE);
    return n > 0 ? 0 : 1;
}
