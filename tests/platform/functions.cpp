#include "functions.hpp"

int main() { return platform::function_faults() != 0; }
