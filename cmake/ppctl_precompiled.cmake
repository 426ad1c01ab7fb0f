# Precompiled headers, each made once and reused by every target of its kind.

# ppctl_precompiled_headers(PREFIX OPTIONS header...): the targets ppctl_PREFIX_pch, and ppctl_PREFIX_test_pch with GoogleTest, of files that
# are compiled with the target OPTIONS. (With an empty PREFIX: ppctl_pch and ppctl_test_pch.)
function(ppctl_precompiled_headers prefix options)
  string(REPLACE __ _ name ppctl_${prefix}_)
  set(standard <fmt/format.h> <algorithm> <functional> <map> <memory> <optional> <span> <string> <vector>)
  file(WRITE ${PROJECT_BINARY_DIR}/${name}pch.cpp "")
  add_library(${name}pch STATIC ${PROJECT_BINARY_DIR}/${name}pch.cpp)
  target_link_libraries(${name}pch PUBLIC ppctl_options ${options})
  target_precompile_headers(${name}pch PRIVATE ${ARGN} ${standard})
  if(PPCTL_BUILD_TESTS)
    add_library(${name}test_pch STATIC ${PROJECT_BINARY_DIR}/${name}pch.cpp)
    target_link_libraries(${name}test_pch PUBLIC ppctl_options ppctl_test_options ${options} GTest::gtest)
    target_precompile_headers(${name}test_pch PRIVATE ${ARGN} ${standard} <gtest/gtest.h>)
  endif()
endfunction()

# ppctl_reuse_headers(TARGET PCH): lets an executable reuse a precompiled header. The header is compiled with -fPIC; with an executable's
# -fPIE the compiler would ignore it, and warn.
function(ppctl_reuse_headers target pch)
  target_precompile_headers(${target} REUSE_FROM ${pch})
  set_target_properties(${target} PROPERTIES POSITION_INDEPENDENT_CODE OFF)
  target_compile_options(${target} PRIVATE -fPIC)
endfunction()

# Tests spend their time in the libraries: what they are made of themselves is compiled fast.
add_library(ppctl_test_options INTERFACE)
target_compile_options(ppctl_test_options INTERFACE $<$<CONFIG:Release>:-O1>)

ppctl_precompiled_headers("" ppctl_options)
