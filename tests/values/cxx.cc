// Values of C++.
#include <cstdlib>

namespace ns {
struct Base {
    int b = 1;
    int overridden = 3;
};
struct Derived : Base {
    int d = 2;
    int &r;
    explicit Derived(int &x) : r(x) {}
};
enum Plain { PA, PB };
enum class Scoped : unsigned char { X = 1, Y = 2 };
template <class T> struct Box {
    T v;
};
} // namespace ns
struct One {
    int a = 1;
};
struct Two : ns::Base, One {
    long c = 3;
};
int x = 5, &rx = x, &&rrx = static_cast<int &&>(x);
ns::Derived derived(x);
ns::Base base, *pbase = &base, &rbase = base;
ns::Plain plain = ns::PB, plains[3] = {ns::PA, ns::PB, (ns::Plain)5};
ns::Scoped scoped = ns::Scoped::Y, none = (ns::Scoped)0, both = (ns::Scoped)3;
Two two;
bool flag = true, flags[12];
ns::Box<int> box{7};
ns::Box<unsigned long> wide{8};
struct Empty {
} empty;
struct References {
    int &r;
    int *p;
} references{x, &x};
union Either {
    int a;
    float b;
} either{1};
struct Unnamed {
    union {
        int p;
        float q;
    };
    struct {
        int w;
    };
} unnamed{{1}, {2}};
int grid[2][2] = {{1, 2}, {3, 4}}, (&rgrid)[2][2] = grid;
const char *text = "text", chars[4] = "abc";
char16_t c16 = u'q';
struct Top {
    virtual ~Top() {}
    int t = 9;
};
struct Left : virtual Top {
    int l = 1;
};
struct Right : virtual Top {
    int r = 2;
};
struct Bottom : Left, Right {
    int e = 3;
} bottom;

int main()
{
    std::abort();
    return chars[0] + c16;
}
