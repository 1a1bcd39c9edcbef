/* What each thread says of its variables: where they are and what they hold. */
#ifndef TRUTH_H
#define TRUTH_H

#ifdef __cplusplus
extern "C" {
#endif

/* The calling thread has the variable at an address, null if it has no copy, with a value as JSON has it. */
void note(const char *name, const void *address, const char *format, ...);
/* The calling thread's number in its team, -1 for none. */
void note_number(int number);
/* Writes all that was noted, says so, and never returns. */
void tell(void);
/* Never returns. */
void rest(void);

#ifdef __cplusplus
}
#endif
#endif
