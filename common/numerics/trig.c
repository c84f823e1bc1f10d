#include "common/numerics/trig.h"

#include <math.h>
#include <stddef.h>

/* ---- pairs ---- */

/* The number hi + lo; |lo| is at most half a unit in the last place of hi. */
struct pair {
    double hi, lo;
};

/* Returns a + b, exactly. */
static struct pair sum(double a, double b)
{
    double hi = a + b, part = hi - a;

    return (struct pair){hi, (a - (hi - part)) + (b - part)};
}

/* Returns a + b, exactly, if |a| >= |b| or a is 0. */
static struct pair sum_ordered(double a, double b)
{
    double hi = a + b;

    return (struct pair){hi, b - (hi - a)};
}

/* Returns a b, exactly: a and b are split into halves of 26 bits. */
static struct pair product(double a, double b)
{
    const double split = 0x1p27 + 1.0;
    double a1 = split * a, b1 = split * b, a2, b2, hi = a * b;

    a1 -= a1 - a;
    b1 -= b1 - b;
    a2 = a - a1;
    b2 = b - b1;
    return (struct pair){hi, ((a1 * b1 - hi) + a1 * b2 + a2 * b1) + a2 * b2};
}

static struct pair trig_add(struct pair a, struct pair b)
{
    struct pair hi = sum(a.hi, b.hi), lo = sum(a.lo, b.lo);

    hi = sum_ordered(hi.hi, hi.lo + lo.hi);
    return sum_ordered(hi.hi, hi.lo + lo.lo);
}

static struct pair negative(struct pair a)
{
    return (struct pair){-a.hi, -a.lo};
}

static struct pair multiply(struct pair a, struct pair b)
{
    struct pair p = product(a.hi, b.hi);

    return sum_ordered(p.hi, p.lo + (a.hi * b.lo + a.lo * b.hi));
}

static struct pair divide(struct pair a, struct pair b)
{
    double q = a.hi / b.hi;
    struct pair rest = trig_add(a, negative(multiply((struct pair){q, 0.0}, b)));

    return sum_ordered(q, (rest.hi + rest.lo) / b.hi);
}

/* Returns a polynomial in z. coefficient: of z^0, z^1, ...; rest: those of the powers
 * after them, which need no pairs, because their terms are below 2^-48 of the first. */
static struct pair polynomial(struct pair z, const struct pair *coefficient, size_t n,
                              const double *rest, size_t n_rest)
{
    double tail = 0.0;
    struct pair p;

    for (size_t i = n_rest; i-- > 0;)
        tail = tail * z.hi + rest[i];
    p = sum(tail, 0.0);
    for (size_t i = n; i-- > 0;)
        p = trig_add(multiply(p, z), coefficient[i]);
    return p;
}

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

/* All constants were computed with 400 bits, in Python's integers. */

/* ---- sin and cos ---- */

/* (-1)^i / (2 i + 1)!, and (-1)^i / (2 i)! */
static const struct pair sin_series[] = {
    {1.0, 0.0},
    {-0x1.5555555555555p-3, -0x1.5555555555555p-57},
    {0x1.1111111111111p-7, 0x1.1111111111111p-63},
    {-0x1.a01a01a01a01ap-13, -0x1.a01a01a01a01ap-73},
    {0x1.71de3a556c734p-19, -0x1.c154f8ddc6c00p-73},
    {-0x1.ae64567f544e4p-26, 0x1.c062e06d1f209p-80},
    {0x1.6124613a86d09p-33, 0x1.f28e0cc748ebep-87},
    {-0x1.ae7f3e733b81fp-41, -0x1.1d8656b0ee8cbp-97},
};
static const double sin_rest[] = {0x1.952c77030ad4ap-49, -0x1.2f49b46814157p-57,
                                  0x1.71b8ef6dcf572p-66, -0x1.761b41316381ap-75,
                                  0x1.3f3ccdd165fa9p-84, -0x1.d1ab1c2dccea3p-94};
static const struct pair cos_series[] = {
    {1.0, 0.0},
    {-0.5, 0.0},
    {0x1.5555555555555p-5, 0x1.5555555555555p-59},
    {-0x1.6c16c16c16c17p-10, 0x1.f49f49f49f49fp-65},
    {0x1.a01a01a01a01ap-16, 0x1.a01a01a01a01ap-76},
    {-0x1.27e4fb7789f5cp-22, -0x1.cbbc05b4fa99ap-76},
    {0x1.1eed8eff8d898p-29, -0x1.2aec959e14c06p-83},
    {-0x1.93974a8c07c9dp-37, -0x1.05d6f8a2efd1fp-92},
};
static const double cos_rest[] = {0x1.ae7f3e733b81fp-45, -0x1.6827863b97d97p-53,
                                  0x1.e542ba4020225p-62, -0x1.0ce396db7f853p-70,
                                  0x1.f2cf01972f578p-80, -0x1.88e85fc6a4e5ap-89};

/* Returns x - quarters pi/2, for a whole number of quarters below 2^17. pi/2 is in four
 * parts, of which the products with the first three are exact. */
static struct pair reduce(double x, double quarters)
{
    struct pair r = sum(x - quarters * 0x1.921fb544p+0, -quarters * 0x1.0b4611a6p-34);

    r = trig_add(r, (struct pair){-quarters * 0x1.3198a2e0p-69, 0.0});
    return trig_add(r, (struct pair){-quarters * 0x1.b839a252049c1p-104, 0.0});
}

void sincos_f64(double x, double *ret_sin, double *ret_cos)
{
    /* adding and subtracting it rounds to the nearest integer */
    const double magic = 0x1.8p+52;
    const double quarters = (x * 0x1.45f306dc9c883p-1 + magic) - magic;
    const struct pair r = reduce(x, quarters), z = multiply(r, r);
    const double s = multiply(r, polynomial(z, sin_series, COUNT(sin_series), sin_rest,
                                            COUNT(sin_rest)))
                         .hi;
    const double c =
        polynomial(z, cos_series, COUNT(cos_series), cos_rest, COUNT(cos_rest)).hi;
    const int turn = x == x ? (int)quarters & 3 : 0;
    const double sine = (turn & 1) != 0 ? c : s, cosine = (turn & 1) != 0 ? s : c;

    *ret_sin = x == 0.0 ? x : (turn & 2) != 0 ? -sine : sine;
    *ret_cos = ((turn + 1) & 2) != 0 ? -cosine : cosine;
}

/* ---- atan2 ---- */

static const struct pair pi = {0x1.921fb54442d18p+1, 0x1.1a62633145c07p-53};
static const struct pair half_pi = {0x1.921fb54442d18p+0, 0x1.1a62633145c07p-54};

/* atan(i / 16) */
static const struct pair atan_step[] = {
    {0.0, 0.0},
    {0x1.ff55bb72cfdeap-5, -0x1.c934d86d23f1dp-60},
    {0x1.fd5ba9aac2f6ep-4, -0x1.cd37686760c17p-59},
    {0x1.7b97b4bce5b02p-3, 0x1.347b0b4f881cap-58},
    {0x1.f5b75f92c80ddp-3, 0x1.8ab6e3cf7afbdp-57},
    {0x1.362773707ebccp-2, -0x1.963a544b672d8p-57},
    {0x1.6f61941e4def1p-2, -0x1.c63aae6f6e918p-56},
    {0x1.a64eec3cc23fdp-2, -0x1.24dec1b50b7ffp-56},
    {0x1.dac670561bb4fp-2, 0x1.a2b7f222f65e2p-56},
    {0x1.0657e94db30d0p-1, -0x1.d5b495f6349e6p-56},
    {0x1.1e00babdefeb4p-1, -0x1.928df287a668fp-58},
    {0x1.345f01cce37bbp-1, 0x1.1021137c71102p-55},
    {0x1.4978fa3269ee1p-1, 0x1.2419a87f2a458p-56},
    {0x1.5d58987169b18p-1, 0x1.0028e4bc5e7cap-57},
    {0x1.700a7c5784634p-1, -0x1.8c34d25aadef6p-56},
    {0x1.819d0b7158a4dp-1, -0x1.bf76229d3b917p-56},
    {0x1.921fb54442d18p-1, 0x1.1a62633145c07p-55},
};
/* (-1)^i / (2 i + 1) */
static const struct pair atan_series[] = {
    {1.0, 0.0},
    {-0x1.5555555555555p-2, -0x1.5555555555555p-56},
    {0x1.999999999999ap-3, -0x1.999999999999ap-57},
    {-0x1.2492492492492p-3, -0x1.2492492492492p-57},
    {0x1.c71c71c71c71cp-4, 0x1.c71c71c71c71cp-58},
};
static const double atan_rest[] = {-1.0 / 11, 1.0 / 13, -1.0 / 15, 1.0 / 17, -1.0 / 19};

/* Returns the angle of the point (big, small), 0 < small <= big, which is in (0, pi/4].
 * With c = i/16 the multiple nearest to small/big, it is atan c plus atan s, where s =
 * (small - c big) / (big + c small) and |s| <= 1/32. */
static struct pair angle_in_octant(double small, double big)
{
    const double i = floor(small / big * 16.0 + 0.5), c = i / 16.0;
    const struct pair s =
        divide(trig_add((struct pair){small, 0.0}, negative(product(c, big))),
               trig_add((struct pair){big, 0.0}, product(c, small)));
    const struct pair series = polynomial(multiply(s, s), atan_series, COUNT(atan_series),
                                          atan_rest, COUNT(atan_rest));

    return trig_add(atan_step[(size_t)i], multiply(s, series));
}

/* Returns the angle of the point (x, y). x and y are finite and not negative, and not
 * both 0. */
static struct pair angle_in_quadrant(double y, double x, int left)
{
    const double big = fmax(x, y), small = fmin(x, y);
    const double scale = big > 0x1p+400 ? 0x1p-600 : big < 0x1p-400 ? 0x1p+600 : 1.0;
    struct pair angle;

    /* The rest of the series is below 2^-100 of the whole. */
    if (small * scale < big * scale * 0x1p-60)
        angle = (struct pair){y > x || left ? 0.0 : y / x, 0.0};
    else
        angle = angle_in_octant(small * scale, big * scale);
    if (y > x)
        angle = trig_add(half_pi, negative(angle));
    return left ? trig_add(pi, negative(angle)) : angle;
}

double atan2_f64(double y, double x)
{
    double up = fabs(y), along = fabs(x);

    if (x != x || y != y)
        return x + y;
    if (isinf(up) || isinf(along)) {
        up = isinf(up) ? 1.0 : 0.0;
        along = isinf(along) ? 1.0 : 0.0;
    }
    if (up == 0.0)
        return copysign(signbit(x) ? pi.hi : 0.0, y);
    return copysign(angle_in_quadrant(up, along, signbit(x) != 0).hi, y);
}
