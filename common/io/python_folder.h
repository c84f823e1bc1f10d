/* python_folder.h - where the Python package `brood` is. */
#ifndef COMMON_IO_PYTHON_FOLDER_H
#define COMMON_IO_PYTHON_FOLDER_H

/* The folder that has the package: that of the sources, for a program in its build folder;
 * otherwise where `meson install` puts it, seen from the program in bin or in libexec/brood.
 * free(). */
char *python_folder(void);
/* Puts a folder in front of PYTHONPATH; NULL: that one. */
void python_folder_add(const char *folder);

#endif
