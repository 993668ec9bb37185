// fused.rmc_gates: i = sigmoid(z_i + input_bias),  f = sigmoid(z_f + forget_bias),
// next = i * tanh(candidate) + f * memory,  where z_i | z_f = from_input + from_memory.
//
// from_input (B, 1, 2 * gates), from_memory (B, N, 2 * gates), candidate, memory, next
// (B, N, width). gates = width ("unit": a gate for each unit) or 1 ("memory": one for
// each slot). From one example to the next memory and next have their own strides: they
// may be the slots of [M; x']. Nothing is saved but the arguments: backward computes
// the gates again, instead of writing and reading them. Forward writes them out, (B, N,
// gates) each, only when asked to `keep` them. Asked to `squash`, it also writes
// tanh(next), from which the next step's gates are made.

__device__ float logistic(float x) { return 0.5f * tanhf(0.5f * x) + 0.5f; }

// One thread an element of the memory.

extern "C" __global__ void rmc_gates_forward(
    const float* __restrict__ from_input, const float* __restrict__ from_memory,
    const float* __restrict__ candidate, const float* __restrict__ memory,
    float* __restrict__ next, float* __restrict__ input_gate,
    float* __restrict__ forget_gate, float* __restrict__ squashed,
    int count, int slots, int width, int gates, int memory_stride, int next_stride,
    float input_bias, float forget_bias, int keep, int squash)
{
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= count) return;
    const int slot = e / width, unit = e % width;  // slot counts through all examples
    const int example = slot / slots, inside = slot % slots * width + unit;
    const int gate = gates == 1 ? 0 : unit;
    const float* a = from_input + (size_t)example * 2 * gates;
    const float* b = from_memory + (size_t)slot * 2 * gates;
    const float i = logistic(a[gate] + b[gate] + input_bias);
    const float f = logistic(a[gates + gate] + b[gates + gate] + forget_bias);
    const float m = memory[(size_t)example * memory_stride + inside];
    const float updated = i * tanhf(candidate[e]) + f * m;
    next[(size_t)example * next_stride + inside] = updated;
    if (squash) squashed[e] = tanhf(updated);
    if (keep && unit < gates) {
        input_gate[slot * gates + gate] = i;
        forget_gate[slot * gates + gate] = f;
    }
}

// What flows back into next. With `own` it is g. With `later`, as inside a sequence,
// add the four ways in which the step after this one has used it: through its forget
// gate (gmemory, which that step's kernel has written), as a residual (gresidual), in
// [M; x'] (gjoined, with its own stride), and through tanh (gsquashed).

__device__ float into_next(
    const float* g, const float* gmemory, const float* gresidual, const float* gjoined,
    const float* gsquashed, const float* squashed, size_t e, size_t joined,
    int own, int later)
{
    float sum = own ? g[e] : 0;
    if (later) {
        const float s = squashed[e];
        sum += gmemory[e] + gresidual[e] + gjoined[joined] + gsquashed[e] * (1 - s * s);
    }
    return sum;
}

// gz_i = g * tanh(candidate) * i * (1 - i),  gz_f = g * memory * f * (1 - f): this is
// the gradient of from_memory, and summed over the slots that of from_input.
// gcandidate = g * i * (1 - tanh(candidate)^2),  gmemory = g * f.
//
// A gate for each unit: a block takes 32 units of an example, a unit a lane. Its warps
// take the slots in turn; then the first warp adds up their sums, in order.

extern "C" __global__ void rmc_gates_backward_unit(
    const float* __restrict__ g, const float* __restrict__ gresidual,
    const float* __restrict__ gjoined, const float* __restrict__ gsquashed,
    const float* __restrict__ squashed, const float* __restrict__ from_input,
    const float* __restrict__ from_memory, const float* __restrict__ candidate,
    const float* __restrict__ memory, float* __restrict__ gfrom_input,
    float* __restrict__ gfrom_memory, float* __restrict__ gcandidate,
    float* __restrict__ gmemory,
    int slots, int width, int memory_stride, int joined_stride, int own, int later,
    float input_bias, float forget_bias)
{
    extern __shared__ float shared[];  // (warps, 2, 32)
    const int warps = blockDim.x / WARP, warp = threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP, across = (width + WARP - 1) / WARP;
    const int example = blockIdx.x / across, unit = blockIdx.x % across * WARP + lane;
    const size_t top = (size_t)example * 2 * width + unit;
    float sum_i = 0, sum_f = 0;
    if (unit < width) {
        const float a_i = from_input[top] + input_bias;
        const float a_f = from_input[top + width] + forget_bias;
        for (int n = warp; n < slots; n += warps) {
            const size_t slot = (size_t)example * slots + n, e = slot * width + unit;
            const size_t z = slot * 2 * width + unit, inside = n * width + unit;
            const float gy = into_next(
                g, gmemory, gresidual, gjoined, gsquashed, squashed, e,
                (size_t)example * joined_stride + inside, own, later);
            const float i = logistic(a_i + from_memory[z]);
            const float f = logistic(a_f + from_memory[z + width]);
            const float m = memory[(size_t)example * memory_stride + inside];
            const float t = tanhf(candidate[e]);
            const float gz_i = gy * t * (i - i * i), gz_f = gy * m * (f - f * f);
            gfrom_memory[z] = gz_i;
            gfrom_memory[z + width] = gz_f;
            sum_i += gz_i;
            sum_f += gz_f;
            gcandidate[e] = gy * i * (1 - t * t);
            gmemory[e] = gy * f;
        }
    }
    shared[2 * warp * WARP + lane] = sum_i;
    shared[(2 * warp + 1) * WARP + lane] = sum_f;
    __syncthreads();
    if (warp == 0 && unit < width) {
        for (int w = 1; w < warps; w++) {
            sum_i += shared[2 * w * WARP + lane];
            sum_f += shared[(2 * w + 1) * WARP + lane];
        }
        gfrom_input[top] = sum_i;
        gfrom_input[top + width] = sum_f;
    }
}

// One gate for each slot: it moved all units, so gz sums over them. One warp a slot.
// The few numbers of gz are summed over the slots where broadcasting is undone.

extern "C" __global__ void rmc_gates_backward_memory(
    const float* __restrict__ g, const float* __restrict__ gresidual,
    const float* __restrict__ gjoined, const float* __restrict__ gsquashed,
    const float* __restrict__ squashed, const float* __restrict__ from_input,
    const float* __restrict__ from_memory, const float* __restrict__ candidate,
    const float* __restrict__ memory, float* __restrict__ gfrom_memory,
    float* __restrict__ gcandidate, float* __restrict__ gmemory,
    int all_slots, int slots, int width, int memory_stride, int joined_stride,
    int own, int later, float input_bias, float forget_bias)
{
    const int slot = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    if (slot >= all_slots) return;  // a whole warp leaves
    const int example = slot / slots;
    const float *a = from_input + example * 2, *b = from_memory + slot * 2;
    const float i = logistic(a[0] + b[0] + input_bias);
    const float f = logistic(a[1] + b[1] + forget_bias);
    float sum_i = 0, sum_f = 0;
    for (int c = lane; c < width; c += WARP) {
        const size_t e = (size_t)slot * width + c, inside = slot % slots * width + c;
        const float gy = into_next(
            g, gmemory, gresidual, gjoined, gsquashed, squashed, e,
            (size_t)example * joined_stride + inside, own, later);
        const float t = tanhf(candidate[e]);
        sum_i += gy * t;
        sum_f += gy * memory[(size_t)example * memory_stride + inside];
        gcandidate[e] = gy * i * (1 - t * t);
        gmemory[e] = gy * f;
    }
    sum_i = warp_sum(sum_i) * (i - i * i);
    sum_f = warp_sum(sum_f) * (f - f * f);
    if (lane == 0) {
        gfrom_memory[slot * 2] = sum_i;
        gfrom_memory[slot * 2 + 1] = sum_f;
    }
}
