// The memory of this process: small for programs that run for days.
#pragma once

namespace berth::system {

/// All threads share one heap. By default each thread gets its own, of up to 1 MB of pages in use.
/// Call it before the second thread starts.
void use_one_heap();

/// Gives back what only the start needed: free memory, and the pages of code and constants, which
/// the kernel maps again on the next use.
void release_startup_memory();

}  // namespace berth::system
