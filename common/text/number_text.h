/* number_text.h - formats numbers for people. */
#ifndef COMMON_TEXT_NUMBER_TEXT_H
#define COMMON_TEXT_NUMBER_TEXT_H

#define NUMBER_TEXT_BYTES 32

/* With so many decimals, at most 3: "-19.86"; a number that is too large for a column in four
 * digits, "1e+301". At most 11 characters. Returns buf. */
const char *number_text(double v, int decimals, char buf[NUMBER_TEXT_BYTES]);

#endif
