/* Meets a construct in the user's library: first alone, then with a worker. */
void gomp_solve(unsigned threads);

int main(void) {
    gomp_solve(1);
    gomp_solve(2);
    return 0;
}
