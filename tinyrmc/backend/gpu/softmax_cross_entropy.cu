// fused.softmax_cross_entropy: loss = log(total) - (logits[target] - top), where top =
// max(logits), total = sum of exp(logits - top).
//
// logits (rows, classes), targets and losses (rows,). One warp a row; its threads take
// the classes lane, lane + 32, ... A target out of range makes the loss and the
// gradient of its row NaN: no thread reads outside the array, and an optimizer refuses
// the step. Nothing is saved but the arguments.

__device__ bool known(long long target, int classes)
{
    return target >= 0 && target < classes;
}

__device__ void softmax_parts(
    const float* logits, int classes, int lane, float* top, float* total)
{
    float most = -INFINITE, sum = 0;
    for (int c = lane; c < classes; c += WARP) most = fmaxf(most, logits[c]);
    most = warp_max(most);
    for (int c = lane; c < classes; c += WARP) sum += expf(logits[c] - most);
    *top = most;
    *total = warp_sum(sum);
}

extern "C" __global__ void softmax_cross_entropy_forward(
    const float* __restrict__ logits, const long long* __restrict__ targets,
    float* __restrict__ losses, int rows, int classes)
{
    const int row = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    if (row >= rows) return;  // a whole warp leaves
    logits += (size_t)row * classes;
    float top, total;
    softmax_parts(logits, classes, lane, &top, &total);
    const long long target = targets[row];
    if (lane == 0)
        losses[row] = known(target, classes) ? logf(total) - (logits[target] - top)
                                             : nanf("");
}

// glogits = (exp(logits - top) / total - (class is target)) * g, with g (rows,).

extern "C" __global__ void softmax_cross_entropy_backward(
    const float* __restrict__ g, const float* __restrict__ logits,
    const long long* __restrict__ targets, float* __restrict__ glogits,
    int rows, int classes)
{
    const int row = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    if (row >= rows) return;  // a whole warp leaves
    logits += (size_t)row * classes;
    glogits += (size_t)row * classes;
    float top, total;
    softmax_parts(logits, classes, lane, &top, &total);
    const long long target = targets[row];
    const float scale = known(target, classes) ? g[row] : nanf("");
    for (int c = lane; c < classes; c += WARP) {
        const float prob = expf(logits[c] - top) / total;
        glogits[c] = (prob - (c == target ? 1.0f : 0.0f)) * scale;
    }
}
