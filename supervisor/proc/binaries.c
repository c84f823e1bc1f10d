#include "supervisor/proc/binaries.h"

#include "common/io/own_file.h"

#include <elf.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The folders of brood's files, relative to that of this executable: the same one, those
 * of a build folder, and the one of `meson install`. */
static const char *const folders[] = {".",   "../agent", "../../agent",
                                      "web", "serve",    BROOD_LIBEXEC};

/* Returns 1 if this note is the GNU build id, and writes it to ret in hexadecimal. */
static int take_build_id(const Elf64_Nhdr *n, size_t left, char *ret)
{
    const unsigned char *name = (const unsigned char *)(n + 1);
    size_t name_size = ((size_t)n->n_namesz + 3) & ~(size_t)3;

    if (n->n_type != NT_GNU_BUILD_ID || n->n_namesz != 4 || n->n_descsz > 20 ||
        sizeof(*n) + name_size + n->n_descsz > left || memcmp(name, "GNU", 4) != 0)
        return 0;
    for (size_t i = 0; i < n->n_descsz; i++)
        (void)snprintf(ret + 2 * i, 3, "%02x", name[name_size + i]);
    return 1;
}

/* Searches the notes of one PT_NOTE segment. */
static int scan_notes(const char *p, size_t left, char *ret)
{
    while (left >= sizeof(Elf64_Nhdr)) {
        const Elf64_Nhdr *n = (const Elf64_Nhdr *)(const void *)p;
        size_t size = sizeof(*n) + (((size_t)n->n_namesz + 3) & ~(size_t)3) +
                      (((size_t)n->n_descsz + 3) & ~(size_t)3);

        if (take_build_id(n, left, ret))
            return 1;
        if (size > left)
            return 0;
        p += size;
        left -= size;
    }
    return 0;
}

static int find_build_id(const char *image, size_t size, char *ret)
{
    const Elf64_Ehdr *eh = (const Elf64_Ehdr *)(const void *)image;
    const Elf64_Phdr *ph;

    if (size < sizeof(*eh) || memcmp(eh->e_ident, ELFMAG, SELFMAG) != 0 ||
        eh->e_ident[EI_CLASS] != ELFCLASS64 || eh->e_phentsize != sizeof(*ph) ||
        eh->e_phoff > size || eh->e_phnum > (size - eh->e_phoff) / sizeof(*ph))
        return 0;
    ph = (const Elf64_Phdr *)(const void *)(image + eh->e_phoff);
    for (int i = 0; i < eh->e_phnum; i++) {
        if (ph[i].p_type == PT_NOTE && ph[i].p_offset <= size &&
            ph[i].p_filesz <= size - ph[i].p_offset &&
            scan_notes(image + ph[i].p_offset, ph[i].p_filesz, ret))
            return 1;
    }
    return 0;
}

static int read_build_id(const char *path, char *ret, struct err *err)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    void *image;
    int found, rc = 0;

    if (fd < 0)
        return err_errno(err, "open %s", path);
    if (fstat(fd, &st) < 0)
        rc = err_errno(err, "%s", path);
    else if (st.st_size <= 0)
        rc = err_set(err, ERR_FORMAT, "%s is empty", path);
    if (rc < 0) {
        (void)close(fd);
        return rc;
    }
    image = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_PRIVATE, fd, 0);
    (void)close(fd);
    if (image == MAP_FAILED)
        return err_errno(err, "mmap %s", path);
    found = find_build_id(image, (size_t)st.st_size, ret);
    (void)munmap(image, (size_t)st.st_size);
    if (!found)
        return err_set(err, ERR_FORMAT, "%s has no build id; rebuild brood", path);
    return 0;
}

/* This executable, and the folder that it is in; both PATH_MAX bytes. */
static int find_own(char *ret_path, char *ret_folder, struct err *err)
{
    char *own = own_executable();

    if (own == NULL)
        return err_errno(err, "readlink /proc/self/exe");
    (void)snprintf(ret_path, PATH_MAX, "%s", own);
    (void)snprintf(ret_folder, PATH_MAX, "%.*s", (int)(strrchr(own, '/') - own), own);
    free(own);
    return 0;
}

static int join(const char *folder, const char *name, char *ret, struct err *err)
{
    if ((size_t)snprintf(ret, PATH_MAX, "%s/%s", folder, name) >= PATH_MAX)
        return err_set(err, ERR_LIMIT, "%s/%s: the path is too long", folder, name);
    return 0;
}

/* Finds a file that can be accessed as `mode` says. ERR_NOT_FOUND: ret is its path in
 * this executable's folder. */
static int find_beside(const char *own_folder, const char *name, int mode, char *ret,
                       struct err *err)
{
    char folder[PATH_MAX], place[PATH_MAX];
    int rc;

    for (size_t i = 0; i < sizeof(folders) / sizeof(folders[0]); i++) {
        if (folders[i][0] == '/')
            (void)snprintf(folder, sizeof(folder), "%s", folders[i]);
        else if ((rc = join(own_folder, folders[i], folder, err)) < 0)
            return rc;
        if ((rc = join(folder, name, place, err)) < 0)
            return rc;
        if (realpath(place, ret) != NULL && access(ret, mode) == 0)
            return 0;
    }
    rc = join(own_folder, name, ret, err);
    return rc < 0 ? rc : ERR_NOT_FOUND;
}

int binaries_beside(const char *name, char *ret, struct err *err)
{
    char own[PATH_MAX], folder[PATH_MAX];
    int rc = find_own(own, folder, err);

    if (rc == 0)
        rc = find_beside(folder, name, R_OK, ret, err);
    return rc == ERR_NOT_FOUND ? 0 : rc;
}

int binaries_find(struct binaries *ret, struct err *err)
{
    char folder[PATH_MAX];
    int rc = find_own(ret->supervisor, folder, err);

    if (rc == 0)
        rc = find_beside(folder, "brood-agent", X_OK, ret->agent, err);
    if (rc == ERR_NOT_FOUND)
        return err_set(err, ERR_NOT_FOUND,
                       "brood-agent is neither in %s nor in %s/../agent nor in "
                       "%s%s%s: build or install it there",
                       folder, folder, BROOD_LIBEXEC[0] == '/' ? "" : folder,
                       BROOD_LIBEXEC[0] == '/' ? "" : "/", BROOD_LIBEXEC);
    return rc < 0 ? rc : read_build_id(ret->agent, ret->build_id, err);
}

int binaries_open_agent(const struct binaries *b, struct err *err)
{
    int fd = open(b->agent, O_RDONLY | O_CLOEXEC);

    return fd >= 0 ? fd : err_errno(err, "open %s", b->agent);
}
