// Reduces the memory of this process, for programs that run for days.
#pragma once

namespace berth::system {

/// Makes all threads share one heap. By default, each thread gets its own heap, with up to 1 MB of
/// pages in use. Call it before the second thread starts.
void use_one_heap();

/// Frees what only the start of the program needed: unused heap memory, and the pages of code and
/// constants of the program and its libraries, which the kernel loads again when they are needed.
void release_startup_memory();

}  // namespace berth::system
