// Part of weft::compiled: the functions that are no templates (core/linked.hpp).
#define WEFT_COMPILES_LINKED
#include <weft/train/run_folder.hpp>
#include <weft/weft.hpp>
