// Which instruction set's kernels run in this process.
#pragma once

#include <string>

#include "runtime_kernels/table.h"

namespace runtime_kernels {

// The chosen table; until select_isa() is called, the widest that this machine has but for AMX's.
const KernelTable& kernels();

// Names that this machine can run, narrowest first.
std::string available_isas();

// Use the kernels of that name. False where there are none, or the machine cannot run them.
bool select_isa(const std::string& name);

}  // namespace runtime_kernels
