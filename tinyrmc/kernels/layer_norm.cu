// fused.layer_norm: z = x + bias + residual,  d = z - mean(z),
// scale = 1 / sqrt(mean(d * d) + epsilon),  n = d * scale,  y = n * gain + offset.
//
// x, y (rows, width); bias, gain and offset (width,). Without a bias or a residual that
// pointer is not read. The residual's rows come in groups of `group`, `stride` floats
// from one group to the next: so the slots of a larger array can be one. Besides its
// arguments backward needs mean and scale, one number a row each. It computes n again,
// which is cheaper than writing and reading it.
//
// One warp a row. Its threads take the columns lane, lane + 32, ... in three sweeps:
// mean, variance, result. The second and the third find the row in the cache.

__device__ const float* row_of(const float* x, int row, int width, int group, int stride)
{
    return x + (size_t)(row / group) * stride + (size_t)(row % group) * width;
}

__device__ float normed(
    const float* x, const float* bias, const float* residual, int c,
    int has_bias, int has_residual)
{
    return x[c] + (has_bias ? bias[c] : 0) + (has_residual ? residual[c] : 0);
}

extern "C" __global__ void layer_norm_forward(
    const float* __restrict__ x, const float* __restrict__ bias,
    const float* __restrict__ residual, const float* __restrict__ gain,
    const float* __restrict__ offset, float* __restrict__ y,
    float* __restrict__ mean, float* __restrict__ scale,
    int rows, int width, int has_bias, int has_residual, int group, int stride,
    float epsilon)
{
    const int row = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    if (row >= rows) return;  // a whole warp leaves, so that no thread waits for it
    x += (size_t)row * width;
    y += (size_t)row * width;
    if (has_residual) residual = row_of(residual, row, width, group, stride);

    float sum = 0;
    for (int c = lane; c < width; c += WARP)
        sum += normed(x, bias, residual, c, has_bias, has_residual);
    const float m = warp_sum(sum) / width;
    float squares = 0;
    for (int c = lane; c < width; c += WARP) {
        const float d = normed(x, bias, residual, c, has_bias, has_residual) - m;
        squares += d * d;
    }
    const float s = 1 / sqrtf(warp_sum(squares) / width + epsilon);
    for (int c = lane; c < width; c += WARP) {
        const float d = normed(x, bias, residual, c, has_bias, has_residual) - m;
        y[c] = d * s * gain[c] + offset[c];
    }
    if (lane == 0) {
        mean[row] = m;
        scale[row] = s;
    }
}

// With h = g * gain: gx = scale * (h - mean(h) - n * mean(h * n)), which is h without
// its part along the constants and its part along n. gx is the residual's gradient too.
// `relu`: x came out of a ReLU, and gx_below, before it, is gx where x > 0. Otherwise
// gx_below is not written.
// ggain = sum over rows of g * n,  goffset = sum over rows of g.
//
// One warp a row again. But a warp goes through several rows, and adds up ggain and
// goffset for the columns of its threads, in shared memory that no other warp touches:
// 2 * width floats a warp. At the end the block adds up its warps in order: partial
// (blocks, 2 * width), each row ggain | goffset. `column_sums` adds up the blocks. No
// atomics: the same bits every time.

extern "C" __global__ void layer_norm_backward(
    const float* __restrict__ g, const float* __restrict__ x,
    const float* __restrict__ bias, const float* __restrict__ residual,
    const float* __restrict__ gain, const float* __restrict__ mean,
    const float* __restrict__ scale, float* __restrict__ gx,
    float* __restrict__ gx_below, float* __restrict__ partial,
    int rows, int width, int has_bias, int has_residual, int group, int stride,
    int has_below, int relu)
{
    extern __shared__ float shared[];
    const int warps = blockDim.x / WARP, warp = threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    float *ggain = shared + warp * 2 * width, *goffset = ggain + width;
    for (int c = lane; c < width; c += WARP) ggain[c] = goffset[c] = 0;

    for (int row = blockIdx.x * warps + warp; row < rows; row += gridDim.x * warps) {
        const size_t start = (size_t)row * width;
        const float *xr = x + start, *rr = residual;
        if (has_residual) rr = row_of(residual, row, width, group, stride);
        const float m = mean[row], s = scale[row];
        float sum_h = 0, sum_hn = 0;
        for (int c = lane; c < width; c += WARP) {
            const float n = (normed(xr, bias, rr, c, has_bias, has_residual) - m) * s;
            const float gy = g[start + c], h = gy * gain[c];
            sum_h += h;
            sum_hn += h * n;
            ggain[c] += gy * n;
            goffset[c] += gy;
        }
        const float mean_h = warp_sum(sum_h) / width;
        const float mean_hn = warp_sum(sum_hn) / width;
        for (int c = lane; c < width; c += WARP) {
            const float n = (normed(xr, bias, rr, c, has_bias, has_residual) - m) * s;
            const float all = s * (g[start + c] * gain[c] - mean_h - n * mean_hn);
            gx[start + c] = all;
            if (has_below) gx_below[start + c] = relu && !(xr[c] > 0) ? 0 : all;
        }
    }

    __syncthreads();
    for (int c = threadIdx.x; c < 2 * width; c += blockDim.x) {
        float sum = 0;
        for (int w = 0; w < warps; w++) sum += shared[w * 2 * width + c];
        partial[(size_t)blockIdx.x * 2 * width + c] = sum;
    }
}
