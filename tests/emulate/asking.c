/* A library whose routines call others by the linkage table, and which the program never calls. */
#include <string.h>

extern int omp_get_level(void);
extern int omp_get_team_size(int level);
extern int chosen(void);
extern int nowhere(void) __attribute__((weak));

int asks_level(void) { return 100 + omp_get_level(); }
int asks_team_size(int level) { return 100 + omp_get_team_size(level); }
int asks_chosen(void) { return 100 + chosen(); }
int asks_old(void);
extern int old_chosen(void);
__asm__(".symver old_chosen,chosen@V_1");
int asks_old(void) { return 100 + old_chosen(); }
unsigned long asks_length(const char *text) { return strlen(text) + 1; }
int hidden_one(void) { return 3; }
int asks_own(void) { return 100 + hidden_one(); }
int asks_nowhere(void) { return nowhere(); }
