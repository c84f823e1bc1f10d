/* special.h - the special functions that libm lacks, of one number, in double.
 *
 * Arguments outside of a function's domain give NaN. The relative error is below 1e-12, except
 * near zeros of the functions and for parameters above 1e6, where it is absolute. float32 values
 * are computed in double and rounded once.
 * Source   M. Abramowitz, I. Stegun: Handbook of Mathematical Functions (the chapters are named
 *          at each function); the domains are TensorFlow's. */
#ifndef AGENT_KERNELS_SPECIAL_H
#define AGENT_KERNELS_SPECIAL_H

double special_lgamma(double x);         /* log |gamma(x)|; libm's, without its global */
double special_digamma(double x);        /* the derivative of lgamma */
double special_zeta(double x, double q); /* sum over k >= 0 of (q + k)^-x, x > 1 */
double special_polygamma(double n, double x); /* the n-th derivative of digamma */
/* The normalised incomplete gamma function, its complement, and its derivative by a. */
double special_igamma(double a, double x);
double special_igammac(double a, double x);
double special_igamma_grad_a(double a, double x);
/* The derivative of a sample of the gamma distribution by its parameter a, where the sample's
 * quantile stays. */
double special_gamma_sample_grad(double a, double sample);
double special_betainc(double a, double b, double x); /* normalised */
double special_ndtri(double p);  /* the standard normal distribution's quantile */
double special_erfinv(double y); /* the inverse of erf */
/* The modified Bessel functions of order 0 and 1, times e^-|x|. */
double special_bessel_i0e(double x);
double special_bessel_i1e(double x);

#endif
