// The backend of tensors that name none. An operator that is included alone includes it, and names none itself.
#pragma once

#include <weft/backend/cpu.hpp>
