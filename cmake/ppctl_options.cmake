# Settings that every target of the project shares, carried by INTERFACE targets instead of global flags.

set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/bin)
set(CMAKE_LIBRARY_OUTPUT_DIRECTORY ${PROJECT_BINARY_DIR}/lib)

set(PPCTL_SANITIZE "" CACHE STRING "Sanitizers of this build: empty, address (with undefined) or thread")
option(PPCTL_WARNINGS_AS_ERRORS "Treat warnings as errors" OFF)

add_library(ppctl_options INTERFACE)
target_compile_features(ppctl_options INTERFACE cxx_std_20)
target_include_directories(ppctl_options INTERFACE ${PROJECT_SOURCE_DIR}/lib)
# The library, not header-only: that would compile all of fmt anew in each file.
target_link_libraries(ppctl_options INTERFACE fmt::fmt)
target_compile_options(ppctl_options INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wnon-virtual-dtor -Woverloaded-virtual
                                               -Wno-missing-field-initializers)
if(PPCTL_WARNINGS_AS_ERRORS)
  target_compile_options(ppctl_options INTERFACE -Werror)
endif()
if(PPCTL_SANITIZE STREQUAL "address")
  target_compile_options(ppctl_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(ppctl_options INTERFACE -fsanitize=address,undefined)
elseif(PPCTL_SANITIZE STREQUAL "thread")
  target_compile_options(ppctl_options INTERFACE -fsanitize=thread -fno-omit-frame-pointer)
  target_link_options(ppctl_options INTERFACE -fsanitize=thread)
elseif(PPCTL_SANITIZE)
  message(FATAL_ERROR "PPCTL_SANITIZE is empty, address or thread; it is '${PPCTL_SANITIZE}'")
endif()

find_program(PPCTL_CCACHE ccache)
if(PPCTL_CCACHE)
  # Precompiled headers are cached only when time stamps inside them are ignored.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
                                  ${PPCTL_CCACHE})
endif()
