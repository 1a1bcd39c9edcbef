// Threads that each do one kind of work over and over, until the process is stopped wherever they are by then.
// Usage: work COUNT, the number of threads.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>
#include <signal.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

namespace work {

static volatile long sink;

struct Record {
    double key;
    std::string name;
};

template <typename T, int N> struct Sum {
    __attribute__((noinline)) static T of(const T *values)
    {
        return values[N - 1] * T(N) + Sum<T, N - 1>::of(values);
    }
};

template <typename T> struct Sum<T, 0> {
    static T of(const T *) { return T(); }
};

static void sorting(unsigned seed)
{
    std::vector<Record> records(200 + seed % 60);
    for (auto &record : records) {
        seed = seed * 1103515245 + 12345;
        record = {double(seed >> 8), std::to_string(seed)};
    }
    std::function<bool(const Record &, const Record &)> before = [&records](const Record &a, const Record &b) {
        return a.key < b.key || (a.key == b.key && a.name < b.name && !records.empty());
    };
    std::sort(records.begin(), records.end(), before);
    std::stable_sort(records.begin(), records.end(), [](const Record &a, const Record &b) { return a.name < b.name; });
    sink = long(records[0].key);
}

class Failure : public std::runtime_error {
public:
    explicit Failure(int depth) : std::runtime_error("failed at " + std::to_string(depth)), depth(depth) {}
    int depth;
};

struct Guard {
    std::string text;
    ~Guard()
    {
        for (char &letter : text)
            letter ^= 1;
        sink = long(text.size());
    }
};

__attribute__((noinline)) static int failing(int depth)
{
    Guard guard{std::string(30 + depth, 'x')};
    if (depth == 0)
        throw Failure(depth);
    try {
        return failing(depth - 1) + int(guard.text.size());
    } catch (const std::logic_error &) {
        return 0;
    } catch (const Failure &failure) {
        if (depth % 3 == 0)
            std::throw_with_nested(Failure(depth));
        throw;
    }
}

static void throwing(unsigned seed)
{
    try {
        sink = failing(3 + seed % 9);
    } catch (const std::exception &error) {
        sink = error.what()[0];
    }
}

struct Shape {
    virtual ~Shape() = default;
    virtual double area(int depth) const = 0;
};

struct Square : Shape {
    double side = 2;
    double area(int depth) const override;
};

struct Circle : virtual Shape {
    double radius = 3;
    std::unique_ptr<Shape> inner = std::make_unique<Square>();
    double area(int depth) const override { return std::sin(radius) + inner->area(depth) * std::cos(depth); }
};

double Square::area(int depth) const
{
    if (depth <= 0)
        return side * side;
    Circle circle;
    return circle.area(depth - 1) + side;
}

static void shapes(unsigned seed)
{
    std::array<double, 12> values;
    std::iota(values.begin(), values.end(), 1.5);
    std::function<double(int)> again = [&](int n) -> double {
        return n ? again(n - 1) + Sum<double, 9>::of(values.data()) : Square().area(int(seed % 7));
    };
    sink = long(again(int(seed % 5)));
}

static void matching(unsigned seed)
{
    static const std::regex pattern("(a|b)*(c+d?)*([[:digit:]]+).*(x|y)");
    std::string text = "abababcccd" + std::to_string(seed) + "zzzy";
    std::smatch found;
    sink = std::regex_match(text, found, pattern);
}

static void printing(unsigned seed)
{
    std::ostringstream out;
    for (int i = 0; i < 20; i++)
        out << seed * 1.1 * i << ' ' << std::hex << seed + i << std::dec << std::endl;
    std::map<std::string, int> words;
    std::istringstream in(out.str());
    for (std::string word; in >> word;)
        words[word]++;
    char text[200];
    sink = long(words.size()) + snprintf(text, sizeof text, "%s %.12g %Lf", out.str().c_str(), seed * 0.3, 1.0L * seed);
}

static int compare(const void *a, const void *b)
{
    double x = *static_cast<const double *>(a), y = *static_cast<const double *>(b);
    return std::pow(x, 1.01) < std::pow(y, 1.01) ? -1 : x > y;
}

static void calling_back(unsigned seed)
{
    double values[64];
    for (double &value : values)
        value = std::exp(double((seed = seed * 69069 + 1) >> 24) / 64);
    qsort(values, 64, sizeof *values, compare);
    sink = long(values[seed % 64]);
}

// A stack that is aligned anew, and one whose size only the run tells.
__attribute__((noinline)) static double aligned(int count, double start)
{
    alignas(64) double block[16];
    double *values = static_cast<double *>(__builtin_alloca(count * sizeof *values));
    for (int i = 0; i < count; i++)
        values[i] = start + i;
    for (int i = 0; i < 16; i++)
        block[i] = std::log(values[i % count] + 1);
    double last = count > 4 ? aligned(count - 3, block[3]) : std::accumulate(block, block + 16, 0.0);
    return last + values[count / 2] + block[count % 16];
}

static void aligning(unsigned seed)
{
    sink = long(aligned(5 + int(seed % 20), seed));
}

static void allocating(unsigned seed)
{
    std::vector<std::unique_ptr<char[]>> blocks;
    for (int i = 0; i < 40; i++) {
        seed = seed * 69069 + 1;
        std::size_t size = 16 + (seed >> 20);
        blocks.emplace_back(new char[size]);
        std::fill_n(blocks.back().get(), size, char(seed));
        if (i % 3 == 0)
            blocks.erase(blocks.begin() + long(blocks.size() / 2));
    }
    sink = long(blocks.size());
}

// Signals that come anywhere: the handler works too, on a stack of its own or not, and may be interrupted itself.
static void (*const handled[])(unsigned) = {shapes, aligning, calling_back};
static void (*const interrupted[])(unsigned) = {sorting, shapes, throwing, matching};

static void handler(int number)
{
    static thread_local unsigned seed = 17;
    for (int i = 0; i < 30; i++, seed++)
        handled[seed % 3](seed);
    if (number == SIGUSR1)
        raise(SIGUSR2);
    for (int i = 0; i < 30; i++, seed++)
        handled[seed % 3](seed);
}

static void signalled(unsigned seed)
{
    static thread_local std::unique_ptr<char[]> stack;
    if (!stack) {
        stack.reset(new char[1 << 16]);
        stack_t alternate = {};
        alternate.ss_sp = stack.get();
        alternate.ss_size = 1 << 16;
        sigaltstack(&alternate, nullptr);
        struct sigevent event = {};
        event.sigev_notify = SIGEV_THREAD_ID;
        event.sigev_signo = seed % 2 ? SIGUSR1 : SIGUSR2;
        event._sigev_un._tid = gettid();
        timer_t timer;
        timer_create(CLOCK_MONOTONIC, &event, &timer);
        struct itimerspec often = {{0, 300000}, {0, 300000}};
        timer_settime(timer, 0, &often, nullptr);
    }
    interrupted[seed / 64 % 4](seed);
}

static void (*const kinds[])(unsigned) = {
    sorting, throwing, shapes, matching, printing, calling_back, aligning, allocating, signalled, signalled, signalled,
};

static void worker(unsigned number)
{
    for (unsigned seed = number * 7919;; seed++)
        kinds[number % (sizeof kinds / sizeof *kinds)](seed);
}

}

int main(int, char **arguments)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    struct sigaction action = {};
    action.sa_handler = work::handler;
    action.sa_flags = SA_ONSTACK | SA_RESTART;
    sigaction(SIGUSR1, &action, nullptr);
    action.sa_flags = SA_RESTART;
    sigaction(SIGUSR2, &action, nullptr);
    std::vector<std::thread> threads;
    for (int i = 0; i < atoi(arguments[1]); i++)
        threads.emplace_back(work::worker, i);
    puts("ready");
    fflush(stdout);
    threads[0].join();
}
