// linked_cuda.hpp - what makes a program that is meant to use GPUs link turnstile-cuda.
//
// Such a program need not refer to anything in that library, and then a linker takes nothing out of
// an archive, and with --as-needed does not load a shared one. So those that come through Meson,
// pkg-config or CMake are compiled with TURNSTILE_CUDA. An initialiser stays, also with
// --gc-sections.
#pragma once

// Hands CUDA's runtime to the library, once; calls none of its functions.
extern "C" bool turnstile_cuda() noexcept;

#ifdef TURNSTILE_CUDA
namespace turnstile::detail {

inline const bool has_linked_cuda = turnstile_cuda();

}  // namespace turnstile::detail
#endif
