#include "tests/agent/libm_watch.h"

#include "common/err/check.h"

#include <dlfcn.h>
#include <math.h>
#include <string.h>

#define ONE(X)                                                                           \
    X(sin)                                                                               \
    X(cos)                                                                               \
    X(tan)                                                                               \
    X(asin)                                                                              \
    X(acos)                                                                              \
    X(atan)                                                                              \
    X(sinh)                                                                              \
    X(cosh)                                                                              \
    X(tanh)                                                                              \
    X(asinh)                                                                             \
    X(acosh)                                                                             \
    X(atanh)                                                                             \
    X(exp)                                                                               \
    X(exp2)                                                                              \
    X(expm1)                                                                             \
    X(log)                                                                               \
    X(log1p)                                                                             \
    X(log2)                                                                              \
    X(log10)                                                                             \
    X(cbrt)                                                                              \
    X(erf)                                                                               \
    X(erfc)                                                                              \
    X(lgamma)                                                                            \
    X(tgamma)
#define TWO(X) X(atan2) X(pow) X(hypot)

static const char *called;

const char *libm_called(void)
{
    return called;
}

void libm_forget(void)
{
    called = NULL;
}

/* The function of that name in libm. */
static void find(const char *name, void *ret)
{
    void *f = dlsym(RTLD_NEXT, name), *libm;

    if (f ==
        NULL) { /* the program needs nothing else of libm, and was linked without it */
        libm = dlopen("libm.so.6", RTLD_LAZY);
        f = libm != NULL ? dlsym(libm, name) : NULL;
    }
    CHECK(f != NULL, "%s", name);
    memcpy(ret, &f, sizeof(f));
    if (called == NULL)
        called = name;
}

#define WATCH_ONE(name, type)                                                            \
    type name(type x)                                                                    \
    {                                                                                    \
        type (*f)(type);                                                                 \
                                                                                         \
        find(#name, &f);                                                                 \
        return f(x);                                                                     \
    }
#define WATCH_TWO(name, type)                                                            \
    type name(type x, type y)                                                            \
    {                                                                                    \
        type (*f)(type, type);                                                           \
                                                                                         \
        find(#name, &f);                                                                 \
        return f(x, y);                                                                  \
    }
#define BOTH_ONE(name) WATCH_ONE(name, double) WATCH_ONE(name##f, float)
#define BOTH_TWO(name) WATCH_TWO(name, double) WATCH_TWO(name##f, float)

ONE(BOTH_ONE)
TWO(BOTH_TWO)

double lgamma_r(double x, int *sign)
{
    double (*f)(double, int *);

    find("lgamma_r", &f);
    return f(x, sign);
}
