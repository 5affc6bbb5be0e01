# What CUDA kernel libraries are compiled for and with: the target runtime_cuda. Include before
# project(); call runtime_cuda_target() after it.
include_guard(GLOBAL)

# The PTX of 8.0 serves devices that are newer than 9.0.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 80 90a-real)
endif()

find_program(RUNTIME_CCACHE ccache)
if(RUNTIME_CCACHE AND NOT CMAKE_CUDA_COMPILER_LAUNCHER)
  set(CMAKE_CUDA_COMPILER_LAUNCHER "${RUNTIME_CCACHE}")
endif()
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)

macro(runtime_cuda_target)
  find_package(CUDAToolkit 12.8 REQUIRED)
  add_library(runtime_cuda INTERFACE)
  target_compile_features(runtime_cuda INTERFACE cuda_std_17)
  target_include_directories(runtime_cuda SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  # USE_CUDA: torch's headers then declare how to ask for the current stream.
  target_compile_definitions(runtime_cuda INTERFACE USE_CUDA)
  target_compile_options(
    runtime_cuda INTERFACE $<$<COMPILE_LANGUAGE:CUDA>:--expt-relaxed-constexpr -lineinfo
                           -Xcompiler=-Wall>
                           $<$<COMPILE_LANGUAGE:CXX>:-Wall -Wextra>)
  target_link_libraries(runtime_cuda INTERFACE CUDA::cudart_static)
endmacro()
