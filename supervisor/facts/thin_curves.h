/* thin_curves.h - the curves of a run, thinned so that a page of any run stays small.
 *
 * Rows     are divided into at most THIN_RANGES ranges of equally many. Of each range a column
 *          keeps its lowest and its highest value, in their order, at the steps of the range's
 *          first and last row; a run of at most 2 * THIN_RANGES rows is kept as it is.
 * Columns  all that have a value, but of those that differ only in the agent's name at most
 *          THIN_ALIKE, and THIN_COLUMNS in all.
 */
#ifndef SUPERVISOR_FACTS_THIN_CURVES_H
#define SUPERVISOR_FACTS_THIN_CURVES_H

#include "supervisor/metrics/json.h"
#include "supervisor/metrics/progress.h"

enum { THIN_RANGES = 150, THIN_ALIKE = 8, THIN_COLUMNS = 400 };

/* A string: the text of a progress.csv with the columns and rows that are kept; numbers have seven
 * digits. p NULL: nothing was read, and the string is empty. */
void thin_curves_put(const struct progress *p, struct json *j);

#endif
