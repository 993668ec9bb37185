// fused.rmc_gates: i = sigmoid(z_i + input_bias),  f = sigmoid(z_f + forget_bias),
// next = i * tanh(candidate) + f * memory,  where z_i | z_f = from_input + from_memory.
//
// from_input (B, 1, 2 * gates), from_memory (B, N, 2 * gates), candidate, memory, next
// (B, N, width). gates = width ("unit": a gate for each unit) or 1 ("memory": one for
// each slot). Nothing is saved but the arguments: backward computes the gates again,
// which is cheaper than writing and reading them. Forward writes them out, (B, N,
// gates) each, only when asked to `keep` them.

__device__ float logistic(float x) { return 0.5f * tanhf(0.5f * x) + 0.5f; }

// One thread an element of the memory.

extern "C" __global__ void rmc_gates_forward(
    const float* from_input, const float* from_memory,
    const float* candidate, const float* memory,
    float* next, float* input_gate, float* forget_gate,
    int count, int slots, int width, int gates,
    float input_bias, float forget_bias, int keep)
{
    const int e = blockIdx.x * blockDim.x + threadIdx.x;
    if (e >= count) return;
    const int slot = e / width, unit = e % width;  // slot counts through all examples
    const int gate = gates == 1 ? 0 : unit;
    const float* a = from_input + (size_t)(slot / slots) * 2 * gates;
    const float* b = from_memory + (size_t)slot * 2 * gates;
    const float i = logistic(a[gate] + b[gate] + input_bias);
    const float f = logistic(a[gates + gate] + b[gates + gate] + forget_bias);
    next[e] = i * tanhf(candidate[e]) + f * memory[e];
    if (keep && unit < gates) {
        input_gate[slot * gates + gate] = i;
        forget_gate[slot * gates + gate] = f;
    }
}

// gz_i = g * tanh(candidate) * i * (1 - i),  gz_f = g * memory * f * (1 - f): this is
// the gradient of from_memory, and summed over the slots that of from_input.
// gcandidate = g * i * (1 - tanh(candidate)^2),  gmemory = g * f.
//
// A gate for each unit: one thread a unit of an example, through its slots in order.

extern "C" __global__ void rmc_gates_backward_unit(
    const float* g, const float* from_input, const float* from_memory,
    const float* candidate, const float* memory,
    float* gfrom_input, float* gfrom_memory, float* gcandidate, float* gmemory,
    int count, int slots, int width, float input_bias, float forget_bias)
{
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= count) return;
    const int example = k / width, unit = k % width;
    const size_t top = (size_t)example * 2 * width + unit;
    const float a_i = from_input[top] + input_bias;
    const float a_f = from_input[top + width] + forget_bias;
    float sum_i = 0, sum_f = 0;
    for (int n = 0; n < slots; n++) {
        const size_t slot = (size_t)example * slots + n;
        const size_t e = slot * width + unit, z = slot * 2 * width + unit;
        const float i = logistic(a_i + from_memory[z]);
        const float f = logistic(a_f + from_memory[z + width]);
        const float t = tanhf(candidate[e]), gy = g[e];
        const float gz_i = gy * t * (i - i * i), gz_f = gy * memory[e] * (f - f * f);
        gfrom_memory[z] = gz_i;
        gfrom_memory[z + width] = gz_f;
        sum_i += gz_i;
        sum_f += gz_f;
        gcandidate[e] = gy * i * (1 - t * t);
        gmemory[e] = gy * f;
    }
    gfrom_input[top] = sum_i;
    gfrom_input[top + width] = sum_f;
}

// One gate for each slot: it moved all units, so gz sums over them. One warp a slot.
// The few numbers of gz are summed over the slots where broadcasting is undone.

extern "C" __global__ void rmc_gates_backward_memory(
    const float* g, const float* from_input, const float* from_memory,
    const float* candidate, const float* memory,
    float* gfrom_memory, float* gcandidate, float* gmemory,
    int all_slots, int slots, int width, float input_bias, float forget_bias)
{
    const int slot = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    if (slot >= all_slots) return;  // a whole warp leaves
    const float *a = from_input + slot / slots * 2, *b = from_memory + slot * 2;
    const float i = logistic(a[0] + b[0] + input_bias);
    const float f = logistic(a[1] + b[1] + forget_bias);
    float sum_i = 0, sum_f = 0;
    for (int c = lane; c < width; c += WARP) {
        const size_t e = (size_t)slot * width + c;
        const float t = tanhf(candidate[e]), gy = g[e];
        sum_i += gy * t;
        sum_f += gy * memory[e];
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
