#pragma once

// 128-bit integers, for products of two 64-bit times. ISO C++ has none.

namespace weir {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 UInt128;

}  // namespace weir
