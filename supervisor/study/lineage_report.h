/* lineage_report.h - who came from whom in population based training: as text, CSV, JSON and
 * a picture. Only rounds that are over are shown. */
#ifndef SUPERVISOR_STUDY_LINEAGE_REPORT_H
#define SUPERVISOR_STUDY_LINEAGE_REPORT_H

#include "supervisor/metrics/json.h"
#include "supervisor/study/lineage.h"

#include <stdio.h>

/* A line for each fork. */
void lineage_report_print(const struct lineage *l, FILE *f);
/* A row for each round and member; column `from`: the member that it went on from before
 * that round, empty in the first one. */
void lineage_report_print_csv(const struct lineage *l, FILE *f);
/* "lineage": the same rows, into an object that is open. */
void lineage_report_put(const struct lineage *l, struct json *j);
/* The values over the steps: a line for each member, and one from the member that a fork
 * came from, dashed. */
void lineage_report_print_svg(const struct lineage *l, FILE *f);

/* A field of a CSV file, in quotes where they are needed. */
void report_csv_text(const char *text, FILE *f);
/* A comma and the number; nothing after it for NaN. */
void report_csv_number(double v, FILE *f);

#endif
