#pragma once

#include <optional>
#include <string>

namespace ppctl {

/// GLIBC_TUNABLES for a program that computes with tensors: `current` (empty: unset) with glibc's heap on huge pages
/// where the kernel gives some, and with freed memory kept for the next tensor instead of returned, since each page
/// that comes anew costs a fault. Nothing where `current` sets the heap already.
std::optional<std::string> heap_tunables(const std::string& current);

/// Starts this program anew on such a heap, as glibc reads the variable only then; returns where it already runs on
/// one, or cannot be started. Worth 10 % of a training step and more. Call first of all: before threads, output and
/// open files.
void run_on_tuned_heap(char** argv);

}  // namespace ppctl
