#include "agent/kernels/special.h"

#include <float.h>
#include <math.h>

#define PI 3.14159265358979323846

/* Iterations of a series or a continued fraction; far fewer are needed below 1e6. */
enum { MAX_TERMS = 20000 };

/* ---- the gamma function's logarithm and its derivatives (chapter 6) ---- */

double special_lgamma(double x)
{
    int sign;

    return lgamma_r(x, &sign);
}

/* Recurrence up to 10, then the asymptotic series; below 0 by reflection. */
double special_digamma(double x)
{
    static const double series[] = {1.0 / 12,  -1.0 / 120,       1.0 / 252, -1.0 / 240,
                                    1.0 / 132, -691.0 / 32760.0, 1.0 / 12};
    double shift = 0, sum = 0, power;

    if (x <= 0)
        return x == floor(x) ? (double)NAN
                             : special_digamma(1 - x) - PI / tan(PI * (x - floor(x)));
    for (; x < 10; x++)
        shift += 1 / x;
    power = 1 / (x * x);
    for (int k = 0; k < 7; k++, power /= x * x)
        sum += series[k] * power;
    return log(x) - 0.5 / x - sum - shift;
}

/* q > 0: the first terms, and the rest by Euler and Maclaurin's formula. The divisors are
 * (2j)! / B_2j. */
static double zeta_of_positive(double x, double q)
{
    static const double divisor[] = {12.0,
                                     -720.0,
                                     30240.0,
                                     -1209600.0,
                                     47900160.0,
                                     -1.8924375803183791606e9,
                                     7.47242496e10,
                                     -2.950130727918164224e12,
                                     1.1646782814350067249e14,
                                     -4.5979787224074726105e15,
                                     1.8152105401943546773e17,
                                     -7.1661652561756670113e18};
    double sum = 0, term = 1, factor = 1;
    int k = 0;

    for (; k < 9 || q <= 9; k++, q++) {
        term = pow(q, -x);
        sum += term;
        if (k > 0 && term < DBL_EPSILON * sum)
            return sum;
    }
    term = pow(q, -x);
    sum += term * q / (x - 1) + 0.5 * term;
    for (int j = 0; j < 12; j++) {
        double t;

        factor *= x + 2 * j;
        term /= q;
        t = factor * term / divisor[j];
        sum += t;
        if (fabs(t) < DBL_EPSILON * fabs(sum))
            break;
        factor *= x + 2 * j + 1;
        term /= q;
    }
    return sum;
}

double special_zeta(double x, double q)
{
    double f;

    if (!(x >= 1))
        return NAN;
    if (x == 1)
        return INFINITY;
    if (q > 0)
        return isinf(q) ? 0 : zeta_of_positive(x, q);
    if (q == floor(q))
        return x == floor(x) && fmod(x, 2) == 0 ? INFINITY : NAN;
    if (x != floor(x) || isnan(q) || isinf(q))
        return NAN;
    /* the terms with q + k < 0 are those of two other zetas, with the power's sign */
    f = q - floor(q);
    return zeta_of_positive(x, f) +
           (fmod(x, 2) == 0 ? 1 : -1) *
               (zeta_of_positive(x, 1 - f) - zeta_of_positive(x, 1 - q));
}

double special_polygamma(double n, double x)
{
    if (!(n >= 0) || n != floor(n))
        return NAN;
    if (n == 0)
        return special_digamma(x);
    return (fmod(n, 2) == 0 ? -1 : 1) * exp(special_lgamma(n + 1)) *
           special_zeta(n + 1, x);
}

/* ---- incomplete gamma and beta functions (6.5, 26.5) ---- */

/* x^a e^-x / gamma(a + 1), the first term of the series */
static double igamma_term(double a, double x)
{
    return exp(a * log(x) - x - special_lgamma(a + 1));
}

/* sum over n >= 0 of x^n / ((a + 1) ... (a + n)) */
static double igamma_series(double a, double x)
{
    double sum = 1, term = 1;

    for (int n = 1; n < MAX_TERMS && term > DBL_EPSILON * sum; n++) {
        term *= x / (a + n);
        sum += term;
    }
    return sum;
}

/* Lentz's method for b(0) + a(1) / (b(1) + a(2) / (b(2) + ...)): one step. */
struct fraction {
    double c, d, value;
};

static int fraction_step(struct fraction *f, double a, double b)
{
    double change;

    f->d = b + a * f->d;
    f->d = 1 / (f->d == 0 ? DBL_MIN : f->d);
    f->c = b + a / f->c;
    f->c = f->c == 0 ? DBL_MIN : f->c;
    change = f->c * f->d;
    f->value *= change;
    return fabs(change - 1) > DBL_EPSILON;
}

/* The complement by its continued fraction, for x > a. */
static double igammac_fraction(double a, double x)
{
    struct fraction f = {x + 1 - a, 0, x + 1 - a};
    int n = 1;

    while (n < MAX_TERMS && fraction_step(&f, -n * (n - a), x + 2 * n + 1 - a))
        n++;
    return isinf(x) ? 0 : a * igamma_term(a, x) / f.value;
}

double special_igamma(double a, double x)
{
    if (x == 0)
        return 0;
    if (!(x >= 0) || !(a > 0))
        return NAN;
    return x > 1 && x > a ? 1 - igammac_fraction(a, x)
                          : igamma_term(a, x) * igamma_series(a, x);
}

double special_igammac(double a, double x)
{
    if (!(x >= 0) || !(a > 0))
        return NAN;
    if (x == 0)
        return 1;
    return x < 1 || x < a ? 1 - igamma_term(a, x) * igamma_series(a, x)
                          : igammac_fraction(a, x);
}

/* The derivative of the series; far in the tail that of the continued fraction's leading
 * factor. */
double special_igamma_grad_a(double a, double x)
{
    double sum = 1, term = 1, slope = 0, slopes = 0;

    if (x == 0)
        return 0;
    if (!(x >= 0) || !(a > 0))
        return NAN;
    if (x > a + 60 + 12 * sqrt(a))
        return -special_igammac(a, x) * (log(x) - special_digamma(a));
    for (int n = 1; n < MAX_TERMS && term > DBL_EPSILON * sum; n++) {
        term *= x / (a + n);
        slope -= 1 / (a + n); /* of log term */
        sum += term;
        slopes += term * slope;
    }
    return igamma_term(a, x) * ((log(x) - special_digamma(a + 1)) * sum + slopes);
}

double special_gamma_sample_grad(double a, double sample)
{
    if (sample == 0)
        return 0;
    return -special_igamma_grad_a(a, sample) /
           exp((a - 1) * log(sample) - sample - special_lgamma(a));
}

/* By its continued fraction, which converges quickly for x < (a + 1) / (a + b + 2). */
static double betainc_fraction(double a, double b, double x)
{
    const double front = exp(special_lgamma(a + b) - special_lgamma(a) -
                             special_lgamma(b) + a * log(x) + b * log1p(-x));
    struct fraction f = {1, 0, 1};
    int go_on = 1;

    (void)fraction_step(&f, -(a + b) * x / (a + 1), 1);
    for (int n = 1; n < MAX_TERMS && go_on; n++) {
        const double m = a + 2 * n;

        (void)fraction_step(&f, n * (b - n) * x / ((m - 1) * m), 1);
        go_on = fraction_step(&f, -(a + n) * (a + b + n) * x / (m * (m + 1)), 1);
    }
    return front / (a * f.value);
}

double special_betainc(double a, double b, double x)
{
    if (!(a > 0) || !(b > 0) || !(x >= 0 && x <= 1))
        return NAN;
    if (x == 0 || x == 1)
        return x;
    return x < (a + 1) / (a + b + 2) ? betainc_fraction(a, b, x)
                                     : 1 - betainc_fraction(b, a, 1 - x);
}

/* ---- quantiles (26.2) ---- */

/* The z >= 0 above which a normal number lies with probability p <= 1/2: a rational guess
 * (26.2.23), then Halley's iteration. */
static double upper_quantile(double p)
{
    const double t = sqrt(-2 * log(p));
    double z = t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                       (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));

    for (int i = 0; i < 3; i++) {
        const double density = exp(-z * z / 2) / sqrt(2 * PI);
        const double u = density > 0 ? (0.5 * erfc(z / sqrt(2)) - p) / density : 0;

        z += u / (1 - z * u / 2);
    }
    return z;
}

double special_ndtri(double p)
{
    if (!(p >= 0 && p <= 1))
        return NAN;
    if (p == 0 || p == 1)
        return p == 0 ? -INFINITY : INFINITY;
    return p < 0.5 ? -upper_quantile(p) : upper_quantile(1 - p);
}

double special_erfinv(double y)
{
    const double a = fabs(y);
    double x;

    if (!(a <= 1))
        return NAN;
    if (a == 0 || a == 1)
        return a == 0 ? y : copysign(INFINITY, y);
    x = upper_quantile((1 - a) / 2) / sqrt(2);
    for (int i = 0; i < 2 && a < 0.5; i++) /* 1 - a has lost digits */
        x -= (erf(x) - a) * sqrt(PI) / 2 * exp(x * x);
    return copysign(x, y);
}

/* ---- Bessel functions (9.6.10, 9.7.1) ---- */

/* For x >= 0: the power series, or the asymptotic one, whose smallest term is below e^-2x. */
static double bessel_ie(int order, double x)
{
    double sum = 1, term = 1;

    if (x <= 20) {
        for (int k = 1; term > DBL_EPSILON * sum; k++) {
            term *= x * x / 4 / (k * (k + order));
            sum += term;
        }
        return exp(-x) * (order == 0 ? sum : sum * x / 2);
    }
    for (int k = 1; k < 30 && fabs(term) > DBL_EPSILON; k++) {
        term *= ((2 * k - 1) * (2 * k - 1) - 4 * order) / (8 * k * x);
        sum += term;
    }
    return sum / sqrt(2 * PI * x);
}

double special_bessel_i0e(double x)
{
    return bessel_ie(0, fabs(x));
}

double special_bessel_i1e(double x)
{
    return copysign(bessel_ie(1, fabs(x)), x);
}
