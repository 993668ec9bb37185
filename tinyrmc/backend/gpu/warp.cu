// What the other files share. All are compiled as one module, this one first.
//
// A warp is 32 threads that can read each other's registers, in a shuffle, where each
// waits for all. The sum and the maximum over a warp are taken as a butterfly: every
// thread ends with the same value, and the order of the additions never changes, so
// neither do the bits.

#define WARP 32
#define INFINITE __int_as_float(0x7f800000)  // the runtime compiler has no INFINITY

__device__ float warp_sum(float x)
{
    for (int step = WARP / 2; step > 0; step /= 2)
        x += __shfl_xor_sync(0xffffffffu, x, step);
    return x;
}

__device__ float warp_max(float x)
{
    for (int step = WARP / 2; step > 0; step /= 2)
        x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, step));
    return x;
}
