// fused.layer_norm: z = x + residual,  d = z - mean(z),
// scale = 1 / sqrt(mean(d * d) + epsilon),  n = d * scale,  y = n * gain + offset.
//
// x, residual, y (rows, width), gain and offset (width,). Besides x and residual,
// backward needs mean and scale, one number a row each. It computes n again, which is
// cheaper than writing and reading it. Without a residual that pointer is not read.
//
// One warp a row. Its threads take the columns lane, lane + 32, ... in three sweeps:
// mean, variance, result. The second and the third find the row in the cache.

extern "C" __global__ void layer_norm_forward(
    const float* x, const float* residual, const float* gain, const float* offset,
    float* y, float* mean, float* scale,
    int rows, int width, int has_residual, float epsilon)
{
    const int row = blockIdx.x * (blockDim.x / WARP) + threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    if (row >= rows) return;  // a whole warp leaves, so that no thread waits for it
    x += (size_t)row * width;
    residual += has_residual ? (size_t)row * width : 0;
    y += (size_t)row * width;

    float sum = 0;
    for (int c = lane; c < width; c += WARP)
        sum += has_residual ? x[c] + residual[c] : x[c];
    const float m = warp_sum(sum) / width;
    float squares = 0;
    for (int c = lane; c < width; c += WARP) {
        const float d = (has_residual ? x[c] + residual[c] : x[c]) - m;
        squares += d * d;
    }
    const float s = 1 / sqrtf(warp_sum(squares) / width + epsilon);
    for (int c = lane; c < width; c += WARP) {
        const float d = (has_residual ? x[c] + residual[c] : x[c]) - m;
        y[c] = d * s * gain[c] + offset[c];
    }
    if (lane == 0) {
        mean[row] = m;
        scale[row] = s;
    }
}

// With h = g * gain: gx = scale * (h - mean(h) - n * mean(h * n)), which is h without
// its part along the constants and its part along n. gx is the residual's gradient too.
// ggain = sum over rows of g * n,  goffset = sum over rows of g.
//
// One warp a row again. But a warp goes through several rows, and adds up ggain and
// goffset for the columns of its threads, in shared memory that no other warp touches:
// 2 * width floats a warp. At the end the block adds up its warps in order: partial
// (blocks, 2 * width), each row ggain | goffset. `column_sums` adds up the blocks. No
// atomics: the same bits every time.

extern "C" __global__ void layer_norm_backward(
    const float* g, const float* x, const float* residual, const float* gain,
    const float* mean, const float* scale, float* gx, float* partial,
    int rows, int width, int has_residual)
{
    extern __shared__ float shared[];
    const int warps = blockDim.x / WARP, warp = threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP;
    float *ggain = shared + warp * 2 * width, *goffset = ggain + width;
    for (int c = lane; c < width; c += WARP) ggain[c] = goffset[c] = 0;

    for (int row = blockIdx.x * warps + warp; row < rows; row += gridDim.x * warps) {
        const size_t start = (size_t)row * width;
        const float m = mean[row], s = scale[row];
        float sum_h = 0, sum_hn = 0;
        for (int c = lane; c < width; c += WARP) {
            const size_t e = start + c;
            const float z = has_residual ? x[e] + residual[e] : x[e];
            const float n = (z - m) * s, gy = g[e], h = gy * gain[c];
            sum_h += h;
            sum_hn += h * n;
            ggain[c] += gy * n;
            goffset[c] += gy;
        }
        const float mean_h = warp_sum(sum_h) / width;
        const float mean_hn = warp_sum(sum_hn) / width;
        for (int c = lane; c < width; c += WARP) {
            const size_t e = start + c;
            const float z = has_residual ? x[e] + residual[e] : x[e];
            gx[e] = s * (g[e] * gain[c] - mean_h - (z - m) * s * mean_hn);
        }
    }

    __syncthreads();
    for (int c = threadIdx.x; c < 2 * width; c += blockDim.x) {
        float sum = 0;
        for (int w = 0; w < warps; w++) sum += shared[w * 2 * width + c];
        partial[(size_t)blockIdx.x * 2 * width + c] = sum;
    }
}

// matrix (rows, columns) -> sums (columns,). A block takes 32 columns, a column a lane.
// Its warps take the rows in turn; then the first warp adds up their sums, in order.

extern "C" __global__ void column_sums(
    const float* matrix, float* sums, int rows, int columns)
{
    extern __shared__ float shared[];  // (warps, 32)
    const int warps = blockDim.x / WARP, warp = threadIdx.x / WARP;
    const int lane = threadIdx.x % WARP, column = blockIdx.x * WARP + lane;
    float sum = 0;
    if (column < columns)
        for (int row = warp; row < rows; row += warps)
            sum += matrix[(size_t)row * columns + column];
    shared[warp * WARP + lane] = sum;
    __syncthreads();
    if (warp == 0 && column < columns) {
        for (int w = 1; w < warps; w++) sum += shared[w * WARP + lane];
        sums[column] = sum;
    }
}
