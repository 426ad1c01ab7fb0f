# Finds LibTorch and defines
#   ppctl_torch      libtorch_cpu and libc10 with their headers
#   ppctl_torch_pch, ppctl_torch_test_pch  the precompiled headers that every torch module and every test of one reuses
#
# The libraries are linked directly, not through Torch's CMake package: that package of a CUDA wheel fails on a machine without the
# CUDA toolkit, and a program that computes on the CPU needs nothing of it.
#
# Looked for in this order: Torch_DIR (cache or environment; the folder with TorchConfig.cmake, or the root of LibTorch), the
# project's own .venv, the active Python.

set(Torch_DIR "$ENV{Torch_DIR}" CACHE PATH "LibTorch: its root, or the folder with TorchConfig.cmake")

function(ppctl_find_torch out)
  if(Torch_DIR)
    foreach(candidate ${Torch_DIR} ${Torch_DIR}/../../.. ${Torch_DIR}/torch)
      if(EXISTS ${candidate}/lib/libtorch_cpu.so)
        get_filename_component(candidate ${candidate} ABSOLUTE)
        set(${out} ${candidate} PARENT_SCOPE)
        return()
      endif()
    endforeach()
    message(FATAL_ERROR "Torch_DIR is '${Torch_DIR}', but there is no lib/libtorch_cpu.so at it. "
                        "Give the root of LibTorch or the folder with its TorchConfig.cmake.")
  endif()
  foreach(python ${PROJECT_SOURCE_DIR}/.venv/bin/python python3)
    execute_process(COMMAND ${python} -c "import importlib.util as u; s = u.find_spec('torch'); print(s.submodule_search_locations[0] if s else '')"
                    OUTPUT_VARIABLE root OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE status)
    if(status EQUAL 0 AND root AND EXISTS ${root}/lib/libtorch_cpu.so)
      set(${out} ${root} PARENT_SCOPE)
      return()
    endif()
  endforeach()
  message(FATAL_ERROR "LibTorch was not found. Run scripts/setup, activate a Python environment that has torch, or set Torch_DIR.")
endfunction()

ppctl_find_torch(PPCTL_TORCH_ROOT)
message(STATUS "LibTorch: ${PPCTL_TORCH_ROOT}")

# Torch brings the headers of a fmt of its own, without the library: every file takes the system's.
get_target_property(fmt_include fmt::fmt INTERFACE_INCLUDE_DIRECTORIES)
file(MAKE_DIRECTORY ${PROJECT_BINARY_DIR}/system_fmt)
file(CREATE_LINK ${fmt_include}/fmt ${PROJECT_BINARY_DIR}/system_fmt/fmt SYMBOLIC)

add_library(ppctl_torch INTERFACE)
target_include_directories(ppctl_torch SYSTEM INTERFACE ${PROJECT_BINARY_DIR}/system_fmt ${PPCTL_TORCH_ROOT}/include ${PPCTL_TORCH_ROOT}/include/torch/csrc/api/include)
target_compile_definitions(ppctl_torch INTERFACE AT_PER_OPERATOR_HEADERS)
target_link_libraries(ppctl_torch INTERFACE ${PPCTL_TORCH_ROOT}/lib/libtorch_cpu.so ${PPCTL_TORCH_ROOT}/lib/libc10.so)
target_link_options(ppctl_torch INTERFACE -Wl,-rpath,${PPCTL_TORCH_ROOT}/lib)

ppctl_precompiled_headers(torch ppctl_torch "${PROJECT_SOURCE_DIR}/lib/model/aten.hpp")
