// The watchdog of weft/testing/, for tests that would hang if what they test were wrong.
#pragma once

#include <weft/testing/watchdog.hpp>

using weft::testing::watchdog;
