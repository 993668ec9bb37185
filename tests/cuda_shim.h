// CUDA's words in C++, so that kernels run on a processor: one block after another, its
// threads as fibres that take turns.
//
// A fibre runs until it waits, at a __syncthreads or a shuffle, or ends; then the next
// one of its warp does, and a warp goes as far as it can before the next. They take
// turns upwards or downwards: a kernel that lacks a __syncthreads gives another result
// in one of the two, unless it happens not to need it. What would be undefined on a GPU
// is an error here: threads of a block or a warp that wait in different places, or for
// one that has ended. Shared memory starts as NaN in every block, with NaN behind it
// that must still be there at the end.

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ucontext.h>

#define __global__
#define __device__
#define __shared__ thread_local  // `extern __shared__ float shared[]` is defined below

struct Triple { int x, y, z; };
static Triple gridDim, blockDim, blockIdx, threadIdx;

namespace shim {

enum State { NEW, READY, AT_WARP, AT_BLOCK, DONE };
enum Error { FINE, DIVERGED, OVERRUN };

constexpr int THREADS = 1024, STACK = 32 * 1024, BYTES = 48 * 1024, GUARD = 1024;

struct Fibre { ucontext_t context; State state; Triple index; int turn; };

static Fibre fibres[THREADS];
static ucontext_t scheduler;
static int current, threads;  // the thread that runs; how many a block has
static bool downwards;
// what threads offer in a shuffle; two in turn, so that one wait a shuffle is enough
static float exchanged[2][THREADS];
static void (*body)(void**);
static void** arguments;

static void wait(State where)
{
    fibres[current].state = where;
    swapcontext(&fibres[current].context, &scheduler);
}

static void go(int thread)
{
    current = thread;
    threadIdx = fibres[thread].index;
}

// A fibre that is done goes on as the next thread of its warp, if that is new: most
// kernels need few fibres.
static void enter()
{
    for (;;) {
        body(arguments);
        fibres[current].state = DONE;
        const int next = downwards ? current - 1 : current + 1;
        if (next < 0 || next >= threads || next / 32 != current / 32) break;
        if (fibres[next].state != NEW) break;
        go(next);
    }
    setcontext(&scheduler);
}

static void resume(int thread)
{
    static char* stacks = static_cast<char*>(malloc((size_t)THREADS * STACK));
    ucontext_t& context = fibres[thread].context;
    if (fibres[thread].state == NEW) {
        getcontext(&context);
        context.uc_stack.ss_sp = stacks + (size_t)thread * STACK;
        context.uc_stack.ss_size = STACK;
        makecontext(&context, enter, 0);
    }
    go(thread);
    swapcontext(&scheduler, &context);
}

// If all of these wait there, let them go on.
static bool release(int first, int last, State where)
{
    for (int t = first; t < last; t++)
        if (fibres[t].state != where) return false;
    for (int t = first; t < last; t++) fibres[t].state = READY;
    return true;
}

static bool run_block()
{
    for (int t = 0; t < threads; t++) {
        fibres[t].state = NEW;
        fibres[t].turn = 0;
        const int row = t / blockDim.x;
        fibres[t].index = {t % blockDim.x, row % blockDim.y, row / blockDim.y};
    }
    const int warps = (threads + 31) / 32;
    for (;;) {
        bool left = false;
        for (int k = 0; k < warps; k++) {  // a warp goes as far as it can
            const int first = 32 * (downwards ? warps - 1 - k : k);
            const int last = first + 32 < threads ? first + 32 : threads;
            do {
                for (int t = 0; t < last - first; t++) {
                    const int thread = downwards ? last - 1 - t : first + t;
                    if (fibres[thread].state <= READY) resume(thread);
                }
            } while (release(first, last, AT_WARP));
        }
        for (int t = 0; t < threads; t++) left |= fibres[t].state != DONE;
        if (!left) return true;
        if (!release(0, threads, AT_BLOCK)) return false;
    }
}

}  // namespace shim

alignas(16) thread_local float shared[(shim::BYTES + shim::GUARD) / sizeof(float)];

extern "C" int shim_run(
    void (*kernel)(void**), void** values, const int* grid, const int* block,
    int bytes, int downwards)
{
    shim::threads = block[0] * block[1] * block[2];
    shim::downwards = downwards;
    gridDim = {grid[0], grid[1], grid[2]};
    blockDim = {block[0], block[1], block[2]};
    shim::body = kernel;
    shim::arguments = values;
    const int blocks = grid[0] * grid[1] * grid[2];
    const int used = bytes / sizeof(float), whole = sizeof(shared) / sizeof(float);
    for (int k = 0; k < blocks; k++) {
        const int b = downwards ? blocks - 1 - k : k;
        blockIdx = {b % grid[0], b / grid[0] % grid[1], b / grid[0] / grid[1]};
        for (int e = 0; e < whole; e++) shared[e] = NAN;
        if (!shim::run_block()) return shim::DIVERGED;
        for (int e = used; e < whole; e++)
            if (!std::isnan(shared[e])) return shim::OVERRUN;
    }
    return shim::FINE;
}

inline void __syncthreads() { shim::wait(shim::AT_BLOCK); }

inline float __shfl_xor_sync(unsigned, float value, int lanes)
{
    const int me = shim::current, turn = shim::fibres[me].turn ^= 1;
    shim::exchanged[turn][me] = value;
    shim::wait(shim::AT_WARP);
    return shim::exchanged[turn][me ^ lanes];
}

inline float __int_as_float(unsigned bits)
{
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
