/* trig.h - sin, cos and atan2 in double precision, rounded to the nearest double.
 *
 * libm's functions differ between versions and CPU types, and NumPy's also between
 * instruction sets: its AVX-512 loops give another last bit for two sines in three. The
 * functions below compute in pairs of doubles (106 bits), with IEEE operations only, so
 * that every machine gives the same bits. Errors are below 0.5 + 2^-40 units in the last
 * place; glibc's results, which NumPy uses without AVX-512, differ in the last bit about
 * once in 800.
 * Source   Taylor series; sums and products of pairs as in Dekker 1971, A floating-point
 *          technique for extending the available precision.
 */
#ifndef COMMON_NUMERICS_TRIG_H
#define COMMON_NUMERICS_TRIG_H

/* |x| < 1e5; for other arguments the results are undefined, for NaN they are NaN. */
void sincos_f64(double x, double *ret_sin, double *ret_cos);
/* The angle of the point (x, y), in [-pi, pi], as C's atan2. */
double atan2_f64(double y, double x);

#endif
