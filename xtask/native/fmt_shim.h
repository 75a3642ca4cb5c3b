/* std::format for C++ libraries that lack it (GCC 12), through libfmt's headers. */
#pragma once
#include <version>
#ifndef __cpp_lib_format
#define FMT_HEADER_ONLY 1
#include <fmt/format.h>
namespace std { using fmt::format; }
#endif
