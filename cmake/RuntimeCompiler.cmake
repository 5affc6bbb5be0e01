# What all kernel libraries are compiled with: the target runtime_compiler.
include_guard(GLOBAL)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Release or Debug" FORCE)
endif()

find_program(RUNTIME_CCACHE ccache)
if(RUNTIME_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER "${RUNTIME_CCACHE}")
endif()

option(RUNTIME_SANITIZE "Find invalid accesses and undefined behaviour (ASan, UBSan)" OFF)

add_library(runtime_compiler INTERFACE)
target_compile_features(runtime_compiler INTERFACE cxx_std_17)
target_compile_options(runtime_compiler INTERFACE -Wall -Wextra -fvisibility=hidden
                                                  -fvisibility-inlines-hidden)
if(RUNTIME_SANITIZE)
  target_compile_options(runtime_compiler INTERFACE -fsanitize=address,undefined
                                                    -fno-sanitize-recover=undefined
                                                    -fno-omit-frame-pointer -g1)
  target_link_options(runtime_compiler INTERFACE -fsanitize=address,undefined)
endif()
