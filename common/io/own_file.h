/* own_file.h - this process's executable, and the files that are installed with it. */
#ifndef COMMON_IO_OWN_FILE_H
#define COMMON_IO_OWN_FILE_H

/* The path of the executable; free(). NULL: /proc does not tell. */
char *own_executable(void);
/* "PREFIX/share/brood/NAME" of the prefix in which the executable is, in bin or in libexec/brood,
 * if there is such a file or folder; free(). NULL: there is none, as in a build folder. */
char *own_share(const char *name);
/* If the executable is installed in a Python environment (venv, conda), in bin or libexec/brood,
 * puts the environment's bin in front of PATH: `python3` is then that environment's, with its
 * packages, also where nobody has activated it. */
void own_python_environment(void);

#endif
