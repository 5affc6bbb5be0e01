# PyTorch's stable ABI: the target runtime_torch. Only headers are needed to build.
#
#   RUNTIME_TORCH_INCLUDE   torch's include folder, where it is not the building interpreter's
include_guard(GLOBAL)

# The oldest PyTorch that the libraries load on: 2.11.
set(RUNTIME_TORCH_TARGET 0x020b000000000000)

if(NOT RUNTIME_TORCH_INCLUDE)
  find_package(Python 3.11 REQUIRED COMPONENTS Interpreter)
  # -I: pip isolates a build by PYTHONPATH alone; the environment that it installs into, where
  # torch is, stays visible to an interpreter that does not read that variable.
  execute_process(
    COMMAND "${Python_EXECUTABLE}" -I -c
            "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
    OUTPUT_VARIABLE runtime_torch_dir
    OUTPUT_STRIP_TRAILING_WHITESPACE)
  set(RUNTIME_TORCH_INCLUDE "${runtime_torch_dir}/include")
endif()

if(NOT EXISTS "${RUNTIME_TORCH_INCLUDE}/torch/csrc/stable/library.h")
  message(FATAL_ERROR
    "RUNTIME_TORCH_INCLUDE='${RUNTIME_TORCH_INCLUDE}' has no torch/csrc/stable/library.h: install "
    "torch 2.11 or newer where you build (pip install --no-build-isolation …), or set "
    "-DRUNTIME_TORCH_INCLUDE=<site-packages>/torch/include")
endif()

# Symbols come from whichever torch is loaded. The library must say that it needs libtorch.so, or
# they are not found; an empty library of that name is enough to say so.
file(WRITE "${CMAKE_CURRENT_BINARY_DIR}/torch_stub.cpp" "")
add_library(runtime_torch_stub SHARED "${CMAKE_CURRENT_BINARY_DIR}/torch_stub.cpp")
set_target_properties(
  runtime_torch_stub PROPERTIES OUTPUT_NAME torch
                                LIBRARY_OUTPUT_DIRECTORY "${CMAKE_CURRENT_BINARY_DIR}/torch_stub")

add_library(runtime_torch INTERFACE)
target_include_directories(runtime_torch SYSTEM INTERFACE "${RUNTIME_TORCH_INCLUDE}")
target_compile_definitions(runtime_torch INTERFACE TORCH_TARGET_VERSION=${RUNTIME_TORCH_TARGET})
target_link_libraries(runtime_torch INTERFACE runtime_torch_stub)
target_link_options(runtime_torch INTERFACE -Wl,--no-as-needed)
