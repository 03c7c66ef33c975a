// What instantiates most of the library: its own programs' headers and a small model of each kind, trained.
#include <weft/weft.hpp>
