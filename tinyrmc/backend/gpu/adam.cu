// optim.Adam._update:
//     m = beta1 * m + (1 - beta1) * g,  v = beta2 * v + (1 - beta2) * g * g,
//     data -= rate * m^ / (sqrt(v^) + epsilon)
//     with  m^ = m / (1 - beta1^t),  v^ = v / (1 - beta2^t).
//
// All parameters are one flat array of `count`; one thread an element. The rate, t
// (`updates`, which counts this one), whether to apply the step at all (`finite`), and
// the factor that scales and clips the gradient are read from the device, so the host
// waits for nothing. rest1 and rest2 are 1 - beta1 and 1 - beta2, subtracted in double
// precision. 1 - beta^t is written as -expm1(t * log1p(-rest)), which keeps all digits,
// where 1 - pow(beta, t) would lose four.

extern "C" __global__ void adam(
    float* __restrict__ data, const float* __restrict__ gradient,
    float* __restrict__ first_moment, float* __restrict__ second_moment,
    const float* __restrict__ rate, const bool* __restrict__ finite,
    const float* __restrict__ updates, const float* __restrict__ factor,
    int count, float beta1, float rest1, float beta2, float rest2, float epsilon)
{
    const int k = blockIdx.x * blockDim.x + threadIdx.x;
    if (k >= count || !*finite) return;
    const float t = fmaxf(*updates, 1), g = gradient[k] * *factor;
    const float m = first_moment[k] = beta1 * first_moment[k] + rest1 * g;
    const float v = second_moment[k] = beta2 * second_moment[k] + rest2 * g * g;
    const float correction1 = -expm1f(t * log1pf(-rest1));
    const float correction2 = -expm1f(t * log1pf(-rest2));
    data[k] -= *rate * (m / correction1) / (sqrtf(v / correction2) + epsilon);
}

// The sum of squares of a flat array, for each block by itself: partial (blocks,). The
// same bits every time, as everywhere.

__device__ float block_sum(float x, float* shared)
{
    const int warp = threadIdx.x / WARP, lane = threadIdx.x % WARP;
    x = warp_sum(x);
    if (lane == 0) shared[warp] = x;
    __syncthreads();
    x = lane < blockDim.x / WARP ? shared[lane] : 0;
    return warp_sum(x);
}

extern "C" __global__ void squares(
    const float* __restrict__ x, float* __restrict__ partial, int count)
{
    extern __shared__ float shared[];  // a number a warp
    float sum = 0;
    for (int k = blockIdx.x * blockDim.x + threadIdx.x; k < count;
         k += gridDim.x * blockDim.x)
        sum += x[k] * x[k];
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

// optim.Optimizer._clean, in one block: from the sums of squares the norm of the scaled
// gradient; whether the step can be taken (`valid` says so too, and the norm is
// finite), which `updates` then counts; and the factor that scales the gradient and
// clips its norm at max_norm (infinite: not at all).

extern "C" __global__ void judge(
    const float* __restrict__ partial, const bool* __restrict__ valid,
    float* __restrict__ norm, bool* __restrict__ finite, float* __restrict__ updates,
    float* __restrict__ factor, int blocks, float scale, float max_norm)
{
    extern __shared__ float shared[];  // a number a warp
    float sum = 0;
    for (int k = threadIdx.x; k < blocks; k += blockDim.x) sum += partial[k];
    const float length = fabsf(scale) * sqrtf(block_sum(sum, shared));
    if (threadIdx.x > 0) return;
    const bool fine = *valid && length < INFINITE;  // nor is it NaN
    *norm = length;
    *finite = fine;
    *updates += fine;
    *factor = length > max_norm ? scale * (max_norm / length) : scale;
}
