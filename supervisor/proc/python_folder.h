/* python_folder.h - where the Python package `brood` is. */
#ifndef SUPERVISOR_PROC_PYTHON_FOLDER_H
#define SUPERVISOR_PROC_PYTHON_FOLDER_H

/* The folder that has the package: that of the sources, for a program in its build folder; otherwise
 * where `meson install` puts it, seen from the program in bin or in libexec/brood. free(). */
char *python_folder(void);
/* Puts it in front of PYTHONPATH. */
void python_folder_add(void);

#endif
