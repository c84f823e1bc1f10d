/* python_folder.h - where the Python package `brood` is. */
#ifndef SUPERVISOR_PROC_PYTHON_FOLDER_H
#define SUPERVISOR_PROC_PYTHON_FOLDER_H

/* Puts the folder of the package in front of PYTHONPATH: that of the sources, for a program in its
 * build folder; otherwise where `meson install` puts it, seen from the program in bin or in
 * libexec/brood. */
void python_folder_add(void);

#endif
