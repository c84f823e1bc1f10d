/* Einsum, against a loop over all values of all labels. */
#include "tests/agent/kernel_cases.h"

#include <ctype.h>
#include <string.h>

/* The labels of a term, one for each dimension: letters, and for the dots capital letters from
 * 'Z' down, the last dimension first. Returns the text after the term. */
static const char *labels_of(const char *p, int rank, char *ret)
{
    int letters = 0, n = 0;

    for (const char *q = p; *q != '\0' && *q != ',' && *q != '-'; q++)
        letters += *q != '.';
    for (; *p != '\0' && *p != ',' && *p != '-'; p++) {
        if (*p == '.') {
            for (int k = rank - letters; k > 0; k--)
                ret[n++] = (char)('Z' - k + 1);
            p += 2;
        } else {
            ret[n++] = *p;
        }
    }
    ret[n] = '\0';
    return *p == '-' ? p + 2 : *p == ',' ? p + 1 : p;
}

/* The element of x for these values of the labels; -1 if a dimension of the dots has size 1, 0
 * stands for all values. */
static int64_t place_of(const struct array *x, const char *labels, const int64_t *value)
{
    int64_t at = 0;

    for (int d = 0; labels[d] != '\0'; d++) {
        const int64_t n = x->tensor.shape.dim[d];

        at = at * n + (n == 1 ? 0 : value[(unsigned char)labels[d]]);
    }
    return at;
}

static void summed(const struct reference *r)
{
    char labels[3][16], all[32] = "";
    const char *p = operation_attr(r->op, "equation")->s;
    int64_t size[128], value[128] = {0}, total = 1;
    int n = 0;

    for (int k = 0; k <= r->n_in; k++) {
        const struct array *x = k < r->n_in ? &r->in[k] : r->out;

        p = labels_of(p, x->tensor.shape.rank, labels[k]);
        for (int d = 0; labels[k][d] != '\0'; d++) {
            const unsigned char c = (unsigned char)labels[k][d];
            const int64_t dim = x->tensor.shape.dim[d];

            if (strchr(all, c) == NULL) {
                all[n++] = (char)c;
                size[c] = dim;
            }
            size[c] = dim > size[c] || dim == 0 ? dim : size[c];
        }
    }
    for (int i = 0; i < n; i++)
        total *= size[(unsigned char)all[i]];
    for (int64_t i = 0; i < total; i++) {
        double product = 1;
        int64_t rest = i;

        for (int k = n - 1; k >= 0; k--) {
            const unsigned char c = (unsigned char)all[k];

            value[c] = rest % size[c];
            rest /= size[c];
        }
        for (int k = 0; k < r->n_in; k++)
            product *= r->in[k].v[place_of(&r->in[k], labels[k], value)];
        r->out->v[place_of(r->out, labels[r->n_in], value)] += product;
    }
}

#define EINSUM(equation, in, out)                                                        \
    {                                                                                    \
        "Einsum", "fdil", in, "equation=" equation, out, summed, NULL, -2, 2, 40, 0      \
    }

const struct kernel_case einsum_cases[] = {
    EINSUM("ij,jk->ik", "x(2,3) x(3,4)", "(2,4)"),
    EINSUM("ij,kj->ik", "x(2,3) x(4,3)", "(2,4)"),
    EINSUM("ji,kj->ki", "x(3,2) x(4,3)", "(4,2)"),
    EINSUM("bqhd,bkhd->bhqk", "x(2,3,2,2) x(2,4,2,2)", "(2,2,3,4)"),
    EINSUM("bhqk,bkhd->bqhd", "x(2,2,3,4) x(2,4,2,2)", "(2,3,2,2)"),
    EINSUM("bij,jkl->bikl", "x(2,3,2) x(2,2,3)", "(2,3,2,3)"),
    EINSUM("i,i->", "x(3) x(3)", "."),
    EINSUM("i,j->ij", "x(3) x(2)", "(3,2)"),
    EINSUM("i,j->ji", "x(3) x(2)", "(2,3)"),
    EINSUM("ijk,k->j", "x(2,3,2) x(2)", "(3)"),
    EINSUM("ij,kl->", "x(2,3) x(2,2)", "."),
    EINSUM("ij,i->ij", "x(2,3) x(2)", "(2,3)"),
    EINSUM("...ij,...jk->...ik", "x(2,2,3) x(3,2)", "(2,2,2)"),
    EINSUM("...ij,...jk->...ik", "x(3,1,2,3) x(2,3,2)", "(3,2,2,2)"),
    EINSUM("i...,ij->j...", "x(3,2,2) x(3,4)", "(4,2,2)"),
    EINSUM("...i,...i->...", "x(2,3) x(1,3)", "(2)"),
    EINSUM("ij->ji", "x(2,3)", "(3,2)"),
    EINSUM("ij->", "x(2,3)", "."),
    EINSUM("ijk->ik", "x(2,3,2)", "(2,2)"),
    EINSUM("ijk->ki", "x(2,3,2)", "(2,2)"),
    EINSUM("ii->i", "x(3,3)", "(3)"),
    EINSUM("ii->", "x(3,3)", "."),
    EINSUM("i->ii", "x(3)", "(3,3)"),
    EINSUM("iij->ji", "x(2,2,3)", "(3,2)"),
    EINSUM("...ij->...ji", "x(2,2,3)", "(2,3,2)"),
    EINSUM("i...j->...", "x(2,3,2)", "(3)"),
    EINSUM("iij,jk->ik", "x(2,2,3) x(3,2)", "(2,2)"),
    EINSUM("ij,jk->ik", "x(2,0) x(0,3)", "(2,3)"),
    EINSUM("ij,jk->ik", "x(0,2) x(2,3)", "(0,3)"),
    {NULL},
};
