// Thread-local variables of C++: members, templates, namespaces, functions, and those that code initialises.
#include "truth.h"
#include <cstdlib>
#include <omp.h>

struct Made {
    int value;
    explicit Made(int from) : value(from) {}
};

namespace ns {
struct Base {
    int b = 1;
    static thread_local int shared;
    static int common;
};
thread_local int Base::shared = 10;
int Base::common = 5;
struct Derived : Base {
    short d = 2;
    bool flag = true;
    int &reference;
    explicit Derived(int &to) : reference(to) {}
};
template <class T> struct Box {
    static thread_local T kept;
};
template <class T> thread_local T Box<T>::kept = 3;
inline namespace v1 {
thread_local int inlined = 6;
}
namespace {
thread_local int hidden = 7;
}
enum class Color : unsigned char { red = 1, green = 2, blue = 4 };
thread_local Color color = Color::red;
} // namespace ns

thread_local Made dynamic(42);
int common = 1;

template <class T> int *counted()
{
    static thread_local int calls = 0;
    calls++;
    return &calls;
}

struct Class {
    static Made *method(int number)
    {
        static thread_local Made local(number * 11);
        return &local;
    }
};

int main()
{
    int threads = std::atoi(std::getenv("THREADS"));
#pragma omp parallel num_threads(threads)
    {
        int number = omp_get_thread_num();
        note_number(number);
        ns::Base::shared += number;
        ns::Box<int>::kept += number;
        ns::Box<long>::kept -= number;
        ns::inlined *= number;
        ns::hidden += 2 * number;
        ns::color = number % 2 ? ns::Color::green : ns::Color::blue;
        int *ints = counted<int>(), *doubles = counted<double>();
        counted<double>();
        note("ns::Base::shared", &ns::Base::shared, "%d", ns::Base::shared);
        note("ns::Base::common", &ns::Base::common, "%d", ns::Base::common);
        note("ns::Box<int>::kept", &ns::Box<int>::kept, "%d", ns::Box<int>::kept);
        note("ns::Box<long>::kept", &ns::Box<long>::kept, "%ld", ns::Box<long>::kept);
        note("ns::inlined", &ns::inlined, "%d", ns::inlined);
        note("ns::hidden", &ns::hidden, "%d", ns::hidden);
        note("ns::color", &ns::color, "\"ns::Color::%s\"", number % 2 ? "green" : "blue");
        note("counted<int>::calls", ints, "%d", *ints);
        note("counted<double>::calls", doubles, "%d", *doubles);
        if (number % 2 == 0) {
            dynamic.value++;
            note("dynamic", &dynamic, "{\"value\": %d}", dynamic.value);
        }
        if (number % 3 == 0) {
            Made *local = Class::method(number + 1);
            note("Class::method::local", local, "{\"value\": %d}", local->value);
        }
#pragma omp barrier
        if (number == 0)
            tell();
        rest();
    }
}
