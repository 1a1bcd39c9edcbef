/* A routine of two versions; the one that is asked for by no version's name is the second. */
int chosen_first(void) { return 1; }
int chosen_second(void) { return 2; }
__asm__(".symver chosen_first,chosen@V_1");
__asm__(".symver chosen_second,chosen@@V_2");
