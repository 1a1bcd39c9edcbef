/* A library that needs others, one of which runs a region. */
void run(void);
void outer(void);
void outer(void) { run(); }
